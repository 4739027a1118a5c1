use proptest::prelude::*;

use super::*;
use crate::domain::media::{Container, Hdr, StreamKind};
use crate::domain::time::FrameRate;

fn stream(index: u32, codec: &str, kind: StreamKind) -> Stream {
    Stream {
        profile: match codec {
            "h264" => Some("high".into()),
            "aac" => Some("lc".into()),
            _ => None,
        },
        level: (codec == "h264").then(|| "4".into()),
        ..Stream::new(index, codec, kind)
    }
}

fn video_stream(index: u32, codec: &str) -> Stream {
    let video = Video { frame_rate: FrameRate::new(25, 1), ..Video::new(1920, 1080) };
    stream(index, codec, StreamKind::Video(video))
}

fn audio_stream(index: u32, codec: &str) -> Stream {
    stream(index, codec, StreamKind::Audio(Audio::new(2, 48_000)))
}

fn file(container: Container, streams: Vec<Stream>) -> Media {
    Media { duration_seconds: Some(60.0), bitrate_kbps: Some(4000), ..Media::new(container, streams) }
}

fn film() -> Media {
    file(Container::Mp4, vec![video_stream(0, "h264"), audio_stream(1, "aac")])
}

fn video_of(media: &mut Media) -> &mut Video {
    match &mut media.streams[0].kind {
        StreamKind::Video(video) => video,
        _ => panic!("the first stream is video"),
    }
}

fn audio_of(media: &mut Media) -> &mut Audio {
    match &mut media.streams[1].kind {
        StreamKind::Audio(audio) => audio,
        _ => panic!("the second stream is audio"),
    }
}

fn session(video: Option<TrackAction>, audio: Option<TrackAction>) -> Decision {
    Decision::Session(SessionTracks { video: video.map(|action| (0, action)), audio: audio.map(|action| (1, action)) })
}

#[test]
fn webm_audio_codecs_play_from_matroska() {
    let decided = |codec: &str, device: &DeviceProfile, more: Vec<Stream>| {
        let media = file(Container::Matroska, [vec![audio_stream(1, codec)], more].concat());
        decide(&media, device, &PlaybackRequest::default())
    };
    let browser = DeviceProfile::default();
    assert_eq!(decided("opus", &browser, vec![]), (Decision::Direct, vec![]));
    assert_eq!(decided("aac", &browser, vec![]).1, [TranscodeReason::ContainerNotSupported]);
    assert_eq!(decided("opus", &browser, vec![video_stream(0, "vp9")]).1, [TranscodeReason::ContainerNotSupported]);
    let television = DeviceProfile { containers: vec!["mp4".into()], ..browser };
    assert_eq!(decided("opus", &television, vec![]).1, [TranscodeReason::ContainerNotSupported]);
}

