//! The samples of one track, as compact as in the file.
//!
//! Run-length tables stay run-length coded. A sample costs the four bytes of its size, and eight more if it is reordered.
//! Any sample is reached by a walk from a checkpoint at most 1,024 samples before it.

use super::super::{ContainerError, refuse_if};
use super::MAX_SAMPLES;

/// Samples between two checkpoints.
const CHECKPOINT_INTERVAL: u32 = 1024;

/// One sample. Times in units of the track's timescale, before the edit list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From 0, in decoding order.
    pub number: u32,
    pub offset: u64,
    pub size: u32,
    pub dts: i64,
    pub duration: u32,
    /// Composition offset.
    pub composition_offset: i32,
    /// Listed as a sync sample.
    pub is_sync: bool,
}

impl Sample {
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.size))
    }

    /// Presentation time.
    pub fn presentation_time(&self) -> i64 {
        self.dts.saturating_add(i64::from(self.composition_offset))
    }
}

#[derive(Clone, PartialEq, Eq)]
pub enum SampleSizes {
    Uniform(u32),
    PerSample(Vec<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub offset: u64,
    /// Number of its first sample.
    pub first_sample: u32,
}

/// A run-length coded table of (samples, value).
type RunLengths<T> = Vec<(u32, T)>;

/// All samples of a track, in decoding order.
#[derive(Clone, Default)]
pub struct SampleTable {
    pub(super) count: u32,
    pub(super) sizes: SampleSizes,
    pub(super) chunks: Vec<Chunk>,
    /// Decoding time of the first sample.
    pub(super) first_dts: i64,
    pub(super) durations: RunLengths<u32>,
    pub(super) composition_offsets: RunLengths<i32>,
    /// Numbers of the sync samples from 0, ascending; None: every sample is a sync sample.
    pub(super) sync_samples: Option<Vec<u32>>,
    /// Numbers of the samples that groups mark as random access points, ascending.
    pub(super) random_access_samples: Vec<u32>,
    checkpoints: Vec<WalkPosition>,
}

impl std::fmt::Debug for SampleTable {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} samples", self.count)
    }
}

impl Default for SampleSizes {
    fn default() -> Self {
        Self::PerSample(Vec::new())
    }
}

/// The position of a walk.
#[derive(Clone, Copy, Debug, Default)]
struct WalkPosition {
    number: u32,
    chunk: usize,
    /// None: the chunk's offset.
    offset: Option<u64>,
    dts: i64,
    duration_run: (usize, u32),
    offset_run: (usize, u32),
    sync_index: usize,
}

impl SampleTable {
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Memory used by the tables, bytes.
    pub fn memory_bytes(&self) -> usize {
        let sizes = match &self.sizes {
            SampleSizes::Uniform(_) => 0,
            SampleSizes::PerSample(sizes) => sizes.len() * size_of::<u32>(),
        };
        let sync_bytes = self.sync_samples.as_ref().map_or(0, |numbers| numbers.len() * size_of::<u32>());
        let run_bytes = (self.durations.len() + self.composition_offsets.len()) * size_of::<(u32, u32)>();
        sizes
            + sync_bytes
            + run_bytes
            + self.random_access_samples.len() * size_of::<u32>()
            + self.chunks.len() * size_of::<Chunk>()
            + self.checkpoints.len() * size_of::<WalkPosition>()
    }

    /// The samples from `number`.
    pub fn iter_from(&self, number: u32) -> impl Iterator<Item = Sample> {
        let checkpoint = self.checkpoints.get((number / CHECKPOINT_INTERVAL) as usize).copied();
        let position = checkpoint.unwrap_or(WalkPosition { dts: self.first_dts, ..WalkPosition::default() });
        let skip = number.saturating_sub(position.number) as usize;
        SampleIter { samples: self, position }.skip(skip)
    }

    /// Whether a sample group marks a sample as a random access point. It may be a sync sample or not.
    pub fn is_grouped_random_access(&self, number: u32) -> bool {
        self.random_access_samples.binary_search(&number).is_ok()
    }

