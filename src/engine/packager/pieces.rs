//! The bytes of many samples, gathered with few reads.

use std::cell::Cell;

use crate::engine::tables::bytes::Short;

/// A gap between two samples up to this size is read too, instead of starting another read.
const GAP: u64 = 16 << 10;

/// Maximum total of such gaps, bytes.
const MOST_WASTE: u64 = 1 << 20;

/// Maximum size of the buffer a thread keeps for its next read, bytes. There may be hundreds of such threads.
const KEPT: usize = 512 << 10;

thread_local! {
    /// Fresh memory costs more than the read into it, because the kernel clears every page first.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Ranges of a file in memory.
#[derive(Debug)]
pub(super) struct Pieces {
    /// As long as the longest gather so far on this thread.
    bytes: Vec<u8>,
    /// Per range: offset in the file, offset in `bytes`, and length.
    runs: Vec<(u64, usize, usize)>,
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEPT {
            SCRATCH.set(std::mem::take(&mut self.bytes));
        }
    }
}

impl Pieces {
    /// Reads these (offset, size) ranges with `read`, which fills a buffer from an offset and returns the number of bytes
    /// read. Returns None if `read` returns None, because the bytes are not available without waiting.
    ///
    /// # Errors
    /// If the file ends before a range does.
    pub(super) fn read(
        mut wanted: Vec<(u64, u32)>,
        mut read: impl FnMut(&mut [u8], u64) -> Option<usize>,
    ) -> Result<Option<Self>, Short> {
        wanted.sort_unstable();
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        let mut waste = 0;
        for (offset, size) in wanted {
            let end = offset.checked_add(u64::from(size)).ok_or(Short)?;
            match stretches.last_mut() {
                Some((_, last)) if offset <= last.saturating_add(GAP) && waste <= MOST_WASTE => {
                    waste += offset.saturating_sub(*last);
                    *last = end.max(*last);
                }
                _ => stretches.push((offset, end)),
            }
        }
        let mut pieces = Self { bytes: SCRATCH.take(), runs: Vec::with_capacity(stretches.len()) };
        let mut at = 0;
        for (offset, end) in stretches {
            let count = usize::try_from(end - offset).map_err(|_| Short)?;
            pieces.runs.push((offset, at, count));
            at += count;
        }
        if pieces.bytes.len() < at {
            pieces.bytes.resize(at, 0);
        }
        for &(offset, at, count) in &pieces.runs {
            match read(&mut pieces.bytes[at..at + count], offset) {
                Some(filled) if filled == count => {}
                Some(_) => return Err(Short),
                None => return Ok(None),
            }
        }
        Ok(Some(pieces))
    }

    /// The bytes of one of the requested ranges.
    pub(super) fn get(&self, offset: u64, size: u32) -> Option<&[u8]> {
        let run = self.runs.partition_point(|(start, ..)| *start <= offset).checked_sub(1)?;
        let &(start, at, count) = self.runs.get(run)?;
        let from = usize::try_from(offset - start).ok()?;
        self.bytes.get(at..at + count)?.get(from..from.checked_add(size as usize)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tables::bytes::ReadAt;
    use proptest::prelude::*;

    fn read(file: &[u8], wanted: Vec<(u64, u32)>) -> Result<Option<Pieces>, Short> {
        Pieces::read(wanted, |into, offset| Some(file.read_at(into, offset)))
    }

    proptest! {
        #[test]
        fn every_sample_is_found_again(wanted in proptest::collection::vec((0u64..90_000, 0u32..9_000), 0..30)) {
            let file: Vec<u8> = (0..100_000u32).map(|n| (n * 7 + n / 256) as u8).collect();
            let pieces = read(&file, wanted.clone()).unwrap().unwrap();
            for (offset, size) in wanted {
                let (from, to) = (offset as usize, offset as usize + size as usize);
                prop_assert_eq!(pieces.get(offset, size), Some(&file[from..to]));
            }
        }
    }

    #[test]
    fn what_is_not_in_the_file_is_an_error() {
        assert!(read(&[0; 9], vec![(3, 7)]).is_err());
        assert!(read(&[0; 9], vec![(u64::MAX, 7)]).is_err());
        assert!(matches!(Pieces::read(vec![(3, 7)], |_, _| None), Ok(None)), "not cached");
    }
}
