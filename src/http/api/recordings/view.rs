//! The JSON form of recordings and series rules.

use crate::domain::recording::{Padding, Recording, RecordingFailure, RetentionLimit, SeriesRule};
use crate::domain::time::{format_ms, round_to_ms, to_seconds};
use crate::http::api::prelude::*;

/// A recording.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Recording)]
pub struct RecordingView {
    id: String,
    channel_id: u32,
    /// Null if the channel was deleted.
    channel_name: Option<String>,
    /// The user who scheduled it.
    user_id: String,
    title: String,
    subtitle: Option<String>,
    season: Option<u32>,
    episode: Option<u32>,
    entry_id: Option<String>,
    /// The programme, without padding.
    #[schema(format = DateTime)]
    start: String,
    #[schema(format = DateTime)]
    end: String,
    padding_seconds: PaddingView,
    /// `scheduled`, `recording`, `complete`, `failed` or `cancelled`.
    state: &'static str,
    failure: Option<FailureView>,
    /// Ids of recordings it conflicts with: there are fewer encode slots than channels to record at the same time.
    conflicts: Vec<String>,
    series_id: Option<String>,
    keep: KeepView,
    /// Path of the file; it can be played during the recording.
    path: Option<String>,
    direct_url: Option<String>,
    /// Bytes that are safely on disk.
    size_bytes: u64,
    /// Duration from the first to the last video frame.
    recorded_seconds: f64,
    /// Time missing from the file, or recorded as a slate, because the channel or the server was down.
    missing_seconds: f64,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    ended_at: Option<String>,
}

/// Extra recording time around the programme, seconds.
#[derive(Serialize, ToSchema)]
#[schema(as = Padding)]
pub struct PaddingView {
    before: f64,
    after: f64,
}

/// Why a recording failed.
#[derive(Serialize, ToSchema)]
#[schema(as = RecordingFailure)]
pub struct FailureView {
    code: String,
    message: String,
    #[schema(format = DateTime)]
    at: String,
}

/// How long recordings are kept; null for no limit.
#[derive(Serialize, ToSchema)]
#[schema(as = Keep)]
pub struct KeepView {
    count: Option<u32>,
    days: Option<u32>,
}

/// A rule that records every programme with a title.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RecordingSeries)]
pub struct SeriesView {
    id: String,
    channel_id: u32,
    user_id: String,
    title: String,
    new_only: bool,
    padding_seconds: PaddingView,
    keep: KeepView,
    #[schema(format = DateTime)]
    created_at: String,
}

impl RecordingView {
    pub fn new(service: &Service, recording: &Recording) -> Self {
        let file_url = |path: &String| ResourceUrls::from_config(&service.config).media_file(path);
        let to_failure =
            |RecordingFailure { code, message, at_ms }| FailureView { code, message, at: format_ms(at_ms) };
        let written = recording.written_range;
        Self {
            id: recording.id.clone(),
            channel_id: recording.channel_id,
            channel_name: service.channels.get(recording.channel_id).ok().map(|found| found.settings.name.to_string()),
            user_id: recording.user_id.clone(),
            title: recording.title.clone(),
            subtitle: recording.subtitle.clone(),
            season: recording.season,
            episode: recording.episode,
            entry_id: recording.guide_entry_id.clone(),
            start: format_ms(recording.start_ms),
            end: format_ms(recording.end_ms),
            padding_seconds: PaddingView::new(recording.padding),
            state: recording.state.as_str(),
            failure: recording.failure.clone().map(to_failure),
            conflicts: service.recording_conflicts(recording),
            series_id: recording.rule_id.clone(),
            keep: KeepView::new(recording.retention),
            path: recording.path.clone(),
            direct_url: recording.path.as_ref().map(file_url),
            size_bytes: written.bytes,
            recorded_seconds: round_to_ms(to_seconds(written.through_ticks - written.from_ticks)),
            missing_seconds: round_to_ms(to_seconds(written.missing_ticks)),
            created_at: format_ms(recording.created_ms),
            ended_at: recording.ended_ms.map(format_ms),
        }
    }
}

impl SeriesView {
    pub fn new(rule: &SeriesRule) -> Self {
        Self {
            id: rule.id.clone(),
            channel_id: rule.channel_id,
            user_id: rule.user_id.clone(),
            title: rule.title.clone(),
            new_only: rule.new_only,
            padding_seconds: PaddingView::new(rule.padding),
            keep: KeepView::new(rule.retention),
            created_at: format_ms(rule.created_ms),
        }
    }
}

impl PaddingView {
    fn new(padding: Padding) -> Self {
        let seconds = |ms: i64| ms as f64 / 1000.0;
        Self { before: seconds(padding.before_ms), after: seconds(padding.after_ms) }
    }
}

impl KeepView {
    fn new(retention: RetentionLimit) -> Self {
        Self { count: retention.max_count, days: retention.max_days }
    }
}
