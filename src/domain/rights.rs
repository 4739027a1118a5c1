//! Rights of external sources: provenance, rights basis and attestation.
//!
//! [`missing`] is the one place that says what a claim lacks, and [`Clearance::claim`] the only way to one: whoever makes
//! or changes something external passes through both.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Code, Error};

/// Shortest statement of a rights basis, characters.
pub const MIN_STATEMENT: usize = 20;

/// Longest text of a claim, bytes.
const MAX_TEXT: usize = 4096;

/// What is attested to.
pub const ATTESTED: &str = "I am authorised to receive this source and to show it to the people of this household, on the basis \
                            stated, and I answer for what is stated here.";

/// Where something comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub source_name: String,
    /// Where its origin and its terms can be looked up; an http or https address.
    pub source_url: String,
    /// Unix ms.
    pub imported_at_ms: i64,
}

/// On what basis it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    OwnContent,
    PublicDomain,
    Licensed,
    ProviderSubscription,
    Other,
}

/// The written basis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub basis: Basis,
    pub statement: String,
    /// Why it may be recorded; None when it may not.
    pub recording_basis: Option<String>,
}

/// Who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    /// False once it was withdrawn.
    pub authorized: bool,
    /// The user who said so last.
    pub by: String,
    /// Unix ms.
    pub at_ms: i64,
    /// What was attested to.
    pub text: String,
}

/// Provenance, rights and attestation together: none of them stands alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clearance {
    pub provenance: Provenance,
    pub rights: Rights,
    pub attestation: Attestation,
}

/// A claim as somebody told it, with what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub source_name: Option<String>,
    pub source_url: Option<String>,
    /// Unix ms.
    pub imported_at_ms: Option<i64>,
    pub basis: Option<String>,
    pub statement: Option<String>,
    /// None when nothing is said of it.
    pub recording_basis: Option<Option<String>>,
    pub authorized: Option<bool>,
}

/// What happened to a clearance.
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

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, basis)| *basis == self).map_or("other", |(name, _)| name)
    }

    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, basis)| *basis)
    }
}

impl Act {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attested => "attested",
            Self::Changed => "changed",
            Self::Withdrawn => "withdrawn",
            Self::Removed => "removed",
        }
    }
}

/// Every field a claim lacks, by its name on the wire. Empty texts, unknown bases and statements too short are lacking.
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

/// The refusal of what lacks them.
pub fn required(missing: &[&str]) -> Error {
    let message = format!("what comes from elsewhere needs a basis to be shown: {} missing", missing.join(", "));
    Error::new(Code::RightsBasisRequired, message).with_details(json!({"missing": missing}))
}

fn fits(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.chars().any(|c| c.is_control() && c != '\n')
}

/// Whether somebody who reads a text sees anything of it: what only shifts, joins or fills is no word.
fn shows(c: char) -> bool {
    let hidden =
        ['\u{ad}', '\u{34f}', '\u{61c}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{feff}', '\u{ffa0}'];
    !hidden.contains(&c)
        && !matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        && !matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// An http or https address without a password. Admins see it whole, all others its server alone.
fn is_public_address(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    fits(text)
        && matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none()
}

impl Clearance {
    /// What a claim comes to, made by `by` at an instant; over what stood before where something did. `moved` says that
    /// what is shown comes from another address now.
    ///
    /// A withdrawal needs nothing else. Any other change needs whoever makes it to vouch for it: nobody's word covers
    /// what another wrote later.
    ///
    /// # Errors
    /// The fields that are missing.
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
        // Judged as if somebody vouched, where nobody has to.
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

    /// Whether somebody vouches for it still.
    pub fn stands(&self) -> bool {
        self.attestation.authorized
    }

    /// What happened between two states of it, and which parts changed; None when nothing did.
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
    /// With what it leaves out taken from what stands.
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
        assert_eq!(change(none.clone(), false).unwrap(), first, "nothing said, nothing changed");
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
        assert_eq!(still, withdrawn, "who withdrew first is remembered");
        let renamed = Claim { source_name: Some("Elsewhere".into()), ..Claim::default() };
        let renamed = Clearance::claim(renamed, Some(&withdrawn), true, "eve", 11).unwrap();
        assert!(!renamed.stands(), "a change does not bring it back");
        assert_eq!(Clearance::act(Some(&withdrawn), &renamed, true).unwrap().0, Act::Changed);
        let again = Claim { authorized: Some(true), ..Claim::default() };
        assert!(Clearance::claim(again, Some(&renamed), false, "ada", 20).unwrap().stands());
    }
}
