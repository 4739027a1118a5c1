//! Slates: still images for times without video, one of each size, made when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::schedule::segmentation::VideoFormat;
use crate::engine::still_image;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Slates in the cache; each takes some tens of kilobytes.
const KEPT: usize = 32;

#[derive(Default)]
pub(super) struct Stills(Mutex<HashMap<Shape, Made>>);

/// The content of a slate; the default is an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Says {
    /// A line of text.
    pub line: Option<Box<str>>,
    /// The path of an image, and the version of the channel that named it.
    pub picture: Option<(Box<str>, u32)>,
}

/// Size in pixels, and content.
type Shape = ((u32, u32), Says);

/// A still image, made once.
type Made = Arc<OnceCell<Arc<StillImage>>>;

impl Stills {
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE` when no video encoder works.
    pub(super) async fn of(&self, service: &Service, look: &VideoFormat, says: &Says) -> Result<Arc<StillImage>> {
        let even = |side: u32, usual: u32| if side < 16 { usual } else { side.min(4096) & !1 };
        let size = (even(look.width, 1280), even(look.height, 720));
        let shape = (size, says.clone());
        let cell = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= KEPT && !all.contains_key(&shape) {
                all.clear();
            }
            all.entry(shape).or_default().clone()
        };
        let made = cell.get_or_try_init(|| async {
            let report = service.transcoder.report().await;
            let encoder = report.working.first().map(|encoder| encoder.name);
            let none = || Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine");
            let (ffmpeg, encoder) = (&service.config.ffmpeg, encoder.ok_or_else(none)?);
            let picture = match &says.picture {
                Some((path, _)) => service.picture(path).await.inspect_err(|fault| {
                    tracing::warn!(media.path = path, %fault, "a slate is shown without its image");
                }),
                None => Err(Error::new(Code::NotFound, "the slate has no image")),
            };
            let line = says.line.as_deref().map(|line| (line, &service.config.text_style));
            let mut made = still_image::encode(ffmpeg, encoder, size, line, picture.as_deref().ok()).await;
            if let Err(fault) = &made
                && *says != Says::default()
            {
                tracing::warn!(%fault, "a slate is shown without its text and image");
                made = still_image::encode(ffmpeg, encoder, size, None, None).await;
            }
            made.map(Arc::new).map_err(|cause| none().with_cause(cause))
        });
        made.await.cloned()
    }
}
