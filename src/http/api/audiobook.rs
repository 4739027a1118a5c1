//! `/api/stream/audiobook`: audiobooks as one timeline of files and chapters, and progress in them.

use super::progress::{PastPosition, parse_filter, parse_limit, request, save_response, versioned_json};
use crate::domain::progress::{ProgressRecord, ProgressSave};
use crate::domain::time::{format_timestamp, round_to_ms};
use crate::http::api::prelude::*;
use crate::service::progress::audiobook::{Audiobook, AudiobookChapter, AudiobookPart, BookPositionUpdate};

/// Progress in an audiobook to save.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BookSaveRequest {
    /// Path of a file, or of a folder whose files form one book.
    audiobook_path: String,
    /// In the book; in the file, if the path is that of a part.
    position_seconds: f64,
    title: Option<String>,
    /// Default: the chapter at the position. Computed for a part.
    chapter_index: Option<u32>,
    chapter_position_seconds: Option<f64>,
    /// Default: the duration of the files.
    duration_seconds: Option<f64>,
    /// Computed if absent or off by more than 1.
    progress_percentage: Option<f64>,
    /// 0.25 to 4; default: the stored rate, or 1.
    playback_rate: Option<f64>,
    completed: Option<bool>,
    player: Option<String>,
    device_id: Option<String>,
    /// When the device was at this position. A save that is older than the stored record is not applied.
    client_updated_at: Option<String>,
    /// The version that this save replaces. It is not applied if the stored record has another version.
    version: Option<u64>,
}

/// One user's progress in one audiobook.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BookProgress {
    audiobook_path: String,
    /// Identifies the content: stays the same when files are renamed or moved.
    media_id: String,
    title: String,
    chapter_index: u32,
    chapter_position_seconds: f64,
    position_seconds: f64,
    duration_seconds: f64,
    progress_percentage: f64,
    playback_rate: f64,
    completed: bool,
    /// The file to resume; null if it is not known.
    file_path: Option<String>,
    /// The position in that file.
    file_position_seconds: Option<f64>,
    #[schema(format = DateTime)]
    last_watched_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    version: u64,
    /// Positions that were replaced by an accidental return to the start, newest first.
    position_history: Vec<PastPosition>,
    /// Whether the save of this request was applied.
    applied: bool,
    /// In lists: whether the book exists now.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<bool>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct BookProgressAnswer {
    /// Null for a book that was never played.
    progress: Option<BookProgress>,
}

/// Result of a reset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BookResetAnswer {
    audiobook_path: String,
    /// False if there was no progress.
    deleted: bool,
}

/// A page of the audiobook history.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BookHistoryAnswer {
    history: Vec<BookProgress>,
    limit: usize,
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
}

/// An audiobook: files and chapters on one timeline.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BookAnswer {
    audiobook_path: String,
    media_id: String,
    title: String,
    duration_seconds: f64,
    files: Vec<BookFile>,
    chapters: Vec<BookChapter>,
    /// Null for a book that was never played.
    progress: Option<BookProgress>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BookFile {
    path: String,
    mime_type: String,
    /// On the book's timeline.
    start_seconds: f64,
    duration_seconds: f64,
    /// The file itself. If a player cannot play it, use `POST /api/stream/transcode/start`.
    direct_url: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BookChapter {
    index: usize,
    title: Option<String>,
    /// On the book's timeline.
    start_seconds: f64,
    end_seconds: f64,
    file_index: usize,
    /// Start of the chapter in its file.
    file_start_seconds: f64,
}

/// Files and chapters of an audiobook on one timeline
///
/// The path of a part gives its whole book.
#[utoipa::path(get, path = "/api/stream/audiobook", params(("path" = String, Query, description = "Absolute path of a file or a folder")), responses(
    (status = 200, description = "The book", body = BookAnswer),
    (status = 404, description = "`NOT_FOUND`"),
    (status = 415, description = "`UNSUPPORTED_MEDIA_TYPE`: it has no audio")))]
