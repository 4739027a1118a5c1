//! Bitmap subtitles (PGS, VobSub) read from a Matroska or mp4 file, or from a `.sup` file beside it, as a run reaches them.
//!
//! There is no whole pass: a run looks back for the image that is on the screen when it begins, then reads segment by
//! segment.

mod matroska_track;
mod mp4_track;
mod sup_file;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use matroska_track::MatroskaTrack;
use mp4_track::Mp4SubtitleTrack;
use sup_file::SupFile;

use crate::domain::bitmap_subtitles::{DisplayUpdate, MalformedPacket, PgsDecoder, PlacedBitmap, VobSubDecoder};
use crate::domain::media::Container;
use crate::domain::plan::BurnedSubtitle;
use crate::engine::{Job, RunError};

/// Largest size of all decoded bitmaps in memory, bytes: those shown within a segment or two.
const MAX_BITMAP_BYTES: usize = 64 << 20;

/// Largest packet, bytes; a full screen of PGS has less than 1 MiB.
const MAX_PACKET_BYTES: u64 = 4 << 20;

/// Limits of the backward search for a packet that needs no earlier one: packets, and their bytes.
const MAX_BACKWARD_PACKETS: usize = 64;
const MAX_BACKWARD_BYTES: usize = 16 << 20;

/// Time limit of the search for subtitles before a segment starts.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The bitmap subtitles of a run.
#[derive(Debug)]
pub(super) struct BitmapSubtitles {
    reader: SubtitleReader,
    decoder: BitmapDecoder,
    /// Size of the video: the canvas of tracks that state none.
    video_size: (u32, u32),
    /// Sorted by time.
    subtitles: VecDeque<ShownSubtitle>,
    has_started: bool,
}

/// A subtitle and its display time, milliseconds of the item.
#[derive(Clone, Debug)]
pub(super) struct ShownSubtitle {
    pub start_ms: i64,
    /// None while the end is not known.
    pub end_ms: Option<i64>,
    pub canvas: (u32, u32),
    pub bitmaps: Arc<Vec<PlacedBitmap>>,
}

#[derive(Debug)]
enum SubtitleReader {
    Matroska(MatroskaTrack),
    Mp4(Box<Mp4SubtitleTrack>),
    Sup(SupFile),
}

#[derive(Debug)]
enum BitmapDecoder {
    Pgs(PgsDecoder),
    VobSub(VobSubDecoder),
}

/// A packet and its time, milliseconds of the item.
struct SubtitlePacket {
    time_ms: i64,
    bytes: Vec<u8>,
}

/// When to give up: the run is stopped, or the time limit is reached.
struct SearchLimit<'a> {
    is_stopped: &'a dyn Fn() -> bool,
    deadline: Instant,
}

impl SearchLimit<'_> {
    fn is_reached(&self) -> bool {
        (self.is_stopped)() || Instant::now() > self.deadline
    }

    fn check(&self) -> Result<(), RunError> {
        if self.is_reached() {
            Err(RunError::SourceRead("reading its bitmap subtitles takes too long".into()))
        } else {
            Ok(())
        }
    }
}

