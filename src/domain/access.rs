//! Who makes a request (principal), and what it may reach (access class, grant).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Admin,
    User,
}

/// A signed-in user, by one of their logins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub user_id: String,
    pub username: String,
    pub role: Role,
    /// The login this request came with; grants signed for it die with it.
    pub login_id: String,
    /// The channels a stream token is for; None for all, and for everybody who signed in.
    pub channels: Option<Arc<[u32]>>,
    /// Unix seconds: the end of the signature or stream token that let this request in. No signature made for this
    /// principal outlives it. None for a bearer token, and for a stream token without an end.
    pub until: Option<i64>,
}

impl Principal {
    /// The same principal, let in until `end` (unix seconds) at the latest.
    pub fn limited_to(&self, end: i64) -> Self {
        Self { until: Some(self.until.map_or(end, |until| until.min(end))), ..self.clone() }
    }

    /// Whether this channel may be watched.
    pub fn may_watch(&self, channel: u32) -> bool {
        self.channels.as_ref().is_none_or(|channels| channels.contains(&channel))
    }
}

/// The class every route belongs to. There is no route without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody: health, sign-in, the app's own files. Never a media byte.
    Public,
    /// A bearer token.
    User,
    /// A bearer token of an admin.
    Admin,
    /// A bearer token, or a signed grant (`st`) for exactly this resource.
    Granted,
    /// Live television, for players that cannot send headers: as `Granted`, or a stream token (`token`), or a signed
    /// address (`token`, `exp`, `sig`).
    Live,
    /// Live television, for programs that know a tuner by its address alone: a stream token as the first part of the
    /// path. Where the configuration does not ask for it, there is no such route.
    Tuner,
}
