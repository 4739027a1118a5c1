//! Random access points that only sample groups mark (ISO/IEC 14496-12 section 8.9): recovery points of H.264 and open groups of
//! pictures, where a writer lists only closed ones as sync samples.

use super::super::bytes::Truncated;
use super::boxes::{children, parse_full_box};

/// Grouping types of random access points (section 10.4 and 10.1, ISO/IEC 14496-15 section 8.4.4).
const RANDOM_ACCESS: [[u8; 4]; 3] = [*b"rap ", *b"roll", *b"sync"];

/// Groups that have more than one sample in so many do not mark random access points alone, and are ignored.
const MIN_SAMPLES_PER_POINT: usize = 3;

/// The numbers of the samples in groups of random access points, ascending, from `first`. `container` is the `stbl` or `traf` of
/// `count` samples of video. Damaged groups are ignored, because no file needs them.
pub(super) fn random_access_samples(container: &[u8], first: u32, count: u32) -> Vec<u32> {
    let groups = children(container).filter(|(kind, _)| kind == b"sbgp");
    let mut numbers: Vec<u32> = Vec::new();
    for (_, sbgp) in groups {
        let of_group = parse_sbgp(sbgp, first, count).unwrap_or_default();
        if of_group.len() * MIN_SAMPLES_PER_POINT <= count as usize {
            numbers.extend(of_group);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The samples of a group of random access points; none of another grouping type.
fn parse_sbgp(sbgp: &[u8], first: u32, count: u32) -> Result<Vec<u32>, Truncated> {
    let (version, _, mut cursor) = parse_full_box(sbgp)?;
    if !RANDOM_ACCESS.iter().any(|kind| cursor.0.starts_with(kind)) {
        return Ok(Vec::new());
    }
    cursor.take(if version == 0 { 4 } else { 8 })?;
    let (mut numbers, mut number, end) = (Vec::new(), first, first.saturating_add(count));
    for _ in 0..cursor.u32()? {
        let (run, description) = (cursor.u32()?, cursor.u32()?);
        let run_end = number.saturating_add(run).min(end);
        // 0: in no group.
        if description != 0 {
            numbers.extend(number..run_end);
        }
        number = run_end;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group with these runs of samples and descriptions.
    fn sbgp(version: u8, kind: &[u8; 4], runs: &[(u32, u32)]) -> Vec<u8> {
        let mut body = vec![version, 0, 0, 0];
        body.extend_from_slice(kind);
        body.extend_from_slice(&vec![0; usize::from(version) * 4]);
        let runs_in_file = runs.iter().flat_map(|(count, description)| [*count, *description]);
        [runs.len() as u32].into_iter().chain(runs_in_file).for_each(|it| body.extend_from_slice(&it.to_be_bytes()));
        [&(body.len() as u32 + 8).to_be_bytes()[..], b"sbgp", &body].concat()
    }

    #[test]
    fn samples_of_random_access_groups_are_found() {
        let groups = [
            sbgp(0, b"rap ", &[(3, 0), (1, 1), (6, 0), (1, 2)]),
            sbgp(1, b"roll", &[(12, 0), (1, 1), (u32::MAX, 0)]),
            sbgp(0, b"tsas", &[(2, 1)]),
        ]
        .concat();
        assert_eq!(random_access_samples(&groups, 0, 20), [3, 10, 12]);
        assert_eq!(random_access_samples(&groups, 100, 11), [103, 110], "a fragment");
        let all = sbgp(0, b"roll", &[(u32::MAX, 1)]);
        assert_eq!(random_access_samples(&all, 0, 20), [0u32; 0], "every sample");
        let truncated = sbgp(0, b"rap ", &[(3, 0), (1, 1)]);
        let mut cut = truncated[..truncated.len() - 3].to_vec();
        cut[3] -= 3;
        assert_eq!(random_access_samples(&cut, 0, 20), [0u32; 0]);
    }
}
