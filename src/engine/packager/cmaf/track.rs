//! One track of a file: its init segment, and how any of its segments is laid out.

use std::sync::OnceLock;

use bytes::Bytes;

use super::CmafSegment;
use super::closed_captions::{NalFormat, find_captions};
use super::matroska_audio::{MatroskaAudio, first_block};
use super::matroska_entry::{audio_entry, video_entry};
use super::matroska_video::MatroskaVideo;
use super::mp4::{Mp4Audio, Mp4Video};
use super::samples::SegmentSamples;
use crate::domain::closed_captions::CaptionChannel;
use crate::domain::cmaf::entry::{EntryError, copied};
use crate::domain::cmaf::init::{IDENTITY_MATRIX, InitTrack, TrackHeader, write_init};
use crate::domain::cmaf::moof::{self, Fragment};
use crate::domain::cmaf::segment_sizes::{BitRates, SegmentSize, iframes};
use crate::domain::cmaf::times::squeeze_decode_times;
use crate::domain::cmaf::{SampleEntry, VideoFormat};
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::playlist::IFrame;
use crate::domain::time::Ticks;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::{ReadAt, SampleBytes};
use crate::engine::container::matroska::{MatroskaFile, SharedScan, split_lacing};
use crate::engine::container::mp4::Mp4File;
use crate::engine::index::KeyframeIndex;
use crate::engine::packager::MAX_SEGMENT_PAYLOAD_BYTES;
use crate::engine::{Result, RunError, TIMELINE_BASE};

/// Bytes read of the first frame: the largest frame of DTS-HD has 32 KiB, of E-AC-3 4 KiB for each substream.
const MAX_FIRST_FRAME_BYTES: u64 = 64 << 10;

/// Duration of the segments that are searched for closed captions, seconds.
const CAPTION_SEARCH_SECONDS: f64 = 1.0;

/// One track, from which CMAF segments are laid out.
#[derive(Debug)]
pub struct CmafTrack {
    samples: TrackSamples,
    kind: TrackKind,
    timescale: u32,
    entry: SampleEntry,
    video_format: Option<VideoFormat>,
    init_segment: Bytes,
    index: Option<KeyframeIndex>,
    end: Option<Ticks>,
    captions: Vec<CaptionChannel>,
    /// The grid of the first call of [`Self::bit_rates`], and its answer: a walk over all samples for each start of a film
    /// would take most of that start.
    first_bit_rates: OnceLock<(Grid, Option<BitRates>)>,
}

/// Reads the samples of a segment.
#[derive(Debug)]
enum TrackSamples {
    Mp4Video(Box<Mp4Video>),
    Mp4Audio(Box<Mp4Audio>),
    MatroskaVideo(MatroskaVideo),
    MatroskaAudio(MatroskaAudio),
}

/// The place of a copied segment on a channel.
#[derive(Clone, Copy, Debug)]
pub struct AiredPosition {
    /// Channel clock at time 0 of the file.
    pub channel_origin: Ticks,
    /// Where the item ends in source time, if this is its last segment on air.
    pub item_end: Option<Ticks>,
    /// `sequence_number` of `mfhd`, from 1.
    pub sequence_number: u32,
}

/// The parts of a track that its container states.
struct TrackParts {
    samples: TrackSamples,
    timescale: u32,
    entry: SampleEntry,
    video_format: Option<VideoFormat>,
    matrix: [i32; 9],
    language: Option<String>,
    index: Option<KeyframeIndex>,
    /// End in source time, if it is stated.
    end: Option<Ticks>,
}

