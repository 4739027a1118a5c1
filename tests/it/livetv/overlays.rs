//! Video overlays of a channel: watermark and burned-in subtitles; and the image of its slate.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::output::record_aired;
use super::{CHANNELS, add_channel, expect_refused_field, send_as_admin};
use crate::kit::{self, media};

const FRAME_SIZE: (usize, usize) = (640, 360);

/// The colour of one point of the first frame, as red, green and blue.
fn colour_at(path: &Path, (x, y): (f64, f64)) -> [u8; 3] {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    let output = command.args("-frames:v 1 -pix_fmt rgb24 -f rawvideo -".split(' ')).output().unwrap();
    assert_eq!(output.stdout.len(), FRAME_SIZE.0 * FRAME_SIZE.1 * 3);
    let offset = ((y * FRAME_SIZE.1 as f64) as usize * FRAME_SIZE.0 + (x * FRAME_SIZE.0 as f64) as usize) * 3;
    output.stdout[offset..offset + 3].try_into().unwrap()
}

/// Whether every component of a colour is close to the expected one.
fn is_near(found: [u8; 3], expected: [u8; 3]) -> bool {
    found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) < 24)
}

const BLUE: [u8; 3] = [0, 0, 254];
const RED: [u8; 3] = [254, 0, 0];

fn make_image(path: &Path, colour: &str, size: &str) {
    media::run_ffmpeg(path, &["-f lavfi -i", &format!("color=c={colour}:s={size},format=rgb24"), "-frames:v 1"]);
}

/// A blue film of twenty seconds that could be copied.
fn make_blue_film(path: &Path, extra_args: &[&str]) {
    let args = ["-f lavfi -i", "color=c=blue:s=640x360:r=25:d=20"];
    let encoder_args = ["-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50"];
    media::run_ffmpeg(path, &[&args[..], extra_args, &encoder_args[..]].concat());
}

