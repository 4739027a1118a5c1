//! The segmenter: cuts a backend's continuous transport stream into the segments of a grid.
//!
//! The segment is decided at each PES start, per stream; the packets that follow on the PID go with it. Encoded video
//! is cut by frame index, copied video at the planned keyframe, audio by its PTS: a segment owns the audio packets that
//! begin in it. Where the backend really began does not matter: everything before the first requested segment is dropped
//! (`ffmpeg -ss` on Matroska starts up to two keyframes early, measured).

use std::collections::VecDeque;
use std::sync::Arc;

use super::canonical;
use super::packet::{PACKET_LEN, Packet, PacketReader};
use super::pes;
use super::psi::{PmtEntry, TrackKind, parse_pmt};
use super::{AUDIO_PID, PMT_PID, unwrap_timestamp};
use crate::domain::grid::Grid;

/// A segment stops waiting for a silent stream once the other stream is this far past its end, ticks. Backends interleave
/// more tightly than that.
const MAX_TRACK_WAIT: i64 = 5 * 90_000;

/// Largest distance of a keyframe from its planned boundary, ticks. Matroska rounds timestamps to 1 ms.
const BOUNDARY_TOLERANCE: i64 = 450;

/// Copied video decoded later than this after the item's end is not part of the item, ticks. Containers round, and
/// durations are estimates.
const END_TOLERANCE: i64 = 45_000;

/// Copied audio up to this long before the item's time 0 is encoder priming and belongs to segment 0, ticks.
pub const MAX_PRIMING: i64 = 90_000;

/// Duration of an AAC frame of 1024 samples at 48 kHz, ticks; exact.
pub const AAC_FRAME_TICKS: i64 = 1_920;

/// The first AAC frame on the grid of [`AAC_FRAME_TICKS`] that starts at or after `ticks`.
pub fn aac_frame_at_or_after(ticks: i64) -> i64 {
    -(-ticks).div_euclid(AAC_FRAME_TICKS)
}

/// Which tracks the stream contains and how to segment it.
#[derive(Clone, Debug)]
pub struct SegmenterSettings {
    pub grid: Arc<Grid>,
    pub first_segment: usize,
    /// MPEG-TS timestamp of source time 0, ticks.
    pub base_timestamp: i64,
    pub has_video: bool,
    pub audio: Option<AudioMode>,
    /// Most bytes buffered for all unfinished segments together.
    pub budget_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudioMode {
    /// AAC frames aligned to multiples of 1,920 ticks.
    Encoded,
    /// Packets copied from the source.
    Copied,
}

/// A finished segment in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSegment {
    pub index: usize,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmenterError {
    #[error("segment {0} is larger than its budget")]
    OverBudget(usize),
    #[error("the stream has no keyframe where segment {0} begins")]
    NoKeyframe(usize),
    #[error("the stream has no programme map")]
    NoProgramMap,
}

/// Takes bytes of the stream and returns finished segments.
#[derive(Debug)]
pub struct Segmenter {
    settings: SegmenterSettings,
    reader: PacketReader,
    entries: Vec<PmtEntry>,
    /// Packets of unfinished segments; the first entry belongs to segment `current_segment`.
    open_segments: VecDeque<Vec<u8>>,
    current_segment: usize,
    buffered_bytes: usize,
    video: TrackProgress,
    audio: TrackProgress,
    failure: Option<SegmenterError>,
    /// No more bytes come.
    has_ended: bool,
}

#[derive(Debug, Default)]
struct TrackProgress {
    is_present: bool,
    /// Segment of the current PES packet. None drops the packet.
    segment: Option<usize>,
    /// This track is complete in every segment before this index.
    complete_below: usize,
    /// Latest decoding time seen, ticks of source time.
    latest_time: i64,
    /// Remaining bytes of the current PES packet, if its length is known.
    remaining_bytes: Option<usize>,
    /// Value of `complete_below` once the current PES packet is complete.
    complete_below_after_packet: usize,
    /// Video frames started in `segment`.
    frame_count: u64,
    /// Encoded audio: start of the last frame that was kept, ticks.
    last_frame_start: i64,
}

impl TrackProgress {
    fn new(is_present: bool, settings: &SegmenterSettings) -> Self {
        let complete_below = if is_present { settings.first_segment } else { usize::MAX };
        Self {
            is_present,
            complete_below,
            latest_time: settings.grid.segment_start(settings.first_segment),
            complete_below_after_packet: complete_below,
            last_frame_start: i64::MIN,
            ..Self::default()
        }
    }
}

impl Segmenter {
    pub fn new(settings: SegmenterSettings) -> Self {
        Self {
            reader: PacketReader::default(),
            entries: Vec::new(),
            open_segments: VecDeque::new(),
            current_segment: settings.first_segment,
            buffered_bytes: 0,
            video: TrackProgress::new(settings.has_video, &settings),
            audio: TrackProgress::new(settings.audio.is_some(), &settings),
            failure: None,
            has_ended: false,
            settings,
        }
    }