type Change = fn(&mut Media, &mut DeviceProfile, &mut PlaybackRequest);
/// Name, the expected reason, the actions for video and audio, and the difference from a film every browser plays.
type Row = (&'static str, TranscodeReason, TrackAction, TrackAction, Change);

#[test]
fn each_reason_has_its_cause_and_its_cure() {
    use TrackAction::{Copy, Encode};
    use TranscodeReason::*;
    let rows: [Row; 24] = [
        ("matroska", ContainerNotSupported, Copy, Copy, |m, _, _| m.container = Container::Matroska),
        ("aac in webm", ContainerNotSupported, Copy, Copy, |m, _, _| m.container = Container::Webm),
        ("mpeg-2", VideoCodecNotSupported, Encode, Copy, |m, _, _| m.streams[0] = video_stream(0, "mpeg2video")),
        ("hi10p", VideoProfileNotSupported, Encode, Copy, |m, _, _| m.streams[0].profile = Some("high-10".into())),
        ("4:4:4", VideoProfileNotSupported, Encode, Copy, |m, _, _| {
            m.streams[0].profile = None;
            video_of(m).chroma = "4:4:4".into();
        }),
        ("level", VideoLevelNotSupported, Encode, Copy, |m, _, _| m.streams[0].level = Some("6.1".into())),
        ("10 bit", VideoBitDepthNotSupported, Encode, Copy, |m, _, _| video_of(m).bit_depth = 10),
        ("hdr10", VideoRangeNotSupported, Encode, Copy, |m, _, _| video_of(m).hdr = Some(Hdr::Hdr10)),
        ("too large", VideoResolutionNotSupported, Encode, Copy, |_, d, _| {
            (d.video[0].max_width, d.video[0].max_height) = (Some(1280), Some(720))
        }),
        ("720p requested", VideoResolutionNotSupported, Encode, Copy, |_, _, r| r.max_height = Some(720)),
        ("too fast", VideoFramerateNotSupported, Encode, Copy, |_, d, _| d.video[0].max_fps = Some(24.0)),
        ("interlaced", InterlacedNotSupported, Encode, Copy, |m, _, _| video_of(m).is_interlaced = true),
        ("anamorphic", AnamorphicNotSupported, Encode, Copy, |m, d, _| {
            d.video[0].square_pixels_only = true;
            video_of(m).sample_aspect = (64, 45);
        }),
        ("ac-3", AudioCodecNotSupported, Copy, Encode, |m, _, _| m.streams[1] = audio_stream(1, "ac3")),
        ("7.1", AudioChannelsNotSupported, Copy, Encode, |m, _, _| audio_of(m).channels = 8),
        ("stereo requested", AudioChannelsNotSupported, Copy, Encode, |m, _, r| {
            audio_of(m).channels = 6;
            r.max_audio_channels = Some(2);
        }),
        ("device's rate", BitrateExceedsLimit, Encode, Copy, |_, d, _| d.max_bitrate_kbps = Some(2000)),
        ("requested rate", BitrateExceedsLimit, Encode, Copy, |_, _, r| r.max_bitrate_kbps = Some(3999)),
        ("burned in", SubtitleCodecNotSupported, Encode, Copy, |_, _, r| {
            r.subtitle = SubtitleDelivery::Burn(BurnedSubtitle::Embedded { stream: 2, bitmap: true });
        }),
        ("no webvtt", SubtitleCodecNotSupported, Copy, Copy, |_, d, r| {
            d.subtitles.clear();
            r.subtitle = SubtitleDelivery::Text { stream: 2 };
        }),
        ("text rendition", SubtitleSelected, Copy, Copy, |_, _, r| {
            r.subtitle = SubtitleDelivery::Text { stream: 2 };
            r.needs_subtitle_rendition = true;
        }),
        ("forced", StartForced, Copy, Copy, |_, _, r| r.force_transcode = true),
        ("forced vp9", StartForced, Encode, Copy, |m, _, r| {
            m.streams[0] = video_stream(0, "vp9");
            r.force_transcode = true;
        }),
        ("rotated", StartForced, Encode, Copy, |m, _, r| {
            video_of(m).rotation = 90;
            r.force_transcode = true;
        }),
    ];
    for (name, reason, video, audio, change) in rows {
        let (mut media, mut device, mut request) = (film(), DeviceProfile::default(), PlaybackRequest::default());
        change(&mut media, &mut device, &mut request);
        assert_eq!(decide(&media, &device, &request), (session(Some(video), Some(audio)), vec![reason]), "{name}");
    }
}

#[test]
fn browser_formats_are_played_directly() {
    let direct = |media: &Media| {
        assert_eq!(decide(media, &DeviceProfile::default(), &PlaybackRequest::default()), (Decision::Direct, vec![]))
    };
    direct(&film());
    direct(&file(Container::Webm, vec![video_stream(0, "vp9"), audio_stream(1, "opus")]));
    direct(&file(Container::Mp4, vec![video_stream(0, "av1")]));
    direct(&file(Container::Mp3, vec![audio_stream(0, "mp3")]));
    direct(&file(Container::Flac, vec![audio_stream(0, "flac")]));
    let mut rotated = film();
    video_of(&mut rotated).rotation = 270;
    direct(&rotated);
    let request = PlaybackRequest { subtitle: SubtitleDelivery::Text { stream: 2 }, ..PlaybackRequest::default() };
    assert_eq!(decide(&film(), &DeviceProfile::default(), &request).0, Decision::Direct, "WebVTT is served separately");
}

#[test]
fn playable_audio_is_preferred_to_the_default_track() {
    let mut media = file(Container::Mp4, vec![video_stream(0, "h264"), audio_stream(1, "ac3"), audio_stream(2, "aac")]);
    media.streams[1].is_default = true;
    let (decision, reasons) = decide(&media, &DeviceProfile::default(), &PlaybackRequest::default());
    let tracks = SessionTracks { video: Some((0, TrackAction::Copy)), audio: Some((2, TrackAction::Copy)) };
    assert_eq!(decision, Decision::Session(tracks));
    assert_eq!(reasons, [TranscodeReason::AudioCodecNotSupported, TranscodeReason::SecondaryAudioSelected]);
    // Not if it is in another language, and not a commentary.
    media.streams[1].language = Some("ger".into());
    media.streams[2].language = Some("eng".into());
    let chosen = |media: &Media| match decide(media, &DeviceProfile::default(), &PlaybackRequest::default()).0 {
        Decision::Session(tracks) => tracks.audio,
        other => panic!("{other:?}"),
    };
    assert_eq!(chosen(&media), Some((1, TrackAction::Encode)));
}

#[test]
fn a_non_default_audio_track_needs_a_session() {
    let mut media = file(Container::Mp4, vec![video_stream(0, "h264"), audio_stream(1, "aac"), audio_stream(2, "aac")]);
    media.streams[1].is_default = true;
    let request = PlaybackRequest { audio_stream: Some(2), ..PlaybackRequest::default() };
    let (decision, reasons) = decide(&media, &DeviceProfile::default(), &request);
    let tracks = SessionTracks { video: Some((0, TrackAction::Copy)), audio: Some((2, TrackAction::Copy)) };
    assert_eq!((decision, reasons), (Decision::Session(tracks), vec![TranscodeReason::SecondaryAudioSelected]));
}

#[test]
fn an_undecodable_file_is_refused_and_a_silent_one_is_not() {
    let mut media = file(Container::Mp4, vec![audio_stream(0, "ac4")]);
    media.streams[0].is_decodable = false;
    let answer = decide(&media, &DeviceProfile::default(), &PlaybackRequest::default());
    assert_eq!(answer, (Decision::Refuse, vec![TranscodeReason::NoDecodableStream]));
    let mut media = film();
    media.streams[1] = audio_stream(1, "unknown");
    media.streams[1].is_decodable = false;
    let answer = decide(&media, &DeviceProfile::default(), &PlaybackRequest::default());
    assert_eq!(answer, (session(Some(TrackAction::Copy), None), vec![TranscodeReason::AudioCodecNotSupported]));
}

fn containers() -> impl Strategy<Value = Container> {
    use Container::{Matroska, Mp3, Mp4, MpegTs, Other, Webm};
    prop_oneof![Just(Mp4), Just(Matroska), Just(Webm), Just(MpegTs), Just(Mp3), Just(Other)]
}

prop_compose! {
    fn medias()(
        container in containers(),
        video in proptest::option::of(prop_oneof![Just("h264"), Just("hevc"), Just("vp9"), Just("mpeg2video")]),
        audio_tracks in proptest::collection::vec(
            (prop_oneof![Just("aac"), Just("ac3"), Just("opus"), Just("dts")], 1u32..9, any::<bool>(), any::<bool>()),
            0..3,
        ),
        depth in prop_oneof![Just(8u8), Just(10)],
        interlaced in any::<bool>(),
        hdr in proptest::option::of(prop_oneof![Just(Hdr::Hdr10), Just(Hdr::Hlg)]),
        decodable in any::<bool>(),
        bitrate_kbps in proptest::option::of(1u32..20_000),
    ) -> Media {
        let mut streams = Vec::new();
        if let Some(codec) = video {
            let mut stream = video_stream(0, codec);
            if let StreamKind::Video(video) = &mut stream.kind {
                (video.bit_depth, video.is_interlaced, video.hdr) = (depth, interlaced, hdr);
            }
            stream.is_decodable = decodable;
            streams.push(stream);
        }
        for (codec, channels, default, decodable) in audio_tracks {
            let mut stream = audio_stream(streams.len() as u32, codec);
            if let StreamKind::Audio(audio) = &mut stream.kind {
                audio.channels = channels;
            }
            (stream.is_default, stream.is_decodable) = (default, decodable);
            streams.push(stream);
        }
        Media { bitrate_kbps, ..file(container, streams) }
    }
}

prop_compose! {
    fn devices()(
        containers in proptest::sample::subsequence(vec!["mp4", "webm", "mkv", "ts", "mp3"], 0..=5),
        video in proptest::sample::subsequence(vec!["h264", "hevc", "vp9"], 0..=3),
        audio in proptest::sample::subsequence(vec!["aac", "ac3", "opus", "dts"], 0..=4),
        channels in proptest::option::of(1u32..9),
        max_bitrate_kbps in proptest::option::of(1u32..20_000),
    ) -> DeviceProfile {
        let base = DeviceProfile::default().video[1].clone();
        DeviceProfile {
            containers: containers.into_iter().map(str::to_owned).collect(),
            video: video.into_iter().map(|codec| VideoSupport { codec: codec.into(), ..base.clone() }).collect(),
            audio: audio.into_iter().map(|codec| AudioSupport { codec: codec.into(), max_channels: channels }).collect(),
            subtitles: vec!["vtt".into()],
            max_bitrate_kbps,
        }
    }
}

proptest! {
    #[test]
    fn only_direct_play_has_no_reasons(media in medias(), device in devices(), force in any::<bool>()) {
        let (decision, reasons) = decide(&media, &device, &PlaybackRequest { force_transcode: force, ..PlaybackRequest::default() });
        prop_assert_eq!(decision == Decision::Direct, reasons.is_empty());
        prop_assert!(!(force && decision == Decision::Direct));
    }

    #[test]
    fn nothing_is_direct_when_the_device_lacks_its_codec(media in medias(), device in devices()) {
        if decide(&media, &device, &PlaybackRequest::default()).0 == Decision::Direct {
            let shown = media.video_streams().find(|(stream, _)| stream.is_decodable || supports_video(&device, &stream.codec));
            prop_assert!(shown.is_none_or(|(stream, _)| supports_video(&device, &stream.codec)));
            prop_assert!(default_audio(&media).is_none_or(|(stream, _)| supports_audio(&device, &stream.codec)));
        }
    }

    #[test]
    fn a_session_uses_only_what_can_be_decoded_and_copies_only_what_fits_a_stream(
        media in medias(), device in devices(), force in any::<bool>(),
    ) {
        let request = PlaybackRequest { force_transcode: force, ..PlaybackRequest::default() };
        if let (Decision::Session(tracks), _) = decide(&media, &device, &request) {
            for (index, action) in [tracks.video, tracks.audio].into_iter().flatten() {
                let stream = media.stream(index).expect("a stream of the file");
                prop_assert!(stream.is_decodable);
                prop_assert!(action == TrackAction::Encode || matches!(stream.codec.as_str(), "h264" | "aac" | "mp3"));
            }
        }
    }

    #[test]
    fn a_device_that_takes_more_never_loses_direct_play(media in medias(), device in devices()) {
        if decide(&media, &device, &PlaybackRequest::default()).0 == Decision::Direct {
            let mut more = device.clone();
            more.containers.extend(["mkv", "ts", "mp4", "webm"].map(str::to_owned));
            let base = DeviceProfile::default().video[1].clone();
            more.video.extend(["hevc", "mpeg2video"].map(|codec| VideoSupport { codec: codec.into(), ..base.clone() }));
            more.audio.extend(["ac3", "dts"].map(|codec| AudioSupport { codec: codec.into(), max_channels: None }));
            more.max_bitrate_kbps = None;
            prop_assert_eq!(decide(&media, &more, &PlaybackRequest::default()).0, Decision::Direct);
        }
    }
}
