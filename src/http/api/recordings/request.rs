//! Request bodies that schedule recordings.

use jiff::Timestamp;

use crate::domain::recording::{MAX_PADDING_MS, Padding, RetentionLimit, SeriesRuleChange};
use crate::http::api::prelude::*;
use crate::service::recordings::{NewRecording, RecordingTarget};

/// Longest title, bytes.
const MAX_TITLE_BYTES: usize = 512;

/// Largest `keep.count` and `keep.days`.
const MAX_KEPT_RECORDINGS: u32 = 1000;
const MAX_KEPT_DAYS: u32 = 3650;

/// A recording request: a guide entry or a range of time, a series, or both.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordingRequest {
    channel_id: Option<u32>,
    /// `id` of a guide entry.
    entry_id: Option<String>,
    /// With `end`, an alternative to `entryId`.
    #[schema(format = DateTime)]
    start: Option<String>,
    #[schema(format = DateTime)]
    end: Option<String>,
    padding_seconds: Option<PaddingRequest>,
    series: Option<SeriesRequest>,
    keep: Option<KeepRequest>,
}

/// Extra recording time around the programme, seconds.
#[derive(Deserialize, ToSchema)]
pub struct PaddingRequest {
    /// 0 (default) to 3600.
    before: Option<f64>,
    /// 0 (default) to 3600.
    after: Option<f64>,
}

/// A rule that records every programme with a title.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeriesRequest {
    /// Title as in the guide, case-insensitive.
    title: Option<String>,
    /// Record only programmes that have not aired before, and each only once. Default false.
    new_only: Option<bool>,
}

/// How long recordings are kept; without limits, forever.
#[derive(Deserialize, ToSchema)]
pub struct KeepRequest {
    /// Keep this many of the newest recordings of the series, 1 to 1000.
    count: Option<u32>,
    /// Keep each recording for this many days after its end, 1 to 3650.
    days: Option<u32>,
}

/// A change of a series rule; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RecordingSeriesChange)]
pub struct SeriesChangeRequest {
    /// Title as in the guide, case-insensitive.
    title: Option<String>,
    /// Record only programmes that have not aired before, and each only once.
    new_only: Option<bool>,
    /// Replaces both; one that is absent becomes 0.
    padding_seconds: Option<PaddingRequest>,
    /// Replaces both limits; `{}` keeps all recordings forever.
    keep: Option<KeepRequest>,
}

impl SeriesChangeRequest {
    pub fn validate(self) -> Result<SeriesRuleChange> {
        Ok(SeriesRuleChange {
            title: self.title.map(|title| validate_title("title", &title)).transpose()?,
            new_only: self.new_only,
            padding: self.padding_seconds.map(PaddingRequest::validate).transpose()?,
            retention: self.keep.map(|keep| keep.validate(true)).transpose()?,
        })
    }
}

impl RecordingRequest {
    pub fn validate(self, user_id: String) -> Result<NewRecording> {
        let channel_id = self.channel_id.ok_or_else(|| Error::invalid_field("channelId", "is missing"))?;
        let series = self.series.map(SeriesRequest::validate).transpose()?;
        let target = match (self.entry_id, self.start, self.end) {
            (Some(entry), None, None) => Some(RecordingTarget::Entry(entry)),
            (Some(_), ..) => return Err(Error::invalid_field("entryId", "must be absent when start or end is given")),
            (None, Some(start), Some(end)) => {
                Some(RecordingTarget::Span(parse_instant_ms("start", &start)?, parse_instant_ms("end", &end)?))
            }
            (None, Some(_), None) => return Err(Error::invalid_field("end", "is missing")),
            (None, None, Some(_)) => return Err(Error::invalid_field("start", "is missing")),
            (None, None, None) if series.is_some() => None,
            (None, None, None) => {
                return Err(Error::invalid_field("entryId", "is required, or start and end, or series"));
            }
        };
        let retention = self.keep.map(|keep| keep.validate(series.is_some())).transpose()?.unwrap_or_default();
        let padding = self.padding_seconds.map_or_else(|| Ok(Padding::default()), PaddingRequest::validate)?;
        Ok(NewRecording { channel_id, user_id, target, padding, series, retention })
    }
}

impl PaddingRequest {
    fn validate(self) -> Result<Padding> {
        let to_ms = |field: &str, seconds: Option<f64>| {
            let ms = (seconds.unwrap_or(0.0) * 1000.0).round();
            match (0.0..=MAX_PADDING_MS as f64).contains(&ms) {
                true => Ok(ms as i64),
                false => Err(Error::invalid_field(field, "must be a number from 0 to 3600")),
            }
        };
        let before_ms = to_ms("paddingSeconds.before", self.before)?;
        Ok(Padding { before_ms, after_ms: to_ms("paddingSeconds.after", self.after)? })
    }
}

impl SeriesRequest {
    fn validate(self) -> Result<(String, bool)> {
        let title = validate_title("series.title", &self.title.unwrap_or_default())?;
        Ok((title, self.new_only.unwrap_or(false)))
    }
}

impl KeepRequest {
    fn validate(self, has_series: bool) -> Result<RetentionLimit> {
        if self.count.is_some() && !has_series {
            return Err(Error::invalid_field("keep.count", "is only valid with series"));
        }
        check_integer("keep.count", self.count, 1..=MAX_KEPT_RECORDINGS)?;
        check_integer("keep.days", self.days, 1..=MAX_KEPT_DAYS)?;
        Ok(RetentionLimit { max_count: self.count, max_days: self.days })
    }
}

fn validate_title(field: &str, title: &str) -> Result<String> {
    let title = title.trim();
    if title.is_empty() || title.len() > MAX_TITLE_BYTES || title.chars().any(char::is_control) {
        let message = format!("must be 1 to {MAX_TITLE_BYTES} bytes without control characters");
        return Err(Error::invalid_field(field, message));
    }
    Ok(title.to_owned())
}

fn parse_instant_ms(field: &str, text: &str) -> Result<i64> {
    let instant = text.parse::<Timestamp>();
    instant
        .map(Timestamp::as_millisecond)
        .map_err(|_| Error::invalid_field(field, "must be an instant, e.g. 2026-01-01T20:15:00Z"))
}
