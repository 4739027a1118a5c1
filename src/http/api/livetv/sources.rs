//! `/api/livetv/sources`: imported playlists (M3U) and guides (XMLTV).

use http::StatusCode;

use super::rights::{AttestationView, ProvenanceView, RightsView};
use crate::domain::address::Address;
use crate::domain::m3u::parse::SkippedEntry;
use crate::domain::source::{ChannelFilter, ImportSource, ReadCounts, ReadState};
use crate::domain::time::format_ms;
use crate::http::api::prelude::*;
use crate::service::channels::sources::{Preview, PreviewChannel};

mod body;

pub use body::SourceRequest;

/// Largest body, bytes: the upload (`body::MAX_UPLOAD_BYTES`) and the fields beside it.
pub const MAX_BODY_BYTES: u64 = 17 << 20;

/// All sources.
#[derive(Serialize, ToSchema)]
pub struct SourcesAnswer {
    sources: Vec<SourceView>,
}

/// One source.
#[derive(Serialize, ToSchema)]
pub struct SourceAnswer {
    source: SourceView,
}

/// A deleted source.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceGone {
    source_id: u32,
    deleted: bool,
}

/// An imported playlist (M3U) or guide (XMLTV).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Source)]
pub struct SourceView {
    id: u32,
    /// `m3u` or `xmltv`.
    kind: &'static str,
    name: String,
    /// Scheme and host only; null for an uploaded source.
    url: Option<String>,
    refresh_hours: Option<u32>,
    /// `ready`, `refreshing`, `failed` or `withdrawn`.
    state: &'static str,
    /// Why the last refresh failed; the data of the refresh before it stays in use.
    error: Option<String>,
    #[schema(format = DateTime)]
    last_refresh_at: Option<String>,
    counts: CountsView,
    provenance: ProvenanceView,
    /// Null for a guide with provenance only.
    rights: Option<RightsView>,
    attestation: Option<AttestationView>,
    select: SelectView,
    number_from: Option<u32>,
    /// Entries that were skipped, at most 1000; only in responses with a single source.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<Vec<SkipView>>,
}

/// Counts of the last refresh.
#[derive(Serialize, ToSchema)]
#[schema(as = SourceCounts)]
pub struct CountsView {
    /// Entries of the playlist, or channels that the guide declares.
    entries: usize,
    channels: usize,
    programmes: usize,
    skipped: usize,
}

/// The filter for entries that become channels.
#[derive(Serialize, ToSchema)]
#[schema(as = Select)]
pub struct SelectView {
    groups: Vec<String>,
    names: Vec<String>,
    ids: Vec<String>,
}

/// An entry that was skipped.
#[derive(Serialize, ToSchema)]
#[schema(as = Skip)]
pub struct SkipView {
    /// Line number, starting at 1.
    line: usize,
    name: String,
    reason: String,
}

/// The result of an import that was not saved.
#[derive(Serialize, ToSchema)]
pub struct SourcePreview {
    counts: CountsView,
    channels: Vec<ImportView>,
    skipped: Vec<SkipView>,
    /// Guide URLs (`url-tvg`) of the playlist.
    guides: Vec<String>,
}

/// A channel that an import would create.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ImportedChannel)]
pub struct ImportView {
    name: String,
    number: u32,
    /// As in the playlist or guide.
    tvg_id: String,
    groups: Vec<String>,
    logo_url: Option<String>,
}

/// All sources
#[utoipa::path(get, path = "/api/livetv/sources", responses(
    (status = 200, description = "Sources by id", body = SourcesAnswer)))]
pub async fn sources(service: Arc<Service>, _call: Call) -> Result<Response> {
    let sources = service.sources.all().iter().map(|source| SourceView::new(&service, source)).collect();
    Ok(reply::json(&SourcesAnswer { sources }))
}

/// One source, with its skipped entries
#[utoipa::path(get, path = "/api/livetv/sources/{id}", params(("id" = u32, Path, description = "Source id")), responses(
    (status = 200, description = "The source", body = SourceAnswer)))]
pub async fn source(service: Arc<Service>, call: Call) -> Result<Response> {
    let source = service.sources.get(parse_source_id(&call)?)?;
    Ok(reply::json(&source_answer(&service, &source)))
}

/// Import a playlist (M3U) or a guide (XMLTV)
///
/// The body is JSON, or `multipart/form-data` with one part per field and the file as `upload`.
#[utoipa::path(post, path = "/api/livetv/sources", request_body = SourceRequest, responses(
    (status = 201, description = "Imported, and its channels created", body = SourceAnswer),
    (status = 400, description = "`VALIDATION_ERROR`: the message says what the file is instead, or why the URL is refused"),
    (status = 422, description = "`RIGHTS_BASIS_REQUIRED`: `details.missing` names the missing fields")))]
