//! From a track's times to ticks of the file's clock: edit list and composition offsets, as ffmpeg applies them.
//!
//! Tests compare the result with ffmpeg's packets. ffmpeg has two rules of its own: negative composition offsets make all
//! decode times earlier by the largest of them, and a video whose first frame would come late in its edit is moved to the
//! edit's start.

use super::super::Refusal;
use super::super::bytes::Short;
use super::boxes::full;
use crate::domain::time::TICKS_PER_SECOND;

/// The time mapping of a track.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Units per second.
    timescale: u32,
    edit: Option<Edit>,
    /// Some samples come from fragments.
    pub(super) fragmented: bool,
    /// Units by which all decode times are earlier, so that no frame is shown before it is decoded.
    lead: i64,
    /// Units by which all times are earlier.
    advance: i64,
}

/// The single edit of a track, in units of its timescale. Further edits are refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit {
    wait: i64,
    /// Media time at which the edit begins.
    from: i64,
    /// Its duration, if stated.
    length: Option<i64>,
}

impl Timing {
    pub(super) fn new(timescale: u32, edit: Option<Edit>) -> Self {
        Self { timescale, edit, ..Self::default() }
    }

    /// Converts a presentation time of the track to ticks of the file's clock.
    pub fn shown(&self, time: i64) -> i64 {
        self.ticks(time)
    }

    /// Converts a decode time of the track to ticks of the file's clock.
    pub fn decoded(&self, dts: i64) -> i64 {
        self.ticks(dts.saturating_sub(self.lead))
    }

    fn ticks(&self, time: i64) -> i64 {
        let edit = self.edit.unwrap_or_default();
        let time = i128::from(time) - i128::from(edit.from) + i128::from(edit.wait) - i128::from(self.advance);
        let (numerator, scale) = (time * i128::from(TICKS_PER_SECOND), i128::from(self.timescale.max(1)));
        let ticks = (numerator * 2 + scale).div_euclid(scale * 2);
        let most = i128::from(i64::MAX / 4);
        ticks.clamp(-most, most) as i64
    }

    /// Start of the edit, ticks of the file's clock.
    pub fn begin(&self) -> i64 {
        let edit = self.edit.unwrap_or_default();
        self.ticks(edit.from.saturating_add(self.advance))
    }

    /// End of the edit in ticks of the file's clock; None if it has no duration.
    pub fn end(&self) -> Option<i64> {
        let edit = self.edit?;
        edit.length.map(|length| self.ticks(edit.from.saturating_add(length).saturating_add(self.advance)))
    }

    /// Applies ffmpeg's rules for video: `least_shift` is the minimum composition offset, `first` the earliest
    /// presentation time.
    pub(super) fn reorder(&mut self, least_shift: i32, first: i64) {
        self.lead = i64::from(least_shift).min(0).saturating_neg();
        if let Some(edit) = self.edit.filter(|_| !self.fragmented) {
            self.advance = first.saturating_sub(edit.from).max(0);
        }
    }
}

/// Parses an edit list.
pub(super) fn edit(elst: &[u8], timescale: u32, movie_scale: u32) -> Result<Option<Edit>, Refusal> {
    let (version, _, mut cursor) = full(elst)?;
    let count = cursor.u32()?;
    let units = |length: u64| {
        let (numerator, scale) = (u128::from(length) * u128::from(timescale), u128::from(movie_scale.max(1)));
        ((numerator * 2 + scale) / (scale * 2)).min(i64::MAX as u128 / 4) as i64
    };
    if count > 16 {
        return Err(Refusal::Final("the edit list has several edits".into()));
    }
    let mut edit = Edit::default();
    let mut shown = false;
    for _ in 0..count {
        let length = cursor.wide(version == 1)?;
        let from = cursor.wide(version == 1)?;
        let from = if version == 1 { from as i64 } else { i64::from(from as u32 as i32) };
        let rate = cursor.u32()?;
        if shown {
            return Err(Refusal::Final("the edit list has several edits".into()));
        }
        if from < 0 {
            edit.wait = edit.wait.saturating_add(units(length));
        } else if rate != 0x1_0000 {
            return Err(Refusal::Final("the edit list changes the playback rate".into()));
        } else if from > i64::MAX / 4 {
            return Err(Short.into());
        } else {
            (edit.from, edit.length, shown) = (from, Some(units(length)).filter(|&length| length > 0), true);
        }
    }
    Ok((count > 0).then_some(edit))
}
