//! The samples of a segment from a Matroska file: its blocks, found through the cues.
//!
//! Blocks carry only presentation times, in whole milliseconds. Decode times follow from the order of the blocks:
//! presentation times in ascending order, shifted by the reordering depth. Audio times are put back on the grid of AAC
//! frames, which the milliseconds were rounded from.

use super::aac::AdtsConfig;
use super::avc::AvcConfig;
use super::segment_sample::SegmentSample;
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::mpegts::segmenter::MAX_PRIMING;
use crate::domain::time::{Ticks, rescale};
use crate::engine::RunError;
use crate::engine::container::bytes::{ReadAt, Truncated};
use crate::engine::container::matroska::{self, Block, ClusterLayout, split_lacing};
use crate::engine::container::{ContainerError, refuse_if};
use crate::engine::index::{self, KeyframeIndex, RecoveryPoints};

/// Maximum number of elements visited for one segment: 30 s of a film with a dozen tracks is under 20,000.
const MAX_ELEMENTS: usize = 400_000;

/// How far after a segment's end the file may store its last audio; muxers interleave more closely than that.
const MAX_INTERLEAVE: Ticks = Ticks::from_ms(5000);

/// Samples per AAC frame.
const SAMPLES_PER_FRAME: i64 = 1024;

/// The tracks of a file.
#[derive(Debug)]
pub(super) struct MatroskaTracks {
    layout: ClusterLayout,
    /// Track number of the video.
    video_number: u64,
    /// For each keyframe of the index, the cluster where reading starts.
    keyframe_clusters: Vec<u64>,
    /// Reordering depth, frames.
    reorder_depth: usize,
    /// Duration of one frame, nanoseconds.
    frame_nanos: u64,
    audio: Option<MatroskaAudio>,
}

#[derive(Clone, Copy, Debug)]
struct MatroskaAudio {
    number: u64,
    /// Codec delay in units of the timestamp scale; subtracted from every time.
    delay_units: i64,
    /// Sample rate, Hz.
    sample_rate: i64,
    /// Time of the first frame, in samples.
    first_sample: i64,
}

/// An AAC frame; its time on the file's clock.
struct AacFrame {
    timestamp: Ticks,
    offset: u64,
    size: u32,
}

impl MatroskaTracks {
    pub(super) fn memory_bytes(&self) -> usize {
        self.keyframe_clusters.len() * size_of::<u64>()
    }

    pub(super) fn read(
        file: &(impl ReadAt + ?Sized),
        video: u32,
        audio: Option<u32>,
        start: Ticks,
    ) -> Result<(Self, AvcConfig, Option<AdtsConfig>, KeyframeIndex), ContainerError> {
        let header = matroska::MatroskaFile::read(file)?;
        let layout = header.layout;
        let track = header.read_track(video)?;
        if !track.is_h264() || track.codec_private.first() != Some(&1) {
            return Err(ContainerError::Unsupported("the video is not H.264 with an avcC record"));
        }
        refuse_if(track.delay_nanos > 0, ContainerError::Unsupported("the video has a codec delay"))?;
        let avc = AvcConfig::parse(&track.codec_private)?;
        let reorder_depth =
            avc.reorder_depth.ok_or(ContainerError::Unsupported("the video does not state its reordering depth"))?;
        let frame_nanos =
            track.frame_nanos.ok_or(ContainerError::Unsupported("the video does not state its frame duration"))?;
        let cues = header.read_cues(track.number)?;
        let (index, keyframes) =
            index::index_matroska_track(file, start, layout, &track, &cues, RecoveryPoints::Refused)?;
        let cue_numbers: Vec<u32> = keyframes.iter().map(|keyframe| keyframe.number).collect();
        refuse_if(!cue_numbers.is_sorted(), ContainerError::Unsupported("keyframes are out of order"))?;
        let cluster_of = |&number: &u32| cues.get(number as usize).map(|cue| cue.cluster);
        let clusters = cue_numbers.iter().map(cluster_of).collect::<Option<_>>().ok_or(Truncated)?;
        let (audio, adts) = match audio {
            None => (None, None),
            Some(stream) => {
                let (audio_track, adts) = MatroskaAudio::read(file, layout, &header.read_track(stream)?)?;
                (Some(audio_track), Some(adts))
            }
        };
        let tracks =
            Self { layout, video_number: track.number, keyframe_clusters: clusters, reorder_depth, frame_nanos, audio };
        Ok((tracks, avc, adts, index))
    }

