//! `GET` and `POST /api/stream/info/full`: what a file holds and how it would be played (contract section 6).

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use warp::reply::Response;

use super::call::Call;
use super::endpoint::{Endpoint, get, post};
use super::reply;
use crate::domain::access::{Access, Principal};
use crate::domain::media::{self, Media, PROBE_VERSION, StreamKind};
use crate::domain::playback::{self, Action, Decision, DeviceProfile, RUNGS, Wish};
use crate::domain::time::round_ms;
use crate::engine::source::Source;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::media::Probed;
use crate::service::sidecars::{self, Sidecar};

/// How long a signed link in an answer works, seconds (at most as long as the login it was made with).
const GRANT_SECONDS: i64 = 12 * 3600;

/// Unreserved characters of RFC 3986 and the slash, which a query may hold as it is.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    vec![
        get("/api/stream/info/full", Access::User).to(service, info_full),
        post("/api/stream/info/full", Access::User).to(service, info_full_for_device),
    ]
}

/// Media info against the profile of a desktop browser.
#[utoipa::path(
    get, path = "/api/stream/info/full", tag = "stream",
    params(("path" = String, Query, description = "absolute path of a media file")),
    responses((status = 200, body = MediaInfo), (status = 403), (status = 404), (status = 415), (status = 422))
)]
pub(super) async fn info_full(service: Arc<Service>, call: Call) -> Result<Response> {
    let (path, principal) = (call.media_path()?.to_owned(), call.user()?.clone());
    answer(&service, path, principal, &DeviceProfile::default()).await
}

/// Media info against the profile of a device.
#[utoipa::path(
    post, path = "/api/stream/info/full", tag = "stream",
    params(("path" = String, Query, description = "absolute path of a media file")),
    request_body = InfoRequest,
    responses((status = 200, body = MediaInfo), (status = 400), (status = 403), (status = 404), (status = 415), (status = 422))
)]
pub(super) async fn info_full_for_device(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let (path, principal) = (call.media_path()?.to_owned(), call.user()?.clone());
    let request: InfoRequest = call.json().await?;
    answer(&service, path, principal, &request.device_profile.unwrap_or_default()).await
}

/// Body of the `POST` form.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InfoRequest {
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    device_profile: Option<DeviceProfile>,
}

async fn answer(
    service: &Arc<Service>,
    path: String,
    principal: Principal,
    device: &DeviceProfile,
) -> Result<Response> {
    let source = service.library.open(&path).await?;
    let probed = service.media.probed(&source).await?;
    let beside = sidecars::beside(&service.roots, &source).await?;
    let available = !service.transcoder.report().await.proven.is_empty();
    let links = Links::signed(service, &principal, &source);
    Ok(reply::json(&MediaInfo::new(&source, &probed, &beside, device, &links, available)?))
}

/// The same answer without a server: no link in it carries a grant.
///
/// # Errors
/// `SOURCE_READ_FAILED`.
pub fn document(source: &Source, probed: &Probed, beside: &[Sidecar], available: bool) -> Result<serde_json::Value> {
    let info = MediaInfo::new(source, probed, beside, &DeviceProfile::default(), &Links::plain(source), available)?;
    serde_json::to_value(info).map_err(Error::internal)
}

/// The whole answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MediaInfo {
    /// Identity by content.
    media_id: String,
    path: String,
    file_name: String,
    size_bytes: u64,
    modified_at: String,
    mime_type: String,
    etag: String,
    probe: Probe,
    streams: Vec<Stream>,
    tracks: Tracks,
    subtitles: Vec<Subtitle>,
    chapters: Vec<Chapter>,
    attachments: Vec<Attachment>,
    tags: Tags,
    /// Filled once progress is kept.
    #[schema(value_type = Option<Object>)]
    watch_progress: Option<()>,
    playback: Playback,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Probe {
    container: &'static str,
    /// Null when it cannot be known.
    duration_seconds: Option<f64>,
    bitrate_kbps: Option<u32>,
    seekable: bool,
    start_seconds: f64,
    probed_at: String,
    probe_version: u32,
    warnings: Vec<String>,
}

