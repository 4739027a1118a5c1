//! The JSON form of a watch-progress record.

use crate::domain::progress::{EarlierPosition, ProgressRecord};
use crate::domain::time::{format_timestamp, round_to_ms};
use crate::http::api::prelude::*;

/// One user's progress in one item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchProgress {
    id: String,
    user_id: String,
    /// Identifies the content: stays the same when the file is renamed or moved.
    media_id: String,
    media_path: String,
    media_type: String,
    title: String,
    position_seconds: f64,
    /// 0 if unknown.
    duration_seconds: f64,
    progress_percentage: f64,
    completed: bool,
    player: String,
    device_id: Option<String>,
    audio_stream_index: Option<u32>,
    subtitle_stream_index: Option<u32>,
    /// Where to resume: 0 if the file is completed, was barely started, or is in the end credits.
    resume_position_seconds: f64,
    play_count: u32,
    ever_completed: bool,
    #[schema(format = DateTime)]
    completed_at: Option<String>,
    #[schema(format = DateTime)]
    first_watched_at: String,
    #[schema(format = DateTime)]
    last_watched_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// Increases with every change.
    version: u64,
    /// Positions that were replaced by an accidental return to the start, newest first.
    position_history: Vec<PastPosition>,
    /// Whether the save of this request was applied.
    applied: bool,
    /// In lists: whether the file exists now.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PastPosition {
    position_seconds: f64,
    #[schema(format = DateTime)]
    at: String,
}

impl WatchProgress {
    pub fn new(user_id: &str, record: ProgressRecord, applied: bool) -> Self {
        let resume_seconds = record.resume_seconds();
        let hash = blake3::hash(format!("{user_id}/{}", record.media_id).as_bytes()).to_hex();
        Self {
            id: format!("wp_{}", &hash[..16]),
            user_id: user_id.to_owned(),
            progress_percentage: record.percentage(),
            media_id: record.media_id,
            media_path: record.path,
            media_type: record.media_type.into(),
            title: record.title,
            position_seconds: round_to_ms(record.position_seconds),
            duration_seconds: round_to_ms(record.duration_seconds),
            completed: record.completed,
            player: record.player,
            device_id: record.device_id,
            audio_stream_index: record.audio_stream_index,
            subtitle_stream_index: record.subtitle_stream_index,
            resume_position_seconds: round_to_ms(resume_seconds),
            play_count: record.play_count,
            ever_completed: record.ever_completed,
            completed_at: record.completed_at.map(format_timestamp),
            first_watched_at: format_timestamp(record.first_watched_at),
            last_watched_at: format_timestamp(record.last_watched_at),
            updated_at: format_timestamp(record.updated_at),
            version: record.version,
            position_history: record.earlier_positions.into_iter().map(PastPosition::from).collect(),
            applied,
            available: None,
        }
    }

    /// The record as an entry of a list.
    pub fn with_availability(self, available: bool) -> Self {
        Self { available: Some(available), ..self }
    }
}

impl From<EarlierPosition> for PastPosition {
    fn from(past: EarlierPosition) -> Self {
        Self { position_seconds: round_to_ms(past.position_seconds), at: format_timestamp(past.saved_at) }
    }
}
