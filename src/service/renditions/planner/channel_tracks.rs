//! The tracks of a channel's item beside its default audio: audio in other languages, and text subtitles.

use std::sync::Arc;

use super::{STEREO_KBPS, SURROUND_KBPS};
use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::OutputSettings;
use crate::domain::live_window::LiveAudio;
use crate::domain::media::{Media, TrackLanguage};
use crate::domain::plan::{AudioPlan, Rendition};
use crate::domain::schedule::ItemLanguages;
use crate::domain::segment_format::SegmentFormat;
use crate::engine::RenditionSpec;
use crate::service::Service;
use crate::service::library::sidecars::{self, Sidecar};
use crate::service::media::subtitles::SubtitleLocation;

/// Fewest channels of a track that counts as 5.1.
const SURROUND_CHANNELS: u32 = 6;

/// The languages of an item's tracks, as a schedule freezes them. `main` is the rendition with its default audio.
pub(super) async fn item_languages(service: &Service, main: &RenditionSpec) -> Option<ItemLanguages> {
    let default_stream = main.rendition.audio.as_ref().map(AudioPlan::stream);
    let mut audio_streams: Vec<_> = main.media.audio_streams().collect();
    audio_streams.retain(|(stream, audio)| stream.is_decodable && !audio.is_commentary);
    audio_streams.sort_by_key(|(stream, _)| Some(stream.index) != default_stream);
    let has_surround = audio_streams.iter().any(|(_, audio)| audio.channels >= SURROUND_CHANNELS);
    let audio = audio_streams.iter().filter_map(|(stream, _)| stream.language.as_deref());
    let sidecar_files = text_sidecars(service, main).await;
    let embedded =
        main.media.subtitle_streams().filter(|(stream, kind)| kind.is_text && stream.is_decodable && !stream.is_forced);
    let embedded = embedded.filter_map(|(stream, _)| stream.language.as_deref());
    let text = embedded.chain(sidecar_files.iter().filter_map(|sidecar| sidecar.language.as_deref()));
    let (audio, text) = (audio.filter_map(TrackLanguage::from_text), text.filter_map(TrackLanguage::from_text));
    ItemLanguages::from_tracks(audio, text, has_surround)
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

/// The audio of an item as a rendition of its own, on the grid of `main`. Stereo: None if `main` has that track, or if the
/// item has none in this language. 5.1: the default track if the item has none in this language, and None only without audio.
/// Where a track has fewer channels, the others are silent.
pub async fn audio_rendition(
    service: &Service,
    main: &RenditionSpec,
    audio: &LiveAudio,
    output: &OutputSettings,
) -> Option<RenditionSpec> {
    let main_stream = main.rendition.audio.as_ref().map(AudioPlan::stream);
    let in_language = audio.language.audio_stream(&main.media);
    let (stream, kbps) = match audio.layout {
        AudioLayout::Stereo => (in_language.filter(|stream| main_stream != Some(*stream))?, STEREO_KBPS),
        AudioLayout::Surround => (surround_stream(&main.media, in_language.or(main_stream)?), SURROUND_KBPS),
    };
    let channels = audio.layout.channel_count();
    let gain_tenths_db = match output.loudness_lufs {
        Some(level) => service.gain_tenths(&main.source, &main.media, stream, level).await,
        None => None,
    };
    let audio = AudioPlan::Encode { stream, channels, kbps, gain_tenths_db };
    let rendition = Rendition { video: None, audio: Some(audio), format: SegmentFormat::MpegTs };
    Some(RenditionSpec {
        rendition: Arc::new(rendition),
        sidecar: None,
        watermark: None,
        package: None,
        ..main.clone()
    })
}

/// The 5.1 beside a track: the track itself, otherwise the first one in the same language; the track again without any.
fn surround_stream(media: &Media, track: u32) -> u32 {
    let language = media.stream(track).and_then(|stream| stream.language.as_deref());
    let is_same_language = |other: Option<&str>| match language.and_then(TrackLanguage::from_text) {
        Some(language) => language.matches(other),
        None => other.is_none(),
    };
    let candidates = media.audio_streams().filter(|(stream, audio)| {
        let is_other = stream.is_decodable && !audio.is_commentary && is_same_language(stream.language.as_deref());
        audio.channels >= SURROUND_CHANNELS && (stream.index == track || is_other)
    });
    let found = candidates.min_by_key(|(stream, _)| stream.index != track);
    found.map_or(track, |(stream, _)| stream.index)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{Audio, Container, Stream, StreamKind};

    #[test]
    fn surround_is_of_the_same_language() {
        let stream = |index, language: Option<&str>, channels, is_commentary| Stream {
            language: language.map(str::to_owned),
            ..Stream::new(index, "ac3", StreamKind::Audio(Audio { is_commentary, ..Audio::new(channels, 48_000) }))
        };
        let streams = vec![
            stream(1, Some("ger"), 2, false),
            stream(2, Some("de"), 6, true),
            stream(3, Some("eng"), 8, false),
            stream(4, Some("deu"), 6, false),
            stream(5, Some("eng"), 6, false),
            stream(6, None, 2, false),
            stream(7, None, 6, false),
            stream(8, Some("fre"), 2, false),
        ];
        let media = Media::new(Container::Matroska, streams);
        let found = [1, 3, 4, 5, 6, 8].map(|track| surround_stream(&media, track));
        assert_eq!(found, [4, 3, 4, 5, 7, 8]);
    }
}
