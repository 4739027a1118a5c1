//! Text subtitles of an item, embedded or in sidecar files, as cues.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::library::Library;
use super::sidecars;
use crate::domain::media::Media;
use crate::domain::subtitles::{self, Cue, SubtitleFormat, MAX_BYTES};
use crate::engine::source::SourceFile;
use crate::engine::{RunError, subtitle_extraction as engine};
use crate::error::{Code, Error, Result};

/// How long a request waits; the work continues after it.
const WAIT: Duration = Duration::from_secs(20);
/// Most subtitle extractions at once: each reads a whole file.
const READERS: usize = 2;
/// Most cached scripts, and their bytes.
const SCRIPTS: usize = 64;
const SCRIPT_BYTES: usize = 64 << 20;

/// Where a subtitle comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// A stream of the item itself.
    Stream(u32),
    /// A text file in the library, by its request path.
    File(String),
}

/// The text and cues of one subtitle.
#[derive(Debug)]
pub struct Script {
    pub format: SubtitleFormat,
    /// The original text in UTF-8, with `\n` line ends.
    pub text: String,
    pub cues: Arc<Vec<Cue>>,
}

type Outcome = Option<std::result::Result<Arc<Script>, RunError>>;
type Kept = VecDeque<(String, watch::Receiver<Outcome>)>;

/// Reads and caches subtitles.
pub struct Subtitles {
    ffmpeg: PathBuf,
    library: Arc<Library>,
    readers: Arc<Semaphore>,
    /// Most recently used first.
    kept: Mutex<Kept>,
}

impl Subtitles {
    pub fn new(ffmpeg: PathBuf, library: Arc<Library>) -> Self {
        Self { ffmpeg, library, readers: Arc::new(Semaphore::new(READERS)), kept: Mutex::default() }
    }

    /// Resolves a subtitle id of media info: `e<stream index>`, or `x<n>` for a sidecar file.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown id, `UNSUPPORTED_MEDIA_TYPE` for a bitmap sidecar.
    pub async fn find(&self, source: &Arc<SourceFile>, id: &str) -> Result<Which> {
        let unknown = || Error::new(Code::NotFound, "this file has no such subtitle");
        if let Some(stream) = id.strip_prefix('e') {
            return stream.parse().map(Which::Stream).map_err(|_| unknown());
        }
        let beside = sidecars::beside(&self.library, source).await?;
        let sidecar = beside.into_iter().find(|sidecar| sidecar.id == id).ok_or_else(unknown)?;
        if !sidecar.format.is_text() {
            return Err(Error::new(Code::UnsupportedMediaType, format!("{} is a bitmap subtitle", sidecar.file)));
        }
        Ok(Which::File(sidecar.path))
    }

    /// All cues of a subtitle, ordered by their start.
    ///
    /// # Errors
    /// Those of [`Self::script`].
    pub async fn cues(&self, source: &Arc<SourceFile>, media: &Arc<Media>, which: &Which) -> Result<Arc<Vec<Cue>>> {
        Ok(self.script(source, media, which).await?.cues.clone())
    }

    /// Reads a subtitle as text and cues.
    ///
    /// # Errors
    /// `NOT_FOUND` for a stream that is not a subtitle, `UNSUPPORTED_MEDIA_TYPE` for bitmaps and files that are not text,
    /// `PAYLOAD_TOO_LARGE` for a file over 16 MiB, `UNPLAYABLE_MEDIA` if it cannot be read, `SEGMENT_TIMEOUT` after 20 s
    /// (a later request gets it), and those of opening a file.
    pub async fn script(&self, source: &Arc<SourceFile>, media: &Arc<Media>, which: &Which) -> Result<Arc<Script>> {
        match which {
            Which::Stream(stream) => self.stream(source, media, *stream).await,
            Which::File(path) => self.file(path).await,
        }
    }

