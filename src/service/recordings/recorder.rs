//! A running recording: segments are appended to its file, and the synced length is stored from time to time.
//!
//! The stored length never exceeds what is on the disk. After a crash the file is truncated to it and continued from there:
//! nothing is in it twice, and nothing is missing that can still be produced. With a state in a database, the former active
//! server may still be running, so the first server that continues a file replaces it by a copy.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Recordings;
use super::recorded_segments::{self, RecordedSegment, RecordingStep};
use crate::domain::recording::{self, Recording, RecordingEvent};
use crate::domain::time::Ticks;
use crate::engine::recording_file::{FileIdentity, RecordingFile, RecordingsFolder};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::random_bytes;
use crate::service::channels::Viewer;

/// How often the length of the file is synced and stored.
const SYNC_INTERVAL: Duration = Duration::from_secs(10);

/// How long the file system may take for one operation.
const STORAGE_DEADLINE: Duration = Duration::from_secs(15);

/// Rate at which a file is copied at least, bytes per second.
const MIN_COPY_RATE: u64 = 10_000_000;

/// Pause between two attempts to store the length of the file.
const STORE_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The first and the longest pause between attempts.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long after the recording's end attempts continue without progress, ms.
const MAX_STALL_MS: i64 = 3_600_000;

/// Records until the end of the recording, or until `stop`.
pub(super) async fn run(service: Arc<Service>, id: String, stop: CancellationToken) {
    let channel = service.recordings.get(&id).map(|recording| recording.channel_id);
    record_with_retries(&service, &id, &stop).await;
    if let Ok(channel) = channel {
        service.viewers.leave(channel, &Viewer::internal(&id));
    }
}

