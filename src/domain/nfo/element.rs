//! An XML element with its children, in memory.

use crate::domain::m3u::parse::clean_text;

#[derive(Debug, Default)]
pub(super) struct Element {
    /// Without its namespace.
    pub name: String,
    pub attributes: Vec<(String, String)>,
    /// Its own text, without that of its children.
    pub text: String,
    pub children: Vec<Self>,
}

impl Element {
    /// The children of this name.
    pub(super) fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Its own text in one line of at most `max_chars` characters; None if that is empty.
    pub(super) fn own_text(&self, max_chars: usize) -> Option<String> {
        Some(clean_text(&self.text, max_chars)).filter(|text| !text.is_empty())
    }

    /// The text of the first child of this name that has any.
    pub(super) fn child_text(&self, name: &str, max_chars: usize) -> Option<String> {
        self.children_named(name).find_map(|child| child.own_text(max_chars))
    }

    /// The number at the start of a child's text: `142` of `142 min`.
    pub(super) fn child_number(&self, name: &str) -> Option<u32> {
        let text = self.child_text(name, 20)?;
        let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    }
}
