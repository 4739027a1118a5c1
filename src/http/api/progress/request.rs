//! Request bodies that save progress.

use jiff::Timestamp;

use crate::domain::progress::{MediaType, ProgressSave};
use crate::domain::time::round_to_ms;
use crate::http::api::prelude::*;
use crate::http::api::stream_index::deserialize_stream_index;

/// Longest title, bytes.
const MAX_TITLE_BYTES: usize = 512;

/// Longest player name and media type, characters.
const MAX_WORD_CHARS: usize = 64;

/// Longest duration accepted: a thousand years.
const MAX_SECONDS: f64 = 3.2e10;

/// Progress to save.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct SaveRequest {
    media_path: String,
    position_seconds: f64,
    /// `video` (default), `audio`, `audiobook`, `recording`, `channel`, or any other word of 1 to 64 characters without
    /// control characters.
    #[schema(max_length = 64)]
    media_type: Option<String>,
    /// Default: the file name.
    title: Option<String>,
    /// Default: the known duration.
    duration_seconds: Option<f64>,
    /// Whether the file is watched to its end; default false.
    completed: Option<bool>,
    /// Name of the player: 1 to 64 characters without control characters; default `unknown`.
    #[schema(max_length = 64, example = "web")]
    player: Option<String>,
    device_id: Option<String>,
    /// Null or -1: none; absent: the stored one.
    #[serde(default, deserialize_with = "deserialize_stream_index")]
    #[schema(value_type = Option<i64>, minimum = -1)]
    audio_stream_index: Option<Option<u32>>,
    /// Null or -1: none; absent: the stored one.
    #[serde(default, deserialize_with = "deserialize_stream_index")]
    #[schema(value_type = Option<i64>, minimum = -1)]
    subtitle_stream_index: Option<Option<u32>>,
    /// When the device was at this position. A save that is older than the stored record is not applied.
    client_updated_at: Option<String>,
    /// The version that this save replaces. It is not applied if the stored record has another version.
    version: Option<u64>,
}

/// A file to mark as watched.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct WatchedRequest {
    media_path: String,
    media_type: Option<String>,
    title: Option<String>,
    duration_seconds: Option<f64>,
    client_updated_at: Option<String>,
    version: Option<u64>,
}

impl SaveRequest {
    pub fn into_save(self) -> Result<(String, ProgressSave)> {
        let save = ProgressSave {
            media_type: self.media_type.as_deref().map(validate_media_type).transpose()?.unwrap_or_default(),
            title: validate_title(self.title)?,
            position_seconds: Some(validate_seconds("positionSeconds", self.position_seconds)?),
            duration_seconds: optional_seconds("durationSeconds", self.duration_seconds)?,
            completed: self.completed,
            player: validate_player(self.player)?,
            device_id: self.device_id.map(validate_device_id).transpose()?,
            audio_stream_index: self.audio_stream_index,
            subtitle_stream_index: self.subtitle_stream_index,
            client_updated_at: self.client_updated_at.as_deref().map(parse_client_time).transpose()?,
            version: self.version,
            ..ProgressSave::default()
        };
        Ok((self.media_path, save))
    }
}

impl WatchedRequest {
    pub fn into_save(self) -> Result<(String, ProgressSave)> {
        let save = ProgressSave {
            media_type: self.media_type.as_deref().map(validate_media_type).transpose()?.unwrap_or_default(),
            title: validate_title(self.title)?,
            duration_seconds: optional_seconds("durationSeconds", self.duration_seconds)?,
            completed: Some(true),
            marks_watched: true,
            client_updated_at: self.client_updated_at.as_deref().map(parse_client_time).transpose()?,
            version: self.version,
            ..ProgressSave::default()
        };
        Ok((self.media_path, save))
    }
}

/// Validates a number of seconds and rounds it to milliseconds.
pub(in crate::http) fn validate_seconds(field: &str, value: f64) -> Result<f64> {
    if value.is_finite() && (0.0..=MAX_SECONDS).contains(&value) {
        Ok(round_to_ms(value))
    } else {
        Err(Error::invalid_field(field, "must be a number of seconds from 0 to 3.2e10"))
    }
}

pub(in crate::http) fn optional_seconds(field: &str, value: Option<f64>) -> Result<Option<f64>> {
    value.map(|value| validate_seconds(field, value)).transpose()
}

pub(in crate::http) fn validate_title(title: Option<String>) -> Result<Option<String>> {
    match title {
        Some(title) if title.len() > MAX_TITLE_BYTES => {
            Err(Error::invalid_field("title", format!("must be at most {MAX_TITLE_BYTES} bytes")))
        }
        title => Ok(title.filter(|title| !title.is_empty())),
    }
}

/// Validates a player name; None if it is empty.
pub(in crate::http) fn validate_player(name: Option<String>) -> Result<Option<String>> {
    let name = name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    name.map(|name| validate_word("player", name).map(str::to_owned)).transpose()
}

/// Validates a media type; an empty one is the default, `video`.
pub(in crate::http) fn validate_media_type(name: &str) -> Result<MediaType> {
    match name.trim() {
        "" => Ok(MediaType::default()),
        name => validate_word("mediaType", name).map(MediaType::from_word),
    }
}

/// Validates a word of an open set.
fn validate_word<'a>(field: &str, word: &'a str) -> Result<&'a str> {
    if word.chars().count() <= MAX_WORD_CHARS && !word.chars().any(char::is_control) {
        Ok(word)
    } else {
        Err(Error::invalid_field(field, format!("must be 1 to {MAX_WORD_CHARS} characters without control characters")))
    }
}

pub(in crate::http) fn validate_device_id(id: String) -> Result<String> {
    if (1..=128).contains(&id.len()) && !id.chars().any(char::is_control) {
        Ok(id)
    } else {
        Err(Error::invalid_field("deviceId", "must be 1 to 128 bytes without control characters"))
    }
}

/// Parses an instant and truncates it to milliseconds, the precision of the API.
pub(in crate::http) fn parse_client_time(text: &str) -> Result<Timestamp> {
    let at: Timestamp = text
        .parse()
        .map_err(|_| Error::invalid_field("clientUpdatedAt", "must be an instant, e.g. 2026-01-01T00:00:00.000Z"))?;
    Ok(Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at))
}