async fn record_with_retries(service: &Arc<Service>, id: &str, stop: &CancellationToken) {
    let recordings = &service.recordings;
    let mut pause = RETRY_PAUSES.0;
    let mut rights = service.rights_changes.subscribe();
    let mut own_file = None;
    loop {
        let previously_written = recordings.get(id).map(|recording| recording.written_range).unwrap_or_default();
        match append_segments(service, id, stop, &mut own_file).await {
            Ok(RecordingEnd::Stopped) => return truncate_to_stored(recordings, id, own_file).await,
            Ok(RecordingEnd::Complete) => return recordings.finish(id, RecordingEvent::End, None).await,
            Err(fault) => {
                let Ok(recording) = recordings.get(id) else { return };
                if is_final(&fault)
                    || recordings.now_ms() > recording.padded_range_ms().1 + MAX_STALL_MS
                        && recording.written_range == previously_written
                {
                    truncate_to_stored(recordings, id, own_file).await;
                    return recordings.finish(id, RecordingEvent::Fail, Some(&fault)).await;
                }
                pause = if recording.written_range == previously_written {
                    (pause * 2).min(RETRY_PAUSES.1)
                } else {
                    RETRY_PAUSES.0
                };
                tracing::info!(recording.id = id, %fault, "recording paused; will retry");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = rights.changed() => {}
            () = stop.cancelled() => return,
        }
    }
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

/// How work on a recording ended.
enum RecordingEnd {
    Complete,
    Stopped,
}

/// Whether the store may take the same change later. Meanwhile the recording continues, because segments of an external
/// channel cannot be made again, and because the store may have a length whose outcome it reported as unknown.
fn is_store_unavailable(fault: &Error) -> bool {
    matches!(fault.code, Code::ServerBusy | Code::Internal)
}

/// Appends segments, starting after the stored length. `own_file` is the file that this server has opened before.
async fn append_segments(
    service: &Arc<Service>,
    id: &str,
    stop: &CancellationToken,
    own_file: &mut Option<FileIdentity>,
) -> Result<RecordingEnd> {
    let recordings = &service.recordings;
    let folder = recordings.folder()?.clone();
    let mut recording = recordings.get(id)?;
    let file = open_file(service, &folder, &mut recording, own_file.clone()).await?;
    *own_file = Some(file.identity().clone());
    let mut open_recording = OpenRecording { file: Some(file) };
    let mut last_sync = Instant::now();
    let mut rights = service.rights_changes.subscribe();
    loop {
        // The guide may have changed the end or title; the written length is more recent here than in the store.
        recording = Recording { written_range: recording.written_range, ..recordings.get(id)? };
        let next = tokio::select! {
            // At shutdown the runs end, too; that is no failure of the recording.
            biased;
            () = stop.cancelled() => return open_recording.sync_and_store(recordings, &recording).await.map(|()| RecordingEnd::Stopped),
            next = recorded_segments::next_step(service, &recording) => next,
        };
        match next {
            Ok(RecordingStep::Segment(segment)) => {
                let appended = append_segment(&mut open_recording, &folder, &mut recording, segment).await;
                if let Err(fault) = appended {
                    // Everything before this segment is intact: store its length.
                    if fault.code == Code::StorageFull {
                        open_recording.sync_and_store(recordings, &recording).await?;
                    }
                    return Err(fault);
                }
                if last_sync.elapsed() >= SYNC_INTERVAL {
                    open_recording.sync_and_try_to_store(recordings, &recording).await?;
                    last_sync = Instant::now();
                }
            }
            Ok(RecordingStep::Wait(wait)) => {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    Ok(()) = rights.changed() => {}
                    () = stop.cancelled() => {}
                }
            }
            outcome => {
                if !open_recording.sync_and_try_to_store(recordings, &recording).await? {
                    tokio::select! {
                        () = tokio::time::sleep(STORE_RETRY_PAUSE) => {}
                        () = stop.cancelled() => {}
                    }
                    continue;
                }
                outcome?;
                if recording.written_range.has_no_programme() {
                    return Err(Error::new(Code::ChannelUnavailable, "nothing was on air during the recording"));
                }
                return Ok(RecordingEnd::Complete);
            }
        }
    }
}

/// The open file of a recording; None while a blocking thread has it.
struct OpenRecording {
    file: Option<RecordingFile>,
}

impl OpenRecording {
    /// Runs `work` on the file in a blocking thread.
    async fn with_file<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut RecordingFile) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let Some(mut file) = self.file.take() else { return Err(timeout_error()) };
        let job = tokio::task::spawn_blocking(move || {
            let done = work(&mut file);
            (file, done)
        });
        let (file, done) =
            timeout(STORAGE_DEADLINE, job).await.map_err(|_| timeout_error())?.map_err(Error::internal)?;
        self.file = Some(file);
        done.map_err(|cause| storage_error(&cause))
    }

    /// Syncs the file, then stores its length; false when the store cannot take it now.
    async fn sync_and_try_to_store(&mut self, recordings: &Recordings, recording: &Recording) -> Result<bool> {
        match self.sync_and_store(recordings, recording).await {
            Err(fault) if self.file.is_some() && is_store_unavailable(&fault) => {
                tracing::warn!(recording.id, %fault, "the length of a recording could not be stored; will retry");
                Ok(false)
            }
            stored => stored.map(|()| true),
        }
    }

    /// Syncs the file, then stores its length.
    async fn sync_and_store(&mut self, recordings: &Recordings, recording: &Recording) -> Result<()> {
        let written = recording.written_range;
        if recordings.get(&recording.id)?.written_range == written {
            return Ok(());
        }
        self.with_file(|file| file.sync()).await?;
        recordings.edit(&recording.id, |stored| stored.written_range = written).await.map(drop)
    }
}