fn channel_body(path: &Path, seconds: u64) -> Value {
    let start = (Timestamp::now() - Duration::from_secs(seconds)).to_string();
    json!({"name": "Drawn", "scheduleMode": "sequential", "startAt": start, "items": [{"path": path}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_covers_its_corner_only() {
    let folder = tempfile::tempdir().unwrap();
    let (path, red) = (folder.path().join("a.mp4"), folder.path().join("red.png"));
    make_blue_film(&path, &[]);
    make_image(&red, "red", "40x20");
    let server = kit::start_server(&[folder.path()]).await;
    let mut body = channel_body(&path, 60);
    body["watermark"] = json!({"imageUrl": red, "opacity": 100, "widthPercent": 10});
    let channel = add_channel(&server, &body).await;
    let stored = json!({"imageUrl": red, "position": "bottom-right", "opacity": 100, "widthPercent": 10});
    assert_eq!(channel["watermark"], stored, "admins read it back");
    let output = folder.path().join("seen.ts");
    record_aired(&server, &channel, (4, 8), &output).await;
    // A tenth of the width, half as high as wide, 3 % from the edges.
    for inside_point in [(0.95, 0.95), (0.88, 0.95), (0.95, 0.90)] {
        assert!(
            is_near(colour_at(&output, inside_point), RED),
            "{inside_point:?}: {:?}",
            colour_at(&output, inside_point)
        );
    }
    for outside_point in [(0.99, 0.99), (0.85, 0.95), (0.95, 0.85), (0.05, 0.05), (0.05, 0.95), (0.5, 0.5)] {
        assert!(
            is_near(colour_at(&output, outside_point), BLUE),
            "{outside_point:?}: {:?}",
            colour_at(&output, outside_point)
        );
    }
    // Half as opaque in another corner: this is another rendition, so it is encoded again.
    let target = format!("{CHANNELS}/{}", channel["id"]);
    body["name"] = json!("Faint");
    body["watermark"] = json!({"imageUrl": red, "opacity": 50, "widthPercent": 10, "position": "top-left"});
    let faint = add_channel(&server, &body).await;
    record_aired(&server, &faint, (4, 8), &output).await;
    assert!(is_near(colour_at(&output, (0.05, 0.05)), [127, 0, 127]), "{:?}", colour_at(&output, (0.05, 0.05)));
    assert!(is_near(colour_at(&output, (0.95, 0.95)), BLUE));
    // Only images of the library, checked before they are decoded.
    let text = folder.path().join("text.png");
    std::fs::write(&text, "no picture").unwrap();
    for url in [text.to_str().unwrap(), path.to_str().unwrap(), "http://127.0.0.1/a.png", "/etc/passwd"] {
        let change = json!({"watermark": {"imageUrl": url}});
        expect_refused_field(&server, Method::PATCH, &target, &change, "watermark.imageUrl").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subtitles_are_burned_in_in_the_requested_language() {
    let folder = tempfile::tempdir().unwrap();
    let (path, subtitles) = (folder.path().join("a.mkv"), folder.path().join("a.srt"));
    std::fs::write(&subtitles, "1\n00:00:00,000 --> 00:00:20,000\nWWWWWWWWWWWWWWWWWWWWWWWW\n").unwrap();
    make_blue_film(&path, &["-i", subtitles.to_str().unwrap(), "-c:s srt -metadata:s:s:0 language=ger"]);
    std::fs::remove_file(&subtitles).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let (plain, burned_in) = (folder.path().join("plain.ts"), folder.path().join("burned-in.ts"));
    for (languages, path) in [(json!(["fre"]), &plain), (json!(["fre", "de"]), &burned_in)] {
        let mut body = channel_body(&folder.path().join("a.mkv"), 60);
        body["name"] = json!(languages.to_string());
        body["languages"] = json!({"subtitles": languages});
        let channel = add_channel(&server, &body).await;
        record_aired(&server, &channel, (4, 8), path).await;
    }
    let psnr = media::worst_psnr_decibels(&plain, &burned_in);
    assert!(psnr < 30.0, "one of them has subtitles: {psnr} dB");

    // The same text in a sidecar file of a film without subtitles, which could be copied.
    let (bare_film, with_sidecar) = (folder.path().join("b.mp4"), folder.path().join("beside.ts"));
    make_blue_film(&bare_film, &[]);
    std::fs::write(folder.path().join("b.de.srt"), "1\n00:00:00,000 --> 00:00:20,000\nWWWWWWWWWWWWWWWWWWWWWWWW\n")
        .unwrap();
    let mut body = channel_body(&bare_film, 60);
    body["languages"] = json!({"subtitles": ["ger"]});
    let channel = add_channel(&server, &body).await;
    record_aired(&server, &channel, (4, 8), &with_sidecar).await;
    let (psnr_plain, psnr_burned_in) =
        (media::worst_psnr_decibels(&plain, &with_sidecar), media::worst_psnr_decibels(&burned_in, &with_sidecar));
    assert!(
        psnr_plain < 30.0 && psnr_burned_in > 30.0,
        "{psnr_plain} dB compared with no subtitles, {psnr_burned_in} dB with embedded ones"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slate_shows_the_configured_image() {
    let folder = tempfile::tempdir().unwrap();
    let (path, red) = (folder.path().join("a.mp4"), folder.path().join("red.jpg"));
    make_blue_film(&path, &[]);
    make_image(&red, "red", "320x320");
    let server = kit::start_server(&[folder.path()]).await;
    let mut body = channel_body(&path, 19);
    body["offline"] = json!({"imageUrl": red});
    let channel = add_channel(&server, &body).await;
    std::fs::remove_file(&path).unwrap();
    let output = folder.path().join("seen.ts");
    record_aired(&server, &channel, (2, 6), &output).await;
    assert!(is_near(colour_at(&output, (0.5, 0.5)), RED), "{:?}", colour_at(&output, (0.5, 0.5)));
    assert!(is_near(colour_at(&output, (0.05, 0.5)), [0, 0, 0]), "the image is scaled to fit");
    let target = format!("{CHANNELS}/{}", channel["id"]);
    assert_eq!(
        send_as_admin(&server, Method::PATCH, &target, &json!({"offline": {"imageUrl": null}})).await.status(),
        200
    );
    record_aired(&server, &channel, (2, 6), &output).await;
    assert!(!is_near(colour_at(&output, (0.5, 0.5)), RED));
}
