//! Rights of external sources: provenance, rights basis and attestation.
//!
//! [`missing_fields`] alone decides what a claim lacks, and [`Clearance::from_claim`] is the only way to create or change a
//! clearance.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Code, Error};

const MIN_STATEMENT_CHARS: usize = 20;

const MAX_TEXT_BYTES: usize = 4096;

const ATTESTATION_TEXT: &str = "I am authorised to receive this source and to show it to the people of this household, on the basis \
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

named_values! {
    /// The legal basis.
    pub enum RightsBasis {
        OwnContent = "own-content",
        PublicDomain = "public-domain",
        Licensed = "licensed",
        ProviderSubscription = "provider-subscription",
        Other = "other",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub basis: RightsBasis,
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
    pub user_id: String,
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
pub struct RightsClaim {
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

named_values! {
    pub enum ClearanceChange {
        Attested = "attested",
        Changed = "changed",
        Withdrawn = "withdrawn",
        Removed = "removed",
    }
}

/// Every field a claim lacks, by its API name. Empty texts, unknown bases and statements that are too short count as
/// missing.
pub fn missing_fields(claim: &RightsClaim) -> Vec<&'static str> {
    let is_text_present = |text: &Option<String>, least: usize| {
        text.as_ref().is_some_and(|text| {
            text.trim().chars().filter(|c| is_visible(*c)).count() >= least && is_allowed_text(text)
        })
    };
    let checks = [
        ("provenance.sourceName", is_text_present(&claim.source_name, 1)),
        ("provenance.sourceUrl", claim.source_url.as_deref().is_some_and(is_public_address)),
        ("provenance.importedAt", claim.imported_at_ms.is_some()),
        ("rights.basis", claim.basis.as_deref().is_some_and(|basis| RightsBasis::parse(basis).is_some())),
        ("rights.statement", is_text_present(&claim.statement, MIN_STATEMENT_CHARS)),
        ("attestation.authorized", claim.authorized == Some(true)),
    ];
    checks.iter().filter(|(_, is_present)| !is_present).map(|(field, _)| *field).collect()
}

pub fn missing_rights_error(missing: &[&str]) -> Error {
    let message = format!("the rights basis is incomplete, missing: {}", missing.join(", "));
    Error::new(Code::RightsBasisRequired, message).with_details(json!({"missing": missing}))
}

fn is_allowed_text(text: &str) -> bool {
    text.len() <= MAX_TEXT_BYTES && !text.chars().any(|c| c.is_control() && c != '\n')
}

/// Whether a character is visible: control, joining and filling characters are not.
fn is_visible(c: char) -> bool {
    let hidden =
        ['\u{ad}', '\u{34f}', '\u{61c}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{feff}', '\u{ffa0}'];
    !hidden.contains(&c)
        && !matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        && !matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// An http or https address without credentials. Admins see all of it, others only its server.
fn is_public_address(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    is_allowed_text(text)
        && matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none()
}

impl Clearance {
    /// The clearance that results from a claim made by user `user_id`, merged into `before` if there is one. `has_moved`: the
    /// stream's address has changed.
    ///
    /// A withdrawal needs no other field. Any other change needs a new attestation by the user who makes it, because an
    /// attestation does not cover what was written after it. The error is the missing fields.
    pub fn from_claim(
        claim: RightsClaim,
        before: Option<&Self>,
        has_moved: bool,
        user_id: &str,
        at_ms: i64,
    ) -> Result<Self, Vec<&'static str>> {
        let (submitted, withdraws) = (claim.authorized, before.is_some() && claim.authorized == Some(false));
        let mut merged = claim.merged_into(before);
        let was_attested = before.is_some_and(|before| before.attestation.authorized);
        // Without this, `missing_fields` would demand an attestation although an existing clearance has one.
        let attests = submitted == Some(true);
        merged.authorized = Some(attests || before.is_some());
        let mut missing_names = missing_fields(&merged);
        let (Some(basis), []) = (merged.basis.as_deref().and_then(RightsBasis::parse), &missing_names[..]) else {
            return Err(missing_names);
        };
        let trimmed = |text: Option<String>| text.unwrap_or_default().trim().to_owned();
        let provenance = Provenance {
            source_name: trimmed(merged.source_name),
            source_url: trimmed(merged.source_url),
            imported_at_ms: merged.imported_at_ms.unwrap_or(at_ms),
        };
        let recording_basis = merged.recording_basis.flatten();
        let recording_basis = recording_basis.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        if recording_basis.as_deref().is_some_and(|text| !is_allowed_text(text)) {
            return Err(vec!["rights.recordingBasis"]);
        }
        let rights = Rights { basis, statement: trimmed(merged.statement), recording_basis };
        let has_changed =
            has_moved || before.is_none_or(|before| (&before.provenance, &before.rights) != (&provenance, &rights));
        if has_changed && was_attested && !attests && !withdraws {
            missing_names.push("attestation.authorized");
            return Err(missing_names);
        }
        let attestation = match before {
            Some(before) if !(attests || withdraws && was_attested) => before.attestation.clone(),
            _ => {
                let (user_id, text) = (user_id.to_owned(), ATTESTATION_TEXT.to_owned());
                Attestation { authorized: !withdraws, user_id, at_ms, text }
            }
        };
        Ok(Self { provenance, rights, attestation })
    }

    pub fn is_attested(&self) -> bool {
        self.attestation.authorized
    }

    /// The change between two states, and the parts that changed; None if nothing did.
    pub fn change_between(
        before: Option<&Self>,
        after: &Self,
        has_moved: bool,
    ) -> Option<(ClearanceChange, Vec<&'static str>)> {
        let Some(before) = before else {
            return Some((ClearanceChange::Attested, vec!["provenance", "rights", "attestation"]));
        };
        let changes = [
            ("provenance", before.provenance != after.provenance),
            ("rights", before.rights != after.rights),
            ("source", has_moved),
            ("attestation", before.attestation != after.attestation),
        ];
        let parts: Vec<_> = changes.iter().filter(|(_, changed)| *changed).map(|(part, _)| *part).collect();
        let change = match (before.is_attested(), after.is_attested()) {
            _ if parts.is_empty() => return None,
            (true, false) => ClearanceChange::Withdrawn,
            (_, true) if before.attestation != after.attestation => ClearanceChange::Attested,
            _ => ClearanceChange::Changed,
        };
        Some((change, parts))
    }
}

impl RightsClaim {
    /// Fills missing fields from the existing clearance.
    fn merged_into(self, before: Option<&Clearance>) -> Self {
        let Some(Clearance { provenance, rights, .. }) = before else { return self };
        let claim = self.with_provenance(provenance);
        Self {
            basis: claim.basis.or_else(|| Some(rights.basis.as_str().to_owned())),
            statement: claim.statement.or_else(|| Some(rights.statement.clone())),
            recording_basis: claim.recording_basis.or_else(|| Some(rights.recording_basis.clone())),
            ..claim
        }
    }

    /// Fills missing fields from an existing provenance.
    pub(super) fn with_provenance(self, before: &Provenance) -> Self {
        Self {
            source_name: self.source_name.or_else(|| Some(before.source_name.clone())),
            source_url: self.source_url.or_else(|| Some(before.source_url.clone())),
            imported_at_ms: self.imported_at_ms.or(Some(before.imported_at_ms)),
            ..self
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn sample_claim() -> RightsClaim {
        RightsClaim {
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
        assert_eq!(missing_fields(&sample_claim()), Vec::<&str>::new());
        assert_eq!(missing_fields(&RightsClaim::default()).len(), 6);
        type Change = fn(&mut RightsClaim);
        let changes: [(&str, Change); 12] = [
            ("provenance.sourceName", |claim| claim.source_name = Some("  ".into())),
            ("provenance.sourceUrl", |claim| claim.source_url = Some("javascript:alert(1)".into())),
            ("provenance.sourceUrl", |claim| claim.source_url = Some("https://u:p@antenna.example/".into())),
            ("provenance.sourceUrl", |claim| claim.source_url = Some("the internet".into())),
            ("provenance.importedAt", |claim| claim.imported_at_ms = None),
            ("rights.basis", |claim| claim.basis = Some("everybody does it".into())),
            ("rights.statement", |claim| claim.statement = Some("                 mine                ".into())),
            ("rights.statement", |claim| claim.statement = Some("a".repeat(5000))),
            ("rights.statement", |claim| claim.statement = Some("\u{200b}".repeat(30))),
            ("provenance.sourceName", |claim| claim.source_name = Some("\u{3164}\u{2800}".into())),
            ("attestation.authorized", |claim| claim.authorized = Some(false)),
            ("attestation.authorized", |claim| claim.authorized = None),
        ];
        for (field, change) in changes {
            let mut wrong = sample_claim();
            change(&mut wrong);
            assert_eq!(missing_fields(&wrong), [field], "{wrong:?}");
            assert_eq!(Clearance::from_claim(wrong, None, false, "ada", 5).unwrap_err(), [field]);
        }
    }

    #[test]
    fn an_attestation_does_not_cover_later_changes() {
        let first = Clearance::from_claim(sample_claim(), None, false, "ada", 5).unwrap();
        assert_eq!((first.is_attested(), &*first.attestation.user_id, first.attestation.at_ms), (true, "ada", 5));
        let change = |claim, moved| Clearance::from_claim(claim, Some(&first), moved, "bob", 9);
        let none = RightsClaim::default();
        assert_eq!(change(none.clone(), false).unwrap(), first, "an empty claim changes nothing");
        let restated = RightsClaim { statement: Some("Another statement of the same length.".into()), ..none.clone() };
        assert_eq!(change(restated.clone(), false).unwrap_err(), ["attestation.authorized"]);
        assert_eq!(change(none.clone(), true).unwrap_err(), ["attestation.authorized"], "another address");
        let attested = change(RightsClaim { authorized: Some(true), ..restated }, false).unwrap();
        assert_eq!((&*attested.attestation.user_id, attested.attestation.at_ms), ("bob", 9));
        let between = Clearance::change_between(Some(&first), &attested, false);
        assert_eq!(between, Some((ClearanceChange::Attested, vec!["rights", "attestation"])));
        let emptied = RightsClaim { source_name: Some(String::new()), authorized: Some(true), ..none };
        assert_eq!(change(emptied, false).unwrap_err(), ["provenance.sourceName"]);
    }

    #[test]
    fn a_withdrawal_lasts_until_the_next_attestation() {
        let first = Clearance::from_claim(sample_claim(), None, false, "ada", 5).unwrap();
        let no = RightsClaim { authorized: Some(false), ..RightsClaim::default() };
        let withdrawn = Clearance::from_claim(no.clone(), Some(&first), false, "bob", 9).unwrap();
        assert!(!withdrawn.is_attested());
        let between = Clearance::change_between(Some(&first), &withdrawn, false);
        assert_eq!(between, Some((ClearanceChange::Withdrawn, vec!["attestation"])));
        let still = Clearance::from_claim(no, Some(&withdrawn), false, "eve", 11).unwrap();
        assert_eq!(still, withdrawn, "the first withdrawal is kept");
        let renamed = RightsClaim { source_name: Some("Another antenna".into()), ..RightsClaim::default() };
        let renamed = Clearance::from_claim(renamed, Some(&withdrawn), true, "eve", 11).unwrap();
        assert!(!renamed.is_attested(), "a change does not restore the attestation");
        assert_eq!(Clearance::change_between(Some(&withdrawn), &renamed, true).unwrap().0, ClearanceChange::Changed);
        let again = RightsClaim { authorized: Some(true), ..RightsClaim::default() };
        assert!(Clearance::from_claim(again, Some(&renamed), false, "ada", 20).unwrap().is_attested());
    }
}
