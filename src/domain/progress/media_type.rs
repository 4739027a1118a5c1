//! The media type reported by a player.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The media type. The API leaves the set of values open, so an unknown one is stored as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum MediaType {
    #[default]
    Video,
    Audio,
    Audiobook,
    Recording,
    Channel,
    Other(Arc<str>),
}

impl MediaType {
    /// The types with a meaning of their own.
    const KNOWN: [Self; 5] = [Self::Video, Self::Audio, Self::Audiobook, Self::Recording, Self::Channel];

    /// The type for a word; known words match in any case.
    pub fn from_word(word: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(word));
        known.unwrap_or_else(|| Self::Other(word.into()))
    }

    /// The API's value.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Audiobook => "audiobook",
            Self::Recording => "recording",
            Self::Channel => "channel",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for MediaType {
    fn from(word: String) -> Self {
        Self::from_word(&word)
    }
}

impl From<MediaType> for String {
    fn from(media_type: MediaType) -> Self {
        media_type.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_in_any_case_and_others_as_they_came() {
        for (word, media_type, name) in [
            ("video", MediaType::Video, "video"),
            ("AudioBook", MediaType::Audiobook, "audiobook"),
            ("Movie", MediaType::Other("Movie".into()), "Movie"),
        ] {
            assert_eq!(MediaType::from_word(word), media_type);
            assert_eq!(media_type.as_str(), name);
            let json = serde_json::to_string(&media_type).unwrap();
            assert_eq!(json, format!("\"{name}\""), "as stored by earlier versions");
            assert_eq!(serde_json::from_str::<MediaType>(&json).unwrap(), media_type);
        }
    }
}
