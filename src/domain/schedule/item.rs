//! One file a channel airs, frozen when the revision was made.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::BreakPosition;
use super::item_description::ItemDescription;
use super::item_languages::ItemLanguages;
use super::segmentation::{Segmentation, VideoFormat};

/// One file of a revision with its length frozen: a file that changes later does not move what follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleItem {
    /// Hash of the path and of the number of earlier items with the same path; the same in every revision.
    pub id: u64,
    pub path: String,
    pub title: String,
    /// Above zero.
    pub duration_ms: i64,
    /// 1 to 100; used by `ScheduleMode::Weighted`.
    pub weight: u32,
    #[serde(rename = "cut", default)]
    pub segmentation: Segmentation,
    #[serde(rename = "look", default)]
    pub video_format: VideoFormat,
    /// Possible break positions, if the channel has mid-roll filler.
    #[serde(default, skip_serializing_if = "<[BreakPosition]>::is_empty")]
    pub breaks: Box<[BreakPosition]>,
    /// From its NFO file when the item was measured; None without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<ItemDescription>>,
    /// Of its tracks when the item was measured; None without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<Box<ItemLanguages>>,
}

impl ScheduleItem {
    /// The show the item belongs to: its folder.
    pub fn show_folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The number of segments of the first `aired_ms` of a part, or of the whole item if no part is given.
    pub fn segment_count(&self, part: Option<u16>, aired_ms: i64) -> u64 {
        let part = self.part(part);
        match aired_ms == part.duration_ms() {
            true => (part.end_segment - part.first_segment) as u64,
            false => self.segmentation.ranges(part, aired_ms).len() as u64,
        }
    }
}

/// The items of a revision. Each item is in memory once, however many revisions and channels air it.
pub type ScheduleItems = Arc<[Arc<ScheduleItem>]>;

pub fn assign_ids(mut items: Vec<ScheduleItem>) -> ScheduleItems {
    let mut occurrences: HashMap<String, u64> = HashMap::new();
    for item in &mut items {
        let earlier = occurrences.entry(item.path.clone()).or_default();
        let mut hasher = blake3::Hasher::new();
        hasher.update(item.path.as_bytes()).update(&earlier.to_le_bytes());
        item.id = crate::domain::hash_to_u64(hasher.finalize());
        *earlier += 1;
    }
    items.into_iter().map(Arc::new).collect()
}
