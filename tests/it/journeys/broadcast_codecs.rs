//! Codecs of broadcasts copied: into MPEG-TS for players that decode them there, and from transport streams into fMP4.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::sessions::{play_to_end, start};
use crate::kit::player::{self, PlayerSession};
use crate::kit::{self, Server, media};

const H264: &str = "-c:v libx264 -preset ultrafast -bf 2 -g 50";
const HEVC: &str = "-c:v libx265 -preset ultrafast -x265-params log-level=none:bframes=3:keyint=50:min-keyint=50";

/// The hash of every packet of one kind of stream (`v`, `a`), from a file or an address.
fn packet_hashes(input: &str, kind: &str) -> Vec<String> {
    let entries = "-select_streams KIND -show_entries packet=data_hash -show_data_hash MD5 -of csv=p=0";
    let output = Command::new("ffprobe")
        .args(["-v", "error"])
        .args(entries.replace("KIND", kind).split(' '))
        .arg(input)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Side data makes lines and commas of its own.
    let text = String::from_utf8(output.stdout).unwrap();
    text.split([',', '\n']).filter(|field| field.starts_with("MD5:")).map(str::to_owned).collect()
}

async fn hashes(input: String, kind: &'static str) -> Vec<String> {
    tokio::task::spawn_blocking(move || packet_hashes(&input, kind)).await.unwrap()
}

async fn start_as_mpv(server: &Server, film: &Path) -> Value {
    let options = json!({"mediaPath": film.to_str().unwrap(), "player": "mpv", "forceTranscode": true});
    start(server, &options).await
}

/// Format, and the actions for video and audio.
fn decision(session: &Value) -> [&str; 3] {
    ["format", "video", "audio"].map(|field| session["decision"][field].as_str().unwrap())
}

fn playlist_url(server: &Server, session: &Value) -> String {
    format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())
}

