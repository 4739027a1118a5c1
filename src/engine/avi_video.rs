//! MPEG-4 video of an AVI file as frames with their times in source time, starting at a keyframe.
//!
//! AVI counts frames in the order of decoding and states no other times. With B-frames the time at which a frame is shown follows
//! from the types of the frames after it.

use std::io::{Error, Result};
use std::sync::Arc;

use super::clock::PesPayload;
use super::container::avi::{VideoFrames, read_video_frames};
use super::container::bytes::ReadAt;
use crate::domain::media::Media;
use crate::domain::mpeg4_video::{VopType, configuration, low_delay, vop_types};
use crate::domain::mpegps::picture_splitter::{CodedPicture, Origin};
use crate::domain::mpegps::picture_times::PictureTimes;
use crate::domain::time::Ticks;
use crate::engine::source::SourceFile;

/// Frames at the beginning of the file in which B-frames are searched.
const EXAMINED_FRAMES: usize = 64;

/// Largest frame read, bytes.
const MAX_FRAME_BYTES: u32 = 16 << 20;

/// How far before the start a keyframe must be decoded, so that it is shown by then.
const KEYFRAME_LEAD: Ticks = Ticks::from_ms(1000);

/// A stream being read. Its methods block on file I/O.
#[derive(Debug)]
pub struct AviVideo {
    source: Arc<SourceFile>,
    index: VideoFrames,
    /// Time of the item's 0.
    zero: Ticks,
    /// Number of the frame to read next.
    next: usize,
    times: PictureTimes,
    /// Headers that the decoder needs before the first frame.
    headers: Option<Vec<u8>>,
    has_ended: bool,
}

impl AviVideo {
    /// Opens stream `index` of the file at the last keyframe that is shown at or before `start`.
    ///
    /// # Errors
    /// Those of reading the file, that its index cannot be used, or that it packs several frames into one.
    pub fn open(source: &Arc<SourceFile>, media: &Media, index: u32, start: Ticks) -> Result<Self> {
        let position = media.video_streams().position(|(stream, _)| stream.index == index);
        let position = position.ok_or_else(|| Error::other("the AVI file has no such stream"))?;
        let table = read_video_frames(&**source, position).map_err(|cause| Error::other(cause.reason()))?;
        let mut video = Self {
            source: source.clone(),
            index: table,
            zero: Ticks::from_seconds(media.start_seconds),
            next: 0,
            times: PictureTimes::default(),
            headers: None,
            has_ended: false,
        };
        video.examine_beginning()?;
        if start > Ticks::ZERO {
            let is_early = |number: usize| video.frame_time(number) + KEYFRAME_LEAD <= start;
            let end = (0..video.index.frames.len()).take_while(|number| is_early(*number)).count();
            video.next = video.index.frames[..end].iter().rposition(|frame| frame.is_keyframe).unwrap_or(0);
        }
        Ok(video)
    }

    /// The next frame; None at the end of the file.
    ///
    /// # Errors
    /// Those of reading the file, or that it is truncated.
    pub fn next_payload(&mut self) -> Result<Option<PesPayload>> {
        loop {
            if let Some(frame) = self.times.next_picture() {
                return Ok(Some(PesPayload { pts: frame.pts, dts: frame.dts, bytes: frame.bytes }));
            }
            if self.has_ended {
                return Ok(None);
            }
            if self.next >= self.index.frames.len() {
                self.has_ended = true;
                self.times.finish();
                continue;
            }
            let number = self.next;
            self.next += 1;
            let mut bytes = self.read_frame(number)?;
            let Some(vop) = vop_types(&bytes).next() else { continue };
            if let Some(headers) = self.headers.take().filter(|_| configuration(&bytes).is_none()) {
                bytes = [headers, bytes].concat();
            }
            self.times.push(CodedPicture {
                pts: None,
                dts: Some(self.frame_time(number)),
                is_bidirectional: vop == VopType::Bidirectional,
                is_keyframe: vop == VopType::Intra,
                duration: self.frame_time(number + 1) - self.frame_time(number),
                origin: Origin::default(),
                bytes,
            });
        }
    }

    /// Finds the decoder's headers, and whether frames are reordered.
    fn examine_beginning(&mut self) -> Result<()> {
        let mut has_b_frames = false;
        for number in 0..self.index.frames.len().min(EXAMINED_FRAMES) {
            let bytes = self.read_frame(number)?;
            if self.headers.is_none() {
                self.headers = configuration(&bytes).map(<[u8]>::to_vec);
            }
            let types: Vec<VopType> = vop_types(&bytes).take(2).collect();
            if types.len() > 1 {
                return Err(Error::other("the AVI file packs B-frames with other frames"));
            }
            has_b_frames |= types.contains(&VopType::Bidirectional);
        }
        let headers = self.headers.as_deref().ok_or_else(|| Error::other("the AVI file has no MPEG-4 headers"))?;
        self.times = PictureTimes::new(has_b_frames || low_delay(headers) == Some(false));
        Ok(())
    }

    fn frame_time(&self, number: usize) -> Ticks {
        Ticks::from_units(number as i128 * i128::from(self.index.scale), self.index.rate) - self.zero
    }

