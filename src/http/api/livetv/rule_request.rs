//! Rules by which a channel's items follow the library, in request and response bodies.

use crate::domain::catalogue::{ItemKind, SeriesId};
use crate::domain::channel_rule::{ItemRule, MAX_CONDITIONS, MAX_RULE_ITEMS, MAX_VALUE_BYTES, RuleCondition};
use crate::http::api::library::items::parse_years;
use crate::http::api::prelude::*;

/// A rule that selects items of the library, again after each change of it.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRequest {
    #[serde(flatten)]
    condition: ConditionRequest,
    /// At most this many items, 1 to 5000 (default): the first in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    /// More conditions; all apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    and: Vec<ConditionRequest>,
}

/// A condition of a rule.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRequest {
    /// `folder`, `genre`, `series`, `year`, `person`, `itemKind`, `playlist`, `newest` or `unwatched`.
    kind: String,
    /// The path of a folder, whose subfolders count; the name of a genre or person; the id of a series (`s_...`); a year or a
    /// range of years (`1980-1989`); a kind of items (`film`); the path of an M3U or PLS file, whose order counts. Absent for `newest` (newest first) and `unwatched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Of `unwatched`: the user who has not started the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
}

impl RuleRequest {
    pub fn from_rule(rule: &ItemRule) -> Self {
        let mut conditions = rule.conditions.iter().map(ConditionRequest::from_condition);
        let first = conditions.next();
        let condition = first.unwrap_or_else(|| ConditionRequest::new("newest", None));
        let count = Some(rule.max_items).filter(|count| *count < MAX_RULE_ITEMS);
        Self { condition, count, and: conditions.collect() }
    }

    pub fn into_rule(self, at: &str) -> Result<ItemRule> {
        check_integer(&format!("{at}.count"), self.count, 1..=MAX_RULE_ITEMS)?;
        if self.and.len() >= MAX_CONDITIONS {
            let message = format!("must have at most {} conditions", MAX_CONDITIONS - 1);
            return Err(Error::invalid_field(&format!("{at}.and"), message));
        }
        let mut conditions = vec![self.condition.into_condition(at)?];
        for (index, condition) in self.and.into_iter().enumerate() {
            conditions.push(condition.into_condition(&format!("{at}.and[{index}]"))?);
        }
        Ok(ItemRule { conditions, max_items: self.count.unwrap_or(MAX_RULE_ITEMS) })
    }
}

impl ConditionRequest {
    fn new(kind: &str, value: Option<String>) -> Self {
        Self { kind: kind.to_owned(), value, user_id: None }
    }

    fn from_condition(condition: &RuleCondition) -> Self {
        match condition {
            RuleCondition::Folder(path) => Self::new("folder", Some(path.to_string())),
            RuleCondition::Genre(genre) => Self::new("genre", Some(genre.to_string())),
            RuleCondition::Series(id) => Self::new("series", Some(id.to_string())),
            RuleCondition::Years(first, last) if first == last => Self::new("year", Some(first.to_string())),
            RuleCondition::Years(first, last) => Self::new("year", Some(format!("{first}-{last}"))),
            RuleCondition::Person(person) => Self::new("person", Some(person.to_string())),
            RuleCondition::ItemKind(kind) => Self::new("itemKind", Some(kind.as_str().to_owned())),
            RuleCondition::Playlist(path) => Self::new("playlist", Some(path.to_string())),
            RuleCondition::Newest => Self::new("newest", None),
            RuleCondition::Unwatched(user_id) => {
                Self { user_id: Some(user_id.to_string()), ..Self::new("unwatched", None) }
            }
        }
    }

    fn into_condition(self, at: &str) -> Result<RuleCondition> {
        let invalid = |field: &str, message: &str| Error::invalid_field(&format!("{at}.{field}"), message);
        let text = |field: &str, text: Option<String>| {
            let is_text = |text: &String| !text.trim().is_empty() && text.len() <= MAX_VALUE_BYTES;
            let message = format!("must have 1 to {MAX_VALUE_BYTES} bytes");
            text.filter(is_text).ok_or_else(|| invalid(field, &message))
        };
        match &*self.kind {
            "newest" => return Ok(RuleCondition::Newest),
            "unwatched" => return Ok(RuleCondition::Unwatched(text("userId", self.user_id)?.into())),
            _ => {}
        }
        let value = || text("value", self.value.clone());
        Ok(match &*self.kind {
            "folder" => RuleCondition::Folder(value()?.into()),
            "playlist" => RuleCondition::Playlist(value()?.into()),
            "genre" => RuleCondition::Genre(value()?.into()),
            "person" => RuleCondition::Person(value()?.into()),
            "series" => {
                let id = SeriesId::parse(&value()?);
                RuleCondition::Series(
                    id.ok_or_else(|| invalid("value", "must be the id of a series, which begins with s_"))?,
                )
            }
            "year" => {
                let (first, last) = parse_years(&value()?)
                    .ok_or_else(|| invalid("value", "must be a year or a range of years: 1980-1989"))?;
                RuleCondition::Years(first, last)
            }
            "itemKind" => {
                let kind = ItemKind::parse(&value()?);
                let message = "must be film, episode, music, audiobook, homeVideo or extra";
                RuleCondition::ItemKind(kind.ok_or_else(|| invalid("value", message))?)
            }
            _ => {
                let message = "must be folder, genre, series, year, person, itemKind, playlist, newest or unwatched";
                return Err(invalid("kind", message));
            }
        })
    }
}
