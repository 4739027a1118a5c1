//! Changes to a watched channel: the next programme is the one in the guide.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add_channel, entry_times_ms, get, send_as_admin};
use crate::kit::response::expect_success;
use crate::kit::{self, Server, media};

/// A film of one colour with an English and a German audio track.
fn make_film(folder: &Path, color: &str, seconds: u32) {
    let color_source = format!("color=c={color}:s=320x180:r=25:d={seconds}");
    let tone = |hertz: u32| format!("aevalsrc='0.3*sin(2*PI*{hertz}*t)|0.3*sin(2*PI*{hertz}*t)':s=48000:d={seconds}");
    let inputs = ["-f lavfi -i", &color_source, "-f lavfi -i", &tone(400), "-f lavfi -i", &tone(900)];
    let encode = "-map 0 -map 1 -map 2 -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu \
                  -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -c:a aac";
    media::run_ffmpeg(&folder.join(format!("{color}.mp4")), &[&inputs[..], &[encode]].concat());
}

/// The dominant colour of the first frame of a segment: red, green or blue.
fn dominant_color(segment: &[u8], folder: &Path) -> &'static str {
    let path = folder.join("segment.ts");
    std::fs::write(&path, segment).unwrap();
    let mut decode = Command::new("ffmpeg");
    decode.args(["-nostdin", "-v", "error", "-i"]).arg(&path);
    let output = decode.args("-frames:v 1 -vf scale=1:1 -pix_fmt rgb24 -f rawvideo -".split(' ')).output().unwrap();
    let strongest = (0..3).max_by_key(|&n| output.stdout[n]).unwrap();
    ["red", "green", "blue"][strongest]
}

/// When the next programme starts, in milliseconds since 1970, and its colour. It is at least 7 s away, so that a busy
/// machine can prepare it several times before it airs, and at most 10 s, so that its first segment may be fetched.
async fn next_programme(server: &Server, channel_id: &Value) -> (i64, &'static str) {
    loop {
        let guide = get(server, &format!("/api/livetv/epg?channelId={channel_id}")).await;
        let entries = guide["entries"].as_array().unwrap();
        let now_ms = Timestamp::now().as_millisecond();
        let next = entries.iter().find(|entry| entry_times_ms(entry).0 > now_ms).unwrap();
        let start_ms = entry_times_ms(next).0;
        let left = Duration::from_millis((start_ms - now_ms).cast_unsigned());
        if left >= Duration::from_secs(7) {
            return (start_ms, if next["title"] == "red" { "red" } else { "green" });
        }
        tokio::time::sleep(left).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_prepared_before_a_change_are_not_aired_after_it() {
    let (films, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (color, seconds) in [("red", 8), ("lime", 10), ("blue", 8)] {
        make_film(films.path(), color, seconds);
    }
    let server = kit::start_server(&[films.path()]).await;
    let item = |color: &str| json!({"path": films.path().join(format!("{color}.mp4"))});
    let body = json!({"name": "Edited", "scheduleMode": "sequential", "items": [item("red"), item("lime")]});
    let channel = add_channel(&server, &body).await;
    let id = &channel["id"];
    let watch = server.get(&format!("/api/livetv/watch/{id}?wait=15&watchSession=sofa")).send().await.unwrap();
    assert_eq!(watch.status(), 200);
    let (boundary, next_color) = next_programme(&server, id).await;
    // A segment may be fetched 10 s early; this prepares the next programme as for a viewer.
    let first_segment = async || {
        let target = format!("/api/livetv/watch/{id}/{boundary}-00000.ts");
        let answer = server.get(&target).send().await.unwrap();
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        assert_eq!(answer.status(), 200);
        (dominant_color(&answer.bytes().await.unwrap(), folder.path()), etag)
    };
    let (before, english) = first_segment().await;
    assert_eq!(before, next_color);

    // Another audio language takes effect with the next programme, too.
    let target = format!("{CHANNELS}/{id}");
    let language_change = json!({"languages": {"audio": ["de"]}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &language_change).await, 200).await;
    let (colour, german_etag) = first_segment().await;
    assert!(colour == next_color && german_etag != english, "{german_etag} is still the English segment");

    expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"items": [item("blue")]})).await, 200).await;
    let guide = get(&server, &format!("/api/livetv/epg?channelId={id}")).await;
    let next = guide["entries"].as_array().unwrap().iter().find(|entry| entry_times_ms(entry).0 == boundary).unwrap();
    assert_eq!(next["title"], "blue", "the guide has the new programme: {guide}");
    assert_eq!(first_segment().await.0, "blue");
}
