//! Muxes the separate frames of a live sender, such as an RTSP camera, into one continuous transport stream.

use super::tables::{self, Entry, Track};
use super::write::{Unit, Writer};

/// Ticks per second.
const SECOND: i64 = 90_000;

/// Time of the first frame, ticks. It is above 0 because later frames may have slightly earlier timestamps.
const START: i64 = 10 * SECOND;

/// How long to wait for a declared stream, ticks. A stream that starts later is left out of the PMT.
const PATIENCE: i64 = SECOND;

/// Most frames and bytes buffered during that wait.
const WAITING: (usize, usize) = (500, 4 << 20);

/// Two streams on a common clock start at most this far apart, ticks. With a larger gap their clocks are unrelated.
const APART: i64 = 2 * SECOND;

/// A step larger than this is a clock jump, ticks.
const JUMP: i64 = 10 * SECOND;

/// Interval between two PMTs, ticks.
const TABLES: i64 = SECOND / 2;

/// Codec of an elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// H.264 in Annex B format.
    Avc,
    /// H.265 in Annex B format.
    Hevc,
    /// AAC with ADTS headers.
    Aac,
    /// Linear PCM as written by [`Voice`](crate::domain::g711::Voice).
    Pcm,
}

/// One video frame or one block of audio.
#[derive(Debug)]
pub struct Frame {
    pub track: Track,
    /// Presentation time on the sender's clock, ticks of 90 kHz.
    pub at: i64,
    pub random_access: bool,
    pub bytes: Vec<u8>,
}

/// The sender's clock jumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its clock jumps")]
pub struct Jump;

/// Muxes the frames of one sender. If video was declared, nothing is written before the first keyframe.
#[derive(Debug)]
pub struct Joiner {
    forms: [Option<Form>; 2],
    waiting: Option<Vec<Frame>>,
    /// Added to each stream's timestamps, ticks.
    offsets: [Option<i64>; 2],
    newest: i64,
    tables_at: i64,
    tables: u8,
    counters: [u8; 2],
}

impl Joiner {
    /// Declares the streams. At least one of the two is needed.
    pub fn new(video: Option<Form>, audio: Option<Form>) -> Self {
        Self {
            forms: [video, audio],
            waiting: Some(Vec::new()),
            offsets: [None; 2],
            newest: START,
            tables_at: i64::MIN / 2,
            tables: 0,
            counters: [0; 2],
        }
    }

    /// Adds a frame. Returns whole packets, or nothing while streams are still awaited.
    ///
    /// # Errors
    /// [`Jump`]: the frame's time is unrelated to the frames before it.
    pub fn put(&mut self, mut frame: Frame) -> Result<Vec<u8>, Jump> {
        let track = frame.track as usize;
        let begun = self.offsets[Track::Video as usize].is_some() || self.forms[Track::Video as usize].is_none();
        let begins = frame.track == Track::Video && frame.random_access;
        if self.forms[track].is_none() || !(begun || begins) {
            return Ok(Vec::new());
        }
        frame.at = self.place(track, frame.at)?;
        let Some(waiting) = &mut self.waiting else { return Ok(self.write(&frame)) };
        let first = waiting.first().map_or(frame.at, |first| first.at);
        waiting.push(frame);
        let has = |track| waiting.iter().any(|frame: &Frame| frame.track as usize == track);
        let bytes: usize = waiting.iter().map(|frame| frame.bytes.len()).sum();
        let full = waiting.len() >= WAITING.0 || bytes >= WAITING.1 || self.newest - first >= PATIENCE;
        if !full && (0..2).any(|track| self.forms[track].is_some() && !has(track)) {
            return Ok(Vec::new());
        }
        for track in 0..2 {
            self.forms[track] = self.forms[track].filter(|_| has(track));
        }
        let mut waiting = self.waiting.take().unwrap_or_default();
        // All video first, in arrival order, which is decoding order; then audio by time.
        waiting.sort_by_key(|frame| if frame.track == Track::Audio { frame.at } else { i64::MIN });
        Ok(waiting.iter().flat_map(|frame| self.write(frame)).collect())
    }

    fn place(&mut self, track: usize, at: i64) -> Result<i64, Jump> {
        let offset = self.offsets[track].unwrap_or_else(|| {
            let offset = self.offsets[1 - track].unwrap_or_else(|| START.saturating_sub(at));
            let near = at.saturating_add(offset).abs_diff(self.newest) <= APART.unsigned_abs();
            if near { offset } else { self.newest.saturating_sub(at) }
        });
        self.offsets[track] = Some(offset);
        let at = at.saturating_add(offset);
        if at.abs_diff(self.newest) > JUMP.unsigned_abs() {
            return Err(Jump);
        }
        self.newest = self.newest.max(at);
        Ok(at)
    }

    fn write(&mut self, frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        if frame.at - self.tables_at >= TABLES || frame.random_access && frame.track == Track::Video {
            self.tables_at = frame.at;
            for mut table in [tables::pat(), self.map()] {
                table[3] |= self.tables & 0x0f;
                out.extend_from_slice(&table);
            }
            self.tables = self.tables.wrapping_add(1);
        }
        let clock = if self.forms[Track::Video as usize].is_some() { Track::Video } else { Track::Audio };
        let mut writer = Writer::new(clock);
        let Frame { track, at, random_access, bytes } = frame;
        writer.put(&Unit {
            track: *track,
            pts: *at,
            dts: None,
            random_access: *random_access,
            parts: &[bytes.as_slice()],
        });
        out.extend(writer.numbered(&mut self.counters));
        out
    }

