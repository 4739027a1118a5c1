//! Puts a segment on a channel's timeline: one continuous clock, one decoding lead, and video and audio at every instant.
//!
//! Consecutive segments of a channel come from different files and backends. Everything that players mishandle at such a
//! boundary is made uniform here.
//!
//! Decoding times are new: the sorted presentation times less one lead for all segments, because players position video
//! by the first decoding time and reordering differs from file to file. Audio before the item's start is dropped, and
//! gaps longer than a frame are filled with silence. Audio frames align to the channel's own time 0: all frames of an
//! item move together, by half a frame (11 ms) at most, so the frame interval stays constant across items.

use super::pes;
use super::tables::{Entry, Track};
use super::write::{Unit, Writer};
use super::{cut::AAC_FRAME, packet::LEN, packet::Packet, unwrap};

/// Shortest time between decoding and presentation of a frame, ticks: more than any usual reordering needs.
const LEAD: i64 = 27_000;

/// Interval between the frames of a still, ticks.
const STILL_STEP: i64 = 3_600;

/// A first video frame later than this in its item is late on purpose, ticks.
pub const LATE: i64 = 90_000;

/// One AAC-LC frame of silence, 48 kHz, stereo, with its ADTS header: what an encoder makes of zeros, plus a fill
/// element. This makes it long enough that its PES packet can be split into sixteen packets, so a segment of one frame
/// can close its counter.
const SILENCE: [u8; 16] =
    [0xff, 0xf1, 0x4c, 0x80, 0x02, 0x1f, 0xfc, 0x21, 0x10, 0x04, 0x60, 0x8c, 0x18, 0x80, 0x00, 0x38];

/// Interval between PCRs where no video frame carries one, ticks; and the largest interval allowed (ISO/IEC 13818-1
/// section 2.7.2).
const PCR_STEP: i64 = 7_200;
const PCR_MOST: i64 = 9_000;

/// Position of a segment in its item and on its channel.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start and end within the item, ticks.
    pub from: i64,
    pub to: i64,
    /// `opens`: first segment of the item after something else was on. `closes`: last segment before something else is
    /// on.
    pub opens: bool,
    pub closes: bool,
    /// Timestamp in the segment's bytes at time 0 of the file, ticks.
    pub base: i64,
    /// Position of the item's time 0 in its file, ticks.
    pub lead: i64,
    /// Channel clock at time 0 of the item, ticks.
    pub origin: i64,
    /// Channel clock at the end of the preceding audio, ticks. Set only if that differs from a regular end of an item.
    pub sounded: Option<i64>,
}

impl Span {
    /// Channel clock at the end of this segment's audio, ticks.
    pub fn sounds_until(&self) -> i64 {
        self.heard().1 + self.origin
    }

    /// The first audio frame boundary of the channel at or after a time of the item, as a time of the item.
    fn behind(&self, at: i64) -> i64 {
        -(-(at + self.origin)).div_euclid(AAC_FRAME) * AAC_FRAME - self.origin
    }

    /// The audio frame boundary of the channel nearest to a time of the item, as a time of the item.
    fn nearest(&self, at: i64) -> i64 {
        (at + self.origin + AAC_FRAME / 2).div_euclid(AAC_FRAME) * AAC_FRAME - self.origin
    }

    /// Shift of all audio of the item, ticks. A file's audio frames align to its time 0, exactly or nearly.
    fn shift(&self) -> i64 {
        self.nearest(-self.lead) + self.lead
    }

    /// Start and end of the audio, times of the item.
    fn heard(&self) -> (i64, i64) {
        let shift = self.shift();
        let begin = match self.sounded {
            Some(sounded) => sounded - self.origin,
            None if self.opens => self.behind(self.from),
            None => self.behind(self.from + shift),
        };
        (begin, self.behind(if self.closes { self.to } else { self.to + shift }))
    }
}

/// A still image as access units that each begin with a delimiter. The first is a keyframe, and each of the others
/// repeats it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Still {
    pub pictures: Vec<Vec<u8>>,
}

impl Still {
    /// Splits a byte stream (ITU-T H.264 annex B) at its access unit delimiters.
    pub fn of(stream: &[u8]) -> Self {
        let starts: Vec<usize> =
            (0..stream.len().saturating_sub(4)).filter(|&at| stream[at..at + 4] == [0, 0, 1, 9]).collect();
        // A start code may begin with one more zero byte.
        let begin = |at: usize| if at > 0 && stream[at - 1] == 0 { at - 1 } else { at };
        let ends = starts.iter().skip(1).map(|&at| begin(at)).chain([stream.len()]);
        Self { pictures: starts.iter().zip(ends).map(|(&at, end)| stream[begin(at)..end].to_vec()).collect() }
    }
}

