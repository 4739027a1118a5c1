//! The files of a channel and their names: one media playlist with muxed segments, or one for each track in fMP4.

use crate::domain::media::TrackLanguage;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::playlist::InitId;
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::ChannelMs;

/// Longest name, bytes.
const MAX_NAME_BYTES: usize = 96;

/// A media playlist of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LiveTrack {
    /// Video and audio, muxed in MPEG-TS.
    Muxed,
    /// Video alone, in fMP4.
    Video,
    /// Audio alone, in fMP4: of each item the track in this language, or its default track.
    Audio(TrackLanguage),
    /// WebVTT in this language, empty where an item has none.
    Text(TrackLanguage),
}

/// A file of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveAsset {
    /// The multivariant playlist of the tracks in fMP4.
    Multivariant,
    Playlist(LiveTrack),
    /// The init segment of video or audio.
    Init(TrackKind, InitId),
    /// A segment by the start of its programme and its index there.
    Segment(LiveTrack, ChannelMs, usize),
}

impl LiveTrack {
    /// The format of its segments.
    pub fn format(&self) -> SegmentFormat {
        match self {
            Self::Muxed => SegmentFormat::MpegTs,
            Self::Video | Self::Audio(_) => SegmentFormat::Fmp4,
            Self::Text(_) => SegmentFormat::WebVtt,
        }
    }

    /// The content type of its segments.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Audio(_) => self.format().audio_content_type(),
            _ => self.format().content_type(),
        }
    }

    /// The track that its init segments and segments contain; None without init segments.
    pub fn kind(&self) -> Option<TrackKind> {
        match self {
            Self::Video => Some(TrackKind::Video),
            Self::Audio(_) => Some(TrackKind::Audio),
            Self::Muxed | Self::Text(_) => None,
        }
    }

    /// Name of its media playlist, e.g. `live.m3u8` or `audio-de.m3u8`.
    pub fn playlist_name(&self) -> String {
        match self {
            Self::Muxed => "live.m3u8".to_owned(),
            Self::Video => "video.m3u8".to_owned(),
            Self::Audio(language) => format!("audio-{}.m3u8", language.as_str()),
            Self::Text(language) => format!("text-{}.m3u8", language.as_str()),
        }
    }

    /// Name of a segment, e.g. `1795378500000-00450.ts` or `audio-de-1795378500000-00450.m4s`.
    pub fn segment_name(&self, programme_start_ms: ChannelMs, index: usize) -> String {
        let name = format!("{}-{index:05}.{}", programme_start_ms.0, self.format().extension());
        match self {
            Self::Muxed => name,
            Self::Video => format!("video-{name}"),
            Self::Audio(language) => format!("audio-{}-{name}", language.as_str()),
            Self::Text(language) => format!("text-{}-{name}", language.as_str()),
        }
    }

    /// The track of a name without the parts after it.
    fn parse(prefix: &str) -> Option<Self> {
        match prefix.split_once('-') {
            None if prefix == "video" => Some(Self::Video),
            Some(("audio", language)) => TrackLanguage::from_text(language).map(Self::Audio),
            Some(("text", language)) => TrackLanguage::from_text(language).map(Self::Text),
            _ => None,
        }
    }
}

impl LiveAsset {
    pub fn name(&self) -> String {
        match self {
            Self::Multivariant => "index.m3u8".to_owned(),
            Self::Playlist(track) => track.playlist_name(),
            Self::Init(TrackKind::Video, InitId(id)) => format!("video-{id:016x}.mp4"),
            Self::Init(TrackKind::Audio, InitId(id)) => format!("audio-{id:016x}.mp4"),
            Self::Segment(track, programme_start_ms, index) => track.segment_name(*programme_start_ms, *index),
        }
    }

    /// The asset a name refers to; None for every name this program does not write itself.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() > MAX_NAME_BYTES {
            return None;
        }
        let (stem, extension) = name.rsplit_once('.')?;
        let asset = match (stem, extension) {
            ("index", "m3u8") => Self::Multivariant,
            ("live", "m3u8") => Self::Playlist(LiveTrack::Muxed),
            (_, "m3u8") => Self::Playlist(LiveTrack::parse(stem)?),
            (_, "mp4") => {
                let (kind, id) = stem.split_once('-')?;
                let kind = if kind == "video" { TrackKind::Video } else { TrackKind::Audio };
                Self::Init(kind, InitId(u64::from_str_radix(id, 16).ok()?))
            }
            _ => {
                let (rest, index) = stem.rsplit_once('-')?;
                let (track, start) = match rest.rsplit_once('-') {
                    Some((prefix, start)) => (LiveTrack::parse(prefix)?, start),
                    None => (LiveTrack::Muxed, rest),
                };
                Self::Segment(track, ChannelMs(start.parse().ok()?), index.parse().ok()?)
            }
        };
        // Names have one form only.
        (asset.name() == name).then_some(asset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_track() -> impl Strategy<Value = LiveTrack> {
        (0..4, "[a-z]{2,3}(-[A-Z]{2})?").prop_map(|(kind, tag)| {
            let language = TrackLanguage::from_text(&tag).unwrap();
            match kind {
                0 => LiveTrack::Muxed,
                1 => LiveTrack::Video,
                2 => LiveTrack::Audio(language),
                _ => LiveTrack::Text(language),
            }
        })
    }

    proptest! {
        #[test]
        fn names_read_back(track in any_track(), start in 0i64..1 << 45, index in 0usize..1 << 20, id: u64) {
            let inits = [TrackKind::Video, TrackKind::Audio].map(|kind| LiveAsset::Init(kind, InitId(id)));
            let segment = LiveAsset::Segment(track.clone(), ChannelMs(start), index);
            for asset in inits.into_iter().chain([segment, LiveAsset::Playlist(track), LiveAsset::Multivariant]) {
                prop_assert_eq!(LiveAsset::parse(&asset.name()), Some(asset));
            }
        }
    }

    #[test]
    fn foreign_names_are_no_assets() {
        let segments = ["1-1.ts", "1-000001.ts", "1-00001.m4s", "video-1-00001.ts", "audio-1-00001.m4s", "+1-00001.ts"];
        let playlists =
            ["audio.m3u8", "audio-.m3u8", "audio-ger.m3u8", "muxed.m3u8", "text-und/..m3u8", "../live.m3u8"];
        let inits = ["video-1.mp4", "text-00000000000000ff.mp4", "video-00000000000000FF.mp4", "00000000000000ff.mp4"];
        for name in segments.into_iter().chain(playlists).chain(inits).chain(["", ".", "-", ".m3u8"]) {
            assert_eq!(LiveAsset::parse(name), None, "{name}");
        }
        assert_eq!(LiveAsset::Segment(LiveTrack::Muxed, ChannelMs(17), 450).name(), "17-00450.ts");
    }
}
