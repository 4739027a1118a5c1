//! Capabilities of known clients. Measured with 24 s test files and real files in November 2026 (Chromium 156, Firefox 153,
//! mpv 0.35, VLC 3.0, Kodi 20 with inputstream.adaptive 20.3, GStreamer 1.22), except those of Apple, which follow its
//! authoring specification. Clients that were not tried get MPEG-TS as before.

use super::{AudioRenditions, ClientCapabilities, FormatCapabilities, STEREO, SURROUND};
use crate::domain::playback::device::{VideoSupport, audio_support, owned_names, video_support};
use crate::domain::segment_format::SegmentFormat;

const H264: [&str; 4] = ["constrained-baseline", "baseline", "main", "high"];

/// A set of formats, the preferred one first.
type Build = fn() -> Vec<FormatCapabilities>;

/// By prefixes of `player`, lower case: players that share a User-Agent with others. With [`ClientCapabilities::aac_channels`].
const PLAYERS: [(&str, Build, u32); 4] = [
    ("kodi-isa", adaptive_kodi, SURROUND),
    ("inputstream.adaptive", adaptive_kodi, SURROUND),
    ("chrome-native", native_chromium, STEREO),
    ("hlsdemux2", hlsdemux2, STEREO),
];

/// By the names of the table of known clients, with [`ClientCapabilities::aac_channels`]. Software players and browsers mix 5.1
/// down to the speakers of their machine. Apple requires stereo AAC (HLS Authoring Specification, section 2).
const NAMES: [(&[&str], Build, u32); 7] = [
    (&["firefox", "samsung-internet"], browser, SURROUND),
    (&["chrome", "edge", "opera"], chromium, SURROUND),
    (&["apple", "safari", "safari-mobile"], apple, STEREO),
    (&["kodi", "mpv", "ffmpeg", "infuse"], ffmpeg_player, SURROUND),
    (&["vlc"], vlc, SURROUND),
    (&["gstreamer"], gstreamer, STEREO),
    (&["tizen", "webos"], television, STEREO),
];

pub(super) fn by_player(player: &str) -> Option<ClientCapabilities> {
    let is_prefix = |prefix: &str| player.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let (_, build, aac_channels) = PLAYERS.into_iter().find(|(prefix, ..)| is_prefix(prefix))?;
    Some(ClientCapabilities::of_formats(build(), aac_channels))
}

/// H.264 and stereo AAC in MPEG-TS for a name that is not in the table.
pub(super) fn by_name(name: &str) -> ClientCapabilities {
    let entry = NAMES.into_iter().find(|(names, ..)| names.contains(&name));
    let (formats, aac_channels) =
        entry.map_or_else(|| (vec![basic_mpegts()], STEREO), |(_, build, channels)| (build(), channels));
    ClientCapabilities::of_formats(formats, aac_channels)
}

/// hls.js. HEVC depends on the machine: the page probes it.
fn browser() -> Vec<FormatCapabilities> {
    let video = vec![h264(), sdr("vp9"), sdr("av1")];
    vec![fmp4(video, "aac opus flac", AudioRenditions::Several).with_text().with_init_changes(), basic_mpegts()]
}

/// Decodes ten bits of H.264 as well, which Firefox does not.
fn chromium() -> Vec<FormatCapabilities> {
    let mut formats = browser();
    formats[0].video.push(VideoSupport { bit_depths: vec![8, 10], ..video_support("h264", &["high-10"], 5.2) });
    formats
}

/// The player in Chromium without a script: it offers no choice of languages and no text.
fn native_chromium() -> Vec<FormatCapabilities> {
    let video = vec![h264(), sdr("vp9"), sdr("av1")];
    vec![fmp4(video, "aac opus flac", AudioRenditions::Single), basic_mpegts()]
}

/// HEVC is allowed in fMP4 only, and I-frame playlists are required (HLS Authoring Specification, sections 1.5 and 6.1). AC-3 and
/// E-AC-3 depend on the audio device and need stereo AAC beside them (section 2), FLAC and ALAC depend on the version of the
/// system.
fn apple() -> Vec<FormatCapabilities> {
    let hevc = hevc(&["sdr", "hdr10", "hlg", "dolby-vision"]);
    let fmp4 = fmp4(vec![h264(), hevc], "aac ac3 eac3 alac flac", AudioRenditions::Several);
    let fmp4 = FormatCapabilities { has_aac_group: true, ..fmp4 }.with_text().with_iframe_playlists();
    vec![fmp4, mpegts(vec![h264()], "aac mp3 ac3 eac3", AudioRenditions::Muxed).with_text()]
}

