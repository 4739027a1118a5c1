//! Who makes a request (principal), and what it may reach (access class, grant).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::visibility::Visibility;

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
    /// The login of this request; grants signed for it end with it.
    pub login_id: String,
    /// The channels a stream token allows; None for all, and for every signed-in user.
    pub channels: Option<Arc<[u32]>>,
    /// Expiry of the signature or stream token used for this request, unix seconds. No signature made for this principal
    /// outlives it. None for a bearer token, and for a stream token without expiry.
    pub expires_at: Option<i64>,
    /// The part of the library that the user sees.
    pub visibility: Visibility,
}

impl Principal {
    /// A user for whom the server acts by itself, or a shared cache, without a login: everything is seen.
    pub fn without_login(user_id: String) -> Self {
        Self {
            user_id,
            username: String::new(),
            role: Role::User,
            login_id: String::new(),
            channels: None,
            expires_at: None,
            visibility: Visibility::All,
        }
    }

    /// The same principal with an expiry of `end` (unix seconds) at the latest.
    pub fn limited_to(&self, end: i64) -> Self {
        Self { expires_at: Some(self.expires_at.map_or(end, |until| until.min(end))), ..self.clone() }
    }

    pub fn may_watch(&self, channel: u32) -> bool {
        self.channels.as_ref().is_none_or(|channels| channels.contains(&channel))
    }
}

/// The access class of a route. Every route has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No authentication: health, sign-in, the web page's own files. Never media.
    Public,
    /// A bearer token.
    User,
    /// A bearer token of an admin.
    Admin,
    /// A bearer token, or a signed grant (`st`) for exactly this resource.
    Granted,
    /// Live television for players that cannot send headers: as `Granted`, or a stream token (`token`), or a signed address
    /// (`token`, `exp`, `sig`).
    Live,
    /// Segments of a channel for a shared cache: a signed grant as the first path component, the same for all viewers of the
    /// channel. The route exists only if it is configured.
    Shared,
    /// The token of a remote worker.
    Worker,
    /// Live television for programs that know a tuner by its address alone: a stream token as the first path component. The
    /// route exists only if it is configured.
    Tuner,
}
