//! Sources: an external channel list (M3U) or guide (XMLTV), with the rights basis under which it is used.

use serde::{Deserialize, Serialize};

use crate::domain::address::Address;
use crate::domain::m3u::parse::{M3uEntry, SkippedEntry};
use crate::domain::rights::{Claim, Clearance, Provenance, missing};

/// The format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    M3u,
    Xmltv,
}

/// Filter for entries that become channels: all if every list is empty, otherwise those named in any of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Select {
    pub groups: Vec<String>,
    pub names: Vec<String>,
    /// Values of `tvg-id`.
    pub ids: Vec<String>,
}

/// The rights basis under which a source is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Enough for a guide.
    Provenance(Provenance),
    Clearance(Clearance),
}

/// Result of the last read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ready,
    /// The reason; data read earlier stays.
    Failed(String),
}

/// Counts of the last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub entries: usize,
    pub channels: usize,
    pub programmes: usize,
    pub skipped: usize,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Never used twice.
    pub id: u32,
    pub kind: Kind,
    pub name: String,
    /// None if it was uploaded.
    pub url: Option<Address>,
    /// Refresh interval; None for never.
    pub refresh_hours: Option<u32>,
    #[serde(rename = "right")]
    pub right: Right,
    #[serde(rename = "select")]
    pub select: Select,
    /// The first number of new channels; None for the list's own numbers.
    pub number_from: Option<u32>,
    pub state: State,
    /// Time of the last read, unix ms.
    #[serde(rename = "read_ms")]
    pub read_ms: Option<i64>,
    pub counts: Counts,
    /// Skipped entries, up to a limit.
    pub skipped: Vec<SkippedEntry>,
}

impl Kind {
    /// The API's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::M3u => "m3u",
            Self::Xmltv => "xmltv",
        }
    }
}

impl Select {
    /// Total bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        [&self.groups, &self.names, &self.ids].into_iter().flatten().map(String::len).sum()
    }

    /// Whether an entry becomes a channel.
    pub fn takes(&self, entry: &M3uEntry) -> bool {
        let named = |list: &[String], text: &str| list.iter().any(|item| item.trim().eq_ignore_ascii_case(text));
        (self.groups.is_empty() && self.names.is_empty() && self.ids.is_empty())
            || entry.groups.iter().any(|group| named(&self.groups, group))
            || named(&self.names, &entry.name)
            || named(&self.ids, &entry.tvg_id)
    }
}

impl Right {
    /// The rights basis that results from a claim for a source of this kind; see [`Clearance::claim`].
    ///
    /// # Errors
    /// The missing fields.
    pub fn claim(
        kind: Kind,
        claim: Claim,
        before: Option<&Self>,
        moved: bool,
        by: &str,
        at_ms: i64,
    ) -> Result<Self, Vec<&'static str>> {
        let says_more = claim.basis.is_some() || claim.statement.is_some() || claim.authorized.is_some();
        if kind == Kind::Xmltv && !says_more && !matches!(before, Some(Self::Clearance(_))) {
            let was = match before {
                Some(Self::Provenance(was)) => Some(was),
                _ => None,
            };
            let claim = Claim {
                source_name: claim.source_name.or_else(|| was.map(|was| was.source_name.clone())),
                source_url: claim.source_url.or_else(|| was.map(|was| was.source_url.clone())),
                imported_at_ms: claim.imported_at_ms.or_else(|| was.map(|was| was.imported_at_ms)),
                ..claim
            };
            let lacks: Vec<_> = missing(&claim).into_iter().filter(|field| field.starts_with("provenance.")).collect();
            return match (claim.source_name, claim.source_url, claim.imported_at_ms) {
                (Some(name), Some(url), Some(imported_at_ms)) if lacks.is_empty() => {
                    Ok(Self::Provenance(Provenance { source_name: name, source_url: url, imported_at_ms }))
                }
                _ => Err(lacks),
            };
        }
        let was = before.and_then(Self::clearance);
        Clearance::claim(claim, was, moved, by, at_ms).map(Self::Clearance)
    }

    pub fn clearance(&self) -> Option<&Clearance> {
        match self {
            Self::Clearance(clearance) => Some(clearance),
            Self::Provenance(_) => None,
        }
    }

    pub fn provenance(&self) -> &Provenance {
        match self {
            Self::Clearance(clearance) => &clearance.provenance,
            Self::Provenance(provenance) => provenance,
        }
    }

    /// Whether it may be used.
    pub fn stands(&self) -> bool {
        self.clearance().is_none_or(Clearance::stands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rights::tests::claim;

    #[test]
    fn a_guide_needs_to_say_where_it_comes_from_and_a_list_needs_all() {
        let only = Claim { basis: None, statement: None, authorized: None, ..claim() };
        let right = |kind, claim| Right::claim(kind, claim, None, false, "ada", 5);
        let own = right(Kind::Xmltv, only.clone()).unwrap();
        assert!(own.stands() && own.clearance().is_none());
        assert_eq!(right(Kind::Xmltv, Claim::default()).unwrap_err().len(), 3);
        assert_eq!(right(Kind::M3u, only).unwrap_err(), ["rights.basis", "rights.statement", "attestation.authorized"]);
        assert!(right(Kind::Xmltv, claim()).unwrap().clearance().is_some());
        let half = Claim { authorized: None, ..claim() };
        assert_eq!(right(Kind::Xmltv, half).unwrap_err(), ["attestation.authorized"]);
        assert_eq!(Right::claim(Kind::Xmltv, Claim::default(), Some(&own), true, "bob", 9).unwrap(), own);
    }
}