struct Picture<'a> {
    pts: i64,
    random_access: bool,
    bytes: &'a [u8],
}

/// Rewrites a segment for the channel. Shows `still` if the segment has no video.
pub fn aired(segment: &[u8], span: Span, still: &Still) -> Vec<u8> {
    let units = Units::read(segment, span);
    let mut pictures: Vec<Picture> =
        units.of(Track::Video).map(|(pts, random_access, bytes)| Picture { pts, random_access, bytes }).collect();
    if let Some(first) = pictures.first_mut()
        && span.from == 0
        && (1..LATE).contains(&first.pts)
    {
        first.pts = 0;
    }
    if pictures.is_empty() {
        pictures = standing(still, span);
    }
    let decoded = decoding(&pictures);
    let sounds = sounds(&units, span);

    let mut writer = Writer::new(Track::Video);
    let mut sounds = sounds.into_iter().peekable();
    let mut clock = Clock::new(span);
    clock.open(&mut writer, decoded.first().copied());
    for (picture, dts) in pictures.iter().zip(&decoded) {
        // The PCR comes first. Audio from before the segment's start follows the first video frame.
        while let Some((pts, bytes)) = sounds.next_if(|(pts, _)| pts.max(&span.from) - LEAD < *dts) {
            clock.reach(&mut writer, pts - LEAD);
            put_sound(&mut writer, pts + span.origin, bytes);
        }
        clock.reach(&mut writer, *dts);
        clock.last = *dts;
        writer.put(&Unit {
            track: Track::Video,
            pts: picture.pts + span.origin,
            dts: Some(dts + span.origin),
            random_access: picture.random_access,
            parts: &[picture.bytes],
        });
    }
    for (pts, bytes) in sounds {
        clock.reach(&mut writer, pts - LEAD);
        put_sound(&mut writer, pts + span.origin, bytes);
    }
    clock.close(&mut writer);
    let entry = |track: Track, stream_type| Entry { pid: track.pid(), stream_type, descriptors: Vec::new() };
    writer.finish(&[entry(Track::Video, 0x1b), entry(Track::Audio, 0x0f)])
}

/// Inserts PCRs where video frames are far apart or missing. Times of the item.
struct Clock {
    span: Span,
    last: i64,
}

impl Clock {
    /// The previous segment has a PCR in the last `PCR_STEP` before its end.
    fn new(span: Span) -> Self {
        Self { span, last: span.from - LEAD - PCR_STEP }
    }

    /// Writes the first PCR, unless the first video frame carries it at the segment's start. A receiver that starts here
    /// cannot time a PES packet that precedes it (ISO/IEC 13818-1 section 2.4.2.2).
    fn open(&mut self, writer: &mut Writer<&[u8]>, first: Option<i64>) {
        let start = self.span.from - LEAD;
        if first.is_none_or(|first| first > start) {
            writer.put_clock(start + self.span.origin);
            self.last = start;
        }
    }

    /// Writes the PCRs due before a unit with this decoding time.
    fn reach(&mut self, writer: &mut Writer<&[u8]>, time: i64) {
        while time - self.last > PCR_MOST {
            self.last += PCR_STEP;
            writer.put_clock(self.last + self.span.origin);
        }
    }

    /// Writes the PCRs due before the segment's end.
    fn close(&mut self, writer: &mut Writer<&[u8]>) {
        while self.span.to - LEAD - self.last > PCR_STEP {
            self.last += PCR_STEP;
            writer.put_clock(self.last + self.span.origin);
        }
    }
}

fn put_sound<'a>(writer: &mut Writer<&'a [u8]>, pts: i64, bytes: &'a [u8]) {
    writer.put(&Unit { track: Track::Audio, pts, dts: None, random_access: true, parts: &[bytes] });
}

/// Frames of the still for the whole span.
fn standing<'a>(still: &'a Still, span: Span) -> Vec<Picture<'a>> {
    let count = ((span.to - span.from + STILL_STEP - 1) / STILL_STEP).max(1);
    let pictures =
        still.pictures.iter().enumerate().cycle().take(if still.pictures.is_empty() { 0 } else { count as usize });
    let at = (0..).map(|n| span.from + n * STILL_STEP);
    pictures.zip(at).map(|((n, bytes), pts)| Picture { pts, random_access: n == 0, bytes }).collect()
}