    /// The samples of a segment.
    pub(super) fn segment_samples(
        &self,
        file: &(impl ReadAt + ?Sized),
        index: &KeyframeIndex,
        grid: &Grid,
        number: usize,
        start: Ticks,
    ) -> Result<Vec<SegmentSample>, RunError> {
        let found = index.keyframes.binary_search(&grid.segment_start(number));
        let missing = |_| RunError::Internal(format!("segment {number} does not begin with a keyframe"));
        let keyframe = if number == 0 { 0 } else { found.map_err(missing)? };
        let start_time = if number == 0 { Ticks::MIN } else { grid.segment_start(number) + start };
        let is_last = number + 1 >= grid.len();
        let end = if is_last { Ticks::MAX } else { grid.segment_start(number + 1) + start };
        let audio_start = if number == 0 { start - MAX_PRIMING + Ticks(1) } else { start_time };
        let span =
            SegmentSpan { start: start_time, end, audio_start, audio_end: grid.segment_start(number + 1) + start };
        // Start one group of pictures earlier, for its times and late audio; further back only if groups are very short.
        let mut start_keyframe = keyframe.saturating_sub(1);
        let scan = loop {
            let cluster =
                if start_keyframe == 0 { self.layout.first_cluster } else { self.keyframe_clusters[start_keyframe] };
            let scan = self.scan_clusters(file, cluster, &span).map_err(|Truncated| {
                RunError::SourceRead(format!("the clusters of segment {number} cannot be read"))
            })?;
            if start_keyframe == 0 || scan.earlier_times.len() >= self.reorder_depth {
                break scan;
            }
            start_keyframe = start_keyframe.saturating_sub(4);
        };
        Ok(self.assign_decode_times(scan, index, start))
    }

    /// Reads blocks from a cluster on until the segment is complete.
    fn scan_clusters(
        &self,
        file: &(impl ReadAt + ?Sized),
        cluster: u64,
        span: &SegmentSpan,
    ) -> Result<ClusterScan, Truncated> {
        let mut scan = ClusterScan::default();
        let (mut has_all_video, mut has_all_audio) = (false, self.audio.is_none());
        let mut is_broken = false;
        let is_finished = self.layout.walk_blocks(file, cluster, MAX_ELEMENTS, |block| {
            let timestamp = self.layout.to_ticks(block.time);
            let is_in_file = block.offset.checked_add(block.size).is_some_and(|end| end <= file.len());
            if !is_in_file {
                return false;
            }
            if block.track == self.video_number {
                match u32::try_from(block.size) {
                    _ if timestamp < span.start => scan.earlier_times.push(timestamp),
                    Ok(size) if timestamp < span.end => scan.frames.push((timestamp, block.offset, size)),
                    _ => has_all_video = true,
                }
            } else if let Some(audio) = self.audio.filter(|audio| audio.number == block.track) {
                match audio.block_frames(file, self.layout, &block) {
                    Ok(frames) => {
                        has_all_audio |= frames.first().is_some_and(|frame| frame.timestamp >= span.end);
                        let is_in_segment =
                            |frame: &AacFrame| (span.audio_start..span.audio_end).contains(&frame.timestamp);
                        scan.audio_frames.extend(frames.into_iter().filter(is_in_segment));
                    }
                    Err(Truncated) => is_broken = true,
                }
            }
            let is_too_late = block.track == self.video_number && timestamp - MAX_INTERLEAVE >= span.end;
            !(is_broken || is_too_late || has_all_video && has_all_audio)
        })?;
        if is_finished && !is_broken { Ok(scan) } else { Err(Truncated) }
    }

