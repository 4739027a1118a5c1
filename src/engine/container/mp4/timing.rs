//! From a track's times to the file's clock: edit list and composition offsets, as ffmpeg applies them.
//!
//! Tests compare the result with ffmpeg's packets. ffmpeg has two rules of its own: negative composition offsets make all
//! decode times earlier by the largest of them, and a video whose first frame would come late in its edit is moved to the
//! edit's start.

use super::super::bytes::Truncated;
use super::super::{ContainerError, refuse_if};
use super::boxes::parse_full_box;
use crate::domain::time::{Ticks, rescale};

/// The time mapping of a track.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackTiming {
    /// Units per second.
    timescale: u32,
    edit: Option<EditListEntry>,
    /// Some samples come from fragments.
    pub(super) is_fragmented: bool,
    /// Units by which all decode times are earlier, so that no frame is shown before it is decoded.
    decode_lead: i64,
    /// Units by which all times are earlier.
    advance: i64,
}

/// The single edit of a track, in units of its timescale. Further edits are refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct EditListEntry {
    delay: i64,
    /// Media time at which the edit begins.
    media_start: i64,
    /// Its duration, if stated.
    length: Option<i64>,
}

impl TrackTiming {
    pub(super) fn new(timescale: u32, edit: Option<EditListEntry>) -> Self {
        Self { timescale, edit, ..Self::default() }
    }

    /// Converts a presentation time of the track to the file's clock.
    pub fn presentation_ticks(&self, time: i64) -> Ticks {
        Ticks::from_units(self.on_file_clock(time), self.timescale.max(1))
    }

    /// Like [`Self::presentation_ticks`], in units of a clock with `timescale` units per second: exact if that is a multiple
    /// of the track's own.
    pub fn presentation_units(&self, time: i64, timescale: u32) -> i64 {
        rescale(self.on_file_clock(time), timescale, self.timescale.max(1))
    }

    /// Units per second of the track.
    pub fn timescale(&self) -> u32 {
        self.timescale
    }

    /// On the file's clock, in units of the track.
    fn on_file_clock(&self, time: i64) -> i128 {
        let edit = self.edit.unwrap_or_default();
        i128::from(time) - i128::from(edit.media_start) + i128::from(edit.delay) - i128::from(self.advance)
    }

    /// Converts a decode time of the track to the file's clock.
    pub fn decode_ticks(&self, dts: i64) -> Ticks {
        self.presentation_ticks(dts.saturating_sub(self.decode_lead))
    }

    /// Start of the edit on the file's clock.
    pub fn edit_start(&self) -> Ticks {
        let edit = self.edit.unwrap_or_default();
        self.presentation_ticks(edit.media_start.saturating_add(self.advance))
    }

    /// End of the edit on the file's clock; None if it has no duration.
    pub fn edit_end(&self) -> Option<Ticks> {
        let edit = self.edit?;
        let end = edit.media_start.saturating_add(edit.length?).saturating_add(self.advance);
        Some(self.presentation_ticks(end))
    }

    /// Applies ffmpeg's rules for video; `first_presented` is the earliest presentation time.
    pub(super) fn set_reordering(&mut self, min_composition_offset: i32, first_presented: i64) {
        self.decode_lead = i64::from(min_composition_offset).min(0).saturating_neg();
        if let Some(edit) = self.edit.filter(|_| !self.is_fragmented) {
            self.advance = first_presented.saturating_sub(edit.media_start).max(0);
        }
    }
}

/// Parses an edit list.
pub(super) fn parse_edit_list(
    elst: &[u8],
    timescale: u32,
    movie_scale: u32,
) -> Result<Option<EditListEntry>, ContainerError> {
    let (version, _, mut cursor) = parse_full_box(elst)?;
    let count = cursor.u32()?;
    let to_units = |length: u64| rescale(length, timescale, movie_scale.max(1));
    refuse_if(count > 16, ContainerError::Uncuttable("the edit list has several edits"))?;
    let mut edit = EditListEntry::default();
    let mut has_edit = false;
    for _ in 0..count {
        let length = cursor.u32_or_u64(version == 1)?;
        let media_start = cursor.u32_or_u64(version == 1)?;
        let media_start = if version == 1 { media_start as i64 } else { i64::from(media_start as u32 as i32) };
        let rate = cursor.u32()?;
        refuse_if(has_edit, ContainerError::Uncuttable("the edit list has several edits"))?;
        if media_start < 0 {
            edit.delay = edit.delay.saturating_add(to_units(length));
        } else if rate != 0x1_0000 {
            return Err(ContainerError::Uncuttable("the edit list changes the playback rate"));
        } else if media_start > i64::MAX / 4 {
            return Err(Truncated.into());
        } else {
            (edit.media_start, edit.length, has_edit) =
                (media_start, Some(to_units(length)).filter(|&length| length > 0), true);
        }
    }
    Ok((count > 0).then_some(edit))
}
