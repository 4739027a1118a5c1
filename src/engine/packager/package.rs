//! What is to be packaged: where the samples of the chosen tracks lie, and any segment out of them.

use super::aac::{Adts, HEADER};
use super::avc::Avc;
use super::matroska::Film;
use super::mp4::{Picture, Sound};
use super::pieces::Pieces;
use crate::domain::grid::Grid;
use crate::domain::mpegts::tables::{Entry, Track as Lane};
use crate::domain::mpegts::write::{Unit, Writer};
use crate::domain::time::{TICKS_PER_SECOND, ticks};
use crate::engine::index::Index;
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::ReadAt;
use crate::engine::tables::mp4::Movie;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};

/// Most bytes and samples of one segment: 10 s at 200 Mbit/s.
const MOST_BYTES: u64 = 256 << 20;
const MOST_SAMPLES: usize = 200_000;

/// The tracks of one rendition, held for as long as segments of it are wanted.
#[derive(Debug)]
pub struct Package {
    tracks: Tracks,
    avc: Option<Avc>,
    adts: Option<Adts>,
    index: Option<Index>,
    /// The file's first timestamp, ticks: source time is counted from it.
    start: i64,
}

#[derive(Debug)]
enum Tracks {
    Mp4 { video: Option<Box<Picture>>, audio: Option<Box<Sound>> },
    Matroska(Film),
}

/// A sample on its way into a segment; times in ticks of source time.
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
        let start = ticks(start_seconds);
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

    /// The same for a Matroska file, of which the cues alone are read.
    pub(super) fn matroska(
        file: &(impl ReadAt + ?Sized),
        video: u32,
        audio: Option<u32>,
        start_seconds: f64,
    ) -> Result<Self, Refusal> {
        let start = ticks(start_seconds);
        let (film, avc, adts, index) = Film::read(file, video, audio, start)?;
        Ok(Self { tracks: Tracks::Matroska(film), avc: Some(avc), adts, index: Some(index), start })
    }

    /// Where its video may be cut; None without video.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Memory it takes, bytes, nearly.
    pub(super) fn weight(&self) -> usize {
        let tracks = match &self.tracks {
            Tracks::Mp4 { video, audio } => {
                video.as_ref().map_or(0, |video| video.weight()) + audio.as_ref().map_or(0, |audio| audio.weight())
            }
            Tracks::Matroska(film) => film.weight(),
        };
        size_of::<Self>() + tracks + self.index.as_ref().map_or(0, |index| index.keyframes.len() * size_of::<i64>())
    }

    /// Segment `number` of a grid that was made from this index.
    pub(super) fn segment(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<Vec<u8>, RunError> {
        let mut items = self.items(file, grid, number)?;
        let bytes: u64 = items.iter().map(|item| u64::from(item.size)).sum();
        if items.len() > MOST_SAMPLES || bytes > MOST_BYTES {
            return Err(RunError::SourceRead(format!("segment {number} is too large")));
        }
        // Pictures first where both are due: a stable sort.
        items.sort_by_key(|item| item.dts);
        let wanted = items.iter().map(|item| (item.offset, item.size)).collect();
        let pieces = Pieces::read(file, wanted)
            .map_err(|_| RunError::SourceRead(format!("the bytes of segment {number} are not there")))?;
        Ok(self.write(&items, &pieces))
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

    fn write(&self, items: &[Item], pieces: &Pieces) -> Vec<u8> {
        let clock = if self.avc.is_some() { Lane::Video } else { Lane::Audio };
        let base = TIMELINE_BASE_SECONDS * TICKS_PER_SECOND;
        let header = |item: &Item| match item.lane {
            Lane::Audio => self.adts?.header(item.size as usize),
            Lane::Video => None,
        };
        let headers: Vec<Option<[u8; HEADER]>> = items.iter().map(header).collect();
        let mut writer = Writer::new(clock);
        let mut parts = Vec::new();
        for (item, header) in items.iter().zip(&headers) {
            let Some(sample) = pieces.get(item.offset, item.size) else { continue };
            parts.clear();
            let whole = match (item.lane, &self.avc, header) {
                (Lane::Video, Some(avc), _) => avc.parts(sample, &mut parts),
                (Lane::Audio, _, Some(header)) => {
                    parts.extend([&header[..], sample]);
                    true
                }
                _ => false,
            };
            if whole {
                writer.put(&Unit {
                    track: item.lane,
                    pts: base + item.pts,
                    dts: (item.lane == Lane::Video).then_some(base + item.dts),
                    random_access: item.keyframe,
                    parts: &parts,
                });
            }
        }
        let entry = |lane: Lane, stream_type| Entry { pid: lane.pid(), stream_type, descriptors: Vec::new() };
        let video = self.avc.as_ref().map(|_| entry(Lane::Video, 0x1b));
        let audio = self.adts.map(|_| entry(Lane::Audio, 0x0f));
        writer.finish(&video.into_iter().chain(audio).collect::<Vec<_>>())
    }
}
