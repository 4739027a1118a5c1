//! The subtitles that are burned into a channel's video: embedded streams and sidecar files.

use std::sync::Arc;

use crate::domain::media::{Media, language_tag};
use crate::domain::plan::BurnedSubtitle;
use crate::domain::playback::SubtitleDelivery;
use crate::engine::source::SourceFile;
use crate::service::Service;
use crate::service::library::sidecars::{self, Sidecar, SidecarFormat};

/// The subtitles in the first of these languages that exists, and the open file of a sidecar.
pub(super) async fn choose_subtitles(
    service: &Service,
    source: &Arc<SourceFile>,
    media: &Media,
    languages: &[String],
) -> (SubtitleDelivery, Option<Arc<SourceFile>>) {
    if languages.is_empty() {
        return (SubtitleDelivery::None, None);
    }
    let sidecar_files = sidecars::list_sidecars(&service.library, source).await.unwrap_or_else(|fault| {
        tracing::warn!(media.path = source.path, %fault, "the sidecar subtitles of a channel's item could not be listed");
        Vec::new()
    });
    match best_subtitle(media, &sidecar_files, languages) {
        None => (SubtitleDelivery::None, None),
        Some(BurnedSubtitle::Sidecar { path, bitmap }) => match service.library.open_uncached(&path).await {
            Ok(file) => (SubtitleDelivery::Burn(BurnedSubtitle::Sidecar { path, bitmap }), Some(file)),
            Err(fault) => {
                tracing::warn!(media.path = path, %fault, "a channel is aired without its subtitles");
                (SubtitleDelivery::None, None)
            }
        },
        Some(embedded) => (SubtitleDelivery::Burn(embedded), None),
    }
}

/// The best subtitle in the first language that exists: full subtitles before forced ones or those for the hearing impaired,
/// embedded ones before sidecars.
fn best_subtitle(media: &Media, sidecar_files: &[Sidecar], languages: &[String]) -> Option<BurnedSubtitle> {
    languages.iter().find_map(|language| {
        let embedded = media
            .subtitle_streams()
            .filter(|(stream, _)| stream.is_decodable && is_language(stream.language.as_deref(), language));
        let embedded = embedded.map(|(stream, kind)| {
            (
                (stream.is_forced, false, false, false),
                BurnedSubtitle::Embedded { stream: stream.index, bitmap: !kind.is_text },
            )
        });
        // VobSub sidecars consist of two files and cannot be burned in.
        let external = sidecar_files.iter().filter(|sidecar| {
            sidecar.format != SidecarFormat::VobSub && is_language(sidecar.language.as_deref(), language)
        });
        let external = external.map(|sidecar| {
            let rank = (sidecar.forced, sidecar.hearing_impaired, true, !sidecar.default);
            (rank, BurnedSubtitle::Sidecar { path: sidecar.path.clone(), bitmap: !sidecar.format.is_text() })
        });
        embedded.chain(external).min_by_key(|(rank, _)| *rank).map(|(_, burn)| burn)
    })
}

/// Whether a language is the requested one, whichever code either uses.
pub(super) fn is_language(own: Option<&str>, language: &str) -> bool {
    let is_same = |own: &str| {
        own.eq_ignore_ascii_case(language)
            || (language_tag(own).is_some() && language_tag(own) == language_tag(language))
    };
    own.is_some_and(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::Container;

    fn sample_sidecars(names: &[&str]) -> Vec<Sidecar> {
        let path =
            |file: &str| Sidecar { path: format!("/lib/{file}"), ..sidecars::parse_name("a.mkv", file).unwrap() };
        names.iter().map(|file| path(file)).collect()
    }

    fn best_path(names: &[&str], languages: &[&str]) -> Option<String> {
        let languages: Vec<String> = languages.iter().map(|&language| language.to_owned()).collect();
        match best_subtitle(&Media::new(Container::Matroska, Vec::new()), &sample_sidecars(names), &languages)? {
            BurnedSubtitle::Sidecar { path, bitmap } => Some(format!("{path} {bitmap}")),
            BurnedSubtitle::Embedded { .. } => None,
        }
    }

    #[test]
    fn sidecars_are_chosen_by_language_and_full_ones_first() {
        let all = ["a.de.forced.srt", "a.de.sdh.ass", "a.ger.srt", "a.en.sup", "a.srt", "a.fr.idx"];
        assert_eq!(best_path(&all, &["ger"]).as_deref(), Some("/lib/a.ger.srt false"));
        assert_eq!(best_path(&all, &["fre", "eng", "ger"]).as_deref(), Some("/lib/a.en.sup true"));
        assert_eq!(best_path(&all[..2], &["de"]).as_deref(), Some("/lib/a.de.sdh.ass false"));
        assert_eq!(best_path(&all[..1], &["de"]).as_deref(), Some("/lib/a.de.forced.srt false"));
        assert_eq!(best_path(&all, &["ita"]), None);
        assert_eq!(best_path(&all[4..5], &["de"]), None, "a file without a language matches none");
    }
}
