//! External channels: requests checked and applied, and changes of their rights recorded.

use std::sync::Arc;

use super::Change;
use crate::domain::address::Address;
use crate::domain::channel::{Channel, ChannelSettings, RequestedFiller};
use crate::domain::external::{ExternalChannel, ExternalStream, GuideChannelId, ExternalOrigin};
use crate::domain::rights::{self, ClearanceChange, RightsClaim, Clearance};
use crate::domain::schedule::{ScheduleDefinition, ScheduleMode};
use crate::error::{Error, Result};
use crate::service::Service;
use crate::service::rights::Subject;

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
    pub guide: Option<Option<GuideChannelId>>,
    pub claim: RightsClaim,
    /// The user who makes the change.
    pub by: String,
}

impl ExternalChange {
    /// Whether the request clears a field.
    fn nulls(&self) -> bool {
        let texts = [&self.claim.source_name, &self.claim.source_url, &self.claim.basis, &self.claim.statement];
        texts.iter().any(|text| text.is_some()) || self.claim.recording_basis.is_some() || self.user_agent.is_some()
    }

    fn says_something(&self) -> bool {
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
    fn of(channel: &Channel) -> Self {
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
pub(super) fn asked(before: Option<&Channel>, change: &Change, now_ms: i64) -> Result<Option<ExternalChannel>> {
    let kind = match (before.map(SourceType::of), change.source_type) {
        (Some(is), Some(asked)) if is != asked => {
            return Err(Error::field("sourceType", "cannot be changed; create another channel"));
        }
        (Some(is), _) => is,
        (None, asked) => asked.unwrap_or(SourceType::Virtual),
    };
    if kind == SourceType::Virtual {
        return match &change.external {
            // Clients send back channels as received, with nulls in them.
            Some(external) if external.says_something() => {
                Err(Error::field("sourceType", "must be external if source, provenance or rights are given"))
            }
            _ => Ok(None),
        };
    }
    let foreign = [
        ("items", change.asks.is_some()),
        ("schedule", change.plan.is_some()),
        ("filler", change.filler.is_some()),
        ("startAt", change.start_at.is_some()),
    ];
    if let Some((field, _)) = foreign.iter().find(|(_, told)| *told) {
        return Err(Error::field(field, "is only for library channels"));
    }
    let is = before.and_then(|before| before.external.as_deref());
    let asked = match (is, &change.external) {
        (Some(is), None) => return Ok(Some(is.clone())),
        (Some(is), Some(asked)) if !asked.says_something() && !asked.nulls() => {
            let guide = asked.guide.clone().unwrap_or_else(|| is.guide_channel.clone());
            return Ok(Some(ExternalChannel { guide_channel: guide, ..is.clone() }));
        }
        (Some(ExternalChannel { origin: ExternalOrigin::Source { id, .. }, .. }), Some(_)) => {
            return Err(Error::field("source", format!("belongs to source {id}; change it there")));
        }
        (_, asked) => asked.clone().unwrap_or_default(),
    };
    let was = is.and_then(ExternalChannel::own_clearance);
    let guide = asked.guide.unwrap_or_else(|| is.and_then(|is| is.guide_channel.clone()));
    let lacking = |lacks: &[&str]| Err(rights::missing_rights_error(lacks));
    let feed = match (asked.url, is) {
        (Some(url), _) => Some(url),
        (None, is) => is.map(|is| is.stream.url.clone()),
    };
    let Some(url) = feed else {
        let mut lacks = rights::missing_fields(&asked.claim);
        lacks.push("source.url");
        return lacking(&lacks);
    };
    let feed = ExternalStream {
        url,
        failover: asked.failover.or_else(|| is.map(|is| is.stream.failover.clone())).unwrap_or_default(),
        user_agent: asked.user_agent.unwrap_or_else(|| is.and_then(|is| is.stream.user_agent.clone())),
    };
    let moved = is.is_some_and(|is| moved(&is.stream, &feed));
    match Clearance::from_claim(asked.claim, was, moved, &asked.by, now_ms) {
        Ok(clearance) => {
            Ok(Some(ExternalChannel { stream, guide_channel: guide, origin: ExternalOrigin::Own { clearance, imported: kind == SourceType::Import } }))
        }
        Err(lacks) => lacking(&lacks),
    }
}

/// Whether the channel now shows another stream than the one that was attested.
fn moved(before: &ExternalStream, after: &ExternalStream) -> bool {
    (&before.url, &before.failover) != (&after.url, &after.failover)
}

/// An external channel. It has no items, so no file is opened.
pub(super) fn draft(before: Option<&Channel>, face: ChannelSettings, external: ExternalChannel) -> Channel {
    let (id, tvg_id, version) =
        before.map_or((0, Box::default(), 1), |before| (before.id, before.tvg_id.clone(), before.version + 1));
    Channel {
        id,
        tvg_id,
        settings: face,
        requested_items: Arc::default(),
        output: Arc::default(),
        requested_blocks: None,
        requested_filler: RequestedFiller::shared_empty(),
        external: Some(Box::new(external)),
        listings: before.and_then(|before| before.listings.clone()),
        clock: None,
        seed: 0,
        mode: ScheduleMode::Sequential,
        version,
        definition: ScheduleDefinition::default(),
    }
}

impl Service {
    /// Records in the audit log what a change does to a channel's own clearance, before the change is stored.
    pub(super) async fn note_clearance(
        &self,
        id: u32,
        before: Option<&Channel>,
        after: &Channel,
        change: &Change,
    ) -> Result<()> {
        let own = |channel: &Channel| channel.external.as_deref().and_then(ExternalChannel::own_clearance).cloned();
        let (was, Some(is)) = (before.and_then(own), own(after)) else { return Ok(()) };
        let feeds = before.and_then(|before| before.external.as_deref()).zip(after.external.as_deref());
        let moved = feeds.is_some_and(|(before, after)| moved(&before.stream, &after.stream));
        let Some((act, parts)) = Clearance::change_between(was.as_ref(), &is, moved) else { return Ok(()) };
        let by = change.external.as_ref().map_or("", |external| external.by.as_str());
        self.audit.add(Subject::Channel(id), &after.settings.name, act, &parts, by, &is).await
    }

    /// Removes a channel; its id is never used again. `by` is recorded if the channel had a clearance of its own.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL`.
    pub async fn remove_channel(&self, id: u32, by: &str) -> Result<()> {
        let channel = self.channels.get(id)?;
        if let Some(clearance) = channel.external.as_deref().and_then(ExternalChannel::own_clearance) {
            self.audit.add(Subject::Channel(id), &channel.settings.name, ClearanceChange::Removed, &[], by, clearance).await?;
        }
        self.channels.remove(id).await?;
        self.rights.tell();
        Ok(())
    }
}
