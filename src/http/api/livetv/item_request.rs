//! Files and folders of a channel in request and response bodies.

use super::rule_request::RuleRequest;
use crate::domain::channel::{ItemSource, RequestedItem};
use crate::http::api::prelude::*;

/// Most items of one list; a folder counts as one.
pub const MAX_ITEMS: usize = 5000;

const MAX_TITLE_BYTES: usize = 512;

/// A file, a folder that stands for the files in it when the channel is changed, or a rule.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct ItemRequest {
    /// Absolute path inside a library root; instead of a `rule`.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Selects items of the library and follows its changes; instead of a `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<RuleRequest>,
    /// Title of a file; default: derived from its name.
    title: Option<String>,
    /// Relative frequency in `weighted` mode, 1 (default) to 100.
    weight: Option<u32>,
    /// Include subfolders. Default false.
    recursive: Option<bool>,
    /// Order of the files in a folder. `name`, the only value: natural order of the file names.
    order: Option<String>,
}

pub fn validate_items(field: &str, items: Vec<ItemRequest>) -> Result<Vec<RequestedItem>> {
    if items.len() > MAX_ITEMS {
        return Err(Error::invalid_field(field, format!("must have at most {MAX_ITEMS} entries")));
    }
    items.into_iter().enumerate().map(|(index, item)| item.into_requested_item(&format!("{field}[{index}]"))).collect()
}

impl ItemRequest {
    pub fn from_item(item: &RequestedItem) -> Self {
        Self {
            path: item.path().map(str::to_owned),
            rule: item.rule().map(RuleRequest::from_rule),
            title: item.title.as_deref().map(str::to_owned),
            weight: Some(item.weight),
            recursive: Some(item.recursive),
            order: None,
        }
    }

    fn into_requested_item(self, at: &str) -> Result<RequestedItem> {
        let invalid = |field: &str, message: String| Err(Error::invalid_field(&format!("{at}.{field}"), message));
        check_integer(&format!("{at}.weight"), self.weight, 1..=100)?;
        if let Some(title) = &self.title
            && (title.trim().is_empty() || title.len() > MAX_TITLE_BYTES || title.chars().any(char::is_control))
        {
            return invalid("title", format!("must be 1 to {MAX_TITLE_BYTES} bytes without control characters"));
        }
        if self.order.is_some_and(|order| order != "name") {
            return invalid("order", "must be name".to_owned());
        }
        let source = match (self.path, self.rule) {
            (Some(path), None) => ItemSource::Path(path.into()),
            (None, Some(rule)) if self.title.is_none() => {
                ItemSource::Rule(Box::new(rule.into_rule(&format!("{at}.rule"))?))
            }
            (None, Some(_)) => return invalid("title", "is only for a path".to_owned()),
            (None, None) => return invalid("path", "is missing".to_owned()),
            (Some(_), Some(_)) => return invalid("rule", "must be absent where path is given".to_owned()),
        };
        let (title, weight) = (self.title.map(Into::into), self.weight.unwrap_or(1));
        Ok(RequestedItem { source, recursive: self.recursive.unwrap_or(false), title, weight })
    }
}
