//! Rights of external sources: provenance, rights basis and attestation.
//!
//! [`missing`] alone decides what a claim lacks, and [`Clearance::claim`] is the only way to create or change a clearance.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Code, Error};

/// Minimum length of a rights statement, characters.
pub const MIN_STATEMENT: usize = 20;

/// Maximum length of a text, bytes.
const MAX_TEXT: usize = 4096;

/// The text of the attestation.
pub const ATTESTED: &str = "I am authorised to receive this source and to show it to the people of this household, on the basis \
                            stated, and I answer for what is stated here.";

/// Where the content comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub source_name: String,
    /// Where origin and terms are published; an http or https address.
    pub source_url: String,
    /// Unix ms.
    pub imported_at_ms: i64,
}

/// The legal basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    OwnContent,
    PublicDomain,
    Licensed,
    ProviderSubscription,
    Other,
}

/// The legal basis with its statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub basis: Basis,
    pub statement: String,
    /// Why it may be recorded; None if it may not.
    pub recording_basis: Option<String>,
}

/// Who attested to the rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    /// False after it was withdrawn.
    pub authorized: bool,
    /// The user who last attested or withdrew.
    #[serde(rename = "by")]
    pub by: String,
    /// Unix ms.
    pub at_ms: i64,
    /// The text attested to.
    pub text: String,
}

/// Provenance, rights and attestation; none is valid alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clearance {
    pub provenance: Provenance,
    pub rights: Rights,
    pub attestation: Attestation,
}

/// A claim as submitted; fields may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub source_name: Option<String>,
    pub source_url: Option<String>,
    /// Unix ms.
    pub imported_at_ms: Option<i64>,
    pub basis: Option<String>,
    pub statement: Option<String>,
    /// None if the field was not submitted.
    pub recording_basis: Option<Option<String>>,
    pub authorized: Option<bool>,
}

/// A change of a clearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    Attested,
    Changed,
    Withdrawn,
    Removed,
}

impl Basis {
    pub const ALL: [(&str, Self); 5] = [
        ("own-content", Self::OwnContent),
        ("public-domain", Self::PublicDomain),
        ("licensed", Self::Licensed),
        ("provider-subscription", Self::ProviderSubscription),
        ("other", Self::Other),
    ];

    /// The API's value.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, basis)| *basis == self).map_or("other", |(name, _)| name)
    }

    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, basis)| *basis)
    }
}

impl Act {
    /// The API's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attested => "attested",
            Self::Changed => "changed",
            Self::Withdrawn => "withdrawn",
            Self::Removed => "removed",
        }
    }
}

/// Every field a claim lacks, by its API name. Empty texts, unknown bases and statements that are too short count as
/// missing.
pub fn missing(claim: &Claim) -> Vec<&'static str> {
    let text = |text: &Option<String>, least: usize| {
        text.as_ref().is_some_and(|text| text.trim().chars().filter(|c| shows(*c)).count() >= least && fits(text))
    };
    let told = [
        ("provenance.sourceName", text(&claim.source_name, 1)),
        ("provenance.sourceUrl", claim.source_url.as_deref().is_some_and(is_public_address)),
        ("provenance.importedAt", claim.imported_at_ms.is_some()),
        ("rights.basis", claim.basis.as_deref().is_some_and(|basis| Basis::read(basis).is_some())),
        ("rights.statement", text(&claim.statement, MIN_STATEMENT)),
        ("attestation.authorized", claim.authorized == Some(true)),
    ];
    told.iter().filter(|(_, told)| !told).map(|(field, _)| *field).collect()
}

/// The error for missing fields.
pub fn required(missing: &[&str]) -> Error {
    let message = format!("the rights basis is incomplete, missing: {}", missing.join(", "));
    Error::new(Code::RightsBasisRequired, message).with_details(json!({"missing": missing}))
}

fn fits(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.chars().any(|c| c.is_control() && c != '\n')
}

