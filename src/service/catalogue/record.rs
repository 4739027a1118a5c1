//! Items as they are stored, by path. A record can be computed again from its file.

use serde::{Deserialize, Serialize};

use crate::domain::m3u::parse::clean_text;
use crate::domain::media::{Media, StreamKind, Tags};
use crate::domain::nfo::Nfo;

/// Longest tag kept, characters.
const MAX_TAG_CHARS: usize = 300;

/// Most codecs of audio listed.
const MAX_AUDIO_CODECS: usize = 16;

/// One file: its identity, its version, and what its NFO file and its probe stated. Texts and lists are bounded by both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ItemRecord {
    pub id: String,
    #[serde(rename = "size")]
    pub size_bytes: u64,
    #[serde(rename = "modified")]
    pub modified_ns: i64,
    #[serde(rename = "added")]
    pub added_ms: i64,
    /// Of the NFO files that may describe it, when `nfo` was read.
    pub nfo_stamp: u64,
    pub nfo: Option<Nfo>,
    /// None until it was probed.
    pub technical: Option<Technical>,
}

/// A summary of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Technical {
    #[serde(rename = "duration")]
    pub duration_seconds: Option<f64>,
    pub container: String,
    #[serde(rename = "video")]
    pub video_codec: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub hdr: Option<String>,
    /// Of the audio streams, each once.
    #[serde(rename = "audio")]
    pub audio_codecs: Vec<String>,
    pub tags: Tags,
    /// Whether an image is embedded; None in records of earlier probes.
    #[serde(rename = "cover", default, skip_serializing_if = "Option::is_none")]
    pub has_cover: Option<bool>,
}

impl Technical {
    pub(super) fn of_media(media: &Media) -> Self {
        let mut technical = Self {
            duration_seconds: media.duration_seconds,
            container: media.container.as_str().to_owned(),
            tags: bounded_tags(&media.tags),
            has_cover: Some(media.cover_stream().is_some()),
            ..Self::default()
        };
        for stream in &media.streams {
            match &stream.kind {
                StreamKind::Video(video) if technical.video_codec.is_none() => {
                    technical.video_codec = Some(stream.codec.clone());
                    (technical.width, technical.height) = (Some(video.width), Some(video.height));
                    technical.hdr = video.hdr.map(|hdr| hdr.as_str().to_owned());
                }
                StreamKind::Audio(_)
                    if technical.audio_codecs.len() < MAX_AUDIO_CODECS
                        && !technical.audio_codecs.contains(&stream.codec) =>
                {
                    technical.audio_codecs.push(stream.codec.clone());
                }
                _ => {}
            }
        }
        technical
    }
}

fn bounded_tags(tags: &Tags) -> Tags {
    let text = |tag: &Option<String>| tag.as_deref().map(|text| clean_text(text, MAX_TAG_CHARS));
    Tags { title: text(&tags.title), artist: text(&tags.artist), album: text(&tags.album), date: text(&tags.date) }
}

/// A title that a user chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChosenTitle {
    pub title: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::records::assert_golden;

    #[test]
    fn records_keep_their_bytes() {
        assert_golden::<ItemRecord>("catalogue");
        assert_golden::<ChosenTitle>("titles");
    }
}
