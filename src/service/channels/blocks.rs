//! Items of `blocks` channels (schedules by the clock), found and measured.

use std::ops::Range;
use std::sync::Arc;

use super::items::ItemSearch;
use crate::domain::channel::{Channel, RequestedBlocks, RequestedFiller, RequestedItem};
use crate::domain::schedule::blocks::{BlockSchedule, BlockSource, DayCache, FillerRanges};
use crate::domain::schedule::segmentation::audio_segmentation;
use crate::domain::schedule::{ScheduleItem, ScheduleItems, ScheduleMode, assign_ids_after};
use crate::error::{Error, Result};
use crate::service::Service;

/// Files of one channel at most.
const MAX_FILES: usize = 5000;

/// The slate's title in guides that list filler.
const SLATE_TITLE: &str = "Back soon";

/// Longer than any broadcast day, ms: a slate never ends before its programme does.
const SLATE_MS: i64 = 48 * 3600 * 1000;

/// The requested schedule and filler of a channel, checked. Channels of other modes have no schedule, and no filler except
/// `mid`.
///
/// # Errors
/// `VALIDATION_ERROR` for a schedule that is missing, or that this mode does not use.
pub(super) fn resolve_schedule(
    previous: Option<&Channel>,
    blocks: Option<Box<RequestedBlocks>>,
    filler: Option<RequestedFiller>,
    mode: ScheduleMode,
) -> Result<(Option<Box<RequestedBlocks>>, Arc<RequestedFiller>)> {
    if mode != ScheduleMode::Blocks {
        if blocks.is_some() {
            return Err(Error::invalid_field("schedule", "requires scheduleMode blocks"));
        }
        // These modes have no gaps between programmes, so only mid-roll filler applies.
        let mid_only =
            |filler: &RequestedFiller| RequestedFiller { mid: filler.mid.clone(), ..RequestedFiller::default() };
        if let Some(filler) = &filler
            && *filler != RequestedFiller::default()
            && *filler != (RequestedFiller { cooldown_ms: filler.cooldown_ms, ..mid_only(filler) })
        {
            return Err(Error::invalid_field("filler", "may only contain mid unless scheduleMode is blocks"));
        }
        let filler = filler.as_ref().or(previous.map(|previous| &*previous.requested_filler));
        return Ok((None, Arc::new(filler.map(mid_only).unwrap_or_default())));
    }
    let blocks = blocks.or_else(|| previous.and_then(|previous| previous.requested_blocks.clone()));
    let blocks = blocks.ok_or_else(|| Error::invalid_field("schedule", "is required for scheduleMode blocks"))?;
    let filler = filler.map(Arc::new).or_else(|| previous.map(|previous| previous.requested_filler.clone()));
    Ok((Some(blocks), filler.unwrap_or_default()))
}

impl Service {
    /// The items of a schedule and its filler, each with its length, and the range of each kind among them.
    ///
    /// # Errors
    /// Those of [`Self::channel_items`]; `VALIDATION_ERROR` for too many.
    pub(super) async fn block_items(
        &self,
        requested_blocks: &RequestedBlocks,
        filler: &RequestedFiller,
        zone: &str,
        search: &ItemSearch<'_>,
    ) -> Result<(ScheduleItems, BlockSchedule)> {
        let mut items: Vec<ScheduleItem> = Vec::new();
        let mut sources = Vec::new();
        let may_have_breaks = !filler.mid.is_empty();
        for (name, requested_items) in &requested_blocks.sources {
            sources.push(BlockSource {
                name: name.clone(),
                items: self.add_items(&mut items, requested_items, search, may_have_breaks).await?,
            });
        }
        let content_count = items.len() as u32;
        let filler_ranges = FillerRanges {
            pre: self.add_items(&mut items, &filler.pre, search, false).await?,
            mid: self.add_items(&mut items, &filler.mid, search, false).await?,
            post: self.add_items(&mut items, &filler.post, search, false).await?,
            tail: self.add_items(&mut items, &filler.tail, search, false).await?,
            fallback: self.add_items(&mut items, &filler.fallback, search, false).await?,
            cooldown_ms: filler.cooldown_ms,
        };
        let slate_index = items.len() as u32;
        items.push(ScheduleItem {
            title: SLATE_TITLE.to_owned(),
            duration_ms: SLATE_MS,
            weight: 1,
            segmentation: audio_segmentation(SLATE_MS as f64 / 1000.0),
            ..ScheduleItem::default()
        });
        let schedule = BlockSchedule {
            zone: zone.to_owned(),
            grid: requested_blocks.grid.clone(),
            sources,
            filler: filler_ranges,
            programme_count: content_count,
            slate_item: slate_index,
            start_positions: vec![0; requested_blocks.grid.streams().len()],
            day_cache: DayCache::default(),
        };
        Ok((assign_ids_after(&search.earlier, items), schedule))
    }

    /// The items of a cycle, followed by its mid-roll items, and the number of the latter.
    ///
    /// # Errors
    /// As [`Self::block_items`].
    pub(super) async fn cycle_items(
        &self,
        requested_items: &[RequestedItem],
        filler: &RequestedFiller,
        search: &ItemSearch<'_>,
    ) -> Result<(ScheduleItems, u32)> {
        let mut items = self.channel_items(requested_items, search, !filler.mid.is_empty()).await?;
        let mid_rolls = self.add_items(&mut items, &filler.mid, search, false).await?;
        Ok((assign_ids_after(&search.earlier, items), mid_rolls.end - mid_rolls.start))
    }

    async fn add_items(
        &self,
        items: &mut Vec<ScheduleItem>,
        requested_items: &[RequestedItem],
        search: &ItemSearch<'_>,
        may_have_breaks: bool,
    ) -> Result<Range<u32>> {
        let start = items.len() as u32;
        if !requested_items.is_empty() {
            items.extend(self.channel_items(requested_items, search, may_have_breaks).await?);
        }
        if items.len() > MAX_FILES {
            let message = format!("contain more than {MAX_FILES} files including the filler");
            return Err(Error::invalid_field("items", message));
        }
        Ok(start..items.len() as u32)
    }
}
