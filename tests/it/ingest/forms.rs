//! Streams in all supported forms: each is watched as a viewer does, and decoded.

use std::path::{Path, PathBuf};

use super::antenna::{self, Antenna};
use super::headend::Headend;
use super::*;

/// Watches until the playlist has `least` continuous segments from the source; stores them in one file.
pub async fn aired(server: &Server, id: &Value, folder: &Path, least: usize) -> PathBuf {
    let mut last = None;
    until("the source is on air for a while", async || {
        let list = list(server, id, "viewer").await;
        let run = list.segments.iter().rev().take_while(|(_, breaks)| !breaks).count();
        last = Some(list);
        let from_source = server.service.ingests.health(number(id)).is_some_and(|report| report.shows_source);
        run >= least && from_source
    })
    .await;
    let last = last.unwrap();
    let from = last.segments.iter().rposition(|(_, breaks)| *breaks).unwrap_or(0);
    let mut bytes = Vec::new();
    for (address, _) in &last.segments[from..] {
        bytes.extend(segment(server, address).await);
    }
    let path = folder.join("aired.ts");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn number(id: &Value) -> u32 {
    id.as_u64().unwrap() as u32
}

/// Decodes an aired file and asserts that video and audio are complete and in sync.
pub async fn plays(aired: &Path, least: f64) {
    let (_, seconds) = play::decodes_through(aired, HOLE).await;
    assert!(seconds > least, "{seconds} s");
    let (flashes, beeps) = film::flashes_and_beeps(aired, 25.0);
    assert!(flashes.len() as f64 > least - 2.0 && beeps.len() as f64 > least - 2.0, "{flashes:?} {beeps:?}");
    for flash in &flashes {
        let apart = beeps.iter().map(|beep| (beep - flash).abs()).fold(f64::MAX, f64::min);
        assert!(apart < 0.15, "a flash at {flash} has no beep: {beeps:?}");
    }
    let kinds = film::kinds(aired);
    assert_eq!(kinds.values().map(String::as_str).collect::<Vec<_>>(), ["video", "audio"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playlist_elsewhere_is_followed() {
    for fragmented in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (headend, server) = (Headend::of(folder.path(), 180, fragmented).await, server(folder.path()).await);
        let id = channel(&server, json!({"url": headend.url()}), None).await;
        let path = aired(&server, &id, folder.path(), 6).await;
        plays(&path, 9.0).await;
        let seen = film::ffprobe(&path, &["-show_streams"]);
        assert_eq!(seen["streams"][0]["height"], 180, "{seen}");
        assert_eq!(headend.most_of_one(), 1, "each segment is fetched once");
        assert!(headend.playlists() > 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn players_are_told_when_the_video_changes_within_one_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    let codecs = "-c:v libx264 -preset ultrafast -g 25 -bf 2 -c:a aac -f mpegts";
    film::flash_and_beep(&folder.path().join("small.ts"), 3, codecs);
    film::flash_and_beep(&folder.path().join("large.ts"), 8, &format!("-s 480x270 {codecs} -output_ts_offset 3"));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    std::fs::write(&path, [read("small.ts"), read("large.ts")].concat()).unwrap();
    // Sent at twice the speed; what is aired still follows real time.
    let (antenna, server) = (Antenna::of(&path, 5).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), None).await;
    let height = async |address: &str| {
        let path = folder.path().join("one.ts");
        std::fs::write(&path, segment(&server, address).await).unwrap();
        film::ffprobe(&path, &["-show_streams"])["streams"][0]["height"].as_u64().unwrap()
    };
    let mut seen = Vec::new();
    until("both sizes are listed", async || {
        seen.clear();
        for (address, breaks) in list(&server, &id, "viewer").await.segments {
            seen.push((height(&address).await, breaks));
        }
        seen.iter().any(|(height, _)| *height == 270)
    })
    .await;
    let small: Vec<_> = seen.iter().skip_while(|(height, _)| *height != 180).collect();
    let told: Vec<bool> = small.windows(2).filter(|pair| pair[0].0 != pair[1].0).map(|pair| pair[1].1).collect();
    assert_eq!((told, antenna.made()), (vec![true], 1), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_browser_plays_is_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    film::flash_and_beep(&path, 180, "-c:v mpeg2video -g 25 -b:v 1M -c:a mp2 -f mpegts");
    let (antenna, server) = (Antenna::of(&path, 180).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), None).await;
    let path = aired(&server, &id, folder.path(), 6).await;
    plays(&path, 9.0).await;
    let seen = film::ffprobe(&path, &["-show_streams"]);
    let codec = |n: usize| seen["streams"][n]["codec_name"].as_str().unwrap().to_owned();
    assert_eq!((codec(0), codec(1)), ("h264".to_owned(), "aac".to_owned()));
    assert_eq!(server.service.sessions.active_jobs(), 1, "the channel takes an encode slot");
    assert_eq!(antenna.made(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keyframes_far_apart_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    film::flash_and_beep(
        &path,
        180,
        "-c:v libx264 -preset ultrafast -g 500 -keyint_min 500 -sc_threshold 0 -c:a aac -f mpegts",
    );
    let (antenna, server) = (Antenna::of(&path, 180).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), None).await;
    plays(&aired(&server, &id, folder.path(), 6).await, 9.0).await;
    assert_eq!(antenna.made(), 2, "one connection to probe, one to encode");
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_alone_is_a_channel_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    film::make(&path, &["-f lavfi -i", "aevalsrc='0.5*sin(2*PI*440*t)':s=44100:d=180", "-c:a mp2 -f mpegts"]);
    let (antenna, server) = (Antenna::of(&path, 180).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), Some("My own music.")).await;
    let path = aired(&server, &id, folder.path(), 4).await;
    let decoded = play::decode(&path).await;
    assert!(decoded.audio_seconds() > 6.0, "{decoded:?}");
    // A still image replaces missing video, so the codecs in `lineup.json` are correct for every channel.
    assert!(decoded.video_seconds() > 6.0, "{decoded:?}");
    let request = json!({"name": "Tuner", "channelIds": null});
    let made = success(server.post("/api/livetv/tokens", &request).send().await.unwrap(), 201).await;
    let target = format!("/hdhr/{}/lineup.json", made["secret"].as_str().unwrap());
    let lineup = success(server.ask(Method::GET, &target).send().await.unwrap(), 200).await;
    let seen = film::ffprobe(&path, &["-show_streams"]);
    let codecs = [&seen["streams"][0]["codec_name"], &seen["streams"][1]["codec_name"]];
    assert_eq!(codecs, ["h264", "aac"], "{seen}");
    assert_eq!([&lineup[0]["VideoCodec"], &lineup[0]["AudioCodec"]], ["H264", "AAC"], "{lineup}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tuner_receives_a_channel_from_elsewhere_and_it_can_be_kept_warm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    antenna::film(&path, 180);
    let (antenna, server) = (Antenna::of(&path, 180).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), Some("My own pictures.")).await;
    let warm = json!({"channelIds": [id], "ttlSeconds": 600});
    let made = success(server.post("/api/livetv/warm", &warm).send().await.unwrap(), 202).await;
    assert_eq!((&made["accepted"], &made["channels"][0]["reason"]), (&json!(1), &Value::Null), "{made}");
    until("the channel is warm without viewers", async || {
        let answer = server.ask(Method::GET, &format!("{CHANNELS}/{id}")).bearer_auth(&server.admin).send().await;
        success(answer.unwrap(), 200).await["channel"]["state"] == "warm" && antenna.open() == 1
    })
    .await;

    let asked = json!({"name": "Tuner", "channelIds": null});
    let made = success(server.post("/api/livetv/tokens", &asked).send().await.unwrap(), 201).await;
    let number = success(server.get(&format!("{CHANNELS}/{id}")).send().await.unwrap(), 200).await["channel"].clone();
    let target = format!("/hdhr/{}/auto/v{}", made["secret"].as_str().unwrap(), number["number"]);
    let mut answer = server.ask(Method::GET, &target).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (200, &"video/mp2t".parse().unwrap()));
    let (mut bytes, mut length) = (Vec::new(), 0.0);
    let received = folder.path().join("received.ts");
    while length < 12.0 {
        let piece = tokio::time::timeout(Duration::from_secs(30), answer.chunk()).await.expect("the stream continues");
        bytes.extend(piece.unwrap().expect("the stream has no end"));
        std::fs::write(&received, &bytes).unwrap();
        length = film::packets(&received).iter().map(|packet| packet.pts as f64 / 90_000.0).fold(0.0, f64::max)
            - film::packets(&received).iter().map(|packet| packet.pts as f64 / 90_000.0).fold(f64::MAX, f64::min);
    }
    assert!(play::decode(&received).await.video_seconds() > 8.0);
    assert_eq!(antenna.made(), 1, "one connection for all");

    let patch = async |body: Value| {
        success(send(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &body).await, 200).await;
    };
    let basis = |basis: Value| json!({"rights": {"recordingBasis": basis}, "attestation": {"authorized": true}});
    patch(basis(Value::Null)).await;
    let ended = async { while let Ok(Some(_)) = answer.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the stream ends with the right to record");
    patch(basis(json!("My own pictures."))).await;
    let mut answer = server.ask(Method::GET, &target).send().await.unwrap();
    assert_eq!(answer.status(), 200);

    let no = json!({"attestation": {"authorized": false}});
    success(send(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &no).await, 200).await;
    let ended = async { while let Ok(Some(_)) = answer.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the stream ends when the rights are withdrawn");
    refused(server.ask(Method::GET, &target).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    let made = success(server.post("/api/livetv/warm", &warm).send().await.unwrap(), 202).await;
    assert_eq!((&made["accepted"], &made["channels"][0]["reason"]), (&json!(0), &json!("disabled")), "{made}");
}
