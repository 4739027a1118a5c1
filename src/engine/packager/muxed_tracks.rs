//! The chosen tracks of a file, and how any segment of a transport stream is laid out from their samples.

use super::MAX_SEGMENT_PAYLOAD_BYTES;
use super::aac::AdtsConfig;
use super::avc::AvcConfig;
use super::extent::Extent;
use super::matroska::MatroskaTracks;
use super::mp4::{Mp4Audio, Mp4Video};
use super::segment_sample::SegmentSample;
use super::transport_segment::TransportSegment;
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::{PmtEntry, TrackKind};
use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
use crate::domain::time::Ticks;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::ReadAt;
use crate::engine::container::mp4::Mp4File;
use crate::engine::index::KeyframeIndex;
use crate::engine::{Result, RunError, TIMELINE_BASE};

/// Limits of one segment.
const MAX_SAMPLES: usize = 200_000;
const MAX_PARTS: usize = 400_000;

/// The tracks of one rendition, kept while its segments may be requested.
#[derive(Debug)]
pub struct MuxedTracks {
    tracks: ContainerTracks,
    avc: Option<AvcConfig>,
    adts: Option<AdtsConfig>,
    index: Option<KeyframeIndex>,
    /// The file's first timestamp; source time counts from it.
    start: Ticks,
}

#[derive(Debug)]
enum ContainerTracks {
    Mp4 { video: Option<Box<Mp4Video>>, audio: Option<Box<Mp4Audio>> },
    Matroska(MatroskaTracks),
}

impl MuxedTracks {
    /// Reads the tables of stream `video` and stream `audio` (ffmpeg's numbers) of an mp4 file that begins at
    /// `start_seconds` of its own clock.
    pub(super) fn open_mp4(
        file: &(impl ReadAt + ?Sized),
        video: Option<u32>,
        audio: Option<u32>,
        start_seconds: f64,
    ) -> Result<Self, ContainerError> {
        let start = Ticks::from_seconds(start_seconds);
        let movie = Mp4File::read(file)?;
        let (mut package_video, mut avc, mut index) = (None, None, None);
        if let Some(stream) = video {
            let (track, avc_config, keyframes) = Mp4Video::read(file, movie.read_track(stream)?, start)?;
            (package_video, avc, index) = (Some(Box::new(track)), Some(avc_config), Some(keyframes));
        }
        let audio = audio.map(|stream| Mp4Audio::read(movie.read_track(stream)?)).transpose()?;
        let (audio, adts) = audio.map(|(track, adts)| (Box::new(track), adts)).unzip();
        Ok(Self { tracks: ContainerTracks::Mp4 { video: package_video, audio }, avc, adts, index, start })
    }

    /// Opens streams of a Matroska file, of which it reads the cues.
    pub(super) fn open_matroska(
        file: &(impl ReadAt + ?Sized),
        video: u32,
        audio: Option<u32>,
        start_seconds: f64,
    ) -> Result<Self, ContainerError> {
        let start = Ticks::from_seconds(start_seconds);
        let (tracks, avc, adts, index) = MatroskaTracks::read(file, video, audio, start)?;
        Ok(Self { tracks: ContainerTracks::Matroska(tracks), avc: Some(avc), adts, index: Some(index), start })
    }

    /// Where the video may be cut; None without video.
    pub fn index(&self) -> Option<&KeyframeIndex> {
        self.index.as_ref()
    }

