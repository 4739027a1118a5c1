use super::*;
use crate::domain::closed_captions::CaptionChannel;
use crate::domain::time::{FrameRate, Ticks};
use proptest::prelude::*;

mod realistic;

impl<'a> MultivariantPlaylist<'a> {
    /// A playlist of MPEG-TS segments with muxed audio, all of them independent.
    fn of_mpegts(variants: &'a [Variant], subtitles: &'a [SubtitleRendition], start_seconds: f64) -> Self {
        Self {
            format: SegmentFormat::MpegTs,
            is_independent: true,
            start_seconds,
            variants,
            audio: &[],
            audio_groups: &[],
            subtitles,
            captions: None,
            made_iframes: None,
        }
    }
}

fn film() -> Grid {
    Grid::from_frame_rate(FrameRate { num: 24000, den: 1001 }, 2.0, 9.0)
}

fn variant() -> Variant {
    Variant {
        track: PlaylistTrack::Video(0),
        codecs: Some("avc1.640028,mp4a.40.2".into()),
        supplemental_codecs: None,
        size: Some((1280, 720)),
        frame_rate: Some(FrameRate { num: 24000, den: 1001 }),
        video_range: None,
        bandwidth: 3_300_000,
        average_bandwidth: 2_400_000,
        iframe_bandwidth: None,
    }
}

fn media_playlist(track: PlaylistTrack, grid: &Grid, from: Ticks, start_seconds: f64) -> MediaPlaylist<'_> {
    MediaPlaylist { track, init: None, grid, from, start_seconds, is_independent: true }
}

#[test]
fn a_multivariant_playlist_names_variant_and_subtitles() {
    let subtitles = SubtitleRendition {
        name: "Say \"hi\"\n".into(),
        language: Some("de".into()),
        is_default: true,
        ..SubtitleRendition::default()
    };
    let text = MultivariantPlaylist::of_mpegts(&[variant()], &[subtitles], 0.0).render("G.r-a_nt");
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
    let lower = Variant { track: PlaylistTrack::Video(1), size: Some((640, 360)), bandwidth: 1_000_000, ..variant() };
    let text = MultivariantPlaylist::of_mpegts(&[variant(), lower], &[], 0.0).render("g");
    let parsed = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let listed: Vec<_> = parsed.variants.iter().map(|variant| (variant.uri.as_str(), variant.bandwidth)).collect();
    assert_eq!(listed, [("v0.m3u8?st=g", 3_300_000), ("v1.m3u8?st=g", 1_000_000)]);
}

