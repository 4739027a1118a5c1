//! A running recording: segments are appended to its file, and the synced length is stored from time to time.
//!
//! The stored length never exceeds what is on the disk. After a crash the file is truncated to it and continued from there:
//! nothing is in it twice, and nothing is missing that can still be produced.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::reel::{self, Next, Piece};
use crate::domain::recording::{self, RecordingEvent, Recording, WrittenRange};
use crate::engine::recording_file::{RecordingsFolder, RecordingFile};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::live::Viewer;

/// How often the length of the file is synced and stored.
const NOTED: Duration = Duration::from_secs(10);

/// How long the file system may take for one operation.
const STORAGE_DEADLINE: Duration = Duration::from_secs(15);

/// The first and the longest pause between attempts.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long after the recording's end attempts continue without progress, ms.
const PATIENCE_MS: i64 = 3_600_000;

/// Records until the end of the recording, or until `stop`.
pub(super) async fn run(service: Arc<Service>, id: String, stop: watch::Receiver<bool>) {
    let channel = service.recordings.get(&id).map(|recording| recording.channel_id);
    work(&service, &id, stop).await;
    if let Ok(channel) = channel {
        service.live_channels.viewers().leave(channel, &Viewer::internal(&id));
    }
}

async fn work(service: &Arc<Service>, id: &str, mut stop: watch::Receiver<bool>) {
    let mut pause = RETRY.0;
    let mut rights = service.rights_changes.subscribe();
    loop {
        let before = written(service, id);
        let outcome = record(service, id, &mut stop).await;
        let now_ms = service.clock.now().as_millisecond();
        match outcome {
            Ok(End::Stopped) => return trim(service, id).await,
            Ok(End::Whole) => return service.recordings.settle(id, RecordingEvent::End, None, now_ms).await,
            Err(fault) => {
                let Ok(recording) = service.recordings.get(id) else { return };
                if is_final(&fault) || now_ms > recording.padded_range_ms().1 + PATIENCE_MS && recording.written_range == before {
                    trim(service, id).await;
                    return service.recordings.settle(id, RecordingEvent::Fail, Some(&fault), now_ms).await;
                }
                pause = if recording.written_range == before { (pause * 2).min(RETRY.1) } else { RETRY.0 };
                tracing::info!(recording.id = id, %fault, "recording paused; will retry");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = rights.changed() => {}
            () = told(&mut stop) => return,
        }
    }
}

/// Returns when the recording is to stop.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Whether another attempt cannot help.
fn is_final(fault: &Error) -> bool {
    matches!(
        fault.code,
        Code::StorageFull
            | Code::ChannelNotFound
            | Code::SourceChanged
            | Code::Conflict
            | Code::ChannelUnavailable
            | Code::RightsWithdrawn
            | Code::RightsBasisRequired
    )
}

fn written(service: &Service, id: &str) -> WrittenRange {
    service.recordings.get(id).map(|recording| recording.written_range).unwrap_or_default()
}

/// How work on a recording ended.
enum End {
    /// The recording is complete.
    Whole,
    /// It was stopped.
    Stopped,
}

/// Appends segments, starting after the stored length.
async fn record(service: &Arc<Service>, id: &str, stop: &mut watch::Receiver<bool>) -> Result<End> {
    let shelf = service.recordings.shelf()?.clone();
    let mut recording = service.recordings.get(id)?;
    let mut deck = Deck { tape: Some(open(service, &shelf, &mut recording).await?) };
    let mut noted = Instant::now();
    let mut rights = service.rights_changes.subscribe();
    loop {
        // The guide may have changed the end or title; the written length is more recent here than in the store.
        recording = Recording { written_range: recording.written_range, ..service.recordings.get(id)? };
        let next = tokio::select! {
            next = reel::next(service, &recording) => next,
            () = told(stop) => return note(service, &mut deck, &recording).await.map(|()| End::Stopped),
        };
        match next {
            Ok(Next::Piece(piece)) => {
                let appended = append(&mut deck, &shelf, &mut recording, piece).await;
                if let Err(fault) = appended {
                    // Everything before this segment is intact: store its length.
                    if fault.code == Code::StorageFull {
                        note(service, &mut deck, &recording).await?;
                    }
                    return Err(fault);
                }
                if noted.elapsed() >= NOTED {
                    note(service, &mut deck, &recording).await?;
                    noted = Instant::now();
                }
            }
            Ok(Next::Wait(wait)) => {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    Ok(()) = rights.changed() => {}
                    () = told(stop) => {}
                }
            }
            Ok(Next::Over) if recording.written_range.has_no_programme() => {
                note(service, &mut deck, &recording).await?;
                return Err(Error::new(Code::ChannelUnavailable, "nothing was on air during the recording"));
            }
            Ok(Next::Over) => return note(service, &mut deck, &recording).await.map(|()| End::Whole),
            Err(fault) => {
                note(service, &mut deck, &recording).await?;
                return Err(fault);
            }
        }
    }
}

/// The open file of a recording; None while a blocking thread has it.
struct Deck {
    tape: Option<RecordingFile>,
}

