//! Cuts a live stream into segments at the keyframes as they arrive, without a planned grid.

use super::super::mpegts::packet::{PACKET_LEN, Packet, PacketReader};
use super::super::mpegts::psi::TrackKind;
use super::super::mpegts::{pes, unwrap_timestamp};

/// How long the audio of a segment may arrive after the keyframe that ends it, ticks.
const MAX_AUDIO_WAIT: i64 = 90_000;

/// A larger step of the clock, ticks, means that another stream begins.
const MIN_CLOCK_JUMP: i64 = 10 * 90_000;

/// Minimum duration of a segment cut short by a change of video format, ticks. Media sequence numbers grow by at most one
/// a second.
const MIN_DURATION_AT_FORMAT_CHANGE: i64 = 90_000;

/// A segment of a live stream: its packets on the fixed PIDs, and its span on the stream's own clock, ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestSegment {
    pub start: i64,
    pub end: i64,
    /// Time of one audio frame of the stream; the others are whole frames away from it. 0 before there is any audio.
    pub audio_frame_time: i64,
    pub bytes: Vec<u8>,
    /// First segment of its stream: frames shown before its first keyframe cannot be decoded.
    pub is_first: bool,
    /// Video format: a digest of the H.264 sequence parameter set. 0 if none was seen.
    pub format: u64,
}

impl IngestSegment {
    /// The packets without video frames shown before the keyframe: their reference frames are missing.
    pub fn drop_undecodable(self) -> Vec<u8> {
        let (mut kept, mut is_dropping) = (Vec::with_capacity(self.bytes.len()), false);
        for bytes in self.bytes.as_chunks::<PACKET_LEN>().0 {
            let Some(packet) = Packet::new(bytes) else { continue };
            let is_video = TrackKind::from_pid(packet.pid()) == Some(TrackKind::Video);
            if is_video && packet.starts_unit() {
                let pts = pes::parse(packet.payload()).and_then(|header| header.pts);
                is_dropping = pts.is_some_and(|pts| unwrap_timestamp(pts, self.start) < self.start);
            }
            if !(is_video && is_dropping) {
                kept.extend_from_slice(bytes);
            }
        }
        kept
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveSegmenterError {
    #[error("the stream had no keyframe for {0} s")]
    NoKeyframe(i64),
    #[error("a segment is larger than its budget")]
    OverBudget,
    #[error("the stream's clock jumped")]
    ClockJump,
}

/// Minimum and maximum duration of a segment, ticks, and its maximum size, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentLimits {
    pub min_duration: i64,
    pub max_duration: i64,
    pub max_bytes: usize,
}

/// Takes bytes of a live stream and returns finished segments.
#[derive(Debug, Default)]
pub struct LiveSegmenter {
    limits: SegmentLimits,
    /// Cut by video; by audio if there is no video.
    has_video: bool,
    reader: PacketReader,
    open_segment: Option<OpenSegment>,
    /// The segment before `open_segment`, waiting for its last audio.
    closing_segment: Option<OpenSegment>,
    last_time: Option<i64>,
    audio_frame_time: Option<i64>,
    /// The current audio packet belongs to `closing_segment`.
    audio_into_closing: bool,
    is_first: bool,
    /// Video format of the latest keyframe.
    format: u64,
    /// Frames of the deciding track in the open segment, and the latest time of one.
    frame_count: i64,
    latest_time: i64,
    failure: Option<LiveSegmenterError>,
}

#[derive(Debug)]
struct OpenSegment {
    from: i64,
    format: u64,
    bytes: Vec<u8>,
}

impl LiveSegmenter {
    /// `has_video`: the stream has video; otherwise audio decides.
    pub fn new(has_video: bool, limits: SegmentLimits) -> Self {
        Self { limits, has_video, is_first: true, latest_time: i64::MIN, ..Self::default() }
    }