#[test]
fn an_unknown_codec_or_size_is_left_out() {
    let bare = Variant { codecs: None, size: None, frame_rate: None, track: PlaylistTrack::Audio(0), ..variant() };
    insta::assert_snapshot!(MultivariantPlaylist::of_mpegts(&[bare], &[], 4.25).render("g"), @r"
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
    insta::assert_snapshot!(media_playlist(PlaylistTrack::Video(0), &film(), Ticks::ZERO, 4.25).render("g"), @r"
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
    insta::assert_snapshot!(media_playlist(PlaylistTrack::Video(0), &film(), from, 4.25).render("g"), @r"
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
    let text = media_playlist(PlaylistTrack::Subtitles(0), &long, Ticks::from_ms(40_000), 40.0).render("g");
    assert!(text.contains("MEDIA-SEQUENCE:1\n") && text.contains("#EXTINF:20.000000,\ns0-00001.vtt"), "{text}");
    assert!(text.contains("#EXTINF:10.000000,\ns0-00002.vtt") && !text.contains("X-START"), "{text}");
}

#[test]
fn a_list_of_fragments_has_an_init_segment() {
    let init = Some(InitId(0xf1e2_d3c4_b5a6_9788));
    let grid = Grid::from_keyframes(&[Ticks::from_ms(4500)], 2.0, 9.0);
    let open_gop = MediaPlaylist {
        init,
        is_independent: false,
        ..media_playlist(PlaylistTrack::Video(0), &grid, Ticks::ZERO, 0.0)
    };
    insta::assert_snapshot!(open_gop.render("g"), @r#"
    #EXTM3U
    #EXT-X-VERSION:7
    #EXT-X-TARGETDURATION:5
    #EXT-X-MEDIA-SEQUENCE:0
    #EXT-X-PLAYLIST-TYPE:VOD
    #EXT-X-MAP:URI="v0-f1e2d3c4b5a69788.mp4?st=g"
    #EXTINF:4.500000,
    v0-00000.m4s?st=g
    #EXTINF:4.500000,
    v0-00001.m4s?st=g
    #EXT-X-ENDLIST
    "#);
    let audio = MediaPlaylist { init, ..media_playlist(PlaylistTrack::Audio(1), &grid, Ticks::ZERO, 0.0) };
    let text = audio.render("g");
    assert!(text.contains("#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"a1-f1e2d3c4b5a69788.mp4?st=g\"\n"), "{text}");
    assert!(text.contains("\na1-00001.m4s?st=g\n"), "{text}");
}

#[test]
fn an_iframe_playlist_lists_ranges_of_segments() {
    let grid = film();
    let iframe = |segment, end| IFrame { segment, bytes: Some(0..end) };
    let playlist =
        MediaPlaylist { init: Some(InitId(1)), ..media_playlist(PlaylistTrack::Video(0), &grid, Ticks::ZERO, 4.25) };
    let text = playlist.render_iframes(&[iframe(0, 9000), iframe(1, 8000), iframe(4, 12_345)], "g");
    insta::assert_snapshot!(text, @r#"
    #EXTM3U
    #EXT-X-VERSION:7
    #EXT-X-TARGETDURATION:5
    #EXT-X-PLAYLIST-TYPE:VOD
    #EXT-X-I-FRAMES-ONLY
    #EXT-X-MAP:URI="v0-0000000000000001.mp4?st=g"
    #EXTINF:1.001000,
    #EXT-X-BYTERANGE:9000@0
    v0-00000.m4s?st=g
    #EXTINF:3.003000,
    #EXT-X-BYTERANGE:8000@0
    v0-00001.m4s?st=g
    #EXTINF:5.005000,
    #EXT-X-BYTERANGE:12345@0
    v0-00004.m4s?st=g
    #EXT-X-ENDLIST
    "#);
    let parsed = m3u8_rs::parse_media_playlist_res(text.as_bytes()).unwrap();
    assert!(parsed.i_frames_only);
    let range = parsed.segments[2].byte_range.as_ref().unwrap();
    assert_eq!((range.length, range.offset), (12_345, Some(0)));
    assert!(m3u8_rs::parse_media_playlist_res(playlist.render_iframes(&[], "g").as_bytes()).is_ok());
    // It begins with the media playlist, here with the third segment.
    let later = MediaPlaylist { from: grid.segment_start(2), ..playlist };
    let text = later.render_iframes(&[iframe(0, 9000), iframe(1, 8000), iframe(4, 12_345)], "g");
    let parsed = m3u8_rs::parse_media_playlist_res(text.as_bytes()).unwrap();
    let uris: Vec<&str> = parsed.segments.iter().map(|segment| segment.uri.as_str()).collect();
    assert_eq!((uris, parsed.segments[0].duration), (vec!["v0-00004.m4s?st=g"], 5.005));
    // A frame whose place in the segment is unknown has a file of its own.
    let text = later.render_iframes(&[IFrame { segment: 4, bytes: None }], "g");
    assert!(text.ends_with("#EXTINF:5.005000,\nv0-iframe-00004.m4s?st=g\n#EXT-X-ENDLIST\n"), "{text}");
}

proptest! {
    #[test]
    fn a_parser_reads_back_every_segment_and_no_segment_exceeds_the_target(
        end in 0.1..4000.0f64, step in 1.0..6.0f64, init in proptest::option::of(any::<u64>()),
    ) {
        let grid = Grid::from_step(step, end);
        let playlist = MediaPlaylist {
            init: init.map(InitId),
            ..media_playlist(PlaylistTrack::Audio(0), &grid, Ticks::ZERO, 0.0)
        };
        let parsed = m3u8_rs::parse_media_playlist_res(playlist.render("g").as_bytes()).unwrap();
        prop_assert!(parsed.end_list);
        prop_assert_eq!(parsed.segments.len(), grid.len());
        prop_assert_eq!(parsed.segments[0].map.is_some(), init.is_some());
        let total: f64 = parsed.segments.iter().map(|segment| f64::from(segment.duration)).sum();
        prop_assert!((total - end).abs() < 0.01 + end * 1e-6);
        prop_assert!(parsed.segments.iter().all(|s| s.duration.round() as u64 <= parsed.target_duration));
    }
}

#[test]
fn the_codec_is_read_from_the_sequence_parameter_set() {
    let segment = [0x47, 0x40, 0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 0x64, 0x00, 0x28, 0xac];
    assert_eq!(avc_codec_string(&segment).as_deref(), Some("avc1.640028"));
    assert_eq!(avc_codec_string(&[0x47; 188]), None);
}
