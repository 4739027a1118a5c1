//! The bytes of many samples, read in few pieces.

use crate::engine::tables::bytes::{ReadAt, Short};

/// Bytes between two samples that are read along rather than read around.
const GAP: u64 = 16 << 10;

/// Most bytes read along in all.
const MOST_WASTE: u64 = 8 << 20;

/// Stretches of a file in memory, by offset.
#[derive(Debug)]
pub(super) struct Pieces(Vec<(u64, Vec<u8>)>);

impl Pieces {
    /// Reads these (offset, size); every one must lie in the file.
    pub(super) fn read(file: &(impl ReadAt + ?Sized), mut wanted: Vec<(u64, u32)>) -> Result<Self, Short> {
        wanted.sort_unstable();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut waste = 0;
        for (offset, size) in wanted {
            let end = offset.checked_add(u64::from(size)).ok_or(Short)?;
            match runs.last_mut() {
                Some((_, last)) if offset <= last.saturating_add(GAP) && waste <= MOST_WASTE => {
                    waste += offset.saturating_sub(*last);
                    *last = end.max(*last);
                }
                _ => runs.push((offset, end)),
            }
        }
        let read = |(offset, end): (u64, u64)| {
            let count = usize::try_from(end - offset).map_err(|_| Short)?;
            Ok((offset, file.exact(offset, count)?))
        };
        runs.into_iter().map(read).collect::<Result<_, Short>>().map(Self)
    }

    /// The bytes of one of them.
    pub(super) fn get(&self, offset: u64, size: u32) -> Option<&[u8]> {
        let at = self.0.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        let (start, bytes) = self.0.get(at)?;
        let from = usize::try_from(offset - start).ok()?;
        bytes.get(from..from.checked_add(size as usize)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sample_is_found_again(wanted in proptest::collection::vec((0u64..90_000, 0u32..9_000), 0..30)) {
            let file: Vec<u8> = (0..100_000u32).map(|n| (n * 7 + n / 256) as u8).collect();
            let pieces = Pieces::read(&file[..], wanted.clone()).unwrap();
            for (offset, size) in wanted {
                let (from, to) = (offset as usize, offset as usize + size as usize);
                prop_assert_eq!(pieces.get(offset, size), Some(&file[from..to]));
            }
        }
    }

    #[test]
    fn what_is_not_in_the_file_is_an_error() {
        assert!(Pieces::read(&[0; 9][..], vec![(3, 7)]).is_err());
        assert!(Pieces::read(&[0; 9][..], vec![(u64::MAX, 7)]).is_err());
    }
}
