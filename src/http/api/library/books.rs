//! `GET /api/library/books`: audiobooks, each once, whether it is one file or a folder of parts.

use super::albums::parse_sort;
use super::artwork::{ArtworkLinks, ArtworkUrls};
use super::items::{is_scanning, parse_text};
use crate::domain::time::{format_ms, round_to_ms};
use crate::http::api::audiobook::BookProgress;
use crate::http::api::prelude::*;
use crate::service::catalogue::{DEFAULT_LIMIT, ListedBook, MAX_LIMIT, Page};

/// One page of books.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BooksAnswer {
    books: Vec<Book>,
    /// Books on all pages.
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
    /// Whether the library is still being read: more books may come.
    scanning: bool,
}

/// An audiobook, with the progress of the signed-in user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Book {
    /// Identifies the content, as `mediaId` of its progress does.
    id: String,
    /// Its file, or the folder of its parts: `path` of `GET /api/stream/audiobook`.
    audiobook_path: String,
    title: String,
    /// The author; null if its parts have several.
    artist: Option<String>,
    year: Option<u32>,
    file_count: usize,
    /// Null until all files were examined, which happens while the server is idle.
    duration_seconds: Option<f64>,
    #[schema(format = DateTime)]
    added_at: String,
    /// The `poster` is the cover.
    artwork: ArtworkUrls,
    /// Whether the user has completed it.
    watched: bool,
    /// Null for a book that was never started.
    progress: Option<BookProgress>,
}

/// Audiobooks of the library
///
/// A folder whose audio is one book is listed once; the files of other folders are books of their own.
#[utoipa::path(get, path = "/api/library/books", params(
    ("artist" = Option<String>, Query, description = "Only books by this author; case and diacritics do not matter"),
    ("sort" = Option<String>, Query, description = "`artist` (default: the author), `title`, `added` (the newest first) or `year` (the latest first)"),
    ("limit" = Option<usize>, Query, description = "Books per page, 1 to 200; default 50"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page, with the same other parameters")), responses(
    (status = 200, description = "The books", body = BooksAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn books(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let links = ArtworkLinks::new(&service, principal);
    let limit = call.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let author = parse_text(&call, "artist")?;
    let Page { entries, total, next_cursor } =
        service.list_books(principal, author.as_deref(), parse_sort(&call)?, call.query("cursor"), limit)?;
    let books = entries.into_iter().map(|book| Book::new(book, &links)).collect();
    Ok(reply::json(&BooksAnswer { books, total, next_cursor, scanning: is_scanning(&service) }))
}

impl Book {
    pub(super) fn new(book: ListedBook, links: &ArtworkLinks<'_>) -> Self {
        let ListedBook { media_id, path, summary, progress } = book;
        let (owner, versions) = &summary.artwork;
        Self {
            id: media_id,
            audiobook_path: path,
            artwork: links.of_item(*owner, versions),
            title: summary.title,
            artist: summary.artist,
            year: summary.year,
            file_count: summary.file_count,
            duration_seconds: summary.duration_seconds.map(round_to_ms),
            added_at: format_ms(summary.added_ms),
            watched: progress.as_ref().is_some_and(|record| record.completed),
            progress: progress.map(|record| BookProgress::new(record, true)),
        }
    }
}
