//! Slates: still images for times without video, one of each size, made when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::config::BackendSetting;
use crate::domain::channel::Channel;
use crate::domain::codec::TargetCodec;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::schedule::segmentation::VideoFormat;
use crate::engine::still_image::StillJob;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::backend_counts::BackendCounts;

/// Slates in the cache; each takes some tens of kilobytes.
const MAX_SLATES: usize = 32;

/// The backends by name.
const GSTREAMER: &str = "gstreamer";
const FFMPEG: &str = "ffmpeg";

#[derive(Default)]
pub struct Slates {
    cells: Mutex<HashMap<SlateKey, SlateCell>>,
    counts: BackendCounts,
}

/// The content of a slate; the default is an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlateContent {
    /// A line of text.
    pub text: Option<Box<str>>,
    /// The path of an image, and the version of the channel that named it.
    pub image: Option<(Box<str>, u32)>,
}

/// Size in pixels, and content.
type SlateKey = ((u32, u32), SlateContent);

/// A still image, made once.
type SlateCell = Arc<OnceCell<Arc<StillImage>>>;

impl SlateContent {
    pub fn of_channel(channel: &Channel) -> Self {
        let image = channel.settings.slate_image.clone().map(|path| (path, channel.version));
        Self { text: channel.settings.slate_text.clone(), image }
    }
}

impl Slates {
    /// The channel's slate in the default size, for times without a programme.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE` when no video encoder works.
    pub async fn default_slate(&self, service: &Service, channel: &Channel) -> Result<Arc<StillImage>> {
        self.get_or_make(service, &VideoFormat::default(), &SlateContent::of_channel(channel)).await
    }

    /// # Errors
    /// `TRANSCODER_UNAVAILABLE` when no video encoder works.
    pub async fn get_or_make(
        &self,
        service: &Service,
        format: &VideoFormat,
        content: &SlateContent,
    ) -> Result<Arc<StillImage>> {
        let (width, height) = format.coded_size();
        let even_side = |side: u32| side.min(4096) & !1;
        let size = (even_side(width), even_side(height));
        let key = (size, content.clone());
        let cell = {
            let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            if cells.len() >= MAX_SLATES && !cells.contains_key(&key) {
                cells.clear();
            }
            cells.entry(key).or_default().clone()
        };
        cell.get_or_try_init(|| self.make(service, size, content)).await.cloned()
    }

    async fn make(&self, service: &Service, size: (u32, u32), content: &SlateContent) -> Result<Arc<StillImage>> {
        let mut still = match prepare(service, size, content).await {
            Ok(job) => self.encode(service, &job).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &still
            && *content != SlateContent::default()
        {
            tracing::warn!(%fault, "a slate is shown without its text and image");
            still = self.encode(service, &StillJob::new(size)).await;
        }
        still.map(Arc::new)
    }

    /// By GStreamer, or by ffmpeg where that fails.
    async fn encode(&self, service: &Service, job: &StillJob) -> Result<StillImage> {
        if service.config.backend != BackendSetting::Ffmpeg {
            self.counts.count_start(GSTREAMER);
            match service.isolation.encode_still(job).await {
                Ok(still) => return Ok(still),
                Err(cause) => {
                    self.counts.count_failure(GSTREAMER);
                    tracing::warn!(cause, "ffmpeg makes a slate, because GStreamer failed");
                }
            }
        }
        let unavailable = || Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine");
        let report = service.local_encoders.report().await;
        let encoder = report.best_software(TargetCodec::H264).ok_or_else(unavailable)?;
        self.counts.count_start(FFMPEG);
        let still = job.encode_with_ffmpeg(&service.config.ffmpeg, encoder).await;
        still.map_err(|cause| {
            self.counts.count_failure(FFMPEG);
            unavailable().with_cause(cause)
        })
    }

    /// Slates encoded since the server started, and tries that failed, by backend.
    pub fn counts(&self) -> &BackendCounts {
        &self.counts
    }
}

/// The slate with its text, and with its image if that can be read.
async fn prepare(service: &Service, size: (u32, u32), content: &SlateContent) -> Result<StillJob> {
    let mut job = StillJob::new(size);
    if let Some((path, _)) = &content.image {
        match service.library.load_image(path).await {
            Ok(image) => job = job.with_image(image, path),
            Err(fault) => tracing::warn!(media.path = path, %fault, "a slate is shown without its image"),
        }
    }
    match &content.text {
        Some(line) => job.with_text(line, &service.config.text_style()).map_err(Error::internal),
        None => Ok(job),
    }
}
