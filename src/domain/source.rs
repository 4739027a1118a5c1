//! Sources: an external channel list (M3U) or guide (XMLTV), with the rights basis under which it is used.

use serde::{Deserialize, Serialize};

use crate::domain::address::Address;
use crate::domain::m3u::parse::{M3uEntry, SkippedEntry};
use crate::domain::rights::{Clearance, Provenance, RightsClaim, missing_fields};

named_values! {
    pub enum SourceKind {
        M3u = "m3u",
        Xmltv = "xmltv",
    }
}

/// Filter for entries that become channels: all if every list is empty, otherwise those named in any of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelFilter {
    pub groups: Vec<String>,
    pub names: Vec<String>,
    /// Values of `tvg-id`.
    pub ids: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceRights {
    /// Enough for a guide.
    Provenance(Provenance),
    Clearance(Clearance),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadState {
    Ready,
    /// The reason; data read earlier stays.
    Failed(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadCounts {
    pub entries: usize,
    pub channels: usize,
    pub programmes: usize,
    pub skipped: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportSource {
    /// Never used twice.
    pub id: u32,
    pub kind: SourceKind,
    pub name: String,
    /// None if it was uploaded.
    pub url: Option<Address>,
    /// Refresh interval; None for never.
    pub refresh_hours: Option<u32>,
    #[serde(rename = "right")]
    pub rights: SourceRights,
    #[serde(rename = "select")]
    pub filter: ChannelFilter,
    /// The first number of new channels; None for the list's own numbers.
    pub number_from: Option<u32>,
    pub state: ReadState,
    /// Time of the last read, unix ms.
    #[serde(rename = "read_ms")]
    pub last_read_ms: Option<i64>,
    pub counts: ReadCounts,
    /// Skipped entries, up to a limit.
    pub skipped: Vec<SkippedEntry>,
}

impl ChannelFilter {
    pub fn text_bytes(&self) -> usize {
        [&self.groups, &self.names, &self.ids].into_iter().flatten().map(String::len).sum()
    }

    /// Whether an entry becomes a channel.
    pub fn matches(&self, entry: &M3uEntry) -> bool {
        let is_named = |list: &[String], text: &str| list.iter().any(|item| item.trim().eq_ignore_ascii_case(text));
        (self.groups.is_empty() && self.names.is_empty() && self.ids.is_empty())
            || entry.groups.iter().any(|group| is_named(&self.groups, group))
            || is_named(&self.names, &entry.name)
            || is_named(&self.ids, &entry.tvg_id)
    }
}

impl SourceRights {
    /// The rights basis that results from a claim for a source of this kind; see [`Clearance::from_claim`].
    pub fn from_claim(
        kind: SourceKind,
        claim: RightsClaim,
        before: Option<&Self>,
        has_moved: bool,
        user_id: &str,
        at_ms: i64,
    ) -> Result<Self, Vec<&'static str>> {
        let has_rights_fields = claim.basis.is_some() || claim.statement.is_some() || claim.authorized.is_some();
        if kind == SourceKind::Xmltv && !has_rights_fields && !matches!(before, Some(Self::Clearance(_))) {
            let claim = match before {
                Some(before) => claim.with_provenance(before.provenance()),
                None => claim,
            };
            let missing_names: Vec<_> =
                missing_fields(&claim).into_iter().filter(|field| field.starts_with("provenance.")).collect();
            return match (claim.source_name, claim.source_url, claim.imported_at_ms) {
                (Some(name), Some(url), Some(imported_at_ms)) if missing_names.is_empty() => {
                    Ok(Self::Provenance(Provenance { source_name: name, source_url: url, imported_at_ms }))
                }
                _ => Err(missing_names),
            };
        }
        let previous = before.and_then(Self::clearance);
        Clearance::from_claim(claim, previous, has_moved, user_id, at_ms).map(Self::Clearance)
    }

    pub fn clearance(&self) -> Option<&Clearance> {
        let Self::Clearance(clearance) = self else { return None };
        Some(clearance)
    }

    pub fn provenance(&self) -> &Provenance {
        match self {
            Self::Clearance(clearance) => &clearance.provenance,
            Self::Provenance(provenance) => provenance,
        }
    }

    pub fn is_usable(&self) -> bool {
        self.clearance().is_none_or(Clearance::is_attested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rights::tests::sample_claim;

    #[test]
    fn a_guide_needs_to_say_where_it_comes_from_and_a_list_needs_all() {
        let only = RightsClaim { basis: None, statement: None, authorized: None, ..sample_claim() };
        let right = |kind, claim| SourceRights::from_claim(kind, claim, None, false, "ada", 5);
        let own = right(SourceKind::Xmltv, only.clone()).unwrap();
        assert!(own.is_usable() && own.clearance().is_none());
        assert_eq!(right(SourceKind::Xmltv, RightsClaim::default()).unwrap_err().len(), 3);
        let missing = ["rights.basis", "rights.statement", "attestation.authorized"];
        assert_eq!(right(SourceKind::M3u, only).unwrap_err(), missing);
        assert!(right(SourceKind::Xmltv, sample_claim()).unwrap().clearance().is_some());
        let half = RightsClaim { authorized: None, ..sample_claim() };
        assert_eq!(right(SourceKind::Xmltv, half).unwrap_err(), ["attestation.authorized"]);
        let none = RightsClaim::default();
        assert_eq!(SourceRights::from_claim(SourceKind::Xmltv, none, Some(&own), true, "bob", 9).unwrap(), own);
    }
}