    /// Assigns a decode time to every frame.
    fn assign_decode_times(&self, scan: ClusterScan, index: &KeyframeIndex, start: Ticks) -> Vec<SegmentSample> {
        let mut earlier_times = scan.earlier_times;
        earlier_times.sort_unstable();
        let mut frame_times: Vec<Ticks> = scan.frames.iter().map(|(timestamp, ..)| *timestamp).collect();
        frame_times.sort_unstable();
        let first = frame_times.first().copied().unwrap_or(start);
        // Before the first frame, times continue backwards at the frame rate.
        let missing_count = self.reorder_depth.saturating_sub(earlier_times.len());
        let extrapolated = (1..=missing_count as u128)
            .rev()
            .map(|n| first - Ticks::from_nanos_floor(u128::from(self.frame_nanos) * n));
        let skipped = earlier_times.len().saturating_sub(self.reorder_depth);
        let decode_times: Vec<Ticks> =
            extrapolated.chain(earlier_times[skipped..].iter().copied()).chain(frame_times).collect();
        let frames = scan.frames.iter().zip(decode_times).map(|(&(timestamp, offset, size), dts)| SegmentSample {
            track: TrackKind::Video,
            offset,
            size,
            dts: dts.min(timestamp) - start,
            pts: timestamp - start,
            is_keyframe: index.keyframes.binary_search(&(timestamp - start)).is_ok(),
        });
        let audio_frames = scan.audio_frames.iter().map(|frame| SegmentSample {
            track: TrackKind::Audio,
            offset: frame.offset,
            size: frame.size,
            dts: frame.timestamp - start,
            pts: frame.timestamp - start,
            is_keyframe: false,
        });
        frames.chain(audio_frames).filter(|sample| sample.size > 0).collect()
    }
}

/// The time ranges of a segment on the file's clock.
struct SegmentSpan {
    start: Ticks,
    end: Ticks,
    audio_start: Ticks,
    audio_end: Ticks,
}

/// The blocks of a segment: times of earlier frames, its frames in decoding order, its audio.
#[derive(Default)]
struct ClusterScan {
    earlier_times: Vec<Ticks>,
    frames: Vec<(Ticks, u64, u32)>,
    audio_frames: Vec<AacFrame>,
}

impl MatroskaAudio {
    fn read(
        file: &(impl ReadAt + ?Sized),
        layout: ClusterLayout,
        track: &matroska::TrackEntry,
    ) -> Result<(Self, AdtsConfig), ContainerError> {
        refuse_if(track.codec != b"A_AAC", ContainerError::Unsupported("the audio is not A_AAC"))?;
        let adts = AdtsConfig::parse(&track.codec_private)?;
        let sample_rate = adts.sample_rate().ok_or(Truncated)?;
        let scale = layout.timestamp_scale;
        let delay_units = i64::try_from((track.delay_nanos + scale / 2) / scale).map_err(|_| Truncated)?;
        let mut first_time = None;
        layout.walk_blocks(file, layout.first_cluster, 4_000, |block| {
            if block.track == track.number {
                first_time = Some(block.time);
            }
            first_time.is_none()
        })?;
        let mut audio = Self { number: track.number, delay_units, sample_rate, first_sample: 0 };
        audio.first_sample =
            audio.to_samples(layout, first_time.ok_or(ContainerError::Unsupported("the audio begins too late"))?);
        Ok((audio, adts))
    }

    /// A block's time in samples, as precise as the file's clock.
    fn to_samples(self, layout: ClusterLayout, time: i64) -> i64 {
        let nanoseconds = i128::from(time.saturating_sub(self.delay_units)) * i128::from(layout.timestamp_scale);
        rescale(nanoseconds, self.sample_rate, 1_000_000_000)
    }

    /// The frames of a block. Their times are on the frame grid that starts at the first frame. A block that is off the
    /// grid by more than the clock's rounding keeps its own time.
    fn block_frames(
        &self,
        file: &(impl ReadAt + ?Sized),
        layout: ClusterLayout,
        block: &Block,
    ) -> Result<Vec<AacFrame>, Truncated> {
        let approximate = self.to_samples(layout, block.time);
        let on_grid = self.first_sample
            + (approximate - self.first_sample + SAMPLES_PER_FRAME / 2).div_euclid(SAMPLES_PER_FRAME)
                * SAMPLES_PER_FRAME;
        let rounding = (i128::from(layout.timestamp_scale) * i128::from(self.sample_rate) / 1_000_000_000) as i64 + 1;
        let first = if (on_grid - approximate).abs() <= rounding { on_grid } else { approximate };
        let timestamps = (0..).map(|n| Ticks::from_units(first + n * SAMPLES_PER_FRAME, self.sample_rate));
        let frames = timestamps.zip(split_lacing(file, block)?);
        Ok(frames.map(|(timestamp, (offset, size))| AacFrame { timestamp, offset, size }).collect())
    }
}