    /// The first sample whose decoding time satisfies `is_late_enough`, which must then be true for all later samples.
    pub fn find_by_dts(&self, is_late_enough: impl Fn(i64) -> bool) -> u32 {
        let checkpoint = self.checkpoints.partition_point(|mark| !is_late_enough(mark.dts)).saturating_sub(1);
        let start = (checkpoint as u32).saturating_mul(CHECKPOINT_INTERVAL);
        self.iter_from(start).find(|sample| is_late_enough(sample.dts)).map_or(self.count, |sample| sample.number)
    }

    /// Whether any sample has a composition offset.
    pub fn is_reordered(&self) -> bool {
        self.composition_offsets.iter().any(|(count, shift)| *count > 0 && *shift != 0)
    }

    /// Keeps the samples before the first for which `keep` returns false, and sets the checkpoints. Called once, when all
    /// samples are known.
    pub(super) fn truncate_and_index(
        &mut self,
        mut keep: impl FnMut(&Sample) -> Result<bool, ContainerError>,
    ) -> Result<(), ContainerError> {
        let mut checkpoints = Vec::with_capacity((self.count / CHECKPOINT_INTERVAL) as usize + 1);
        let mut walk =
            SampleIter { samples: self, position: WalkPosition { dts: self.first_dts, ..WalkPosition::default() } };
        let count = loop {
            if walk.position.number.is_multiple_of(CHECKPOINT_INTERVAL) {
                checkpoints.push(walk.position);
            }
            let Some(sample) = walk.next() else { break walk.position.number };
            if !keep(&sample)? {
                break sample.number;
            }
        };
        (self.count, self.checkpoints) = (count, checkpoints);
        Ok(())
    }

    /// Makes the tables end with the present samples, so that more can be appended.
    pub(super) fn prepare_append(&mut self) {
        self.chunks.retain(|chunk| chunk.first_sample < self.count);
        if let SampleSizes::Uniform(size) = self.sizes {
            self.sizes = SampleSizes::PerSample(vec![size; self.count as usize]);
        }
        fit_to_count(&mut self.durations, self.count);
        fit_to_count(&mut self.composition_offsets, self.count);
        let every_sample = || (0..self.count).collect();
        self.sync_samples.get_or_insert_with(every_sample);
    }

    /// Begins a run of consecutive samples, at this decoding time if the file states one.
    pub(super) fn begin_run(&mut self, dts: Option<i64>, next_dts: &mut i64) -> Result<(), ContainerError> {
        let Some(dts) = dts.filter(|dts| dts != next_dts) else { return Ok(()) };
        match self.durations.last_mut() {
            None => self.first_dts = dts,
            // A gap: extend the duration of the sample before it.
            Some(&mut (_, last_duration)) => {
                let duration = i64::from(last_duration).checked_add(dts - *next_dts);
                let duration = duration.and_then(|duration| u32::try_from(duration).ok());
                let duration = duration.ok_or(ContainerError::Unsupported("fragments jump in time"))?;
                pop_last(&mut self.durations);
                push_run(&mut self.durations, duration);
            }
        }
        *next_dts = dts;
        Ok(())
    }

    pub(super) fn push_chunk(&mut self, offset: u64) {
        self.chunks.push(Chunk { offset, first_sample: self.count });
    }

    pub(super) fn push_sample(
        &mut self,
        size: u32,
        duration: u32,
        composition_offset: i32,
        is_sync: bool,
    ) -> Result<(), ContainerError> {
        refuse_if(u64::from(self.count) >= MAX_SAMPLES, ContainerError::Uncuttable("the track has too many samples"))?;
        if let SampleSizes::PerSample(sizes) = &mut self.sizes {
            sizes.push(size);
        }
        push_run(&mut self.durations, duration);
        push_run(&mut self.composition_offsets, composition_offset);
        if let Some(numbers) = self.sync_samples.as_mut().filter(|_| is_sync) {
            numbers.push(self.count);
        }
        self.count += 1;
        Ok(())
    }

    /// Minimum composition offset; 0 without any.
    pub(super) fn min_composition_offset(&self) -> i32 {
        self.composition_offsets.iter().filter(|(count, _)| *count > 0).map(|(_, shift)| *shift).min().unwrap_or(0)
    }
}

