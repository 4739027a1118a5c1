use super::*;
use crate::domain::media::{Audio, Container, Hdr, Media, Stream, StreamKind, Video};
use crate::domain::plan::BurnedSubtitle;
use crate::domain::playback::{PlaybackRequest, SessionTracks, SubtitleDelivery, TrackAction, TranscodeReason};

/// Capabilities of a client that sends only its `player`.
fn of_player(player: &str) -> ClientCapabilities {
    ClientCapabilities::resolve(None, Some(player), &RequestDevice::resolve(None, Some(player), None))
}

/// Video of a name like `hevc10` or `hdr10`, with tracks of audio like `eac3:6`.
fn file(video: &str, audio: &[&str]) -> Media {
    let (codec, profile, bit_depth, hdr) = match video {
        "h264" => ("h264", Some("high"), 8, None),
        "hi10p" => ("h264", Some("high-10"), 10, None),
        "hevc" => ("hevc", Some("main"), 8, None),
        "hdr10" => ("hevc", Some("main-10"), 10, Some(Hdr::Hdr10)),
        "dv" => ("hevc", Some("main-10"), 10, Some(Hdr::DolbyVision)),
        other => (other, None, 8, None),
    };
    let mut streams = Vec::new();
    if !video.is_empty() {
        let kind = StreamKind::Video(Video { bit_depth, hdr, ..Video::new(1920, 1080) });
        streams.push(Stream { profile: profile.map(str::to_owned), ..Stream::new(0, codec, kind) });
    }
    for (n, track) in audio.iter().enumerate() {
        let (codec, channels) = track.split_once(':').unwrap();
        let kind = StreamKind::Audio(Audio::new(channels.parse().unwrap(), 48_000));
        let profile = (codec == "aac").then(|| "lc".to_owned());
        streams.push(Stream { profile, ..Stream::new(1 + n as u32, codec, kind) });
    }
    Media::new(Container::Matroska, streams)
}

/// Format, then the actions for video and for each track of audio: `c`opy or `e`ncode.
fn summary(delivery: &SessionDelivery) -> String {
    let action = |decision: &StreamDecision| if decision.action == TrackAction::Copy { 'c' } else { 'e' };
    let video = delivery.video.iter().map(action).collect::<String>();
    format!("{} {video}/{}", delivery.format.extension(), delivery.audio.iter().map(action).collect::<String>())
}

fn decide(player: &str, media: &Media, request: &PlaybackRequest) -> SessionDelivery {
    decide_delivery(media, &of_player(player), request).unwrap()
}

#[test]
fn each_client_gets_the_format_in_which_most_is_copied() {
    let files = [
        file("h264", &["aac:2", "ac3:6"]),
        file("hdr10", &["eac3:6", "aac:2"]),
        file("av1", &["opus:6"]),
        file("hi10p", &["flac:2"]),
        file("dv", &["eac3:6"]),
        file("mpeg2video", &["mp2:2"]),
        file("", &["mp3:2"]),
        file("h264", &["dts:6"]),
    ];
    for (player, expected) in [
        ("firefox", ["m4s c/ce", "m4s e/ec", "m4s c/c", "m4s e/c", "m4s e/e", "m4s e/e", "ts /c", "m4s c/e"]),
        ("chrome", ["m4s c/ce", "m4s e/ec", "m4s c/c", "m4s c/c", "m4s e/e", "m4s e/e", "ts /c", "m4s c/e"]),
        ("safari", ["m4s c/cc", "m4s c/cc", "m4s e/e", "m4s e/c", "m4s c/c", "m4s e/e", "ts /c", "m4s c/e"]),
        ("kodi", ["ts c/cc", "ts c/cc", "m4s c/c", "m4s c/c", "ts e/c", "ts e/e", "ts /c", "m4s c/c"]),
        ("kodi-isa", ["m4s c/cc", "m4s c/cc", "m4s c/e", "m4s c/e", "m4s e/c", "m4s e/e", "m4s /e", "m4s c/e"]),
        ("vlc", ["m4s c/c", "m4s c/c", "m4s c/c", "m4s c/c", "m4s e/c", "m4s e/e", "m4s /c", "m4s c/c"]),
        ("gstreamer", ["ts c/c", "ts e/e", "ts e/e", "ts e/e", "ts e/e", "ts e/e", "ts /c", "ts c/e"]),
        ("hlsdemux2", ["ts c/c", "ts e/e", "m4s e/c", "m4s e/c", "ts e/e", "ts e/e", "ts /c", "ts c/e"]),
        ("tizen", ["ts c/c", "ts e/c", "ts e/e", "ts e/e", "ts e/c", "ts e/e", "ts /c", "ts c/e"]),
        ("exoplayer", ["ts c/c", "ts e/e", "ts e/e", "ts e/e", "ts e/e", "ts e/e", "ts /c", "ts c/e"]),
        ("curl", ["ts c/c", "ts e/e", "ts e/e", "ts e/e", "ts e/e", "ts e/e", "ts /c", "ts c/e"]),
    ] {
        let found = files.each_ref().map(|media| summary(&decide(player, media, &PlaybackRequest::default())));
        assert_eq!(found, expected, "{player}");
    }
}

