//! Changes to a watched channel: the next programme is the one in the guide.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;

use super::{CHANNELS, add, get, send, span};
use crate::kit::answer::success;
use crate::kit::{self, film};

/// A film of one colour with an English and a German audio track.
fn film(folder: &Path, color: &str, seconds: u32) {
    let picture = format!("color=c={color}:s=320x180:r=25:d={seconds}");
    let sound = |hertz: u32| format!("aevalsrc='0.3*sin(2*PI*{hertz}*t)|0.3*sin(2*PI*{hertz}*t)':s=48000:d={seconds}");
    let inputs = ["-f lavfi -i", &picture, "-f lavfi -i", &sound(400), "-f lavfi -i", &sound(900)];
    let encode = "-map 0 -map 1 -map 2 -metadata:s:a:0 language=eng -metadata:s:a:1 language=deu \
                  -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -c:a aac";
    film::make(&folder.join(format!("{color}.mp4")), &[&inputs[..], &[encode]].concat());
}

/// The dominant colour of the first frame of a segment: red, green or blue.
fn color(segment: &[u8], folder: &Path) -> &'static str {
    let path = folder.join("segment.ts");
    std::fs::write(&path, segment).unwrap();
    let mut decode = Command::new("ffmpeg");
    decode.args(["-nostdin", "-v", "error", "-i"]).arg(&path);
    let decoded = decode.args("-frames:v 1 -vf scale=1:1 -pix_fmt rgb24 -f rawvideo -".split(' ')).output().unwrap();
    let strongest = (0..3).max_by_key(|&n| decoded.stdout[n]).unwrap();
    ["red", "green", "blue"][strongest]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_prepared_before_an_edit_is_not_aired_after_it() {
    let (films, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (color, seconds) in [("red", 8), ("lime", 10), ("blue", 8)] {
        film(films.path(), color, seconds);
    }
    let server = kit::server(&[films.path()]).await;
    let item = |color: &str| json!({"path": films.path().join(format!("{color}.mp4"))});
    // The second of two programmes is on, and ends in about 8 s.
    let start = (Timestamp::now() - Duration::from_secs(10)).to_string();
    let body = json!({"name": "Edited", "scheduleMode": "sequential", "startAt": start,
        "items": [item("red"), item("lime")]});
    let channel = add(&server, &body).await;
    let id = &channel["id"];
    let watch = server.get(&format!("/api/livetv/watch/{id}?wait=15&watchSession=sofa")).send().await.unwrap();
    assert_eq!(watch.status(), 200);
    let on = get(&server, &format!("/api/livetv/epg?channelId={id}")).await;
    let now_ms = Timestamp::now().as_millisecond();
    let on = on["entries"].as_array().unwrap().iter().find(|entry| span(entry).1 > now_ms).unwrap();
    let boundary = span(on).1;
    // A segment may be fetched 10 s early; this prepares the next programme as for a viewer.
    let first = async || {
        let target = format!("/api/livetv/watch/{id}/{boundary}-00000.ts");
        let answer = server.get(&target).send().await.unwrap();
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        assert_eq!(answer.status(), 200);
        (color(&answer.bytes().await.unwrap(), folder.path()), etag)
    };
    let (before, english) = first().await;
    assert_eq!(before, "red");

    // Another audio language takes effect with the next programme, too.
    let target = format!("{CHANNELS}/{id}");
    let german = json!({"languages": {"audio": ["de"]}});
    success(send(&server, Method::PATCH, &target, &german).await, 200).await;
    let (same, other) = first().await;
    assert!(same == "red" && other != english, "{other} is still the English segment");

    success(send(&server, Method::PATCH, &target, &json!({"items": [item("blue")]})).await, 200).await;
    let guide = get(&server, &format!("/api/livetv/epg?channelId={id}")).await;
    let next = guide["entries"].as_array().unwrap().iter().find(|entry| span(entry).0 == boundary).unwrap();
    assert_eq!(next["title"], "blue", "the guide has the new programme: {guide}");
    assert_eq!(first().await.0, "blue");
}
