//! Rules by which a channel's items follow the library.

use serde::{Deserialize, Serialize};

use super::catalogue::{ItemKind, SeriesId};

/// Most items that one rule selects.
pub const MAX_RULE_ITEMS: u32 = 5000;

/// Most conditions of one rule.
pub const MAX_CONDITIONS: usize = 8;

/// Longest text of a condition, bytes.
pub const MAX_VALUE_BYTES: usize = 512;

/// Selects items of the library, again after each change of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ItemRule {
    /// At least one; all apply.
    pub conditions: Vec<RuleCondition>,
    /// The first of the items in their order, at most [`MAX_RULE_ITEMS`].
    pub max_items: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleCondition {
    /// At or below this path.
    Folder(Box<str>),
    Genre(Box<str>),
    Series(SeriesId),
    /// First and last year.
    Years(u32, u32),
    Person(Box<str>),
    ItemKind(ItemKind),
    /// The order: newest first, instead of by title.
    Newest,
    /// Listed by the playlist file at this path, in its order.
    Playlist(Box<str>),
    /// Not begun by the user with this id.
    Unwatched(Box<str>),
}

impl ItemRule {
    /// Whether the items also change when this happens: a user watches something.
    pub fn depends_on_progress(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition, RuleCondition::Unwatched(_)))
    }

    pub fn is_newest_first(&self) -> bool {
        self.conditions.contains(&RuleCondition::Newest)
    }

    /// Whether extras are selected as well: only by a rule that names their folder, their kind or themselves.
    pub fn includes_extras(&self) -> bool {
        let names_extras = |condition: &RuleCondition| {
            matches!(
                condition,
                RuleCondition::Folder(_) | RuleCondition::Playlist(_) | RuleCondition::ItemKind(ItemKind::Extra)
            )
        };
        self.conditions.iter().any(names_extras)
    }
}
