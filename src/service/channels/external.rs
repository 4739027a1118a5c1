//! External channels: requests checked and applied, and changes of their rights recorded.

use super::ChannelChange;
use crate::domain::address::Address;
use crate::domain::channel::{Channel, ChannelSettings};
use crate::domain::external::{ExternalChannel, ExternalOrigin, ExternalStream, GuideChannelId};
use crate::domain::rights::{self, Clearance, ClearanceChange, RightsClaim};
use crate::domain::schedule::ScheduleMode;
use crate::error::{Error, Result};
use crate::service::Service;
use crate::service::channels::rights::AuditSubject;

/// Origin of a channel's media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceType {
    Virtual,
    External,
    Import,
}

/// Settings of a new external channel, or changes of an existing one.
#[derive(Clone, Debug, Default)]
pub struct ExternalChange {
    pub url: Option<Address>,
    pub failover: Option<Vec<Address>>,
    pub user_agent: Option<Option<String>>,
    /// The guide channel whose programmes it shows; an inner None selects the one named by the list's id.
    pub guide_channel: Option<Option<GuideChannelId>>,
    pub claim: RightsClaim,
    /// The user who makes the change.
    pub user_id: String,
}

impl ExternalChange {
    fn clears_fields(&self) -> bool {
        let texts = [&self.claim.source_name, &self.claim.source_url, &self.claim.basis, &self.claim.statement];
        texts.iter().any(|text| text.is_some()) || self.claim.recording_basis.is_some() || self.user_agent.is_some()
    }

    fn sets_fields(&self) -> bool {
        let RightsClaim { source_name, source_url, imported_at_ms, basis, statement, recording_basis, authorized } =
            &self.claim;
        let texts = [source_name, source_url, basis, statement];
        self.url.is_some()
            || self.failover.is_some()
            || imported_at_ms.is_some()
            || authorized.is_some()
            || recording_basis.as_ref().is_some_and(Option::is_some)
            || texts.iter().any(|text| text.as_ref().is_some_and(|text| !text.is_empty()))
    }
}

impl SourceType {
    fn of_channel(channel: &Channel) -> Self {
        match channel.external.as_deref().map(ExternalChannel::source_type) {
            None => Self::Virtual,
            Some("external") => Self::External,
            Some(_) => Self::Import,
        }
    }
}

/// Applies a request to the settings of an external channel, with all checks. None for a library channel.
///
/// # Errors
/// `RIGHTS_BASIS_REQUIRED` naming the missing fields; `VALIDATION_ERROR` for fields that do not belong to such a channel.
pub(super) fn resolve_external(
    previous: Option<&Channel>,
    change: &ChannelChange,
    now_ms: i64,
) -> Result<Option<ExternalChannel>> {
    let kind = match (previous.map(SourceType::of_channel), change.source_type) {
        (Some(old), Some(requested)) if old != requested => {
            return Err(Error::invalid_field("sourceType", "cannot be changed; create another channel"));
        }
        (Some(old), _) => old,
        (None, requested) => requested.unwrap_or(SourceType::Virtual),
    };
    if kind == SourceType::Virtual {
        return match &change.external {
            // Clients send back channels as received, with nulls in them.
            Some(external) if external.sets_fields() => {
                Err(Error::invalid_field("sourceType", "must be external if source, provenance or rights are given"))
            }
            _ => Ok(None),
        };
    }
    let library_fields = [
        ("items", change.requested_items.is_some()),
        ("schedule", change.requested_blocks.is_some()),
        ("filler", change.requested_filler.is_some()),
        ("startAt", change.start_at.is_some()),
    ];
    if let Some((field, _)) = library_fields.iter().find(|(_, is_set)| *is_set) {
        return Err(Error::invalid_field(field, "is only for library channels"));
    }
    let old = previous.and_then(|previous| previous.external.as_deref());
    let requested = match (old, &change.external) {
        (Some(old), None) => return Ok(Some(old.clone())),
        (Some(old), Some(requested)) if !requested.sets_fields() && !requested.clears_fields() => {
            let guide = requested.guide_channel.clone().unwrap_or_else(|| old.guide_channel.clone());
            return Ok(Some(ExternalChannel { guide_channel: guide, ..old.clone() }));
        }
        (Some(ExternalChannel { origin: ExternalOrigin::Source { id, .. }, .. }), Some(_)) => {
            return Err(Error::invalid_field("source", format!("belongs to source {id}; change it there")));
        }
        (_, requested) => requested.clone().unwrap_or_default(),
    };
    let previous_clearance = old.and_then(ExternalChannel::own_clearance);
    let guide = requested.guide_channel.unwrap_or_else(|| old.and_then(|old| old.guide_channel.clone()));
    let missing_error = |missing: &[&str]| Err(rights::missing_rights_error(missing));
    let stored_url = old.map(|old| &old.stream.url);
    let stream_url = match requested.url {
        Some(url) => Some(resolve_address("source.url", url, stored_url)?),
        None => stored_url.cloned(),
    };
    let Some(url) = stream_url else {
        let mut missing = rights::missing_fields(&requested.claim);
        missing.push("source.url");
        return missing_error(&missing);
    };
    let stored_failover = old.map(|old| &old.stream.failover[..]).unwrap_or_default();
    let resolve_failover =
        |(n, url): (usize, Address)| resolve_address(&format!("source.failoverUrls[{n}]"), url, stored_failover.get(n));
    let stream = ExternalStream {
        url,
        failover: match requested.failover {
            Some(urls) => urls.into_iter().enumerate().map(resolve_failover).collect::<Result<_>>()?,
            None => stored_failover.to_vec(),
        },
        user_agent: requested.user_agent.unwrap_or_else(|| old.and_then(|old| old.stream.user_agent.clone())),
    };
    let has_moved = old.is_some_and(|old| has_moved(&old.stream, &stream));
    match Clearance::from_claim(requested.claim, previous_clearance, has_moved, &requested.user_id, now_ms) {
        Ok(clearance) => Ok(Some(ExternalChannel {
            stream,
            guide_channel: guide,
            origin: ExternalOrigin::Own { clearance, imported: kind == SourceType::Import },
        })),
        Err(missing) => missing_error(&missing),
    }
}