impl BitmapSubtitles {
    /// Opens the subtitles that `burn` names; `video_size` is the size of the video in its file. Reads the head of the
    /// file.
    pub(super) fn open(
        job: &Job,
        burn: &BurnedSubtitle,
        video_size: (u32, u32),
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, RunError> {
        let limit = SearchLimit { is_stopped, deadline: Instant::now() + SEARCH_TIMEOUT };
        let (reader, decoder) = match burn {
            BurnedSubtitle::Embedded { stream, .. } if job.spec.media.container == Container::Mp4 => {
                let (track, decoder) = Mp4SubtitleTrack::open(job.spec.source.clone(), *stream)?;
                (SubtitleReader::Mp4(Box::new(track)), decoder)
            }
            BurnedSubtitle::Embedded { stream, .. } => {
                let (track, decoder) = MatroskaTrack::open(job.spec.source.clone(), &job.spec.media, *stream)?;
                (SubtitleReader::Matroska(track), decoder)
            }
            BurnedSubtitle::Sidecar { .. } => {
                let missing = || RunError::Internal("the subtitle file is missing".into());
                let source = job.spec.sidecar.clone().ok_or_else(missing)?;
                (SubtitleReader::Sup(SupFile::open(source, &limit)?), BitmapDecoder::Pgs(PgsDecoder::default()))
            }
        };
        Ok(Self { reader, decoder, video_size, subtitles: VecDeque::new(), has_started: false })
    }

    /// The subtitles shown in this range of the item. Ranges must follow each other; the first may start anywhere. Fails when
    /// the file cannot be read, or not within the time limit.
    pub(super) fn shown_between(
        &mut self,
        from_ms: i64,
        to_ms: i64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<ShownSubtitle>, RunError> {
        let limit = SearchLimit { is_stopped, deadline: Instant::now() + SEARCH_TIMEOUT };
        if !self.has_started {
            let earlier_packets = match &mut self.reader {
                SubtitleReader::Matroska(track) => track.packets_before(from_ms, &self.decoder, &limit)?,
                SubtitleReader::Mp4(track) => track.packets_before(from_ms, &limit)?,
                SubtitleReader::Sup(sup) => sup.packets_before(from_ms, &limit)?,
            };
            self.decode_packets(earlier_packets)?;
            self.has_started = true;
        }
        let packets = match &mut self.reader {
            SubtitleReader::Matroska(track) => track.packets_until(to_ms, &limit)?,
            SubtitleReader::Mp4(track) => track.packets_until(to_ms, &limit)?,
            SubtitleReader::Sup(sup) => sup.packets_until(to_ms, &limit)?,
        };
        self.decode_packets(packets)?;
        self.subtitles.retain(|shown| shown.end_ms.is_none_or(|end| end > from_ms));
        let visible = self.subtitles.iter().filter(|shown| shown.start_ms < to_ms && !shown.bitmaps.is_empty());
        Ok(visible.cloned().collect())
    }

    fn decode_packets(&mut self, packets: Vec<SubtitlePacket>) -> Result<(), RunError> {
        for SubtitlePacket { time_ms, bytes } in packets {
            match self.decoder.decode(&bytes) {
                Ok(Some(update)) => self.add_update(time_ms, update)?,
                Ok(None) => {}
                Err(cause) => tracing::debug!(at_ms = time_ms, why = cause.0, "a damaged bitmap subtitle is skipped"),
            }
        }
        Ok(())
    }

    fn add_update(&mut self, packet_time_ms: i64, update: DisplayUpdate) -> Result<(), RunError> {
        let start_ms = packet_time_ms.saturating_add(update.start_ms);
        for previous in &mut self.subtitles {
            if previous.end_ms.is_none_or(|end| end > start_ms) {
                previous.end_ms = Some(start_ms);
            }
        }
        // Drops those that were replaced before they were shown, and those that ended before the run starts.
        self.subtitles.retain(|subtitle| subtitle.end_ms.is_none_or(|end| end > subtitle.start_ms));
        if !self.has_started {
            self.subtitles.clear();
        }
        let end_ms = update.end_ms.map(|end| packet_time_ms.saturating_add(end));
        let canvas = update.canvas.unwrap_or(self.video_size);
        self.subtitles.push_back(ShownSubtitle { start_ms, end_ms, canvas, bitmaps: Arc::new(update.bitmaps) });
        let bitmap_bytes: usize =
            self.subtitles.iter().flat_map(|subtitle| subtitle.bitmaps.iter()).map(|bitmap| bitmap.pixels.len()).sum();
        if bitmap_bytes > MAX_BITMAP_BYTES {
            return Err(RunError::Decode("too many bitmap subtitles are shown at once".into()));
        }
        Ok(())
    }
}

impl BitmapDecoder {
    /// Whether this packet can be decoded without earlier ones.
    fn is_self_contained(&self, packet: &[u8]) -> bool {
        match self {
            Self::Pgs(_) => PgsDecoder::is_self_contained(packet),
            Self::VobSub(_) => true,
        }
    }

    fn decode(&mut self, packet: &[u8]) -> Result<Option<DisplayUpdate>, MalformedPacket> {
        match self {
            Self::Pgs(pgs) => pgs.decode(packet),
            Self::VobSub(vobsub) => vobsub.decode(packet).map(Some),
        }
    }
}
