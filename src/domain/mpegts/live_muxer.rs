//! Muxes the separate frames of a live sender, such as an RTSP camera, into one continuous transport stream.

use super::psi::{self, PmtEntry, TrackKind};
use super::ts_writer::{AccessUnit, TsWriter};
use crate::domain::time::TICKS_PER_SECOND;

/// Time of the first frame, ticks. It is above 0 because later frames may have slightly earlier timestamps.
const START_TICKS: i64 = 10 * TICKS_PER_SECOND;

/// How long to wait for a declared stream, ticks. A stream that starts later is left out of the PMT.
const MAX_STREAM_WAIT: i64 = TICKS_PER_SECOND;

/// Most frames and bytes buffered during that wait.
const MAX_QUEUE: (usize, usize) = (500, 4 << 20);

/// Two streams on a common clock start at most this far apart, ticks. With a larger gap their clocks are unrelated.
const MAX_START_GAP: i64 = 2 * TICKS_PER_SECOND;

/// A step larger than this is a clock jump, ticks.
const MIN_CLOCK_JUMP: i64 = 10 * TICKS_PER_SECOND;

/// Interval between two PMTs, ticks.
const TABLE_INTERVAL: i64 = TICKS_PER_SECOND / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCodec {
    /// H.264 in Annex B format.
    H264,
    /// H.265 in Annex B format.
    H265,
    /// AAC with ADTS headers.
    Aac,
    /// Linear PCM as written by [`G711Decoder`](crate::domain::g711::G711Decoder).
    Pcm,
}

/// One video frame or one block of audio.
#[derive(Debug)]
pub struct Frame {
    pub track: TrackKind,
    /// Presentation time on the sender's clock, ticks of 90 kHz.
    pub timestamp: i64,
    pub random_access: bool,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its clock jumps")]
pub struct ClockJump;

/// Muxes the frames of one sender. If video was declared, nothing is written before the first keyframe.
#[derive(Debug)]
pub struct LiveMuxer {
    codecs: [Option<StreamCodec>; 2],
    queue: Option<Vec<Frame>>,
    /// Added to each stream's timestamps, ticks.
    offsets: [Option<i64>; 2],
    latest: i64,
    last_tables_at: i64,
    table_counter: u8,
    continuity_counters: [u8; 2],
}

impl LiveMuxer {
    /// Declares the streams. At least one of the two is needed.
    pub fn new(video: Option<StreamCodec>, audio: Option<StreamCodec>) -> Self {
        Self {
            codecs: [video, audio],
            queue: Some(Vec::new()),
            offsets: [None; 2],
            latest: START_TICKS,
            last_tables_at: i64::MIN / 2,
            table_counter: 0,
            continuity_counters: [0; 2],
        }
    }

    /// Adds a frame. Returns whole packets, or nothing while streams are still awaited. [`ClockJump`] means that the
    /// frame's time is unrelated to the frames before it.
    pub fn push_frame(&mut self, mut frame: Frame) -> Result<Vec<u8>, ClockJump> {
        let track = frame.track as usize;
        let has_started =
            self.offsets[TrackKind::Video as usize].is_some() || self.codecs[TrackKind::Video as usize].is_none();
        let starts_now = frame.track == TrackKind::Video && frame.random_access;
        if self.codecs[track].is_none() || !(has_started || starts_now) {
            return Ok(Vec::new());
        }
        frame.timestamp = self.map_timestamp(track, frame.timestamp)?;
        let Some(queue) = &mut self.queue else { return Ok(self.write_frame(&frame)) };
        let first_time = queue.first().map_or(frame.timestamp, |first| first.timestamp);
        queue.push(frame);
        let has_frames = |track| queue.iter().any(|frame: &Frame| frame.track as usize == track);
        let bytes: usize = queue.iter().map(|frame| frame.bytes.len()).sum();
        let is_over = queue.len() >= MAX_QUEUE.0 || bytes >= MAX_QUEUE.1 || self.latest - first_time >= MAX_STREAM_WAIT;
        if !is_over && (0..2).any(|track| self.codecs[track].is_some() && !has_frames(track)) {
            return Ok(Vec::new());
        }
        for track in 0..2 {
            self.codecs[track] = self.codecs[track].filter(|_| has_frames(track));
        }
        let mut queue = self.queue.take().unwrap_or_default();
        // All video first, in arrival order, which is decoding order; then audio by time.
        queue.sort_by_key(|frame| if frame.track == TrackKind::Audio { frame.timestamp } else { i64::MIN });
        Ok(queue.iter().flat_map(|frame| self.write_frame(frame)).collect())
    }