impl CmafTrack {
    /// Reads the tables of stream `stream` (ffmpeg's number) of an mp4 file that begins at `start_seconds` of its own clock.
    pub(in crate::engine::packager) fn open_mp4(
        file: &(impl ReadAt + ?Sized),
        stream: u32,
        start_seconds: f64,
    ) -> Result<Self, ContainerError> {
        let start = Ticks::from_seconds(start_seconds);
        let track = Mp4File::read(file)?.read_signed_track(stream)?;
        let entry = copied::entry(&track.sample_entry).map_err(refusal)?;
        let (matrix, language) = (track.matrix, track.language.clone());
        let is_video = track.is_video();
        let video_format = is_video.then(|| copied::video_format(&track.sample_entry)).transpose().map_err(refusal)?;
        let (samples, timescale, index, end) = if is_video {
            let (video, index) = Mp4Video::read(file, track, start)?;
            let timescale = video.timescale();
            let end = index.end;
            (TrackSamples::Mp4Video(Box::new(video)), timescale, Some(index), end)
        } else {
            let audio = Mp4Audio::read(track, start)?;
            let (timescale, end) = (audio.timescale(), audio.end());
            (TrackSamples::Mp4Audio(Box::new(audio)), timescale, None, end)
        };
        let end = Some(end);
        Ok(Self::new(file, TrackParts { samples, timescale, entry, video_format, matrix, language, index, end }))
    }

    /// Opens stream `stream` (ffmpeg's number) of a Matroska or WebM file: reads the cues and the first frame, and without cues
    /// the header of every block, unless `scan` has them.
    pub(in crate::engine::packager) fn open_matroska(
        file: &(impl ReadAt + ?Sized),
        stream: u32,
        start_seconds: f64,
        scan: &SharedScan,
    ) -> Result<Self, ContainerError> {
        let start = Ticks::from_seconds(start_seconds);
        let header = MatroskaFile::read(file)?;
        let layout = header.layout;
        let track = header.read_stripped_track(stream)?;
        let block = first_block(file, layout, track.number)?;
        let first_range = split_lacing(file, &block)?.first().copied().unwrap_or((block.offset, 0));
        let frame =
            SampleBytes { file, prefix: &track.stripped_bytes, offset: first_range.0, size: first_range.1.into() };
        let first_frame = frame.read_exact(0, frame.len().min(MAX_FIRST_FRAME_BYTES) as usize)?;
        let (matrix, language) = (IDENTITY_MATRIX, track.language.clone());
        let parts = match (&track.video_format, track.audio_format) {
            (Some(format), _) => {
                let entry = video_entry(&track, format, &first_frame)?;
                let cues = header.read_or_scan_cues(track.number, scan)?;
                let (video, index) = MatroskaVideo::read(file, layout, &track, &cues, start)?;
                TrackParts {
                    timescale: video.timescale(),
                    samples: TrackSamples::MatroskaVideo(video),
                    entry,
                    video_format: Some(format.clone()),
                    matrix,
                    language,
                    end: Some(index.end),
                    index: Some(index),
                }
            }
            (None, Some(format)) => {
                let (entry, frames) = audio_entry(&track, format, &first_frame)?;
                let cues = header.read_or_scan_all_cues(scan)?;
                let audio = MatroskaAudio::new(layout, &track, frames, &block, &cues, start);
                TrackParts {
                    timescale: audio.timescale(),
                    samples: TrackSamples::MatroskaAudio(audio),
                    entry,
                    video_format: None,
                    matrix,
                    language,
                    index: None,
                    end: header.read_stated_duration(track.uid).map(|duration| duration - start),
                }
            }
            (None, None) => return Err(ContainerError::Unsupported("the track is neither video nor audio")),
        };
        Ok(Self::new(file, parts))
    }

    fn new(file: &(impl ReadAt + ?Sized), parts: TrackParts) -> Self {
        let TrackParts { samples, timescale, entry, video_format, matrix, language, index, end } = parts;
        let (kind, header) = match &video_format {
            Some(format) => (TrackKind::Video, TrackHeader::Video { format, matrix }),
            None => (TrackKind::Audio, TrackHeader::Audio),
        };
        let init_segment = write_init(&InitTrack { header, timescale, language: language.as_deref(), entry: &entry });
        let init_segment = init_segment.into();
        let (captions, first_bit_rates) = (Vec::new(), OnceLock::new());
        let mut track =
            Self { samples, kind, timescale, entry, video_format, init_segment, index, end, captions, first_bit_rates };
        track.captions = track.read_captions(file);
        track
    }

