//! Cuts a live stream into segments at the keyframes as they arrive, without a planned grid.

use super::super::mpegts::packet::{LEN, Packet, Packets};
use super::super::mpegts::tables::Track;
use super::super::mpegts::{pes, unwrap};

/// How long the audio of a segment may arrive after the keyframe that ends it, ticks.
const PATIENCE: i64 = 90_000;

/// A larger step of the clock, ticks, means that another stream begins.
const JUMP: i64 = 10 * 90_000;

/// Minimum duration of a segment cut short by a change of video format, ticks. Media sequence numbers grow by at most one
/// a second.
const LEAST_OF_A_FORMAT: i64 = 90_000;

/// A segment of a live stream: its packets on the fixed PIDs, and its span on the stream's own clock, ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub from: i64,
    pub to: i64,
    /// Time of one audio frame of the stream; the others are whole frames away from it. 0 before there is any audio.
    pub beat: i64,
    pub bytes: Vec<u8>,
    /// First segment of its stream: frames shown before its first keyframe cannot be decoded.
    pub first: bool,
    /// Video format: a digest of the H.264 sequence parameter set. 0 if none was seen.
    pub format: u64,
}

impl Piece {
    /// The packets without video frames shown before the keyframe: their reference frames are missing.
    pub fn decodable(self) -> Vec<u8> {
        let (mut kept, mut drops) = (Vec::with_capacity(self.bytes.len()), false);
        for bytes in self.bytes.as_chunks::<LEN>().0 {
            let Some(packet) = Packet::new(bytes) else { continue };
            let picture = Track::of_pid(packet.pid()) == Some(Track::Video);
            if picture && packet.starts_unit() {
                let pts = pes::parse(packet.payload()).and_then(|header| header.pts);
                drops = pts.is_some_and(|pts| unwrap(pts, self.from) < self.from);
            }
            if !(picture && drops) {
                kept.extend_from_slice(bytes);
            }
        }
        kept
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    #[error("the stream had no keyframe for {0} s")]
    NoKeyframe(i64),
    #[error("a segment is larger than its budget")]
    Budget,
    #[error("the stream's clock jumped")]
    Jump,
}

/// Minimum and maximum duration of a segment, ticks, and its maximum size, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub least: i64,
    pub most: i64,
    pub budget: usize,
}

/// Takes bytes of a live stream and returns finished segments.
#[derive(Debug)]
pub struct LiveCutter {
    bounds: Bounds,
    /// Cut by video; by audio if there is no video.
    video: bool,
    packets: Packets,
    open: Option<Open>,
    /// The segment before `open`, waiting for its last audio.
    closing: Option<Open>,
    clock: Option<i64>,
    beat: Option<i64>,
    /// The current audio packet belongs to `closing`.
    sound_into_closing: bool,
    first: bool,
    /// Video format of the latest keyframe.
    format: u64,
    /// Frames of the deciding track in the open segment, and the latest time of one.
    units: i64,
    reached: i64,
    failed: Option<CutError>,
}

#[derive(Debug)]
struct Open {
    from: i64,
    format: u64,
    bytes: Vec<u8>,
}

impl LiveCutter {
    /// `video` is true if the stream has video.
    pub fn new(video: bool, bounds: Bounds) -> Self {
        Self {
            bounds,
            video,
            packets: Packets::default(),
            open: None,
            closing: None,
            clock: None,
            beat: None,
            sound_into_closing: false,
            first: true,
            format: 0,
            units: 0,
            reached: i64::MIN,
            failed: None,
        }
    }

