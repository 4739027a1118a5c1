//! The language of a track as a BCP 47 tag that is safe in file names and playlists.

use serde::{Deserialize, Serialize};

use super::{Media, language_tag};

/// Longest tag, bytes.
const MAX_TAG_BYTES: usize = 35;

/// A BCP 47 tag of letters, digits and hyphens, e.g. `de` or `pt-BR`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrackLanguage(Box<str>);

impl TrackLanguage {
    /// From a language as files write it (`ger`) or as a tag; None for what is neither.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_safe = |tag: &String| {
            tag.len() <= MAX_TAG_BYTES && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        language_tag(text).filter(is_safe).map(|tag| Self(tag.into()))
    }

    /// The language of a track that states none (ISO 639-2).
    pub fn undetermined() -> Self {
        Self("und".into())
    }

    pub fn is_undetermined(&self) -> bool {
        &*self.0 == "und"
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a file's own statement names this language, in whichever code.
    pub fn matches(&self, stated: Option<&str>) -> bool {
        stated.and_then(Self::from_text).is_some_and(|own| own == *self)
    }

    /// The first audio stream in this language that can be decoded and is no commentary.
    pub fn audio_stream(&self, media: &Media) -> Option<u32> {
        let mut streams = media.audio_streams();
        let found = streams.find(|(stream, audio)| {
            stream.is_decodable && !audio.is_commentary && self.matches(stream.language.as_deref())
        });
        found.map(|(stream, _)| stream.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{Audio, Container, Stream, StreamKind};

    fn language(text: &str) -> Option<String> {
        TrackLanguage::from_text(text).map(|language| language.as_str().to_owned())
    }

    #[test]
    fn only_tags_that_are_safe_in_names_are_languages() {
        let tags = ["ger", "de", "pt_BR", "und"].map(|text| language(text).unwrap());
        assert_eq!(tags, ["de", "de", "pt-BR", "und"]);
        for text in ["", "german", "de-\"x", "de-a/b", "../de", "d"] {
            assert_eq!(language(text), None, "{text}");
        }
        assert!(TrackLanguage::undetermined().is_undetermined());
    }

    #[test]
    fn a_commentary_is_not_the_audio_of_a_language() {
        let stream = |index, language: &str, is_commentary| Stream {
            language: Some(language.to_owned()),
            ..Stream::new(index, "aac", StreamKind::Audio(Audio { is_commentary, ..Audio::new(2, 48_000) }))
        };
        let streams = vec![stream(1, "eng", true), stream(2, "ger", false), stream(3, "en", false)];
        let media = Media::new(Container::Matroska, streams);
        let found = ["de", "en", "fr"].map(|tag| TrackLanguage::from_text(tag).unwrap().audio_stream(&media));
        assert_eq!(found, [Some(2), Some(3), None]);
    }
}