    /// Looks at the pictures at the start and in the middle.
    fn read_captions(&self, file: &(impl ReadAt + ?Sized)) -> Vec<CaptionChannel> {
        let (Some(format), Some(index)) = (NalFormat::of(&self.entry), &self.index) else { return Vec::new() };
        let cuts = index.keyframes.get(1..).unwrap_or_default();
        let grid = Grid::from_keyframes(cuts, CAPTION_SEARCH_SECONDS, index.end.as_seconds());
        let places = [0, grid.len() / 2];
        // Unreadable segments fail when they are played.
        let segments = places.iter().filter_map(|&number| self.segment_samples(file, &grid, number).ok());
        find_captions(file, format, self.prefix(), &segments.collect::<Vec<_>>())
    }

    pub fn kind(&self) -> TrackKind {
        self.kind
    }

    /// Units per second of the times in its segments.
    pub fn timescale(&self) -> u32 {
        self.timescale
    }

    /// The sample entry, with the attributes of a playlist.
    pub fn entry(&self) -> &SampleEntry {
        &self.entry
    }

    /// Size, colour and light levels; None for audio.
    pub fn video_format(&self) -> Option<&VideoFormat> {
        self.video_format.as_ref()
    }

    /// The init segment (`EXT-X-MAP`), which never changes while the file does not.
    pub fn init_segment(&self) -> &Bytes {
        &self.init_segment
    }

    /// Where the video may be cut; None for audio.
    pub fn index(&self) -> Option<&KeyframeIndex> {
        self.index.as_ref()
    }

    /// End of the track in source time, if the file states it: always of video and in mp4; of audio in Matroska by a tag, which
    /// is too early for mkvmerge's tracks that begin late. Audio that ends well before the video beside it leaves segments
    /// without samples, at which browsers stall.
    pub fn end(&self) -> Option<Ticks> {
        self.end
    }

    /// The channels of closed captions that were found in the video. Others may begin later.
    pub fn closed_captions(&self) -> &[CaptionChannel] {
        &self.captions
    }

    /// The sizes of all segments of a grid, as they are laid out; None if the tables do not state them (Matroska).
    pub fn segment_sizes(&self, grid: &Grid) -> Option<Vec<SegmentSize>> {
        match &self.samples {
            TrackSamples::Mp4Video(video) => video.segment_sizes(self.index.as_ref()?, grid).ok(),
            TrackSamples::Mp4Audio(audio) => Some(audio.segment_sizes(grid)),
            TrackSamples::MatroskaVideo(_) | TrackSamples::MatroskaAudio(_) => None,
        }
    }

    /// The first frames of the segments, for an I-frame playlist; None for audio. Where the tables do not state the sizes, each is
    /// laid out by [`Self::lay_out_iframe`].
    pub fn keyframe_ranges(&self, grid: &Grid) -> Option<Vec<IFrame>> {
        self.index.as_ref()?;
        let alone = || (0..grid.len()).map(|segment| IFrame { segment, bytes: None }).collect();
        Some(self.segment_sizes(grid).map_or_else(alone, |sizes| iframes(&sizes)))
    }

    /// For the attributes `BANDWIDTH` and `AVERAGE-BANDWIDTH`; None if the tables do not state the sizes.
    pub fn bit_rates(&self, grid: &Grid) -> Option<BitRates> {
        let compute = || self.segment_sizes(grid).map(|sizes| BitRates::new(&sizes, grid));
        match self.first_bit_rates.get_or_init(|| (grid.clone(), compute())) {
            (first, rates) if first == grid => *rates,
            _ => compute(),
        }
    }

    /// Approximate memory used, bytes.
    pub(in crate::engine::packager) fn memory_bytes(&self) -> usize {
        let samples = match &self.samples {
            TrackSamples::Mp4Video(video) => video.memory_bytes(),
            TrackSamples::Mp4Audio(audio) => audio.memory_bytes(),
            TrackSamples::MatroskaVideo(video) => video.memory_bytes(),
            TrackSamples::MatroskaAudio(audio) => audio.memory_bytes(),
        };
        let index = self.index.as_ref().map_or(0, |index| index.keyframes.len() * size_of::<Ticks>());
        size_of::<Self>() + samples + index + self.init_segment.len() + self.entry.bytes.len()
    }

    /// Lays out segment `number` of a grid: for video, of one that was made from [`Self::index`]; for audio, of the video
    /// beside it or of fixed steps.
    ///
    /// # Errors
    /// `SourceRead` if the file ends before its samples, if there are too many, or if a time does not fit its field.
    pub(in crate::engine::packager) fn lay_out_segment(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<CmafSegment> {
        let samples = self.segment_samples(file, grid, number)?;
        let base = TIMELINE_BASE.to_units(self.timescale);
        self.lay_out_samples(file, samples, (number, u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1)), base)
    }

