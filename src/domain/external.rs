//! An external channel: its stream, and its rights.

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
    /// The clearance of the source it was imported from.
    Source { id: u32, entry: Imported },
}

/// What the list said of a channel when it was read last: what of the channel still says so follows the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    pub tvg_id: String,
    pub name: String,
    pub category: String,
    pub logo: Option<String>,
    /// What the times of its guide are off by.
    pub shift_ms: i64,
    /// It is not in the list any more, and was switched off for that.
    pub gone: bool,
}

/// What makes a channel external.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    pub feed: Feed,
    pub origin: Origin,
    /// Whose programmes it shows, where that was said by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide: Option<GuideId>,
}

/// A channel of a guide from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuideId {
    /// The guide's source; None for the first that has such a channel.
    pub source: Option<u32>,
    pub id: String,
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

    /// What the list it was imported from says of it.
    pub fn imported(&self) -> Option<&Imported> {
        match &self.origin {
            Origin::Own { .. } => None,
            Origin::Source { entry, .. } => Some(entry),
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
