//! The WebVTT renditions of a session.

use std::sync::Arc;

use crate::domain::media::{Media, Stream, language_tag};
use crate::domain::playback::SubtitleDelivery;
use crate::domain::playlist::SubtitleRendition;
use crate::engine::source::SourceFile;
use crate::error::Result;
use crate::service::Service;
use crate::service::library::sidecars;

/// Most WebVTT renditions of a session; some files have 40 languages.
const MAX_TRACKS: usize = 48;

/// A text subtitle as a WebVTT rendition.
#[derive(Clone, Debug, PartialEq)]
pub struct TextTrack {
    /// [`SubtitleDelivery::Text`] or [`SubtitleDelivery::TextSidecar`].
    pub delivery: SubtitleDelivery,
    pub description: SubtitleRendition,
}

/// The requested subtitle, if it is text.
pub(super) fn plan_requested(media: &Media, requested: &SubtitleDelivery, file_name: &str) -> Option<TextTrack> {
    let description = match requested {
        SubtitleDelivery::Text { stream } => describe_stream(media.stream(*stream)?, false),
        SubtitleDelivery::TextSidecar { path } => describe_sidecar(path, file_name),
        SubtitleDelivery::None | SubtitleDelivery::Burn(_) => return None,
    };
    let description = SubtitleRendition { is_default: true, ..description };
    Some(TextTrack { delivery: requested.clone(), description })
}

/// All text subtitles of an item, those of its sidecar files included. Only the requested one is shown without a choice of
/// the viewer.
///
/// # Errors
/// Those of [`sidecars::list_sidecars`].
pub(super) async fn plan_all(
    service: &Service,
    source: &Arc<SourceFile>,
    media: &Media,
    requested: &SubtitleDelivery,
) -> Result<Vec<TextTrack>> {
    let streams = media.subtitle_streams().filter(|(stream, kind)| kind.is_text && stream.is_decodable);
    let streams = streams.map(|(stream, kind)| TextTrack {
        delivery: SubtitleDelivery::Text { stream: stream.index },
        description: describe_stream(stream, kind.is_hearing_impaired),
    });
    let sidecars = sidecars::list_sidecars(&service.library, source).await?;
    let sidecars = sidecars.into_iter().filter(|sidecar| sidecar.format.is_text()).map(|sidecar| TextTrack {
        description: SubtitleRendition {
            is_hearing_impaired: sidecar.hearing_impaired,
            ..describe_sidecar(&sidecar.path, source.file_name())
        },
        delivery: SubtitleDelivery::TextSidecar { path: sidecar.path },
    });
    let mut tracks: Vec<TextTrack> = streams.chain(sidecars).collect();
    let requested_track = plan_requested(media, requested, source.file_name());
    if let Some(requested_track) = requested_track {
        match tracks.iter_mut().find(|track| track.delivery == *requested) {
            Some(track) => track.description.is_default = true,
            None => tracks.insert(0, requested_track),
        }
    }
    // The requested one is kept in any case.
    tracks.sort_by_key(|track| !track.description.is_default);
    tracks.truncate(MAX_TRACKS);
    Ok(tracks)
}

fn describe_stream(stream: &Stream, is_hearing_impaired: bool) -> SubtitleRendition {
    let name = stream.title.clone().or_else(|| stream.language.clone());
    SubtitleRendition {
        name: name.unwrap_or_else(|| format!("Subtitle {}", stream.index)),
        language: stream.language.as_deref().and_then(language_tag),
        is_default: false,
        is_forced: stream.is_forced,
        is_hearing_impaired,
    }
}

fn describe_sidecar(path: &str, media_name: &str) -> SubtitleRendition {
    let name = path.rsplit('/').next().unwrap_or(path);
    let description = sidecars::parse_name(media_name, name);
    let (language, is_forced) = description.map_or((None, false), |description| {
        (description.language.as_deref().and_then(language_tag), description.forced)
    });
    SubtitleRendition { name: name.to_owned(), language, is_default: false, is_forced, is_hearing_impaired: false }
}