pub async fn book(service: Arc<Service>, call: Call) -> Result<Response> {
    let path = call.media_path()?;
    let user = call.user()?;
    let book = service.load_whole_book(user, path).await?;
    let progress = service.book_progress(user, &book.item.path).await?;
    Ok(reply::json(&BookAnswer::new(book, progress, ResourceUrls::from_config(&service.config))))
}

/// Save progress in an audiobook
///
/// A book of several files has one progress. A client may state the path of one part with a position in it: the end of a part is the
/// start of the next, and the last part completes the book. It gets its answers as progress in that part, with the version of the book.
#[utoipa::path(post, path = "/api/stream/audiobook/progress", request_body = BookSaveRequest, responses(
    (status = 200, description = "The stored record; `applied` is false if a newer one was already stored", body = BookProgressAnswer),
    (status = 403, description = "`FORBIDDEN`: the path is outside the library roots"),
    (status = 404, description = "`NOT_FOUND`: no such file or folder"),
    (status = 409, description = "`CONFLICT`: If-Match names another version than the stored one"),
    (status = 507, description = "`STORAGE_FULL`: nothing was saved; older progress is kept")))]
pub async fn save(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: BookSaveRequest = call.json().await?;
    let (path, mut save, book_position) = request.into_save()?;
    save.version = call.if_match_version()?.or(save.version);
    let result = service.save_audiobook_progress(call.user()?, &path, save, book_position).await?;
    let to_answer = |record, applied| BookProgressAnswer { progress: Some(BookProgress::new(record, applied)) };
    save_response(&call, result, to_answer)
}

/// Progress in an audiobook
#[utoipa::path(get, path = "/api/stream/audiobook/progress", params(
    ("path" = String, Query, description = "Absolute path of a file or a folder")), responses(
    (status = 200, description = "The progress", body = BookProgressAnswer),
    (status = 404, description = "`NOT_FOUND`: no such file or folder, and no progress is stored for the path")))]
pub async fn read(service: Arc<Service>, call: Call) -> Result<Response> {
    let record = service.audiobook_progress(call.user()?, call.media_path()?).await?;
    let version = record.as_ref().map(|record| record.version);
    let progress = record.map(|record| BookProgress::new(record, true));
    Ok(versioned_json(&BookProgressAnswer { progress }, version))
}

/// Delete the progress in an audiobook
#[utoipa::path(delete, path = "/api/stream/audiobook/progress", params(
    ("path" = String, Query, description = "Absolute path of a file or a folder")), responses(
    (status = 200, description = "No progress is stored any more", body = BookResetAnswer)))]
pub async fn reset(service: Arc<Service>, call: Call) -> Result<Response> {
    let (audiobook_path, deleted) = service.reset_audiobook_progress(call.user()?, call.media_path()?).await?;
    Ok(reply::json(&BookResetAnswer { audiobook_path, deleted }))
}

/// Audiobook history, newest first
#[utoipa::path(get, path = "/api/stream/audiobook/history", params(
    ("limit" = Option<usize>, Query, description = "Records per page, 1 to 200; default 20"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ("status" = Option<String>, Query, description = "`all` (default), `in_progress` or `completed`")), responses(
    (status = 200, description = "The records; `available` says whether the book exists", body = BookHistoryAnswer)))]
pub async fn history(service: Arc<Service>, call: Call) -> Result<Response> {
    let limit = parse_limit(&call)?;
    let page = service.book_history(call.user()?, parse_filter(&call)?, call.query("cursor"), limit)?;
    let exists = service.library.check_available(page.entries.iter().map(|record| record.path.clone()).collect()).await;
    let to_entry = |(record, found)| BookProgress { available: Some(found), ..BookProgress::new(record, true) };
    let history = page.entries.into_iter().zip(exists).map(to_entry).collect();
    Ok(reply::json(&BookHistoryAnswer { history, limit, total: page.total, next_cursor: page.next_cursor }))
}

