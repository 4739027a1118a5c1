//! From a track's own times to ticks of the file's clock: edit list and composition offsets as ffmpeg takes them.
//!
//! Held against ffmpeg's packets by tests. It has two rules of its own: where composition offsets are negative everything
//! is decoded so much earlier, and a video whose first picture would come late in its edit list is moved to the begin.

use super::super::Refusal;
use super::super::bytes::Short;
use super::boxes::full;
use crate::domain::time::TICKS_PER_SECOND;

/// How a track's samples lie in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Units a second of the track's clock.
    timescale: u32,
    edit: Option<Edit>,
    /// Samples come from fragments.
    pub(super) fragmented: bool,
    /// Units that everything is decoded earlier, so that nothing is shown before.
    lead: i64,
    /// Units that everything is earlier.
    advance: i64,
}

/// One stretch of the track, shown after a wait. More than one is refused. Units of the track.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit {
    wait: i64,
    /// Where in the track it begins.
    from: i64,
    /// Its length, where one is given.
    length: Option<i64>,
}

impl Timing {
    pub(super) fn new(timescale: u32, edit: Option<Edit>) -> Self {
        Self { timescale, edit, ..Self::default() }
    }

    /// When a time of the track is shown; ticks of the file's own clock.
    pub fn shown(&self, time: i64) -> i64 {
        self.ticks(time)
    }

    /// The same for decoding times.
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

    /// Where the edit begins, ticks of the file's own clock.
    pub fn begin(&self) -> i64 {
        let edit = self.edit.unwrap_or_default();
        self.ticks(edit.from.saturating_add(self.advance))
    }

    /// Where the edit ends, if it says so.
    pub fn end(&self) -> Option<i64> {
        let edit = self.edit?;
        edit.length.map(|length| self.ticks(edit.from.saturating_add(length).saturating_add(self.advance)))
    }

    /// Sets the rules for pictures: `least_shift` of all composition offsets, `first` of all times they are shown at.
    pub(super) fn reorder(&mut self, least_shift: i32, first: i64) {
        self.lead = i64::from(least_shift).min(0).saturating_neg();
        if let Some(edit) = self.edit.filter(|_| !self.fragmented) {
            self.advance = first.saturating_sub(edit.from).max(0);
        }
    }
}

/// Reads an edit list.
pub(super) fn edit(elst: &[u8], timescale: u32, movie_scale: u32) -> Result<Option<Edit>, Refusal> {
    let (version, _, mut cursor) = full(elst)?;
    let count = cursor.u32()?;
    let units = |length: u64| {
        let (numerator, scale) = (u128::from(length) * u128::from(timescale), u128::from(movie_scale.max(1)));
        ((numerator * 2 + scale) / (scale * 2)).min(i64::MAX as u128 / 4) as i64
    };
    if count > 16 {
        return Err(Refusal::Final("its edit list has several parts".into()));
    }
    let mut edit = Edit::default();
    let mut shown = false;
    for _ in 0..count {
        let length = cursor.wide(version == 1)?;
        let from = cursor.wide(version == 1)?;
        let from = if version == 1 { from as i64 } else { i64::from(from as u32 as i32) };
        let rate = cursor.u32()?;
        if shown {
            return Err(Refusal::Final("its edit list has several parts".into()));
        }
        if from < 0 {
            edit.wait = edit.wait.saturating_add(units(length));
        } else if rate != 0x1_0000 {
            return Err(Refusal::Final("its edit list changes the speed".into()));
        } else if from > i64::MAX / 4 {
            return Err(Short.into());
        } else {
            (edit.from, edit.length, shown) = (from, Some(units(length)).filter(|&length| length > 0), true);
        }
    }
    Ok((count > 0).then_some(edit))
}
