//! The segmenter: cuts a backend's continuous transport stream into the segments of a grid.
//!
//! The segment is decided at each PES start, per stream; the packets that follow on the PID go with it. Encoded video
//! is cut by frame index, copied video at the planned keyframe, audio by its PTS: a segment owns the audio packets that
//! begin in it. Where the backend really began does not matter: everything before the first requested segment is dropped
//! (`ffmpeg -ss` on Matroska starts up to two keyframes early, measured).

use std::collections::VecDeque;
use std::sync::Arc;

use super::canonical;
use super::packet::{LEN, Packet, Packets};
use super::pes;
use super::tables::{Entry, Track, parse_pmt};
use super::{AUDIO_PID, PMT_PID, unwrap};
use crate::domain::grid::Grid;

/// A segment stops waiting for a silent stream once the other stream is this far past its end, ticks. Backends interleave
/// more tightly than that.
const PATIENCE: i64 = 5 * 90_000;

/// Largest distance of a keyframe from its planned boundary, ticks. Matroska rounds timestamps to 1 ms.
const BOUND_TOLERANCE: i64 = 450;

/// Copied video decoded later than this after the item's end is not part of the item, ticks. Containers round, and
/// durations are estimates.
const END_TOLERANCE: i64 = 45_000;

/// Copied audio up to this long before the item's time 0 is encoder priming and belongs to segment 0, ticks.
pub const PRIMING: i64 = 90_000;

/// Duration of an AAC frame of 1024 samples at 48 kHz, ticks; exact.
pub const AAC_FRAME: i64 = 1_920;

/// Which tracks the stream contains and how to segment it.
#[derive(Clone, Debug)]
pub struct Cut {
    pub grid: Arc<Grid>,
    /// Index of the first requested segment.
    pub first: usize,
    /// MPEG-TS timestamp of source time 0, ticks.
    pub base: i64,
    pub video: bool,
    pub audio: Option<Audio>,
    /// Most bytes buffered for all unfinished segments together.
    pub budget: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audio {
    /// AAC frames aligned to multiples of 1,920 ticks.
    Encoded,
    /// Packets copied from the source.
    Copied,
}

/// A finished segment in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub index: usize,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    #[error("segment {0} is larger than its budget")]
    Budget(usize),
    #[error("the stream has no keyframe where segment {0} begins")]
    NoKeyframe(usize),
    #[error("the stream has no programme map")]
    NoTables,
}

/// Takes bytes of the stream and returns finished segments.
#[derive(Debug)]
pub struct Cutter {
    cut: Cut,
    packets: Packets,
    entries: Vec<Entry>,
    /// Packets of unfinished segments; the first entry belongs to segment `making`.
    open: VecDeque<Vec<u8>>,
    making: usize,
    held: usize,
    video: Lane,
    audio: Lane,
    failed: Option<CutError>,
}

/// Segmentation progress of one track.
#[derive(Debug)]
struct Lane {
    present: bool,
    /// Segment of the current PES packet. None drops the packet.
    current: Option<usize>,
    /// This track is complete in every segment before this index.
    past: usize,
    /// Latest decoding time seen, ticks of source time.
    clock: i64,
    /// Remaining bytes of the current PES packet, if its length is known.
    left: Option<usize>,
    /// Value of `past` once the current PES packet is complete.
    past_when_whole: usize,
    /// Video frames started in `current`.
    frames: u64,
    /// Encoded audio: start of the last frame that was kept, ticks.
    filled: i64,
}

impl Lane {
    fn new(present: bool, cut: &Cut) -> Self {
        let clock = cut.grid.start(cut.first);
        let (past, past_when_whole) = if present { (cut.first, cut.first) } else { (usize::MAX, usize::MAX) };
        Self { present, current: None, past, clock, left: None, past_when_whole, frames: 0, filled: i64::MIN }
    }
}