/// Opens the file of a recording at its stored length. The path of a new file is stored before the file is created, so a
/// crash leaves no unknown file.
async fn open_file(
    service: &Service,
    dir: &Arc<RecordingsFolder>,
    recording: &mut Recording,
    own_file: Option<FileIdentity>,
) -> Result<RecordingFile> {
    if let Some(path) = recording.path.clone() {
        let (folder, len, id) = (dir.clone(), recording.written_range.bytes, recording.id.clone());
        let is_replaced = own_file.is_none() && service.config.database.is_some();
        let open = move || match is_replaced {
            true => {
                let nonce = data_encoding::HEXLOWER.encode(&random_bytes::<8>());
                folder.replace(Path::new(&path), len, &id, &nonce)
            }
            false => folder.resume(Path::new(&path), len, own_file.as_ref()),
        };
        let (folder, path) = (dir.clone(), recording.path.clone().unwrap_or_default());
        let open_or_create = move || match open() {
            // The server ended before the file was created.
            Err(cause) if len == 0 && cause.kind() == ErrorKind::NotFound => folder.create(Path::new(&path)),
            opened => opened,
        };
        let limit = STORAGE_DEADLINE + Duration::from_secs(if is_replaced { len / MIN_COPY_RATE } else { 0 });
        return run_blocking_for(limit, open_or_create).await;
    }
    let zone = service.channels.get(recording.channel_id).map(|channel| channel.settings.timezone.clone());
    let (folder, name) = recording::folder_and_file(recording, zone.as_deref().unwrap_or("UTC"));
    let _naming = service.recordings.naming_lock.lock().await;
    let taken_paths: HashSet<_> = service.recordings.all().into_iter().filter_map(|recording| recording.path).collect();
    let naming_folder = dir.clone();
    let is_taken = move |path: &Path| path.to_str().is_none_or(|path| taken_paths.contains(path));
    let path = run_blocking(move || naming_folder.free_path(&folder, &name, is_taken)).await?;
    let path = path
        .to_str()
        .ok_or_else(|| Error::internal("the path of the recordings folder is not valid UTF-8"))?
        .to_owned();
    recording.path = Some(path.clone());
    let store_path = |path: Option<String>| service.recordings.edit(&recording.id, |stored| stored.path = path);
    store_path(Some(path.clone())).await?;
    let dir = dir.clone();
    match run_blocking(move || dir.create(Path::new(&path))).await {
        Ok(file) => Ok(file),
        Err(fault) => {
            // A file at that path is not this recording.
            store_path(None).await?;
            Err(fault)
        }
    }
}

async fn append_segment(
    open_recording: &mut OpenRecording,
    folder: &Arc<RecordingsFolder>,
    recording: &mut Recording,
    segment: RecordedSegment,
) -> Result<()> {
    let RecordedSegment { bytes, start, end, is_slate } = segment;
    let len = bytes.len() as u64;
    let folder = folder.clone();
    let write_checked = move |file: &mut RecordingFile| match folder.free_bytes() < len {
        true => Err(ErrorKind::StorageFull.into()),
        false => file.append(&bytes),
    };
    open_recording.with_file(write_checked).await?;
    let due = Ticks::from_ms(recording.padded_range_ms().0);
    recording.written_range.add_segment(len, (start, end), is_slate, due);
    Ok(())
}

/// Truncates the file to its stored length; removes it if that is 0.
async fn truncate_to_stored(recordings: &Recordings, id: &str, own_file: Option<FileIdentity>) {
    let Ok(recording) = recordings.get(id) else { return };
    let (Some(path), Ok(folder)) = (recording.path, recordings.folder()) else { return };
    let (folder, len) = (folder.clone(), recording.written_range.bytes);
    let is_empty = len == 0;
    let truncated = run_blocking(move || match folder.resume(Path::new(&path), len, own_file.as_ref()) {
        Ok(_) if is_empty => folder.remove(Path::new(&path)).map(drop),
        Err(cause) if is_empty && cause.kind() == ErrorKind::NotFound => Ok(()),
        truncated => truncated.map(drop),
    });
    if let Err(fault) = truncated.await {
        tracing::warn!(recording.id = id, %fault, "the file of a recording could not be truncated to its stored length");
    } else if is_empty && let Err(fault) = recordings.edit(id, |stored| stored.path = None).await {
        tracing::debug!(recording.id = id, %fault, "the path of an empty recording could not be cleared");
    }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T> {
    run_blocking_for(STORAGE_DEADLINE, work).await
}

async fn run_blocking_for<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    let outcome = timeout(limit, tokio::task::spawn_blocking(work)).await.map_err(|_| timeout_error())?;
    outcome.map_err(Error::internal)?.map_err(|cause| storage_error(&cause))
}

fn timeout_error() -> Error {
    Error::new(Code::StorageTimeout, "the recordings folder did not respond within 15 s")
}

fn storage_error(cause: &std::io::Error) -> Error {
    let (code, message) = match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            (Code::StorageFull, "the disk of the recordings is full; the part recorded so far is kept")
        }
        ErrorKind::NotFound | ErrorKind::UnexpectedEof => {
            (Code::SourceChanged, "the file was removed or truncated during the recording")
        }
        _ => (Code::SourceReadFailed, "the file of the recording could not be written"),
    };
    Error::new(code, message).with_cause(cause)
}
