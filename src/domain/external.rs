//! A channel that comes from elsewhere: its stream, and by what right it is shown.

use serde::{Deserialize, Serialize};

use crate::domain::address::Address;
use crate::domain::rights::Clearance;

/// Addresses to fall back on at most.
pub const MAX_FAILOVER: usize = 8;

/// Longest name given to servers elsewhere, bytes.
pub const MAX_USER_AGENT: usize = 256;

/// The stream of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    pub url: Address,
    /// Tried in this order when the first does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failover: Vec<Address>,
    /// What the server elsewhere is told; None for this program's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// Who answers for a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Its own clearance. `imported` is how it calls itself on the wire: `m3u-import`, else `external`.
    Own { clearance: Clearance, imported: bool },
    /// The clearance of the source it was imported from; `key` is what the entry is known by in there.
    Source { id: u32, key: String },
}

/// What makes a channel external.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    pub feed: Feed,
    pub origin: Origin,
}

impl External {
    /// The word on the wire.
    pub fn source_type(&self) -> &'static str {
        match &self.origin {
            Origin::Own { imported: false, .. } => "external",
            Origin::Own { imported: true, .. } | Origin::Source { .. } => "m3u-import",
        }
    }

    /// The source it was imported from.
    pub fn source_id(&self) -> Option<u32> {
        match &self.origin {
            Origin::Own { .. } => None,
            Origin::Source { id, .. } => Some(*id),
        }
    }

    /// Its own clearance; None when a source has it.
    pub fn own(&self) -> Option<&Clearance> {
        match &self.origin {
            Origin::Own { clearance, .. } => Some(clearance),
            Origin::Source { .. } => None,
        }
    }
}