/// One stream; which fields are there depends on `type`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stream {
    /// For `audioStreamIndex` and `subtitleStreamIndex`.
    index: u32,
    /// `video`, `audio`, `subtitle` or `data`.
    #[serde(rename = "type")]
    kind: &'static str,
    codec: String,
    codec_string: Option<String>,
    profile: Option<String>,
    level: Option<String>,
    #[serde(flatten)]
    detail: Detail,
    bitrate_kbps: Option<u32>,
    language: Option<String>,
    /// BCP-47, where the file's own tag is known.
    language_tag: Option<String>,
    title: Option<String>,
    default: bool,
    forced: bool,
    /// False when nothing on this machine can decode it.
    decodable: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Detail {
    Video(Box<Picture>),
    #[serde(rename_all = "camelCase")]
    Audio {
        channels: u32,
        channel_layout: Option<String>,
        sample_rate: u32,
        bit_depth: Option<u8>,
        commentary: bool,
    },
    #[serde(rename_all = "camelCase")]
    Subtitle {
        /// `text` or `bitmap`. (`kind`, since `type` is the stream's.)
        #[serde(rename = "kind")]
        form: &'static str,
        hearing_impaired: bool,
    },
    Data {},
}

/// The fields of a video stream.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Picture {
    width: u32,
    height: u32,
    display_aspect_ratio: String,
    sample_aspect_ratio: String,
    frame_rate: Option<f64>,
    frame_rate_fraction: Option<String>,
    variable_frame_rate: bool,
    interlaced: bool,
    bit_depth: u8,
    /// Null when not one frame could be decoded.
    chroma: Option<String>,
    rotation: u16,
    mirrored: bool,
    hdr: Option<&'static str>,
    color: Color,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Color {
    primaries: Option<String>,
    transfer: Option<String>,
    matrix: Option<String>,
    range: Option<String>,
}

/// Stream indexes by type.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Tracks {
    video: Vec<u32>,
    audio: Vec<u32>,
    subtitle: Vec<u32>,
}

/// A subtitle a player can choose.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subtitle {
    /// `e<index>` for a stream of the file, `x<n>` for a file beside it.
    id: String,
    /// `embedded` or `external`.
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    kind: &'static str,
    format: String,
    language: Option<String>,
    language_tag: Option<String>,
    title: Option<String>,
    default: bool,
    forced: bool,
    hearing_impaired: bool,
    /// Values of `subtitleMode` that fit.
    modes: Vec<&'static str>,
    /// WebVTT; null for bitmaps.
    url: Option<String>,
    signed_url: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chapter {
    index: usize,
    title: Option<String>,
    start_seconds: f64,
    end_seconds: f64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attachment {
    index: usize,
    file_name: Option<String>,
    mime_type: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tags {
    title: Option<String>,
    artist: Option<String>,
    album: Option<String>,
    date: Option<String>,
}

/// What a start request would decide.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Playback {
    /// `direct`, `transcode`, or null when nothing in the file can be played.
    recommended: Option<&'static str>,
    direct_play: bool,
    direct_url: Option<String>,
    /// The same with a grant, for players that cannot send a header.
    signed_direct_url: Option<String>,
    reasons: Vec<&'static str>,
    resolutions: Vec<&'static str>,
    can_copy_video: bool,
    can_copy_audio: bool,
    seekable: bool,
    /// Null until a session has read the file's keyframes.
    keyframe_interval_seconds: Option<f64>,
    transcoder_available: bool,
}

impl MediaInfo {
    fn new(
        source: &Source,
        probed: &Probed,
        beside: &[Sidecar],
        device: &DeviceProfile,
        links: &Links,
        transcoder_available: bool,
    ) -> Result<Self> {
        let media = &*probed.media;
        let media_id = source
            .fingerprint()
            .map_err(|cause| Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause))?
            .to_owned();
        let mut playback = playback(media, device, links);
        playback.transcoder_available = transcoder_available;
        let mut tracks = Tracks::default();
        for stream in &media.streams {
            match stream.kind {
                StreamKind::Video(_) => tracks.video.push(stream.index),
                StreamKind::Audio(_) => tracks.audio.push(stream.index),
                StreamKind::Subtitle(_) => tracks.subtitle.push(stream.index),
                StreamKind::Data => {}
            }
        }
        Ok(Self {
            media_id,
            path: source.path.clone(),
            file_name: source.file_name().to_owned(),
            size_bytes: source.len,
            modified_at: instant(source.modified),
            mime_type: media.mime_type.clone(),
            etag: source.etag(),
            probe: Probe {
                container: media.container.as_str(),
                duration_seconds: media.duration_seconds.map(round_ms),
                bitrate_kbps: media.bitrate_kbps,
                seekable: media.seekable,
                start_seconds: round_ms(media.start_seconds),
                probed_at: millis(probed.at),
                probe_version: PROBE_VERSION,
                warnings: media.warnings.clone(),
            },
            streams: media.streams.iter().map(stream).collect(),
            tracks,
            subtitles: embedded(media, links).chain(beside.iter().map(|sidecar| external(sidecar, links))).collect(),
            chapters: media
                .chapters
                .iter()
                .enumerate()
                .map(|(index, chapter)| Chapter {
                    index,
                    title: chapter.title.clone(),
                    start_seconds: round_ms(chapter.start_seconds),
                    end_seconds: round_ms(chapter.end_seconds),
                })
                .collect(),
            attachments: media
                .attachments
                .iter()
                .enumerate()
                .map(|(index, attachment)| Attachment {
                    index,
                    file_name: attachment.file_name.clone(),
                    mime_type: attachment.mime_type.clone(),
                })
                .collect(),
            tags: Tags {
                title: media.tags.title.clone(),
                artist: media.tags.artist.clone(),
                album: media.tags.album.clone(),
                date: media.tags.date.clone(),
            },
            watch_progress: None,
            playback,
        })
    }
}