impl Deck {
    /// Runs `work` on the file in a blocking thread.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut RecordingFile) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(mut tape) = self.tape.take() else { return Err(slow()) };
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&mut tape);
            (tape, done)
        });
        let (tape, done) = timeout(STORAGE_DEADLINE, done).await.map_err(|_| slow())?.map_err(Error::internal)?;
        self.tape = Some(tape);
        done.map_err(|cause| refused(&cause))
    }
}

/// Opens the file of a recording at its stored length. The path of a new file is stored before the file is created, so a
/// crash leaves no unknown file.
async fn open(service: &Service, shelf: &Arc<RecordingsFolder>, recording: &mut Recording) -> Result<RecordingFile> {
    if let Some(path) = recording.path.clone() {
        let (shelf, len) = (shelf.clone(), recording.written_range.bytes);
        let resumed = blocking(move || match shelf.resume(Path::new(&path), len) {
            // The server ended before the file was created.
            Err(cause) if len == 0 && cause.kind() == ErrorKind::NotFound => shelf.create(Path::new(&path)),
            resumed => resumed,
        });
        return resumed.await;
    }
    let zone = service.channels.get(recording.channel_id).map(|channel| channel.settings.timezone.clone());
    let (folder, name) = recording::folder_and_file(recording, zone.as_deref().unwrap_or("UTC"));
    let _naming = service.recordings.naming.lock().await;
    let taken: HashSet<String> = service.recordings.all().into_iter().filter_map(|other| other.path).collect();
    let named = shelf.clone();
    let taken = move |path: &Path| path.to_str().is_none_or(|path| taken.contains(path));
    let path = blocking(move || named.free_path(&folder, &name, taken)).await?;
    let path = path
        .to_str()
        .ok_or_else(|| Error::internal("the path of the recordings folder is not valid UTF-8"))?
        .to_owned();
    recording.path = Some(path.clone());
    let noted = |path: Option<String>| {
        service.recordings.edit(&recording.id, |one| {
            one.path = path;
            true
        })
    };
    noted(Some(path.clone())).await?;
    let shelf = shelf.clone();
    match blocking(move || shelf.create(Path::new(&path))).await {
        Ok(tape) => Ok(tape),
        Err(fault) => {
            // A file at that path is not this recording.
            noted(None).await?;
            Err(fault)
        }
    }
}

async fn append(deck: &mut Deck, shelf: &Arc<RecordingsFolder>, recording: &mut Recording, piece: Piece) -> Result<()> {
    let Piece { bytes, from, through, is_slate } = piece;
    let len = bytes.len() as u64;
    let shelf = shelf.clone();
    let write = move |tape: &mut RecordingFile| match shelf.free_bytes() < len {
        true => Err(ErrorKind::StorageFull.into()),
        false => tape.append(&bytes),
    };
    deck.with(write).await?;
    let due = recording.padded_range_ms().0 * 90;
    recording.written_range.add_segment(len, (from, through), is_slate, due);
    Ok(())
}

/// Syncs the file, then stores its length.
async fn note(service: &Service, deck: &mut Deck, recording: &Recording) -> Result<()> {
    let written = recording.written_range;
    if service.recordings.get(&recording.id)?.written_range == written {
        return Ok(());
    }
    deck.with(|tape| tape.sync()).await?;
    let noted = service.recordings.edit(&recording.id, |one| {
        one.written_range = written;
        true
    });
    noted.await.map(drop)
}

/// Truncates the file to its stored length; removes it if that is 0.
async fn trim(service: &Service, id: &str) {
    let Ok(recording) = service.recordings.get(id) else { return };
    let (Some(path), Ok(shelf)) = (recording.path, service.recordings.shelf()) else { return };
    let (shelf, len) = (shelf.clone(), recording.written_range.bytes);
    let emptied = len == 0;
    let cut = blocking(move || match emptied {
        true => shelf.remove(Path::new(&path)).map(drop),
        false => shelf.resume(Path::new(&path), len).map(drop),
    });
    if let Err(fault) = cut.await {
        tracing::warn!(recording.id = id, %fault, "the file of a recording could not be truncated to its stored length");
    } else if emptied {
        let gone = service.recordings.edit(id, |one| {
            one.path = None;
            true
        });
        if let Err(fault) = gone.await {
            tracing::debug!(recording.id = id, %fault, "the path of an empty recording could not be cleared");
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T> {
    let done = timeout(STORAGE_DEADLINE, tokio::task::spawn_blocking(work)).await.map_err(|_| slow())?;
    done.map_err(Error::internal)?.map_err(|cause| refused(&cause))
}

fn slow() -> Error {
    Error::new(Code::StorageTimeout, "the recordings folder did not respond within 15 s")
}

fn full() -> Error {
    Error::new(Code::StorageFull, "the disk of the recordings is full; the part recorded so far is kept")
}

fn refused(cause: &std::io::Error) -> Error {
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => full().with_cause(cause),
        ErrorKind::NotFound | ErrorKind::UnexpectedEof => {
            Error::new(Code::SourceChanged, "the file was removed or truncated during the recording").with_cause(cause)
        }
        _ => Error::new(Code::SourceReadFailed, "the file of the recording could not be written").with_cause(cause),
    }
}