    fn map(&self) -> [u8; super::packet::LEN] {
        let entry = |(form, track): (Option<Form>, Track)| {
            let stream_type = match form? {
                Form::Avc => 0x1b,
                Form::Hevc => 0x24,
                Form::Aac => 0x0f,
                Form::Pcm => 0x80,
            };
            Some(Entry { pid: track.pid(), stream_type, descriptors: Vec::new() })
        };
        let entries: Vec<Entry> = self.forms.into_iter().zip([Track::Video, Track::Audio]).filter_map(entry).collect();
        // Stream type 0x80 is private: the registration descriptor `HDMV` makes it linear PCM.
        let programme: &[u8] = if self.forms.contains(&Some(Form::Pcm)) { b"\x05\x04HDMV" } else { &[] };
        tables::pmt_of(programme, &entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::packet::{LEN, Packet};
    use crate::domain::mpegts::pes;
    use proptest::prelude::*;

    fn frame(track: Track, at: i64, random_access: bool) -> Frame {
        Frame { track, at, random_access, bytes: vec![7; 300] }
    }

    /// Stream types of the PMT, and track and time of every frame.
    fn read(stream: &[u8]) -> (Vec<u8>, Vec<(Track, i64)>) {
        let (mut types, mut frames, mut counters) = (Vec::new(), Vec::new(), [0u8; 0x50]);
        for packet in stream.as_chunks::<LEN>().0.iter().map(|packet| Packet::new(packet).unwrap()) {
            let counter = &mut counters[usize::from(packet.pid())];
            assert_eq!(packet.counter(), *counter & 15);
            *counter += 1;
            if packet.pid() == crate::domain::mpegts::PMT_PID {
                types = tables::parse_pmt(packet.payload()).unwrap().iter().map(|entry| entry.stream_type).collect();
            } else if let Some(track) = Track::of_pid(packet.pid()).filter(|_| packet.starts_unit()) {
                frames.push((track, pes::parse(packet.payload()).unwrap().pts.unwrap()));
            }
        }
        (types, frames)
    }

    #[test]
    fn a_stream_begins_with_a_keyframe_and_what_came_by_then() {
        let mut joiner = Joiner::new(Some(Form::Avc), Some(Form::Pcm));
        assert!(joiner.put(frame(Track::Audio, 0, true)).unwrap().is_empty());
        assert!(joiner.put(frame(Track::Video, 0, false)).unwrap().is_empty());
        assert!(joiner.put(frame(Track::Video, 9000, true)).unwrap().is_empty());
        let mut stream = joiner.put(frame(Track::Audio, 10_000, true)).unwrap();
        stream.extend(joiner.put(frame(Track::Video, 12_000, false)).unwrap());
        let (types, frames) = read(&stream);
        assert_eq!(types, [0x1b, 0x80]);
        let want = [(Track::Video, START), (Track::Audio, START + 1000), (Track::Video, START + 3000)];
        assert_eq!(frames, want);
        assert_eq!(joiner.put(frame(Track::Video, 12_000 + 2 * JUMP, true)), Err(Jump));
    }

    #[test]
    fn what_was_promised_and_does_not_come_is_left_out() {
        let mut joiner = Joiner::new(Some(Form::Hevc), Some(Form::Aac));
        let mut stream = Vec::new();
        for n in 0..40 {
            stream.extend(joiner.put(frame(Track::Video, n * 3600, n % 10 == 0)).unwrap());
        }
        stream.extend(joiner.put(frame(Track::Audio, 0, true)).unwrap());
        let (types, frames) = read(&stream);
        assert_eq!((types, frames.len()), (vec![0x24], 40));
        let mut radio = Joiner::new(None, Some(Form::Aac));
        assert_eq!(read(&radio.put(frame(Track::Audio, -5, true)).unwrap()), (vec![0x0f], vec![(Track::Audio, START)]));
    }

    #[test]
    fn clocks_that_have_nothing_to_do_with_each_other_are_laid_together() {
        let mut joiner = Joiner::new(Some(Form::Avc), Some(Form::Aac));
        joiner.put(frame(Track::Video, 1 << 40, true)).unwrap();
        let stream = joiner.put(frame(Track::Audio, 77, true)).unwrap();
        assert_eq!(read(&stream).1, [(Track::Video, START), (Track::Audio, START)]);
    }

    proptest! {
        #[test]
        fn any_times_are_joined_without_panic(
            frames in proptest::collection::vec((any::<bool>(), any::<i64>(), any::<bool>()), 0..50),
        ) {
            let mut joiner = Joiner::new(Some(Form::Avc), Some(Form::Aac));
            for (video, at, key) in frames {
                let track = if video { Track::Video } else { Track::Audio };
                let _ = joiner.put(frame(track, at, key));
            }
        }
    }
}
