//! The repaired file as a child's input: its packets through a pipe, with their timestamps moved to source time.

use std::io::{Error, PipeReader, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;

use super::chain::Chain;
use super::{Lane, PIECE};
use crate::domain::mpegts::clock_jumps::{ClockSection, shift_to_source_time, source_time};
use crate::domain::mpegts::program::{Route, Router};
use crate::domain::sniff::Container;
use crate::domain::time::{TICKS_PER_SECOND, to_ticks};
use crate::engine::ffmpeg::spawn::InheritedFile;
use crate::engine::source::Source;

/// The pipe's timestamp of the start position, seconds. Not 0, because the first decoded frame may be presented earlier.
const BASE_SECONDS: i64 = 1000;

/// Below this distance the start position is searched linearly instead of by bisection, bytes.
const NEAR: u64 = PIECE as u64;

/// A repaired file on its way into a child; it ends with the child.
#[derive(Debug)]
pub struct Feed {
    pub(super) reader: Arc<PipeReader>,
    /// Source time minus the pipe's time, whole seconds.
    pub offset_seconds: i64,
}

/// How a child reads a [`Feed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fed {
    /// `pipe:<number>`.
    pub address: String,
    /// Source time minus the pipe's time, whole seconds.
    pub offset_seconds: i64,
}

impl Feed {
    /// Starts reading a file at source time `from`, seconds, or slightly before it; the tables come first. Must be called
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// Those of reading the file, or that it is no longer a transport stream or a chained Ogg file.
    pub async fn open(source: &Arc<Source>, pieces: &[ClockSection], from: f64) -> Result<Self> {
        let (file, known): (_, Arc<[ClockSection]>) = (source.clone(), pieces.into());
        let begin = from.max(0.0).floor() as i64;
        let by = (BASE_SECONDS - begin) * TICKS_PER_SECOND;
        let (reader, writer) = std::io::pipe()?;
        let writer = Sender::from_owned_fd(OwnedFd::from(writer))?;
        if source.sniffed.is_some_and(|sniffed| sniffed.container == Container::Ogg) {
            let opening = move || Chain::open(&file, &known, from, by);
            let chain = tokio::task::spawn_blocking(opening).await.map_err(Error::other)??;
            tokio::spawn(pump_chain(chain, writer));
        } else {
            let clock = known.clone();
            let looking = tokio::task::spawn_blocking(move || {
                let none = || Error::other("not a transport stream with video or audio");
                let lane = Lane::of(&file)?.ok_or_else(none)?;
                let at = if from > 0.0 { lane.place(&clock, to_ticks(from))? } else { 0 };
                let router = lane.router(&clock, at)?;
                Ok::<_, Error>((lane, at, router))
            });
            let (lane, at, router) = looking.await.map_err(Error::other)??;
            tokio::spawn(pump(lane, known, router, at, by, writer));
        }
        Ok(Self { reader: Arc::new(reader), offset_seconds: begin - BASE_SECONDS })
    }

    /// The pipe's end for the child.
    pub fn inherited(&self) -> InheritedFile {
        self.reader.clone()
    }

    pub fn fed(&self) -> Fed {
        Fed { address: format!("pipe:{}", self.reader.as_raw_fd()), offset_seconds: self.offset_seconds }
    }
}

impl Lane {
    /// Offset of the last frame whose decode time is at or before `from`, ticks of source time.
    pub(super) fn place(&self, pieces: &[ClockSection], from: i64) -> Result<u64> {
        let (mut low, mut high) = (0, self.source.len);
        while high - low > NEAR {
            let middle = low + (high - low) / 2;
            match self.sample(middle, high)?.first() {
                Some(mark) if source_time(pieces, mark.at, mark.dts) <= from => low = mark.at.max(middle),
                _ => high = middle,
            }
        }
        let before = self.marks(low, high)?.into_iter().rev();
        let mut before = before.filter(|mark| source_time(pieces, mark.at, mark.dts) <= from);
        Ok(before.next().map_or(low, |mark| mark.at))
    }
}

/// Reads and writes the links of a chain until the last one or the child ends.
async fn pump_chain(mut chain: Chain, mut writer: Sender) {
    loop {
        let read = tokio::task::spawn_blocking(move || chain.read().map(|bytes| (chain, bytes)));
        let Ok(Ok((rest, bytes))) = read.await else { return };
        chain = rest;
        if bytes.is_empty() || writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Reads, repairs and writes packets until the file or the child ends.
async fn pump(lane: Lane, pieces: Arc<[ClockSection]>, mut router: Option<Router>, mut at: u64, by: i64, mut writer: Sender) {
    let lane = Arc::new(lane);
    if at > 0 && writer.write_all(&lane.tables).await.is_err() {
        return;
    }
    let mut out = Vec::with_capacity(PIECE + PIECE / 8);
    while at < lane.source.len {
        let (reading, clock) = (lane.clone(), pieces.clone());
        let (mut filling, mut routing) = (std::mem::take(&mut out), router.take());
        let read = tokio::task::spawn_blocking(move || {
            filling.clear();
            let to = at + PIECE as u64;
            let mut next = to;
            let walked = reading.walk(at, to, |offset, bytes| {
                next = next.max(offset + reading.stride as u64);
                let mut packet = *bytes;
                match routing.as_mut().map_or(Route::Keep, |router| router.route(&mut packet)) {
                    Route::Keep => {
                        shift_to_source_time(&clock, offset, by, &mut packet);
                        filling.extend_from_slice(&packet);
                    }
                    Route::Tables => filling.extend_from_slice(&reading.tables),
                    Route::Drop => {}
                }
            });
            walked.map(|()| (filling, routing, next))
        });
        let Ok(Ok((filled, routing, next))) = read.await else { return };
        (out, router, at) = (filled, routing, next);
        // An error means that the child has ended.
        if writer.write_all(&out).await.is_err() {
            return;
        }
    }
}
