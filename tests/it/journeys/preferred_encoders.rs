//! Sessions encoded in HEVC and AV1 for clients that prefer them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearthcast::config::{Config, EncoderSetting};
use serde_json::{Value, json};

use super::sessions::{play_to_end, session_path, start};
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::{self, media, player};

fn make_film(folder: &Path) -> PathBuf {
    let film = folder.join("film.mkv");
    let (video, audio) = ("testsrc2=s=640x360:r=25:d=8", "sine=d=8:r=48000");
    let lavfi = "-f lavfi -i";
    media::run_ffmpeg(&film, &[lavfi, video, lavfi, audio, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -ac 2"]);
    film
}

/// Starts an adaptive session of a client that decodes HEVC up to 1080p, and AV1, and prefers these codecs.
async fn start_session(server: &kit::Server, film: &Path, encode: &[&str]) -> Value {
    let codecs = ["avc1.640033", "hvc1.1.6.L123.B0", "av01.0.08M.08", "mp4a.40.2"];
    let capabilities = json!({"codecs": codecs, "encode": encode, "audioRenditions": true, "textRenditions": true});
    let options = json!({
        "mediaPath": film.to_str().unwrap(), "capabilities": capabilities, "profile": {"abr": true},
    });
    start(server, &options).await
}

/// The codec strings of the rungs' video.
async fn rung_codecs(server: &kit::Server, session: &Value) -> Vec<String> {
    let answer = send_until_ready(server.get(&format!("{}/index.m3u8", session_path(session)))).await;
    let playlist = m3u8_rs::parse_master_playlist_res(&answer.bytes().await.unwrap()).unwrap();
    let rungs = playlist.variants.iter().filter(|variant| !variant.is_i_frame);
    let codecs = rungs.map(|variant| variant.codecs.clone().unwrap());
    codecs.map(|codecs| codecs.split(',').next().unwrap().to_owned()).collect()
}

fn with(hevc_encoder: EncoderSetting, av1_encoder: EncoderSetting) -> impl FnOnce(&mut Config) {
    move |config| {
        (config.hevc_encoder, config.av1_encoder) = (hevc_encoder, av1_encoder);
        config.limits.concurrent_jobs = 2;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_encoded_in_the_preferred_codec_that_is_on() {
    use EncoderSetting::{Off, On};
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    for (settings, codec, expected) in [
        ((On, On), "av1", ["av01.0.", "av01.0.04M.08"]),
        ((On, Off), "hevc", ["hvc1.1.6.L", "hvc1.1.6.L90."]),
        ((Off, Off), "h264", ["avc3.6400", "avc3.64001e"]),
    ] {
        let server = kit::start_server_with(&[folder.path()], with(settings.0, settings.1)).await;
        let session = start_session(&server, &film, &["av1", "hevc"]).await;
        let streams = &session["decision"]["streams"];
        assert_eq!((&streams[0]["encodedCodec"], &streams[1]["encodedCodec"]), (&json!(codec), &json!("aac")));
        let found = rung_codecs(&server, &session).await;
        let fits = found.len() == 2 && found.iter().zip(expected).all(|(found, start)| found.starts_with(start));
        assert!(fits, "{found:?}");
        let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
        let (warnings, seconds) = play_to_end(url).await;
        assert_eq!(warnings, "", "{codec}");
        assert!((seconds - 8.0).abs() < 0.1, "{codec}: {seconds}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_preference_get_h264() {
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    let on = EncoderSetting::On;
    let server = kit::start_server_with(&[folder.path()], with(on, on)).await;
    for (encode, expected) in [(&[][..], "h264"), (&["h264", "av1"], "h264"), (&["vp9", "hevc"], "hevc")] {
        let session = start_session(&server, &film, encode).await;
        assert_eq!(session["decision"]["streams"][0]["encodedCodec"], expected, "{encode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_auto_a_codec_is_used_if_its_encoder_is_fast_on_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    let server = kit::start_server_with(&[folder.path()], with(EncoderSetting::Off, EncoderSetting::Auto)).await;
    let codecs = async || {
        let answer = server.get("/api/stream/v2-workers").send().await.unwrap();
        expect_success(answer, 200).await["local"]["optionalCodecs"].take()
    };
    let before = &codecs().await[1];
    assert_eq!((&before["enabled"], &before["reason"]), (&json!(false), &json!("not measured yet")), "{before}");
    let service = server.service.clone();
    tokio::spawn(async move {
        service.local_encoders.measure_after_preference(|| service.renditions.active_jobs() == 0).await;
    });
    let session = start_session(&server, &film, &["av1", "hevc"]).await;
    assert_eq!(session["decision"]["streams"][0]["encodedCodec"], "h264", "until it is measured");
    player::stop(&server, &session).await;
    let mut after = before.clone();
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        after = codecs().await[1].take();
        if after["reason"] != before["reason"] {
            break;
        }
    }
    let session = start_session(&server, &film, &["av1", "hevc"]).await;
    assert!(after["reason"].as_str().unwrap().starts_with("libsvtav1 encodes 1080p"), "{after}");
    let expected = if after["enabled"] == true { "av1" } else { "h264" };
    assert_eq!(session["decision"]["streams"][0]["encodedCodec"], expected, "{after}");
}