    /// Approximate memory used, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let tracks = match &self.tracks {
            ContainerTracks::Mp4 { video, audio } => {
                video.as_ref().map_or(0, |video| video.memory_bytes())
                    + audio.as_ref().map_or(0, |audio| audio.memory_bytes())
            }
            ContainerTracks::Matroska(matroska) => matroska.memory_bytes(),
        };
        size_of::<Self>() + tracks + self.index.as_ref().map_or(0, |index| index.keyframes.len() * size_of::<Ticks>())
    }

    /// Lays out segment `number` of a grid that was made from this index, to be packed when it is sent.
    ///
    /// # Errors
    /// `SourceRead` if the file ends before its samples, or if there are too many.
    pub(super) fn lay_out_segment(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<TransportSegment> {
        let mut samples = self.segment_samples(file, grid, number)?;
        let total_bytes: u64 = samples.iter().map(|sample| u64::from(sample.size)).sum();
        if samples.len() > MAX_SAMPLES || total_bytes > MAX_SEGMENT_PAYLOAD_BYTES {
            return Err(RunError::SourceRead(format!("segment {number} is too large")));
        }
        let end = |sample: &SegmentSample| sample.offset.saturating_add(u64::from(sample.size));
        if samples.iter().any(|sample| end(sample) > file.len()) {
            return Err(missing_bytes_error(number));
        }
        // The stable sort keeps video before audio with the same time.
        samples.sort_by_key(|sample| sample.dts);
        self.lay_out_samples(file, &samples, number)
    }

    fn segment_samples(&self, file: &(impl ReadAt + ?Sized), grid: &Grid, number: usize) -> Result<Vec<SegmentSample>> {
        let mut samples = Vec::new();
        match &self.tracks {
            ContainerTracks::Mp4 { video, audio } => {
                if let (Some(video), Some(index)) = (video, &self.index) {
                    samples.extend(video.segment_samples(index, grid, number, self.start)?.take(MAX_SAMPLES + 1));
                }
                if let Some(audio) = audio {
                    samples.extend(audio.segment_samples(grid, number, self.start).take(MAX_SAMPLES + 1));
                }
            }
            ContainerTracks::Matroska(matroska) => {
                if let Some(index) = &self.index {
                    samples = matroska.segment_samples(file, index, grid, number, self.start)?;
                }
            }
        }
        Ok(samples)
    }

    fn lay_out_samples(
        &self,
        file: &(impl ReadAt + ?Sized),
        samples: &[SegmentSample],
        number: usize,
    ) -> Result<TransportSegment> {
        let pcr_track = if self.avc.is_some() { TrackKind::Video } else { TrackKind::Audio };
        let mut generated_bytes = self.avc.as_ref().map(AvcConfig::generated_bytes).unwrap_or_default();
        let mut writer = TsWriter::new(pcr_track);
        let (mut units, mut parts, mut part_count) = (Vec::new(), Vec::new(), 0);
        for sample in samples {
            parts.clear();
            let is_complete = match (sample.track, &self.avc, &self.adts) {
                (TrackKind::Video, Some(avc), _) => {
                    let result = avc.find_units(file, (sample.offset, sample.size), &mut units);
                    result.map_err(|_| missing_bytes_error(number))? && avc.append_parts(&units, &mut parts)
                }
                (TrackKind::Audio, _, Some(adts)) => adts.frame_header(sample.size as usize).is_some_and(|header| {
                    parts.push(Extent::Generated { start: generated_bytes.len() as u32, len: header.len() as u32 });
                    parts.push(Extent::File { offset: sample.offset, len: sample.size });
                    generated_bytes.extend_from_slice(&header);
                    true
                }),
                _ => false,
            };
            part_count += parts.len();
            if part_count > MAX_PARTS {
                return Err(RunError::SourceRead(format!("segment {number} has too many parts")));
            }
            if is_complete {
                writer.push_unit(&AccessUnit {
                    track: sample.track,
                    pts: TIMELINE_BASE + sample.pts,
                    dts: (sample.track == TrackKind::Video).then_some(TIMELINE_BASE + sample.dts),
                    random_access: sample.is_keyframe,
                    parts: &parts,
                });
            }
        }
        let pmt_entry =
            |track: TrackKind, stream_type| PmtEntry { pid: track.pid(), stream_type, descriptors: Vec::new() };
        let video = self.avc.as_ref().map(|_| pmt_entry(TrackKind::Video, 0x1b));
        let audio = self.adts.map(|_| pmt_entry(TrackKind::Audio, 0x0f));
        let entries: Vec<PmtEntry> = video.into_iter().chain(audio).collect();
        generated_bytes.shrink_to_fit();
        Ok(TransportSegment::new(writer.into_layout(&entries), generated_bytes))
    }
}

fn missing_bytes_error(number: usize) -> RunError {
    RunError::SourceRead(format!("the file ends before segment {number}"))
}
