//! Who asks, and what a request may reach.

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
}