#[test]
fn languages_and_texts_are_offered_where_players_take_them() {
    let several = file("h264", &["aac:2", "aac:2", "aac:2"]);
    let text = PlaybackRequest { subtitle: SubtitleDelivery::Text { stream: 9 }, ..PlaybackRequest::default() };
    for (player, tracks, audio_renditions, format_with_text) in [
        ("chrome", 3, AudioRenditions::Several, "m4s"),
        ("chrome-native", 1, AudioRenditions::Single, "ts"),
        ("kodi", 3, AudioRenditions::Several, "ts"),
        ("mpv", 3, AudioRenditions::Several, "ts"),
        ("kodi-isa", 3, AudioRenditions::Several, "m4s"),
        ("VLC 3.0.21", 1, AudioRenditions::Single, "ts"),
        ("roku", 1, AudioRenditions::Muxed, "ts"),
    ] {
        let delivery = decide(player, &several, &PlaybackRequest::default());
        assert_eq!((delivery.audio.len(), delivery.audio_renditions), (tracks, audio_renditions), "{player}");
        assert_eq!(decide(player, &several, &text).format.extension(), format_with_text, "{player}");
    }
    // ffmpeg's players have text in neither format, so copying decides.
    assert_eq!(summary(&decide("mpv", &file("av1", &["opus:2"]), &text)), "m4s c/c");
}

#[test]
fn apple_alone_gets_aac_beside_a_copy() {
    let film = file("h264", &["ac3:6", "aac:2"]);
    for (player, has_aac_group) in [
        ("safari", true),
        ("AVPlayer", true),
        ("chrome", false),
        ("kodi-isa", false),
        ("kodi", false),
        ("vlc", false),
        ("curl", false),
    ] {
        assert_eq!(decide(player, &film, &PlaybackRequest::default()).has_aac_group, has_aac_group, "{player}");
    }
}

#[test]
fn the_requested_or_default_track_comes_first() {
    let mut media = file("h264", &["aac:2", "ac3:6", "aac:2"]);
    media.streams[2].is_default = true;
    let first = |player: &str, audio_stream| {
        let delivery = decide(player, &media, &PlaybackRequest { audio_stream, ..PlaybackRequest::default() });
        delivery.audio.iter().map(|decision| decision.stream).collect::<Vec<_>>()
    };
    assert_eq!(first("chrome", None), [2, 1, 3]);
    assert_eq!(first("chrome", Some(3)), [3, 1, 2]);
    assert_eq!(first("vlc", Some(1)), [1]);
}