    /// Lays out segment `number` of a channel's item on the channel's timeline.
    ///
    /// # Errors
    /// As [`Self::lay_out_segment`].
    pub(in crate::engine::packager) fn lay_out_aired(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
        position: &AiredPosition,
    ) -> Result<CmafSegment> {
        let mut samples = self.segment_samples(file, grid, number)?;
        let end = position.item_end.map(|end| end.to_units(self.timescale));
        samples.fit_item(number == 0, end);
        // The same for the whole item, so that its times are rounded once.
        let base = position.channel_origin.to_units(self.timescale);
        self.lay_out_samples(file, samples, (number, position.sequence_number), base)
    }

    /// Lays out a segment, by its number in the grid and in its fragment. `base` is added to all times.
    fn lay_out_samples(
        &self,
        file: &(impl ReadAt + ?Sized),
        SegmentSamples { mut samples, ranges, end }: SegmentSamples,
        (number, sequence_number): (usize, u32),
        base: i64,
    ) -> Result<CmafSegment> {
        let total_bytes: u64 = samples.iter().map(|sample| u64::from(sample.size)).sum();
        if samples.len() > super::samples::MAX_SAMPLES || total_bytes > MAX_SEGMENT_PAYLOAD_BYTES {
            return Err(RunError::SourceRead(format!("segment {number} is too large")));
        }
        if ranges.iter().any(|&(offset, size)| offset.saturating_add(size.into()) > file.len()) {
            return Err(RunError::SourceRead(format!("the file ends before segment {number}")));
        }
        if self.kind == TrackKind::Video {
            squeeze_decode_times(&mut samples, end);
        }
        let fragment = Fragment { kind: self.kind, sequence_number, samples: &samples, end, base };
        let head = moof::lay_out(&fragment)
            .map_err(|error| RunError::SourceRead(format!("segment {number} cannot be laid out: {error}")))?;
        Ok(CmafSegment::new(head.bytes, self.prefix(), &ranges))
    }

    fn segment_samples(&self, file: &(impl ReadAt + ?Sized), grid: &Grid, number: usize) -> Result<SegmentSamples> {
        let index = || self.index.as_ref().ok_or_else(|| RunError::Internal("the video has no index".into()));
        match &self.samples {
            TrackSamples::Mp4Video(video) => video.segment_samples(index()?, grid, number),
            TrackSamples::Mp4Audio(audio) => Ok(audio.segment_samples(grid, number)),
            TrackSamples::MatroskaVideo(video) => video.segment_samples(file, index()?, grid, number),
            TrackSamples::MatroskaAudio(audio) => audio.segment_samples(file, grid, number),
        }
    }

    /// Offset and size of a keyframe in the file, by its place in [`Self::index`].
    pub(super) fn keyframe_range(&self, file: &(impl ReadAt + ?Sized), place: usize) -> Result<(u64, u32)> {
        let range = match &self.samples {
            TrackSamples::Mp4Video(video) => video.keyframe_range(place),
            TrackSamples::MatroskaVideo(video) => video.keyframe_range(file, place),
            TrackSamples::Mp4Audio(_) | TrackSamples::MatroskaAudio(_) => None,
        };
        range.ok_or_else(|| RunError::SourceRead(format!("keyframe {place} cannot be found")))
    }

    /// Bytes that the container removed from the start of every sample.
    pub(super) fn prefix(&self) -> &[u8] {
        match &self.samples {
            TrackSamples::Mp4Video(_) | TrackSamples::Mp4Audio(_) => &[],
            TrackSamples::MatroskaVideo(video) => video.prefix(),
            TrackSamples::MatroskaAudio(audio) => audio.prefix(),
        }
    }
}

/// Why a track without a sample entry is refused.
pub(super) fn refusal(error: EntryError) -> ContainerError {
    ContainerError::Unsupported(match error {
        EntryError::Truncated => "the codec's configuration is truncated or damaged",
        EntryError::Unsupported(reason) => reason,
    })
}
