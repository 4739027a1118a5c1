//! Playlists and asset names of a session, as pure functions (RFC 8216).
//!
//! Every child URI carries the viewer's grant, because players do not carry query strings over.

use std::fmt::Write;

use super::grid::Grid;
use super::segment_format::SegmentFormat;
use super::time::{FrameRate, Ticks};

/// Length of a subtitle segment, seconds. A subtitle rendition of a VOD playlist may have its own target duration (RFC 8216
/// section 6.2.4), and long segments mean few requests per film.
const SUBTITLE_SEGMENT_SECONDS: f64 = 30.0;

/// A media playlist of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaylistTrack {
    /// Video with audio, muxed: one rung of the ladder, the first being the best.
    Video(usize),
    /// Audio of an item without video.
    Audio,
    /// WebVTT.
    Subtitles,
}

/// A file that a session serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionAsset {
    Playlist(PlaylistTrack),
    Segment(PlaylistTrack, usize),
}

impl PlaylistTrack {
    /// The track at the start of a name, and the rest of the name.
    fn split_prefix(name: &str) -> Option<(Self, &str)> {
        let (prefix, rest) = name.split_at_checked(2)?;
        let track = match prefix {
            "a0" => Self::Audio,
            "s0" => Self::Subtitles,
            _ => Self::Video(prefix.strip_prefix('v')?.parse().ok()?),
        };
        Some((track, rest))
    }

    fn prefix(self) -> String {
        match self {
            Self::Video(rung) => format!("v{rung}"),
            Self::Audio => "a0".into(),
            Self::Subtitles => "s0".into(),
        }
    }

    pub fn segment_format(self) -> SegmentFormat {
        match self {
            Self::Video(_) | Self::Audio => SegmentFormat::MpegTs,
            Self::Subtitles => SegmentFormat::WebVtt,
        }
    }

    /// Name of the media playlist, e.g. `v0.m3u8`.
    pub fn playlist_name(self) -> String {
        format!("{}.m3u8", self.prefix())
    }

    /// Name of a segment, e.g. `v0-00042.ts`.
    pub fn segment_name(self, index: usize) -> String {
        format!("{}-{index:05}.{}", self.prefix(), self.segment_format().extension())
    }
}

/// The asset a name refers to; None for every name this program does not write itself.
pub fn parse_asset(name: &str) -> Option<SessionAsset> {
    if name.len() > 64 {
        return None;
    }
    let (track, rest) = PlaylistTrack::split_prefix(name)?;
    if rest == ".m3u8" {
        return (track.playlist_name() == name).then_some(SessionAsset::Playlist(track));
    }
    let digits = rest.strip_prefix('-')?.strip_suffix(track.segment_format().extension())?.strip_suffix('.')?;
    let index = digits.parse().ok()?;
    (track.segment_name(index) == name).then_some(SessionAsset::Segment(track, index))
}

/// A variant of the multivariant playlist.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub track: PlaylistTrack,
    /// RFC 6381, comma separated; None if unknown, because a wrong value is worse.
    pub codecs: Option<String>,
    pub size: Option<(u32, u32)>,
    pub frame_rate: Option<FrameRate>,
    /// Peak and average over the item, bit/s.
    pub bandwidth: u64,
    pub average_bandwidth: u64,
}

/// A WebVTT rendition of the multivariant playlist.
#[derive(Clone, Debug, PartialEq)]
pub struct SubtitleRendition {
    pub name: String,
    /// BCP 47.
    pub language: Option<String>,
    pub forced: bool,
}

