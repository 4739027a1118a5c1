//! Surround that must be encoded: 5.1 AAC for clients that take it, stereo for the others.

use std::path::Path;

use hearthcast::config::BackendSetting;
use serde_json::{Value, json};

use super::sessions::{play_to_end, start};
use crate::kit::player::stop;
use crate::kit::tones::{self, SAMPLE_RATE, decode_channels, tone_decibels};
use crate::kit::{self, Server, media};

/// The speakers of 5.1 AAC as ffmpeg decodes it, by the side channels that they play.
const OUTPUT: [&str; 6] = ["FL", "FR", "FC", "LFE", "SL", "SR"];

/// The tones are 12 dB below full scale.
const TONE_DECIBELS: f64 = -12.0;

/// Writes a film of 8 s whose tracks have these encoders and layouts, with one tone in each channel.
fn make_film(path: &Path, tracks: &[(&str, &str)]) {
    let sources: Vec<String> = tracks.iter().map(|(_, layout)| tones::source_filter(layout, 8)).collect();
    let numbers = 0..tracks.len();
    let maps: String = numbers.clone().map(|track| format!("-map {}:a ", track + 1)).collect();
    let encoders: String = numbers.map(|track| format!("-c:a:{track} {} ", tracks[track].0)).collect();
    let mut args = vec!["-f lavfi -i", "testsrc2=s=320x180:r=25:d=8"];
    sources.iter().for_each(|source| args.extend(["-f lavfi -i", source]));
    let video = "-map 0:v -c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p -strict -2";
    args.extend([video, &maps, &encoders]);
    media::run_ffmpeg(path, &args);
}

fn playlist_url(server: &Server, session: &Value) -> String {
    format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())
}

/// The channels of each stream of a session as it is sent.
fn sent_channels(session: &Value) -> Vec<Value> {
    let streams = session["decision"]["streams"].as_array().unwrap();
    streams.iter().map(|stream| stream["channels"].clone()).collect()
}

/// Asserts that each channel of the first audio stream of a playlist has its tone alone.
async fn assert_own_tones(url: String, name: &str) {
    let probe = |url: String| move || media::ffprobe(Path::new(&url), &["-select_streams", "a:0", "-show_streams"]);
    let report = tokio::task::spawn_blocking(probe(url.clone())).await.unwrap();
    assert_eq!((&report["streams"][0]["channels"], &report["streams"][0]["codec_name"]), (&json!(6), &json!("aac")));
    let decode = move || decode_channels(&[Path::new(&url)], 6).swap_remove(0);
    let channels = tokio::task::spawn_blocking(decode).await.unwrap();
    assert!(channels[0].len() > 7 * SAMPLE_RATE, "{name}: {} samples", channels[0].len());
    for (channel, speaker) in channels.iter().zip(OUTPUT) {
        let second = &channel[2 * SAMPLE_RATE..3 * SAMPLE_RATE];
        for other in OUTPUT {
            let level = tone_decibels(second, tones::hertz_of(other));
            let is_right = if other == speaker { (level - TONE_DECIBELS).abs() < 1.0 } else { level < -45.0 };
            assert!(is_right, "{name}: the tone of {other} has {level:.1} dB in {speaker}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_channel_of_surround_reaches_its_speaker_with_both_backends() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    make_film(&film, &[("ac3 -b:a:0 192k", "stereo"), ("ac3 -b:a:1 640k", "5.1(side)")]);
    for (name, backend) in [("ffmpeg", BackendSetting::Ffmpeg), ("gstreamer", BackendSetting::Gstreamer)] {
        let server = kit::start_server_with(&[folder.path()], |config| config.backend = backend).await;
        let capabilities = json!({"codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true, "aacChannels": 6});
        let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities});
        let session = start(&server, &options).await;
        assert_eq!(session["decision"]["format"], "fmp4");
        assert_eq!(sent_channels(&session), [Value::Null, json!(2), json!(6)], "{name}: each track has its own number");
        let text = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
        let tags: Vec<&str> = text.lines().filter(|line| line.contains("TYPE=AUDIO")).collect();
        assert!(tags[0].contains("CHANNELS=\"2\"") && tags[1].contains("CHANNELS=\"6\""), "{text}");
        let url = playlist_url(&server, &session);
        let surround = url.replace("index.m3u8", "a1.m3u8");
        assert_own_tones(surround, name).await;
        let (warnings, seconds) = play_to_end(url).await;
        assert_eq!(warnings, "", "{name}");
        assert!((seconds - 8.0).abs() < 0.1, "{name}: {seconds}");
        let metrics = server.client.get(format!("{}/metrics", server.base)).bearer_auth(&server.admin);
        let metrics = metrics.send().await.unwrap().text().await.unwrap();
        for backend in ["ffmpeg", "gstreamer"] {
            let is_used = metrics.contains(&format!("hearthcast_runs_started_total{{backend=\"{backend}\"}}"));
            assert_eq!(is_used, backend == name, "{metrics}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn software_players_get_surround_in_transport_streams_and_others_stereo() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    make_film(&film, &[("truehd", "5.1(side)")]);
    let server = kit::start_server(&[folder.path()]).await;
    for (player, limit, channels) in
        [("mpv", None, 6), ("mpv", Some(2), 2), ("roku", None, 2), ("exoplayer", None, 2), ("exoplayer", Some(6), 6)]
    {
        let mut options = json!({"mediaPath": film.to_str().unwrap(), "player": player, "forceTranscode": true});
        options["profile"] = json!({"maxAudioChannels": limit});
        let session = start(&server, &options).await;
        assert_eq!(session["decision"]["format"], "mpeg-ts");
        assert_eq!(sent_channels(&session), [Value::Null, json!(channels)], "{player} {limit:?}");
        if channels == 6 {
            assert_own_tones(playlist_url(&server, &session), player).await;
        }
        stop(&server, &session).await;
    }
}