    /// Takes bytes and returns the segments they complete.
    ///
    /// # Errors
    /// Why the stream cannot be cut any further.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, CutError> {
        let mut packets = std::mem::take(&mut self.packets);
        let mut done = Vec::new();
        packets.push(bytes, |packet| done.extend(self.take(packet)));
        self.packets = packets;
        self.failed.map_or(Ok(done), Err)
    }

    /// Call at the end of the stream. Returns what is left, if it lasts at least a second.
    pub fn finish(&mut self) -> Vec<Piece> {
        let closed = self.close();
        let last = self.open.take().and_then(|open| {
            // Assume the average frame duration for the last frame.
            let shown = self.reached - open.from;
            let length = if self.units > 1 { shown + shown / (self.units - 1) } else { 0 };
            (length >= LEAST_OF_A_FORMAT).then(|| self.piece(open, length))
        });
        closed.into_iter().chain(last).collect()
    }

    fn take(&mut self, bytes: &[u8; LEN]) -> Option<Piece> {
        let packet = Packet::new(bytes)?;
        let track = Track::of_pid(packet.pid())?;
        let mut done = None;
        if packet.starts_unit() {
            let header = pes::parse(packet.payload())?;
            let at = self.at(header.pts?);
            if track == Track::Audio {
                self.beat.get_or_insert(at);
            }
            let leads = track == if self.video { Track::Video } else { Track::Audio };
            if leads {
                let key = packet.random_access() || !self.video;
                let format = if track == Track::Video && key { format_of(packet.payload()) } else { None };
                done = self.lead(at, key, format);
            } else if let Some(to) = self.open.as_ref().map(|open| open.from) {
                self.sound_into_closing = self.closing.is_some() && at < to;
                if !self.sound_into_closing && self.closing.is_some() {
                    done = self.close();
                }
            }
        }
        let into = match track {
            Track::Audio if self.video && self.sound_into_closing => self.closing.as_mut().or(self.open.as_mut()),
            _ => self.open.as_mut(),
        };
        if let Some(open) = into {
            open.bytes.extend_from_slice(bytes);
            if open.bytes.len() > self.bounds.budget {
                self.failed.get_or_insert(CutError::Budget);
            }
        }
        done
    }

    /// Handles a frame of the deciding track.
    fn lead(&mut self, at: i64, key: bool, format: Option<u64>) -> Option<Piece> {
        let mut done = None;
        let format = format.unwrap_or(self.format);
        let changes = self.format != 0 && self.format != format;
        self.format = format;
        // A format change may end the segment before its usual minimum.
        let least = if changes { self.bounds.least.min(LEAST_OF_A_FORMAT) } else { self.bounds.least };
        // The audio of `closing` is overdue.
        if self.closing.is_some() && self.open.as_ref().is_some_and(|open| at > open.from + PATIENCE) {
            done = self.close();
        }
        match &self.open {
            None if key => self.open = Some(Open { from: at, format, bytes: Vec::new() }),
            Some(open) if key && at - open.from >= least => {
                // Two segments complete at once only if a stream sends no audio for a whole segment.
                done = done.or_else(|| self.close());
                self.closing = self.open.replace(Open { from: at, format, bytes: Vec::new() });
            }
            Some(open) if at - open.from > self.bounds.most => {
                self.failed.get_or_insert(CutError::NoKeyframe(self.bounds.most / 90_000));
            }
            _ => {}
        }
        if self.open.as_ref().is_some_and(|open| open.from == at && key) {
            (self.units, self.reached) = (0, at);
        }
        (self.units, self.reached) = (self.units + 1, self.reached.max(at));
        done
    }

    fn close(&mut self) -> Option<Piece> {
        let to = self.open.as_ref()?.from;
        let closing = self.closing.take()?;
        self.sound_into_closing = false;
        let length = to - closing.from;
        Some(self.piece(closing, length))
    }

    fn piece(&mut self, open: Open, length: i64) -> Piece {
        let first = std::mem::replace(&mut self.first, false);
        let Open { from, format, bytes } = open;
        Piece { from, to: from + length, beat: self.beat.unwrap_or(0), bytes, first, format }
    }

    /// Unwraps a timestamp of the stream's clock.
    fn at(&mut self, pts: i64) -> i64 {
        let at = self.clock.map_or(pts, |near| unwrap(pts, near));
        if self.clock.is_some_and(|clock| (at - clock).abs() > JUMP) {
            self.failed.get_or_insert(CutError::Jump);
        }
        self.clock = Some(at);
        at
    }
}

