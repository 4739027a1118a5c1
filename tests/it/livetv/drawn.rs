//! Video overlays of a channel: watermark and burned-in subtitles; and the image of its slate.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::output::aired;
use super::{CHANNELS, add, refused_field, send};
use crate::kit::{self, film};

const SIZE: (usize, usize) = (640, 360);

/// The colour of one point of the first frame, as red, green and blue.
fn colour(path: &Path, (x, y): (f64, f64)) -> [u8; 3] {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    let output = command.args("-frames:v 1 -pix_fmt rgb24 -f rawvideo -".split(' ')).output().unwrap();
    assert_eq!(output.stdout.len(), SIZE.0 * SIZE.1 * 3);
    let at = ((y * SIZE.1 as f64) as usize * SIZE.0 + (x * SIZE.0 as f64) as usize) * 3;
    output.stdout[at..at + 3].try_into().unwrap()
}

/// Whether every component of a colour is close to the expected one.
fn near(found: [u8; 3], wanted: [u8; 3]) -> bool {
    found.iter().zip(wanted).all(|(found, wanted)| found.abs_diff(wanted) < 24)
}

const BLUE: [u8; 3] = [0, 0, 254];
const RED: [u8; 3] = [254, 0, 0];

fn picture(path: &Path, colour: &str, size: &str) {
    film::make(path, &["-f lavfi -i", &format!("color=c={colour}:s={size},format=rgb24"), "-frames:v 1"]);
}

/// A blue film of twenty seconds that could be copied.
fn blue(path: &Path, more: &[&str]) {
    let args = ["-f lavfi -i", "color=c=blue:s=640x360:r=25:d=20"];
    let coded = ["-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50"];
    film::make(path, &[&args[..], more, &coded[..]].concat());
}

fn channel(path: &Path, seconds: u64) -> Value {
    let start = (Timestamp::now() - Duration::from_secs(seconds)).to_string();
    json!({"name": "Drawn", "scheduleMode": "sequential", "startAt": start, "items": [{"path": path}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_stands_in_its_corner_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let (path, red) = (folder.path().join("a.mp4"), folder.path().join("red.png"));
    blue(&path, &[]);
    picture(&red, "red", "40x20");
    let server = kit::server(&[folder.path()]).await;
    let mut body = channel(&path, 60);
    body["watermark"] = json!({"imageUrl": red, "opacity": 100, "widthPercent": 10});
    let made = add(&server, &body).await;
    let seen = folder.path().join("seen.ts");
    aired(&server, &made, (4, 8), &seen).await;
    // A tenth of the width, half as high as wide, 3 % from the edges.
    for inside in [(0.95, 0.95), (0.88, 0.95), (0.95, 0.90)] {
        assert!(near(colour(&seen, inside), RED), "{inside:?}: {:?}", colour(&seen, inside));
    }
    for outside in [(0.99, 0.99), (0.85, 0.95), (0.95, 0.85), (0.05, 0.05), (0.05, 0.95), (0.5, 0.5)] {
        assert!(near(colour(&seen, outside), BLUE), "{outside:?}: {:?}", colour(&seen, outside));
    }
    // Half as opaque in another corner: this is another rendition, so it is encoded again.
    let target = format!("{CHANNELS}/{}", made["id"]);
    body["name"] = json!("Faint");
    body["watermark"] = json!({"imageUrl": red, "opacity": 50, "widthPercent": 10, "position": "top-left"});
    let faint = add(&server, &body).await;
    aired(&server, &faint, (4, 8), &seen).await;
    assert!(near(colour(&seen, (0.05, 0.05)), [127, 0, 127]), "{:?}", colour(&seen, (0.05, 0.05)));
    assert!(near(colour(&seen, (0.95, 0.95)), BLUE));
    // Only images of the library, checked before they are decoded.
    let text = folder.path().join("text.png");
    std::fs::write(&text, "no picture").unwrap();
    for wrong in [text.to_str().unwrap(), path.to_str().unwrap(), "http://127.0.0.1/a.png", "/etc/passwd"] {
        let wrong = json!({"watermark": {"imageUrl": wrong}});
        refused_field(&server, Method::PATCH, &target, &wrong, "watermark.imageUrl").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subtitles_are_drawn_in_the_language_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, words) = (folder.path().join("a.mkv"), folder.path().join("a.srt"));
    std::fs::write(&words, "1\n00:00:00,000 --> 00:00:20,000\nWWWWWWWWWWWWWWWWWWWWWWWW\n").unwrap();
    blue(&path, &["-i", words.to_str().unwrap(), "-c:s srt -metadata:s:s:0 language=ger"]);
    std::fs::remove_file(&words).unwrap();
    let server = kit::server(&[folder.path()]).await;
    let (plain, drawn) = (folder.path().join("plain.ts"), folder.path().join("drawn.ts"));
    for (languages, path) in [(json!(["fre"]), &plain), (json!(["fre", "de"]), &drawn)] {
        let mut body = channel(&folder.path().join("a.mkv"), 60);
        body["name"] = json!(languages.to_string());
        body["languages"] = json!({"subtitles": languages});
        let made = add(&server, &body).await;
        aired(&server, &made, (4, 8), path).await;
    }
    let psnr = film::psnr(&plain, &drawn);
    assert!(psnr < 30.0, "one of them has subtitles: {psnr} dB");

    // The same text in a sidecar file of a film without subtitles, which could be copied.
    let (bare, beside) = (folder.path().join("b.mp4"), folder.path().join("beside.ts"));
    blue(&bare, &[]);
    std::fs::write(folder.path().join("b.de.srt"), "1\n00:00:00,000 --> 00:00:20,000\nWWWWWWWWWWWWWWWWWWWWWWWW\n")
        .unwrap();
    let mut body = channel(&bare, 60);
    body["languages"] = json!({"subtitles": ["ger"]});
    let made = add(&server, &body).await;
    aired(&server, &made, (4, 8), &beside).await;
    let (plain, drawn) = (film::psnr(&plain, &beside), film::psnr(&drawn, &beside));
    assert!(plain < 30.0 && drawn > 30.0, "{plain} dB compared with no subtitles, {drawn} dB with embedded ones");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slate_shows_the_picture_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let (path, red) = (folder.path().join("a.mp4"), folder.path().join("red.jpg"));
    blue(&path, &[]);
    picture(&red, "red", "320x320");
    let server = kit::server(&[folder.path()]).await;
    let mut body = channel(&path, 19);
    body["offline"] = json!({"imageUrl": red});
    let made = add(&server, &body).await;
    std::fs::remove_file(&path).unwrap();
    let seen = folder.path().join("seen.ts");
    aired(&server, &made, (2, 6), &seen).await;
    assert!(near(colour(&seen, (0.5, 0.5)), RED), "{:?}", colour(&seen, (0.5, 0.5)));
    assert!(near(colour(&seen, (0.05, 0.5)), [0, 0, 0]), "the image is scaled to fit");
    let target = format!("{CHANNELS}/{}", made["id"]);
    assert_eq!(send(&server, Method::PATCH, &target, &json!({"offline": {"imageUrl": null}})).await.status(), 200);
    aired(&server, &made, (2, 6), &seen).await;
    assert!(!near(colour(&seen, (0.5, 0.5)), RED));
}