    fn map_timestamp(&mut self, track: usize, timestamp: i64) -> Result<i64, ClockJump> {
        let offset = self.offsets[track].unwrap_or_else(|| {
            let offset = self.offsets[1 - track].unwrap_or_else(|| START_TICKS.saturating_sub(timestamp));
            let is_near = timestamp.saturating_add(offset).abs_diff(self.latest) <= MAX_START_GAP.unsigned_abs();
            if is_near { offset } else { self.latest.saturating_sub(timestamp) }
        });
        self.offsets[track] = Some(offset);
        let time = timestamp.saturating_add(offset);
        if time.abs_diff(self.latest) > MIN_CLOCK_JUMP.unsigned_abs() {
            return Err(ClockJump);
        }
        self.latest = self.latest.max(time);
        Ok(time)
    }

    fn write_frame(&mut self, frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        if frame.timestamp - self.last_tables_at >= TABLE_INTERVAL
            || frame.random_access && frame.track == TrackKind::Video
        {
            self.last_tables_at = frame.timestamp;
            for mut table in [psi::build_pat(), self.program_map()] {
                table[3] |= self.table_counter & 0x0f;
                out.extend_from_slice(&table);
            }
            self.table_counter = self.table_counter.wrapping_add(1);
        }
        let pcr_track =
            if self.codecs[TrackKind::Video as usize].is_some() { TrackKind::Video } else { TrackKind::Audio };
        let mut writer = TsWriter::new(pcr_track);
        let &Frame { track, timestamp: pts, random_access, ref bytes } = frame;
        writer.push_unit(&AccessUnit { track, pts, dts: None, random_access, parts: &[bytes.as_slice()] });
        out.extend(writer.into_numbered_packets(&mut self.continuity_counters));
        out
    }