/// Whether a character is visible: control, joining and filling characters are not.
fn shows(c: char) -> bool {
    let hidden =
        ['\u{ad}', '\u{34f}', '\u{61c}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{feff}', '\u{ffa0}'];
    !hidden.contains(&c)
        && !matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        && !matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// An http or https address without credentials. Admins see all of it, others only its server.
fn is_public_address(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    fits(text)
        && matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none()
}

impl Clearance {
    /// The clearance that results from a claim made by user `by`, merged into `before` if there is one. `moved` means that
    /// the stream's address has changed.
    ///
    /// A withdrawal needs no other field. Any other change needs a new attestation by the user who makes it, because an
    /// attestation does not cover what was written after it.
    ///
    /// # Errors
    /// The missing fields.
    pub fn claim(
        claim: Claim,
        before: Option<&Self>,
        moved: bool,
        by: &str,
        at_ms: i64,
    ) -> Result<Self, Vec<&'static str>> {
        let (said, withdrawn) = (claim.authorized, before.is_some() && claim.authorized == Some(false));
        let mut whole = claim.over(before);
        let standing = before.is_some_and(|before| before.attestation.authorized);
        // Without this, `missing` would demand an attestation although an existing clearance has one.
        let vouched = said == Some(true);
        whole.authorized = Some(vouched || before.is_some());
        let mut lacks = missing(&whole);
        let (Some(basis), []) = (whole.basis.as_deref().and_then(Basis::read), &lacks[..]) else { return Err(lacks) };
        let trimmed = |text: Option<String>| text.unwrap_or_default().trim().to_owned();
        let provenance = Provenance {
            source_name: trimmed(whole.source_name),
            source_url: trimmed(whole.source_url),
            imported_at_ms: whole.imported_at_ms.unwrap_or(at_ms),
        };
        let recording_basis = whole.recording_basis.flatten();
        let recording_basis = recording_basis.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if recording_basis.as_deref().is_some_and(|text| !fits(text)) {
            return Err(vec!["rights.recordingBasis"]);
        }
        let rights = Rights { basis, statement: trimmed(whole.statement), recording_basis };
        let changed =
            moved || before.is_none_or(|before| (&before.provenance, &before.rights) != (&provenance, &rights));
        if changed && standing && !vouched && !withdrawn {
            lacks.push("attestation.authorized");
            return Err(lacks);
        }
        let attestation = match before {
            Some(before) if !(vouched || withdrawn && standing) => before.attestation.clone(),
            _ => Attestation { authorized: !withdrawn, by: by.to_owned(), at_ms, text: ATTESTED.to_owned() },
        };
        Ok(Self { provenance, rights, attestation })
    }

    /// Whether the attestation is in force.
    pub fn stands(&self) -> bool {
        self.attestation.authorized
    }

    /// The change between two states, and the parts that changed; None if there is none.
    pub fn act(before: Option<&Self>, after: &Self, moved: bool) -> Option<(Act, Vec<&'static str>)> {
        let Some(before) = before else { return Some((Act::Attested, vec!["provenance", "rights", "attestation"])) };
        let mut parts = Vec::new();
        let changes = [
            ("provenance", before.provenance != after.provenance),
            ("rights", before.rights != after.rights),
            ("source", moved),
            ("attestation", before.attestation != after.attestation),
        ];
        parts.extend(changes.iter().filter(|(_, changed)| *changed).map(|(part, _)| *part));
        let act = match (before.stands(), after.stands()) {
            _ if parts.is_empty() => return None,
            (true, false) => Act::Withdrawn,
            (_, true) if before.attestation != after.attestation => Act::Attested,
            _ => Act::Changed,
        };
        Some((act, parts))
    }
}

