//! `GET` and `POST /api/stream/info/full`: media info of a file, and how it would be played.

use http::header::USER_AGENT;
use jiff::Timestamp;
use percent_encoding::utf8_percent_encode;

use super::library::artwork::ArtworkLinks;
use super::progress::WatchProgress;
use crate::domain::access::Principal;
use crate::domain::playback::capabilities::{ClientCapabilities, ProbedCapabilities};
use crate::domain::playback::{DeviceProfile, RequestDevice};
use crate::engine::source::SourceFile;
use crate::http::api::prelude::*;
use crate::http::api::transcode::CapabilitiesBody;
use crate::http::urls::QUERY_ENCODE_SET;
use crate::service::catalogue::ItemId;
use crate::service::library::sidecars::{self, Sidecar};
use crate::service::media::ProbeResult;

mod description;
mod mark;
mod media_info;
mod playback;
mod stream;
mod subtitle;

pub use description::Description;
use media_info::MediaInfo;

/// Lifetime of signed URLs in the response, seconds. They also end with the login that requested them.
const GRANT_SECONDS: i64 = 12 * 3600;

/// Media info for a built-in player profile, selected by `player`, then the User-Agent; default: a desktop browser.
#[utoipa::path(get, path = "/api/stream/info/full", params(
    ("path" = String, Query, description = "Absolute path of a media file"),
    ("player" = Option<String>, Query, description = "Name of the player, as in a start request")), responses(
    (status = 200, body = MediaInfo), (status = 403), (status = 404), (status = 415), (status = 422),
    (status = 503, description = "`PROBE_TIMED_OUT`: the disk is slow or the server is busy; try again")))]
pub async fn info_full(service: Arc<Service>, call: Call) -> Result<Response> {
    let (path, principal) = (call.media_path()?.to_owned(), call.user()?.clone());
    let client = InfoClient::resolve(InfoRequest::default(), call.query("player"), call.header(USER_AGENT));
    respond(&service, path, principal, &client).await
}

/// Media info for the device profile and the capabilities in the body.
#[utoipa::path(post, path = "/api/stream/info/full", request_body = InfoRequest, params(
    ("path" = String, Query, description = "Absolute path of a media file")), responses(
    (status = 200, body = MediaInfo), (status = 400), (status = 403), (status = 404), (status = 415), (status = 422),
    (status = 503, description = "`PROBE_TIMED_OUT`: the disk is slow or the server is busy; try again")))]
pub async fn info_full_for_device(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let (path, principal) = (call.media_path()?.to_owned(), call.user()?.clone());
    let mut request: InfoRequest = call.json().await?;
    let player = request.player.take();
    let client = InfoClient::resolve(request, player.as_deref(), call.header(USER_AGENT));
    respond(&service, path, principal, &client).await
}

/// The client to decide for, as in a start request.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct InfoRequest {
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    device_profile: Option<DeviceProfile>,
    /// Name of the player, as in a start request.
    player: Option<String>,
    /// The codecs that a page has found its browser to decode in segments, as in a start request. Absent: those of the `deviceProfile`,
    /// the `player` or the User-Agent.
    #[schema(value_type = Option<CapabilitiesBody>)]
    capabilities: Option<ProbedCapabilities>,
}

/// A client: the device profile of whole files, and the capabilities for segments.
#[derive(Default)]
struct InfoClient {
    device: RequestDevice,
    capabilities: ClientCapabilities,
}

impl InfoClient {
    fn resolve(request: InfoRequest, player: Option<&str>, user_agent: Option<&str>) -> Self {
        let device = RequestDevice::resolve(request.device_profile, player, user_agent);
        let capabilities = ClientCapabilities::resolve(request.capabilities.as_ref(), player, &device);
        Self { device, capabilities }
    }
}

async fn respond(service: &Arc<Service>, path: String, user: Principal, client: &InfoClient) -> Result<Response> {
    let source = service.library.open_seen(&user.visibility, &path).await?;
    let probed = service.media.probe(&source).await?;
    let sidecars = sidecars::list_sidecars(&service.library, &source).await?;
    let can_transcode = service.local_encoders.can_transcode().await;
    let links = MediaLinks::signed(service, &user, &source);
    let mut info = MediaInfo::new(&source, &probed, &sidecars, client, &links, can_transcode)?;
    info.marks = service.marks_of(&source, &probed.media).into_iter().map(Into::into).collect();
    info.previews_url = previews_url(service, &user, &source, &probed);
    info.description = service.library.describe(&source).await.map(Into::into);
    let record = service.open_file_progress(&user, &source).await?;
    info.watch_progress = record.map(|record| WatchProgress::new(&user.user_id, record, true));
    Ok(reply::json(&info))
}

/// The address of an item's seek previews.
fn previews_url(service: &Service, user: &Principal, source: &SourceFile, probed: &ProbeResult) -> Option<String> {
    let id = ItemId::parse(source.cached_fingerprint()?)?;
    let has_previews = probed.media.video_streams().next().is_some() && probed.media.duration_seconds.is_some();
    (has_previews && service.catalogue.path_of(id).is_some()).then(|| ArtworkLinks::new(service, user).previews_of(id))
}

/// Media info as JSON for the command line: its URLs carry no grant.
///
/// # Errors
/// `SOURCE_READ_FAILED`.
pub fn media_info_json(
    source: &SourceFile,
    probed: &ProbeResult,
    sidecars: &[Sidecar],
    can_transcode: bool,
) -> Result<serde_json::Value> {
    let (client, links) = (InfoClient::default(), MediaLinks::unsigned(source));
    let info = MediaInfo::new(source, probed, sidecars, &client, &links, can_transcode)?;
    serde_json::to_value(info).map_err(Error::internal)
}

/// URLs of the file, its subtitles and attachments.
struct MediaLinks<'a> {
    addresses: ResourceUrls<'a>,
    path: String,
    /// None on the command line, where no user is signed in.
    grant: Option<String>,
}

impl<'a> MediaLinks<'a> {
    fn unsigned(source: &SourceFile) -> Self {
        Self { addresses: ResourceUrls::default(), path: source.path.clone(), grant: None }
    }

    fn signed(service: &'a Service, principal: &Principal, source: &SourceFile) -> Self {
        let exp = Timestamp::now().as_second() + GRANT_SECONDS;
        let grant = service.accounts.sign_grant(principal, &format!("stream/file:{}", source.path), exp);
        Self { addresses: ResourceUrls::from_config(&service.config), grant: Some(grant), ..Self::unsigned(source) }
    }

    fn file_url(&self) -> String {
        self.addresses.media_file(&self.path)
    }

    fn subtitle_url(&self, id: &str) -> String {
        self.addresses.subtitle(&self.path, id)
    }

    fn attachment_url(&self, index: usize) -> String {
        let path = utf8_percent_encode(&self.path, QUERY_ENCODE_SET);
        self.addresses.external_path(format_args!("/api/stream/attachment?path={path}&index={index}"))
    }

    fn with_grant(&self, url: &str) -> Option<String> {
        Some(format!("{url}&st={}", utf8_percent_encode(self.grant.as_deref()?, QUERY_ENCODE_SET)))
    }
}
