//! The JSON form of an item of the library.

use super::artwork::{ArtworkLinks, ArtworkUrls};
use crate::domain::time::{format_ms, round_to_ms};
use crate::http::api::prelude::*;
use crate::http::api::progress::WatchProgress;
use crate::service::catalogue::{ListedItem, Technical};

/// An item of the library, with the progress of the signed-in user.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LibraryItem {
    /// Identifies the content, as `mediaId` of progress does: stays the same when the file is renamed or moved.
    id: String,
    /// `film`, `episode`, `music`, `audiobook`, `homeVideo` or `extra`.
    kind: &'static str,
    media_path: String,
    title: String,
    /// The title without its article.
    sort_title: String,
    year: Option<u32>,
    /// The series of an episode: `GET /api/library/series/{id}`.
    series_id: Option<String>,
    series_title: Option<String>,
    /// 0 for specials; null for episodes that are numbered without seasons.
    season: Option<u32>,
    episode: Option<u32>,
    /// The last episode, if the file has several.
    last_episode: Option<u32>,
    /// Of music; the author of an audiobook.
    artist: Option<String>,
    album: Option<String>,
    /// The album of music: `GET /api/library/albums/{id}`. Parts of one audiobook have the same.
    album_id: Option<String>,
    disc: Option<u32>,
    track: Option<u32>,
    /// Day of the first release, on which an episode aired, or in the name of a home video.
    #[schema(format = Date)]
    released_on: Option<String>,
    genres: Vec<String>,
    /// Null until the file was examined, which happens while the server is idle.
    duration_seconds: Option<f64>,
    size_bytes: u64,
    #[schema(format = DateTime)]
    added_at: String,
    artwork: ArtworkUrls,
    /// Whether the user has completed it.
    watched: bool,
    /// Null for an item that was never started.
    progress: Option<WatchProgress>,
}

/// A summary of what the file contains.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TechnicalSummary {
    container: String,
    video_codec: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    /// `hdr10`, `hlg` or `dolby-vision`.
    hdr: Option<String>,
    audio_codecs: Vec<String>,
}

impl LibraryItem {
    pub(super) fn new(user_id: &str, item: ListedItem, links: &ArtworkLinks<'_>) -> Self {
        let (series_id, series_title) =
            item.series.map_or((None, None), |(id, title)| (Some(id.to_string()), Some(title)));
        Self {
            id: item.id.to_string(),
            kind: item.kind.as_str(),
            media_path: item.path,
            title: item.title,
            sort_title: item.sort_title,
            year: item.year,
            series_id,
            series_title,
            season: item.season,
            episode: item.episode,
            last_episode: item.last_episode,
            artist: item.artist,
            album: item.album,
            album_id: item.album_id.map(|id| id.to_string()),
            disc: item.disc,
            track: item.track,
            released_on: item.released_on.map(|day| day.to_string()),
            genres: item.genres,
            duration_seconds: item.duration_seconds.map(round_to_ms),
            size_bytes: item.size_bytes,
            added_at: format_ms(item.added_ms),
            artwork: links.of_item(item.id, &item.artwork),
            watched: item.progress.as_ref().is_some_and(|record| record.completed),
            progress: item.progress.map(|record| WatchProgress::new(user_id, record, true)),
        }
    }
}

impl From<Technical> for TechnicalSummary {
    fn from(technical: Technical) -> Self {
        let Technical { container, video_codec, width, height, hdr, audio_codecs, .. } = technical;
        Self { container, video_codec, width, height, hdr, audio_codecs }
    }
}