/// Addresses of the file's own bytes and subtitles.
struct Links {
    path: String,
    /// None where nobody is signed in: on the command line.
    grant: Option<String>,
}

impl Links {
    fn plain(source: &Source) -> Self {
        Self { path: utf8_percent_encode(&source.path, QUERY).to_string(), grant: None }
    }

    fn signed(service: &Service, principal: &Principal, source: &Source) -> Self {
        let exp = Timestamp::now().as_second() + GRANT_SECONDS;
        let grant = service.accounts.grant(principal, &format!("stream/file:{}", source.path), exp);
        Self { grant: Some(grant), ..Self::plain(source) }
    }

    fn file(&self) -> String {
        format!("/api/stream/file?path={}", self.path)
    }

    fn subtitle(&self, id: &str) -> String {
        format!("/api/stream/subtitle?path={}&id={id}&format=vtt", self.path)
    }

    fn with_grant(&self, url: &str) -> Option<String> {
        Some(format!("{url}&st={}", utf8_percent_encode(self.grant.as_deref()?, QUERY)))
    }
}

fn stream(stream: &media::Stream) -> Stream {
    let (kind, detail) = match &stream.kind {
        StreamKind::Video(video) => ("video", picture(video)),
        StreamKind::Audio(audio) => (
            "audio",
            Detail::Audio {
                channels: audio.channels,
                channel_layout: audio.channel_layout.clone(),
                sample_rate: audio.sample_rate,
                bit_depth: audio.bit_depth,
                commentary: audio.commentary,
            },
        ),
        StreamKind::Subtitle(subtitle) => {
            ("subtitle", Detail::Subtitle { form: form(subtitle.text), hearing_impaired: subtitle.hearing_impaired })
        }
        StreamKind::Data => ("data", Detail::Data {}),
    };
    Stream {
        index: stream.index,
        kind,
        codec: stream.codec.clone(),
        codec_string: stream.codec_string.clone(),
        profile: stream.profile.clone(),
        level: stream.level.clone(),
        detail,
        bitrate_kbps: stream.bitrate_kbps,
        language: stream.language.clone(),
        language_tag: stream.language.as_deref().and_then(media::language_tag),
        title: stream.title.clone(),
        default: stream.default,
        forced: stream.forced,
        decodable: stream.decodable,
    }
}

fn picture(video: &media::Video) -> Detail {
    let (num, den) = video.sample_aspect;
    let aspect = f64::from(video.width) * f64::from(num) / (f64::from(video.height) * f64::from(den)).max(1.0);
    let color = &video.color;
    Detail::Video(Box::new(Picture {
        width: video.width,
        height: video.height,
        display_aspect_ratio: ratio(aspect),
        sample_aspect_ratio: format!("{num}:{den}"),
        frame_rate: video.frame_rate.map(|rate| round_ms(rate.as_f64())),
        frame_rate_fraction: video.frame_rate.map(|rate| format!("{}/{}", rate.num, rate.den)),
        variable_frame_rate: video.variable_frame_rate,
        interlaced: video.interlaced,
        bit_depth: video.bit_depth,
        chroma: Some(video.chroma.clone()).filter(|chroma| !chroma.is_empty()),
        rotation: video.rotation,
        mirrored: video.mirrored,
        hdr: video.hdr.map(media::Hdr::as_str),
        color: Color {
            primaries: color.primaries.clone(),
            transfer: color.transfer.clone(),
            matrix: color.matrix.clone(),
            range: color.range.clone(),
        },
    }))
}

