//! A player that may lack a decoder of the copied audio chooses between two groups, beside the same video.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::sessions::{session_path, start};
use crate::kit::{self, Server, media};

/// The film begins 21 ms after 0, with the delay of its AAC encoder, so its frames move on the grid of encoded video.
const FRAME_SECONDS: f64 = 0.04;

/// A film of 8 s with MPEG-2 video, which Apple does not play, and AC-3 5.1 (English) and AAC (German).
fn make_film(folder: &Path) -> PathBuf {
    let (plain, film) = (folder.join("plain.mkv"), folder.join("film.mkv"));
    media::flash_and_beep(&plain, 8, "-c:v mpeg2video -b:v 2M -g 12 -pix_fmt yuv420p -c:a pcm_s16le");
    let input = format!("-i {}", plain.display());
    let maps = "-map 0:v -map 0:a -map 0:a -c:v copy -c:a:0 ac3 -b:a:0 448k -ac:a:0 6 -c:a:1 aac";
    media::run_ffmpeg(&film, &[&input, maps, "-metadata:s:a:0 language=eng -metadata:s:a:1 language=ger"]);
    std::fs::remove_file(plain).unwrap();
    film
}

/// Records the video and all audio of a variant, which is a program for ffmpeg.
async fn record(url: String, variant: usize, path: PathBuf) {
    let args = format!("-map 0:p:{variant}:v -map 0:p:{variant}:a -c copy -copyts");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i", &url]).args(args.split(' ')).arg(path);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Codec and channels of each stream of a file.
fn streams_of(path: &Path) -> Vec<(String, Option<u64>)> {
    let report = media::ffprobe(path, &["-show_streams"]);
    let streams = report["streams"].as_array().unwrap().iter();
    streams.map(|stream| (stream["codec_name"].as_str().unwrap().to_owned(), stream["channels"].as_u64())).collect()
}

/// Runs of both backends so far.
async fn run_count(server: &Server) -> f64 {
    let metrics = server.client.get(format!("{}/metrics", server.base)).bearer_auth(&server.admin);
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    let runs = ["ffmpeg", "gstreamer"].map(|name| format!("hearthcast_runs_started_total{{backend=\"{name}\"}} "));
    let counts = metrics.lines().filter_map(|line| runs.iter().find_map(|run| line.strip_prefix(run)));
    counts.map(|count| count.parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn apple_chooses_between_surround_as_it_is_and_stereo_aac() {
    let folder = tempfile::tempdir().unwrap();
    let film = make_film(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "player": "AVPlayer"})).await;
    let decision = &session["decision"];
    assert_eq!((&decision["format"], &decision["audio"]), (&json!("fmp4"), &json!("copy")));
    let streams = decision["streams"].as_array().unwrap().iter();
    let found: Vec<[&Value; 3]> = streams.map(|it| [&it["action"], &it["channels"], &it["aacChannels"]]).collect();
    let expected = json!([["encode", null, null], ["copy", 6, 2], ["copy", 2, null]]);
    assert_eq!(json!(found), expected);
    assert_eq!(session["renditions"]["audio"].as_array().unwrap().len(), 2, "each track once");

    let get = async |name: &str| {
        let answer = server.get(&format!("{}/{name}", session_path(&session))).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{name}");
        answer.bytes().await.unwrap()
    };
    let text = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap().text().await.unwrap();
    let playlist = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let (iframes, variants): (Vec<_>, Vec<_>) = playlist.variants.iter().partition(|variant| variant.is_i_frame);
    let [aac, own] = variants[..] else { panic!("{text}") };
    assert_eq!(iframes.len(), 1, "Apple's players show pictures while they seek");
    assert_eq!((aac.audio.as_deref(), own.audio.as_deref()), (Some("aac"), Some("audio")));
    let codecs = [aac, own].map(|variant| variant.codecs.as_deref().unwrap().split_once(',').unwrap());
    assert_eq!(codecs.map(|(_, audio)| audio), ["mp4a.40.2", "ac-3,mp4a.40.2"], "{text}");
    assert_eq!((codecs[0].0, &aac.uri), (codecs[1].0, &own.uri), "the same video");
    let average = |variant: &m3u8_rs::VariantStream| variant.average_bandwidth.unwrap();
    assert_eq!(average(own) - average(aac), 448_000 - 160_000, "{text}");
    assert!(own.bandwidth > aac.bandwidth, "{text}");
    let names = |group: &str| -> Vec<_> {
        let members = playlist.alternatives.iter().filter(move |it| it.group_id == group);
        members.map(|it| (it.name.clone(), it.language.clone(), it.default)).collect()
    };
    assert_eq!((names("aac").len(), names("aac")), (2, names("audio")), "{text}");

    // A change of the group within the film: the AAC is made from there, and the video is not touched.
    let video_list = async || {
        let text = String::from_utf8(get("v0.m3u8").await.to_vec()).unwrap();
        text.lines().map(|line| line.split('?').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = (video_list().await, get("v0-00000.m4s").await);
    get("a0-00000.m4s").await;
    let video_runs = run_count(&server).await;
    get("a2.m3u8").await;
    get("a2-00001.m4s").await;
    get("v0-00001.m4s").await;
    assert_eq!(run_count(&server).await, video_runs + 1.0, "one run of AAC");
    assert_eq!((video_list().await, get("v0-00000.m4s").await), before);

    let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
    let mut videos = Vec::new();
    for (variant, codec, channels) in [(0, "aac", 2), (1, "ac3", 6)] {
        let path = folder.path().join(format!("{codec}.mkv"));
        record(url.clone(), variant, path.clone()).await;
        let expected = [("h264", None), (codec, Some(channels)), ("aac", Some(2))];
        assert_eq!(streams_of(&path), expected.map(|(codec, channels)| (codec.to_owned(), channels)));
        let (flashes, beeps) = media::flash_and_beep_times(&path, 25.0);
        assert_eq!((flashes.len(), beeps.len()), (8, 8), "{codec}");
        let is_in_sync = |(flash, beep): (&f64, &f64)| (flash - beep).abs() < FRAME_SECONDS;
        assert!(flashes.iter().zip(&beeps).all(is_in_sync), "{codec}: {flashes:?} {beeps:?}");
        videos.extend(media::convert(&[&path], ["-map {n}:v -c copy -f framemd5"]).concat());
    }
    assert!(videos[0].iter().filter(|byte| **byte == b'\n').count() > 200, "a line for each frame");
    assert_eq!(videos[0], videos[1]);
    assert_eq!(run_count(&server).await, video_runs + 1.0, "nothing was made twice");
}
