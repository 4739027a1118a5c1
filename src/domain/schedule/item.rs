//! One thing a channel airs, as it was when the revision was made.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::Break;
use super::cut::{Cut, Look, Spans};

/// One file of a revision, its length frozen: a file that changes later does not move what comes behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Of the path, and of how often that came before: the same in every revision.
    pub id: u64,
    pub path: String,
    pub title: String,
    /// Above zero.
    pub duration_ms: i64,
    /// 1 to 100; what `weighted` goes by.
    pub weight: u32,
    #[serde(default)]
    pub cut: Cut,
    #[serde(default)]
    pub look: Look,
    /// Where it may be broken, on a channel that has filler for that.
    #[serde(default, skip_serializing_if = "is_whole")]
    pub breaks: Box<[Break]>,
}

impl Item {
    /// What the item is an episode of: the folder it lies in.
    pub fn show(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The segments of so much of a part of it as is aired; of all of it where no part is named.
    pub fn spans(&self, part: Option<u16>, aired_ms: i64) -> Spans {
        self.cut.spans(self.part(part), aired_ms)
    }

    /// How many those are.
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

/// What a revision airs: each item is held once, whatever revisions and channels air it.
pub type Items = Arc<[Arc<Item>]>;

/// Gives items their ids.
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