/// `16:9` and `4:3` by name, everything else as a decimal (`2.4:1`).
fn ratio(aspect: f64) -> String {
    let near = |wanted: f64| (aspect - wanted).abs() < 0.01;
    if near(16.0 / 9.0) {
        "16:9".into()
    } else if near(4.0 / 3.0) {
        "4:3".into()
    } else if near(9.0 / 16.0) {
        "9:16".into()
    } else {
        format!("{}:1", (aspect * 100.0).round() / 100.0)
    }
}

fn embedded(media: &Media, links: &Links) -> impl Iterator<Item = Subtitle> {
    media.subtitles().map(|(stream, subtitle)| {
        let id = format!("e{}", stream.index);
        let url = (subtitle.text && stream.decodable).then(|| links.subtitle(&id));
        Subtitle {
            source: "embedded",
            stream_index: Some(stream.index),
            file: None,
            kind: form(subtitle.text),
            format: stream.codec.clone(),
            language: stream.language.clone(),
            language_tag: stream.language.as_deref().and_then(media::language_tag),
            title: stream.title.clone(),
            default: stream.default,
            forced: stream.forced,
            hearing_impaired: subtitle.hearing_impaired,
            modes: match (stream.decodable, subtitle.text) {
                (false, _) => vec![],
                (true, true) => vec!["embedded", "burn"],
                (true, false) => vec!["burn"],
            },
            signed_url: url.as_deref().and_then(|url| links.with_grant(url)),
            url,
            id,
        }
    })
}

fn external(sidecar: &Sidecar, links: &Links) -> Subtitle {
    let text = sidecar.format.is_text();
    let url = text.then(|| links.subtitle(&sidecar.id));
    Subtitle {
        id: sidecar.id.clone(),
        source: "external",
        stream_index: None,
        file: Some(sidecar.file.clone()),
        kind: form(text),
        format: sidecar.format.as_str().to_owned(),
        language: sidecar.language.clone(),
        language_tag: sidecar.language.as_deref().and_then(media::language_tag),
        title: sidecar.title.clone(),
        default: sidecar.default,
        forced: sidecar.forced,
        hearing_impaired: sidecar.hearing_impaired,
        modes: if text { vec!["external", "burn"] } else { vec!["burn"] },
        signed_url: url.as_deref().and_then(|url| links.with_grant(url)),
        url,
    }
}

fn playback(media: &Media, device: &DeviceProfile, links: &Links) -> Playback {
    let (decision, reasons) = playback::decide(media, device, &Wish::default());
    let (forced, _) = playback::decide(media, device, &Wish { force_transcode: true, ..Wish::default() });
    let copies = |pick: fn(&playback::Tracks) -> Option<(u32, Action)>| match &forced {
        Decision::Session(tracks) => matches!(pick(tracks), Some((_, Action::Copy))),
        _ => false,
    };
    let direct = decision == Decision::Direct;
    let url = direct.then(|| links.file());
    let lines = media.videos().map(|(_, video)| playback::display_height(video)).max();
    let smaller = RUNGS.iter().filter(|(_, height, _)| lines.is_some_and(|lines| *height < lines));
    Playback {
        recommended: match decision {
            Decision::Direct => Some("direct"),
            Decision::Session(_) => Some("transcode"),
            Decision::Refuse => None,
        },
        direct_play: direct,
        signed_direct_url: url.as_deref().and_then(|url| links.with_grant(url)),
        direct_url: url,
        reasons: reasons.into_iter().map(playback::Reason::as_str).collect(),
        resolutions: std::iter::once("original").chain(smaller.map(|(label, ..)| *label)).collect(),
        can_copy_video: copies(|tracks| tracks.video),
        can_copy_audio: copies(|tracks| tracks.audio),
        seekable: media.seekable,
        keyframe_interval_seconds: None,
        transcoder_available: false,
    }
}

fn form(text: bool) -> &'static str {
    if text { "text" } else { "bitmap" }
}

fn instant(time: SystemTime) -> String {
    millis(Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn millis(time: Timestamp) -> String {
    format!("{time:.3}")
}
