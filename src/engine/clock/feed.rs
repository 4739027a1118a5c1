//! The repaired file as a child's input: its packets through a pipe, with their timestamps moved to source time.

use std::io::{Error, PipeReader, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;

use super::chain::Chain;
use super::{ClockStream, READ_BYTES};
use crate::domain::mpegts::clock_jumps::{ClockSection, shift_to_source_time, source_time};
use crate::domain::mpegts::program::{Route, Router};
use crate::domain::sniff::Container;
use crate::domain::time::Ticks;
use crate::engine::process::InheritedFile;
use crate::engine::source::SourceFile;
use crate::engine::{self, RunError};

/// The pipe's timestamp of the start position, seconds. Not 0, because the first decoded frame may be presented earlier.
const PIPE_START_SECONDS: i64 = 1000;

/// Below this distance the start position is searched linearly instead of by bisection, bytes.
const LINEAR_SEARCH_BYTES: u64 = READ_BYTES as u64;

/// A repaired file on its way into a child; it ends with the child.
#[derive(Debug)]
pub struct RepairedFeed {
    /// The pipe's end for the child.
    pub reader: Arc<PipeReader>,
    /// Source time minus the pipe's time, whole seconds.
    pub offset_seconds: i64,
}

/// How a child reads a [`RepairedFeed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeInput {
    /// `pipe:<number>`.
    pub address: String,
    /// Source time minus the pipe's time, whole seconds.
    pub offset_seconds: i64,
}

impl RepairedFeed {
    /// Starts reading a file at source time `start_seconds` or slightly before it; the tables come first. Must be called
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// Those of reading the file, or that it is no longer a transport stream or a chained Ogg file.
    pub async fn open(source: &Arc<SourceFile>, pieces: &[ClockSection], start_seconds: f64) -> Result<Self> {
        let (file, task_pieces): (_, Arc<[ClockSection]>) = (source.clone(), pieces.into());
        let start_second = start_seconds.max(0.0).floor() as i64;
        let shift = Ticks::from_ms((PIPE_START_SECONDS - start_second) * 1000);
        let (reader, writer) = std::io::pipe()?;
        let writer = Sender::from_owned_fd(OwnedFd::from(writer))?;
        if source.format.is_some_and(|sniffed| sniffed.container == Container::Ogg) {
            let opening = move || Chain::open(&file, &task_pieces, start_seconds, shift);
            let chain = tokio::task::spawn_blocking(opening).await.map_err(Error::other)??;
            tokio::spawn(pump_chain(chain, writer));
        } else {
            let search_pieces = task_pieces.clone();
            let task = tokio::task::spawn_blocking(move || {
                let none = || Error::other("not a transport stream with video or audio");
                let stream = ClockStream::find_in(&file)?.ok_or_else(none)?;
                let start = Ticks::from_seconds(start_seconds);
                let offset = if start > Ticks::ZERO { stream.find_offset(&search_pieces, start)? } else { 0 };
                let router = stream.router_at(&search_pieces, offset)?;
                Ok::<_, Error>((stream, offset, router))
            });
            let (stream, offset, router) = task.await.map_err(Error::other)??;
            tokio::spawn(write_repaired(stream, task_pieces, router, offset, shift, writer));
        }
        Ok(Self { reader: Arc::new(reader), offset_seconds: start_second - PIPE_START_SECONDS })
    }

    pub fn pipe_input(&self) -> PipeInput {
        PipeInput { address: format!("pipe:{}", self.reader.as_raw_fd()), offset_seconds: self.offset_seconds }
    }
}

/// The input from which a child process reads an item.
pub struct ItemInput {
    /// The file, or the pipe's end.
    pub file: InheritedFile,
    /// None if it reads the file itself.
    pub pipe: Option<PipeInput>,
}

impl ItemInput {
    /// The file itself, or a feed from `start_seconds` if `pieces` repair its clock. Only the child should keep the feed's
    /// end of the pipe open, so that the feed ends with the child. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// `SourceRead` with those of [`RepairedFeed::open`].
    pub async fn open(source: &Arc<SourceFile>, pieces: &[ClockSection], start_seconds: f64) -> engine::Result<Self> {
        if pieces.is_empty() {
            return Ok(Self { file: source.clone(), pipe: None });
        }
        let feed = RepairedFeed::open(source, pieces, start_seconds).await;
        let feed =
            feed.map_err(|cause| RunError::SourceRead(format!("the file cannot be put on one clock: {cause}")))?;
        Ok(Self { pipe: Some(feed.pipe_input()), file: feed.reader })
    }
}

impl ClockStream {
    /// Offset of the last frame whose decode time is at or before `start` of source time.
    pub(super) fn find_offset(&self, pieces: &[ClockSection], start: Ticks) -> Result<u64> {
        let (mut low, mut high) = (0, self.source.len);
        while high - low > LINEAR_SEARCH_BYTES {
            let middle = low + (high - low) / 2;
            match self.sample(middle, high)?.first() {
                Some(mark) if source_time(pieces, mark.offset, mark.dts) <= start => low = mark.offset.max(middle),
                _ => high = middle,
            }
        }
        let candidates = self.read_marks(low, high)?.into_iter().rev();
        let mut candidates = candidates.filter(|mark| source_time(pieces, mark.offset, mark.dts) <= start);
        Ok(candidates.next().map_or(low, |mark| mark.offset))
    }
}

/// Reads and writes the links of a chain until the last one or the child ends.
async fn pump_chain(mut chain: Chain, mut writer: Sender) {
    loop {
        let task = tokio::task::spawn_blocking(move || chain.read().map(|bytes| (chain, bytes)));
        let Ok(Ok((rest, bytes))) = task.await else { return };
        chain = rest;
        if bytes.is_empty() || writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Reads, repairs and writes packets until the file or the child ends.
async fn write_repaired(
    stream: ClockStream,
    pieces: Arc<[ClockSection]>,
    mut router: Option<Router>,
    mut position: u64,
    shift: Ticks,
    mut writer: Sender,
) {
    let stream = Arc::new(stream);
    if position > 0 && writer.write_all(&stream.table_packets).await.is_err() {
        return;
    }
    let mut chunk = Vec::with_capacity(READ_BYTES + READ_BYTES / 8);
    while position < stream.source.len {
        let (task_stream, task_pieces) = (stream.clone(), pieces.clone());
        let (mut buffer, mut task_router) = (std::mem::take(&mut chunk), router.take());
        let read = tokio::task::spawn_blocking(move || {
            buffer.clear();
            let end = position + READ_BYTES as u64;
            let mut next = end;
            let result = task_stream.for_each_packet(position, end, |offset, bytes| {
                next = next.max(offset + task_stream.packet_stride as u64);
                let mut packet = *bytes;
                match task_router.as_mut().map_or(Route::Keep, |router| router.route(&mut packet)) {
                    Route::Keep => {
                        shift_to_source_time(&task_pieces, offset, shift, &mut packet);
                        buffer.extend_from_slice(&packet);
                    }
                    Route::Tables => buffer.extend_from_slice(&task_stream.table_packets),
                    Route::Drop => {}
                }
            });
            result.map(|()| (buffer, task_router, next))
        });
        let Ok(Ok((filled, routing, next))) = read.await else { return };
        (chunk, router, position) = (filled, routing, next);
        // An error means that the child has ended.
        if writer.write_all(&chunk).await.is_err() {
            return;
        }
    }
}
