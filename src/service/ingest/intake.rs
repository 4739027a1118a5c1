//! The input of one connection: bytes are identified, normalised by a child process, and cut into pieces.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::feeder::{Ended, Fed};
use crate::domain::ingest::live_segmenter::{SegmentLimits, LiveSegmenterError, LiveSegmenter};
use crate::domain::ingest::stream_info::{self, StreamInfo, VideoCodec};
use crate::engine::ffmpeg::ingest_input::{ChildInput, ChildOutput, VideoMode, start};
use crate::service::Service;
use crate::service::encode_slots::ReservedSlot;

/// Most bytes of one piece: 6 s at 80 Mbit/s.
const BUDGET: usize = 64 << 20;

/// The longest segment, ticks: the target duration of every playlist.
const LONGEST: i64 = 6 * 90_000;

/// How long draining a stream may take, including the wait of its pieces for their time.
const REST: Duration = Duration::from_secs(60);

/// How the video of a source is processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Copied if every player supports it.
    #[default]
    Copy,
    /// Encoded, because keyframes are too far apart.
    Encode,
}

/// The input of one connection.
pub(super) struct Intake<'a> {
    service: &'a Arc<Service>,
    connection: u64,
    pieces: &'a mpsc::Sender<Fed>,
    verdict: Verdict,
    /// Bytes received before the format was identified.
    head: Vec<u8>,
    line: Option<Line>,
}

struct Line {
    /// None once the input has ended.
    inlet: Option<ChildInput>,
    out: JoinHandle<Ended>,
    _slot: Option<ReservedSlot>,
}

impl Line {
    async fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.inlet {
            Some(inlet) => inlet.write(bytes).await,
            None => Ok(()),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.out.abort();
    }
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        service: &'a Arc<Service>,
        connection: u64,
        pieces: &'a mpsc::Sender<Fed>,
        verdict: Verdict,
    ) -> Self {
        Self { service, connection, pieces, verdict, head: Vec::new(), line: None }
    }

    /// Starts over at a discontinuity, after draining the child process.
    pub(super) async fn restart(&mut self) {
        self.head = Vec::new();
        if let Some(mut line) = self.line.take() {
            line.inlet = None;
            if tokio::time::timeout(REST, &mut line.out).await.is_err() {
                tracing::debug!("draining timed out; the end of a stream is dropped");
            }
        }
    }

    /// Takes in bytes; true if the receiver is gone.
    pub(super) async fn put(&mut self, bytes: &[u8]) -> Result<bool, Ended> {
        if self.pieces.is_closed() {
            return Ok(true);
        }
        let Some(line) = &mut self.line else {
            self.head.extend_from_slice(bytes);
            let Some(shape) = stream_info::detect_stream(&self.head) else {
                return match self.head.len() > stream_info::MAX_PROBE_BYTES {
                    true => Err(Ended::Unfit("it is neither an MPEG transport stream nor fragmented mp4")),
                    false => Ok(false),
                };
            };
            let mut line = self.begin(shape).await?;
            let head = std::mem::take(&mut self.head);
            let put = line.put(&head).await;
            self.line = Some(line);
            return self.check(put).await;
        };
        let put = line.put(bytes).await;
        self.check(put).await
    }

    /// Finds out why the pipe broke.
    async fn check(&mut self, put: std::io::Result<()>) -> Result<bool, Ended> {
        let Some(line) = &mut self.line else { return Ok(false) };
        match put {
            Ok(()) if !line.out.is_finished() => Ok(false),
            _ => Err((&mut line.out).await.unwrap_or(Ended::Over)),
        }
    }

    async fn begin(&self, shape: StreamInfo) -> Result<Line, Ended> {
        let config = &self.service.config;
        let encodes = shape.video == Some(VideoCodec::Other) || shape.video.is_some() && self.verdict == Verdict::Encode;
        let (mut picture, mut slot) = (VideoMode::Copy, None);
        if encodes {
            let report = self.service.local_encoders.report().await;
            let software = report.working.iter().find(|encoder| encoder.name == "libx264");
            let encoder = software.or(report.working.first());
            let encoder = encoder.ok_or(Ended::Unfit("no video encoder works on this machine"))?.name.to_owned();
            // A live encode cannot wait for a turn.
            let slots = self.service.sessions.encode_slots();
            slot = Some(slots.reserve_slot().ok_or(Ended::Unfit("all encode slots are in use"))?);
            picture = VideoMode::Encode { encoder, keyframe_seconds: config.segment_seconds, max_height: 720 };
        }
        let started = start(&config.ffmpeg, shape, &picture).await;
        let (inlet, outlet) = started.map_err(|cause| Ended::Made(format!("ffmpeg does not start: {cause}")))?;
        let least = (config.segment_seconds * 90_000.0) as i64 - 4500;
        let bounds = SegmentLimits { min_duration: least.max(90_000), max_duration: LONGEST, max_bytes: BUDGET };
        let cutter = LiveSegmenter::new(shape.video.is_some(), bounds);
        let out = tokio::spawn(drain(outlet, cutter, self.connection, self.pieces.clone()));
        Ok(Line { inlet: Some(inlet), out, _slot: slot })
    }
}

/// Cuts the output of the child process into pieces.
async fn drain(mut outlet: ChildOutput, mut cutter: LiveSegmenter, connection: u64, pieces: mpsc::Sender<Fed>) -> Ended {
    loop {
        let bytes = match outlet.next().await {
            Ok(bytes) => bytes,
            Err(cause) => {
                for piece in cutter.finish() {
                    if pieces.send(Fed::Piece(connection, piece)).await.is_err() {
                        return Ended::Over;
                    }
                }
                return Ended::Made(cause.to_string());
            }
        };
        let cut = match cutter.push(bytes) {
            Ok(cut) => cut,
            Err(LiveSegmenterError::NoKeyframe(_)) => return Ended::Encode,
            Err(fault) => return Ended::Made(fault.to_string()),
        };
        for piece in cut {
            if pieces.send(Fed::Piece(connection, piece)).await.is_err() {
                return Ended::Over;
            }
        }
    }
}
