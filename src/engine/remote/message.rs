//! The messages between a server and its remote workers: JSON, in the queue and over HTTP.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::plan::Rendition;
use crate::engine::RunError;

/// A run that a worker may claim: the message in the queue. It grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOffer {
    pub run: String,
}

/// A worker that claims a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// Name of the video encoder it will use, from the table of encoders.
    pub encoder: String,
}

/// Everything a worker needs for a run it has claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOrder {
    pub run: String,
    /// Version of the source file; ranges of another version are refused.
    pub etag: String,
    /// Length of the source file, bytes.
    pub len: u64,
    pub fingerprint: String,
    pub media: Arc<Media>,
    pub rendition: Arc<Rendition>,
    pub grid: Arc<Grid>,
    /// The first segment to make.
    pub first: usize,
    /// One past the last segment to make.
    pub end: usize,
    /// The last segment it may make until a [`RunControl`] raises the limit.
    pub through: usize,
}

/// A message of the server to the worker of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "control")]
pub enum RunControl {
    /// The last segment that the run may make.
    Through { through: usize },
    /// The run is over.
    Cancel,
}

/// How a run ended at the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Why it made fewer segments; None if it made all, or if the source ended.
    pub error: Option<RunError>,
}

/// A worker that enrols itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrolRequest {
    /// The one-time code of an admin.
    pub code: String,
    /// Name of its machine.
    pub name: String,
    /// Its Ed25519 public key, base64url without padding.
    pub public_key: String,
}

/// A worker that renews its credential.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    pub worker_id: String,
    /// Its time, unix seconds.
    pub time: i64,
    /// Its signature of [`renewal_text`], base64url without padding.
    pub signature: String,
}

/// The credential of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    pub worker_id: String,
    /// Its bearer token.
    pub token: String,
    /// When the token expires, unix seconds.
    pub expires_at: i64,
    /// Address of the queue.
    pub queue: String,
    /// Its JWT for the queue, which expires with the token.
    pub queue_jwt: String,
}

/// The text a worker signs to renew its credential.
pub fn renewal_text(worker_id: &str, time: i64) -> String {
    format!("hearthcast-worker-renewal\n{worker_id}\n{time}")
}
