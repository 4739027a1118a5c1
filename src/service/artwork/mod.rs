#![doc = include_str!("README.md")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{OnceCell, Semaphore};

use crate::config::Config;
use crate::domain::media::Media;
use crate::engine::RunError;
use crate::engine::artwork::cache::ArtworkCache;
use crate::engine::artwork::{self as engine, MAX_IMAGE_BYTES, OutputFormat};
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::catalogue::{Artwork, ArtworkSource};

mod ahead;
mod iframes;
mod previews;
mod remote;

pub use ahead::{make_frames_ahead, start};
pub use previews::PREVIEWS_VERSION;

/// Images on disk, bytes.
const MAX_CACHE_BYTES: u64 = 1 << 30;

/// Images made at once; each is one process of one thread.
const CONCURRENT_JOBS: usize = 2;

/// Requests that may wait for an image.
const MAX_REQUESTS: usize = 256;

/// When a client may retry, seconds.
const RETRY_SECONDS: u32 = 2;

/// Widths that are made, pixels. A requested width is rounded up.
const WIDTHS: [u32; 7] = [160, 320, 480, 640, 960, 1280, 1920];

/// The size and format of a requested image.
#[derive(Clone, Copy, Debug)]
pub struct ImageRequest {
    /// None for the largest width.
    pub width: Option<u32>,
    pub format: OutputFormat,
}

/// Makes images of items, and keeps them.
pub struct Artworks {
    ffmpeg: PathBuf,
    cache: ArtworkCache,
    /// A job may wait for an image that another one makes, never for a job.
    jobs: Semaphore,
    requests: Semaphore,
    remote: remote::RemoteFetches,
    /// Images that are being made, by key.
    in_flight: Mutex<HashMap<String, Arc<PendingImage>>>,
}

/// An image that one request makes and others wait for; None if no such image exists.
type PendingImage = OnceCell<Option<Bytes>>;

impl Artworks {
    /// # Errors
    /// When the folder of the cache cannot be used.
    pub fn open(config: &Config) -> Result<Self> {
        let folder = config.cache.join("artwork");
        let unusable = |cause: std::io::Error| Error::internal(format!("{}: {cause}", folder.display()));
        Ok(Self {
            ffmpeg: config.ffmpeg.clone(),
            cache: ArtworkCache::open(&folder, MAX_CACHE_BYTES).map_err(unusable)?,
            jobs: Semaphore::new(CONCURRENT_JOBS),
            requests: Semaphore::new(MAX_REQUESTS),
            remote: remote::RemoteFetches::default(),
            in_flight: Mutex::default(),
        })
    }

    /// The cached image; otherwise makes it, once for all requests. If the request that makes it ends early, the next one
    /// starts anew.
    async fn get_or_make(&self, key: &str, make: impl Future<Output = Result<Option<Bytes>>>) -> Result<Option<Bytes>> {
        let entry = InFlight::new(self, key);
        let made = entry.making.get_or_try_init(|| async {
            if let Some(found) = self.cache.get(key).await {
                return Ok(Some(found).filter(|bytes| !bytes.is_empty()));
            }
            let made = make.await?;
            self.cache.put(key, made.clone().unwrap_or_default()).await;
            Ok(made)
        });
        made.await.cloned()
    }

    fn lock_in_flight(&self) -> MutexGuard<'_, HashMap<String, Arc<PendingImage>>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share of an image that is being made. The last one removes the entry.
struct InFlight<'a> {
    artworks: &'a Artworks,
    key: &'a str,
    making: Arc<PendingImage>,
}

impl<'a> InFlight<'a> {
    fn new(artworks: &'a Artworks, key: &'a str) -> Self {
        let making = artworks.lock_in_flight().entry(key.to_owned()).or_default().clone();
        Self { artworks, key, making }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.artworks.lock_in_flight();
        // This share and that of the map.
        if Arc::strong_count(&self.making) <= 2 {
            in_flight.remove(self.key);
        }
    }
}