    /// Reads a text stream of the item.
    ///
    /// # Errors
    /// Those of [`Self::script`].
    pub async fn stream(&self, source: &Arc<SourceFile>, media: &Arc<Media>, stream: u32) -> Result<Arc<Script>> {
        let (found, kind) = media
            .subtitle_streams()
            .find(|(found, _)| found.index == stream)
            .ok_or_else(|| Error::new(Code::NotFound, format!("stream {stream} is not a subtitle of this file")))?;
        let format = SubtitleFormat::from_codec(&found.codec)
            .filter(|_| kind.is_text)
            .ok_or_else(|| Error::new(Code::UnsupportedMediaType, format!("{} subtitles are not text", found.codec)))?;
        let mut outcome = self.outcome(source, media, stream, format);
        let done = tokio::time::timeout(WAIT, outcome.wait_for(Option::is_some)).await.map_err(|_| {
            let message = format!("subtitle stream {stream} not read within {} s", WAIT.as_secs());
            Error::new(Code::SegmentTimeout, message).with_retry_after(5)
        })?;
        let done = done.map_err(|_| Error::internal("the subtitle reader ended without an outcome"))?.clone();
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
    fn outcome(
        &self,
        source: &Arc<SourceFile>,
        media: &Arc<Media>,
        stream: u32,
        format: SubtitleFormat,
    ) -> watch::Receiver<Outcome> {
        let key = format!("{} {stream}", source.version());
        if let Some(known) = self.known(&key) {
            return known;
        }
        let (sender, outcome) = watch::channel(None);
        let mut kept = self.kept.lock().expect("no panic while held");
        kept.push_front((key, outcome.clone()));
        shrink(&mut kept);
        drop(kept);
        let (ffmpeg, source, media) = (self.ffmpeg.clone(), source.clone(), media.clone());
        let readers = self.readers.clone();
        tokio::spawn(async move {
            let _place = readers.acquire().await;
            let read = engine::extract(&ffmpeg, &source, &media, stream, format);
            let outcome = tokio::select! {
                outcome = read => outcome,
                // Evicted from the cache, and no request is waiting.
                () = sender.closed() => return,
            };
            let outcome = match outcome {
                Ok(bytes) => tokio::task::spawn_blocking(move || Arc::new(script(&bytes, format)))
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
    /// Those of [`Self::script`].
    pub async fn file(&self, path: &str) -> Result<Arc<Script>> {
        let no_text = |why: &str| Error::new(Code::UnsupportedMediaType, format!("the subtitle file {why}"));
        let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let format = extension.as_deref().and_then(SubtitleFormat::from_extension);
        let format = format.ok_or_else(|| no_text("must be .srt, .vtt, .ass or .ssa"))?;
        let (roots, path) = (self.library.roots().clone(), path.to_owned());
        let root = roots.locate(&path)?.root_index;
        let source = self.library.run_with_deadline(root, move || roots.open_file(&path)).await?;
        let key = source.version();
        if let Some(known) = self.known(&key)
            && let Some(Ok(script)) = &*known.borrow()
        {
            return Ok(script.clone());
        }
        let work = move || {
            if source.len > MAX_BYTES as u64 {
                return Err(Error::new(Code::PayloadTooLarge, "the subtitle file is larger than 16 MiB"));
            }
            let mut bytes = Vec::new();
            (&*source.file).take(MAX_BYTES as u64).read_to_end(&mut bytes).map_err(|cause| {
                Error::new(Code::SourceReadFailed, "the subtitle file could not be read").with_cause(cause)
            })?;
            if !subtitles::is_text(&bytes[..bytes.len().min(4096)]) {
                return Err(no_text("is not text"));
            }
            Ok(Arc::new(script(&bytes, format)))
        };
        let script = self.library.run_with_deadline(root, work).await?;
        let mut kept = self.kept.lock().expect("no panic while held");
        kept.push_front((key, watch::channel(Some(Ok(script.clone()))).1));
        shrink(&mut kept);
        Ok(script)
    }

    /// A cached entry, now the most recently used; failures are removed.
    fn known(&self, key: &str) -> Option<watch::Receiver<Outcome>> {
        let mut kept = self.kept.lock().expect("no panic while held");
        let at = kept.iter().position(|(known, _)| known == key)?;
        let known = kept.remove(at).expect("found");
        let failed = matches!(*known.1.borrow(), Some(Err(_)));
        kept.push_front(known);
        if failed {
            kept.pop_front();
            return None;
        }
        Some(kept[0].1.clone())
    }
}

/// Evicts the least recently used entries until the rest fits.
fn shrink(kept: &mut Kept) {
    let mut bytes = 0;
    let fits = kept.iter().take(SCRIPTS).take_while(|(_, outcome)| {
        if let Some(Ok(script)) = &*outcome.borrow() {
            bytes += script.text.len() * 2;
        }
        bytes <= SCRIPT_BYTES
    });
    let count = fits.count().max(1);
    kept.truncate(count);
}

fn script(bytes: &[u8], format: SubtitleFormat) -> Script {
    let text = subtitles::decode(bytes);
    let format = SubtitleFormat::detect(&text).unwrap_or(format);
    Script { format, cues: Arc::new(subtitles::parse(text.as_bytes(), format)), text }
}
