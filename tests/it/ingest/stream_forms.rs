//! Streams in all supported forms: each is watched as a viewer does, and decoded.

use std::path::{Path, PathBuf};

use super::hls_source::HlsSource;
use super::transport_stream_source::{self, FILM_SECONDS, TransportStreamSource};
use super::*;

use crate::kit::wait::MAX_WAIT;

/// Watches until the playlist has `min_segments` continuous segments from the source; stores them in one file.
pub async fn record_aired(server: &Server, id: &Value, folder: &Path, min_segments: usize) -> PathBuf {
    let mut last = None;
    wait_until("the source is on air for a while", async || {
        let list = fetch_playlist(server, id, "viewer").await;
        let continuous_count = list.segments.iter().rev().take_while(|(_, breaks)| !breaks).count();
        last = Some(list);
        let from_source = server.service.ingests.health(channel_id(id)).is_some_and(|report| report.shows_source);
        continuous_count >= min_segments && from_source
    })
    .await;
    let last = last.unwrap();
    let from = last.segments.iter().rposition(|(_, breaks)| *breaks).unwrap_or(0);
    let mut bytes = Vec::new();
    for (address, _) in &last.segments[from..] {
        bytes.extend(fetch_segment(server, address).await);
    }
    let path = folder.join("aired.ts");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn channel_id(id: &Value) -> u32 {
    id.as_u64().unwrap() as u32
}

/// Decodes an aired file and asserts that video and audio are complete and in sync.
pub async fn check_plays(path: &Path, min_seconds: f64) {
    let (_, seconds) = player::check_decodes_through(path, MAX_FRAME_GAP).await;
    assert!(seconds > min_seconds, "{seconds} s");
    let (flashes, beeps) = media::flash_and_beep_times(path, 25.0);
    assert!(
        flashes.len() as f64 > min_seconds - 2.0 && beeps.len() as f64 > min_seconds - 2.0,
        "{flashes:?} {beeps:?}"
    );
    for flash in &flashes {
        let offset = beeps.iter().map(|beep| (beep - flash).abs()).fold(f64::MAX, f64::min);
        assert!(offset < 0.15, "a flash at {flash} has no beep: {beeps:?}");
    }
    let kinds = media::stream_kinds(path);
    assert_eq!(kinds.values().map(String::as_str).collect::<Vec<_>>(), ["video", "audio"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_hls_playlist_is_followed() {
    tokio::join!(check_hls_source(false), check_hls_source(true));
}

async fn check_hls_source(is_fragmented: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (source, server) =
        (HlsSource::start(folder.path(), 180, is_fragmented).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": source.url()}), None).await;
    let path = record_aired(&server, &id, folder.path(), 6).await;
    check_plays(&path, 9.0).await;
    let report = media::ffprobe(&path, &["-show_streams"]);
    assert_eq!(report["streams"][0]["height"], 180, "{report}");
    assert_eq!(source.max_requests_per_segment(), 1, "each segment is fetched once");
    assert!(source.playlist_requests() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_format_change_within_a_connection_is_a_discontinuity() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    let codecs = "-c:v libx264 -preset ultrafast -g 25 -bf 2 -c:a aac -f mpegts";
    media::flash_and_beep(&folder.path().join("small.ts"), 3, codecs);
    media::flash_and_beep(&folder.path().join("large.ts"), 37, &format!("-s 480x270 {codecs} -output_ts_offset 3"));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    std::fs::write(&path, [read("small.ts"), read("large.ts")].concat()).unwrap();
    // Sent at twice the speed; what is aired still follows real time.
    let (source, server) = (TransportStreamSource::start(&path, 20).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": source.url()}), None).await;
    let height = async |address: &str| {
        let path = folder.path().join("one.ts");
        std::fs::write(&path, fetch_segment(&server, address).await).unwrap();
        media::ffprobe(&path, &["-show_streams"])["streams"][0]["height"].as_u64().unwrap()
    };
    let mut heights = Vec::new();
    wait_until("both sizes are listed", async || {
        heights.clear();
        for (address, breaks) in fetch_playlist(&server, &id, "viewer").await.segments {
            heights.push((height(&address).await, breaks));
        }
        heights.iter().any(|(height, _)| *height == 270)
    })
    .await;
    let small: Vec<_> = heights.iter().skip_while(|(height, _)| *height != 180).collect();
    let discontinuities: Vec<bool> =
        small.windows(2).filter(|pair| pair[0].0 != pair[1].0).map(|pair| pair[1].1).collect();
    assert_eq!((discontinuities, source.accepted_connections()), (vec![true], 1), "{heights:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_codecs_are_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    media::flash_and_beep(&path, 180, "-c:v mpeg2video -g 25 -b:v 1M -c:a mp2 -f mpegts");
    let (source, server) = (TransportStreamSource::start(&path, 180).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": source.url()}), None).await;
    let path = record_aired(&server, &id, folder.path(), 6).await;
    check_plays(&path, 9.0).await;
    let report = media::ffprobe(&path, &["-show_streams"]);
    let codec = |n: usize| report["streams"][n]["codec_name"].as_str().unwrap().to_owned();
    assert_eq!((codec(0), codec(1)), ("h264".to_owned(), "aac".to_owned()));
    assert_eq!(server.service.renditions.active_jobs(), 1, "the channel takes an encode slot");
    assert_eq!(source.accepted_connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn video_with_distant_keyframes_is_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    media::flash_and_beep(
        &path,
        180,
        "-c:v libx264 -preset ultrafast -g 500 -keyint_min 500 -sc_threshold 0 -c:a aac -f mpegts",
    );
    let (source, server) = (TransportStreamSource::start(&path, 180).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": source.url()}), None).await;
    check_plays(&record_aired(&server, &id, folder.path(), 6).await, 9.0).await;
    assert_eq!(source.accepted_connections(), 2, "one connection to probe, one to encode");
}

#[tokio::test(flavor = "multi_thread")]
async fn audio_only_is_a_channel_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    media::run_ffmpeg(&path, &["-f lavfi -i", "aevalsrc='0.5*sin(2*PI*440*t)':s=44100:d=180", "-c:a mp2 -f mpegts"]);
    let (source, server) = (TransportStreamSource::start(&path, 180).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": source.url()}), Some("My own music.")).await;
    let path = record_aired(&server, &id, folder.path(), 4).await;
    let decoded = player::decode(&path).await;
    assert!(decoded.audio_seconds() > 6.0, "{decoded:?}");
    // A still image replaces missing video, so the codecs in `lineup.json` are correct for every channel.
    assert!(decoded.video_seconds() > 6.0, "{decoded:?}");
    let request = json!({"name": "Tuner", "channelIds": null});
    let token = expect_success(server.post("/api/livetv/tokens", &request).send().await.unwrap(), 201).await;
    let target = format!("/hdhr/{}/lineup.json", token["secret"].as_str().unwrap());
    let lineup = expect_success(server.request(Method::GET, &target).send().await.unwrap(), 200).await;
    let report = media::ffprobe(&path, &["-show_streams"]);
    let codecs = [&report["streams"][0]["codec_name"], &report["streams"][1]["codec_name"]];
    assert_eq!(codecs, ["h264", "aac"], "{report}");
    assert_eq!([&lineup[0]["VideoCodec"], &lineup[0]["AudioCodec"]], ["H264", "AAC"], "{lineup}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tuner_receives_an_external_channel_that_can_be_kept_warm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let (source, server) = (TransportStreamSource::start(&path, FILM_SECONDS).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": source.url()}), Some("My own pictures.")).await;
    let warm_body = json!({"channelIds": [id], "ttlSeconds": 600});
    let warmed = expect_success(server.post("/api/livetv/warm", &warm_body).send().await.unwrap(), 202).await;
    assert_eq!((&warmed["accepted"], &warmed["channels"][0]["reason"]), (&json!(1), &Value::Null), "{warmed}");
    wait_until("the channel is warm without viewers", async || {
        let answer = server.request(Method::GET, &format!("{CHANNELS}/{id}")).bearer_auth(&server.admin).send().await;
        expect_success(answer.unwrap(), 200).await["channel"]["state"] == "warm" && source.open_connections() == 1
    })
    .await;

    let token_body = json!({"name": "Tuner", "channelIds": null});
    let token = expect_success(server.post("/api/livetv/tokens", &token_body).send().await.unwrap(), 201).await;
    let listed =
        expect_success(server.get(&format!("{CHANNELS}/{id}")).send().await.unwrap(), 200).await["channel"].clone();
    let target = format!("/hdhr/{}/auto/v{}", token["secret"].as_str().unwrap(), listed["number"]);
    let mut answer = server.request(Method::GET, &target).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (200, &"video/mp2t".parse().unwrap()));
    let (mut bytes, mut length) = (Vec::new(), 0.0);
    let received = folder.path().join("received.ts");
    while length < 12.0 {
        let chunk = tokio::time::timeout(MAX_WAIT, answer.chunk()).await.expect("the stream continues");
        bytes.extend(chunk.unwrap().expect("the stream has no end"));
        std::fs::write(&received, &bytes).unwrap();
        let times: Vec<f64> = media::packets(&received).iter().map(|packet| packet.pts as f64 / 90_000.0).collect();
        length = times.iter().copied().fold(0.0, f64::max) - times.iter().copied().fold(f64::MAX, f64::min);
    }
    assert!(player::decode(&received).await.video_seconds() > 8.0);
    assert_eq!(source.accepted_connections(), 1, "one connection for all");

    let change_channel = async |body: Value| {
        expect_success(send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &body).await, 200).await;
    };
    let basis = |basis: Value| json!({"rights": {"recordingBasis": basis}, "attestation": {"authorized": true}});
    change_channel(basis(Value::Null)).await;
    let drained = async { while let Ok(Some(_)) = answer.chunk().await {} };
    tokio::time::timeout(MAX_WAIT, drained).await.expect("the stream ends with the right to record");
    change_channel(basis(json!("My own pictures."))).await;
    let mut answer = server.request(Method::GET, &target).send().await.unwrap();
    assert_eq!(answer.status(), 200);

    let withdrawal = json!({"attestation": {"authorized": false}});
    expect_success(send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &withdrawal).await, 200).await;
    let drained = async { while let Ok(Some(_)) = answer.chunk().await {} };
    tokio::time::timeout(MAX_WAIT, drained).await.expect("the stream ends when the rights are withdrawn");
    expect_error(server.request(Method::GET, &target).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    let warmed = expect_success(server.post("/api/livetv/warm", &warm_body).send().await.unwrap(), 202).await;
    assert_eq!((&warmed["accepted"], &warmed["channels"][0]["reason"]), (&json!(0), &json!("disabled")), "{warmed}");
}