/// Digest of the H.264 sequence parameter set (ITU-T H.264 section 7.3.2.1) in the first packet of an access unit, where
/// it is after a delimiter. None if there is no complete set.
fn format_of(payload: &[u8]) -> Option<u64> {
    let start = payload.windows(4).position(|four| four[..3] == [0, 0, 1] && four[3] & 0x1f == 7)? + 3;
    let set = &payload[start..];
    let end = set.windows(3).position(|three| three[..2] == [0, 0] && three[2] <= 1)?;
    Some(
        u64::from_le_bytes(blake3::hash(&set[..end]).as_bytes()[..8].try_into().expect("a BLAKE3 hash has 32 bytes"))
            .max(1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::WRAP;
    use crate::domain::mpegts::write::{Unit, Writer};
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { least: 180_000, most: 540_000, budget: 1 << 20 };

    /// Video at 25 fps starting at `start`, with a keyframe every `every` frames and audio that arrives a little later.
    fn stream(seconds: i64, start: i64, every: i64) -> Vec<u8> {
        let mut writer = Writer::new(Track::Video);
        let mut put = |track, pts, random_access| {
            writer.put(&Unit { track, pts, dts: Some(pts), random_access, parts: &[&[7; 400][..]] });
        };
        for n in 0..seconds * 25 {
            put(Track::Video, start + n * 3600, n % every == 0);
            if n >= 5 {
                put(Track::Audio, start + (n - 5) * 3600, true);
            }
        }
        writer.finish(&[])
    }

    fn units(bytes: &[u8], track: Track) -> usize {
        let packets = bytes.as_chunks::<LEN>().0.iter().filter_map(Packet::new);
        packets.filter(|packet| packet.pid() == track.pid() && packet.starts_unit()).count()
    }

    #[test]
    fn pieces_begin_at_keyframes_and_have_their_own_sound() {
        for start in [0, WRAP - 200_000] {
            let mut cutter = LiveCutter::new(true, BOUNDS);
            let pieces = cutter.push(&stream(9, start, 25)).unwrap();
            assert_eq!(pieces.len(), 4);
            for (n, piece) in pieces.iter().enumerate() {
                assert_eq!((piece.to - piece.from, piece.first), (180_000, n == 0));
                assert_eq!((units(&piece.bytes, Track::Video), units(&piece.bytes, Track::Audio)), (50, 50), "{n}");
            }
            assert!(pieces.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }

    #[test]
    fn the_end_of_a_stream_is_a_piece_too() {
        let mut cutter = LiveCutter::new(true, BOUNDS);
        let mut pieces = cutter.push(&stream(9, 1000, 25)).unwrap();
        pieces.extend(cutter.finish());
        assert_eq!(pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>(), 9 * 90_000);
        let pictures: usize = pieces.iter().map(|piece| units(&piece.bytes, Track::Video)).sum();
        assert_eq!((pictures, cutter.finish()), (9 * 25, Vec::new()));
        let mut short = LiveCutter::new(true, BOUNDS);
        short.push(&stream(1, 0, 25)[..188 * 40]).unwrap();
        assert_eq!(short.finish(), Vec::new(), "shorter than a second");
        assert_eq!(LiveCutter::new(true, BOUNDS).finish(), Vec::new());
    }

    #[test]
    fn what_cannot_be_cut_is_said() {
        let mut cutter = LiveCutter::new(true, BOUNDS);
        assert_eq!(cutter.push(&stream(9, 0, 1000)), Err(CutError::NoKeyframe(6)));
        let mut cutter = LiveCutter::new(true, Bounds { budget: 10_000, ..BOUNDS });
        assert_eq!(cutter.push(&stream(3, 0, 25)), Err(CutError::Budget));
        let mut cutter = LiveCutter::new(true, BOUNDS);
        cutter.push(&stream(3, 0, 25)).unwrap();
        assert_eq!(cutter.push(&stream(3, 90_000_000, 25)), Err(CutError::Jump));
    }

    /// An access unit: a delimiter, a sequence parameter set with a format byte, and a slice.
    fn unit(format: u8) -> Vec<u8> {
        let set = [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 0x64, format, 0x1e, 0, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65];
        [&set[..], &[7; 400]].concat()
    }

    #[test]
    fn a_piece_ends_where_the_video_format_changes() {
        let mut writer = Writer::new(Track::Video);
        let units = [unit(1), unit(2), vec![7; 400]];
        // A keyframe each second. The format changes after 5 s, and changes back one frame later.
        for n in 0..12 * 25i64 {
            let random_access = n % 25 == 0 || n == 126;
            let bytes = match n {
                125 => &units[1],
                _ if random_access => &units[0],
                _ => &units[2],
            };
            let pts = n * 3600;
            writer.put(&Unit { track: Track::Video, pts, dts: Some(pts), random_access, parts: &[&bytes[..]] });
        }
        let mut cutter = LiveCutter::new(true, BOUNDS);
        let pieces = cutter.push(&writer.finish(&[])).unwrap();
        let format = |n: u8| format_of(&unit(n)).unwrap();
        let seen: Vec<(i64, u64)> = pieces.iter().map(|piece| (piece.from / 3600, piece.format)).collect();
        let (one, two) = (format(1), format(2));
        assert_eq!(
            seen[..4],
            [(0, one), (50, one), (100, one), (125, two)],
            "cut at the keyframe, after 1 s instead of 2"
        );
        assert_eq!(seen[4], (175, one), "no segment is shorter than a second");
        assert_eq!(format_of(&[0, 0, 1, 0x67, 1, 2, 3]), None, "the set may be incomplete");
    }

    proptest! {
        #[test]
        fn however_it_comes_the_pieces_are_the_same(sizes in proptest::collection::vec(1usize..5000, 1..20)) {
            let whole = stream(7, 1000, 25);
            let want = LiveCutter::new(true, BOUNDS).push(&whole).unwrap();
            let (mut cutter, mut got, mut at) = (LiveCutter::new(true, BOUNDS), Vec::new(), 0);
            for size in sizes.iter().cycle() {
                if at >= whole.len() {
                    break;
                }
                let end = (at + size).min(whole.len());
                got.extend(cutter.push(&whole[at..end]).unwrap());
                at = end;
            }
            prop_assert_eq!(got, want);
        }

        #[test]
        fn any_bytes_are_cut_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000), video: bool) {
            let mut bytes = bytes;
            for at in (0..bytes.len()).step_by(LEN) {
                bytes[at] = 0x47;
            }
            let _ = LiveCutter::new(video, BOUNDS).push(&bytes);
        }
    }
}
