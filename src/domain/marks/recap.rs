//! Recaps by their look: before the intro, frames from several moments of earlier episodes follow each other.

use super::dark_end::FRAME_BYTES;

/// Frames of the same moment are at least so similar (Pearson's correlation). Encoded again, or brighter, they still are; the same
/// room with people who moved is not.
const MIN_CORRELATION: f64 = 0.985;

/// A frame of less contrast (standard deviation of its pixels, 0 to 255) is a fade or a title.
const MIN_CONTRAST: f64 = 10.0;

/// A frame that an episode has again after so many seconds is a view that it returns to, not a moment.
const MAX_MOMENT_SECONDS: usize = 20;

/// Frames of an episode further apart than this are of different moments, seconds.
const MOMENT_DISTANCE: usize = 8;

/// The longest part of a recap without a frame that is found, seconds: most frames move too fast to be found.
const MAX_GAP_SECONDS: f64 = 15.0;

/// The fewest moments and frames of a recap. Series show the same street or logo again, but not four of them one after the other.
const MIN_MOMENTS: usize = 4;
const MIN_FRAMES: usize = 6;

/// The shortest and the longest recap, seconds.
const RECAP_SECONDS: (f64, f64) = (10.0, 180.0);

/// A recap whose first frame is found so early begins with the episode, seconds.
const MAX_TITLE_SECONDS: f64 = 10.0;

/// Certainty of the fewest moments, of each further one, and at most, percent.
const LEAST_PERCENT: usize = 60;
const PERCENT_OF_MOMENT: usize = 5;
const MOST_PERCENT: usize = 90;

/// The images of an earlier episode.
#[derive(Clone, Debug, Default)]
pub struct EpisodeImages(Vec<(usize, Image)>);

/// A recap, seconds from the first frame of the opening.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recap {
    pub start_seconds: f64,
    pub end_seconds: f64,
    pub confidence_percent: u8,
}

/// An image without its brightness and contrast.
#[derive(Clone, Debug)]
struct Image {
    pixels: Box<[i8]>,
    /// Length of the vector of pixels.
    norm: f64,
}

/// A frame of the opening that is one moment of an earlier episode.
#[derive(Clone, Copy, Debug)]
struct FoundFrame {
    at_seconds: f64,
    episode: usize,
    /// Second of that episode.
    moment: usize,
}

impl Image {
    /// None for an image of one colour.
    fn new(pixels: &[u8]) -> Option<Self> {
        let count = pixels.len() as f64;
        let mean = pixels.iter().map(|pixel| f64::from(*pixel)).sum::<f64>() / count;
        let variance = pixels.iter().map(|pixel| (f64::from(*pixel) - mean).powi(2)).sum::<f64>() / count;
        let contrast = variance.sqrt();
        if contrast < MIN_CONTRAST {
            return None;
        }
        let level = |pixel: &u8| ((f64::from(*pixel) - mean) / contrast * 32.0).clamp(-127.0, 127.0) as i8;
        let pixels: Box<[i8]> = pixels.iter().map(level).collect();
        let norm = pixels.iter().map(|pixel| f64::from(*pixel).powi(2)).sum::<f64>().sqrt();
        Some(Self { pixels, norm })
    }

    fn is_same_moment(&self, other: &Self) -> bool {
        let products = self.pixels.iter().zip(&other.pixels).map(|(a, b)| i32::from(*a) * i32::from(*b));
        f64::from(products.sum::<i32>()) >= MIN_CORRELATION * self.norm * other.norm
    }
}

impl EpisodeImages {
    /// One image for each second, grey, of [`FRAME_BYTES`] bytes. Those before `from_second` are left out: an opening is not recapped,
    /// and what all openings have is no recap.
    pub fn new(images: &[u8], from_second: usize) -> Self {
        let mut kept: Vec<(usize, Image)> = Vec::new();
        let mut last: &[u8] = &[];
        for (second, pixels) in images.chunks_exact(FRAME_BYTES).enumerate().skip(from_second) {
            // The same keyframe again.
            if pixels != last {
                kept.extend(Image::new(pixels).map(|image| (second, image)));
            }
            last = pixels;
        }
        Self(kept)
    }
}

/// The recap in the opening of an episode, of which `frames` has so many images for each second; None without certainty.
pub fn find_recap(frames: &[u8], per_second: u32, earlier: &[&EpisodeImages]) -> Option<Recap> {
    let frames = frames.chunks_exact(FRAME_BYTES).enumerate();
    let found = frames.filter_map(|(at, pixels)| {
        let (episode, moment) = find_moment(&Image::new(pixels)?, earlier)?;
        Some(FoundFrame { at_seconds: at as f64 / f64::from(per_second), episode, moment })
    });
    let found: Vec<FoundFrame> = found.collect();
    let runs = found.chunk_by(|a, b| b.at_seconds - a.at_seconds <= MAX_GAP_SECONDS);
    let recaps = runs.filter_map(|run| {
        let (first, last) = (run.first()?.at_seconds, run.last()?.at_seconds + 1.0 / f64::from(per_second));
        let start_seconds = if first <= MAX_TITLE_SECONDS { 0.0 } else { first };
        let moments = count_moments(run);
        let is_recap = moments >= MIN_MOMENTS
            && run.len() >= MIN_FRAMES
            && (RECAP_SECONDS.0..=RECAP_SECONDS.1).contains(&(last - start_seconds));
        let percent = (LEAST_PERCENT + PERCENT_OF_MOMENT * moments.saturating_sub(MIN_MOMENTS)).min(MOST_PERCENT);
        is_recap.then_some(Recap { start_seconds, end_seconds: last, confidence_percent: percent as u8 })
    });
    recaps.max_by_key(|recap| recap.confidence_percent)
}

