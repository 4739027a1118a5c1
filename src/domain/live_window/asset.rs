//! The files of a channel and their names: one media playlist with muxed segments, or one for each track in fMP4.

use crate::domain::audio_layout::AudioLayout;
use crate::domain::media::TrackLanguage;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::playlist::InitId;
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::ChannelMs;
use crate::domain::video_class::VideoClasses;

/// Longest name, bytes.
const MAX_NAME_BYTES: usize = 96;

/// An audio track of a channel in fMP4: of each item the track in this language, or its default track.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveAudio {
    pub layout: AudioLayout,
    pub language: TrackLanguage,
}

/// A media playlist of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LiveTrack {
    /// Video and audio, muxed in MPEG-TS.
    Muxed,
    /// Video alone, in fMP4.
    Video,
    /// Audio alone, in fMP4.
    Audio(LiveAudio),
    /// WebVTT in this language, empty where an item has none.
    Text(TrackLanguage),
}

/// A file of a channel. Playlists and segments in fMP4 belong to a variety: the one in which these classes of video are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveAsset {
    /// The multivariant playlist of the tracks in fMP4.
    Multivariant,
    Playlist(VideoClasses, LiveTrack),
    /// The init segment of video or audio.
    Init(TrackKind, InitId),
    /// A segment by the start of its programme and its index there.
    Segment(VideoClasses, LiveTrack, ChannelMs, usize),
}

/// The start of the names of a variety, e.g. `copy1f-`.
pub(super) fn copies_prefix(copies: VideoClasses) -> String {
    if copies.is_empty() { String::new() } else { format!("copy{:x}-", copies.number()) }
}

/// The variety of a name, and the rest of the name.
fn split_copies(name: &str) -> Option<(VideoClasses, &str)> {
    let Some((number, rest)) = name.strip_prefix("copy").and_then(|name| name.split_once('-')) else {
        return Some((VideoClasses::default(), name));
    };
    Some((VideoClasses::from_number(u32::from_str_radix(number, 16).ok()?)?, rest))
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
            Self::Audio(audio) => format!("{}.m3u8", audio.name()),
            Self::Text(language) => format!("text-{}.m3u8", language.as_str()),
        }
    }

    /// Name of a segment, e.g. `1795378500000-00450.ts` or `audio-de-1795378500000-00450.m4s`.
    pub fn segment_name(&self, programme_start_ms: ChannelMs, index: usize) -> String {
        let name = format!("{}-{index:05}.{}", programme_start_ms.0, self.format().extension());
        match self {
            Self::Muxed => name,
            Self::Video => format!("video-{name}"),
            Self::Audio(audio) => format!("{}-{name}", audio.name()),
            Self::Text(language) => format!("text-{}-{name}", language.as_str()),
        }
    }

    /// The track of a name without the parts after it.
    fn parse(prefix: &str) -> Option<Self> {
        match prefix.split_once('-') {
            None if prefix == "video" => Some(Self::Video),
            Some(("text", language)) => TrackLanguage::from_text(language).map(Self::Text),
            Some((prefix, language)) => {
                let layout = LiveAudio::LAYOUTS.into_iter().find(|(_, name)| *name == prefix)?.0;
                TrackLanguage::from_text(language).map(|language| Self::Audio(LiveAudio { layout, language }))
            }
            None => None,
        }
    }
}

impl LiveAudio {
    /// The start of the names of each layout.
    const LAYOUTS: [(AudioLayout, &str); 2] = [(AudioLayout::Stereo, "audio"), (AudioLayout::Surround, "surround")];

    /// The start of its file names, e.g. `audio-de` or `surround-de`.
    fn name(&self) -> String {
        let prefix = Self::LAYOUTS.into_iter().find(|(layout, _)| *layout == self.layout).map_or("", |(_, name)| name);
        format!("{prefix}-{}", self.language.as_str())
    }
}

impl LiveAsset {
    pub fn name(&self) -> String {
        match self {
            Self::Multivariant => "index.m3u8".to_owned(),
            Self::Playlist(copies, track) => copies_prefix(*copies) + &track.playlist_name(),
            Self::Init(TrackKind::Video, InitId(id)) => format!("video-{id:016x}.mp4"),
            Self::Init(TrackKind::Audio, InitId(id)) => format!("audio-{id:016x}.mp4"),
            Self::Segment(copies, track, programme_start_ms, index) => {
                copies_prefix(*copies) + &track.segment_name(*programme_start_ms, *index)
            }
        }
    }

