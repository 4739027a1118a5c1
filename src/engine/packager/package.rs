//! The chosen tracks of a file, and how any segment is laid out from their samples.

use super::aac::Adts;
use super::avc::Avc;
use super::matroska::Film;
use super::mp4::{Picture, Sound};
use super::parcel::{Parcel, Stretch};
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::{PmtEntry, TrackKind as Lane};
use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
use crate::domain::time::{TICKS_PER_SECOND, to_ticks};
use crate::engine::index::Index;
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::ReadAt;
use crate::engine::tables::mp4::Movie;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};

/// Limits of one segment: 10 s at 200 Mbit/s.
const MOST_BYTES: u64 = 256 << 20;
const MOST_SAMPLES: usize = 200_000;
const MOST_PARTS: usize = 400_000;

/// The tracks of one rendition, kept while its segments may be requested.
#[derive(Debug)]
pub struct Package {
    tracks: Tracks,
    avc: Option<Avc>,
    adts: Option<Adts>,
    index: Option<Index>,
    /// The file's first timestamp, ticks; source time counts from it.
    start: i64,
}

#[derive(Debug)]
enum Tracks {
    Mp4 { video: Option<Box<Picture>>, audio: Option<Box<Sound>> },
    Matroska(Film),
}

/// A sample to be written into a segment; times in ticks of source time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub lane: Lane,
    pub offset: u64,
    pub size: u32,
    pub dts: i64,
    pub pts: i64,
    pub keyframe: bool,
}

impl Package {
    /// Reads the tables of stream `video` and stream `audio` (ffmpeg's numbers) of an mp4 file that begins at
    /// `start_seconds` of its own clock.
    pub(super) fn mp4(
        file: &(impl ReadAt + ?Sized),
        video: Option<u32>,
        audio: Option<u32>,
        start_seconds: f64,
    ) -> Result<Self, Refusal> {
        let start = to_ticks(start_seconds);
        let movie = Movie::read(file)?;
        let (mut avc, mut adts, mut index) = (None, None, None);
        let mut tracks = (None, None);
        if let Some(stream) = video {
            let (picture, how, keyframes) = Picture::read(file, movie.track(stream)?, start)?;
            (tracks.0, avc, index) = (Some(Box::new(picture)), Some(how), Some(keyframes));
        }
        if let Some(stream) = audio {
            let (sound, how) = Sound::read(movie.track(stream)?)?;
            (tracks.1, adts) = (Some(Box::new(sound)), Some(how));
        }
        Ok(Self { tracks: Tracks::Mp4 { video: tracks.0, audio: tracks.1 }, avc, adts, index, start })
    }

    /// Like [`Self::mp4`], for a Matroska file. Reads only the cues.
    pub(super) fn matroska(
        file: &(impl ReadAt + ?Sized),
        video: u32,
        audio: Option<u32>,
        start_seconds: f64,
    ) -> Result<Self, Refusal> {
        let start = to_ticks(start_seconds);
        let (film, avc, adts, index) = Film::read(file, video, audio, start)?;
        Ok(Self { tracks: Tracks::Matroska(film), avc: Some(avc), adts, index: Some(index), start })
    }

    /// Where the video may be cut; None without video.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Approximate memory used, bytes.
    pub(super) fn weight(&self) -> usize {
        let tracks = match &self.tracks {
            Tracks::Mp4 { video, audio } => {
                video.as_ref().map_or(0, |video| video.weight()) + audio.as_ref().map_or(0, |audio| audio.weight())
            }
            Tracks::Matroska(film) => film.weight(),
        };
        size_of::<Self>() + tracks + self.index.as_ref().map_or(0, |index| index.keyframes.len() * size_of::<i64>())
    }

    /// Lays out segment `number` of a grid that was made from this index, to be packed when it is sent.
    ///
    /// # Errors
    /// `SourceRead` if the file ends before its samples, or if there are too many.
    pub(super) fn segment(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<Parcel, RunError> {
        let mut items = self.items(file, grid, number)?;
        let bytes: u64 = items.iter().map(|item| u64::from(item.size)).sum();
        if items.len() > MOST_SAMPLES || bytes > MOST_BYTES {
            return Err(RunError::SourceRead(format!("segment {number} is too large")));
        }
        let end = |item: &Item| item.offset.saturating_add(u64::from(item.size));
        if items.iter().any(|item| end(item) > file.len()) {
            return Err(missing(number));
        }
        // The stable sort keeps video before audio with the same time.
        items.sort_by_key(|item| item.dts);
        self.lay_out(file, &items, number)
    }

    fn items(&self, file: &(impl ReadAt + ?Sized), grid: &Grid, number: usize) -> Result<Vec<Item>, RunError> {
        let mut items = Vec::new();
        match &self.tracks {
            Tracks::Mp4 { video, audio } => {
                if let (Some(video), Some(index)) = (video, &self.index) {
                    items.extend(video.items(index, grid, number, self.start)?.take(MOST_SAMPLES + 1));
                }
                if let Some(audio) = audio {
                    items.extend(audio.items(grid, number, self.start).take(MOST_SAMPLES + 1));
                }
            }
            Tracks::Matroska(film) => {
                if let Some(index) = &self.index {
                    items = film.items(file, index, grid, number, self.start)?;
                }
            }
        }
        Ok(items)
    }

    fn lay_out(&self, file: &(impl ReadAt + ?Sized), items: &[Item], number: usize) -> Result<Parcel, RunError> {
        let clock = if self.avc.is_some() { Lane::Video } else { Lane::Audio };
        let base = TIMELINE_BASE_SECONDS * TICKS_PER_SECOND;
        let mut own = self.avc.as_ref().map(Avc::own).unwrap_or_default();
        let mut writer = TsWriter::new(clock);
        let (mut units, mut parts, mut many) = (Vec::new(), Vec::new(), 0);
        for item in items {
            parts.clear();
            let whole = match (item.lane, &self.avc, &self.adts) {
                (Lane::Video, Some(avc), _) => {
                    let found = avc.units(file, (item.offset, item.size), &mut units);
                    found.map_err(|_| missing(number))? && avc.parts(&units, &mut parts)
                }
                (Lane::Audio, _, Some(adts)) => adts.header(item.size as usize).is_some_and(|header| {
                    parts.push(Stretch::Own { from: own.len() as u32, len: header.len() as u32 });
                    parts.push(Stretch::File { offset: item.offset, len: item.size });
                    own.extend_from_slice(&header);
                    true
                }),
                _ => false,
            };
            many += parts.len();
            if many > MOST_PARTS {
                return Err(RunError::SourceRead(format!("segment {number} has too many parts")));
            }
            if whole {
                writer.push_unit(&AccessUnit {
                    track: item.lane,
                    pts: base + item.pts,
                    dts: (item.lane == Lane::Video).then_some(base + item.dts),
                    random_access: item.keyframe,
                    parts: &parts,
                });
            }
        }
        let entry = |lane: Lane, stream_type| PmtEntry { pid: lane.pid(), stream_type, descriptors: Vec::new() };
        let video = self.avc.as_ref().map(|_| entry(Lane::Video, 0x1b));
        let audio = self.adts.map(|_| entry(Lane::Audio, 0x0f));
        let entries: Vec<PmtEntry> = video.into_iter().chain(audio).collect();
        own.shrink_to_fit();
        Ok(Parcel::new(writer.into_layout(&entries), own))
    }
}

fn missing(number: usize) -> RunError {
    RunError::SourceRead(format!("the file ends before segment {number}"))
}