/// Decoding times: the sorted presentation times less the lead, and never after a frame's own presentation time.
fn decoding(pictures: &[Picture]) -> Vec<i64> {
    let mut times: Vec<i64> = pictures.iter().map(|picture| picture.pts).collect();
    times.sort_unstable();
    let mut next = i64::MAX;
    for (time, picture) in times.iter_mut().zip(pictures).rev() {
        *time = (*time - LEAD).min(picture.pts).min(next - 1);
        next = *time;
    }
    times
}

/// Audio frames from the span's start to its end, without a gap.
fn sounds(units: &Units, span: Span) -> Vec<(i64, &[u8])> {
    let (shift, (begin, end)) = (span.shift(), span.heard());
    let (opens, closes) = (span.opens || span.sounded.is_some(), span.closes);
    let mut own: Vec<(i64, &[u8])> = Vec::new();
    for (pts, _, bytes) in units.of(Track::Audio) {
        own.extend((0..).zip(frames(bytes)).map(|(n, frame)| (pts + n * AAC_FRAME, frame)));
    }
    // Within an item, each segment keeps its own frames. At the item's ends the channel's frame boundaries decide.
    own.retain(|(pts, _)| {
        (if opens { span.nearest(pts + shift) >= begin } else { *pts >= span.from })
            && (if closes { span.nearest(pts + shift) < end } else { *pts < span.to })
    });
    own.iter_mut().for_each(|(pts, _)| *pts += shift);
    let Some(&(first, _)) = own.first() else {
        return (0..).map(|n| (begin + n * AAC_FRAME, &SILENCE[..])).take_while(|(pts, _)| *pts < end).collect();
    };
    let rounded = |ticks: i64| (ticks + AAC_FRAME / 2).div_euclid(AAC_FRAME);
    let lead = if opens { rounded(first - begin) } else { (first - span.from - shift).max(0) / AAC_FRAME };
    let mut all: Vec<(i64, &[u8])> = (1..=lead).rev().map(|n| (first - n * AAC_FRAME, &SILENCE[..])).collect();
    for (n, &(pts, frame)) in own.iter().enumerate() {
        all.push((pts, frame));
        let missing = match own.get(n + 1) {
            Some((next, _)) => rounded(next - pts) - 1,
            None if closes || span.sounded.is_some() => rounded(end - pts) - 1,
            None => (span.to + shift - pts) / AAC_FRAME - 1,
        };
        all.extend((1..=missing).map(|n| (pts + n * AAC_FRAME, &SILENCE[..])));
    }
    all
}

/// The ADTS frames in one PES packet (ISO/IEC 13818-7 section 6.2). Stops at bytes that are not a frame.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let head = bytes.first_chunk::<7>()?;
        if head[0] != 0xff || head[1] & 0xf6 != 0xf0 {
            return None;
        }
        let length = usize::from(head[3] & 3) << 11 | usize::from(head[4]) << 3 | usize::from(head[5] >> 5);
        let (frame, rest) = bytes.split_at_checked(length.max(7))?;
        bytes = rest;
        Some(frame)
    })
}

/// Payloads of a segment's PES packets.
struct Units {
    payload: Vec<u8>,
    /// Track, time in the item, random access indicator, and byte range in `payload`.
    found: Vec<(Track, i64, bool, std::ops::Range<usize>)>,
}

impl Units {
    fn read(segment: &[u8], span: Span) -> Self {
        let packets = || segment.as_chunks::<LEN>().0.iter().filter_map(Packet::new);
        let mut units = Self { payload: Vec::with_capacity(segment.len()), found: Vec::new() };
        for track in [Track::Video, Track::Audio] {
            let mut open: Option<(usize, bool)> = None;
            for packet in packets().filter(|packet| packet.pid() == track.pid()) {
                if packet.starts_unit() {
                    units.close(track, open.take(), span);
                    open = Some((units.payload.len(), packet.random_access()));
                }
                if open.is_some() {
                    units.payload.extend_from_slice(packet.payload());
                }
            }
            units.close(track, open, span);
        }
        units
    }

    fn close(&mut self, track: Track, open: Option<(usize, bool)>, span: Span) {
        let Some((start, random_access)) = open else { return };
        let Some(header) = pes::parse(&self.payload[start..]) else { return };
        let Some(pts) = header.pts else { return };
        let begin = start + header.header;
        if begin < self.payload.len() {
            let zero = span.base + span.lead;
            let at = unwrap(pts, zero + span.from) - zero;
            self.found.push((track, at, random_access, begin..self.payload.len()));
        }
    }

    fn of(&self, track: Track) -> impl Iterator<Item = (i64, bool, &[u8])> {
        let found = self.found.iter().filter(move |(of, ..)| *of == track);
        found.map(|(_, at, random_access, range)| (*at, *random_access, &self.payload[range.clone()]))
    }
}

#[cfg(test)]
mod tests;
