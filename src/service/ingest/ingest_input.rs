//! The input of one connection: bytes are identified, normalised by a child process, and cut into pieces.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::connection_end::ConnectionEnd;
use crate::domain::codec::TargetCodec;
use crate::domain::ingest::live_segmenter::{IngestSegment, LiveSegmenter, LiveSegmenterError, SegmentLimits};
use crate::domain::ingest::stream_info::{self, StreamInfo, VideoCodec};
use crate::domain::time::Ticks;
use crate::engine::ffmpeg::ingest_input::{ChildInput, ChildOutput, VideoMode, start};
use crate::service::Service;
use crate::service::renditions::encode_slots::ReservedSlot;

/// Most bytes of one piece: 6 s at 80 Mbit/s.
const MAX_PIECE_BYTES: usize = 64 << 20;

/// The longest segment: the target duration of every playlist.
const MAX_SEGMENT_DURATION: Ticks = Ticks::from_ms(6000);

/// How long draining a stream may take, including the wait of its pieces for their time.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Events from the source client.
pub(super) enum FeedEvent {
    /// A piece, with the number of its connection (the first is 1).
    Piece(u64, IngestSegment),
    /// The connection to the source has ended.
    Disconnected,
}

/// How the video of a source is processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum VideoHandling {
    /// Copied if every player supports it.
    #[default]
    Copy,
    /// Encoded, because keyframes are too far apart.
    Encode,
}

/// The input of one connection.
pub(super) struct IngestInput<'a> {
    service: &'a Arc<Service>,
    connection: u64,
    pieces: &'a mpsc::Sender<FeedEvent>,
    video_handling: VideoHandling,
    /// Bytes received before the format was identified.
    unidentified: Vec<u8>,
    normaliser: Option<Normaliser>,
}

struct Normaliser {
    /// None once the input has ended.
    inlet: Option<ChildInput>,
    output_task: JoinHandle<ConnectionEnd>,
    _slot: Option<ReservedSlot>,
}

impl Normaliser {
    async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.inlet {
            Some(inlet) => inlet.write(bytes).await,
            None => Ok(()),
        }
    }
}

impl Drop for Normaliser {
    fn drop(&mut self) {
        self.output_task.abort();
    }
}

impl<'a> IngestInput<'a> {
    pub(super) fn new(
        service: &'a Arc<Service>,
        connection: u64,
        pieces: &'a mpsc::Sender<FeedEvent>,
        video_handling: VideoHandling,
    ) -> Self {
        Self { service, connection, pieces, video_handling, unidentified: Vec::new(), normaliser: None }
    }

    /// Starts over at a discontinuity, after draining the child process.
    pub(super) async fn restart(&mut self) {
        self.unidentified = Vec::new();
        if let Some(mut normaliser) = self.normaliser.take() {
            normaliser.inlet = None;
            if tokio::time::timeout(DRAIN_TIMEOUT, &mut normaliser.output_task).await.is_err() {
                tracing::debug!("draining timed out; the end of a stream is dropped");
            }
        }
    }

    /// Takes in bytes; true if the receiver is gone.
    pub(super) async fn feed(&mut self, bytes: &[u8]) -> Result<bool, ConnectionEnd> {
        if self.pieces.is_closed() {
            return Ok(true);
        }
        let Some(normaliser) = &mut self.normaliser else {
            self.unidentified.extend_from_slice(bytes);
            let Some(info) = stream_info::detect_stream(&self.unidentified) else {
                if self.unidentified.len() <= stream_info::MAX_PROBE_BYTES {
                    return Ok(false);
                }
                return Err(ConnectionEnd::Unsupported("it is neither an MPEG transport stream nor fragmented mp4"));
            };
            let mut normaliser = self.start_normaliser(info).await?;
            let head = std::mem::take(&mut self.unidentified);
            let write_result = normaliser.write(&head).await;
            self.normaliser = Some(normaliser);
            return self.check_output(write_result).await;
        };
        let write_result = normaliser.write(bytes).await;
        self.check_output(write_result).await
    }

    /// Finds out why the pipe broke.
    async fn check_output(&mut self, write_result: std::io::Result<()>) -> Result<bool, ConnectionEnd> {
        let Some(normaliser) = &mut self.normaliser else { return Ok(false) };
        match write_result {
            Ok(()) if !normaliser.output_task.is_finished() => Ok(false),
            _ => Err((&mut normaliser.output_task).await.unwrap_or(ConnectionEnd::StreamEnded)),
        }
    }

    async fn start_normaliser(&self, info: StreamInfo) -> Result<Normaliser, ConnectionEnd> {
        let config = &self.service.config;
        let needs_encoding = info.video == Some(VideoCodec::Other)
            || info.video.is_some() && self.video_handling == VideoHandling::Encode;
        let (mut video_mode, mut slot) = (VideoMode::Copy, None);
        if needs_encoding {
            let report = self.service.local_encoders.report().await;
            let encoder = report
                .best_software(TargetCodec::H264)
                .ok_or(ConnectionEnd::Unsupported("no video encoder works on this machine"))?;
            // A live encode cannot wait for a turn.
            let slots = self.service.renditions.encode_slots();
            slot = Some(slots.reserve_slot().ok_or(ConnectionEnd::Unsupported("all encode slots are in use"))?);
            video_mode = VideoMode::Encode { encoder, keyframe_seconds: config.segment_seconds, max_height: 720 };
        }
        let started = start(&config.ffmpeg, info, &video_mode).await;
        let (inlet, outlet) =
            started.map_err(|cause| ConnectionEnd::ProcessingFailed(format!("ffmpeg does not start: {cause}")))?;
        let min_duration = Ticks::from_seconds(config.segment_seconds) - Ticks::from_ms(50);
        let limits = SegmentLimits {
            min_duration: min_duration.max(Ticks::from_ms(1000)),
            max_duration: MAX_SEGMENT_DURATION,
            max_bytes: MAX_PIECE_BYTES,
        };
        let segmenter = LiveSegmenter::new(info.video.is_some(), limits);
        let output_task = tokio::spawn(cut_output(outlet, segmenter, self.connection, self.pieces.clone()));
        Ok(Normaliser { inlet: Some(inlet), output_task, _slot: slot })
    }
}

/// Cuts the output of the child process into pieces.
async fn cut_output(
    mut outlet: ChildOutput,
    mut segmenter: LiveSegmenter,
    connection: u64,
    pieces: mpsc::Sender<FeedEvent>,
) -> ConnectionEnd {
    loop {
        let (new_pieces, end) = match outlet.next().await.map(|bytes| segmenter.push(bytes)) {
            Ok(Ok(pieces)) => (pieces, None),
            Ok(Err(LiveSegmenterError::NoKeyframe(_))) => return ConnectionEnd::NeedsEncoding,
            Ok(Err(fault)) => return ConnectionEnd::ProcessingFailed(fault.to_string()),
            Err(cause) => (segmenter.finish(), Some(ConnectionEnd::ProcessingFailed(cause.to_string()))),
        };
        for piece in new_pieces {
            if pieces.send(FeedEvent::Piece(connection, piece)).await.is_err() {
                return ConnectionEnd::StreamEnded;
            }
        }
        if let Some(end) = end {
            return end;
        }
    }
}
