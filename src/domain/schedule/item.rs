//! One file a channel airs, frozen when the revision was made.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::BreakPosition;
use super::item_copy::ItemCopy;
use super::item_description::ItemDescription;
use super::item_languages::ItemLanguages;
use super::segmentation::{Segmentation, VideoFormat};
use crate::domain::catalogue::ItemId;

/// One file of a revision with its length frozen: a file that changes later does not move what follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleItem {
    /// Hash of the path and of the number of earlier items with the same path; the same in every revision, also after the
    /// file was renamed.
    pub id: u64,
    pub path: String,
    /// Identity of its content, by which the file is found after a rename; None in items of versions before 0.3.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ItemId>,
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
    /// How it is copied for clients that decode it, if it is encoded for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Box<ItemCopy>>,
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

/// Gives new items their ids.
pub fn assign_ids(items: Vec<ScheduleItem>) -> ScheduleItems {
    assign_ids_after(&[], items)
}

/// Gives items their ids. An item whose content is in one of the earlier lists keeps the id that it has there; the newest list
/// comes first.
pub fn assign_ids_after(earlier: &[ScheduleItems], mut items: Vec<ScheduleItem>) -> ScheduleItems {
    let mut known: HashMap<ItemId, VecDeque<u64>> = HashMap::new();
    for list in earlier {
        let mut of_list: HashMap<ItemId, VecDeque<u64>> = HashMap::new();
        for item in list.iter() {
            if let Some(content) = item.content.filter(|content| !known.contains_key(content)) {
                of_list.entry(content).or_default().push_back(item.id);
            }
        }
        known.extend(of_list);
    }
    let mut used_ids: HashSet<u64> = HashSet::new();
    let mut has_id = vec![false; items.len()];
    for (item, has_id) in items.iter_mut().zip(&mut has_id) {
        let inherited = item.content.and_then(|content| known.get_mut(&content)?.pop_front());
        if let Some(id) = inherited.filter(|id| used_ids.insert(*id)) {
            (item.id, *has_id) = (id, true);
        }
    }
    let mut occurrences: HashMap<String, u64> = HashMap::new();
    for item in items.iter_mut().zip(&has_id).filter(|(_, has_id)| !**has_id).map(|(item, _)| item) {
        let earlier = occurrences.entry(item.path.clone()).or_default();
        loop {
            let mut hasher = blake3::Hasher::new();
            hasher.update(item.path.as_bytes()).update(&earlier.to_le_bytes());
            item.id = crate::domain::hash_to_u64(hasher.finalize());
            *earlier += 1;
            if used_ids.insert(item.id) {
                break;
            }
        }
    }
    items.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str, content: u32) -> ScheduleItem {
        let content = ItemId::parse(&format!("f_{content:032x}"));
        ScheduleItem { path: path.to_owned(), content, ..ScheduleItem::default() }
    }

    fn ids(items: &ScheduleItems) -> Vec<u64> {
        items.iter().map(|item| item.id).collect()
    }

    #[test]
    fn renamed_items_keep_their_ids_and_no_two_are_equal() {
        let before = assign_ids(vec![item("/a", 1), item("/b", 2), item("/a", 1)]);
        let [a, b, second] = ids(&before)[..] else { panic!("three ids") };
        assert!(a != second && a != b);
        // Two files that took each other's name, and a new one at a former path.
        let after = assign_ids_after(std::slice::from_ref(&before), vec![item("/b", 1), item("/a", 2), item("/c", 1)]);
        assert_eq!(ids(&after), [a, b, second]);
        let after = assign_ids_after(std::slice::from_ref(&before), vec![item("/z", 1), item("/a", 3)]);
        assert!(ids(&after)[0] == a && ids(&after)[1] != a);
        // Left out in between.
        let between = assign_ids_after(std::slice::from_ref(&before), vec![item("/b", 2)]);
        assert_eq!(ids(&assign_ids_after(&[between, before], vec![item("/y", 1)])), [a]);
    }
}
