//! `/api/library/items/{id}/artwork/previews.vtt`: the images that players show while the viewer seeks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hearthcast::service::{catalogue, library_watcher};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::kit;
use crate::kit::media::run_ffmpeg;
use crate::kit::response::{expect_error, expect_success, send_until_ready};

/// Steps until the film is dark again.
const STEPS: usize = 25;

/// Brighter by this every two seconds, of 255.
const STEP: f64 = 8.0 * 255.0 / 219.0;

/// The mean brightness of each image of a sheet with so many across and down.
fn image_levels(sheet: &[u8], columns: usize, folder: &Path) -> Vec<f64> {
    let path = folder.join("sheet.jpg");
    std::fs::write(&path, sheet).unwrap();
    let mut decode = Command::new("ffmpeg");
    let output = decode
        .args(["-v", "error", "-i"])
        .arg(&path)
        .args(["-pix_fmt", "gray", "-f", "rawvideo", "-"])
        .output()
        .unwrap();
    let (width, height) = (columns * 240, columns * 136);
    assert_eq!(output.stdout.len(), width * height, "{}", String::from_utf8_lossy(&output.stderr));
    let level = |image: usize| {
        let (left, top) = (image % columns * 240, image / columns * 136);
        let pixels = (top + 20..top + 116).flat_map(|y| (left + 20..left + 220).map(move |x| y * width + x));
        pixels.map(|at| f64::from(output.stdout[at])).sum::<f64>() / (96.0 * 200.0)
    };
    (0..columns * columns).map(level).collect()
}

async fn media_info(server: &kit::Server, path: &Path) -> Value {
    let path = utf8_percent_encode(path.to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    let request = server.get(&format!("/api/stream/info/full?path={path}"));
    expect_success(send_until_ready(request).await, 200).await
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_show_the_film_at_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("library");
    std::fs::create_dir(&root).unwrap();
    let video = "nullsrc=s=64x36:r=5:d=203,geq=lum='16+8*mod(floor(T/2)\\,25)':cb=128:cr=128";
    let films = ["a.mp4", "b.mkv", "c.ts"].map(|name| root.join(name));
    for film in &films {
        run_ffmpeg(film, &["-f lavfi -i", video, "-c:v libx264 -preset ultrafast -g 10 -sc_threshold 0"]);
    }
    run_ffmpeg(&root.join("song.m4a"), &["-f lavfi -i", "sine=d=2:r=48000", "-c:a aac"]);
    let server = kit::start_server(&[&root]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    while server.service.catalogue.newest_videos().len() < 3 {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    // Keyframes of a transport stream cannot be read alone.
    for (film, columns) in films.iter().zip([10, 10, 6]) {
        let info = media_info(&server, film).await;
        let address = info["previewsUrl"].as_str().unwrap();
        // As a page does, without a header.
        let index = send_until_ready(server.client.get(format!("{}{address}", server.base))).await;
        assert_eq!(
            (index.status(), &index.headers()["content-type"]),
            (200.try_into().unwrap(), &"text/vtt; charset=utf-8".parse().unwrap())
        );
        let index = index.text().await.unwrap();
        assert_eq!(index.matches(" --> ").count(), 102, "{film:?}: {index}");
        let cue = index.split("\n\n").nth(12).unwrap();
        let (times, place) = cue.split_once('\n').unwrap();
        assert_eq!(times, "00:00:22.000 --> 00:00:24.000");
        let (sheet_address, rectangle) = place.split_once('#').unwrap();
        assert_eq!(rectangle, format!("xywh={},136,240,136", (11 % columns) * 240));
        let base = url::Url::parse(&format!("{}{address}", server.base)).unwrap();
        let sheet = send_until_ready(server.client.get(base.join(sheet_address).unwrap())).await;
        assert_eq!(sheet.status(), 200, "{film:?}");
        assert!(sheet.headers()["cache-control"].to_str().unwrap().contains("immutable"));
        let levels = image_levels(&sheet.bytes().await.unwrap(), columns, folder.path());
        for (image, level) in levels.iter().enumerate() {
            assert!((level - (image % STEPS) as f64 * STEP).abs() < 5.0, "{film:?}: image {image} of {levels:?}");
        }
        let missing = address.replace("previews.vtt", "previews/9");
        expect_error(server.client.get(format!("{}{missing}", server.base)).send().await.unwrap(), 404, "NOT_FOUND")
            .await;
    }
    assert_eq!(media_info(&server, &root.join("song.m4a")).await["previewsUrl"], Value::Null);
}
