//! The samples of one track, as compact as in the file.
//!
//! Run-length tables stay run-length coded. A sample costs the four bytes of its size, and eight more if it is reordered.
//! Any sample is reached by a walk from a checkpoint at most 1,024 samples before it.

use super::super::Refusal;
use super::MOST_SAMPLES;

/// Samples between two checkpoints.
const STRIDE: u32 = 1024;

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
    pub shift: i32,
    /// Listed as a sync sample.
    pub sync: bool,
}

impl Sample {
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.size))
    }

    /// Presentation time.
    pub fn time(&self) -> i64 {
        self.dts.saturating_add(i64::from(self.shift))
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Sizes {
    All(u32),
    Each(Vec<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub offset: u64,
    /// Number of its first sample.
    pub first: u32,
}

/// A run-length coded table of (samples, value).
type Runs<T> = Vec<(u32, T)>;

/// All samples of a track, in decoding order.
#[derive(Clone)]
pub struct Samples {
    pub(super) count: u32,
    pub(super) sizes: Sizes,
    pub(super) chunks: Vec<Chunk>,
    /// Decoding time of the first sample.
    pub(super) start: i64,
    pub(super) durations: Runs<u32>,
    pub(super) shifts: Runs<i32>,
    /// Numbers of the sync samples from 0, ascending; None: every sample is a sync sample.
    pub(super) sync: Option<Vec<u32>>,
    marks: Vec<Place>,
}

impl std::fmt::Debug for Samples {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} samples", self.count)
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            count: 0,
            sizes: Sizes::Each(Vec::new()),
            chunks: Vec::new(),
            start: 0,
            durations: Vec::new(),
            shifts: Vec::new(),
            sync: None,
            marks: Vec::new(),
        }
    }
}

/// The position of a walk.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    number: u32,
    chunk: usize,
    /// None: the chunk's offset.
    offset: Option<u64>,
    dts: i64,
    duration: (usize, u32),
    shift: (usize, u32),
    sync: usize,
}

impl Samples {
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Memory used by the tables, bytes.
    pub fn weight(&self) -> usize {
        let sizes = match &self.sizes {
            Sizes::All(_) => 0,
            Sizes::Each(sizes) => sizes.len() * size_of::<u32>(),
        };
        let sync = self.sync.as_ref().map_or(0, |numbers| numbers.len() * size_of::<u32>());
        let runs = (self.durations.len() + self.shifts.len()) * size_of::<(u32, u32)>();
        sizes + sync + runs + self.chunks.len() * size_of::<Chunk>() + self.marks.len() * size_of::<Place>()
    }

    /// The samples from `number`.
    pub fn walk(&self, number: u32) -> impl Iterator<Item = Sample> {
        let mark = self.marks.get((number / STRIDE) as usize).copied();
        let place = mark.unwrap_or(Place { dts: self.start, ..Place::default() });
        let skip = number.saturating_sub(place.number) as usize;
        Walk { samples: self, place }.skip(skip)
    }

    /// The first sample whose decoding time satisfies `late`, which must then be true for all later samples.
    pub fn find(&self, late: impl Fn(i64) -> bool) -> u32 {
        let mark = self.marks.partition_point(|mark| !late(mark.dts)).saturating_sub(1);
        let from = (mark as u32).saturating_mul(STRIDE);
        self.walk(from).find(|sample| late(sample.dts)).map_or(self.count, |sample| sample.number)
    }

    /// Whether any sample has a composition offset.
    pub fn is_reordered(&self) -> bool {
        self.shifts.iter().any(|(count, shift)| *count > 0 && *shift != 0)
    }

    /// Keeps the samples before the first for which `each` returns false, and sets the checkpoints. Called once, when all
    /// samples are known.
    pub(super) fn survey(&mut self, mut each: impl FnMut(&Sample) -> Result<bool, Refusal>) -> Result<(), Refusal> {
        let mut marks = Vec::with_capacity((self.count / STRIDE) as usize + 1);
        let mut walk = Walk { samples: self, place: Place { dts: self.start, ..Place::default() } };
        let count = loop {
            if walk.place.number.is_multiple_of(STRIDE) {
                marks.push(walk.place);
            }
            let Some(sample) = walk.next() else { break walk.place.number };
            if !each(&sample)? {
                break sample.number;
            }
        };
        (self.count, self.marks) = (count, marks);
        Ok(())
    }

    /// Makes the tables end with the present samples, so that more can be appended.
    pub(super) fn prepare(&mut self) {
        self.chunks.retain(|chunk| chunk.first < self.count);
        if let Sizes::All(size) = self.sizes {
            self.sizes = Sizes::Each(vec![size; self.count as usize]);
        }
        fit(&mut self.durations, self.count);
        fit(&mut self.shifts, self.count);
        let all = || (0..self.count).collect();
        self.sync.get_or_insert_with(all);
    }