    /// Takes bytes and returns the segments they complete, or why the stream cannot be cut any further.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<IngestSegment>, LiveSegmenterError> {
        let mut reader = std::mem::take(&mut self.reader);
        let mut finished = Vec::new();
        reader.push(bytes, |packet| finished.extend(self.process_packet(packet)));
        self.reader = reader;
        self.failure.map_or(Ok(finished), Err)
    }

    /// Call at the end of the stream. Returns what is left, if it lasts at least a second.
    pub fn finish(&mut self) -> Vec<IngestSegment> {
        let closed_segment = self.finish_closing();
        let last_segment = self.open_segment.take().and_then(|open| {
            // Assume the average frame duration for the last frame.
            let shown = self.latest_time - open.from;
            let length = if self.frame_count > 1 { shown + shown / (self.frame_count - 1) } else { 0 };
            (length >= MIN_DURATION_AT_FORMAT_CHANGE).then(|| self.finish_segment(open, length))
        });
        closed_segment.into_iter().chain(last_segment).collect()
    }

    fn process_packet(&mut self, bytes: &[u8; PACKET_LEN]) -> Option<IngestSegment> {
        let packet = Packet::new(bytes)?;
        let track = TrackKind::from_pid(packet.pid())?;
        let mut finished = None;
        if packet.starts_unit() {
            let header = pes::parse(packet.payload())?;
            let at = self.unwrap_time(header.pts?);
            if track == TrackKind::Audio {
                self.audio_frame_time.get_or_insert(at);
            }
            let is_deciding = track == if self.has_video { TrackKind::Video } else { TrackKind::Audio };
            if is_deciding {
                let key = packet.is_random_access_point() || !self.has_video;
                let format = if track == TrackKind::Video && key { format_digest(packet.payload()) } else { None };
                finished = self.process_frame(at, key, format);
            } else if let Some(to) = self.open_segment.as_ref().map(|open| open.from) {
                self.audio_into_closing = self.closing_segment.is_some() && at < to;
                if !self.audio_into_closing && self.closing_segment.is_some() {
                    finished = self.finish_closing();
                }
            }
        }
        let target = match track {
            TrackKind::Audio if self.has_video && self.audio_into_closing => {
                self.closing_segment.as_mut().or(self.open_segment.as_mut())
            }
            _ => self.open_segment.as_mut(),
        };
        if let Some(segment) = target {
            segment.bytes.extend_from_slice(bytes);
            if segment.bytes.len() > self.limits.max_bytes {
                self.failure.get_or_insert(LiveSegmenterError::OverBudget);
            }
        }
        finished
    }

    /// Handles a frame of the deciding track.
    fn process_frame(&mut self, at: i64, key: bool, format: Option<u64>) -> Option<IngestSegment> {
        let mut finished = None;
        let format = format.unwrap_or(self.format);
        let mut min_duration = self.limits.min_duration;
        // A format change may end the segment before its usual minimum.
        if self.format != 0 && self.format != format {
            min_duration = min_duration.min(MIN_DURATION_AT_FORMAT_CHANGE);
        }
        self.format = format;
        // The audio of `closing_segment` is overdue.
        if self.closing_segment.is_some()
            && self.open_segment.as_ref().is_some_and(|open| at > open.from + MAX_AUDIO_WAIT)
        {
            finished = self.finish_closing();
        }
        match &self.open_segment {
            None if key => self.open_segment = Some(OpenSegment { from: at, format, bytes: Vec::new() }),
            Some(open) if key && at - open.from >= min_duration => {
                // Two segments complete at once only if a stream sends no audio for a whole segment.
                finished = finished.or_else(|| self.finish_closing());
                self.closing_segment = self.open_segment.replace(OpenSegment { from: at, format, bytes: Vec::new() });
            }
            Some(open) if at - open.from > self.limits.max_duration => {
                self.failure.get_or_insert(LiveSegmenterError::NoKeyframe(self.limits.max_duration / 90_000));
            }
            _ => {}
        }
        if self.open_segment.as_ref().is_some_and(|open| open.from == at && key) {
            (self.frame_count, self.latest_time) = (0, at);
        }
        (self.frame_count, self.latest_time) = (self.frame_count + 1, self.latest_time.max(at));
        finished
    }

