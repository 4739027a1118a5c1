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
use super::psi::{PmtEntry, TrackKind};
use super::ts_writer::{AccessUnit, TsWriter};
use super::{packet::PACKET_LEN, packet::Packet, segmenter::AAC_FRAME, unwrap_timestamp};
use crate::domain::audio_layout::AudioLayout;
use crate::domain::time::Ticks;

/// Shortest time between decoding and presentation of a frame: more than any usual reordering needs.
const DECODE_LEAD: Ticks = Ticks::from_ms(300);

/// Interval between the frames of a still.
const STILL_STEP: Ticks = Ticks::from_ms(40);

/// A first video frame later than this in its item is late on purpose.
pub const LATE_START: Ticks = Ticks::from_ms(1000);

/// Interval between PCRs where no video frame carries one; and the largest interval allowed (ISO/IEC 13818-1 section
/// 2.7.2).
const PCR_INTERVAL: Ticks = Ticks::from_ms(80);
const MAX_PCR_INTERVAL: Ticks = Ticks::from_ms(100);

/// Position of a segment in its item and on its channel.
#[derive(Clone, Copy, Debug)]
pub struct TimelineSpan {
    /// Start and end within the item.
    pub item_start: Ticks,
    pub item_end: Ticks,
    /// The item's first segment, after something else was on.
    pub starts_item: bool,
    /// The item's last segment, before something else is on.
    pub ends_item: bool,
    /// Timestamp in the segment's bytes at time 0 of the file.
    pub base_timestamp: Ticks,
    /// Position of the item's time 0 in its file.
    pub item_offset: Ticks,
    /// Channel clock at time 0 of the item.
    pub channel_origin: Ticks,
    /// Channel clock at the end of the preceding audio. Set only if that differs from a regular end of an item.
    pub previous_audio_end: Option<Ticks>,
    /// That of the segment's audio frames, and of the silence that fills gaps.
    pub audio_layout: AudioLayout,
}

impl TimelineSpan {
    /// Channel clock at the end of this segment's audio.
    pub fn audio_end(&self) -> Ticks {
        self.audio_span().1 + self.channel_origin
    }

    /// The first audio frame boundary of the channel at or after a time of the item, as a time of the item.
    fn frame_at_or_after(&self, time: Ticks) -> Ticks {
        AAC_FRAME * (time + self.channel_origin).div_ceil(AAC_FRAME) - self.channel_origin
    }

    /// The audio frame boundary of the channel nearest to a time of the item, as a time of the item.
    fn nearest_frame(&self, time: Ticks) -> Ticks {
        AAC_FRAME * (time + self.channel_origin + AAC_FRAME / 2).div_euclid(AAC_FRAME) - self.channel_origin
    }

    /// Shift of all audio of the item. A file's audio frames align to its time 0, exactly or nearly.
    fn audio_shift(&self) -> Ticks {
        self.nearest_frame(-self.item_offset) + self.item_offset
    }

    /// Start and end of the audio, times of the item.
    fn audio_span(&self) -> (Ticks, Ticks) {
        let shift = self.audio_shift();
        let begin = match self.previous_audio_end {
            Some(end) => end - self.channel_origin,
            None if self.starts_item => self.frame_at_or_after(self.item_start),
            None => self.frame_at_or_after(self.item_start + shift),
        };
        (begin, self.frame_at_or_after(if self.ends_item { self.item_end } else { self.item_end + shift }))
    }
}

/// A still image as access units that each begin with a delimiter. The first is a keyframe, and each of the others
/// repeats it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StillImage {
    pub frames: Vec<Vec<u8>>,
}

impl StillImage {
    /// Splits a byte stream (ITU-T H.264 annex B) at its access unit delimiters.
    pub fn from_annex_b(stream: &[u8]) -> Self {
        let starts: Vec<usize> =
            (0..stream.len().saturating_sub(4)).filter(|&at| stream[at..at + 4] == [0, 0, 1, 9]).collect();
        // A start code may begin with one more zero byte.
        let begin = |at: usize| if at > 0 && stream[at - 1] == 0 { at - 1 } else { at };
        let ends = starts.iter().skip(1).map(|&at| begin(at)).chain([stream.len()]);
        Self { frames: starts.iter().zip(ends).map(|(&at, end)| stream[begin(at)..end].to_vec()).collect() }
    }
}

struct VideoFrame<'a> {
    pts: Ticks,
    random_access: bool,
    bytes: &'a [u8],
}

