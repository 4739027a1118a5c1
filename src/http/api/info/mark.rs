//! A part that viewers may skip, in media info.

use crate::domain::marks;
use crate::http::api::prelude::*;

/// A part of an item that viewers may skip.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SkipMark)]
pub(super) struct Mark {
    /// `recap`, `intro` or `credits`.
    kind: &'static str,
    start_seconds: f64,
    end_seconds: f64,
    /// `chapterName`: a chapter has such a name. `commonAudio`: another episode of the season has the same audio. `commonVideo`: its frames
    /// are from earlier episodes. `darkVideo`: the video is text on black to the end.
    source: &'static str,
    /// 0 to 1: how certain it is.
    confidence: f64,
}

impl From<marks::Mark> for Mark {
    fn from(mark: marks::Mark) -> Self {
        Self {
            kind: mark.kind.as_str(),
            start_seconds: mark.start_ms as f64 / 1000.0,
            end_seconds: mark.end_ms as f64 / 1000.0,
            source: mark.source.as_str(),
            confidence: f64::from(mark.confidence_percent) / 100.0,
        }
    }
}