/// The requested address, or the stored one if the request has its printed form.
fn resolve_address(field: &str, requested: Address, stored: Option<&Address>) -> Result<Address> {
    requested.or_stored(stored).map_err(|message| Error::invalid_field(field, message))
}

/// Whether the channel now shows another stream than the one that was attested.
fn has_moved(previous: &ExternalStream, after: &ExternalStream) -> bool {
    (&previous.url, &previous.failover) != (&after.url, &after.failover)
}

/// An external channel. It has no items, so no file is opened.
pub(super) fn draft(previous: Option<&Channel>, settings: ChannelSettings, external: ExternalChannel) -> Channel {
    let (id, tvg_id, version) = previous
        .map_or((0, Box::default(), 1), |previous| (previous.id, previous.tvg_id.clone(), previous.version + 1));
    Channel {
        id,
        tvg_id,
        settings,
        external: Some(Box::new(external)),
        listings: previous.and_then(|previous| previous.listings.clone()),
        mode: ScheduleMode::Sequential,
        version,
        ..Channel::default()
    }
}

impl Service {
    /// Records in the audit log what a change does to a channel's own clearance, before the change is stored.
    pub(super) async fn record_clearance(
        &self,
        id: u32,
        previous: Option<&Channel>,
        changed: &Channel,
        change: &ChannelChange,
    ) -> Result<()> {
        let own = |channel: &Channel| channel.external.as_deref().and_then(ExternalChannel::own_clearance).cloned();
        let (previous_clearance, Some(clearance)) = (previous.and_then(own), own(changed)) else {
            return Ok(());
        };
        let streams = previous.and_then(|previous| previous.external.as_deref()).zip(changed.external.as_deref());
        let has_moved = streams.is_some_and(|(previous, after)| has_moved(&previous.stream, &after.stream));
        let Some((kind, fields)) = Clearance::change_between(previous_clearance.as_ref(), &clearance, has_moved) else {
            return Ok(());
        };
        let by = change.external.as_ref().map_or("", |external| external.user_id.as_str());
        self.audit_log.append(AuditSubject::Channel(id), &changed.settings.name, kind, &fields, by, &clearance).await
    }

    /// Removes a channel; its id is never used again. `by` is recorded if the channel had a clearance of its own.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL`.
    pub async fn remove_channel(&self, id: u32, by: &str) -> Result<()> {
        let channel = self.channels.get(id)?;
        if let Some(clearance) = channel.external.as_deref().and_then(ExternalChannel::own_clearance) {
            let (subject, name) = (AuditSubject::Channel(id), &channel.settings.name);
            self.audit_log.append(subject, name, ClearanceChange::Removed, &[], by, clearance).await?;
        }
        self.channels.remove(id).await?;
        self.rights_changes.notify();
        Ok(())
    }
}
