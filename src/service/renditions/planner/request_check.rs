//! Checks a viewer's request against the item's tracks.

use std::sync::Arc;

use super::{StartRequest, SubtitleRequest};
use crate::domain::media::Media;
use crate::domain::plan::BurnedSubtitle;
use crate::domain::playback::SubtitleDelivery;
use crate::domain::visibility::Visibility;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::library::sidecars::{self, Sidecar};

/// Checks the request against the item's tracks and sets its subtitle. Returns the open file of a sidecar subtitle to burn in.
pub(super) async fn resolve_request(
    service: &Service,
    visibility: &Visibility,
    request: &mut StartRequest,
    source: &Arc<SourceFile>,
    media: &Media,
) -> Result<Option<Arc<SourceFile>>> {
    if let Some(index) = request.playback.audio_stream
        && !media.audio_streams().any(|(stream, _)| stream.index == index)
    {
        return Err(Error::invalid_field("audioStreamIndex", format!("{index} is not an audio stream of this file")));
    }
    let stream = match request.subtitle_stream {
        None => None,
        Some(index) => {
            let found = media.subtitle_streams().find(|(stream, _)| stream.index == index);
            let (stream, kind) = found.ok_or_else(|| {
                Error::invalid_field("subtitleStreamIndex", format!("{index} is not a subtitle stream of this file"))
            })?;
            if !stream.is_decodable {
                let text = format!("{index} is {}, which this server cannot decode", stream.codec);
                return Err(Error::invalid_field("subtitleStreamIndex", text));
            }
            Some((index, kind.is_text))
        }
    };
    let mut sidecar = None;
    let subtitle = match (request.subtitle, stream, &request.subtitle_path) {
        (SubtitleRequest::None, ..) | (SubtitleRequest::Embedded, None, _) => SubtitleDelivery::None,
        (SubtitleRequest::Embedded, Some((stream, true)), _) => SubtitleDelivery::Text { stream },
        (SubtitleRequest::Embedded | SubtitleRequest::Burn, Some((stream, text)), _) => {
            SubtitleDelivery::Burn(BurnedSubtitle::Embedded { stream, bitmap: !text })
        }
        (SubtitleRequest::External, _, Some(path)) => {
            check_text_path(path)?;
            service.library.locate_seen(visibility, path)?;
            SubtitleDelivery::TextSidecar { path: path.clone() }
        }
        (SubtitleRequest::Burn, None, Some(path)) => {
            // PGS subtitles are bitmaps.
            let bitmap = path.to_ascii_lowercase().ends_with(".sup");
            if !bitmap {
                check_text_path(path)?;
            }
            service.library.locate_seen(visibility, path)?;
            sidecar = Some(service.library.open_uncached(path).await?);
            SubtitleDelivery::Burn(BurnedSubtitle::Sidecar { path: path.clone(), bitmap })
        }
        (SubtitleRequest::External, _, None) => {
            let sidecar_files = sidecars::list_sidecars(&service.library, source).await?;
            // Default and full subtitles first, then those for some viewers.
            let rank = |sidecar: &Sidecar| (!sidecar.default, sidecar.forced, sidecar.hearing_impaired);
            let best_text = sidecar_files.into_iter().filter(|sidecar| sidecar.format.is_text()).min_by_key(rank);
            let none = || {
                Error::invalid_field(
                    "subtitlePath",
                    "is required, because this file has no text subtitle file beside it",
                )
            };
            SubtitleDelivery::TextSidecar { path: best_text.ok_or_else(none)?.path }
        }
        (SubtitleRequest::Burn, None, None) => {
            return Err(Error::invalid_field(
                "subtitleStreamIndex",
                "or subtitlePath is required for subtitleMode burn",
            ));
        }
    };
    request.playback.needs_subtitle_rendition = match &subtitle {
        // Only sidecar files of the item have their own URL.
        SubtitleDelivery::TextSidecar { path } if !request.device.needs_subtitle_rendition() => {
            !sidecars::list_sidecars(&service.library, source).await?.iter().any(|sidecar| sidecar.path == *path)
        }
        _ => request.device.needs_subtitle_rendition(),
    };
    request.playback.subtitle = subtitle;
    Ok(sidecar)
}

fn check_text_path(path: &str) -> Result<()> {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("srt" | "vtt" | "ass" | "ssa") => Ok(()),
        _ => Err(Error::new(Code::UnsupportedMediaType, "subtitlePath is not a text subtitle file")),
    }
}
