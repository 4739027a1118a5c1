//! Keyframes alone, as a short film or as the segments of an I-frame playlist: a decoder makes images of them without reading or
//! decoding the frames between them.

use super::CmafTrack;
use crate::domain::cmaf::Sample;
use crate::domain::cmaf::moof::{self, Fragment};
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::engine::container::bytes::ReadAt;
use crate::engine::{Result, RunError, TIMELINE_BASE};

/// Most keyframes of one film.
const MAX_KEYFRAMES: usize = 128;

/// Largest film, bytes: a keyframe of 4K at a high bit rate has 2 MB.
const MAX_FILM_BYTES: u64 = 128 << 20;

impl CmafTrack {
    /// The init segment and one fragment with the keyframes at these places of [`Self::index`], one second apart.
    ///
    /// # Errors
    /// `SourceRead` if a keyframe does not exist or cannot be read, and for audio; `Internal` for more than 128 places.
    pub fn keyframe_film(&self, file: &(impl ReadAt + ?Sized), places: &[usize]) -> Result<Vec<u8>> {
        if places.len() > MAX_KEYFRAMES {
            return Err(RunError::Internal(format!("{} keyframes are too many for one film", places.len())));
        }
        let ranges = places.iter().map(|&place| self.keyframe_range(file, place)).collect::<Result<Vec<_>>>()?;
        if ranges.iter().map(|(_, size)| u64::from(*size)).sum::<u64>() > MAX_FILM_BYTES {
            return Err(RunError::SourceRead("its keyframes are too large".into()));
        }
        let (second, prefix) = (i64::from(self.timescale()), self.prefix());
        let sample = |(time, (_, size)): (i64, &(u64, u32))| Sample {
            size: size.saturating_add(prefix.len() as u32),
            dts: time * second,
            pts: time * second,
            is_keyframe: true,
        };
        let samples: Vec<Sample> = (0..).zip(&ranges).map(sample).collect();
        let end = samples.len() as i64 * second;
        let fragment = Fragment { kind: TrackKind::Video, sequence_number: 1, samples: &samples, end, base: 0 };
        let head = moof::lay_out(&fragment).map_err(|error| RunError::SourceRead(error.to_string()))?;
        let mut film = self.init_segment().to_vec();
        film.extend_from_slice(&head.bytes);
        for range in ranges {
            self.append_sample(file, range, &mut film)?;
        }
        Ok(film)
    }

    /// The first frame of segment `number` of a grid that was made from [`Self::index`], as a fragment that lasts until the next
    /// segment.
    ///
    /// # Errors
    /// `SourceRead` if there is no such segment, if its frame cannot be read, and for audio.
    pub fn lay_out_iframe(&self, file: &(impl ReadAt + ?Sized), grid: &Grid, number: usize) -> Result<Vec<u8>> {
        let missing = || RunError::SourceRead(format!("segment {number} does not begin with a keyframe"));
        let keyframes = self.index().map(|index| &index.keyframes[..]).filter(|_| number < grid.len());
        let keyframes = keyframes.ok_or_else(missing)?;
        let place = if number == 0 { Ok(0) } else { keyframes.binary_search(&grid.segment_start(number)) };
        let place = place.map_err(|_| missing())?;
        let (range, time) = (self.keyframe_range(file, place)?, *keyframes.get(place).ok_or_else(missing)?);
        if u64::from(range.1) > MAX_FILM_BYTES {
            return Err(RunError::SourceRead(format!("the keyframe of segment {number} is too large")));
        }
        let start = time.to_units(self.timescale());
        let size = range.1.saturating_add(self.prefix().len() as u32);
        let sample = Sample { size, dts: start, pts: start, is_keyframe: true };
        let end = grid.segment_start(number + 1).to_units(self.timescale()).max(start.saturating_add(1));
        let base = TIMELINE_BASE.to_units(self.timescale());
        let sequence_number = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
        let fragment = Fragment { kind: TrackKind::Video, sequence_number, samples: &[sample], end, base };
        let head = moof::lay_out(&fragment).map_err(|error| RunError::SourceRead(error.to_string()))?;
        let mut bytes = head.bytes;
        self.append_sample(file, range, &mut bytes)?;
        Ok(bytes)
    }

    fn append_sample(
        &self,
        file: &(impl ReadAt + ?Sized),
        (offset, size): (u64, u32),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let truncated = |_| RunError::SourceRead("the file ends before a keyframe".into());
        out.extend_from_slice(self.prefix());
        out.extend(file.read_exact(offset, size as usize).map_err(truncated)?);
        Ok(())
    }
}