fn push_run<T: Copy + PartialEq>(runs: &mut RunLengths<T>, value: T) {
    match runs.last_mut() {
        Some((count, last)) if *last == value => *count += 1,
        _ => runs.push((1, value)),
    }
}

/// Removes the last value.
fn pop_last<T>(runs: &mut RunLengths<T>) {
    if let Some((count, _)) = runs.last_mut() {
        *count -= 1;
        if *count == 0 {
            runs.pop();
        }
    }
}

/// Makes runs cover exactly `count` samples; missing ones get the default value.
fn fit_to_count<T: Copy + Default>(runs: &mut RunLengths<T>, count: u32) {
    let mut remaining = count;
    runs.retain_mut(|(samples, _)| {
        *samples = (*samples).min(remaining);
        remaining -= *samples;
        *samples > 0
    });
    if remaining > 0 {
        runs.push((remaining, T::default()));
    }
}

struct SampleIter<'a> {
    samples: &'a SampleTable,
    position: WalkPosition,
}

impl Iterator for SampleIter<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let Self { samples, position } = self;
        let number = position.number;
        if number >= samples.count {
            return None;
        }
        while samples.chunks.get(position.chunk + 1).is_some_and(|next| next.first_sample <= number) {
            position.chunk += 1;
            position.offset = None;
        }
        let offset = match position.offset {
            Some(offset) => offset,
            None => samples.chunks.get(position.chunk)?.offset,
        };
        let size = match &samples.sizes {
            SampleSizes::Uniform(size) => *size,
            SampleSizes::PerSample(sizes) => *sizes.get(number as usize)?,
        };
        let duration = next_value(&samples.durations, &mut position.duration_run);
        let composition_offset = next_value(&samples.composition_offsets, &mut position.offset_run);
        let is_sync = match &samples.sync_samples {
            None => true,
            Some(numbers) => {
                while numbers.get(position.sync_index).is_some_and(|&sync_number| sync_number < number) {
                    position.sync_index += 1;
                }
                numbers.get(position.sync_index) == Some(&number)
            }
        };
        let sample = Sample { number, offset, size, dts: position.dts, duration, composition_offset, is_sync };
        position.offset = Some(sample.end());
        position.dts = position.dts.saturating_add(i64::from(duration));
        position.number += 1;
        Some(sample)
    }
}

/// The value at a position in a run-length table; advances the position. The default value if the table is too short.
fn next_value<T: Copy + Default>(runs: &[(u32, T)], position: &mut (usize, u32)) -> T {
    while let Some(&(count, value)) = runs.get(position.0) {
        if position.1 < count {
            position.1 += 1;
            return value;
        }
        *position = (position.0 + 1, 0);
    }
    T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_sample_is_reached_as_a_walk_from_the_first_reaches_it(
            runs in proptest::collection::vec((0u64..1 << 40, 0u32..3000, 1u32..9, -3i32..9, any::<bool>()), 1..6),
            gap in 0i64..1000,
            number in 0u32..10_000,
        ) {
            let mut samples = SampleTable { sync_samples: Some(Vec::new()), ..SampleTable::default() };
            let mut next = 0;
            let mut want = Vec::new();
            for &(offset, count, duration, shift, sync) in &runs {
                samples.begin_run(Some(next + gap), &mut next).unwrap();
                samples.push_chunk(offset);
                let mut at = offset;
                for _ in 0..count {
                    let size = (at % 7) as u32;
                    want.push((at, size, next, shift, sync));
                    samples.push_sample(size, duration, shift, sync).unwrap();
                    at += u64::from(size);
                    next += i64::from(duration);
                }
            }
            samples.truncate_and_index(|_| Ok(true)).unwrap();
            prop_assert_eq!(samples.len() as usize, want.len());
            let got: Vec<_> = samples.iter_from(number).map(|s| (s.offset, s.size, s.dts, s.composition_offset, s.is_sync)).collect();
            prop_assert_eq!(&got[..], want.get(number as usize..).unwrap_or_default());
            let late = i64::from(number) * 3;
            let first = want.iter().position(|sample| sample.2 >= late).unwrap_or(want.len());
            prop_assert_eq!(samples.find_by_dts(|dts| dts >= late) as usize, first);
        }
    }
}
