//! The tracks of a channel's item beside its default audio: audio in other languages, and text subtitles.

use std::sync::Arc;

use super::STEREO_KBPS;
use crate::domain::channel::OutputSettings;
use crate::domain::media::TrackLanguage;
use crate::domain::plan::{AudioPlan, Rendition};
use crate::domain::schedule::ItemLanguages;
use crate::domain::segment_format::SegmentFormat;
use crate::engine::RenditionSpec;
use crate::service::Service;
use crate::service::library::sidecars::{self, Sidecar};
use crate::service::media::subtitles::SubtitleLocation;

/// The languages of an item's tracks, as a schedule freezes them. `main` is the rendition with its default audio.
pub(super) async fn item_languages(service: &Service, main: &RenditionSpec) -> Option<ItemLanguages> {
    let default_stream = main.rendition.audio.as_ref().map(AudioPlan::stream);
    let mut audio_streams: Vec<_> = main.media.audio_streams().collect();
    audio_streams.retain(|(stream, audio)| stream.is_decodable && !audio.is_commentary);
    audio_streams.sort_by_key(|(stream, _)| Some(stream.index) != default_stream);
    let audio = audio_streams.iter().filter_map(|(stream, _)| stream.language.as_deref());
    let sidecar_files = text_sidecars(service, main).await;
    let embedded =
        main.media.subtitle_streams().filter(|(stream, kind)| kind.is_text && stream.is_decodable && !stream.is_forced);
    let embedded = embedded.filter_map(|(stream, _)| stream.language.as_deref());
    let text = embedded.chain(sidecar_files.iter().filter_map(|sidecar| sidecar.language.as_deref()));
    ItemLanguages::from_tracks(audio.filter_map(TrackLanguage::from_text), text.filter_map(TrackLanguage::from_text))
}

/// The sidecar files of an item with text that is more than forced subtitles.
async fn text_sidecars(service: &Service, main: &RenditionSpec) -> Vec<Sidecar> {
    let mut found = sidecars::list_sidecars(&service.library, &main.source).await.unwrap_or_else(|fault| {
        tracing::warn!(media.path = main.source.path, %fault, "the sidecar subtitles of a channel's item could not be listed");
        Vec::new()
    });
    found.retain(|sidecar| sidecar.format.is_text() && !sidecar.forced);
    found
}

/// The audio of an item in a language as a rendition of its own, on the grid of `main`. None if `main` has that track, or if
/// the item has none in this language.
pub async fn audio_rendition(
    service: &Service,
    main: &RenditionSpec,
    language: &TrackLanguage,
    output: &OutputSettings,
) -> Option<RenditionSpec> {
    let stream = language.audio_stream(&main.media)?;
    if main.rendition.audio.as_ref().map(AudioPlan::stream) == Some(stream) {
        return None;
    }
    let gain_tenths_db = match output.loudness_lufs {
        Some(level) => service.gain_tenths(&main.source, &main.media, stream, level).await,
        None => None,
    };
    let audio = AudioPlan::Encode { stream, channels: 2, kbps: STEREO_KBPS, gain_tenths_db };
    let rendition = Rendition { video: None, audio: Some(audio), format: SegmentFormat::MpegTs };
    Some(RenditionSpec {
        rendition: Arc::new(rendition),
        sidecar: None,
        watermark: None,
        package: None,
        ..main.clone()
    })
}

/// The text subtitle of an item in a language: full subtitles before those for the hearing impaired, embedded ones before
/// sidecar files. None without any.
pub async fn text_subtitle(
    service: &Service,
    main: &RenditionSpec,
    language: &TrackLanguage,
) -> Option<SubtitleLocation> {
    let embedded = main.media.subtitle_streams().filter(|(stream, kind)| {
        kind.is_text && stream.is_decodable && !stream.is_forced && language.matches(stream.language.as_deref())
    });
    let embedded =
        embedded.map(|(stream, kind)| ((kind.is_hearing_impaired, false), SubtitleLocation::Stream(stream.index)));
    let sidecar_files = text_sidecars(service, main).await;
    let external = sidecar_files.iter().filter(|sidecar| language.matches(sidecar.language.as_deref()));
    let external =
        external.map(|sidecar| ((sidecar.hearing_impaired, true), SubtitleLocation::File(sidecar.path.clone())));
    embedded.chain(external).min_by_key(|(rank, _)| *rank).map(|(_, location)| location)
}