    /// The asset a name refers to; None for every name this program does not write itself.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() > MAX_NAME_BYTES {
            return None;
        }
        let (stem, extension) = name.rsplit_once('.')?;
        let (copies, stem) = split_copies(stem)?;
        let asset = match (stem, extension) {
            ("index", "m3u8") => Self::Multivariant,
            ("live", "m3u8") if copies.is_empty() => Self::Playlist(copies, LiveTrack::Muxed),
            (_, "m3u8") => Self::Playlist(copies, LiveTrack::parse(stem)?),
            (_, "mp4") => {
                let (kind, id) = stem.split_once('-')?;
                let kind = if kind == "video" { TrackKind::Video } else { TrackKind::Audio };
                Self::Init(kind, InitId(u64::from_str_radix(id, 16).ok()?))
            }
            _ => {
                let (rest, index) = stem.rsplit_once('-')?;
                let (track, start) = match rest.rsplit_once('-') {
                    Some((prefix, start)) => (LiveTrack::parse(prefix)?, start),
                    None if copies.is_empty() => (LiveTrack::Muxed, rest),
                    None => return None,
                };
                Self::Segment(copies, track, ChannelMs(start.parse().ok()?), index.parse().ok()?)
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
        (0..5, "[a-z]{2,3}(-[A-Z]{2})?").prop_map(|(kind, tag)| {
            let language = TrackLanguage::from_text(&tag).unwrap();
            match kind {
                0 => LiveTrack::Muxed,
                1 => LiveTrack::Video,
                2 => LiveTrack::Audio(LiveAudio { layout: AudioLayout::Stereo, language }),
                3 => LiveTrack::Audio(LiveAudio { layout: AudioLayout::Surround, language }),
                _ => LiveTrack::Text(language),
            }
        })
    }

    proptest! {
        #[test]
        fn names_read_back(
            track in any_track(), start in 0i64..1 << 45, index in 0usize..1 << 20, id: u64, copies in 0u32..1 << 18,
        ) {
            let copies = VideoClasses::from_number(if track == LiveTrack::Muxed { 0 } else { copies }).unwrap();
            let inits = [TrackKind::Video, TrackKind::Audio].map(|kind| LiveAsset::Init(kind, InitId(id)));
            let segment = LiveAsset::Segment(copies, track.clone(), ChannelMs(start), index);
            for asset in inits.into_iter().chain([segment, LiveAsset::Playlist(copies, track), LiveAsset::Multivariant]) {
                prop_assert_eq!(LiveAsset::parse(&asset.name()), Some(asset));
            }
        }
    }

    #[test]
    fn foreign_names_are_no_assets() {
        let segments = ["1-1.ts", "1-000001.ts", "1-00001.m4s", "video-1-00001.ts", "audio-1-00001.m4s", "+1-00001.ts"];
        let playlists =
            ["audio.m3u8", "audio-.m3u8", "audio-ger.m3u8", "muxed.m3u8", "text-und/..m3u8", "../live.m3u8"];
        let varieties =
            ["copy0-video.m3u8", "copy1-live.m3u8", "copy01-video.m3u8", "copy100000-video.m3u8", "copy1-1-00001.ts"];
        assert!(varieties.into_iter().all(|name| LiveAsset::parse(name).is_none()));
        let inits = ["video-1.mp4", "text-00000000000000ff.mp4", "video-00000000000000FF.mp4", "00000000000000ff.mp4"];
        for name in segments.into_iter().chain(playlists).chain(inits).chain(["", ".", "-", ".m3u8"]) {
            assert_eq!(LiveAsset::parse(name), None, "{name}");
        }
        let segment = |number: u32, track| {
            LiveAsset::Segment(VideoClasses::from_number(number).unwrap(), track, ChannelMs(17), 450).name()
        };
        assert_eq!(segment(0, LiveTrack::Muxed), "17-00450.ts");
        assert_eq!(segment(31, LiveTrack::Video), "copy1f-video-17-00450.m4s");
    }
}
