//! One file a channel airs, frozen when the revision was made.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::Break;
use super::cut::{Cut, Look, Spans};

/// One file of a revision with its length frozen: a file that changes later does not move what follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Hash of the path and of the number of earlier items with the same path; the same in every revision.
    pub id: u64,
    pub path: String,
    pub title: String,
    /// Above zero.
    pub duration_ms: i64,
    /// 1 to 100; used by `Mode::Weighted`.
    pub weight: u32,
    #[serde(rename = "cut", default)]
    pub cut: Cut,
    #[serde(rename = "look", default)]
    pub look: Look,
    /// Possible break positions, if the channel has mid-roll filler.
    #[serde(default, skip_serializing_if = "is_whole")]
    pub breaks: Box<[Break]>,
}

impl Item {
    /// The show the item belongs to: its folder.
    pub fn show(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The segments of the first `aired_ms` of a part, or of the whole item if no part is given.
    pub fn spans(&self, part: Option<u16>, aired_ms: i64) -> Spans {
        self.cut.spans(self.part(part), aired_ms)
    }

    /// The number of those segments.
    pub fn segments(&self, part: Option<u16>, aired_ms: i64) -> u64 {
        let of = self.part(part);
        match aired_ms == of.duration_ms() {
            true => (of.until - of.first) as u64,
            false => self.cut.spans(of, aired_ms).len() as u64,
        }
    }
}

fn is_whole(breaks: &[Break]) -> bool {
    breaks.is_empty()
}

/// The items of a revision. Each item is in memory once, however many revisions and channels air it.
pub type Items = Arc<[Arc<Item>]>;

/// Sets the items' ids.
pub fn itemize(mut items: Vec<Item>) -> Items {
    let mut seen: HashMap<String, u64> = HashMap::new();
    for item in &mut items {
        let before = seen.entry(item.path.clone()).or_default();
        let mut hasher = blake3::Hasher::new();
        hasher.update(item.path.as_bytes()).update(&before.to_le_bytes());
        item.id = u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("eight of thirty-two"));
        *before += 1;
    }
    items.into_iter().map(Arc::new).collect()
}
