//! Bodies of recordings to be made, checked.

use jiff::Timestamp;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::recording::{Keep, MOST_PADDING_MS, Padding};
use crate::error::{Error, Result};
use crate::service::recordings::{Asked, Wish};

/// Longest title, bytes.
const MAX_TITLE: usize = 512;

/// Most of a series, and most days, that can be kept.
const MOST_KEPT: u32 = 1000;
const MOST_DAYS: u32 = 3650;

/// What is to be recorded: an entry of the guide or a span, a series, or both.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordingRequest {
    channel_id: Option<u32>,
    /// `id` of an entry of the guide.
    entry_id: Option<String>,
    /// Together with `end`, instead of `entryId`.
    #[schema(format = DateTime)]
    start: Option<String>,
    #[schema(format = DateTime)]
    end: Option<String>,
    padding_seconds: Option<PaddingRequest>,
    series: Option<SeriesRequest>,
    keep: Option<KeepRequest>,
}

/// What is recorded beside the programme.
#[derive(Deserialize, ToSchema)]
pub struct PaddingRequest {
    /// 0 (when absent) to 3600.
    before: Option<f64>,
    /// 0 (when absent) to 3600.
    after: Option<f64>,
}

/// Every programme of a title.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeriesRequest {
    /// As in the guide; small and capital letters are the same.
    title: Option<String>,
    /// Only what was not on before, and each only once.
    new_only: Option<bool>,
}

/// How long recordings are kept; for ever when absent.
#[derive(Deserialize, ToSchema)]
pub struct KeepRequest {
    /// The newest so many of the series, 1 to 1000.
    count: Option<u32>,
    /// Days behind the end of each, 1 to 3650.
    days: Option<u32>,
}

impl RecordingRequest {
    /// # Errors
    /// `VALIDATION_ERROR` naming the first field that cannot stand.
    pub fn checked(self, user_id: String) -> Result<Asked> {
        let channel_id = self.channel_id.ok_or_else(|| Error::field("channelId", "is missing"))?;
        let series = self.series.map(SeriesRequest::checked).transpose()?;
        let wish = match (self.entry_id, self.start, self.end) {
            (Some(entry), None, None) => Some(Wish::Entry(entry)),
            (Some(_), ..) => return Err(Error::field("entryId", "and start with end exclude each other")),
            (None, Some(start), Some(end)) => Some(Wish::Span(instant("start", &start)?, instant("end", &end)?)),
            (None, Some(_), None) => return Err(Error::field("end", "is missing")),
            (None, None, Some(_)) => return Err(Error::field("start", "is missing")),
            (None, None, None) if series.is_some() => None,
            (None, None, None) => return Err(Error::field("entryId", "is missing: or start with end, or series")),
        };
        let keep = self.keep.map_or_else(|| Ok(Keep::default()), |keep| keep.checked(series.is_some()))?;
        let padding = self.padding_seconds.map_or_else(|| Ok(Padding::default()), PaddingRequest::checked)?;
        Ok(Asked { channel_id, user_id, wish, padding, series, keep })
    }
}

impl PaddingRequest {
    fn checked(self) -> Result<Padding> {
        let ms = |field: &str, seconds: Option<f64>| {
            let ms = (seconds.unwrap_or(0.0) * 1000.0).round();
            match (0.0..=MOST_PADDING_MS as f64).contains(&ms) {
                true => Ok(ms as i64),
                false => Err(Error::field(field, "must be a number from 0 to 3600")),
            }
        };
        let before_ms = ms("paddingSeconds.before", self.before)?;
        Ok(Padding { before_ms, after_ms: ms("paddingSeconds.after", self.after)? })
    }
}

impl SeriesRequest {
    fn checked(self) -> Result<(String, bool)> {
        let title = self.title.unwrap_or_default().trim().to_owned();
        match title.is_empty() || title.len() > MAX_TITLE || title.chars().any(char::is_control) {
            true => Err(Error::field("series.title", format!("must have 1 to {MAX_TITLE} bytes of plain text"))),
            false => Ok((title, self.new_only.unwrap_or(false))),
        }
    }
}

impl KeepRequest {
    fn checked(self, series: bool) -> Result<Keep> {
        if self.count.is_some() && !series {
            return Err(Error::field("keep.count", "belongs to a series"));
        }
        if self.count.is_some_and(|count| !(1..=MOST_KEPT).contains(&count)) {
            return Err(Error::field("keep.count", format!("must be an integer from 1 to {MOST_KEPT}")));
        }
        if self.days.is_some_and(|days| !(1..=MOST_DAYS).contains(&days)) {
            return Err(Error::field("keep.days", format!("must be an integer from 1 to {MOST_DAYS}")));
        }
        Ok(Keep { count: self.count, days: self.days })
    }
}

fn instant(field: &str, text: &str) -> Result<i64> {
    let instant = text.parse::<Timestamp>();
    instant
        .map(Timestamp::as_millisecond)
        .map_err(|_| Error::field(field, "must be an instant, e.g. 2026-01-01T20:15:00Z"))
}