    /// Begins a run of consecutive samples, at this decoding time if the file states one.
    pub(super) fn begin(&mut self, dts: Option<i64>, next: &mut i64) -> Result<(), Refusal> {
        let Some(dts) = dts.filter(|dts| dts != next) else { return Ok(()) };
        match self.durations.last_mut() {
            None => self.start = dts,
            // A gap: extend the duration of the sample before it.
            Some(&mut (_, last)) => {
                let duration = i64::from(last).checked_add(dts - *next);
                let duration = duration.and_then(|duration| u32::try_from(duration).ok());
                let duration = duration.ok_or(Refusal::Unread("fragments jump in time"))?;
                shorten(&mut self.durations);
                push(&mut self.durations, duration);
            }
        }
        *next = dts;
        Ok(())
    }

    pub(super) fn chunk(&mut self, offset: u64) {
        self.chunks.push(Chunk { offset, first: self.count });
    }

    pub(super) fn push(&mut self, size: u32, duration: u32, shift: i32, sync: bool) -> Result<(), Refusal> {
        if u64::from(self.count) >= MOST_SAMPLES {
            return Err(Refusal::Final("the track has too many samples".into()));
        }
        if let Sizes::Each(sizes) = &mut self.sizes {
            sizes.push(size);
        }
        push(&mut self.durations, duration);
        push(&mut self.shifts, shift);
        if let Some(numbers) = self.sync.as_mut().filter(|_| sync) {
            numbers.push(self.count);
        }
        self.count += 1;
        Ok(())
    }

    /// Minimum composition offset; 0 if there are none.
    pub(super) fn least_shift(&self) -> i32 {
        self.shifts.iter().filter(|(count, _)| *count > 0).map(|(_, shift)| *shift).min().unwrap_or(0)
    }
}

fn push<T: Copy + PartialEq>(runs: &mut Runs<T>, value: T) {
    match runs.last_mut() {
        Some((count, last)) if *last == value => *count += 1,
        _ => runs.push((1, value)),
    }
}

/// Removes the last value.
fn shorten<T>(runs: &mut Runs<T>) {
    if let Some((count, _)) = runs.last_mut() {
        *count -= 1;
        if *count == 0 {
            runs.pop();
        }
    }
}

/// Makes runs cover exactly `count` samples; missing ones get the default value.
fn fit<T: Copy + Default>(runs: &mut Runs<T>, count: u32) {
    let mut left = count;
    runs.retain_mut(|(samples, _)| {
        *samples = (*samples).min(left);
        left -= *samples;
        *samples > 0
    });
    if left > 0 {
        runs.push((left, T::default()));
    }
}

struct Walk<'a> {
    samples: &'a Samples,
    place: Place,
}

impl Iterator for Walk<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let Self { samples, place } = self;
        let number = place.number;
        if number >= samples.count {
            return None;
        }
        while samples.chunks.get(place.chunk + 1).is_some_and(|next| next.first <= number) {
            place.chunk += 1;
            place.offset = None;
        }
        let offset = match place.offset {
            Some(offset) => offset,
            None => samples.chunks.get(place.chunk)?.offset,
        };
        let size = match &samples.sizes {
            Sizes::All(size) => *size,
            Sizes::Each(sizes) => *sizes.get(number as usize)?,
        };
        let duration = step(&samples.durations, &mut place.duration);
        let shift = step(&samples.shifts, &mut place.shift);
        let sync = match &samples.sync {
            None => true,
            Some(numbers) => {
                while numbers.get(place.sync).is_some_and(|&at| at < number) {
                    place.sync += 1;
                }
                numbers.get(place.sync) == Some(&number)
            }
        };
        let sample = Sample { number, offset, size, dts: place.dts, duration, shift, sync };
        place.offset = Some(sample.end());
        place.dts = place.dts.saturating_add(i64::from(duration));
        place.number += 1;
        Some(sample)
    }
}

/// The value at a position in a run-length table; advances the position. The default value if the table is too short.
fn step<T: Copy + Default>(runs: &[(u32, T)], place: &mut (usize, u32)) -> T {
    while let Some(&(count, value)) = runs.get(place.0) {
        if place.1 < count {
            place.1 += 1;
            return value;
        }
        *place = (place.0 + 1, 0);
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
            let mut samples = Samples { sync: Some(Vec::new()), ..Samples::default() };
            let mut next = 0;
            let mut want = Vec::new();
            for &(offset, count, duration, shift, sync) in &runs {
                samples.begin(Some(next + gap), &mut next).unwrap();
                samples.chunk(offset);
                let mut at = offset;
                for _ in 0..count {
                    let size = (at % 7) as u32;
                    want.push((at, size, next, shift, sync));
                    samples.push(size, duration, shift, sync).unwrap();
                    at += u64::from(size);
                    next += i64::from(duration);
                }
            }
            samples.survey(|_| Ok(true)).unwrap();
            prop_assert_eq!(samples.len() as usize, want.len());
            let got: Vec<_> = samples.walk(number).map(|s| (s.offset, s.size, s.dts, s.shift, s.sync)).collect();
            prop_assert_eq!(&got[..], want.get(number as usize..).unwrap_or_default());
            let late = i64::from(number) * 3;
            let first = want.iter().position(|sample| sample.2 >= late).unwrap_or(want.len());
            prop_assert_eq!(samples.find(|dts| dts >= late) as usize, first);
        }
    }
}