/// The only moment of the earlier episodes that a frame shows: episode and second.
fn find_moment(frame: &Image, earlier: &[&EpisodeImages]) -> Option<(usize, usize)> {
    let mut found: Option<(usize, usize)> = None;
    for (episode, images) in earlier.iter().enumerate() {
        for (second, _) in images.0.iter().filter(|(_, image)| frame.is_same_moment(image)) {
            match found {
                Some((known, first)) if known != episode || second - first > MAX_MOMENT_SECONDS => return None,
                Some(_) => {}
                None => found = Some((episode, *second)),
            }
        }
    }
    found
}

fn count_moments(frames: &[FoundFrame]) -> usize {
    let mut moments: Vec<(usize, usize)> = frames.iter().map(|frame| (frame.episode, frame.moment)).collect();
    moments.sort_unstable();
    let is_near = |a: &(usize, usize), b: &(usize, usize)| a.0 == b.0 && b.1 - a.1 <= MOMENT_DISTANCE;
    moments.chunk_by(is_near).count()
}

#[cfg(test)]
mod tests {
    use super::super::dark_end::FRAME_SIZE;
    use super::*;

    /// An image of soft shapes that follow from `seed`; black for seed 0.
    fn image(seed: u32, brightness: f64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 16) / 65_536.0
        };
        let waves: Vec<[f64; 3]> = (0..8).map(|_| [next() * 0.6, next() * 0.6, next() * 6.3]).collect();
        let pixel = |n: usize| {
            let (x, y) = ((n % FRAME_SIZE.0) as f64, (n / FRAME_SIZE.0) as f64);
            let sum: f64 = waves.iter().map(|[a, b, phase]| (a * x + b * y + phase).sin()).sum();
            ((120.0 + 12.0 * sum) * brightness) as u8
        };
        (0..FRAME_BYTES).map(|n| if seed == 0 { 0 } else { pixel(n) }).collect()
    }

    /// Two images a second of scenes of `seconds` each.
    fn opening(scenes: &[u32], seconds: usize, brightness: f64) -> Vec<u8> {
        scenes.iter().flat_map(|seed| image(*seed, brightness).repeat(2 * seconds)).collect()
    }

    /// One image a second of scenes of 10 s each.
    fn episode(scenes: impl Iterator<Item = u32>) -> EpisodeImages {
        EpisodeImages::new(&scenes.flat_map(|seed| image(seed, 1.0).repeat(10)).collect::<Vec<_>>(), 0)
    }

    #[test]
    fn moments_of_earlier_episodes_are_a_recap() {
        let (first, second) = (episode(100..130), episode(200..230));
        let earlier = [&first, &second];
        let recap = |scenes: &[u32], seconds| find_recap(&opening(scenes, seconds, 0.8), 2, &earlier);
        let found = recap(&[1, 105, 212, 0, 128, 203, 110, 2, 3], 4).unwrap();
        assert_eq!((found.start_seconds, found.end_seconds, found.confidence_percent), (0.0, 28.0, 65));
        let late = recap(&[1, 2, 3, 4, 105, 212, 128, 203], 5).unwrap();
        assert_eq!((late.start_seconds, late.end_seconds), (20.0, 40.0));
        assert_eq!(recap(&[105, 1, 2, 3, 212, 4, 5, 6, 128, 7, 8, 9, 203], 6), None, "too far apart");
        assert_eq!(recap(&[105, 212, 128, 1], 5), None, "too few");
        assert_eq!(recap(&[105, 212, 128, 203], 2), None, "too short");
        assert_eq!(recap(&[1, 2, 3, 4, 5, 6, 7, 8], 5), None);
        assert_eq!(find_recap(&[], 2, &earlier), None);
    }

    #[test]
    fn views_that_return_are_no_recap() {
        // The studio of every episode, and the street between its scenes.
        let standing = [11, 12, 13, 14, 15];
        let first = episode(standing.into_iter().chain(300..310).chain(standing));
        let second = episode((400..410).chain(standing));
        let scenes = opening(&standing, 5, 1.0);
        assert_eq!(find_recap(&scenes, 2, &[&first]), None, "again in the same episode");
        assert_eq!(find_recap(&scenes, 2, &[&episode(standing.into_iter().chain(300..310)), &second]), None);
        // An opening that all episodes have.
        let teaser: Vec<u8> = standing.iter().flat_map(|seed| image(*seed, 1.0).repeat(10)).collect();
        assert_eq!(find_recap(&scenes, 2, &[&EpisodeImages::new(&teaser, 50)]), None);
        assert_eq!(find_recap(&opening(&[0, 0, 0, 0], 5, 1.0), 2, &[&episode([0; 30].into_iter())]), None, "black");
    }
}
