//! Text subtitles of an item, embedded or in sidecar files, as cues.

use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lru::LruCache;
use tokio::sync::{Semaphore, watch};

use crate::domain::media::Media;
use crate::domain::subtitles::{self, Cue, MAX_BYTES, SubtitleFormat};
use crate::engine::source::SourceFile;
use crate::engine::{RunError, subtitle_extraction as engine};
use crate::error::{Code, Error, Result};
use crate::service::library::{Library, sidecars};

/// How long a request waits; the work continues after it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Most subtitle extractions at once: each reads a whole file.
const CONCURRENT_EXTRACTIONS: usize = 2;
/// Most cached scripts, and their bytes.
const MAX_SCRIPTS: usize = 64;
const MAX_SCRIPT_BYTES: usize = 64 << 20;

/// Where a subtitle comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubtitleLocation {
    /// A stream of the item itself.
    Stream(u32),
    /// A text file in the library, by its request path.
    File(String),
}

/// The text and cues of one subtitle.
#[derive(Debug)]
pub struct SubtitleScript {
    pub format: SubtitleFormat,
    /// The original text in UTF-8, with `\n` line ends.
    pub text: String,
    pub cues: Arc<Vec<Cue>>,
}

type ScriptOutcome = Option<std::result::Result<Arc<SubtitleScript>, RunError>>;
type ScriptCache = LruCache<String, watch::Receiver<ScriptOutcome>>;

/// Reads and caches subtitles.
pub struct Subtitles {
    ffmpeg: PathBuf,
    library: Arc<Library>,
    extraction_slots: Arc<Semaphore>,
    cache: Mutex<ScriptCache>,
}

impl Subtitles {
    pub fn new(ffmpeg: PathBuf, library: Arc<Library>) -> Self {
        Self {
            ffmpeg,
            library,
            extraction_slots: Arc::new(Semaphore::new(CONCURRENT_EXTRACTIONS)),
            cache: Mutex::new(LruCache::unbounded()),
        }
    }

    /// Resolves a subtitle id of media info: `e<stream index>`, or `x<n>` for a sidecar file.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown id, `UNSUPPORTED_MEDIA_TYPE` for a bitmap sidecar.
    pub async fn resolve_id(&self, source: &Arc<SourceFile>, id: &str) -> Result<SubtitleLocation> {
        let unknown = || Error::new(Code::NotFound, "this file has no such subtitle");
        if let Some(stream) = id.strip_prefix('e') {
            return stream.parse().map(SubtitleLocation::Stream).map_err(|_| unknown());
        }
        let sidecar_files = sidecars::list_sidecars(&self.library, source).await?;
        let sidecar = sidecar_files.into_iter().find(|sidecar| sidecar.id == id).ok_or_else(unknown)?;
        if !sidecar.format.is_text() {
            return Err(Error::new(Code::UnsupportedMediaType, format!("{} is a bitmap subtitle", sidecar.file)));
        }
        Ok(SubtitleLocation::File(sidecar.path))
    }

    /// All cues of a subtitle, ordered by their start.
    ///
    /// # Errors
    /// `NOT_FOUND` for a stream that is not a subtitle, `UNSUPPORTED_MEDIA_TYPE` for bitmaps and files that are not text,
    /// `PAYLOAD_TOO_LARGE` for a file over 16 MiB, `UNPLAYABLE_MEDIA` if it cannot be read, `SEGMENT_TIMEOUT` after 20 s
    /// (a later request gets it), and those of opening a file.
    pub async fn read_cues(
        &self,
        source: &Arc<SourceFile>,
        media: &Arc<Media>,
        location: &SubtitleLocation,
    ) -> Result<Arc<Vec<Cue>>> {
        let script = match location {
            SubtitleLocation::Stream(stream) => self.read_stream(source, media, *stream).await?,
            SubtitleLocation::File(path) => self.read_file(path).await?,
        };
        Ok(script.cues.clone())
    }

    /// Reads a text stream of the item.
    ///
    /// # Errors
    /// Those of [`Self::read_cues`].
    pub async fn read_stream(
        &self,
        source: &Arc<SourceFile>,
        media: &Arc<Media>,
        stream: u32,
    ) -> Result<Arc<SubtitleScript>> {
        let (found, kind) = media
            .subtitle_streams()
            .find(|(found, _)| found.index == stream)
            .ok_or_else(|| Error::new(Code::NotFound, format!("stream {stream} is not a subtitle of this file")))?;
        let format = SubtitleFormat::from_codec(&found.codec)
            .filter(|_| kind.is_text)
            .ok_or_else(|| Error::new(Code::UnsupportedMediaType, format!("{} subtitles are not text", found.codec)))?;
        let mut outcome = self.extraction(source, media, stream, format);
        let finished =
            tokio::time::timeout(REQUEST_TIMEOUT, outcome.wait_for(Option::is_some)).await.map_err(|_| {
                let message = format!("subtitle stream {stream} not read within {} s", REQUEST_TIMEOUT.as_secs());
                Error::new(Code::SegmentTimeout, message).with_retry_after(5)
            })?;
        let done = finished.map_err(|_| Error::internal("the subtitle reader ended without an outcome"))?.clone();
        done.expect("waited for").map_err(|failure| {
            let error = match &failure {
                RunError::Internal(_) => Error::new(Code::TranscoderUnavailable, "subtitles cannot be read here"),
                _ => Error::new(Code::UnplayableMedia, format!("subtitle stream {stream} cannot be read")),
            };
            error.with_cause(failure)
        })
    }

