//! Ranges of a file, each read to its place in a chunk: the gaps between them go to a spare buffer, so few reads suffice and no
//! byte is copied twice.

use std::cell::Cell;
use std::io::IoSliceMut;

use crate::engine::container::bytes::Truncated;
use crate::engine::container::refuse_if;

/// A gap between two ranges up to this size is read too, instead of starting another read.
const MAX_GAP_BYTES: u64 = 16 << 10;

/// Gaps of one read together, and the spare buffer of a thread, bytes.
const SPARE_BYTES: usize = 64 << 10;

/// Ranges of one read. The kernel takes 1024 buffers (`IOV_MAX`).
const MAX_RANGES: usize = 500;

thread_local! {
    static SPARE_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Fills buffers with the ranges of the file that begin at these offsets. `read_at` fills buffers one after the other from an
/// offset and returns the number of bytes read. Returns false if `read_at` returns None, because the bytes are not available
/// without waiting.
///
/// # Errors
/// If the file ends before a range does.
pub(super) fn read_scattered(
    targets: Vec<(u64, &mut [u8])>,
    mut read_at: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Option<usize>,
) -> Result<bool, Truncated> {
    let mut spare = SPARE_BUFFER.take();
    spare.resize(SPARE_BYTES, 0);
    let (mut targets, mut outcome) = (targets.into_iter().peekable(), Ok(true));
    while matches!(outcome, Ok(true))
        && let Some((start, first)) = targets.next()
    {
        let mut length = first.len() as u64;
        let (mut slices, mut rest) = (vec![IoSliceMut::new(first)], &mut spare[..]);
        let is_near = |offset: u64, length: u64, rest: &[u8]| {
            let gap = offset.checked_sub(start).and_then(|distance| distance.checked_sub(length));
            gap.filter(|&gap| gap <= MAX_GAP_BYTES && gap <= rest.len() as u64)
        };
        while slices.len() < 2 * MAX_RANGES
            && let Some(gap) = targets.peek().and_then(|(offset, _)| is_near(*offset, length, rest))
            && let Some((_, next)) = targets.next()
        {
            let (unused, after) = std::mem::take(&mut rest).split_at_mut(gap as usize);
            rest = after;
            length += gap + next.len() as u64;
            slices.extend((gap > 0).then(|| IoSliceMut::new(unused)));
            slices.push(IoSliceMut::new(next));
        }
        outcome = match read_at(&mut slices, start) {
            None => Ok(false),
            Some(filled) => refuse_if(filled as u64 != length, Truncated).map(|()| true),
        };
    }
    SPARE_BUFFER.set(spare);
    outcome
}

/// Fills buffers one after the other with a function that fills one.
#[cfg(test)]
pub(super) fn fill_each(
    slices: &mut [IoSliceMut<'_>],
    offset: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> Option<usize>,
) -> Option<usize> {
    let mut filled = 0;
    for slice in slices {
        let read = read_at(slice, offset + filled as u64)?;
        filled += read;
        if read < slice.len() {
            break;
        }
    }
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::container::bytes::ReadAt;
    use proptest::prelude::*;

    /// The ranges as read from a file, and how many reads that took.
    fn scatter(file: &[u8], ranges: &[(u64, usize)]) -> (Result<bool, Truncated>, Vec<Vec<u8>>, usize) {
        let (mut buffers, mut reads): (Vec<Vec<u8>>, _) = (ranges.iter().map(|(_, len)| vec![0; *len]).collect(), 0);
        let targets = ranges.iter().zip(&mut buffers).map(|((offset, _), buffer)| (*offset, &mut buffer[..])).collect();
        let outcome = read_scattered(targets, |slices, offset| {
            reads += 1;
            fill_each(slices, offset, |buffer, offset| Some(file.read_at(buffer, offset)))
        });
        (outcome, buffers, reads)
    }

    fn file() -> Vec<u8> {
        (0..200_000u32).map(|n| (n * 7 + n / 256) as u8).collect()
    }

    proptest! {
        #[test]
        fn every_range_is_read_to_its_place(ranges in proptest::collection::vec((0u64..150_000, 0usize..40_000), 0..30)) {
            let file = file();
            let (outcome, buffers, _) = scatter(&file, &ranges);
            prop_assert_eq!(outcome, Ok(true));
            for ((offset, len), buffer) in ranges.iter().zip(&buffers) {
                prop_assert_eq!(&file[*offset as usize..][..*len], &buffer[..]);
            }
        }
    }

    #[test]
    fn near_ranges_take_one_read() {
        let interleaved: Vec<(u64, usize)> = (0..100).map(|n| (n * 1500, 1100)).collect();
        assert_eq!(scatter(&file(), &interleaved).2, 1);
        let wide: Vec<(u64, usize)> = (0..10).map(|n| (n * 15_000, 1000)).collect();
        assert_eq!(scatter(&file(), &wide).2, 2, "the gaps of one read fit into the spare buffer");
        assert_eq!(scatter(&file(), &[(0, 10), (100_000, 10), (50, 10)]).2, 3, "far apart, and backwards");
    }

    #[test]
    fn a_range_beyond_the_file_is_an_error() {
        assert_eq!(scatter(&file(), &[(0, 10), (199_999, 2)]).0, Err(Truncated));
        assert_eq!(scatter(&file(), &[(u64::MAX, 7)]).0, Err(Truncated));
        assert_eq!(read_scattered(vec![(3, &mut [0; 7])], |_, _| None), Ok(false), "not cached");
    }
}