/// inputstream.adaptive takes Opus and FLAC for AAC, and MP3 in MPEG-TS too. It opens no video that a playlist calls `vp09` or
/// `avc3` (`getVideoCodec` of its `HLSTree.cpp`), but plays that of `avc3`.
fn adaptive_kodi() -> Vec<FormatCapabilities> {
    let fmp4 = fmp4(vec![any_h264(), any_hevc(), any("av1")], "aac ac3 eac3", AudioRenditions::Several);
    let mpegts = mpegts(vec![any_h264(), any_hevc()], "aac ac3 eac3", AudioRenditions::Several);
    vec![FormatCapabilities { knows_avc3: false, ..fmp4.with_text().with_init_changes() }, mpegts]
}

/// ffmpeg and players with its demuxer: a change of the language stops them in fMP4 but not in MPEG-TS, and a change of the
/// init segment is ignored. They show no WebVTT renditions.
fn ffmpeg_player() -> Vec<FormatCapabilities> {
    vec![broadcast_mpegts(AudioRenditions::Several), any_fmp4()]
}

/// Plays every codec in fMP4. With WebVTT renditions it did not start.
fn vlc() -> Vec<FormatCapabilities> {
    vec![any_fmp4(), broadcast_mpegts(AudioRenditions::Muxed).with_text()]
}

/// `hlsdemux`, which `playbin` chooses, never starts with audio as a rendition of its own in fMP4.
fn gstreamer() -> Vec<FormatCapabilities> {
    vec![mpegts(vec![h264()], "aac mp3", AudioRenditions::Muxed)]
}

/// The newer demuxer of GStreamer, which `playbin3` chooses. It has the same User-Agent.
fn hlsdemux2() -> Vec<FormatCapabilities> {
    let fmp4 = fmp4(vec![h264(), sdr("vp9")], "aac opus flac", AudioRenditions::Single);
    gstreamer().into_iter().chain([fmp4]).collect()
}

/// Not tried.
fn television() -> Vec<FormatCapabilities> {
    vec![mpegts(vec![h264()], "aac mp3 ac3 eac3", AudioRenditions::Muxed).with_text()]
}

fn basic_mpegts() -> FormatCapabilities {
    mpegts(vec![h264()], "aac mp3", AudioRenditions::Muxed).with_text()
}

/// Software decoders of all codecs that MPEG-TS contains.
fn broadcast_mpegts(audio_renditions: AudioRenditions) -> FormatCapabilities {
    mpegts(vec![any_h264(), any_hevc()], "aac mp3 ac3 eac3 dts", audio_renditions)
}

/// Software decoders of all codecs that fMP4 contains.
fn any_fmp4() -> FormatCapabilities {
    let video = vec![any_h264(), any_hevc(), any("av1"), any("vp9")];
    fmp4(video, "aac mp3 opus flac alac ac3 eac3 dts", AudioRenditions::Single)
}

fn mpegts(video: Vec<VideoSupport>, audio: &str, audio_renditions: AudioRenditions) -> FormatCapabilities {
    FormatCapabilities {
        format: SegmentFormat::MpegTs,
        video,
        audio: audio.split(' ').map(|codec| audio_support(codec, if codec == "mp3" { 2 } else { 8 })).collect(),
        audio_renditions,
        has_aac_group: false,
        has_text_renditions: false,
        allows_init_changes: false,
        knows_avc3: true,
        has_iframe_playlists: false,
    }
}

fn fmp4(video: Vec<VideoSupport>, audio: &str, audio_renditions: AudioRenditions) -> FormatCapabilities {
    FormatCapabilities { format: SegmentFormat::Fmp4, ..mpegts(video, audio, audio_renditions) }
}

impl FormatCapabilities {
    fn with_text(self) -> Self {
        Self { has_text_renditions: true, ..self }
    }

    fn with_iframe_playlists(self) -> Self {
        Self { has_iframe_playlists: true, ..self }
    }

    fn with_init_changes(self) -> Self {
        Self { allows_init_changes: true, ..self }
    }
}

fn h264() -> VideoSupport {
    video_support("h264", &H264, 5.2)
}

/// Ten bits and interlaced video too.
fn any_h264() -> VideoSupport {
    let mut support = any("h264");
    support.profiles = owned_names(&H264);
    support.profiles.push("high-10".to_owned());
    support.interlaced = true;
    support
}

fn hevc(hdr: &[&str]) -> VideoSupport {
    VideoSupport {
        bit_depths: vec![8, 10],
        hdr: owned_names(hdr),
        max_level: None,
        ..video_support("hevc", &["main", "main-10"], 0.0)
    }
}

/// No Dolby Vision, because VLC shows it in false colours.
fn any_hevc() -> VideoSupport {
    hevc(&["sdr", "hdr10", "hlg"])
}

/// Eight bits, any level.
fn sdr(codec: &str) -> VideoSupport {
    VideoSupport { max_level: None, ..video_support(codec, &[], 0.0) }
}

/// Eight and ten bits, any profile and level.
fn any(codec: &str) -> VideoSupport {
    VideoSupport { bit_depths: vec![8, 10], hdr: owned_names(&["sdr", "hdr10", "hlg"]), ..sdr(codec) }
}
