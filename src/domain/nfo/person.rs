//! People in an NFO file.

use serde::{Deserialize, Serialize};

use super::element::Element;
use super::fields::{MAX_NAME_CHARS, split_list};

/// Most people of a record.
pub(super) const MAX_PEOPLE: usize = 64;

named_values! {
    /// The part that a person had.
    pub enum PersonKind {
        Actor = "actor",
        Director = "director",
        Writer = "writer",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    pub name: String,
    /// The character of an actor.
    pub role: Option<String>,
    pub kind: PersonKind,
}

impl Person {
    /// Directors, writers, then actors in their order.
    pub(super) fn of_record(record: &Element) -> Vec<Self> {
        let crew = |names: &'static [&'static str], kind| {
            let elements = names.iter().flat_map(|name| record.children_named(name));
            elements.flat_map(split_list).map(move |name| Self { name, role: None, kind })
        };
        let mut people: Vec<Self> = Vec::new();
        let actors = record.children_named("actor").filter_map(|actor| {
            let name = actor.child_text("name", MAX_NAME_CHARS)?;
            Some(Self { name, role: actor.child_text("role", MAX_NAME_CHARS), kind: PersonKind::Actor })
        });
        let crew = crew(&["director"], PersonKind::Director).chain(crew(&["credits", "writer"], PersonKind::Writer));
        for person in crew.chain(actors) {
            if people.len() >= MAX_PEOPLE {
                break;
            }
            if !people.contains(&person) {
                people.push(person);
            }
        }
        people
    }

    pub(super) fn weight_bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.role.as_ref().map_or(0, String::len)
    }
}
