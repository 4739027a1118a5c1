//! The bytes of many samples, gathered with few reads.

use std::cell::Cell;

use crate::engine::container::bytes::Truncated;

/// A gap between two samples up to this size is read too, instead of starting another read.
const MAX_GAP_BYTES: u64 = 16 << 10;

/// Maximum total of such gaps, bytes.
const MAX_GAPS_BYTES: u64 = 1 << 20;

/// Maximum size of the buffer a thread keeps for its next read, bytes. There may be hundreds of such threads.
const MAX_KEPT_BYTES: usize = 512 << 10;

thread_local! {
    /// Fresh memory costs more than the read into it, because the kernel clears every page first.
    static SPARE_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Ranges of a file in memory.
#[derive(Debug)]
pub(super) struct GatheredBytes {
    /// As long as the longest gather so far on this thread.
    bytes: Vec<u8>,
    /// Per range: offset in the file, offset in `bytes`, and length.
    ranges: Vec<(u64, usize, usize)>,
}

impl Drop for GatheredBytes {
    fn drop(&mut self) {
        if self.bytes.capacity() <= MAX_KEPT_BYTES {
            SPARE_BUFFER.set(std::mem::take(&mut self.bytes));
        }
    }
}

impl GatheredBytes {
    /// Reads these (offset, size) ranges with `read_at`, which fills a buffer from an offset and returns the number of
    /// bytes read. Returns None if `read_at` returns None, because the bytes are not available without waiting.
    ///
    /// # Errors
    /// If the file ends before a range does.
    pub(super) fn read(
        mut requested: Vec<(u64, u32)>,
        mut read_at: impl FnMut(&mut [u8], u64) -> Option<usize>,
    ) -> Result<Option<Self>, Truncated> {
        requested.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        let mut gaps_bytes = 0;
        for (offset, size) in requested {
            let end = offset.checked_add(u64::from(size)).ok_or(Truncated)?;
            match merged.last_mut() {
                Some((_, last)) if offset <= last.saturating_add(MAX_GAP_BYTES) && gaps_bytes <= MAX_GAPS_BYTES => {
                    gaps_bytes += offset.saturating_sub(*last);
                    *last = end.max(*last);
                }
                _ => merged.push((offset, end)),
            }
        }
        let mut gathered = Self { bytes: SPARE_BUFFER.take(), ranges: Vec::with_capacity(merged.len()) };
        let mut position = 0;
        for (offset, end) in merged {
            let count = usize::try_from(end - offset).map_err(|_| Truncated)?;
            gathered.ranges.push((offset, position, count));
            position += count;
        }
        if gathered.bytes.len() < position {
            gathered.bytes.resize(position, 0);
        }
        for &(offset, position, count) in &gathered.ranges {
            match read_at(&mut gathered.bytes[position..position + count], offset) {
                Some(filled) if filled == count => {}
                Some(_) => return Err(Truncated),
                None => return Ok(None),
            }
        }
        Ok(Some(gathered))
    }

    /// The bytes of one of the requested ranges.
    pub(super) fn get(&self, offset: u64, size: u32) -> Option<&[u8]> {
        let index = self.ranges.partition_point(|(start, ..)| *start <= offset).checked_sub(1)?;
        let &(start, position, count) = self.ranges.get(index)?;
        let from = usize::try_from(offset - start).ok()?;
        self.bytes.get(position..position + count)?.get(from..from.checked_add(size as usize)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::container::bytes::ReadAt;
    use proptest::prelude::*;

    fn gather(file: &[u8], requested: Vec<(u64, u32)>) -> Result<Option<GatheredBytes>, Truncated> {
        GatheredBytes::read(requested, |buffer, offset| Some(file.read_at(buffer, offset)))
    }

    proptest! {
        #[test]
        fn every_sample_is_found_again(requested in proptest::collection::vec((0u64..90_000, 0u32..9_000), 0..30)) {
            let file: Vec<u8> = (0..100_000u32).map(|n| (n * 7 + n / 256) as u8).collect();
            let gathered = gather(&file, requested.clone()).unwrap().unwrap();
            for (offset, size) in requested {
                let (from, to) = (offset as usize, offset as usize + size as usize);
                prop_assert_eq!(gathered.get(offset, size), Some(&file[from..to]));
            }
        }
    }

    #[test]
    fn a_range_beyond_the_file_is_an_error() {
        assert!(gather(&[0; 9], vec![(3, 7)]).is_err());
        assert!(gather(&[0; 9], vec![(u64::MAX, 7)]).is_err());
        assert!(matches!(GatheredBytes::read(vec![(3, 7)], |_, _| None), Ok(None)), "not cached");
    }
}
