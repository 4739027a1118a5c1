//! A rendition of one item, with everything a backend needs to make its segments.

use std::sync::Arc;

use super::TIMELINE_BASE;
use super::image::Image;
use super::packager::Package;
use super::source::SourceFile;
use crate::domain::encode_slots::pixel_cost;
use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::mpegts::segmenter::{AudioMode, Segmenter, SegmenterSettings};
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};

/// Largest unfinished segment of a run, bytes: 10 s at 200 Mbit/s.
pub const MAX_SEGMENT_BYTES: usize = 256 << 20;

/// A rendition of one item: plain data around one open file.
#[derive(Clone, Debug)]
pub struct RenditionSpec {
    pub source: Arc<SourceFile>,
    /// Content identity of the source.
    pub fingerprint: String,
    pub media: Arc<Media>,
    pub rendition: Arc<Rendition>,
    pub grid: Arc<Grid>,
    /// The open file of a `BurnedSubtitle::Sidecar` in the rendition; None otherwise.
    pub sidecar: Option<Arc<SourceFile>>,
    /// The image of a `WatermarkOverlay` in the rendition; None otherwise.
    pub watermark: Option<Arc<Image>>,
    /// The layout to remux from, if the packager makes the segments; None otherwise.
    pub package: Option<Arc<Package>>,
}

impl RenditionSpec {
    /// Cuts a backend's output, which begins with segment `first_segment`.
    pub fn segmenter(&self, first_segment: usize) -> Segmenter {
        Segmenter::new(SegmenterSettings {
            grid: self.grid.clone(),
            first_segment,
            base_timestamp: TIMELINE_BASE,
            has_video: self.rendition.video.is_some(),
            audio: self.rendition.audio.as_ref().map(|plan| match plan {
                AudioPlan::Copy { .. } => AudioMode::Copied,
                AudioPlan::Encode { .. } => AudioMode::Encoded,
            }),
            budget_bytes: MAX_SEGMENT_BYTES,
        })
    }

    /// Encoding cost in pixels of H.264 per second; None if no video is encoded.
    pub fn pixel_rate(&self) -> Option<f64> {
        let Some(VideoPlan::Encode(plan)) = &self.rendition.video else { return None };
        let source_video = self.media.video_streams().find(|(stream, _)| stream.index == plan.stream);
        let decoded_video = source_video
            .map(|(_, video)| (video.width, video.height, video.frame_rate.unwrap_or(plan.frame_rate).as_f64()));
        let cost = plan.frame_rate.as_f64() * plan.codec.relative_cost();
        Some(pixel_cost((plan.width, plan.height, cost), decoded_video))
    }
}
