//! Whether an item is aired for the first time.

use std::collections::HashSet;

use super::{Programme, ScheduleDefinition};
use crate::domain::time::ChannelMs;

/// Marks of programmes in a guide, given in their order.
#[derive(Clone, Debug)]
pub struct NoveltyMarks {
    /// Items that were aired before; None if all of them were.
    aired_items: Option<HashSet<u64>>,
    /// Item of the previous part and its mark: the parts of a broken programme share one.
    last_part: Option<(u64, bool)>,
}

impl NoveltyMarks {
    /// For a guide between two instants.
    pub fn new(definition: &ScheduleDefinition, from_ms: ChannelMs, to_ms: ChannelMs) -> Self {
        Self { aired_items: definition.items_aired_before(from_ms, to_ms), last_part: None }
    }

    /// Whether the next programme of the guide is the first airing of its item.
    pub fn is_new(&mut self, definition: &ScheduleDefinition, programme: &Programme) -> bool {
        let id = definition.item_of(programme).id;
        let is_continued = programme.continues_programme && programme.part_index.is_some();
        let previous_mark = self.last_part.filter(|(of, _)| is_continued && *of == id);
        let is_new = match previous_mark {
            Some((_, is_new)) => is_new,
            None => self.aired_items.as_mut().is_some_and(|aired| aired.insert(id)),
        };
        if programme.part_index.is_some() {
            self.last_part = Some((id, is_new));
        }
        is_new
    }
}