/// Rewrites a segment for the channel. Shows `still` if the segment has no video.
pub fn place_on_timeline(segment: &[u8], span: TimelineSpan, still: &StillImage) -> Vec<u8> {
    let units = SegmentUnits::read(segment, span);
    let mut video_frames: Vec<VideoFrame> = units
        .of_track(TrackKind::Video)
        .map(|(pts, random_access, bytes)| VideoFrame { pts, random_access, bytes })
        .collect();
    if let Some(first) = video_frames.first_mut()
        && span.item_start == Ticks::ZERO
        && (Ticks(1)..LATE_START).contains(&first.pts)
    {
        first.pts = Ticks::ZERO;
    }
    if video_frames.is_empty() {
        video_frames = still_frames(still, span);
    }
    let decode_times = compute_decode_times(&video_frames);
    let audio_frames = collect_audio_frames(&units, span);

    let mut writer = TsWriter::new(TrackKind::Video);
    let mut audio_frames = audio_frames.into_iter().peekable();
    let mut pcr_inserter = PcrInserter::new(span);
    pcr_inserter.write_first(&mut writer, decode_times.first().copied());
    for (frame, dts) in video_frames.iter().zip(&decode_times) {
        // The PCR comes first. Audio from before the segment's start follows the first video frame.
        let is_before = |(pts, _): &(Ticks, _)| *pts.max(&span.item_start) - DECODE_LEAD < *dts;
        while let Some((pts, bytes)) = audio_frames.next_if(is_before) {
            pcr_inserter.write_until(&mut writer, pts - DECODE_LEAD, MAX_PCR_INTERVAL);
            push_audio_frame(&mut writer, pts + span.channel_origin, bytes);
        }
        pcr_inserter.write_until(&mut writer, *dts, MAX_PCR_INTERVAL);
        pcr_inserter.last_pcr = *dts;
        writer.push_unit(&AccessUnit {
            track: TrackKind::Video,
            pts: frame.pts + span.channel_origin,
            dts: Some(*dts + span.channel_origin),
            random_access: frame.random_access,
            parts: &[frame.bytes],
        });
    }
    for (pts, bytes) in audio_frames {
        pcr_inserter.write_until(&mut writer, pts - DECODE_LEAD, MAX_PCR_INTERVAL);
        push_audio_frame(&mut writer, pts + span.channel_origin, bytes);
    }
    pcr_inserter.write_until(&mut writer, span.item_end - DECODE_LEAD, PCR_INTERVAL);
    let entry = |track: TrackKind, stream_type| PmtEntry { pid: track.pid(), stream_type, descriptors: Vec::new() };
    writer.into_segment(&[entry(TrackKind::Video, 0x1b), entry(TrackKind::Audio, 0x0f)])
}

/// Inserts PCRs where video frames are far apart or missing. Times of the item.
struct PcrInserter {
    span: TimelineSpan,
    last_pcr: Ticks,
}

impl PcrInserter {
    /// The previous segment has a PCR in the last `PCR_INTERVAL` before its end.
    fn new(span: TimelineSpan) -> Self {
        Self { span, last_pcr: span.item_start - DECODE_LEAD - PCR_INTERVAL }
    }

    /// Writes the first PCR, unless the first video frame carries it at the segment's start. A receiver that starts here
    /// cannot time a PES packet that precedes it (ISO/IEC 13818-1 section 2.4.2.2).
    fn write_first(&mut self, writer: &mut TsWriter<&[u8]>, first: Option<Ticks>) {
        let start = self.span.item_start - DECODE_LEAD;
        if first.is_none_or(|first| first > start) {
            writer.push_pcr(start + self.span.channel_origin);
            self.last_pcr = start;
        }
    }

    /// Writes PCRs until the last one is at most `max_interval` before this decoding time.
    fn write_until(&mut self, writer: &mut TsWriter<&[u8]>, time: Ticks, max_interval: Ticks) {
        while time - self.last_pcr > max_interval {
            self.last_pcr += PCR_INTERVAL;
            writer.push_pcr(self.last_pcr + self.span.channel_origin);
        }
    }
}

fn push_audio_frame<'a>(writer: &mut TsWriter<&'a [u8]>, pts: Ticks, bytes: &'a [u8]) {
    writer.push_unit(&AccessUnit { track: TrackKind::Audio, pts, dts: None, random_access: true, parts: &[bytes] });
}

fn still_frames<'a>(still: &'a StillImage, span: TimelineSpan) -> Vec<VideoFrame<'a>> {
    let count = (span.item_end - span.item_start).div_ceil(STILL_STEP).max(1);
    let frames = still.frames.iter().enumerate().cycle().take(if still.frames.is_empty() { 0 } else { count as usize });
    let at = (0..).map(|n| span.item_start + STILL_STEP * n);
    frames.zip(at).map(|((n, bytes), pts)| VideoFrame { pts, random_access: n == 0, bytes }).collect()
}

