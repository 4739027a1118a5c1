//! Bodies of saves, checked.

use jiff::Timestamp;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::progress::MediaType;
use crate::domain::time::round_ms;
use crate::error::{Error, Result};
use crate::http::stream_index::StreamIndex;
use crate::service::progress::Wish;

/// Longest title, bytes.
const MAX_TITLE_BYTES: usize = 512;

/// Longest name of a player or of a type of media, characters.
const MAX_WORD: usize = 64;

/// No item is longer: a thousand years of it.
const MAX_SECONDS: f64 = 3.2e10;

/// How far one is.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct SaveRequest {
    media_path: String,
    position_seconds: f64,
    /// `video` when absent; or `audio`, `audiobook`, `recording`, `channel`, or another word, which is kept as it is: 1 to
    /// 64 characters, none of them a control character.
    #[schema(max_length = 64)]
    media_type: Option<String>,
    /// The file's name when absent.
    title: Option<String>,
    /// The known one when absent.
    duration_seconds: Option<f64>,
    /// False when absent.
    completed: Option<bool>,
    /// Any word, kept as it is: 1 to 64 characters, none of them a control character; `unknown` when absent.
    #[schema(max_length = 64, example = "web")]
    player: Option<String>,
    device_id: Option<String>,
    /// Null or -1 = none; absent = the one remembered.
    #[serde(default)]
    #[schema(value_type = Option<i64>, minimum = -1)]
    audio_stream_index: StreamIndex,
    /// Null or -1 = none; absent = the one remembered.
    #[serde(default)]
    #[schema(value_type = Option<i64>, minimum = -1)]
    subtitle_stream_index: StreamIndex,
    /// When the device saw this: an older save than what stands changes nothing.
    client_updated_at: Option<String>,
    /// The version this changes: any other than what stands changes nothing.
    version: Option<u64>,
}

/// A file somebody knows.
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
    pub fn wish(self) -> Result<(String, Wish)> {
        let wish = Wish {
            media_type: self.media_type.as_deref().map(media_type).transpose()?.unwrap_or_default(),
            title: title(self.title)?,
            position_seconds: Some(seconds("positionSeconds", self.position_seconds)?),
            duration_seconds: self.duration_seconds.map(|value| seconds("durationSeconds", value)).transpose()?,
            completed: self.completed,
            player: player(self.player)?,
            device_id: self.device_id.map(device).transpose()?,
            audio_stream_index: self.audio_stream_index.given(),
            subtitle_stream_index: self.subtitle_stream_index.given(),
            client_updated_at: self.client_updated_at.as_deref().map(time).transpose()?,
            version: self.version,
            ..Wish::default()
        };
        Ok((self.media_path, wish))
    }
}

impl WatchedRequest {
    pub fn wish(self) -> Result<(String, Wish)> {
        let wish = Wish {
            media_type: self.media_type.as_deref().map(media_type).transpose()?.unwrap_or_default(),
            title: title(self.title)?,
            duration_seconds: self.duration_seconds.map(|value| seconds("durationSeconds", value)).transpose()?,
            completed: Some(true),
            marks_watched: true,
            client_updated_at: self.client_updated_at.as_deref().map(time).transpose()?,
            version: self.version,
            ..Wish::default()
        };
        Ok((self.media_path, wish))
    }
}

/// Seconds as they are kept.
pub(in crate::http) fn seconds(field: &str, value: f64) -> Result<f64> {
    if value.is_finite() && (0.0..=MAX_SECONDS).contains(&value) {
        Ok(round_ms(value))
    } else {
        Err(Error::field(field, "must be a number of seconds from 0"))
    }
}

pub(in crate::http) fn title(title: Option<String>) -> Result<Option<String>> {
    match title {
        Some(title) if title.len() > MAX_TITLE_BYTES => {
            Err(Error::field("title", format!("is longer than {MAX_TITLE_BYTES} bytes")))
        }
        title => Ok(title.filter(|title| !title.is_empty())),
    }
}

/// A player's name as it came; None when it is empty.
pub(in crate::http) fn player(name: Option<String>) -> Result<Option<String>> {
    let name = name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    name.map(|name| word("player", name).map(str::to_owned)).transpose()
}

/// What is played; the empty word is none.
pub(in crate::http) fn media_type(name: &str) -> Result<MediaType> {
    match name.trim() {
        "" => Ok(MediaType::default()),
        name => word("mediaType", name).map(MediaType::new),
    }
}

/// A word out of an open set.
fn word<'a>(field: &str, word: &'a str) -> Result<&'a str> {
    if word.chars().count() <= MAX_WORD && !word.chars().any(char::is_control) {
        Ok(word)
    } else {
        Err(Error::field(field, format!("must be 1 to {MAX_WORD} characters, none of them a control character")))
    }
}

pub(in crate::http) fn device(id: String) -> Result<String> {
    if (1..=128).contains(&id.len()) && !id.chars().any(char::is_control) {
        Ok(id)
    } else {
        Err(Error::field("deviceId", "must be 1 to 128 bytes without control characters"))
    }
}

/// An instant; what is finer than the wire is cut.
pub(in crate::http) fn time(text: &str) -> Result<Timestamp> {
    let at: Timestamp = text
        .parse()
        .map_err(|_| Error::field("clientUpdatedAt", "must be an instant like 2026-01-01T00:00:00.000Z"))?;
    Ok(Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at))
}