/// The multivariant playlist (`index.m3u8`). Players that do not measure bandwidth first begin with the first variant.
///
/// With `start_seconds` above 0 it has `EXT-X-START` too. Not every player accepts that: ffmpeg 5.1 mistakes such a
/// multivariant playlist for a media playlist as well, lists its streams twice and loses the duration (measured).
pub fn multivariant_playlist(
    variants: &[Variant],
    subtitles: Option<&SubtitleRendition>,
    start_seconds: f64,
    grant: &str,
) -> String {
    let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-INDEPENDENT-SEGMENTS\n");
    write_start_tag(&mut text, start_seconds);
    if let Some(rendition) = subtitles {
        let name = sanitize_attribute(&rendition.name);
        let _ =
            write!(text, "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=\"{name}\",DEFAULT=YES,AUTOSELECT=YES");
        let _ = write!(text, ",FORCED={}", if rendition.forced { "YES" } else { "NO" });
        if let Some(language) = &rendition.language {
            let _ = write!(text, ",LANGUAGE=\"{}\"", sanitize_attribute(language));
        }
        let _ = writeln!(text, ",URI=\"{}\"", with_grant(&PlaylistTrack::Subtitles.playlist_name(), grant));
    }
    for variant in variants {
        let (peak, average) = (variant.bandwidth.max(1), variant.average_bandwidth.max(1));
        let _ = write!(text, "#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average}");
        if let Some(codecs) = &variant.codecs {
            let _ = write!(text, ",CODECS=\"{}\"", sanitize_attribute(codecs));
        }
        if let Some((width, height)) = variant.size {
            let _ = write!(text, ",RESOLUTION={width}x{height}");
        }
        if let Some(rate) = variant.frame_rate {
            let _ = write!(text, ",FRAME-RATE={:.3}", rate.as_f64());
        }
        if subtitles.is_some() {
            text.push_str(",SUBTITLES=\"subs\"");
        }
        let _ = writeln!(text, "\n{}", with_grant(&variant.track.playlist_name(), grant));
    }
    text
}

