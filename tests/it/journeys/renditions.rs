//! Sessions in fMP4: video alone, each audio track and each text subtitle as a rendition of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use super::sessions::{play_to_end, session_path, start};
use crate::kit::{self, media};

/// The capabilities of Chromium, without HEVC and AC-3.
fn browser(text_renditions: bool) -> Value {
    json!({
        "codecs": ["avc1.640033", "av01.0.08M.08", "vp09.00.51.08", "mp4a.40.2", "opus", "flac"],
        "audioRenditions": true, "textRenditions": text_renditions,
    })
}

/// A film of 12 s with AAC (German), AC-3 5.1 (English), Opus (French) and two subtitles.
fn make_film(folder: &Path) -> PathBuf {
    let (plain, film) = (folder.join("plain.mkv"), folder.join("film.mkv"));
    media::flash_and_beep(&plain, 12, "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a pcm_s16le");
    for language in ["de", "en"] {
        let text = format!("1\n00:00:01,000 --> 00:00:03,000\n{language}\n\n");
        std::fs::write(folder.join(format!("text.{language}")), text).unwrap();
    }
    let input = |name: &str| format!("-i {}", folder.join(name).display());
    media::run_ffmpeg(
        &film,
        &[
            &input("plain.mkv"),
            &format!("-f srt {} -f srt {}", input("text.de"), input("text.en")),
            "-map 0:v -map 0:a -map 0:a -map 0:a -map 1 -map 2 -c:v copy",
            "-c:a:0 aac -c:a:1 ac3 -ac:a:1 6 -c:a:2 libopus -c:s srt",
            "-metadata:s:a:0 language=ger -metadata:s:a:1 language=eng -metadata:s:a:2 language=fre",
            "-metadata:s:s:0 language=ger -metadata:s:s:1 language=eng -disposition:s:0 0",
        ],
    );
    std::fs::write(folder.join("film.it.srt"), "1\n00:00:05,000 --> 00:00:06,000\nit\n\n").unwrap();
    for name in ["plain.mkv", "text.de", "text.en"] {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    film
}

/// Records one audio rendition with the video; returns the times of flashes and beeps, seconds.
async fn record(url: String, audio: usize) -> (Vec<f64>, Vec<f64>) {
    tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recorded.mkv");
        let maps = format!("-map 0:v:0 -map 0:a:{audio} -c copy -copyts");
        let output = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-i", &url])
            .args(maps.split(' '))
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        media::flash_and_beep_times(&path, 25.0)
    })
    .await
    .unwrap()
}

