//! The JSON form of media info, built from the probe result.

use super::description::Description;
use super::mark::Mark;
use super::playback::Playback;
use super::stream::Stream;
use super::subtitle::Subtitle;
use super::{InfoClient, MediaLinks};
use crate::domain::media::{self, PROBE_VERSION, StreamKind};
use crate::domain::time::{file_instant, format_timestamp, round_to_ms};
use crate::engine::source::SourceFile;
use crate::http::api::prelude::*;
use crate::http::api::progress::WatchProgress;
use crate::service::library::sidecars::Sidecar;
use crate::service::media::ProbeResult;

/// Media info of a file.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MediaInfo {
    /// Identifies the content: stays the same when the file is renamed or moved.
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
    /// Parts that viewers may skip, in order of time. Those that are not stated by names of chapters are found while nothing is
    /// played.
    pub(super) marks: Vec<Mark>,
    /// The WebVTT file of seek previews; null without video, and for a file that the library does not list yet.
    pub(super) previews_url: Option<String>,
    /// From the NFO file beside the file; null without one.
    pub(super) description: Option<Description>,
    /// Null for a file that was never played.
    pub(super) watch_progress: Option<WatchProgress>,
    playback: Playback,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Probe {
    container: &'static str,
    /// Null if unknown.
    duration_seconds: Option<f64>,
    bitrate_kbps: Option<u32>,
    seekable: bool,
    start_seconds: f64,
    probed_at: String,
    probe_version: u32,
    warnings: Vec<String>,
}

/// Stream indexes by type.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Tracks {
    video: Vec<u32>,
    audio: Vec<u32>,
    subtitle: Vec<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Chapter {
    index: usize,
    title: Option<String>,
    start_seconds: f64,
    end_seconds: f64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    index: usize,
    file_name: Option<String>,
    mime_type: Option<String>,
    /// URL of a font; null for other attachments.
    url: Option<String>,
    /// `url` with a grant, for players that cannot send headers.
    signed_url: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Tags {
    title: Option<String>,
    artist: Option<String>,
    album: Option<String>,
    date: Option<String>,
}

impl MediaInfo {
    pub fn new(
        source: &SourceFile,
        probed: &ProbeResult,
        sidecars: &[Sidecar],
        client: &InfoClient,
        links: &MediaLinks,
        transcoder_available: bool,
    ) -> Result<Self> {
        let media = &*probed.media;
        let unreadable = |cause| Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause);
        let media_id = source.fingerprint().map_err(unreadable)?.to_owned();
        let mut tracks = Tracks::default();
        for stream in &media.streams {
            match stream.kind {
                StreamKind::Video(_) => tracks.video.push(stream.index),
                StreamKind::Audio(_) => tracks.audio.push(stream.index),
                // Only streams that a request can select.
                StreamKind::Subtitle(_) if stream.is_decodable => tracks.subtitle.push(stream.index),
                StreamKind::Subtitle(_) | StreamKind::Data => {}
            }
        }
        let to_chapter = |(index, chapter): (usize, &media::Chapter)| Chapter {
            index,
            title: chapter.title.clone(),
            start_seconds: round_to_ms(chapter.start_seconds),
            end_seconds: round_to_ms(chapter.end_seconds),
        };
        let to_attachment = |(index, attachment): (usize, &media::Attachment)| {
            let media::Attachment { file_name, mime_type } = attachment.clone();
            let url = attachment.is_font().then(|| links.attachment_url(index));
            let signed_url = url.as_deref().and_then(|url| links.with_grant(url));
            Attachment { index, file_name, mime_type, url, signed_url }
        };
        let media::Tags { title, artist, album, date } = media.tags.clone();
        Ok(Self {
            media_id,
            path: source.path.clone(),
            file_name: source.file_name().to_owned(),
            size_bytes: source.len,
            modified_at: file_instant(source.modified),
            mime_type: media.mime_type.clone(),
            etag: source.etag(),
            probe: Probe {
                container: media.container.as_str(),
                duration_seconds: media.duration_seconds.map(round_to_ms),
                bitrate_kbps: media.bitrate_kbps,
                seekable: media.is_seekable,
                start_seconds: round_to_ms(media.start_seconds),
                probed_at: format_timestamp(probed.at),
                probe_version: PROBE_VERSION,
                warnings: media.warnings.clone(),
            },
            streams: media.streams.iter().map(Stream::new).collect(),
            tracks,
            subtitles: Subtitle::embedded(media, links)
                .chain(sidecars.iter().map(|sidecar| Subtitle::external(sidecar, links)))
                .collect(),
            chapters: media.chapters.iter().enumerate().map(to_chapter).collect(),
            attachments: media.attachments.iter().enumerate().map(to_attachment).collect(),
            tags: Tags { title, artist, album, date },
            marks: Vec::new(),
            previews_url: None,
            description: None,
            watch_progress: None,
            playback: Playback::new(media, client, links, transcoder_available),
        })
    }
}