/// A media playlist: every segment of the item from `from` to its end, whether made yet or not, with `EXT-X-START`
/// at `start_seconds` of the item.
///
/// The first segment is listed with the length that remains after `from`. Video segments begin there; subtitle
/// segments are longer, and players align the timelines of all renditions by the listed lengths.
pub fn media_playlist(track: PlaylistTrack, grid: &Grid, from: Ticks, start_seconds: f64, grant: &str) -> String {
    let first = grid.segment_at(from);
    let mut text = String::with_capacity(200 + (grid.len() - first) * (40 + grant.len()));
    let _ = writeln!(text, "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:{}", grid.target_duration());
    let _ = writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{first}\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-INDEPENDENT-SEGMENTS");
    write_start_tag(&mut text, start_seconds - from.as_seconds());
    let (prefix, extension) = (track.prefix(), track.segment_format().extension());
    for index in first..grid.len() {
        // Nine ticks are 100 µs. Integers, because a film has thousands of lines.
        let before = (from - grid.segment_start(index)).max(Ticks::ZERO);
        let length = ((grid.segment_length(index) - before).0 * 100 + 4) / 9;
        let (whole, micros) = (length / 1_000_000, length % 1_000_000);
        let _ = writeln!(text, "#EXTINF:{whole}.{micros:06},\n{prefix}-{index:05}.{extension}?st={grant}");
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}

/// The grid of a subtitle rendition for an item with the same end as `grid`.
pub fn subtitle_grid(grid: &Grid) -> Grid {
    Grid::from_step(SUBTITLE_SEGMENT_SECONDS, grid.end().as_seconds())
}

fn write_start_tag(text: &mut String, start_seconds: f64) {
    if start_seconds >= 0.001 {
        let _ = writeln!(text, "#EXT-X-START:TIME-OFFSET={start_seconds:.3},PRECISE=YES");
    }
}

fn with_grant(name: &str, grant: &str) -> String {
    format!("{name}?st={grant}")
}

/// An attribute value must not contain quotes or line ends (RFC 8216 section 4.2).
fn sanitize_attribute(text: &str) -> String {
    text.chars().map(|c| if c == '"' { '\'' } else { c }).filter(|c| !c.is_control()).collect()
}

/// `avc1.PPCCLL` from the first sequence parameter set in a segment (RFC 6381 section 3.3); None without one.
pub fn avc_codec_string(segment: &[u8]) -> Option<String> {
    let at = segment.windows(4).position(|four| four[..3] == [0, 0, 1] && four[3] & 0x1f == 7)?;
    let sps = segment.get(at + 4..at + 7)?;
    Some(format!("avc1.{:02x}{:02x}{:02x}", sps[0], sps[1], sps[2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn film() -> Grid {
        Grid::from_frame_rate(FrameRate { num: 24000, den: 1001 }, 2.0, 9.0)
    }

    fn variant() -> Variant {
        Variant {
            track: PlaylistTrack::Video(0),
            codecs: Some("avc1.640028,mp4a.40.2".into()),
            size: Some((1280, 720)),
            frame_rate: Some(FrameRate { num: 24000, den: 1001 }),
            bandwidth: 3_300_000,
            average_bandwidth: 2_400_000,
        }
    }

    #[test]
    fn a_multivariant_playlist_names_variant_and_subtitles() {
        let subtitles = SubtitleRendition { name: "Say \"hi\"\n".into(), language: Some("de".into()), forced: false };
        let text = multivariant_playlist(&[variant()], Some(&subtitles), 0.0, "G.r-a_nt");
        insta::assert_snapshot!(text, @r#"
        #EXTM3U
        #EXT-X-VERSION:6
        #EXT-X-INDEPENDENT-SEGMENTS
        #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="Say 'hi'",DEFAULT=YES,AUTOSELECT=YES,FORCED=NO,LANGUAGE="de",URI="s0.m3u8?st=G.r-a_nt"
        #EXT-X-STREAM-INF:BANDWIDTH=3300000,AVERAGE-BANDWIDTH=2400000,CODECS="avc1.640028,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=23.976,SUBTITLES="subs"
        v0.m3u8?st=G.r-a_nt
        "#);
        let parsed = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
        assert_eq!(parsed.variants[0].resolution.unwrap().width, 1280);
        assert_eq!(parsed.alternatives[0].group_id, "subs");
        assert!(parsed.independent_segments);
    }

    #[test]
    fn a_ladder_lists_every_rung() {
        let lower =
            Variant { track: PlaylistTrack::Video(1), size: Some((640, 360)), bandwidth: 1_000_000, ..variant() };
        let text = multivariant_playlist(&[variant(), lower], None, 0.0, "g");
        let parsed = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
        let listed: Vec<_> = parsed.variants.iter().map(|variant| (variant.uri.as_str(), variant.bandwidth)).collect();
        assert_eq!(listed, [("v0.m3u8?st=g", 3_300_000), ("v1.m3u8?st=g", 1_000_000)]);
    }

    #[test]
    fn an_unknown_codec_or_size_is_left_out() {
        let bare = Variant { codecs: None, size: None, frame_rate: None, track: PlaylistTrack::Audio, ..variant() };
        insta::assert_snapshot!(multivariant_playlist(&[bare], None, 4.25, "g"), @r"
        #EXTM3U
        #EXT-X-VERSION:6
        #EXT-X-INDEPENDENT-SEGMENTS
        #EXT-X-START:TIME-OFFSET=4.250,PRECISE=YES
        #EXT-X-STREAM-INF:BANDWIDTH=3300000,AVERAGE-BANDWIDTH=2400000
        a0.m3u8?st=g
        ");
    }

    #[test]
    fn a_media_playlist_lists_the_whole_item() {
        insta::assert_snapshot!(media_playlist(PlaylistTrack::Video(0), &film(), Ticks::ZERO, 4.25, "g"), @r"
        #EXTM3U
        #EXT-X-VERSION:6
        #EXT-X-TARGETDURATION:2
        #EXT-X-MEDIA-SEQUENCE:0
        #EXT-X-PLAYLIST-TYPE:VOD
        #EXT-X-INDEPENDENT-SEGMENTS
        #EXT-X-START:TIME-OFFSET=4.250,PRECISE=YES
        #EXTINF:1.001000,
        v0-00000.ts?st=g
        #EXTINF:1.001000,
        v0-00001.ts?st=g
        #EXTINF:1.001000,
        v0-00002.ts?st=g
        #EXTINF:1.001000,
        v0-00003.ts?st=g
        #EXTINF:2.002000,
        v0-00004.ts?st=g
        #EXTINF:2.002000,
        v0-00005.ts?st=g
        #EXTINF:1.001000,
        v0-00006.ts?st=g
        #EXT-X-ENDLIST
        ");
    }

    #[test]
    fn a_list_can_begin_at_the_start_position() {
        // The fifth segment begins at 4.004 s.
        let from = film().segment_start(4);
        insta::assert_snapshot!(media_playlist(PlaylistTrack::Video(0), &film(), from, 4.25, "g"), @r"
        #EXTM3U
        #EXT-X-VERSION:6
        #EXT-X-TARGETDURATION:2
        #EXT-X-MEDIA-SEQUENCE:4
        #EXT-X-PLAYLIST-TYPE:VOD
        #EXT-X-INDEPENDENT-SEGMENTS
        #EXT-X-START:TIME-OFFSET=0.246,PRECISE=YES
        #EXTINF:2.002000,
        v0-00004.ts?st=g
        #EXTINF:2.002000,
        v0-00005.ts?st=g
        #EXTINF:1.001000,
        v0-00006.ts?st=g
        #EXT-X-ENDLIST
        ");
        // Subtitle segments have other boundaries, but the list begins and ends with the video.
        let long = Grid::from_step(SUBTITLE_SEGMENT_SECONDS, 70.0);
        let text = media_playlist(PlaylistTrack::Subtitles, &long, Ticks::from_ms(40_000), 40.0, "g");
        assert!(text.contains("MEDIA-SEQUENCE:1\n") && text.contains("#EXTINF:20.000000,\ns0-00001.vtt"), "{text}");
        assert!(text.contains("#EXTINF:10.000000,\ns0-00002.vtt") && !text.contains("X-START"), "{text}");
    }

    proptest! {
        #[test]
        fn a_parser_reads_back_every_segment_and_no_segment_exceeds_the_target(end in 0.1..4000.0f64, step in 1.0..6.0f64) {
            let grid = Grid::from_step(step, end);
            let parsed = m3u8_rs::parse_media_playlist_res(media_playlist(PlaylistTrack::Audio, &grid, Ticks::ZERO, 0.0, "g").as_bytes()).unwrap();
            prop_assert!(parsed.end_list);
            prop_assert_eq!(parsed.segments.len(), grid.len());
            let total: f64 = parsed.segments.iter().map(|segment| f64::from(segment.duration)).sum();
            prop_assert!((total - end).abs() < 0.01 + end * 1e-6);
            prop_assert!(parsed.segments.iter().all(|s| s.duration.round() as u64 <= parsed.target_duration));
        }

        #[test]
        fn only_names_we_write_are_assets(name in "[a-z0-9.-]{1,20}") {
            if let Some(SessionAsset::Segment(track, index)) = parse_asset(&name) {
                prop_assert_eq!(track.segment_name(index), name);
            }
        }

        #[test]
        fn every_name_we_write_is_an_asset(index in 0usize..200_000) {
            for track in [PlaylistTrack::Video(0), PlaylistTrack::Video(7), PlaylistTrack::Audio, PlaylistTrack::Subtitles] {
                prop_assert_eq!(parse_asset(&track.segment_name(index)), Some(SessionAsset::Segment(track, index)));
                prop_assert_eq!(parse_asset(&track.playlist_name()), Some(SessionAsset::Playlist(track)));
            }
        }
    }

    #[test]
    fn foreign_names_are_no_assets() {
        let segments = ["v0-1.ts", "v0-000001.ts", "v0-00001.vtt", "v0-+0001.ts"];
        let playlists = ["v01.m3u8", "v+.m3u8", "v.m3u8", "ä.m3u8", "../v0.m3u8", "V0.m3u8"];
        for name in segments.into_iter().chain(playlists).chain([""]) {
            assert_eq!(parse_asset(name), None, "{name}");
        }
    }

    #[test]
    fn the_codec_is_read_from_the_sequence_parameter_set() {
        let segment = [0x47, 0x40, 0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 0x64, 0x00, 0x28, 0xac];
        assert_eq!(avc_codec_string(&segment).as_deref(), Some("avc1.640028"));
        assert_eq!(avc_codec_string(&[0x47; 188]), None);
    }
}