impl Cutter {
    pub fn new(cut: Cut) -> Self {
        let (video, audio) = (Lane::new(cut.video, &cut), Lane::new(cut.audio.is_some(), &cut));
        let making = cut.first;
        let (packets, open) = (Packets::default(), VecDeque::new());
        Self { cut, packets, entries: Vec::new(), open, making, held: 0, video, audio, failed: None }
    }

    /// Index of the segment in progress, or the length of the grid once all are done.
    pub fn making(&self) -> usize {
        self.making
    }

    /// True once all segments of the grid are finished. Further input can be discarded.
    pub fn done(&self) -> bool {
        self.making >= self.cut.grid.len()
    }

    /// Takes bytes of the stream and returns the segments they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Piece>, CutError> {
        let mut packets = std::mem::take(&mut self.packets);
        packets.push(bytes, |packet| self.take(packet));
        self.packets = packets;
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let mut pieces = Vec::new();
        while !self.done() && self.complete() {
            pieces.push(self.close()?);
        }
        Ok(pieces)
    }

    /// Call at the end of the stream. Returns what is left, up to the first planned segment without any packets.
    pub fn finish(&mut self) -> Result<Vec<Piece>, CutError> {
        let mut pieces = Vec::new();
        while !self.done() && self.open.iter().any(|packets| !packets.is_empty()) {
            pieces.push(self.close()?);
        }
        Ok(pieces)
    }

    fn complete(&self) -> bool {
        let lanes = [&self.video, &self.audio];
        let overdue = self.cut.grid.start(self.making + 1) + PATIENCE;
        lanes.iter().all(|lane| lane.past > self.making)
            || lanes.iter().any(|lane| lane.present && lane.past > self.making && lane.clock > overdue)
    }

    fn close(&mut self) -> Result<Piece, CutError> {
        if self.entries.is_empty() {
            return Err(CutError::NoTables);
        }
        let packets = self.open.pop_front().unwrap_or_default();
        self.held -= packets.len();
        let index = self.making;
        self.making += 1;
        Ok(Piece { index, bytes: canonical::segment(&packets, &self.entries) })
    }

    fn take(&mut self, bytes: &[u8; LEN]) {
        let Some(packet) = Packet::new(bytes) else { return };
        if packet.pid() == PMT_PID && self.entries.is_empty() {
            let entries = parse_pmt(packet.payload()).unwrap_or_default();
            self.entries = entries.into_iter().filter(|entry| Track::of_pid(entry.pid).is_some()).collect();
            self.entries.sort_by_key(|entry| entry.pid);
            return;
        }
        let Some(track) = Track::of_pid(packet.pid()) else { return };
        if packet.starts_unit() {
            match track {
                Track::Video => self.picture(packet),
                Track::Audio => self.sound(packet),
            }
        }
        let lane = if packet.pid() == AUDIO_PID { &mut self.audio } else { &mut self.video };
        if !lane.present {
            return;
        }
        if let Some(left) = &mut lane.left {
            *left = left.saturating_sub(packet.payload().len());
            if *left == 0 {
                lane.past = lane.past.max(lane.past_when_whole);
                lane.left = None;
            }
        }
        let Some(segment) = lane.current.filter(|&segment| segment >= self.making) else { return };
        // A track is at most `PATIENCE` ahead of the other, but a hostile stream may address any segment: limit the queue.
        let ahead = segment - self.making;
        if ahead > 4096 || self.held + LEN > self.cut.budget {
            self.failed.get_or_insert(CutError::Budget(segment));
            return;
        }
        while self.open.len() <= ahead {
            self.open.push_back(Vec::new());
        }
        self.open[ahead].extend_from_slice(bytes);
        self.held += LEN;
    }

    fn picture(&mut self, packet: Packet) {
        let payload = packet.payload();
        let lane = &mut self.video;
        lane.left = None;
        let Some(header) = pes::parse(payload) else { return };
        let Some(pts) = header.pts else { return };
        let at = unwrap(pts - self.cut.base, lane.clock);
        lane.clock = lane.clock.max(unwrap(header.dts.unwrap_or(pts) - self.cut.base, lane.clock));
        lane.left = header.total;
        let grid = &*self.cut.grid;
        match grid {
            Grid::Frames(frames) => {
                let rate = frames.rate;
                let frame = if at < -rate.ticks_of(1) / 2 { None } else { Some(rate.frame_near(at)) };
                let segment = frame.filter(|frame| *frame < frames.total).map(|frame| frames.segment(frame));
                let segment_or_end = match frame {
                    Some(frame) if frame >= frames.total => grid.len(),
                    _ => segment.unwrap_or(0),
                };
                lane.frames = if segment == lane.current { lane.frames + 1 } else { 1 };
                lane.current = segment;
                lane.past = lane.past.max(segment_or_end);
                lane.past_when_whole = lane.past;
                if let Some(segment) = segment
                    && lane.frames == frames.first(segment + 1) - frames.first(segment)
                {
                    lane.past_when_whole = lane.past.max(segment + 1);
                }
            }
            Grid::Keyframes { .. } | Grid::Steps { .. } => {
                lane.past_when_whole = lane.past;
                let decoded = header.dts.map_or(at, |dts| unwrap(dts - self.cut.base, at));
                if decoded > grid.end() + END_TOLERANCE {
                    // The file grew after it was planned.
                    lane.current = None;
                    lane.past = grid.len();
                    lane.past_when_whole = lane.past;
                } else if packet.random_access() {
                    let near = grid.at(at + BOUND_TOLERANCE);
                    let bound = grid.start(near);
                    // Only planned keyframes cut; the planner merged the others away. The very first keyframe begins
                    // segment 0 even if video starts after audio.
                    let planned = (at - bound).abs() <= BOUND_TOLERANCE || near == 0;
                    let next = lane.current.map_or(self.cut.first, |current| current + 1);
                    if planned && near >= next {
                        if near > next {
                            self.failed.get_or_insert(CutError::NoKeyframe(next));
                        }
                        lane.current = Some(near);
                        lane.past = lane.past.max(near);
                        lane.past_when_whole = lane.past;
                    } else if lane.current.is_none() && near >= self.cut.first {
                        self.failed.get_or_insert(CutError::NoKeyframe(self.cut.first));
                    }
                }
            }
        }
    }

    fn sound(&mut self, packet: Packet) {
        let lane = &mut self.audio;
        lane.left = None;
        let Some(header) = pes::parse(packet.payload()) else { return };
        let Some(pts) = header.pts else { return };
        let at = unwrap(pts - self.cut.base, lane.clock);
        lane.clock = lane.clock.max(at);
        lane.left = header.total;
        let grid = &*self.cut.grid;
        let copied = self.cut.audio == Some(Audio::Copied);
        let priming = copied && self.cut.first == 0 && at > -PRIMING;
        let segment = match at {
            at if at < 0 && !priming => None,
            // Another frame already covers this time. A rebuilt filter graph restarts its timestamps from 0, and the
            // muxer moves each late frame to one tick after the frame before it.
            at if !copied && at < lane.filled.saturating_add(AAC_FRAME / 2) => None,
            at if at >= grid.end() => None,
            at => Some(grid.at(at)),
        };
        lane.current = segment;
        let reached = if at >= grid.end() { grid.len() } else { segment.unwrap_or(0) };
        lane.past = lane.past.max(reached);
        lane.past_when_whole = lane.past;
        if segment.is_some() && !copied {
            lane.filled = at;
            // The next frame's start is known, so there is no need to wait for it. Segments shorter than a frame stay
            // empty.
            let next = at + AAC_FRAME;
            let reached = if next >= grid.end() { grid.len() } else { grid.at(next) };
            lane.past_when_whole = lane.past.max(reached);
        }
    }
}

#[cfg(test)]
mod tests;
