//! The record of a session, from which it continues after the server was restarted.

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan_digest::plan_digest;
use crate::service::renditions::planner::{EncodeChoice, RenditionId, SessionPlan, StartRequest};

/// A live session as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    pub user_id: String,
    pub started_at: Timestamp,
    request: StartRequest,
    encode_choice: Option<EncodeChoice>,
    /// The session ends if it is planned differently now.
    plan_digest: String,
    pub(super) published: PublishedParts,
}

/// Parts of playlists and files that players got and that a backend made. Made again, they might have other bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PublishedParts {
    /// The segment at the start position existed.
    pub(super) is_ready: bool,
    /// RFC 6381 codec string of the video; None if it is not known.
    pub(super) video_codec: Option<String>,
    pub(super) init_segments: Vec<InitSegment>,
    /// The init segment of its I-frames, if they are made.
    pub(super) iframe_init: Option<StoredBytes>,
}

/// The published init segment of an encoded rendition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct InitSegment {
    pub(super) rendition: RenditionId,
    pub(super) bytes: StoredBytes,
}

/// Bytes, in Base64 on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct StoredBytes(pub(super) Bytes);

impl From<StoredBytes> for String {
    fn from(stored: StoredBytes) -> Self {
        data_encoding::BASE64.encode(&stored.0)
    }
}

impl TryFrom<String> for StoredBytes {
    type Error = data_encoding::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        data_encoding::BASE64.decode(text.as_bytes()).map(|bytes| Self(bytes.into()))
    }
}

impl SessionRecord {
    pub(super) fn new(user_id: &str, started_at: Timestamp, plan: &SessionPlan, published: PublishedParts) -> Self {
        Self {
            user_id: user_id.to_owned(),
            started_at,
            request: plan.request.clone(),
            encode_choice: plan.encode_choice(),
            plan_digest: plan_digest(plan),
            published,
        }
    }

    /// The request that plans the session again.
    pub fn repeated_request(&self) -> StartRequest {
        StartRequest { earlier_choice: self.encode_choice, ..self.request.clone() }
    }

    /// Whether a plan has the same playlists and segments as that of the session.
    pub fn has_same_plan(&self, plan: &SessionPlan) -> bool {
        plan_digest(plan) == self.plan_digest
    }
}