/// Decoding times: the sorted presentation times less the lead, and never after a frame's own presentation time.
fn compute_decode_times(video_frames: &[VideoFrame]) -> Vec<Ticks> {
    let mut times: Vec<Ticks> = video_frames.iter().map(|frame| frame.pts).collect();
    times.sort_unstable();
    let mut next = Ticks::MAX;
    for (time, frame) in times.iter_mut().zip(video_frames).rev() {
        *time = (*time - DECODE_LEAD).min(frame.pts).min(next - Ticks(1));
        next = *time;
    }
    times
}

/// Audio frames from the span's start to its end, without a gap.
fn collect_audio_frames(units: &SegmentUnits, span: TimelineSpan) -> Vec<(Ticks, &[u8])> {
    let (shift, (begin, end), silent_frame) = (span.audio_shift(), span.audio_span(), span.audio_layout.silent_frame());
    let (aligns_start, aligns_end) = (span.starts_item || span.previous_audio_end.is_some(), span.ends_item);
    let mut own_frames: Vec<(Ticks, &[u8])> = Vec::new();
    for (pts, _, bytes) in units.of_track(TrackKind::Audio) {
        own_frames.extend((0..).zip(adts_frames(bytes)).map(|(n, frame)| (pts + AAC_FRAME * n, frame)));
    }
    // Within an item, each segment keeps its own frames. At the item's ends the channel's frame boundaries decide.
    own_frames.retain(|(pts, _)| {
        (if aligns_start { span.nearest_frame(*pts + shift) >= begin } else { *pts >= span.item_start })
            && (if aligns_end { span.nearest_frame(*pts + shift) < end } else { *pts < span.item_end })
    });
    own_frames.iter_mut().for_each(|(pts, _)| *pts += shift);
    let Some(&(first, _)) = own_frames.first() else {
        let silence = (0..).map(|n| (begin + AAC_FRAME * n, silent_frame));
        return silence.take_while(|(pts, _)| *pts < end).collect();
    };
    let rounded = |length: Ticks| (length + AAC_FRAME / 2).div_euclid(AAC_FRAME);
    let whole_frames = (first - span.item_start - shift).max(Ticks::ZERO).div_euclid(AAC_FRAME);
    let missing_before = if aligns_start { rounded(first - begin) } else { whole_frames };
    let mut padded_frames: Vec<(Ticks, &[u8])> =
        (1..=missing_before).rev().map(|n| (first - AAC_FRAME * n, silent_frame)).collect();
    for (n, &(pts, frame)) in own_frames.iter().enumerate() {
        padded_frames.push((pts, frame));
        let missing = match own_frames.get(n + 1) {
            Some((next, _)) => rounded(*next - pts) - 1,
            None if aligns_end || span.previous_audio_end.is_some() => rounded(end - pts) - 1,
            None => (span.item_end + shift - pts).div_euclid(AAC_FRAME) - 1,
        };
        padded_frames.extend((1..=missing).map(|n| (pts + AAC_FRAME * n, silent_frame)));
    }
    padded_frames
}

/// The ADTS frames in one PES packet (ISO/IEC 13818-7 section 6.2). Stops at bytes that are not a frame.
fn adts_frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
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
struct SegmentUnits {
    payload: Vec<u8>,
    /// Track, time in the item, random access indicator, and byte range in `payload`.
    units: Vec<(TrackKind, Ticks, bool, std::ops::Range<usize>)>,
}

impl SegmentUnits {
    fn read(segment: &[u8], span: TimelineSpan) -> Self {
        let packets = || segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
        let mut units = Self { payload: Vec::with_capacity(segment.len()), units: Vec::new() };
        for track in [TrackKind::Video, TrackKind::Audio] {
            let mut open: Option<(usize, bool)> = None;
            for packet in packets().filter(|packet| packet.pid() == track.pid()) {
                if packet.starts_unit() {
                    units.finish_unit(track, open.take(), span);
                    open = Some((units.payload.len(), packet.is_random_access_point()));
                }
                if open.is_some() {
                    units.payload.extend_from_slice(packet.payload());
                }
            }
            units.finish_unit(track, open, span);
        }
        units
    }

    fn finish_unit(&mut self, track: TrackKind, open: Option<(usize, bool)>, span: TimelineSpan) {
        let Some((start, random_access)) = open else { return };
        let Some(header) = pes::parse(&self.payload[start..]) else { return };
        let Some(pts) = header.pts else { return };
        let begin = start + header.header_len;
        if begin < self.payload.len() {
            let zero = span.base_timestamp + span.item_offset;
            let at = unwrap_timestamp(pts, zero + span.item_start) - zero;
            self.units.push((track, at, random_access, begin..self.payload.len()));
        }
    }

    fn of_track(&self, track: TrackKind) -> impl Iterator<Item = (Ticks, bool, &[u8])> {
        let found = self.units.iter().filter(move |(of, ..)| *of == track);
        found.map(|(_, at, random_access, range)| (*at, *random_access, &self.payload[range.clone()]))
    }
}

#[cfg(test)]
mod tests;
