//! Reads an imported list (M3U) or guide (XMLTV) into channels and programmes.

use std::sync::Arc;

use bytes::Bytes;

use super::SourceChange;
use crate::domain::address::Address;
use crate::domain::channel::Channel;
use crate::domain::external::ExternalChannel;
use crate::domain::m3u::parse::{M3uList, MAX_REASONS, SkippedEntries, SkippedEntry};
use crate::domain::source::{ChannelFilter, ImportSource, ReadCounts, ReadState, SourceKind};
use crate::domain::subtitles::charset;
use crate::domain::xmltv::parse::XmltvGuide;
use crate::domain::{m3u, xmltv};
use crate::engine::outbound::{OutboundError, OutboundRequest};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::channels::PlannedChannel;

/// Largest list or guide as received, before decompression, bytes.
pub const MAX_BYTES: u64 = 16 << 20;

/// The parsed content of a source.
pub(super) enum ParsedSource {
    List(M3uList),
    Guide(XmltvGuide),
}

/// The result of an import that is not stored.
#[derive(Debug, Default)]
pub struct Preview {
    pub counts: ReadCounts,
    pub channels: Vec<PreviewChannel>,
    pub skipped: Vec<SkippedEntry>,
    /// Guide addresses given in the list.
    pub guides: Vec<Address>,
}

/// A channel that an import would create.
#[derive(Debug)]
pub struct PreviewChannel {
    pub channel: Channel,
    /// The `tvg-id` in the list.
    pub tvg_id: String,
    pub groups: Vec<String>,
}

impl Service {
    /// Previews the import of a source.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` with the reason if the source cannot be read.
    pub async fn preview_source(&self, change: SourceChange) -> Result<Preview> {
        let kind = change.kind.ok_or_else(|| Error::invalid_field("kind", "is missing"))?;
        let bytes = match (&change.upload, &change.url) {
            (Some(upload), None) => upload.clone(),
            (None, Some(url)) => self.fetch_address(url).await?,
            (Some(_), Some(_)) => return Err(Error::invalid_field("upload", "and url cannot both be given")),
            (None, None) => return Err(Error::invalid_field("url", "is missing, and so is upload")),
        };
        match self.read_source(kind, bytes).await? {
            ParsedSource::List(list) => {
                let mut preview = Preview { guides: list.guide_urls.clone(), ..Preview::default() };
                preview.counts.entries = list.entries.len() + list.skipped.count;
                let (selected, mut skips) = select_entries(list, &change.filter.unwrap_or_default());
                // No source has id 0, so every entry counts as new.
                let (planned, _) = self.channels.plan_import(0, change.number_from.flatten(), &selected, &mut skips);
                preview.counts.channels = planned.len();
                preview.counts.skipped = skips.count;
                preview.skipped = skips.reasons;
                let to_preview = |PlannedChannel { channel, groups, .. }| {
                    let entry = channel.external.as_deref().and_then(ExternalChannel::imported_entry);
                    let tvg_id = entry.map(|entry| entry.tvg_id.clone()).unwrap_or_default();
                    PreviewChannel { channel, tvg_id, groups }
                };
                preview.channels = planned.into_iter().map(to_preview).collect();
                Ok(preview)
            }
            ParsedSource::Guide(guide) => {
                Ok(Preview { counts: guide_counts(&guide), skipped: guide.skipped.reasons, ..Preview::default() })
            }
        }
    }

    pub(super) async fn fetch_source(&self, source: &ImportSource, upload: Option<&Bytes>) -> Result<Bytes> {
        match (upload, &source.url) {
            (Some(upload), _) => Ok(upload.clone()),
            (None, Some(url)) => self.fetch_address(url).await,
            (None, None) => Err(Error::invalid_field("upload", "is missing")),
        }
    }

    async fn fetch_address(&self, url: &Address) -> Result<Bytes> {
        let body = async { self.outbound.get(url, &OutboundRequest::for_file(MAX_BYTES)).await?.read_all().await };
        body.await.map_err(|fault| match fault {
            OutboundError::Busy => Error::new(Code::ServerBusy, fault.to_string()).with_retry_after(5),
            OutboundError::RateLimited(seconds) => {
                Error::new(Code::RateLimited, fault.to_string()).with_retry_after(seconds)
            }
            fault => Error::invalid_field("url", fault),
        })
    }

    /// Parses bytes in a blocking thread.
    pub(super) async fn read_source(&self, kind: SourceKind, bytes: Bytes) -> Result<ParsedSource> {
        let parsed = tokio::task::spawn_blocking(move || match kind {
            SourceKind::M3u => {
                m3u::parse::parse_list(&charset::decode(&bytes)).map(ParsedSource::List).map_err(str::to_owned)
            }
            SourceKind::Xmltv => xmltv::parse::parse_guide(&bytes).map(ParsedSource::Guide),
        });
        parsed.await.map_err(Error::internal)?.map_err(|why| Error::invalid_field("upload", why))
    }

    /// Imports the content of a source as channels or programmes. The caller holds the `edit_lock` of the sources.
    pub(super) async fn import_source(&self, source: &ImportSource, parsed: ParsedSource) -> Result<Arc<ImportSource>> {
        let (counts, skips) = match parsed {
            ParsedSource::List(list) => {
                let entries = list.entries.len() + list.skipped.count;
                let (selected, mut skips) = select_entries(list, &source.filter);
                let channels = self.channels.import(source.id, source.number_from, &selected, &mut skips).await?;
                (ReadCounts { entries, channels, programmes: 0, skipped: skips.count }, skips)
            }
            ParsedSource::Guide(guide) => {
                let counts = guide_counts(&guide);
                self.sources.guides.put(source, guide.listings, guide.channel_icons).await?;
                (counts, guide.skipped)
            }
        };
        self.map_guides().await;
        let read_ms = Some(self.clock.now().as_millisecond());
        let (state, mut skipped) = (ReadState::Ready, skips.reasons);
        skipped.truncate(MAX_REASONS);
        let source = ImportSource { state, last_read_ms: read_ms, counts, skipped, ..source.clone() };
        self.sources.store_source(source).await
    }
}

fn guide_counts(guide: &XmltvGuide) -> ReadCounts {
    let channels = guide.listings.len();
    let entries = guide.channel_names.keys().filter(|id| !guide.listings.contains_key(*id)).count() + channels;
    ReadCounts { entries, channels, programmes: guide.programme_count, skipped: guide.skipped.count }
}

/// Splits a list into entries that become channels and skipped ones, with reasons.
fn select_entries(list: M3uList, filter: &ChannelFilter) -> (Vec<m3u::parse::M3uEntry>, SkippedEntries) {
    let mut skips = list.skipped;
    let mut selected = Vec::with_capacity(list.entries.len());
    for entry in list.entries {
        match filter.matches(&entry) {
            true => selected.push(entry),
            false => skips.add(entry.line, &entry.name, "is not selected"),
        }
    }
    (selected, skips)
}