    /// Index of the segment in progress, or the length of the grid once all are done.
    pub fn current_segment(&self) -> usize {
        self.current_segment
    }

    /// True once all segments of the grid are finished. Further input can be discarded.
    pub fn is_done(&self) -> bool {
        self.current_segment >= self.settings.grid.len()
    }

    /// Takes bytes of the stream and returns the segments they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<FinishedSegment>, SegmenterError> {
        let mut reader = std::mem::take(&mut self.reader);
        reader.push(bytes, |packet| self.process_packet(packet));
        self.reader = reader;
        if let Some(failed) = self.failure {
            return Err(failed);
        }
        let mut segments = Vec::new();
        while !self.is_done() && self.is_complete() {
            if self.entries.is_empty() {
                return Err(SegmenterError::NoProgramMap);
            }
            let packets = self.open_segments.pop_front().unwrap_or_default();
            self.buffered_bytes -= packets.len();
            let bytes = canonical::canonicalise(&packets, &self.entries);
            segments.push(FinishedSegment { index: self.current_segment, bytes });
            self.current_segment += 1;
        }
        Ok(segments)
    }

    /// Call at the end of the stream. Returns what is left, up to the first planned segment without any packets.
    pub fn finish(&mut self) -> Result<Vec<FinishedSegment>, SegmenterError> {
        self.has_ended = true;
        self.push(&[])
    }

    fn is_complete(&self) -> bool {
        if self.has_ended {
            return self.open_segments.iter().any(|packets| !packets.is_empty());
        }
        let tracks = [&self.video, &self.audio];
        let deadline = self.settings.grid.segment_start(self.current_segment + 1) + MAX_TRACK_WAIT;
        tracks.iter().all(|track| track.complete_below > self.current_segment)
            || tracks.iter().any(|track| {
                track.is_present && track.complete_below > self.current_segment && track.latest_time > deadline
            })
    }

    fn process_packet(&mut self, bytes: &[u8; PACKET_LEN]) {
        let Some(packet) = Packet::new(bytes) else { return };
        if packet.pid() == PMT_PID && self.entries.is_empty() {
            let entries = parse_pmt(packet.payload()).unwrap_or_default();
            self.entries = entries.into_iter().filter(|entry| TrackKind::from_pid(entry.pid).is_some()).collect();
            self.entries.sort_by_key(|entry| entry.pid);
            return;
        }
        let Some(track) = TrackKind::from_pid(packet.pid()) else { return };
        if packet.starts_unit() {
            match track {
                TrackKind::Video => self.start_video_frame(packet),
                TrackKind::Audio => self.start_audio_packet(packet),
            }
        }
        let progress = if packet.pid() == AUDIO_PID { &mut self.audio } else { &mut self.video };
        if !progress.is_present {
            return;
        }
        if let Some(remaining) = &mut progress.remaining_bytes {
            *remaining = remaining.saturating_sub(packet.payload().len());
            if *remaining == 0 {
                progress.complete_below = progress.complete_below.max(progress.complete_below_after_packet);
                progress.remaining_bytes = None;
            }
        }
        let Some(segment) = progress.segment.filter(|&segment| segment >= self.current_segment) else { return };
        // A track is at most `MAX_TRACK_WAIT` ahead of the other, but a hostile stream may address any segment: limit the
        // queue.
        let offset = segment - self.current_segment;
        if offset > 4096 || self.buffered_bytes + PACKET_LEN > self.settings.budget_bytes {
            self.failure.get_or_insert(SegmenterError::OverBudget(segment));
            return;
        }
        while self.open_segments.len() <= offset {
            self.open_segments.push_back(Vec::new());
        }
        self.open_segments[offset].extend_from_slice(bytes);
        self.buffered_bytes += PACKET_LEN;
    }

