//! A run as a job for a worker: its message, its descriptors, and the memory it may use.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::message::{JobMessage, RunWork, Work};
use crate::domain::media::Media;
use crate::domain::plan::{Rendition, VideoPlan};
use crate::domain::trace::TraceContext;
use crate::engine::RenditionSpec;
use crate::engine::video_encoders::is_hardware_element;

/// Address space of a probe, bytes. libav's libraries alone map 500 MB.
pub const PROBE_MEMORY_BYTES: u64 = 3 << 29;

/// Address space of a run beside its frames, bytes: libraries, and the stacks of some thirty threads. With 1 GiB small runs
/// ended (measured).
const BASE_MEMORY_BYTES: u64 = 2 << 30;

/// Frames that decoder, filters and encoder hold at once.
const FRAMES_IN_MEMORY: u64 = 20;

/// Address space of a run at most, bytes, whatever size the file states: 8K with 10 bits takes 4 GiB.
const MAX_RUN_MEMORY_BYTES: u64 = 5 << 30;

/// Address space of a run or a trial that uses hardware, bytes: drivers of graphics cards map far more than they use. It is the
/// same in both, so that a driver that passed its trial has what it needs in a run.
pub const HARDWARE_MEMORY_BYTES: u64 = 6 << 30;

/// The work of one run.
#[derive(Clone, Debug)]
pub struct RunJob {
    pub spec: Arc<RenditionSpec>,
    /// GStreamer's element that encodes video; None without encoded video.
    pub encoder: Option<&'static str>,
    /// GStreamer's element of hardware that decodes video; None for software.
    pub decoder: Option<&'static str>,
    /// The text to burn in, as an ASS script in memory.
    pub script: Option<Arc<File>>,
}

impl RunJob {
    /// The message for a run from `first` on that may make segments up to and including `through`.
    pub fn message(&self, first: usize, through: usize, trace: Option<TraceContext>) -> JobMessage {
        let RenditionSpec { source, media, rendition, grid, sidecar, watermark, .. } = &*self.spec;
        let work = RunWork {
            source: source.facts(),
            media: (**media).clone(),
            rendition: (**rendition).clone(),
            grid: (**grid).clone(),
            first,
            through,
            encoder: self.encoder.map(str::to_owned),
            decoder: self.decoder.map(str::to_owned),
            sidecar: sidecar.as_ref().map(|sidecar| sidecar.facts()),
            has_watermark: watermark.is_some(),
            has_script: self.script.is_some(),
            trace,
        };
        let memory_bytes = run_memory_bytes(media, rendition, self.hardware_element().is_some());
        JobMessage { memory_bytes, work: Work::Run(Box::new(work)) }
    }

    /// GStreamer's element of hardware that decodes or encodes; None if software does both.
    pub fn hardware_element(&self) -> Option<&'static str> {
        self.decoder.or(self.encoder.filter(|encoder| is_hardware_element(encoder)))
    }

    /// The descriptors in the order of the message's fields.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let RenditionSpec { source, sidecar, watermark, .. } = &*self.spec;
        let sidecar = sidecar.as_ref().map(|sidecar| sidecar.as_fd());
        let watermark = watermark.as_ref().map(|image| image.file.as_fd());
        let script = self.script.as_ref().map(|script| script.as_fd());
        std::iter::once(source.as_fd()).chain(sidecar).chain(watermark).chain(script).collect()
    }
}

/// The name of the pipeline that makes the segments of a rendition, as under `pipelines/`. Part of quarantine keys.
pub fn pipeline_name(rendition: &Rendition) -> &'static str {
    let Some(VideoPlan::Encode(plan)) = &rendition.video else { return "encode-audio" };
    match (plan.burn.as_ref().map(|burn| burn.is_bitmap()), rendition.audio.is_some()) {
        (None, true) => "segment",
        (None, false) => "segment-without-audio",
        (Some(false), true) => "segment-with-text",
        (Some(false), false) => "segment-with-text-without-audio",
        (Some(true), true) => "segment-with-bitmaps",
        (Some(true), false) => "segment-with-bitmaps-without-audio",
    }
}

/// Address space that a run may use, bytes: in software by the larger of the frames it decodes and encodes.
fn run_memory_bytes(media: &Media, rendition: &Rendition, uses_hardware: bool) -> u64 {
    if uses_hardware {
        return HARDWARE_MEMORY_BYTES;
    }
    let Some(VideoPlan::Encode(plan)) = &rendition.video else { return BASE_MEMORY_BYTES };
    let frame_bytes = |width: u32, height: u32, bit_depth: u8| {
        let luma_samples = u64::from(width).saturating_mul(u64::from(height));
        let sample_bytes = if bit_depth > 8 { 2 } else { 1 };
        (luma_samples / 2).saturating_mul(3 * sample_bytes)
    };
    let source_video = media.video_streams().find(|(stream, _)| stream.index == plan.stream);
    let decoded = source_video.map_or(0, |(_, video)| frame_bytes(video.width, video.height, video.bit_depth));
    let frame = decoded.max(frame_bytes(plan.width, plan.height, 8));
    frame.saturating_mul(FRAMES_IN_MEMORY).saturating_add(BASE_MEMORY_BYTES).min(MAX_RUN_MEMORY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{Container, Stream, StreamKind, Video};
    use crate::domain::plan::EncodeVideo;

    fn rendition(width: u32, height: u32) -> Rendition {
        let plan = EncodeVideo::sample(width, height, 1000);
        Rendition { video: Some(VideoPlan::Encode(plan)), ..Rendition::default() }
    }

    fn media(width: u32, height: u32, bit_depth: u8) -> Media {
        let video = Video { width, height, bit_depth, ..Video::default() };
        let stream = Stream { kind: StreamKind::Video(video), ..Stream::default() };
        Media { container: Container::Mp4, streams: vec![stream], ..Media::default() }
    }

    #[test]
    fn the_memory_follows_the_larger_frame_and_its_depth_within_bounds() {
        let memory = |source: (u32, u32, u8), output: (u32, u32)| {
            run_memory_bytes(&media(source.0, source.1, source.2), &rendition(output.0, output.1), false)
        };
        let frame = 1920 * 1080 * 3 / 2;
        assert_eq!(memory((1920, 1080, 8), (640, 360)), (2 << 30) + 20 * frame);
        assert_eq!(memory((1920, 1080, 10), (640, 360)), (2 << 30) + 40 * frame);
        assert_eq!(memory((640, 360, 8), (1920, 1080)), (2 << 30) + 20 * frame);
        assert_eq!(memory((u32::MAX, u32::MAX, 10), (640, 360)), 5 << 30);
        assert_eq!(run_memory_bytes(&media(640, 360, 8), &Rendition::default(), false), 2 << 30);
        assert_eq!(run_memory_bytes(&media(640, 360, 8), &rendition(640, 360), true), 6 << 30);
        assert_eq!(pipeline_name(&rendition(640, 360)), "segment-without-audio");
    }
}
