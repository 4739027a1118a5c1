//! Times of the coded pictures whose packets state none: multiplexers need to state one every 0.7 s only.
//!
//! As in ffmpeg: a B-picture is shown when it is decoded, any other one when the next of them is decoded, and each is decoded
//! when the one before it has been shown.

use std::collections::VecDeque;

use super::picture_splitter::CodedPicture;
use crate::domain::time::Ticks;

/// Most pictures held until the next picture that is not bidirectional, and their bytes.
const MAX_HELD: usize = 32;
const MAX_HELD_BYTES: usize = 16 << 20;

/// Pictures in decoding order, given times.
#[derive(Debug)]
pub struct PictureTimes {
    /// When the next picture is decoded; None before the first timestamp.
    next_dts: Option<Ticks>,
    /// Duration of the last picture that is not bidirectional: it is shown while the next one is decoded.
    reference_duration: Option<Ticks>,
    /// Whether pictures are reordered: others than B-pictures are shown later than they are decoded.
    has_reordering: bool,
    /// The first one has no presentation time yet.
    held: VecDeque<CodedPicture>,
    ready: VecDeque<CodedPicture>,
}

impl Default for PictureTimes {
    fn default() -> Self {
        Self::new(true)
    }
}

impl PictureTimes {
    /// `has_reordering` applies until a picture states both of its times.
    pub fn new(has_reordering: bool) -> Self {
        let (held, ready) = (VecDeque::new(), VecDeque::new());
        Self { next_dts: None, reference_duration: None, has_reordering, held, ready }
    }

    /// Adds a picture in decoding order.
    pub fn push(&mut self, mut picture: CodedPicture) {
        let dts = picture.dts.or(self.next_dts);
        if picture.is_bidirectional {
            picture.pts = picture.pts.or(dts);
            self.next_dts = picture.pts.map(|pts| pts + picture.duration);
        } else {
            self.release_held(dts);
            if let Some((pts, dts)) = picture.pts.zip(picture.dts) {
                self.has_reordering = pts > dts;
            }
            if !self.has_reordering {
                picture.pts = picture.pts.or(dts);
            }
            let shown = self.reference_duration.replace(picture.duration).filter(|_| self.has_reordering);
            self.next_dts = dts.map(|dts| dts + shown.unwrap_or(picture.duration));
        }
        if picture.duration == Ticks::ZERO {
            self.next_dts = None;
        }
        picture.dts = dts;
        let held_bytes: usize = self.held.iter().map(|held| held.bytes.len()).sum();
        if self.held.len() >= MAX_HELD || held_bytes >= MAX_HELD_BYTES {
            self.release_held(None);
        }
        if !self.held.is_empty() || picture.pts.is_none() {
            self.held.push_back(picture);
        } else {
            self.ready.push_back(picture);
        }
    }

    /// The next picture with its times.
    pub fn next_picture(&mut self) -> Option<CodedPicture> {
        self.ready.pop_front()
    }

    /// Marks the end of the stream.
    pub fn finish(&mut self) {
        self.release_held(self.next_dts);
    }

    /// Gives the first held picture its presentation time.
    fn release_held(&mut self, pts: Option<Ticks>) {
        if let Some(first) = self.held.front_mut() {
            first.pts = pts;
        }
        self.ready.append(&mut self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture_splitter::Origin;
    use super::*;

    /// Pictures of 25 fps by their type and, for some, PTS and DTS in frames.
    fn timed(pictures: &[(char, Option<(i64, i64)>)]) -> Vec<i64> {
        let frame = Ticks(3600);
        let mut times = PictureTimes::default();
        for (kind, stated) in pictures {
            times.push(CodedPicture {
                pts: stated.map(|(pts, _)| frame * pts),
                dts: stated.map(|(_, dts)| frame * dts),
                is_bidirectional: *kind == 'B',
                is_keyframe: *kind == 'I',
                duration: frame,
                origin: Origin::default(),
                bytes: Vec::new(),
            });
        }
        times.finish();
        std::iter::from_fn(|| times.next_picture()).map(|picture| picture.pts.map_or(-1, |pts| pts.0 / 3600)).collect()
    }

    #[test]
    fn missing_times_follow_from_the_order_of_decoding() {
        let stated = |pts, dts| Some((pts, dts));
        // I0 P3 B1 B2 P6 B4 B5 I9 B7 B8, where only the first I-picture has times.
        let types: Vec<char> = "IPBBPBBIBB".chars().collect();
        let mut pictures: Vec<_> = types.iter().map(|kind| (*kind, None)).collect();
        pictures[0].1 = stated(1, 0);
        let expected = [1, 4, 2, 3, 7, 5, 6, 10, 8, 9];
        assert_eq!(timed(&pictures), expected);
        // A later one that states them is believed.
        pictures[7].1 = stated(12, 9);
        assert_eq!(timed(&pictures), [1, 4, 2, 3, 9, 5, 6, 12, 10, 11]);
        assert_eq!(timed(&[('I', stated(5, 5)), ('P', None), ('P', stated(7, 7)), ('P', None)]), [5, 6, 7, 8]);
        assert_eq!(timed(&[('P', None), ('B', None), ('I', stated(4, 3)), ('B', None)]), [3, -1, 4, 4]);
    }

    #[test]
    fn few_pictures_are_held() {
        let mut times = PictureTimes::default();
        for _ in 0..200 {
            times.push(CodedPicture { is_bidirectional: true, ..picture_without_times() });
        }
        assert!(times.held.len() <= MAX_HELD && times.ready.len() >= 200 - MAX_HELD);
    }

    fn picture_without_times() -> CodedPicture {
        CodedPicture {
            pts: None,
            dts: None,
            is_bidirectional: false,
            is_keyframe: false,
            duration: Ticks::ZERO,
            origin: Origin::default(),
            bytes: Vec::new(),
        }
    }
}