    /// The bytes of a frame; none if the previous one is shown again.
    fn read_frame(&self, number: usize) -> Result<Vec<u8>> {
        let frame = &self.index.frames[number];
        if frame.len > MAX_FRAME_BYTES {
            return Err(Error::other("a frame of the AVI file is too large"));
        }
        let bytes = self.source.read_exact(frame.offset, frame.len as usize);
        bytes.map_err(|_| Error::other("the AVI file is truncated"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{Container, Stream, StreamKind, Video};
    use crate::engine::source::open_in_test;
    use proptest::prelude::*;

    fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let padding = vec![0; body.len() % 2];
        [name, &(body.len() as u32).to_le_bytes()[..], body, &padding].concat()
    }

    /// A frame: I with the decoder's headers if it is the first one, P, B, or nothing for a repeated frame.
    fn frame(number: usize, kind: char) -> Vec<u8> {
        let headers: &[u8] = if number == 0 { &[0, 0, 1, 0x20, 0x00, 0xc4, 0x89, 0x80] } else { &[] };
        let vop = match kind {
            'I' => 0x10,
            'P' => 0x50,
            'B' => 0x90,
            _ => return Vec::new(),
        };
        [headers, &[0, 0, 1, 0xb6, vop, number as u8]].concat()
    }

    /// An AVI file of 25 fps with frames of these kinds.
    fn make_film(kinds: &str) -> Vec<u8> {
        let header = [0, 0, 0, 0, 1, 25, 0].map(u32::to_le_bytes).concat();
        let stream = chunk(b"LIST", &[&b"strl"[..], &chunk(b"strh", &[&b"vids"[..], &header].concat())].concat());
        let headers = chunk(b"LIST", &[&b"hdrl"[..], &stream].concat());
        let (mut movi, mut index) = (b"movi".to_vec(), Vec::new());
        for (number, kind) in kinds.chars().enumerate() {
            let bytes = frame(number, kind);
            let flags = if kind == 'I' { 0x10u32 } else { 0 };
            let fields = [flags, movi.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat();
            index.extend([&b"00dc"[..], &fields].concat());
            movi.extend(chunk(b"00dc", &bytes));
        }
        [&b"RIFF\0\0\0\0AVI "[..], &headers, &chunk(b"LIST", &movi), &chunk(b"idx1", &index)].concat()
    }

    fn open_film(film: &[u8], start_seconds: f64) -> Result<AviVideo> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.avi");
        std::fs::write(&path, film).unwrap();
        let stream = Stream::new(0, "mpeg4", StreamKind::Video(Video::new(64, 36)));
        let media = Media::new(Container::Avi, vec![stream]);
        let source = Arc::new(open_in_test(&path));
        AviVideo::open(&source, &media, 0, Ticks::from_seconds(start_seconds))
    }

    /// Time in frames, and number, of the frames read from a time in seconds.
    fn read_frames(film: &[u8], start_seconds: f64) -> Result<Vec<(i64, u8)>> {
        let mut video = open_film(film, start_seconds)?;
        let mut frames = Vec::new();
        while let Some(payload) = video.next_payload()? {
            frames
                .push((payload.pts.map_or(-1, |pts| pts.0 / 3600), payload.bytes.last().copied().unwrap_or_default()));
        }
        Ok(frames)
    }

    #[test]
    fn frames_are_shown_in_the_order_that_their_types_state() {
        let reordered = [(1, 0), (4, 1), (2, 2), (3, 3), (6, 4), (5, 5)];
        assert_eq!(read_frames(&make_film("IPBBPB"), 0.0).unwrap(), reordered);
        // A repeated frame takes its time.
        assert_eq!(read_frames(&make_film("IPB-PB"), 0.0).unwrap(), [(1, 0), (4, 1), (2, 2), (6, 4), (5, 5)]);
        assert_eq!(read_frames(&make_film("IPPI"), 0.0).unwrap(), [(0, 0), (1, 1), (2, 2), (3, 3)], "without B-frames");
        let long = format!("IPB{}", "P".repeat(22)).repeat(4);
        let frames = read_frames(&make_film(&long), 3.5).unwrap();
        assert_eq!((frames[0], frames.len()), ((51, 50), 50), "the keyframe at 2 s");
        let mut video = open_film(&make_film(&long), 3.5).unwrap();
        let first = video.next_payload().unwrap().unwrap();
        assert!(configuration(&first.bytes).is_some(), "the decoder's headers come first");
        let second = video.next_payload().unwrap().unwrap();
        assert!(configuration(&second.bytes).is_none());
    }

    #[test]
    fn packed_frames_are_refused() {
        let mut film = make_film("IPBP");
        // By its index entry the P-frame ends with the B-frame after it.
        let length = film.len() - 3 * 16 + 12;
        film[length..length + 4].copy_from_slice(&20u32.to_le_bytes());
        let error = read_frames(&film, 0.0).unwrap_err();
        assert!(error.to_string().contains("packs"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_damaged_film_is_read_without_panic(
            faults in proptest::collection::vec((0usize..1000, any::<u8>()), 1..6), start_seconds in 0.0f64..3.0,
        ) {
            let mut film = make_film(&"IPBB".repeat(10));
            for (at, byte) in faults {
                let at = at % film.len();
                film[at] = byte;
            }
            let _ = read_frames(&film, start_seconds);
        }
    }
}
