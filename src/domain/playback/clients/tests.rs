use super::*;
use crate::domain::media::{Audio, Container, Media, Stream, StreamKind, Video};
use crate::domain::playback::{Decision, PlaybackRequest, decide};

/// User-Agents as they are sent, each after the name of the entry it matches; `-` for none.
const AGENTS: [&str; 29] = [
    "firefox Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "chrome Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
    "edge Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0",
    "opera Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/127.0.0.0 Safari/537.36 OPR/113.0.0.0",
    "safari Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
    "safari-mobile Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1",
    "samsung-internet Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/26.0 Chrome/122.0.0.0 Mobile Safari/537.36",
    "tizen Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.5) AppleWebKit/537.36 (KHTML, like Gecko) 85.0.4183.93/6.5 TV Safari/537.36",
    "webos Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 WebAppManager",
    "chromecast Mozilla/5.0 (Linux; Android 12.0; Build/STTL.240206.002) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.6261.43 Safari/537.36 CrKey/1.56.500000 DeviceType/AndroidTV",
    "console Mozilla/5.0 (PlayStation; PlayStation 5/2.26) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.0 Safari/605.1.15",
    "roku Roku/DVP-12.0 (12.0.0.4182-88)",
    "kodi Kodi/21.1 (Linux; Android 11; BRAVIA 4K UR2) Android/11.0.0 Sys_CPU/armv8l App_Bitness/32 Version/21.1",
    "vlc VLC/3.0.21 LibVLC/3.0.21",
    "mpv libmpv",
    "mpv mpv 0.37.0",
    "mpv Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) JellyfinMediaPlayer 1.11.1 QtWebEngine/5.15.17 Chrome/87.0.4280.144 Safari/537.36",
    "infuse Infuse-Direct/7.7.6",
    "ffmpeg Lavf/59.27.100",
    "gstreamer GStreamer souphttpsrc 1.22.0 libsoup/3.2.3",
    "exoplayer ExoPlayerDemo/2.18.7 (Linux; Android 13) ExoPlayerLib/2.18.7",
    "exoplayer just-player/1.0 (Linux;Android 14) AndroidXMedia3/1.4.1",
    "exoplayer TiviMate/5.1.0 (Linux; Android 11)",
    "apple AppleCoreMedia/1.0.0.22B91 (iPhone; U; CPU OS 18_1_1 like Mac OS X; en_us)",
    "apple Swiftfin/1.1 CFNetwork/1568.200.51 Darwin/24.1.0",
    "android stagefright/1.2 (Linux;Android 9)",
    "android Dalvik/2.1.0 (Linux; U; Android 12; Chromecast Build/STTL.240206.002)",
    "- curl/8.5.0",
    "- ",
];

fn agents() -> impl Iterator<Item = (&'static str, &'static str)> {
    AGENTS.iter().map(|line| line.split_once(' ').unwrap())
}

#[test]
fn user_agents_name_their_players() {
    for (name, agent) in agents() {
        let device = RequestDevice::resolve(None, None, Some(agent));
        let expected = match name {
            "-" => (Some("web"), DeviceSource::Default),
            name => (Some(name), DeviceSource::UserAgent),
        };
        assert_eq!((device.name, device.source), expected, "{agent}");
    }
    let device = RequestDevice::resolve(None, None, Some(&"é".repeat(4000)));
    assert_eq!(device, RequestDevice::default(), "a long name is truncated");
}

#[test]
fn a_player_overrides_the_user_agent_and_a_profile_both() {
    let firefox = agents().next().map(|(_, agent)| agent);
    for (player, name, source) in [
        ("kodi", "kodi", DeviceSource::Player),
        ("VLC 3.0.21", "vlc", DeviceSource::Player),
        ("ExoPlayer/2.18", "exoplayer", DeviceSource::Player),
        ("Android", "android", DeviceSource::Player),
        ("web", "firefox", DeviceSource::UserAgent),
        ("vlcish", "firefox", DeviceSource::UserAgent),
    ] {
        let device = RequestDevice::resolve(None, Some(player), firefox);
        assert_eq!((device.name, device.source), (Some(name), source), "{player}");
    }
    let own = DeviceProfile { containers: vec!["ts".into()], ..DeviceProfile::default() };
    let device = RequestDevice::resolve(Some(own.clone()), Some("kodi"), firefox);
    assert_eq!(device, RequestDevice { profile: own, name: None, source: DeviceSource::Profile });
}

#[test]
fn an_entry_says_what_is_played_directly() {
    let file = |container, video: &str, audio: &str| {
        let kind = StreamKind::Video(Video::new(1920, 1080));
        let audio_stream = Stream::new(1, audio, StreamKind::Audio(Audio::new(2, 48_000)));
        Media::new(container, vec![Stream::new(0, video, kind), audio_stream])
    };
    let (mkv, webm) = (file(Container::Matroska, "hevc", "ac3"), file(Container::Webm, "vp9", "opus"));
    let (ts, mp4) = (file(Container::MpegTs, "mpeg2video", "mp2"), file(Container::Mp4, "h264", "aac"));
    let phone = file(Container::Matroska, "h264", "aac");
    let direct_play = |player: &str| {
        let device = RequestDevice::resolve(None, Some(player), None);
        assert_eq!(device.source, DeviceSource::Player, "no entry has the player {player}");
        let is_direct =
            |media: &&Media| decide(media, &device.profile, &PlaybackRequest::default()).0 == Decision::Direct;
        [&mkv, &webm, &ts, &phone, &mp4]
            .iter()
            .map(|media| if is_direct(media) { 'y' } else { 'n' })
            .collect::<String>()
    };
    for (player, played) in [
        ("kodi", "yyyyy"),
        ("mpv", "yyyyy"),
        ("chrome", "nynny"),
        ("safari", "nnnny"),
        ("exoplayer", "nynyy"),
        ("tizen", "ynnyy"),
        ("roku", "nnnyy"),
        ("chromecast", "nnnny"),
        ("playstation", "nnnny"),
    ] {
        assert_eq!(direct_play(player), played, "{player}");
    }
}

#[test]
fn players_built_on_ffmpeg_get_no_start_in_the_multivariant_playlist() {
    let (_, chrome) = agents().nth(1).unwrap();
    for (agent, accepts) in
        [("Lavf/59.27.100", false), ("VLC/3.0.21 LibVLC/3.0.21", false), ("curl/8.5.0", false), (chrome, true)]
    {
        assert_eq!(accepts_start_in_multivariant(agent), accepts, "{agent}");
    }
}
