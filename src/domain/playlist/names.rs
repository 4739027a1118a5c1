//! Names of the files that a session serves.

use crate::domain::hash_to_u64;
use crate::domain::segment_format::SegmentFormat;

/// Longest name of an asset, bytes.
const MAX_NAME_BYTES: usize = 64;

/// Before the number in the name of an I-frame.
const IFRAME_PREFIX: &str = "iframe-";

/// A media playlist of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaylistTrack {
    /// One rung of the ladder, the first being the best: with audio, muxed, in MPEG-TS; without in fMP4.
    Video(usize),
    /// A language or another version of the audio, in one codec.
    Audio(usize),
    /// WebVTT.
    Subtitles(usize),
}

/// Identifies an init segment by its content. Players cache init segments by URI, so a URI is never used for other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InitId(pub u64);

/// A file that a session serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionAsset {
    Playlist(PlaylistTrack),
    /// The I-frame playlist of a rung.
    IFramePlaylist(PlaylistTrack),
    /// The first frame of a segment, in fMP4, as an I-frame playlist names it.
    IFrame(PlaylistTrack, usize),
    Init(PlaylistTrack, InitId),
    Segment(PlaylistTrack, SegmentFormat, usize),
}

impl InitId {
    /// The id of these bytes.
    pub fn of(init_segment: &[u8]) -> Self {
        Self(hash_to_u64(blake3::hash(init_segment)))
    }
}

impl PlaylistTrack {
    /// The track at the start of a name, and the rest of the name.
    fn split_prefix(name: &str) -> Option<(Self, &str)> {
        let (number, rest) = name.split_at(name.find(['-', '.'])?);
        let track = match number.split_at_checked(1)? {
            ("v", number) => Self::Video(number.parse().ok()?),
            ("a", number) => Self::Audio(number.parse().ok()?),
            ("s", number) => Self::Subtitles(number.parse().ok()?),
            _ => return None,
        };
        Some((track, rest))
    }

    pub(super) fn prefix(self) -> String {
        match self {
            Self::Video(number) => format!("v{number}"),
            Self::Audio(number) => format!("a{number}"),
            Self::Subtitles(number) => format!("s{number}"),
        }
    }

    /// Name of the media playlist, e.g. `v0.m3u8`.
    pub fn playlist_name(self) -> String {
        format!("{}.m3u8", self.prefix())
    }

    /// Name of the I-frame playlist, e.g. `v0-iframes.m3u8`.
    pub fn iframe_playlist_name(self) -> String {
        format!("{}-iframes.m3u8", self.prefix())
    }

    /// Name of the first frame of a segment, e.g. `v0-iframe-00042.m4s`.
    pub fn iframe_name(self, segment: usize) -> String {
        format!("{}-{IFRAME_PREFIX}{segment:05}.{}", self.prefix(), SegmentFormat::Fmp4.extension())
    }

    /// Name of an init segment, e.g. `v0-00f1e2d3c4b5a697.mp4`.
    pub fn init_name(self, init: InitId) -> String {
        format!("{}-{:016x}.mp4", self.prefix(), init.0)
    }

    /// Name of a segment, e.g. `v0-00042.ts`.
    pub fn segment_name(self, format: SegmentFormat, index: usize) -> String {
        format!("{}-{index:05}.{}", self.prefix(), format.extension())
    }
}

impl SessionAsset {
    pub fn name(self) -> String {
        match self {
            Self::Playlist(track) => track.playlist_name(),
            Self::IFramePlaylist(track) => track.iframe_playlist_name(),
            Self::IFrame(track, segment) => track.iframe_name(segment),
            Self::Init(track, init) => track.init_name(init),
            Self::Segment(track, format, index) => track.segment_name(format, index),
        }
    }

    /// Whether the track has files of this kind.
    fn is_possible(self) -> bool {
        match self {
            Self::Playlist(_) => true,
            Self::IFramePlaylist(track) | Self::IFrame(track, _) => matches!(track, PlaylistTrack::Video(_)),
            Self::Init(track, _) => !matches!(track, PlaylistTrack::Subtitles(_)),
            Self::Segment(track, format, _) => {
                matches!(track, PlaylistTrack::Subtitles(_)) == (format == SegmentFormat::WebVtt)
            }
        }
    }
}

