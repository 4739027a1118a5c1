//! `GET /api/livetv/audit`: who attested, changed and withdrew the rights of external sources. No route changes or removes
//! an entry.

use super::guide::parse_id;
use super::rights::{AttestationView, ProvenanceView, RightsView};
use crate::domain::time::format_ms;
use crate::http::api::prelude::*;
use crate::service::channels::rights::{AuditRecord, AuditSubject};

/// Most entries of one response.
const MAX_ENTRIES: usize = 500;

/// A page of the rights audit log.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditAnswer {
    entries: Vec<AuditEntry>,
    /// Send it as `after` for the next page; null on the last.
    next_after: Option<u64>,
}

/// One change of rights: who made it, and the statements valid from then on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Increases with every entry.
    id: u64,
    #[schema(format = DateTime)]
    at: String,
    /// Name of the user who made the change.
    by: String,
    /// `attested`, `changed`, `withdrawn` or `removed`.
    action: &'static str,
    /// The source whose rights changed; null for a channel's own rights.
    source_id: Option<u32>,
    channel_id: Option<u32>,
    /// Name of the source or channel at that time.
    name: String,
    /// The parts that changed: `provenance`, `rights`, `source`, `attestation`.
    changed: Vec<String>,
    provenance: ProvenanceView,
    rights: RightsView,
    attestation: AttestationView,
}

/// Audit log of rights: attestations, changes, withdrawals
#[utoipa::path(get, path = "/api/livetv/audit", params(
    ("source" = Option<u32>, Query, description = "Only entries about this source"),
    ("channel" = Option<u32>, Query, description = "Only entries about this channel's own rights"),
    ("after" = Option<u64>, Query, description = "Only entries after the one with this id")), responses(
    (status = 200, description = "Oldest first, at most 500", body = AuditAnswer)))]
pub async fn audit(service: Arc<Service>, call: Call) -> Result<Response> {
    let subject = match (call.query("source"), call.query("channel")) {
        (Some(_), Some(_)) => return Err(Error::invalid_field("channel", "must be absent when source is given")),
        (Some(source), None) => Some(AuditSubject::Source(parse_id("source", source)?)),
        (None, Some(channel)) => Some(AuditSubject::Channel(parse_id("channel", channel)?)),
        (None, None) => None,
    };
    let after =
        call.query("after").unwrap_or("0").parse().map_err(|_| Error::invalid_field("after", "must be an entry id"))?;
    let records = service.audit_log.entries(subject, after, MAX_ENTRIES)?;
    let next_after = if records.len() == MAX_ENTRIES { records.last().map(|(id, _)| *id) } else { None };
    let entries = records.into_iter().map(|(id, record)| AuditEntry::new(id, record)).collect();
    Ok(reply::json(&AuditAnswer { entries, next_after }))
}

impl AuditEntry {
    fn new(id: u64, record: AuditRecord) -> Self {
        let (source_id, channel_id) = match record.subject {
            AuditSubject::Source(id) => (Some(id), None),
            AuditSubject::Channel(id) => (None, Some(id)),
        };
        Self {
            id,
            at: format_ms(record.at_ms),
            by: record.user_id,
            action: record.change.as_str(),
            source_id,
            channel_id,
            name: record.name,
            changed: record.changed_fields,
            provenance: ProvenanceView::new(&record.clearance.provenance),
            rights: RightsView::new(&record.clearance),
            attestation: AttestationView::new(&record.clearance),
        }
    }
}