pub async fn add(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let change = body::read_change(&mut call).await?;
    let source = service.add_source(change).await?;
    let urls = ResourceUrls::from_config(&service.config);
    let location = urls.external_path(format_args!("/api/livetv/sources/{}", source.id));
    reply::created(&source_answer(&service, &source), Some(location))
}

/// Preview an import without saving it
#[utoipa::path(post, path = "/api/livetv/sources/preview", request_body = SourceRequest, responses(
    (status = 200, description = "The channels it would create, and a reason for every skipped entry", body = SourcePreview),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn preview(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let change = body::read_change(&mut call).await?;
    let Preview { counts, channels, skipped, guides } = service.preview_source(change).await?;
    let to_import = |PreviewChannel { channel, tvg_id, groups }| ImportView {
        name: channel.settings.name.into(),
        number: channel.settings.number,
        tvg_id,
        groups,
        logo_url: channel.settings.logo_url.map(Into::into),
    };
    Ok(reply::json(&SourcePreview {
        counts: CountsView::new(counts),
        channels: channels.into_iter().map(to_import).collect(),
        skipped: skipped.iter().map(SkipView::new).collect(),
        guides: guides.iter().map(Address::to_string).collect(),
    }))
}

/// Change a source
///
/// A change of the URL, the upload, provenance or rights needs a new attestation. `attestation.authorized: false` withdraws
/// it: channels and recordings of the source stop at once.
#[utoipa::path(patch, path = "/api/livetv/sources/{id}", request_body = SourceRequest, params(
    ("id" = u32, Path, description = "Source id")), responses(
    (status = 200, description = "Changed, and refreshed if necessary", body = SourceAnswer),
    (status = 422, description = "`RIGHTS_BASIS_REQUIRED`: `details.missing` names the missing fields")))]
pub async fn change(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let id = parse_source_id(&call)?;
    let change = body::read_change(&mut call).await?;
    let source = service.change_source(id, change).await?;
    Ok(reply::json(&source_answer(&service, &source)))
}

/// Delete a source and its channels
#[utoipa::path(delete, path = "/api/livetv/sources/{id}", params(("id" = u32, Path, description = "Source id")), responses(
    (status = 200, description = "Deleted", body = SourceGone)))]
pub async fn remove(service: Arc<Service>, call: Call) -> Result<Response> {
    let source_id = parse_source_id(&call)?;
    service.remove_source(source_id, &call.user()?.username).await?;
    Ok(reply::json(&SourceGone { source_id, deleted: true }))
}

/// Refresh a source; channels keep their ids
#[utoipa::path(post, path = "/api/livetv/sources/{id}/refresh", params(("id" = u32, Path, description = "Source id")), responses(
    (status = 202, description = "The refresh has started", body = SourceAnswer),
    (status = 403, description = "`RIGHTS_WITHDRAWN`"),
    (status = 409, description = "`CONFLICT`: an uploaded source cannot be refreshed")))]
pub async fn refresh(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = parse_source_id(&call)?;
    service.refresh_source(id)?;
    let source = service.sources.get(id)?;
    Ok(reply::json_with(StatusCode::ACCEPTED, &source_answer(&service, &source)))
}

fn parse_source_id(call: &Call) -> Result<u32> {
    call.params[0].parse().map_err(|_| Error::new(Code::NotFound, "the source id must be a number"))
}

fn source_answer(service: &Service, source: &ImportSource) -> SourceAnswer {
    let skipped = Some(source.skipped.iter().map(SkipView::new).collect());
    SourceAnswer { source: SourceView { skipped, ..SourceView::new(service, source) } }
}

impl SourceView {
    fn new(service: &Service, source: &ImportSource) -> Self {
        let (state, error) = match &source.state {
            _ if !source.rights.is_usable() => ("withdrawn", None),
            _ if service.sources.is_busy(source.id) => ("refreshing", None),
            ReadState::Ready => ("ready", None),
            ReadState::Failed(why) => ("failed", Some(why.clone())),
        };
        let clearance = source.rights.clearance();
        let ChannelFilter { groups, names, ids } = source.filter.clone();
        Self {
            id: source.id,
            kind: source.kind.as_str(),
            name: source.name.clone(),
            url: source.url.as_ref().map(Address::to_string),
            refresh_hours: source.refresh_hours,
            state,
            error,
            last_refresh_at: source.last_read_ms.map(format_ms),
            counts: CountsView::new(source.counts),
            provenance: ProvenanceView::new(source.rights.provenance()),
            rights: clearance.map(RightsView::new),
            attestation: clearance.map(AttestationView::new),
            select: SelectView { groups, names, ids },
            number_from: source.number_from,
            skipped: None,
        }
    }
}

impl CountsView {
    fn new(counts: ReadCounts) -> Self {
        let ReadCounts { entries, channels, programmes, skipped } = counts;
        Self { entries, channels, programmes, skipped }
    }
}

impl SkipView {
    fn new(skip: &SkippedEntry) -> Self {
        let SkippedEntry { line, name, reason } = skip.clone();
        Self { line, name, reason }
    }
}
