//! An external channel: its stream, and its rights.

use serde::{Deserialize, Serialize};

use crate::domain::address::Address;
use crate::domain::rights::Clearance;

pub const MAX_FAILOVER: usize = 8;

/// Maximum length of the `User-Agent` sent to the source, bytes.
pub const MAX_USER_AGENT: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalStream {
    pub url: Address,
    /// Tried in this order when the first address does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failover: Vec<Address>,
    /// `User-Agent` sent to the source; None for this program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// Which clearance covers a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExternalOrigin {
    /// Its own clearance. `imported` selects its type in the API: `m3u-import`, otherwise `external`.
    Own { clearance: Clearance, imported: bool },
    /// The clearance of the source it was imported from.
    Source { id: u32, entry: ImportedEntry },
}

/// The list's entry for a channel when it was last read. Settings of the channel that still equal it follow the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedEntry {
    pub tvg_id: String,
    pub name: String,
    pub category: String,
    pub logo: Option<String>,
    /// Offset of its guide's times.
    pub shift_ms: i64,
    /// The channel disappeared from the list and was disabled for that reason.
    #[serde(rename = "gone")]
    pub is_gone: bool,
}

/// The settings that make a channel external.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalChannel {
    #[serde(rename = "feed")]
    pub stream: ExternalStream,
    pub origin: ExternalOrigin,
    /// The guide channel it uses, if set by hand.
    #[serde(rename = "guide", default, skip_serializing_if = "Option::is_none")]
    pub guide_channel: Option<GuideChannelId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuideChannelId {
    /// The guide's source; None for the first that has such a channel.
    pub source: Option<u32>,
    pub id: String,
}

impl ExternalChannel {
    /// The API's value.
    pub fn source_type(&self) -> &'static str {
        match &self.origin {
            ExternalOrigin::Own { imported: false, .. } => "external",
            ExternalOrigin::Own { imported: true, .. } | ExternalOrigin::Source { .. } => "m3u-import",
        }
    }

    pub fn source_id(&self) -> Option<u32> {
        let ExternalOrigin::Source { id, .. } = &self.origin else { return None };
        Some(*id)
    }

    pub fn imported_entry(&self) -> Option<&ImportedEntry> {
        let ExternalOrigin::Source { entry, .. } = &self.origin else { return None };
        Some(entry)
    }

    /// Its own clearance; None if that of a source applies.
    pub fn own_clearance(&self) -> Option<&Clearance> {
        let ExternalOrigin::Own { clearance, .. } = &self.origin else { return None };
        Some(clearance)
    }
}