impl Claim {
    /// Fills missing fields from the existing clearance.
    fn over(self, before: Option<&Clearance>) -> Self {
        let Some(Clearance { provenance, rights, .. }) = before else { return self };
        Self {
            source_name: self.source_name.or_else(|| Some(provenance.source_name.clone())),
            source_url: self.source_url.or_else(|| Some(provenance.source_url.clone())),
            imported_at_ms: self.imported_at_ms.or(Some(provenance.imported_at_ms)),
            basis: self.basis.or_else(|| Some(rights.basis.as_str().to_owned())),
            statement: self.statement.or_else(|| Some(rights.statement.clone())),
            recording_basis: self.recording_basis.or_else(|| Some(rights.recording_basis.clone())),
            authorized: self.authorized,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn claim() -> Claim {
        Claim {
            source_name: Some("Own antenna".into()),
            source_url: Some("https://antenna.example/terms".into()),
            imported_at_ms: Some(1_767_225_600_000),
            basis: Some("own-content".into()),
            statement: Some("Received with my own antenna, for my own household.".into()),
            recording_basis: None,
            authorized: Some(true),
        }
    }

    #[test]
    fn everything_that_is_missing_is_named() {
        assert_eq!(missing(&claim()), Vec::<&str>::new());
        assert_eq!(missing(&Claim::default()).len(), 6);
        let wrong = [
            ("provenance.sourceName", Claim { source_name: Some("  ".into()), ..claim() }),
            ("provenance.sourceUrl", Claim { source_url: Some("javascript:alert(1)".into()), ..claim() }),
            ("provenance.sourceUrl", Claim { source_url: Some("https://u:p@antenna.example/".into()), ..claim() }),
            ("provenance.sourceUrl", Claim { source_url: Some("the internet".into()), ..claim() }),
            ("provenance.importedAt", Claim { imported_at_ms: None, ..claim() }),
            ("rights.basis", Claim { basis: Some("everybody does it".into()), ..claim() }),
            ("rights.statement", Claim { statement: Some("                 mine                ".into()), ..claim() }),
            ("rights.statement", Claim { statement: Some("a".repeat(5000)), ..claim() }),
            ("rights.statement", Claim { statement: Some("\u{200b}".repeat(30)), ..claim() }),
            ("provenance.sourceName", Claim { source_name: Some("\u{3164}\u{2800}".into()), ..claim() }),
            ("attestation.authorized", Claim { authorized: Some(false), ..claim() }),
            ("attestation.authorized", Claim { authorized: None, ..claim() }),
        ];
        for (field, wrong) in wrong {
            assert_eq!(missing(&wrong), [field], "{wrong:?}");
            assert_eq!(Clearance::claim(wrong, None, false, "ada", 5).unwrap_err(), [field]);
        }
    }

    #[test]
    fn nobodys_word_covers_what_was_written_later() {
        let first = Clearance::claim(claim(), None, false, "ada", 5).unwrap();
        assert_eq!((first.stands(), &*first.attestation.by, first.attestation.at_ms), (true, "ada", 5));
        let change = |claim, moved| Clearance::claim(claim, Some(&first), moved, "bob", 9);
        let none = Claim::default();
        assert_eq!(change(none.clone(), false).unwrap(), first, "an empty claim changes nothing");
        let restated = Claim { statement: Some("Another statement of the same length.".into()), ..none.clone() };
        assert_eq!(change(restated.clone(), false).unwrap_err(), ["attestation.authorized"]);
        assert_eq!(change(none.clone(), true).unwrap_err(), ["attestation.authorized"], "another address");
        let vouched = change(Claim { authorized: Some(true), ..restated }, false).unwrap();
        assert_eq!((&*vouched.attestation.by, vouched.attestation.at_ms), ("bob", 9));
        assert_eq!(Clearance::act(Some(&first), &vouched, false), Some((Act::Attested, vec!["rights", "attestation"])));
        let emptied = Claim { source_name: Some(String::new()), authorized: Some(true), ..none };
        assert_eq!(change(emptied, false).unwrap_err(), ["provenance.sourceName"]);
    }

    #[test]
    fn a_withdrawal_stands_until_somebody_vouches_again() {
        let first = Clearance::claim(claim(), None, false, "ada", 5).unwrap();
        let no = Claim { authorized: Some(false), ..Claim::default() };
        let withdrawn = Clearance::claim(no.clone(), Some(&first), false, "bob", 9).unwrap();
        assert!(!withdrawn.stands());
        assert_eq!(Clearance::act(Some(&first), &withdrawn, false), Some((Act::Withdrawn, vec!["attestation"])));
        let still = Clearance::claim(no, Some(&withdrawn), false, "eve", 11).unwrap();
        assert_eq!(still, withdrawn, "the first withdrawal is kept");
        let renamed = Claim { source_name: Some("Elsewhere".into()), ..Claim::default() };
        let renamed = Clearance::claim(renamed, Some(&withdrawn), true, "eve", 11).unwrap();
        assert!(!renamed.stands(), "a change does not restore the attestation");
        assert_eq!(Clearance::act(Some(&withdrawn), &renamed, true).unwrap().0, Act::Changed);
        let again = Claim { authorized: Some(true), ..Claim::default() };
        assert!(Clearance::claim(again, Some(&renamed), false, "ada", 20).unwrap().stands());
    }
}