    /// The extraction of one stream, running or finished; starts it if needed. It continues after its requests have
    /// left, so that a file too large for one wait is ready for the next request.
    fn extraction(
        &self,
        source: &Arc<SourceFile>,
        media: &Arc<Media>,
        stream: u32,
        format: SubtitleFormat,
    ) -> watch::Receiver<ScriptOutcome> {
        let key = format!("{} {stream}", source.version());
        if let Some(cached) = self.cached(&key) {
            return cached;
        }
        let (sender, outcome) = watch::channel(None);
        let mut cache = self.cache.lock().expect("no panic while held");
        cache.put(key, outcome.clone());
        evict_scripts(&mut cache);
        drop(cache);
        let (ffmpeg, source, media) = (self.ffmpeg.clone(), source.clone(), media.clone());
        let extraction_slots = self.extraction_slots.clone();
        tokio::spawn(async move {
            let _extraction_slot = extraction_slots.acquire().await;
            let extraction = engine::extract(&ffmpeg, &source, &media, stream, format);
            let outcome = tokio::select! {
                outcome = extraction => outcome,
                // Evicted from the cache, and no request is waiting.
                () = sender.closed() => return,
            };
            let outcome = match outcome {
                Ok(bytes) => tokio::task::spawn_blocking(move || Arc::new(parse_script(&bytes, format)))
                    .await
                    .map_err(|cause| RunError::Internal(cause.to_string())),
                Err(failure) => Err(failure),
            };
            sender.send_replace(Some(outcome));
        });
        outcome
    }

    /// Reads a subtitle file of the library.
    ///
    /// # Errors
    /// Those of [`Self::read_cues`].
    pub async fn read_file(&self, path: &str) -> Result<Arc<SubtitleScript>> {
        let unsupported = |why: &str| Error::new(Code::UnsupportedMediaType, format!("the subtitle file {why}"));
        let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let format = extension.as_deref().and_then(SubtitleFormat::from_extension);
        let format = format.ok_or_else(|| unsupported("must be .srt, .vtt, .ass or .ssa"))?;
        let source = self.library.open_uncached(path).await?;
        let (root, key) = (source.root_index, source.version());
        if let Some(cached) = self.cached(&key)
            && let Some(Ok(script)) = &*cached.borrow()
        {
            return Ok(script.clone());
        }
        let read_text = move || {
            if source.len > MAX_BYTES as u64 {
                return Err(Error::new(Code::PayloadTooLarge, "the subtitle file is larger than 16 MiB"));
            }
            let mut bytes = Vec::new();
            (&*source.file).take(MAX_BYTES as u64).read_to_end(&mut bytes).map_err(|cause| {
                Error::new(Code::SourceReadFailed, "the subtitle file could not be read").with_cause(cause)
            })?;
            if !subtitles::is_text(&bytes[..bytes.len().min(4096)]) {
                return Err(unsupported("is not text"));
            }
            Ok(Arc::new(parse_script(&bytes, format)))
        };
        let script = self.library.run_with_deadline(root, read_text).await?;
        let mut cache = self.cache.lock().expect("no panic while held");
        cache.put(key, watch::channel(Some(Ok(script.clone()))).1);
        evict_scripts(&mut cache);
        Ok(script)
    }

    /// A cached entry, now the most recently used; failures are removed.
    fn cached(&self, key: &str) -> Option<watch::Receiver<ScriptOutcome>> {
        let mut cache = self.cache.lock().expect("no panic while held");
        let outcome = cache.get(key)?.clone();
        if matches!(*outcome.borrow(), Some(Err(_))) {
            cache.pop(key);
            return None;
        }
        Some(outcome)
    }
}

/// Evicts the least recently used entries until the rest fits.
fn evict_scripts(cache: &mut ScriptCache) {
    let mut bytes = 0;
    let fitting = cache.iter().take(MAX_SCRIPTS).take_while(|(_, outcome)| {
        if let Some(Ok(script)) = &*outcome.borrow() {
            bytes += script.text.len() * 2;
        }
        bytes <= MAX_SCRIPT_BYTES
    });
    let count = fitting.count().max(1);
    while cache.len() > count {
        cache.pop_lru();
    }
}

fn parse_script(bytes: &[u8], format: SubtitleFormat) -> SubtitleScript {
    let text = subtitles::decode(bytes);
    let format = SubtitleFormat::detect(&text).unwrap_or(format);
    SubtitleScript { format, cues: Arc::new(subtitles::parse(text.as_bytes(), format)), text }
}
