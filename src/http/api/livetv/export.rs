//! `GET /api/livetv/m3u` and `/api/livetv/xmltv`: the lineup as M3U and the guide (EPG) as XMLTV, for external players.

use std::ops::{Range, RangeInclusive};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED,
    REFERRER_POLICY, VARY,
};

use super::links::{LinkCredentials, base_url};
use super::watch::CredentialParams;
use crate::domain::channel::Channel;
use crate::domain::lineup::ChannelNaming;
use crate::domain::m3u::Catchup;
use crate::domain::time::WallMs;
use crate::domain::xmltv::ProgrammeWriter;
use crate::domain::{m3u, xmltv};
use crate::http::api::library::artwork::ArtworkLinks;
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::text_stream::{self, GzipChunks};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// The lineup as an M3U playlist
///
/// URLs start with `public_base_url` if it is configured, and with the `Host` of the request otherwise.
#[utoipa::path(get, path = "/api/livetv/m3u", params(
    ("channelIds" = Option<String>, Query, description = "Only these channels: ids, separated by commas"),
    ("category" = Option<String>, Query, description = "Only channels of this category"),
    ("tvgId" = Option<String>, Query, description = "Value of `tvg-id`: `stable` (default), `number` or `name`"),
    ("format" = Option<String>, Query, description = "`m3u` (default) or `m3u8`: selects the content type"),
    ("catchup" = Option<String>, Query, description = "Catch-up attributes: `default` (when absent), `append`, `shift` or `none`"),
    ("auth" = Option<String>, Query, description = "Credentials in the links: `token`, `signed` or `none`; default: those of the request"),
    CredentialParams,
    ("download" = Option<String>, Query, description = "`1`: send as an attachment"),
    ("If-None-Match" = Option<String>, Header, description = "ETag of the cached playlist")), responses(
    (status = 200, description = "Enabled channels whose rights permit showing, by number", content((String = "audio/x-mpegurl"), (String = "application/vnd.apple.mpegurl"))),
    (status = 304, description = "The cached playlist is still valid"),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn m3u(service: Arc<Service>, call: Call) -> Result<Response> {
    // No charset parameter: mpv 0.35 rejects playlists whose content type has one (measured). All players read UTF-8.
    let content_types = [("m3u", "audio/x-mpegurl"), ("m3u8", "application/vnd.apple.mpegurl")];
    let content_type = parse_choice("format", call.query("format").unwrap_or("m3u"), &content_types)?;
    let channels = exported_channels(&service, &call)?;
    let (base, naming) = (base_url(&service, &call)?, parse_naming(&call)?);
    let (credentials, catchup) = (LinkCredentials::from_request(&service, &call)?, parse_catchup(&call)?);
    let query = [credentials.query_for(&service, &call, "livetv/xmltv")?, guide_query(&call)].join("&");
    let query = query.trim_matches('&');
    let guide_url = format!("{base}/api/livetv/xmltv{}{query}", if query.is_empty() { "" } else { "?" });
    let style = m3u::M3uOptions { base_url: base, naming, guide_url, catchup };
    let mut etag_hasher = EtagHasher::new("l");
    etag_hasher.add(format!("{style:?} {credentials:?} {}", call.user()?.login_id).as_bytes());
    channels.iter().for_each(|channel| etag_hasher.add_channel(channel));
    let file_name = if content_type.starts_with("audio") { "channels.m3u" } else { "channels.m3u8" };
    let kind = if parse_flag(&call, "download")? { "attachment" } else { "inline" };
    let query_of = |channel: &Channel| credentials.query_for(&service, &call, &format!("livetv/watch/{}", channel.id));
    let link_queries = channels.iter().map(|channel| query_of(channel)).collect::<Result<Vec<String>>>()?;
    let header = m3u::format_header(&style);
    let entries = channels.into_iter().zip(link_queries);
    let entries = entries.map(move |(channel, query)| m3u::format_entry(&channel, &style, &query));
    let mut pieces = std::iter::once(header).chain(entries);
    let chunks = text_stream::chunks(move |text| match pieces.next() {
        Some(piece) => {
            text.extend_from_slice(piece.as_bytes());
            true
        }
        None => false,
    });
    let has_credentials = credentials.has_credentials();
    let export = ExportResponse { etag_hasher, modified_ms: None, is_gzip_file: false, has_credentials };
    let mut response = export.into_response(&service, &call.headers, content_type, chunks)?;
    let disposition = HeaderValue::try_from(format!("{kind}; filename=\"{file_name}\"")).map_err(Error::internal)?;
    response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    Ok(response)
}

/// The guide as XMLTV
///
/// Covers midnight UTC `prevDays` ago to the first midnight at least `days` ahead. The document changes once a day and when
/// a channel changes; with on-demand channels it may change every minute. Icons of programmes are posters of the library, whose addresses
/// are valid for at least three days.
#[utoipa::path(get, path = "/api/livetv/xmltv", params(
    ("days" = Option<u32>, Query, description = "Days ahead, 1 to 14; default 3"),
    ("prevDays" = Option<u32>, Query, description = "Days back, 0 to 7; default 1"),
    ("channelIds" = Option<String>, Query, description = "Only these channels: ids, separated by commas"),
    ("category" = Option<String>, Query, description = "Only channels of this category"),
    ("tvgId" = Option<String>, Query, description = "As in the M3U playlist"),
    ("tz" = Option<String>, Query, description = "`utc` (default), or `local`: times with the offset of each channel's time zone"),
    ("lcn" = Option<String>, Query, description = "`1`: add channel numbers as `lcn`, which is not part of the DTD"),
    CredentialParams,
    ("If-None-Match" = Option<String>, Header, description = "ETag of the cached guide")), responses(
    (status = 200, description = "Valid against the XMLTV DTD; gzip-encoded if the client accepts it", body = String, content_type = "application/xml"),
    (status = 304, description = "The cached guide is still valid"),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn xmltv(service: Arc<Service>, call: Call) -> Result<Response> {
    xmltv_response(service, &call, false)
}

/// The guide as a gzip-compressed XMLTV file
#[utoipa::path(get, path = "/api/livetv/xmltv.gz", params(
    ("days" = Option<u32>, Query, description = "All parameters as in `/api/livetv/xmltv`"),
    ("prevDays" = Option<u32>, Query),
    ("channelIds" = Option<String>, Query),
    ("category" = Option<String>, Query),
    ("tvgId" = Option<String>, Query),
    ("tz" = Option<String>, Query),
    ("lcn" = Option<String>, Query),
    ("st" = Option<String>, Query),
    ("token" = Option<String>, Query),
    ("exp" = Option<String>, Query),
    ("sig" = Option<String>, Query),
    ("If-None-Match" = Option<String>, Header, description = "ETag of the cached guide")), responses(
    (status = 200, description = "The guide, gzip-compressed", body = Vec<u8>, content_type = "application/gzip"),
    (status = 304, description = "The cached guide is still valid"),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn xmltv_gz(service: Arc<Service>, call: Call) -> Result<Response> {
    xmltv_response(service, &call, true)
}

fn xmltv_response(service: Arc<Service>, call: &Call, is_gzip_file: bool) -> Result<Response> {
    let artwork = ArtworkLinks::new(&service, call.user()?);
    let days = parse_count(call, "days", 3, 1..=14)?;
    let days_back = parse_count(call, "prevDays", 1, 0..=7)?;
    let local_times = parse_choice("tz", call.query("tz").unwrap_or("utc"), &[("utc", false), ("local", true)])?;
    let style = xmltv::XmltvOptions {
        base_url: base_url(&service, call)?,
        naming: parse_naming(call)?,
        local_times,
        include_lcn: parse_flag(call, "lcn")?,
        icons: artwork.icons(service.clone(), Arc::new(call.user()?.clone())),
    };
    let channels = exported_channels(&service, call)?;
    let now = service.clock.now_ms();
    let midnight = now - now.0.rem_euclid(DAY_MS);
    let (from, to) = (midnight - days_back * DAY_MS, midnight + (days + 1) * DAY_MS);
    let mut etag_hasher = EtagHasher::new("x");
    etag_hasher.add(format!("{style:?} {} {} {}", from.0, to.0, artwork.grant()).as_bytes());
    let mut modified = service.channels.changed_ms().max(midnight.0);
    for channel in &channels {
        etag_hasher.add_channel(channel);
        if let Some(clock) = &channel.clock {
            etag_hasher.hasher.update(&clock.guide_hash(now).to_le_bytes());
            modified = modified.max(clock.guide_changed_ms(now).0);
        }
    }
    let chunks = xmltv_chunks(channels, style, from..to, now);
    let content_type = if is_gzip_file { "application/gzip" } else { "application/xml; charset=utf-8" };
    let mut response =
        ExportResponse { etag_hasher, modified_ms: Some(modified), is_gzip_file, has_credentials: false }
            .into_response(&service, &call.headers, content_type, chunks)?;
    if is_gzip_file {
        let disposition = HeaderValue::from_static("inline; filename=\"xmltv.xml.gz\"");
        response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// Builds the ETag of an export from its inputs, so that `If-None-Match` is answered without rendering the export.
struct EtagHasher {
    prefix: &'static str,
    hasher: blake3::Hasher,
}

impl EtagHasher {
    fn new(prefix: &'static str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes());
        Self { prefix, hasher }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    }

    fn add_channel(&mut self, channel: &Channel) {
        self.add(channel.tvg_id.as_bytes());
        self.hasher.update(&channel.version.to_le_bytes());
        self.hasher.update(&channel.listings.as_ref().map_or(0, |listings| listings.content_hash).to_le_bytes());
    }
}

/// A streamed response with its validators.
struct ExportResponse {
    etag_hasher: EtagHasher,
    modified_ms: Option<i64>,
    /// The body is a `.gz` file, independent of `Accept-Encoding`.
    is_gzip_file: bool,
    /// The body contains credentials and must not be cached.
    has_credentials: bool,
}

impl ExportResponse {
    fn into_response(
        self,
        service: &Service,
        headers: &HeaderMap,
        content_type: &'static str,
        chunks: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    ) -> Result<Response> {
        let use_gzip = !self.is_gzip_file && text_stream::accepts_encoding(headers, "gzip");
        let suffix = if use_gzip || self.is_gzip_file { "-gz" } else { "" };
        let etag =
            format!("\"{}-{}{suffix}\"", self.etag_hasher.prefix, &self.etag_hasher.hasher.finalize().to_hex()[..24]);
        // `Last-Modified` has a resolution of one second: a change in the same second would go unnoticed.
        let now_ms = service.clock.now().as_millisecond();
        let modified = self.modified_ms.filter(|modified| now_ms - modified > 2000);
        let modified = modified.and_then(|ms| u64::try_from(ms / 1000).ok());
        let modified = modified.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let mut response = match (Validators { etag: &etag, modified }).evaluate(headers) {
            PreconditionResult::NotModified => reply::not_modified(),
            PreconditionResult::Failed => {
                return Err(Error::new(Code::PreconditionFailed, "If-Match does not name the current ETag"));
            }
            PreconditionResult::Proceed => {
                let mut response = if use_gzip || self.is_gzip_file {
                    text_stream::streamed_response(GzipChunks::new(chunks))
                } else {
                    text_stream::streamed_response(chunks)
                };
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                if use_gzip {
                    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                }
                response
            }
        };
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: String| -> Result<()> {
            headers.insert(name, HeaderValue::try_from(value).map_err(Error::internal)?);
            Ok(())
        };
        set(ETAG, etag)?;
        set(CACHE_CONTROL, if self.has_credentials { "private, no-store" } else { "private, no-cache" }.to_owned())?;
        set(REFERRER_POLICY, "no-referrer".to_owned())?;
        set(VARY, "accept-encoding, host".to_owned())?;
        if let Some(modified) = modified {
            set(LAST_MODIFIED, httpdate::fmt_http_date(modified))?;
        }
        Ok(response)
    }
}

/// The XMLTV guide in chunks: the header, all channels, then the programmes of each channel.
fn xmltv_chunks(
    channels: Vec<Arc<Channel>>,
    style: xmltv::XmltvOptions,
    range_ms: Range<WallMs>,
    now_ms: WallMs,
) -> impl Iterator<Item = Bytes> + Send + Sync + 'static {
    let Range { start, end } = range_ms;
    let (mut declared, mut aired) = (channels.clone().into_iter(), channels.into_iter());
    let (mut is_head_written, mut programmes) = (false, None::<ProgrammeWriter>);
    text_stream::chunks(move |text| {
        if !is_head_written {
            xmltv::write_header(text);
            is_head_written = true;
        } else if let Some(channel) = declared.next() {
            xmltv::write_channel(text, &channel, &style);
        } else if programmes.as_mut().is_none_or(|programmes| !programmes.write_next(text)) {
            programmes = aired.next().map(|channel| ProgrammeWriter::new(channel, start, end, now_ms, &style));
            if programmes.is_none() {
                text.extend_from_slice(xmltv::FOOTER);
                return false;
            }
        }
        true
    })
}

/// The channels to export, by number.
fn exported_channels(service: &Service, call: &Call) -> Result<Vec<Arc<Channel>>> {
    let ids = call.query("channelIds").map(|list| super::guide::parse_ids("channelIds", list)).transpose()?;
    let category = call.query("category");
    let user = call.user()?;
    let mut channels = service.channels.all();
    channels.retain(|channel| {
        channel.settings.enabled
            && user.may_watch(channel.id)
            && ids.as_ref().is_none_or(|ids| ids.contains(&channel.id))
            && category.is_none_or(|category| *channel.settings.category == *category)
            && service.check_showing_rights(channel).is_ok()
    });
    Ok(channels)
}

/// Query of the guide URL in the playlist: the guide lists the same channels with the same ids.
fn guide_query(call: &Call) -> String {
    let mut query = String::new();
    for name in ["channelIds", "category", "tvgId"] {
        if let Some(value) = call.query(name) {
            let value = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
            query.push_str(&format!("&{name}={value}"));
        }
    }
    query
}

fn parse_catchup(call: &Call) -> Result<Catchup> {
    let text = call.query("catchup").unwrap_or("default");
    Catchup::parse(text).ok_or_else(|| Error::invalid_field("catchup", "must be default, append, shift or none"))
}

fn parse_naming(call: &Call) -> Result<ChannelNaming> {
    let text = call.query("tvgId").unwrap_or("stable");
    ChannelNaming::parse(text).ok_or_else(|| Error::invalid_field("tvgId", "must be stable, number or name"))
}

fn parse_flag(call: &Call, name: &str) -> Result<bool> {
    match call.query(name) {
        None | Some("" | "0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(_) => Err(Error::invalid_field(name, "must be 1 or 0")),
    }
}

fn parse_count(call: &Call, name: &str, default: i64, range: RangeInclusive<i64>) -> Result<i64> {
    let Some(text) = call.query(name) else { return Ok(default) };
    text.parse().ok().filter(|value| range.contains(value)).ok_or_else(|| {
        Error::invalid_field(name, format!("must be an integer from {} to {}", range.start(), range.end()))
    })
}
