//! The varieties of a channel in fMP4: for a client that decodes the video of an item, the item is copied, on segments that begin
//! at its keyframes; for all others it is encoded. Both are functions of the schedule.
//!
//! A variety is the same schedule with other segments: programmes keep their starts, ends and ordinals. Sums of segments
//! differ, so a revision freezes by how many they differ before it, for each class of video alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::segmentation::{KeyframeBounds, Segmentation, VideoFormat};
use super::{Programme, ProgrammeIter, ScheduleDefinition, ScheduleItem, ScheduleItems, ScheduleRevision};
use crate::domain::media::Hdr;
use crate::domain::time::ChannelMs;
use crate::domain::video_class::{VideoClass, VideoClasses};

/// `EXT-X-TARGETDURATION` of playlists with copied items, seconds: encoders of HEVC place keyframes 250 frames apart, which at
/// 24 frames a second is 10.4 s. Items with longer segments are encoded.
pub const COPIED_TARGET_SECONDS: u64 = 10;

/// How an item that is encoded for most clients is copied for those that decode it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCopy {
    pub class: VideoClass,
    /// Its segments, from the same time 0 as those of the encoded item.
    #[serde(rename = "cut")]
    pub bounds: KeyframeBounds,
    /// ffmpeg's number of the stream.
    pub stream: u32,
    /// The id of its init segment, [`InitId`](crate::domain::playlist::InitId).
    pub init: u64,
    /// RFC 6381.
    pub codecs: String,
    /// Pixels, as coded.
    pub width: u32,
    pub height: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdr: Option<Hdr>,
    /// Peak bit rate, kbit/s.
    pub kbps: u32,
}

/// The position of a revision in the varieties of a channel, as far as it differs from that in MPEG-TS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedStart {
    /// Discontinuities before it and at its start, one at the start of every programme.
    #[serde(rename = "changes")]
    discontinuities: u64,
    /// By how many the segments before it are more if the items of a class are copied.
    #[serde(rename = "segments", default, skip_serializing_if = "Vec::is_empty")]
    more_segments: Vec<(VideoClass, i64)>,
}

impl ScheduleItem {
    /// The copy that is aired instead of encoded video: in a variety, of an item that is copied there.
    pub fn aired_copy(&self) -> Option<&ItemCopy> {
        self.copy.as_deref().filter(|_| matches!(self.segmentation, Segmentation::Keyframes(_)))
    }

    /// Whether the bounds of its segments, or of its copy's, were lost.
    pub fn has_lost_bounds(&self) -> bool {
        self.segmentation.has_lost_bounds() || self.copy.as_ref().is_some_and(|copy| copy.bounds.bounds.is_none())
    }

    /// The item as it is aired where these classes are copied.
    fn with_copies(self: &Arc<Self>, classes: VideoClasses) -> Arc<Self> {
        let Some(copy) = self.copy.as_ref().filter(|copy| classes.contains(copy.class)) else { return self.clone() };
        let (width, height) = (copy.width, copy.height);
        // Without a space, so that nothing is read as a pixel aspect.
        let video_format = VideoFormat { width, height, profile_and_aspect: format!("{:016x}", copy.init) };
        let segmentation = Segmentation::Keyframes(copy.bounds.clone());
        Arc::new(Self { segmentation, video_format, ..(**self).clone() })
    }
}

impl ScheduleRevision {
    fn with_copies(&self, classes: VideoClasses) -> Self {
        let start = self.copied_start.as_deref();
        let more_segments = start.map_or(&[][..], |start| &start.more_segments);
        let more = more_segments.iter().filter(|(class, _)| classes.contains(*class)).map(|(_, count)| count).sum();
        Self {
            items: self.items.iter().map(|item| item.with_copies(classes)).collect(),
            first_sequence: self.first_sequence.saturating_add_signed(more),
            first_discontinuity: start.map_or(self.first_discontinuity, |start| start.discontinuities),
            marks_every_start: true,
            // With an empty day cache.
            blocks: self.blocks.as_ref().map(|blocks| Arc::new((**blocks).clone())),
            ..self.clone()
        }
    }
}

impl ScheduleDefinition {
    /// The classes of all items that can be copied.
    pub fn copyable_classes(&self) -> VideoClasses {
        self.revisions.iter().flat_map(|revision| copyable_classes(&revision.items)).collect()
    }

    /// The schedule with the items of these classes copied. Every start of a programme is a discontinuity.
    #[must_use]
    pub fn with_copies(&self, classes: VideoClasses) -> Self {
        Self { revisions: self.revisions.iter().map(|revision| revision.with_copies(classes)).collect() }
    }

    /// The position of a revision that begins at `at_ms` with `next_items`, in the varieties; None if nothing was or will be
    /// copied. `first_sequence` is that of the new revision.
    pub(super) fn copied_start(
        &self,
        at_ms: ChannelMs,
        first_sequence: u64,
        next_items: &ScheduleItems,
    ) -> Option<Box<CopiedStart>> {
        let earlier = self.revisions.iter().filter_map(|revision| revision.copied_start.as_deref());
        let earlier = earlier.flat_map(|start| start.more_segments.iter().map(|(class, _)| *class));
        let copyable = self.copyable_classes();
        let classes: VideoClasses =
            earlier.chain(VideoClass::all().filter(|class| copyable.contains(*class))).collect();
        if classes.is_empty() && copyable_classes(next_items).next().is_none() {
            return None;
        }
        let last_of = |definition: &Self| ProgrammeIter::starting_at(definition, at_ms - 1).next();
        let variety = self.with_copies(VideoClasses::default());
        let discontinuities = last_of(&variety).map_or(0, |last| last.discontinuities + 1);
        let more_segments = VideoClass::all().filter(|class| classes.contains(*class)).filter_map(|class| {
            let variety = self.with_copies(std::iter::once(class).collect());
            let next = last_of(&variety).map_or(0, |last| variety.sequence_after(&last, at_ms));
            let more = next as i64 - first_sequence as i64;
            (more != 0).then_some((class, more))
        });
        Some(Box::new(CopiedStart { discontinuities, more_segments: more_segments.collect() }))
    }

    /// The media sequence number after a programme that is aired until `at_ms`.
    pub(super) fn sequence_after(&self, last: &Programme, at_ms: ChannelMs) -> u64 {
        last.media_sequence + self.item_of(last).segment_count(last.part_index, at_ms - last.start_ms)
    }
}

fn copyable_classes(items: &[Arc<ScheduleItem>]) -> impl Iterator<Item = VideoClass> {
    items.iter().filter_map(|item| item.copy.as_ref()).map(|copy| copy.class)
}

#[cfg(test)]
mod tests;
