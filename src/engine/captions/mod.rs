//! Bitmap subtitles (PGS, VobSub) read from a Matroska file, or from a `.sup` file beside it, as a run reaches them.
//!
//! There is no whole pass: a run looks back for the image that is on the screen when it begins, then reads segment by
//! segment.

mod beside;
mod track;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use beside::Beside;
use track::Track;

use crate::domain::bitmap_subtitles::{PgsDecoder, PlacedBitmap, VobSubDecoder, DisplayUpdate};
use crate::domain::plan::BurnedSubtitle;
use crate::engine::{Job, RunError};

/// Largest size of all decoded bitmaps in memory, bytes: those shown within a segment or two.
const MOST_HELD: usize = 64 << 20;

/// Largest packet, bytes; a full screen of PGS has less than 1 MiB.
const MOST_PACKET: u64 = 4 << 20;

/// Limits of the backward search for a packet that needs no earlier one: packets, and their bytes.
const MOST_BACK: usize = 64;
const MOST_BACK_BYTES: usize = 16 << 20;

/// Time limit of the search for subtitles before a segment starts.
const DEADLINE: Duration = Duration::from_secs(10);

/// The bitmap subtitles of a run.
#[derive(Debug)]
pub(super) struct Captions {
    reader: Reader,
    decoder: Decoder,
    /// Size of the video: the canvas of tracks that state none.
    picture: (u32, u32),
    /// Sorted by time.
    shown: VecDeque<Shown>,
    begun: bool,
}

/// A subtitle and its display time, milliseconds of the item.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub from_ms: i64,
    /// None while the end is not known.
    pub until_ms: Option<i64>,
    pub canvas: (u32, u32),
    pub pieces: Arc<Vec<PlacedBitmap>>,
}

#[derive(Debug)]
enum Reader {
    Track(Track),
    Beside(Beside),
}

#[derive(Debug)]
enum Decoder {
    Graphics(PgsDecoder),
    SubPictures(VobSubDecoder),
}

/// A packet and its time, milliseconds of the item.
struct Packet {
    at_ms: i64,
    bytes: Vec<u8>,
}

/// When to give up: the run is stopped, or the time limit is reached.
struct Limit<'a> {
    stop: &'a dyn Fn() -> bool,
    until: Instant,
}

impl Limit<'_> {
    fn reached(&self) -> bool {
        (self.stop)() || Instant::now() > self.until
    }

    fn check(&self) -> Result<(), RunError> {
        if self.reached() {
            Err(RunError::SourceRead("reading its bitmap subtitles takes too long".into()))
        } else {
            Ok(())
        }
    }
}

impl Captions {
    /// Opens the subtitles that `burn` names; `picture` is the size of the video in its file. Reads the head of the file.
    ///
    /// # Errors
    /// When they cannot be read, or are of an unsupported format.
    pub(super) fn open(job: &Job, burn: &BurnedSubtitle, picture: (u32, u32), stop: &dyn Fn() -> bool) -> Result<Self, RunError> {
        let limit = Limit { stop, until: Instant::now() + DEADLINE };
        let (reader, decoder) = match burn {
            BurnedSubtitle::Embedded { stream, .. } => {
                let (track, decoder) = Track::open(job.source.clone(), &job.media, *stream)?;
                (Reader::Track(track), decoder)
            }
            BurnedSubtitle::Sidecar { .. } => {
                let missing = || RunError::Internal("the subtitle file is missing".into());
                let source = job.sidecar.clone().ok_or_else(missing)?;
                (Reader::Beside(Beside::open(source, &limit)?), Decoder::Graphics(PgsDecoder::default()))
            }
        };
        Ok(Self { reader, decoder, picture, shown: VecDeque::new(), begun: false })
    }

    /// The subtitles shown in this range of the item. Ranges must follow each other; the first may start anywhere.
    ///
    /// # Errors
    /// When the file cannot be read, or not within the time limit.
    pub(super) fn during(&mut self, from_ms: i64, to_ms: i64, stop: &dyn Fn() -> bool) -> Result<Vec<Shown>, RunError> {
        let limit = Limit { stop, until: Instant::now() + DEADLINE };
        if !self.begun {
            let earlier = match &mut self.reader {
                Reader::Track(track) => track.before(from_ms, &self.decoder, &limit)?,
                Reader::Beside(beside) => beside.before(from_ms, &limit)?,
            };
            self.feed(earlier)?;
            self.begun = true;
        }
        let packets = match &mut self.reader {
            Reader::Track(track) => track.until(to_ms, &limit)?,
            Reader::Beside(beside) => beside.until(to_ms, &limit)?,
        };
        self.feed(packets)?;
        self.shown.retain(|shown| shown.until_ms.is_none_or(|until| until > from_ms));
        let inside = self.shown.iter().filter(|shown| shown.from_ms < to_ms && !shown.pieces.is_empty());
        Ok(inside.cloned().collect())
    }

    fn feed(&mut self, packets: Vec<Packet>) -> Result<(), RunError> {
        for Packet { at_ms, bytes } in packets {
            match self.decoder.feed(&bytes) {
                Ok(Some(told)) => self.show(at_ms, told)?,
                Ok(None) => {}
                Err(cause) => tracing::debug!(at_ms, why = cause.0, "a damaged bitmap subtitle is skipped"),
            }
        }
        Ok(())
    }

    fn show(&mut self, at_ms: i64, told: DisplayUpdate) -> Result<(), RunError> {
        let from_ms = at_ms.saturating_add(told.start_ms);
        for earlier in &mut self.shown {
            if earlier.until_ms.is_none_or(|until| until > from_ms) {
                earlier.until_ms = Some(from_ms);
            }
        }
        // Drops those that were replaced before they were shown, and those that ended before the run starts.
        self.shown.retain(|shown| shown.until_ms.is_none_or(|until| until > shown.from_ms));
        if !self.begun {
            self.shown.clear();
        }
        let until_ms = told.end_ms.map(|until| at_ms.saturating_add(until));
        let canvas = told.canvas.unwrap_or(self.picture);
        self.shown.push_back(Shown { from_ms, until_ms, canvas, pieces: Arc::new(told.bitmaps) });
        let held: usize = self.shown.iter().flat_map(|shown| shown.pieces.iter()).map(|piece| piece.pixels.len()).sum();
        if held > MOST_HELD {
            return Err(RunError::Decode("too many bitmap subtitles are shown at once".into()));
        }
        Ok(())
    }
}

impl Decoder {
    /// Whether this packet can be decoded without earlier ones.
    fn stands_alone(&self, packet: &[u8]) -> bool {
        match self {
            Self::Graphics(_) => PgsDecoder::is_self_contained(packet),
            Self::SubPictures(_) => true,
        }
    }

    fn feed(&mut self, packet: &[u8]) -> Result<Option<DisplayUpdate>, crate::domain::bitmap_subtitles::MalformedPacket> {
        match self {
            Self::Graphics(graphics) => graphics.decode(packet),
            Self::SubPictures(track) => track.decode(packet).map(Some),
        }
    }
}