    fn program_map(&self) -> [u8; super::packet::PACKET_LEN] {
        let entry = |(codec, track): (Option<StreamCodec>, TrackKind)| {
            let stream_type = match codec? {
                StreamCodec::H264 => 0x1b,
                StreamCodec::H265 => 0x24,
                StreamCodec::Aac => 0x0f,
                StreamCodec::Pcm => 0x80,
            };
            Some(PmtEntry { pid: track.pid(), stream_type, descriptors: Vec::new() })
        };
        let entries: Vec<PmtEntry> =
            self.codecs.into_iter().zip([TrackKind::Video, TrackKind::Audio]).filter_map(entry).collect();
        // Stream type 0x80 is private: the registration descriptor `HDMV` makes it linear PCM.
        let program_descriptors: &[u8] =
            if self.codecs.contains(&Some(StreamCodec::Pcm)) { b"\x05\x04HDMV" } else { &[] };
        psi::build_pmt_with_descriptors(program_descriptors, &entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::packet::{PACKET_LEN, Packet};
    use crate::domain::mpegts::pes;
    use proptest::prelude::*;

    fn frame(track: TrackKind, timestamp: i64, random_access: bool) -> Frame {
        Frame { track, timestamp, random_access, bytes: vec![7; 300] }
    }

    /// Stream types of the PMT, and track and time of every frame.
    fn parse_output(stream: &[u8]) -> (Vec<u8>, Vec<(TrackKind, i64)>) {
        let (mut types, mut frames, mut counters) = (Vec::new(), Vec::new(), [0u8; 0x50]);
        for packet in stream.as_chunks::<PACKET_LEN>().0.iter().map(|packet| Packet::new(packet).unwrap()) {
            let counter = &mut counters[usize::from(packet.pid())];
            assert_eq!(packet.continuity_counter(), *counter & 15);
            *counter += 1;
            if packet.pid() == crate::domain::mpegts::PMT_PID {
                types = psi::parse_pmt(packet.payload()).unwrap().iter().map(|entry| entry.stream_type).collect();
            } else if let Some(track) = TrackKind::from_pid(packet.pid()).filter(|_| packet.starts_unit()) {
                frames.push((track, pes::parse(packet.payload()).unwrap().pts.unwrap()));
            }
        }
        (types, frames)
    }

    #[test]
    fn output_starts_at_a_keyframe_once_all_streams_arrived() {
        let mut muxer = LiveMuxer::new(Some(StreamCodec::H264), Some(StreamCodec::Pcm));
        assert!(muxer.push_frame(frame(TrackKind::Audio, 0, true)).unwrap().is_empty());
        assert!(muxer.push_frame(frame(TrackKind::Video, 0, false)).unwrap().is_empty());
        assert!(muxer.push_frame(frame(TrackKind::Video, 9000, true)).unwrap().is_empty());
        let mut stream = muxer.push_frame(frame(TrackKind::Audio, 10_000, true)).unwrap();
        stream.extend(muxer.push_frame(frame(TrackKind::Video, 12_000, false)).unwrap());
        let (types, frames) = parse_output(&stream);
        assert_eq!(types, [0x1b, 0x80]);
        let (video, audio) = (TrackKind::Video, TrackKind::Audio);
        let expected = [(video, START_TICKS), (audio, START_TICKS + 1000), (video, START_TICKS + 3000)];
        assert_eq!(frames, expected);
        assert_eq!(muxer.push_frame(frame(TrackKind::Video, 12_000 + 2 * MIN_CLOCK_JUMP, true)), Err(ClockJump));
    }

    #[test]
    fn a_declared_stream_that_never_arrives_is_left_out() {
        let mut muxer = LiveMuxer::new(Some(StreamCodec::H265), Some(StreamCodec::Aac));
        let mut stream = Vec::new();
        for n in 0..40 {
            stream.extend(muxer.push_frame(frame(TrackKind::Video, n * 3600, n % 10 == 0)).unwrap());
        }
        stream.extend(muxer.push_frame(frame(TrackKind::Audio, 0, true)).unwrap());
        let (types, frames) = parse_output(&stream);
        assert_eq!((types, frames.len()), (vec![0x24], 40));
        let mut audio_only = LiveMuxer::new(None, Some(StreamCodec::Aac));
        assert_eq!(
            parse_output(&audio_only.push_frame(frame(TrackKind::Audio, -5, true)).unwrap()),
            (vec![0x0f], vec![(TrackKind::Audio, START_TICKS)])
        );
    }

    #[test]
    fn unrelated_clocks_are_aligned() {
        let mut muxer = LiveMuxer::new(Some(StreamCodec::H264), Some(StreamCodec::Aac));
        muxer.push_frame(frame(TrackKind::Video, 1 << 40, true)).unwrap();
        let stream = muxer.push_frame(frame(TrackKind::Audio, 77, true)).unwrap();
        assert_eq!(parse_output(&stream).1, [(TrackKind::Video, START_TICKS), (TrackKind::Audio, START_TICKS)]);
    }

    proptest! {
        #[test]
        fn any_times_are_muxed_without_panic(
            frames in proptest::collection::vec((any::<bool>(), any::<i64>(), any::<bool>()), 0..50),
        ) {
            let mut muxer = LiveMuxer::new(Some(StreamCodec::H264), Some(StreamCodec::Aac));
            for (video, at, key) in frames {
                let track = if video { TrackKind::Video } else { TrackKind::Audio };
                let _ = muxer.push_frame(frame(track, at, key));
            }
        }
    }
}