impl BookSaveRequest {
    fn into_save(self) -> Result<(String, ProgressSave, BookPositionUpdate)> {
        let check_range = |field: &str, value: Option<f64>, low: f64, high: f64| match value {
            Some(value) if !(low..=high).contains(&value) => {
                Err(Error::invalid_field(field, format!("must be a number from {low} to {high}")))
            }
            value => Ok(value),
        };
        let book_position = BookPositionUpdate {
            chapter_index: self.chapter_index,
            chapter_position_seconds: request::optional_seconds(
                "chapterPositionSeconds",
                self.chapter_position_seconds,
            )?,
            playback_rate: check_range("playbackRate", self.playback_rate, 0.25, 4.0)?,
            percentage: check_range("progressPercentage", self.progress_percentage, 0.0, 100.0)?,
        };
        let save = ProgressSave {
            title: request::validate_title(self.title)?,
            position_seconds: Some(request::validate_seconds("positionSeconds", self.position_seconds)?),
            duration_seconds: request::optional_seconds("durationSeconds", self.duration_seconds)?,
            completed: self.completed,
            player: request::validate_player(self.player)?,
            device_id: self.device_id.map(request::validate_device_id).transpose()?,
            client_updated_at: self.client_updated_at.as_deref().map(request::parse_client_time).transpose()?,
            version: self.version,
            ..ProgressSave::default()
        };
        Ok((self.audiobook_path, save, book_position))
    }
}

impl BookProgress {
    pub fn new(record: ProgressRecord, applied: bool) -> Self {
        let percentage = record.percentage();
        let file = file_to_resume(&record);
        let (file_path, file_position_seconds) = file.unzip();
        let (chapter_index, seconds, playback_rate) = record.book.map_or((0, record.position_seconds, 1.0), |book| {
            (book.chapter_index, book.chapter_position_seconds, book.playback_rate)
        });
        Self {
            audiobook_path: record.path,
            media_id: record.media_id,
            title: record.title,
            chapter_index,
            chapter_position_seconds: round_to_ms(seconds),
            position_seconds: round_to_ms(record.position_seconds),
            duration_seconds: round_to_ms(record.duration_seconds),
            progress_percentage: percentage,
            playback_rate,
            completed: record.completed,
            file_path,
            file_position_seconds: file_position_seconds.map(round_to_ms),
            last_watched_at: format_timestamp(record.last_watched_at),
            updated_at: format_timestamp(record.updated_at),
            version: record.version,
            position_history: record.earlier_positions.into_iter().map(PastPosition::from).collect(),
            applied,
            available: None,
        }
    }
}

/// The file to resume and the position in it. Progress in a folder of an earlier version does not state it.
fn file_to_resume(record: &ProgressRecord) -> Option<(String, f64)> {
    match record.book.as_ref().and_then(|book| book.file.as_ref()) {
        Some(file) => Some((format!("{}/{}", record.path, file.name), file.position_seconds)),
        None if record.size_bytes == 0 => None,
        None => Some((record.path.clone(), record.position_seconds)),
    }
}

impl BookAnswer {
    fn new(book: Audiobook, progress: Option<ProgressRecord>, addresses: ResourceUrls) -> Self {
        let to_chapter = |(index, chapter): (usize, &AudiobookChapter)| BookChapter {
            index,
            title: chapter.title.clone(),
            start_seconds: round_to_ms(chapter.start_seconds),
            end_seconds: round_to_ms(chapter.end_seconds),
            file_index: chapter.part_index,
            file_start_seconds: round_to_ms(chapter.start_seconds - book.parts[chapter.part_index].start_seconds),
        };
        let chapters = book.chapters.iter().enumerate().map(to_chapter).collect();
        let to_file = |part: AudiobookPart| BookFile {
            direct_url: addresses.media_file(&part.path),
            path: part.path,
            mime_type: part.mime_type,
            start_seconds: round_to_ms(part.start_seconds),
            duration_seconds: round_to_ms(part.duration_seconds),
        };
        Self {
            audiobook_path: book.item.path,
            media_id: book.item.media_id,
            title: book.item.title,
            duration_seconds: round_to_ms(book.duration_seconds),
            files: book.parts.into_iter().map(to_file).collect(),
            chapters,
            progress: progress.map(|record| BookProgress::new(record, true)),
        }
    }
}