    fn start_video_frame(&mut self, packet: Packet) {
        let payload = packet.payload();
        let progress = &mut self.video;
        progress.remaining_bytes = None;
        let Some(header) = pes::parse(payload) else { return };
        let Some(pts) = header.pts else { return };
        let time = unwrap_timestamp(pts - self.settings.base_timestamp, progress.latest_time);
        let dts = header.dts.unwrap_or(pts) - self.settings.base_timestamp;
        progress.latest_time = progress.latest_time.max(unwrap_timestamp(dts, progress.latest_time));
        progress.remaining_bytes = header.total_len;
        let grid = &*self.settings.grid;
        match grid {
            Grid::Frames(frames) => {
                let rate = frames.rate;
                let frame = if time < -rate.frame_start_ticks(1) / 2 { None } else { Some(rate.frame_at(time)) };
                let segment = frame.filter(|frame| *frame < frames.total_frames).map(|frame| frames.segment_of(frame));
                let segment_or_end = match frame {
                    Some(frame) if frame >= frames.total_frames => grid.len(),
                    _ => segment.unwrap_or(0),
                };
                progress.frame_count = if segment == progress.segment { progress.frame_count + 1 } else { 1 };
                progress.segment = segment;
                progress.complete_below = progress.complete_below.max(segment_or_end);
                progress.complete_below_after_packet = progress.complete_below;
                if let Some(segment) = segment
                    && progress.frame_count == frames.first_frame(segment + 1) - frames.first_frame(segment)
                {
                    progress.complete_below_after_packet = progress.complete_below.max(segment + 1);
                }
            }
            Grid::Keyframes { .. } | Grid::Steps { .. } => {
                progress.complete_below_after_packet = progress.complete_below;
                let decoded = header.dts.map_or(time, |dts| unwrap_timestamp(dts - self.settings.base_timestamp, time));
                if decoded > grid.end_ticks() + END_TOLERANCE {
                    // The file grew after it was planned.
                    progress.segment = None;
                    progress.complete_below = grid.len();
                    progress.complete_below_after_packet = progress.complete_below;
                } else if packet.is_random_access_point() {
                    let nearest_segment = grid.segment_at(time + BOUNDARY_TOLERANCE);
                    let boundary = grid.segment_start(nearest_segment);
                    // Only planned keyframes cut; the planner merged the others away. The very first keyframe begins
                    // segment 0 even if video starts after audio.
                    let is_planned = (time - boundary).abs() <= BOUNDARY_TOLERANCE || nearest_segment == 0;
                    let next = progress.segment.map_or(self.settings.first_segment, |current| current + 1);
                    if is_planned && nearest_segment >= next {
                        if nearest_segment > next {
                            self.failure.get_or_insert(SegmenterError::NoKeyframe(next));
                        }
                        progress.segment = Some(nearest_segment);
                        progress.complete_below = progress.complete_below.max(nearest_segment);
                        progress.complete_below_after_packet = progress.complete_below;
                    } else if progress.segment.is_none() && nearest_segment >= self.settings.first_segment {
                        self.failure.get_or_insert(SegmenterError::NoKeyframe(self.settings.first_segment));
                    }
                }
            }
        }
    }

    fn start_audio_packet(&mut self, packet: Packet) {
        let progress = &mut self.audio;
        progress.remaining_bytes = None;
        let Some(header) = pes::parse(packet.payload()) else { return };
        let Some(pts) = header.pts else { return };
        let time = unwrap_timestamp(pts - self.settings.base_timestamp, progress.latest_time);
        progress.latest_time = progress.latest_time.max(time);
        progress.remaining_bytes = header.total_len;
        let grid = &*self.settings.grid;
        let is_copied = self.settings.audio == Some(AudioMode::Copied);
        let keeps_priming = is_copied && self.settings.first_segment == 0 && time > -MAX_PRIMING;
        let segment = match time {
            at if at < 0 && !keeps_priming => None,
            // Another frame already covers this time. A rebuilt filter graph restarts its timestamps from 0, and the
            // muxer moves each late frame to one tick after the frame before it.
            at if !is_copied && at < progress.last_frame_start.saturating_add(AAC_FRAME_TICKS / 2) => None,
            at if at >= grid.end_ticks() => None,
            at => Some(grid.segment_at(at)),
        };
        progress.segment = segment;
        let complete_below = if time >= grid.end_ticks() { grid.len() } else { segment.unwrap_or(0) };
        progress.complete_below = progress.complete_below.max(complete_below);
        progress.complete_below_after_packet = progress.complete_below;
        if segment.is_some() && !is_copied {
            progress.last_frame_start = time;
            // The next frame's start is known, so there is no need to wait for it. Segments shorter than a frame stay
            // empty.
            let next = time + AAC_FRAME_TICKS;
            let complete_below = if next >= grid.end_ticks() { grid.len() } else { grid.segment_at(next) };
            progress.complete_below_after_packet = progress.complete_below.max(complete_below);
        }
    }
}

#[cfg(test)]
mod tests;