/// The asset a name refers to; None for every name this program does not write itself.
pub fn parse_asset(name: &str) -> Option<SessionAsset> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let (track, rest) = PlaylistTrack::split_prefix(name)?;
    let asset = match rest {
        ".m3u8" => SessionAsset::Playlist(track),
        "-iframes.m3u8" => SessionAsset::IFramePlaylist(track),
        _ => {
            let (stem, extension) = rest.strip_prefix('-')?.split_once('.')?;
            let segment = |format| Some(SessionAsset::Segment(track, format, stem.parse().ok()?));
            match (extension, stem.strip_prefix(IFRAME_PREFIX)) {
                ("m4s", Some(number)) => SessionAsset::IFrame(track, number.parse().ok()?),
                ("mp4", _) => SessionAsset::Init(track, InitId(u64::from_str_radix(stem, 16).ok()?)),
                ("ts", _) => segment(SegmentFormat::MpegTs)?,
                ("m4s", None) => segment(SegmentFormat::Fmp4)?,
                ("vtt", _) => segment(SegmentFormat::WebVtt)?,
                _ => return None,
            }
        }
    };
    // Numbers have one form only.
    (asset.is_possible() && asset.name() == name).then_some(asset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_track() -> impl Strategy<Value = PlaylistTrack> {
        let number = prop_oneof![0usize..12, any::<usize>()];
        (0..3, number).prop_map(|(kind, number)| match kind {
            0 => PlaylistTrack::Video(number),
            1 => PlaylistTrack::Audio(number),
            _ => PlaylistTrack::Subtitles(number),
        })
    }

    fn any_asset() -> impl Strategy<Value = SessionAsset> {
        let formats = [SegmentFormat::MpegTs, SegmentFormat::Fmp4, SegmentFormat::WebVtt];
        let index = prop_oneof![0usize..200_000, any::<usize>()];
        let assets = (any_track(), 0..5, 0usize..3, index, any::<u64>());
        let assets = assets.prop_map(move |(track, kind, format, index, hash)| match kind {
            0 => SessionAsset::Playlist(track),
            1 => SessionAsset::IFramePlaylist(track),
            2 => SessionAsset::Init(track, InitId(hash)),
            3 => SessionAsset::IFrame(track, index),
            _ => SessionAsset::Segment(track, formats[format], index),
        });
        assets.prop_filter("the track has no such file", |asset| asset.is_possible())
    }

    proptest! {
        #[test]
        fn every_name_we_write_is_an_asset(asset in any_asset()) {
            prop_assert_eq!(parse_asset(&asset.name()), Some(asset));
        }

        #[test]
        fn only_names_we_write_are_assets(name in "[vas][0-9]{0,3}[.-][a-z0-9-]{0,16}(\\.(ts|m4s|vtt|mp4|m3u8))?") {
            if let Some(asset) = parse_asset(&name) {
                prop_assert_eq!(asset.name(), name);
            }
        }

        #[test]
        fn any_name_is_read_without_panic(name in "\\PC{0,70}") {
            if let Some(asset) = parse_asset(&name) {
                prop_assert_eq!(asset.name(), name);
            }
        }
    }

    #[test]
    fn names_have_one_form() {
        let video = PlaylistTrack::Video(0);
        for (name, asset) in [
            ("v0.m3u8", SessionAsset::Playlist(video)),
            ("v0-iframes.m3u8", SessionAsset::IFramePlaylist(video)),
            ("v0-iframe-00042.m4s", SessionAsset::IFrame(video, 42)),
            ("v0-00042.ts", SessionAsset::Segment(video, SegmentFormat::MpegTs, 42)),
            ("v0-00042.m4s", SessionAsset::Segment(video, SegmentFormat::Fmp4, 42)),
            ("v0-00000000000000ff.mp4", SessionAsset::Init(video, InitId(255))),
            ("a11-100000.m4s", SessionAsset::Segment(PlaylistTrack::Audio(11), SegmentFormat::Fmp4, 100_000)),
            ("s0-00000.vtt", SessionAsset::Segment(PlaylistTrack::Subtitles(0), SegmentFormat::WebVtt, 0)),
        ] {
            assert_eq!((parse_asset(name), asset.name()), (Some(asset), name.into()));
        }
        assert_eq!(PlaylistTrack::Audio(2).init_name(InitId::of(b"moov")).len(), "a2-.mp4".len() + 16);
    }

    #[test]
    fn foreign_names_are_no_assets() {
        let segments = [
            "v0-1.ts",
            "v0-000001.ts",
            "v0-00001.vtt",
            "s0-00001.ts",
            "s0-00001.m4s",
            "v0-+0001.ts",
            "v0-iframe-1.m4s",
            "a0-iframe-00001.m4s",
            "v0-iframe-00001.ts",
        ];
        let playlists = ["v01.m3u8", "v+.m3u8", "v.m3u8", "ä.m3u8", "../v0.m3u8", "V0.m3u8", "a0-iframes.m3u8"];
        let inits = ["v0-ff.mp4", "v0-00000000000000FF.mp4", "s0-00000000000000ff.mp4", "v0-init.mp4", "v0.mp4"];
        for name in segments.into_iter().chain(playlists).chain(inits).chain(["", "-", "v0", "v0-", "v0-00001"]) {
            assert_eq!(parse_asset(name), None, "{name}");
        }
    }
}
