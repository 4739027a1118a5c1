//! Slates: still images for times without video, one of each size, made when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::domain::channel::Channel;
use crate::domain::codec::TargetCodec;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::schedule::segmentation::VideoFormat;
use crate::engine::still_image;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Slates in the cache; each takes some tens of kilobytes.
const MAX_SLATES: usize = 32;

#[derive(Default)]
pub struct Slates(Mutex<HashMap<SlateKey, SlateCell>>);

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
        let even_side = |side: u32, default: u32| if side < 16 { default } else { side.min(4096) & !1 };
        let size = (even_side(format.width, 1280), even_side(format.height, 720));
        let key = (size, content.clone());
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if cells.len() >= MAX_SLATES && !cells.contains_key(&key) {
                cells.clear();
            }
            cells.entry(key).or_default().clone()
        };
        let image = cell.get_or_try_init(|| async {
            let report = service.local_encoders.report().await;
            let unavailable = || Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine");
            let (ffmpeg, encoder) = (&service.config.ffmpeg, report.best(TargetCodec::H264).ok_or_else(unavailable)?);
            let slate_image = match &content.image {
                Some((path, _)) => service.library.load_image(path).await.inspect_err(|fault| {
                    tracing::warn!(media.path = path, %fault, "a slate is shown without its image");
                }),
                None => Err(Error::new(Code::NotFound, "the slate has no image")),
            };
            let style = service.config.text_style();
            let text = content.text.as_deref().map(|line| (line, &style));
            let mut image = still_image::encode(ffmpeg, encoder, size, text, slate_image.as_deref().ok()).await;
            if let Err(fault) = &image
                && *content != SlateContent::default()
            {
                tracing::warn!(%fault, "a slate is shown without its text and image");
                image = still_image::encode(ffmpeg, encoder, size, None, None).await;
            }
            image.map(Arc::new).map_err(|cause| unavailable().with_cause(cause))
        });
        image.await.cloned()
    }
}