fn assert_in_sync((flashes, beeps): &(Vec<f64>, Vec<f64>), expected: usize, what: &str) {
    assert_eq!((flashes.len(), beeps.len()), (expected, expected), "{what}: {flashes:?} {beeps:?}");
    for (flash, beep) in flashes.iter().zip(beeps) {
        assert!((flash - beep).abs() <= 0.02, "{what}: flash at {flash}, beep at {beep}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_language_is_a_rendition_in_sync_with_the_same_video() {
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": browser(false)});
    let session = start(&server, &options).await;
    let decision = &session["decision"];
    assert_eq!(
        (&decision["format"], &decision["video"], &decision["audio"]),
        (&json!("fmp4"), &json!("copy"), &json!("copy"))
    );
    let streams: Vec<(&str, &str, &Value)> = decision["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| (stream["codec"].as_str().unwrap(), stream["action"].as_str().unwrap(), &stream["reasons"]))
        .collect();
    let (none, codec) = (json!([]), json!(["AUDIO_CODEC_NOT_SUPPORTED"]));
    let expected =
        [("h264", "copy", &none), ("aac", "copy", &none), ("ac3", "encode", &codec), ("opus", "copy", &none)];
    assert_eq!(streams, expected);
    let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
    let (warnings, seconds) = play_to_end(url.clone()).await;
    assert_eq!(warnings, "");
    assert!((seconds - 12.0).abs() < 0.1, "{seconds}");
    for (audio, name) in ["copied AAC", "encoded AC-3", "copied Opus"].into_iter().enumerate() {
        assert_in_sync(&record(url.clone(), audio).await, 12, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_playlist_lists_languages_and_subtitles() {
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    let path = film.to_str().unwrap();
    let options = json!({
        "mediaPath": path, "capabilities": browser(true), "audioStreamIndex": 2, "subtitleStreamIndex": 5,
    });
    let session = start(&server, &options).await;
    let sidecar = folder.path().join("film.it.srt");
    let renditions = json!({
        "audio": [
            {"streamIndex": 2, "path": null, "name": "eng"},
            {"streamIndex": 1, "path": null, "name": "ger"},
            {"streamIndex": 3, "path": null, "name": "fre"},
        ],
        "subtitles": [
            {"streamIndex": 5, "path": null, "name": "eng"},
            {"streamIndex": 4, "path": null, "name": "ger"},
            {"streamIndex": null, "path": sidecar.to_str().unwrap(), "name": "film.it.srt"},
        ],
    });
    assert_eq!(session["renditions"], renditions);
    assert_eq!(session["decision"]["subtitle"], "webvtt");
    let text = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
    let playlist = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let variant = &playlist.variants[0];
    let codecs = variant.codecs.as_deref().unwrap();
    assert!(codecs.starts_with("avc1.") && codecs.ends_with(",mp4a.40.2,Opus"), "{text}");
    assert_eq!((playlist.variants.len(), variant.audio.as_deref()), (1, Some("audio")));
    let languages: Vec<_> =
        playlist.alternatives.iter().map(|it| (it.language.as_deref().unwrap(), it.default)).collect();
    let expected = [("en", true), ("de", false), ("fr", false), ("en", true), ("de", false), ("it", false)];
    assert_eq!(languages, expected, "{text}");
    for (asset, kind) in [
        ("v0-00000.m4s", "video/mp4"),
        ("a0-00001.m4s", "audio/mp4"),
        ("a1-00001.m4s", "audio/mp4"),
        ("s2-00000.vtt", "text/vtt; charset=utf-8"),
    ] {
        let answer = server.get(&format!("{}/{asset}", session_path(&session))).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap()),
            (200, kind),
            "{asset}"
        );
    }
    // One video serves all languages, and nothing else has its name.
    for asset in ["v0-00000.ts", "a3-00000.m4s", "a3.m3u8", "v1.m3u8", "s3.m3u8", "v0-0000000000000000.mp4"] {
        let answer = server.get(&format!("{}/{asset}", session_path(&session))).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{asset}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hevc_is_copied_for_a_client_that_decodes_it_and_encoded_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    let encoders =
        "-c:v libx265 -preset ultrafast -pix_fmt yuv420p10le -x265-params log-level=error:keyint=50 -c:a eac3";
    media::flash_and_beep(&film, 6, encoders);
    let server = kit::start_server(&[folder.path()]).await;
    for (hevc, action) in [(Some("hvc1.2.4.L153.B0"), "copy"), (None, "encode")] {
        let mut capabilities = browser(false);
        capabilities["codecs"].as_array_mut().unwrap().extend(hevc.map(Value::from));
        let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities});
        let session = start(&server, &options).await;
        assert_eq!(session["decision"]["format"], "fmp4");
        assert_eq!((&session["decision"]["video"], &session["decision"]["audio"]), (&json!(action), &json!("encode")));
        let text = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
        let codec = if action == "copy" { "CODECS=\"hvc1.2." } else { "CODECS=\"avc" };
        assert!(text.contains(codec), "{text}");
        let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
        assert_in_sync(&record(url, 0).await, 6, action);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn encoded_video_is_avc1_in_the_playlist_of_a_client_that_does_not_know_avc3() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    media::flash_and_beep(&film, 4, "-c:v mpeg2video -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    for (player, codec) in [("inputstream.adaptive", "avc1."), ("firefox", "avc3.")] {
        let options = json!({"mediaPath": film.to_str().unwrap(), "player": player});
        let session = start(&server, &options).await;
        assert_eq!(session["decision"]["video"], "encode", "{player}: {session}");
        let text = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
        assert!(text.contains(&format!("CODECS=\"{codec}")), "{player}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_break_on_renditions_get_a_list_they_play() {
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    for (player, format, audio, subtitles) in [
        ("vlc", "fmp4", 1, 0),
        ("mpv", "mpeg-ts", 0, 0),
        ("kodi", "mpeg-ts", 0, 0),
        ("inputstream.adaptive", "fmp4", 3, 3),
        ("unknown", "mpeg-ts", 0, 0),
    ] {
        let options = json!({"mediaPath": film.to_str().unwrap(), "player": player, "forceTranscode": true});
        let session = start(&server, &options).await;
        let count = |kind: &str| session["renditions"][kind].as_array().unwrap().len();
        let found = (session["decision"]["format"].as_str().unwrap(), count("audio"), count("subtitles"));
        assert_eq!(found, (format, audio, subtitles), "{player}: {session}");
        let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
        assert_in_sync(&record(url, 0).await, 12, player);
        let stop = server.request(Method::DELETE, &session_path(&session)).bearer_auth(&server.token);
        assert_eq!(stop.send().await.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adaptive_session_encodes_lower_rungs_beside_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    let encoders = "-c:v libx264 -preset ultrafast -b:v 6M -g 50 -pix_fmt yuv420p -c:a libopus";
    let sources =
        ["-f lavfi -i", "testsrc2=s=854x480:r=25:d=8,noise=alls=30:allf=t", "-f lavfi -i", "sine=r=48000:d=8"];
    media::run_ffmpeg(&film, &[&sources[..], &[encoders]].concat());
    let server = kit::start_server(&[folder.path()]).await;
    let options = json!({
        "mediaPath": film.to_str().unwrap(), "capabilities": browser(false), "profile": {"abr": true},
    });
    let session = start(&server, &options).await;
    let decision = &session["decision"];
    assert_eq!(
        (&decision["format"], &decision["video"], &decision["audio"]),
        (&json!("fmp4"), &json!("copy"), &json!("copy"))
    );
    let text = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
    let playlist = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    assert!(playlist.variants.len() >= 2, "{text}");
    for variant in &playlist.variants {
        let codecs = variant.codecs.as_deref().unwrap();
        assert!(codecs.starts_with("avc") && codecs.ends_with(",Opus"), "{text}");
        assert_eq!(variant.audio.as_deref(), Some("audio"));
        let url = format!("{}{}/{}", server.base, session_path(&session), variant.uri);
        let (warnings, seconds) = play_to_end(url).await;
        assert_eq!(warnings, "");
        assert!((seconds - 8.0).abs() < 0.1, "{}: {seconds}", variant.uri);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mp3_reaches_a_browser_in_mpegts() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    media::flash_and_beep(&film, 4, "-c:v libx264 -preset ultrafast -g 50 -c:a libmp3lame");
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "capabilities": browser(true)})).await;
    let decision = &session["decision"];
    assert_eq!(
        (&decision["format"], &decision["video"], &decision["audio"]),
        (&json!("mpeg-ts"), &json!("copy"), &json!("copy"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn audio_that_ends_early_continues_with_silence() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    let encoders = "-c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p -c:a aac -movflags +faststart";
    let sources = ["-f lavfi -i", "testsrc2=s=320x180:r=25:d=12", "-f lavfi -i", "sine=r=48000:d=3"];
    media::run_ffmpeg(&film, &[&sources[..], &[encoders]].concat());
    let server = kit::start_server(&[folder.path()]).await;
    let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": browser(false), "forceTranscode": true});
    let session = start(&server, &options).await;
    let audio = &session["decision"]["streams"][1];
    assert_eq!((&audio["action"], &audio["reasons"]), (&json!("encode"), &json!(["AUDIO_ENDS_EARLY"])));
    for segment in ["a0-00000.m4s", "a0-00005.m4s"] {
        let answer = server.get(&format!("{}/{segment}", session_path(&session))).send().await.unwrap();
        let bytes = answer.bytes().await.unwrap();
        assert!(bytes.windows(4).any(|four| four == b"mdat"), "{segment} has samples");
    }
}