async fn multivariant(server: &Server, session: &Value) -> String {
    server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dolby_audio_is_copied_beside_copied_and_encoded_video() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    for (name, encoders, video, codec) in [
        ("ac3.mkv", format!("{H264} -c:a ac3 -ac 6 -b:a 384k"), "copy", "ac-3"),
        ("eac3.mp4", format!("{H264} -c:a eac3 -ac 6 -b:a 256k"), "copy", "ec-3"),
        ("ac3.ts", format!("{H264} -c:a ac3 -b:a 192k"), "copy", "ac-3"),
        ("eac3.ts", "-c:v mpeg2video -q:v 4 -g 25 -c:a eac3 -b:a 192k".to_owned(), "encode", "ec-3"),
    ] {
        let film = folder.path().join(name);
        media::flash_and_beep(&film, 8, &encoders);
        let session = start_as_mpv(&server, &film).await;
        assert_eq!(decision(&session), ["mpeg-ts", video, "copy"], "{name}: {session}");
        assert_eq!(session["decision"]["streams"][1]["reasons"], json!([]), "{name}");
        let url = playlist_url(&server, &session);
        let source = hashes(film.to_str().unwrap().to_owned(), "a").await;
        assert!(source.len() > 200, "{name}");
        assert!(hashes(url.clone(), "a").await == source, "{name}: the packets of audio are those of the file");
        let text = multivariant(&server, &session).await;
        assert!(text.contains(&format!(",{codec}\"")) && text.contains("CODECS=\"avc1."), "{name}: {text}");
        let (warnings, seconds) = play_to_end(url).await;
        assert_eq!(warnings, "", "{name}");
        assert!((seconds - 8.0).abs() < 0.1, "{name}: {seconds}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dolby_audio_is_encoded_for_a_player_that_may_not_decode_it() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    media::flash_and_beep(&film, 4, &format!("{H264} -c:a ac3"));
    let server = kit::start_server(&[folder.path()]).await;
    let options = json!({"mediaPath": film.to_str().unwrap(), "player": "roku", "forceTranscode": true});
    let session = start(&server, &options).await;
    assert_eq!(decision(&session), ["mpeg-ts", "copy", "encode"]);
    assert!(multivariant(&server, &session).await.contains(",mp4a.40.2\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn hevc_is_copied_with_open_and_closed_groups_of_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    for (name, encoders) in [
        ("open.mkv", format!("{HEVC}:open-gop=1 -c:a eac3")),
        ("closed.mp4", format!("{HEVC}:open-gop=0 -tag:v hvc1 -c:a aac")),
        ("open.ts", format!("{HEVC}:open-gop=1 -c:a ac3")),
    ] {
        let (film, remuxed) = (folder.path().join(name), folder.path().join("remuxed.ts"));
        media::flash_and_beep(&film, 8, &encoders);
        media::run_ffmpeg(&remuxed, &[&format!("-i {}", film.display()), "-map 0:v -c copy"]);
        let source = hashes(remuxed.to_str().unwrap().to_owned(), "v").await;
        assert_eq!(source.len(), 200, "{name}");
        std::fs::remove_file(&remuxed).unwrap();
        let session = start_as_mpv(&server, &film).await;
        assert_eq!(decision(&session), ["mpeg-ts", "copy", "copy"], "{name}: {session}");
        // Each segment in a run of its own.
        let player = PlayerSession::open(&server, &session).await.unwrap();
        let joined = player.fetch((0..4).rev()).await.unwrap();
        let recorded = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(recorded.path(), joined).unwrap();
        let copied = hashes(recorded.path().to_str().unwrap().to_owned(), "v").await;
        assert!(copied == source, "{name}: {} packets of video", copied.len());
        let text = multivariant(&server, &session).await;
        assert!(text.contains("CODECS=\"hvc1.1.6.") && text.contains("VIDEO-RANGE=SDR"), "{name}: {text}");
        assert!(!text.contains("INDEPENDENT-SEGMENTS"), "{name}: {text}");
        let (warnings, seconds) = play_to_end(playlist_url(&server, &session)).await;
        assert_eq!(warnings, "", "{name}");
        assert!((seconds - 8.0).abs() < 0.1, "{name}: {seconds}");
    }
}

/// Starts a session for a page whose browser decodes these codecs in fMP4.
async fn start_as_page(server: &Server, film: &Path, codecs: &[&str]) -> Value {
    let capabilities = json!({"codecs": codecs, "audioRenditions": true});
    start(server, &json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities})).await
}

/// Codec, action and reasons of each stream.
fn streams(session: &Value) -> Vec<(&str, &str, String)> {
    let rows = session["decision"]["streams"].as_array().unwrap().iter();
    rows.map(|row| (row["codec"].as_str().unwrap(), row["action"].as_str().unwrap(), row["reasons"].to_string()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_gets_copies_of_transport_streams_in_fmp4() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let everything = ["avc1.640033", "hvc1.2.4.L153.B0", "mp4a.40.2", "ac-3", "ec-3"];
    let without_dolby = ["avc1.640033", "hvc1.1.6.L153.B0", "mp4a.40.2"];
    let languages = "-map 0:v -map 1:a -map 1:a -c:a:0 ac3 -ac:a:0 6 -c:a:1 eac3 \
        -metadata:s:a:0 language=deu -metadata:s:a:1 language=eng";
    let copy = |codec| (codec, "copy", "[]".to_owned());
    let encode = |codec, reasons: &[&str]| (codec, "encode", json!(reasons).to_string());
    for (name, encoders, codecs, expected, codec_list) in [
        (
            "hevc.ts",
            format!("{HEVC}:open-gop=1 {languages}"),
            &everything[..],
            vec![copy("hevc"), copy("ac3"), copy("eac3")],
            "CODECS=\"hvc1.1.6.L",
        ),
        (
            "ten-bits.m2ts",
            format!("{HEVC}:open-gop=1 -pix_fmt yuv420p10le -c:a eac3"),
            &everything,
            vec![copy("hevc"), copy("eac3")],
            "CODECS=\"hvc1.2.4.L",
        ),
        (
            "without-dolby.ts",
            format!("{HEVC}:open-gop=0 -c:a ac3"),
            &without_dolby,
            vec![copy("hevc"), encode("ac3", &["AUDIO_CODEC_NOT_SUPPORTED"])],
            ",mp4a.40.2\"",
        ),
        ("h264.ts", format!("{H264} -c:a aac"), &everything, vec![copy("h264"), copy("aac")], "CODECS=\"avc3."),
        (
            "disc.vob",
            "-c:v mpeg2video -q:v 4 -g 12 -c:a ac3 -f vob".to_owned(),
            &everything,
            vec![encode("mpeg2video", &["SEGMENT_FORMAT_NOT_SUPPORTED", "VIDEO_CODEC_NOT_SUPPORTED"]), copy("ac3")],
            ",ac-3\"",
        ),
    ] {
        let film = folder.path().join(name);
        media::flash_and_beep(&film, 8, &encoders);
        let session = start_as_page(&server, &film, codecs).await;
        assert_eq!(session["decision"]["format"], "fmp4", "{name}: {session}");
        assert_eq!(streams(&session), expected, "{name}");
        let url = playlist_url(&server, &session);
        let (warnings, seconds) = play_to_end(url.clone()).await;
        assert_eq!(warnings, "", "{name}");
        assert!((seconds - 8.0).abs() < 0.1, "{name}: {seconds}");
        let text = multivariant(&server, &session).await;
        assert!(text.contains(codec_list), "{name}: {text}");
        if matches!(name, "ten-bits.m2ts" | "disc.vob") {
            let source = hashes(film.to_str().unwrap().to_owned(), "a").await;
            assert!(hashes(url, "a").await == source, "{name}: {} packets of audio", source.len());
        }
        player::stop(&server, &session).await;
    }
}

/// Adds a descriptor of Dolby Vision (tag 0xb0, "Dolby Vision Streams Within the MPEG-2 Transport Stream Format" 1.2) to the HEVC of
/// every program map, which ffmpeg 5.1 reads but does not write.
fn add_dolby_vision_descriptor(film: &Path, profile: u16, compatibility: u8) {
    const HEVC: u8 = 0x24;
    const HEAD_BYTES: usize = 5;
    let (level, metadata_and_base_layer) = (1, 0b101);
    let [high, low] = (profile << 9 | level << 3 | metadata_and_base_layer).to_be_bytes();
    let descriptor = [0xb0, 5, 1, 0, high, low, compatibility << 4];
    let mut bytes = std::fs::read(film).unwrap();
    let mut count = 0;
    for packet in bytes.chunks_exact_mut(188).filter(|packet| packet[1] & 0x1f == 0x10 && packet[2] == 0) {
        // After the header and the pointer field, without an adaptation field.
        let section = &mut packet[5..];
        assert_eq!(section[0], 2, "a program map");
        let length = usize::from(u16::from_be_bytes([section[1] & 0x0f, section[2]]));
        let mut at = 12 + usize::from(section[11]);
        while section[at] != HEVC {
            at += HEAD_BYTES + usize::from(section[at + 4]);
        }
        let end = 3 + length - 4;
        section.copy_within(at + HEAD_BYTES..end, at + HEAD_BYTES + descriptor.len());
        section[at + HEAD_BYTES..][..descriptor.len()].copy_from_slice(&descriptor);
        section[at + 4] += descriptor.len() as u8;
        section[2] += descriptor.len() as u8;
        let end = end + descriptor.len();
        let crc = section[..end].iter().fold(u32::MAX, |crc, &byte| {
            let step = |crc: u32, _| crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            (0..8).fold(crc ^ u32::from(byte) << 24, step)
        });
        section[end..end + 4].copy_from_slice(&crc.to_be_bytes());
        count += 1;
    }
    assert!(count > 0);
    std::fs::write(film, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dolby_vision_of_transport_streams_is_copied_and_signalled() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let encoders = "-c:v libx265 -preset ultrafast -x265-params log-level=none:bframes=3:keyint=50:min-keyint=50:open-gop=0\
        :colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc -pix_fmt yuv420p10le -c:a aac";
    for (profile, compatibility, codec_list, boxes) in [
        (5, 0, "CODECS=\"dvh1.05.01,", ["dvh1", "dvcC"]),
        (8, 1, "SUPPLEMENTAL-CODECS=\"dvh1.08.01/db1p\"", ["hvc1", "dvvC"]),
    ] {
        let film = folder.path().join(format!("profile-{profile}.ts"));
        media::flash_and_beep(&film, 4, encoders);
        add_dolby_vision_descriptor(&film, profile, compatibility);
        let capabilities = json!({"codecs": ["avc1.640033", "hvc1.2.4.L153.B0", "dvh1.05.06", "mp4a.40.2"],
            "hdr": ["hdr10"], "audioRenditions": true});
        let session = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities})).await;
        assert_eq!(session["decision"]["format"], "fmp4", "{session}");
        assert_eq!(streams(&session)[0], ("hevc", "copy", "[]".to_owned()), "{session}");
        let text = multivariant(&server, &session).await;
        assert!(text.contains(codec_list) && text.contains("VIDEO-RANGE=PQ"), "{text}");
        let player = PlayerSession::open(&server, &session).await.unwrap();
        let init = player.media_text.split("#EXT-X-MAP:URI=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let url = player.index_url.join(init).unwrap();
        let init = reqwest::get(url).await.unwrap().bytes().await.unwrap();
        for name in boxes {
            let is_there = init.windows(4).any(|four| four == name.as_bytes());
            assert!(is_there, "profile {profile}: no {name} in the init segment");
        }
        player::stop(&server, &session).await;
    }
}