    fn finish_closing(&mut self) -> Option<IngestSegment> {
        let to = self.open_segment.as_ref()?.from;
        let closing = self.closing_segment.take()?;
        self.audio_into_closing = false;
        let length = to - closing.from;
        Some(self.finish_segment(closing, length))
    }

    fn finish_segment(&mut self, open: OpenSegment, length: i64) -> IngestSegment {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let OpenSegment { from: start, format, bytes } = open;
        let audio_frame_time = self.audio_frame_time.unwrap_or(0);
        IngestSegment { start, end: start + length, audio_frame_time, bytes, is_first, format }
    }

    fn unwrap_time(&mut self, pts: i64) -> i64 {
        let at = self.last_time.map_or(pts, |near| unwrap_timestamp(pts, near));
        if self.last_time.is_some_and(|clock| (at - clock).abs() > MIN_CLOCK_JUMP) {
            self.failure.get_or_insert(LiveSegmenterError::ClockJump);
        }
        self.last_time = Some(at);
        at
    }
}

/// Digest of the H.264 sequence parameter set (ITU-T H.264 section 7.3.2.1) in the first packet of an access unit, where
/// it is after a delimiter. None if there is no complete set.
fn format_digest(payload: &[u8]) -> Option<u64> {
    let start = payload.windows(4).position(|four| four[..3] == [0, 0, 1] && four[3] & 0x1f == 7)? + 3;
    let parameter_set = &payload[start..];
    let end = parameter_set.windows(3).position(|three| three[..2] == [0, 0] && three[2] <= 1)?;
    Some(crate::domain::hash_to_u64(blake3::hash(&parameter_set[..end])).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::TIMESTAMP_WRAP;
    use crate::domain::mpegts::tests::chunks;
    use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
    use proptest::prelude::*;

    const LIMITS: SegmentLimits = SegmentLimits { min_duration: 180_000, max_duration: 540_000, max_bytes: 1 << 20 };

    /// Video at 25 fps starting at `start`, with a keyframe every `every` frames and audio that arrives a little later.
    fn video_and_audio(seconds: i64, start: i64, every: i64) -> Vec<u8> {
        let mut writer = TsWriter::new(TrackKind::Video);
        let mut put = |track, pts, random_access| {
            writer.push_unit(&AccessUnit { track, pts, dts: Some(pts), random_access, parts: &[&[7; 400][..]] });
        };
        for n in 0..seconds * 25 {
            put(TrackKind::Video, start + n * 3600, n % every == 0);
            if n >= 5 {
                put(TrackKind::Audio, start + (n - 5) * 3600, true);
            }
        }
        writer.into_segment(&[])
    }

    fn count_frames(bytes: &[u8], track: TrackKind) -> usize {
        let packets = bytes.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
        packets.filter(|packet| packet.pid() == track.pid() && packet.starts_unit()).count()
    }

    #[test]
    fn segments_start_at_keyframes_and_contain_their_audio() {
        for start in [0, TIMESTAMP_WRAP - 200_000] {
            let mut segmenter = LiveSegmenter::new(true, LIMITS);
            let segments = segmenter.push(&video_and_audio(9, start, 25)).unwrap();
            assert_eq!(segments.len(), 4);
            for (n, segment) in segments.iter().enumerate() {
                assert_eq!((segment.end - segment.start, segment.is_first), (180_000, n == 0));
                let frames = [TrackKind::Video, TrackKind::Audio].map(|track| count_frames(&segment.bytes, track));
                assert_eq!(frames, [50, 50], "{n}");
            }
            assert!(segments.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn the_end_of_a_stream_is_a_segment_too() {
        let mut segmenter = LiveSegmenter::new(true, LIMITS);
        let mut segments = segmenter.push(&video_and_audio(9, 1000, 25)).unwrap();
        segments.extend(segmenter.finish());
        assert_eq!(segments.iter().map(|piece| piece.end - piece.start).sum::<i64>(), 9 * 90_000);
        let video_frames: usize = segments.iter().map(|piece| count_frames(&piece.bytes, TrackKind::Video)).sum();
        assert_eq!((video_frames, segmenter.finish()), (9 * 25, Vec::new()));
        let mut short = LiveSegmenter::new(true, LIMITS);
        short.push(&video_and_audio(1, 0, 25)[..188 * 40]).unwrap();
        assert_eq!(short.finish(), Vec::new(), "shorter than a second");
        assert_eq!(LiveSegmenter::new(true, LIMITS).finish(), Vec::new());
    }

    #[test]
    fn uncuttable_streams_are_errors() {
        let mut segmenter = LiveSegmenter::new(true, LIMITS);
        assert_eq!(segmenter.push(&video_and_audio(9, 0, 1000)), Err(LiveSegmenterError::NoKeyframe(6)));
        let mut segmenter = LiveSegmenter::new(true, SegmentLimits { max_bytes: 10_000, ..LIMITS });
        assert_eq!(segmenter.push(&video_and_audio(3, 0, 25)), Err(LiveSegmenterError::OverBudget));
        let mut segmenter = LiveSegmenter::new(true, LIMITS);
        segmenter.push(&video_and_audio(3, 0, 25)).unwrap();
        assert_eq!(segmenter.push(&video_and_audio(3, 90_000_000, 25)), Err(LiveSegmenterError::ClockJump));
    }

    /// An access unit: a delimiter, a sequence parameter set with a format byte, and a slice.
    fn access_unit(format: u8) -> Vec<u8> {
        let set = [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 0x64, format, 0x1e, 0, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65];
        [&set[..], &[7; 400]].concat()
    }

    #[test]
    fn a_segment_ends_where_the_video_format_changes() {
        let mut writer = TsWriter::new(TrackKind::Video);
        let units = [access_unit(1), access_unit(2), vec![7; 400]];
        // A keyframe each second. The format changes after 5 s, and changes back one frame later.
        for n in 0..12 * 25i64 {
            let random_access = n % 25 == 0 || n == 126;
            let bytes = match n {
                125 => &units[1],
                _ if random_access => &units[0],
                _ => &units[2],
            };
            let (track, pts) = (TrackKind::Video, n * 3600);
            writer.push_unit(&AccessUnit { track, pts, dts: Some(pts), random_access, parts: &[&bytes[..]] });
        }
        let mut segmenter = LiveSegmenter::new(true, LIMITS);
        let segments = segmenter.push(&writer.into_segment(&[])).unwrap();
        let format = |n: u8| format_digest(&access_unit(n)).unwrap();
        let seen: Vec<(i64, u64)> = segments.iter().map(|piece| (piece.start / 3600, piece.format)).collect();
        let (one, two) = (format(1), format(2));
        let expected = [(0, one), (50, one), (100, one), (125, two)];
        assert_eq!(seen[..4], expected, "cut at the keyframe, after 1 s instead of 2");
        assert_eq!(seen[4], (175, one), "no segment is shorter than a second");
        assert_eq!(format_digest(&[0, 0, 1, 0x67, 1, 2, 3]), None, "the set may be incomplete");
    }

    proptest! {
        #[test]
        fn chunks_of_any_size_give_the_same_segments(sizes in proptest::collection::vec(1usize..5000, 1..20)) {
            let whole = video_and_audio(7, 1000, 25);
            let expected = LiveSegmenter::new(true, LIMITS).push(&whole).unwrap();
            let mut segmenter = LiveSegmenter::new(true, LIMITS);
            let got: Vec<_> = chunks(&whole, &sizes).flat_map(|chunk| segmenter.push(chunk).unwrap()).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn any_bytes_are_segmented_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000), video: bool) {
            let mut bytes = bytes;
            for at in (0..bytes.len()).step_by(PACKET_LEN) {
                bytes[at] = 0x47;
            }
            let _ = LiveSegmenter::new(video, LIMITS).push(&bytes);
        }
    }
}