#[test]
fn decisions_have_reasons() {
    let client = |reason| EncodeReason::Client(reason);
    let reasons = |player: &str, media: &Media, request: &PlaybackRequest| {
        let delivery = decide(player, media, request);
        (delivery.video.unwrap().reasons, delivery.audio[0].reasons.clone())
    };
    let default = PlaybackRequest::default();
    assert_eq!(
        reasons("chrome", &file("hdr10", &["dts:6"]), &default),
        (vec![client(TranscodeReason::VideoCodecNotSupported)], vec![client(TranscodeReason::AudioCodecNotSupported)])
    );
    let hi10p_in_ts = reasons("roku", &file("hi10p", &["flac:2"]), &default);
    let profile_and_depth = [TranscodeReason::VideoProfileNotSupported, TranscodeReason::VideoBitDepthNotSupported];
    assert_eq!(hi10p_in_ts.0, [&[EncodeReason::SegmentFormat], &profile_and_depth.map(client)[..]].concat());
    assert_eq!(hi10p_in_ts.1, [EncodeReason::SegmentFormat, client(TranscodeReason::AudioCodecNotSupported)]);

    let burn = SubtitleDelivery::Burn(BurnedSubtitle::Embedded { stream: 9, bitmap: true });
    let limited = PlaybackRequest {
        subtitle: burn,
        max_height: Some(720),
        max_bitrate_kbps: Some(3000),
        max_audio_channels: Some(2),
        ..PlaybackRequest::default()
    };
    let mut upside_down = file("h264", &["aac:6"]);
    upside_down.bitrate_kbps = Some(9000);
    let StreamKind::Video(video) = &mut upside_down.streams[0].kind else { panic!() };
    video.rotation = 180;
    let request = |reason| EncodeReason::Request(reason);
    let (video, audio) = reasons("safari", &upside_down, &limited);
    let limits = [
        TranscodeReason::SubtitleCodecNotSupported,
        TranscodeReason::VideoResolutionNotSupported,
        TranscodeReason::BitrateExceedsLimit,
    ];
    assert_eq!(video, [&[EncodeReason::Orientation], &limits.map(request)[..]].concat());
    assert_eq!(audio, [request(TranscodeReason::AudioChannelsNotSupported)]);
}

#[test]
fn streams_that_cannot_be_decoded_are_copied_or_left_out() {
    let mut media = file("av1", &["dts:6", "aac:2"]);
    media.streams.iter_mut().for_each(|stream| stream.is_decodable = false);
    assert_eq!(summary(&decide("chrome", &media, &PlaybackRequest::default())), "m4s c/c");
    assert_eq!(decide_delivery(&file("", &[]), &of_player("chrome"), &PlaybackRequest::default()), None);
    media.streams.truncate(2);
    assert_eq!(decide_delivery(&media, &of_player("roku"), &PlaybackRequest::default()), None);
}

#[test]
fn a_probe_overrides_a_profile_and_a_profile_the_table() {
    let profile = |containers: &[&str]| DeviceProfile {
        containers: containers.iter().map(|&name| name.to_owned()).collect(),
        ..DeviceProfile::default()
    };
    let device = |containers| RequestDevice::resolve(Some(profile(containers)), Some("kodi"), None);
    let resolve = |probed, containers| ClientCapabilities::resolve(probed, Some("kodi-isa"), &device(containers));
    let formats = |client: &ClientCapabilities| -> Vec<(&str, usize, usize)> {
        let formats = client.formats.iter();
        formats.map(|it| (it.format.extension(), it.video.len(), it.audio.len())).collect()
    };
    assert_eq!(formats(&resolve(None, &["mp4"])), [("ts", 1, 2)], "H.264, AAC and MP3");
    assert_eq!(formats(&resolve(None, &["mp4", "fmp4"])), [("m4s", 4, 6), ("ts", 1, 2)]);
    let probed = ProbedCapabilities { codecs: vec!["avc1.640033".into()], ..ProbedCapabilities::default() };
    assert_eq!(formats(&resolve(Some(&probed), &["mp4"])), [("m4s", 1, 0), ("ts", 1, 1)]);
    let television = profile(&["ts"]);
    let ac3 = AudioSupport { codec: "AC3".into(), max_channels: None };
    let television = ClientCapabilities::from_profile(&DeviceProfile { audio: vec![ac3], ..television });
    let delivery = decide_delivery(&file("h264", &["ac3:6"]), &television, &PlaybackRequest::default()).unwrap();
    assert_eq!(summary(&delivery), "ts c/c");
    assert!(television.format(SegmentFormat::Fmp4).is_none());
}

