//! The `subtitles` part of media info: subtitle streams of the file, and sidecar files.

use super::MediaLinks;
use crate::domain::media::{self, Media};
use crate::http::api::prelude::*;
use crate::service::library::sidecars::Sidecar;

/// A subtitle that a player can select.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subtitle {
    /// `e<index>` for a stream of the file, `x<n>` for a sidecar.
    id: String,
    /// `embedded` or `external`.
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// `text`, `bitmap` or `teletext`.
    kind: &'static str,
    format: String,
    language: Option<String>,
    language_tag: Option<String>,
    title: Option<String>,
    default: bool,
    forced: bool,
    hearing_impaired: bool,
    /// Values of `subtitleMode` that it supports; empty if it cannot be shown.
    modes: Vec<&'static str>,
    /// URL of the WebVTT form; null for bitmap subtitles.
    url: Option<String>,
    signed_url: Option<String>,
}

impl Subtitle {
    /// The subtitle streams of the file.
    pub fn embedded(media: &Media, links: &MediaLinks) -> impl Iterator<Item = Self> {
        media.subtitle_streams().map(|(stream, subtitle)| {
            let id = format!("e{}", stream.index);
            let url = (subtitle.is_text && stream.is_decodable).then(|| links.subtitle_url(&id));
            Self {
                source: "embedded",
                stream_index: Some(stream.index),
                file: None,
                kind: subtitle_kind(&stream.codec, subtitle.is_text),
                format: stream.codec.clone(),
                language: stream.language.clone(),
                language_tag: stream.language.as_deref().and_then(media::language_tag),
                title: stream.title.clone(),
                default: stream.is_default,
                forced: stream.is_forced,
                hearing_impaired: subtitle.is_hearing_impaired,
                modes: match (stream.is_decodable, subtitle.is_text) {
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

    pub fn external(sidecar: &Sidecar, links: &MediaLinks) -> Self {
        let text = sidecar.format.is_text();
        let url = text.then(|| links.subtitle_url(&sidecar.id));
        Self {
            id: sidecar.id.clone(),
            source: "external",
            stream_index: None,
            file: Some(sidecar.file.clone()),
            kind: subtitle_kind(sidecar.format.as_str(), text),
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
}

/// The `kind` of a subtitle: `text`, `bitmap` or `teletext`.
pub(super) fn subtitle_kind(codec: &str, text: bool) -> &'static str {
    match (codec, text) {
        (media::TELETEXT, _) => "teletext",
        (_, true) => "text",
        (_, false) => "bitmap",
    }
}