impl Service {
    /// An image in a size and a format, from the first source that has one.
    ///
    /// # Errors
    /// `NOT_FOUND` if no source has an image that can be decoded; `SERVER_BUSY`, `STORAGE_TIMEOUT` and the like, after which
    /// it may succeed.
    pub async fn load_artwork(&self, artwork: &Artwork, request: ImageRequest) -> Result<Bytes> {
        let busy = || Error::new(Code::ServerBusy, "too many images are being made").with_retry_after(RETRY_SECONDS);
        let _request = self.artworks.requests.try_acquire().map_err(|_| busy())?;
        let width = WIDTHS.into_iter().find(|width| *width >= request.width.unwrap_or(u32::MAX)).unwrap_or(WIDTHS[6]);
        for source in &artwork.sources {
            let key = format!("{} {width} {:?}", source.key(), request.format);
            let make = self.make_image(source, width, request.format);
            match self.artworks.get_or_make(&key, make).await {
                Ok(Some(image)) => return Ok(image),
                Ok(None) => {}
                // A file that is gone now may return, so this is not kept.
                Err(fault) if matches!(fault.code, Code::NotFound | Code::Forbidden) => {}
                Err(fault) => return Err(fault),
            }
        }
        Err(Error::new(Code::NotFound, "there is no such image"))
    }

    async fn make_image(&self, source: &ArtworkSource, width: u32, format: OutputFormat) -> Result<Option<Bytes>> {
        // Held from the first byte that is read, so that memory is bounded too.
        let _job = self.artworks.jobs.acquire().await.map_err(Error::internal)?;
        let original = match source {
            ArtworkSource::File { path, .. } => self.read_image(path).await?,
            ArtworkSource::Cover { path, .. } => {
                self.artworks.get_or_make(&source.key(), self.read_cover(path)).await?
            }
            ArtworkSource::Frame { path, .. } => {
                self.artworks.get_or_make(&source.key(), self.choose_frame(path)).await?
            }
        };
        let Some(original) = original else { return Ok(None) };
        let ffmpeg = &self.artworks.ffmpeg;
        let mut made = engine::resize(ffmpeg, &original, width, format).await.map_err(job_error)?;
        if made.is_none() && format == OutputFormat::WebP {
            // This ffmpeg may have no WebP encoder.
            made = engine::resize(ffmpeg, &original, width, OutputFormat::Jpeg).await.map_err(job_error)?;
        }
        Ok(made.map(Bytes::from))
    }

    /// An image file of the library; None if it is no image within the limits.
    async fn read_image(&self, path: &str) -> Result<Option<Bytes>> {
        let source = self.library.open_uncached(path).await?;
        if source.len > MAX_IMAGE_BYTES as u64 {
            return Ok(None);
        }
        let bytes = self.library.read(&source, 0, source.len as usize).await?;
        Ok(Some(bytes).filter(|bytes| engine::is_usable_image(bytes)).map(Bytes::from))
    }

    async fn read_cover(&self, path: &str) -> Result<Option<Bytes>> {
        let Some((source, media)) = self.open_media(path).await? else { return Ok(None) };
        let Some(stream) = media.cover_stream() else { return Ok(None) };
        let cover = engine::read_cover(&self.artworks.ffmpeg, &source, stream).await;
        cover.map(|cover| cover.map(Bytes::from)).map_err(job_error)
    }

    async fn choose_frame(&self, path: &str) -> Result<Option<Bytes>> {
        let Some((source, media)) = self.open_media(path).await? else { return Ok(None) };
        let frame = engine::choose_frame(&self.artworks.ffmpeg, &source, &media).await;
        frame.map(|frame| frame.map(Bytes::from)).map_err(job_error)
    }

    /// Opens and probes a media file; None if it cannot be played.
    async fn open_media(&self, path: &str) -> Result<Option<(Arc<SourceFile>, Arc<Media>)>> {
        let source = self.library.open_uncached(path).await?;
        match self.media.probe(&source).await {
            Ok(probed) => Ok(Some((source, probed.media))),
            Err(fault) if fault.code == Code::UnplayableMedia => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

fn job_error(error: RunError) -> Error {
    Error::new(Code::ServerBusy, "the image could not be made now").with_retry_after(RETRY_SECONDS).with_cause(error)
}