#[test]
fn muxed_tracks_are_copied_as_client_and_device_profile_allow() {
    let request = PlaybackRequest::default();
    let stereo = PlaybackRequest { max_audio_channels: Some(2), ..PlaybackRequest::default() };
    let encode = TrackAction::Encode;
    for (player, audio, request, expected) in [
        ("mpv", "ac3:6", &request, TrackAction::Copy),
        ("mpv", "eac3:8", &request, TrackAction::Copy),
        ("mpv", "eac3:6", &stereo, encode),
        ("mpv", "dts:6", &request, encode),
        ("kodi-isa", "ac3:2", &request, TrackAction::Copy),
        ("tizen", "eac3:6", &request, TrackAction::Copy),
        ("tizen", "eac3:8", &request, encode),
        ("roku", "ac3:6", &request, encode),
        ("chrome", "ac3:6", &request, encode),
    ] {
        let (media, device) = (file("h264", &[audio]), RequestDevice::resolve(None, Some(player), None));
        let tracks = SessionTracks { video: Some((0, encode)), audio: Some((1, encode)) };
        let found = copy_for_client(tracks, &media, &of_player(player), &device.profile, request);
        assert_eq!(found.audio, Some((1, expected)), "{player} {audio}");
    }
    let low = PlaybackRequest { max_height: Some(720), ..PlaybackRequest::default() };
    for (player, video, request, expected) in [
        ("mpv", "hevc", &request, TrackAction::Copy),
        ("mpv", "hdr10", &request, TrackAction::Copy),
        ("mpv", "hevc", &low, encode),
        ("mpv", "dv", &request, encode),
        ("mpv", "hi10p", &request, encode),
        ("safari", "hevc", &request, encode),
        ("roku", "hevc", &request, encode),
    ] {
        let (media, device) = (file(video, &[]), RequestDevice::resolve(None, Some(player), None));
        let tracks = SessionTracks { video: Some((0, encode)), audio: None };
        let found = copy_for_client(tracks, &media, &of_player(player), &device.profile, request);
        assert_eq!(found.video, Some((0, expected)), "{player} {video}");
    }
}

#[test]
fn only_clients_that_use_iframe_playlists_get_them() {
    for (player, uses) in [("safari", true), ("chrome", false), ("kodi-isa", false), ("vlc", false), ("mpv", false)] {
        assert_eq!(of_player(player).format(SegmentFormat::Fmp4).unwrap().has_iframe_playlists, uses, "{player}");
    }
    let probed: ProbedCapabilities = serde_json::from_str(r#"{ "iframePlaylists": true }"#).unwrap();
    let of_page: Vec<bool> = probed.to_capabilities().formats.iter().map(|it| it.has_iframe_playlists).collect();
    assert_eq!(of_page, [true, false]);
}

#[test]
fn init_segments_may_change_where_players_continue() {
    for (player, allows) in [("chrome", true), ("kodi-isa", true), ("kodi", false), ("vlc", false), ("safari", false)] {
        let client = of_player(player);
        assert_eq!(client.format(SegmentFormat::Fmp4).unwrap().allows_init_changes, allows, "{player}");
    }
}

#[test]
fn surround_is_encoded_to_the_channels_that_a_client_takes() {
    for (player, by_limit) in [
        ("kodi", [6, 2, 2, 6, 6]),
        ("kodi-isa", [6, 2, 2, 6, 6]),
        ("mpv", [6, 2, 2, 6, 6]),
        ("infuse", [6, 2, 2, 6, 6]),
        ("VLC 3.0.21", [6, 2, 2, 6, 6]),
        ("safari", [2, 2, 2, 6, 6]),
        ("chrome", [6, 2, 2, 6, 6]),
        ("firefox", [6, 2, 2, 6, 6]),
        ("chrome-native", [2, 2, 2, 6, 6]),
        ("gstreamer", [2, 2, 2, 6, 6]),
        ("tizen", [2, 2, 2, 6, 6]),
        ("roku", [2, 2, 2, 2, 2]),
        ("curl", [2, 2, 2, 6, 6]),
    ] {
        let (client, device) = (of_player(player), RequestDevice::resolve(None, Some(player), None).profile);
        let limits = [None, Some(2), Some(5), Some(6), Some(8)];
        assert_eq!(limits.map(|limit| client.encoded_channels(6, limit, &device)), by_limit, "{player}");
        assert_eq!(client.encoded_channels(5, Some(6), &device), 2, "{player}");
    }
    // The page knows its speakers, a device profile does not.
    let aac = |max_channels| DeviceProfile {
        audio: vec![AudioSupport { codec: "AAC".into(), max_channels }],
        ..DeviceProfile::default()
    };
    let probed = ProbedCapabilities { aac_channels: Some(6), ..ProbedCapabilities::default() }.to_capabilities();
    assert_eq!([None, Some(6)].map(|limit| probed.encoded_channels(8, limit, &aac(Some(2)))), [6, 6]);
    let profile = ClientCapabilities::from_profile(&aac(None));
    assert_eq!([None, Some(6)].map(|limit| profile.encoded_channels(8, limit, &aac(None))), [2, 6]);
}
