//! Stored user data: progress, history, audiobooks, events.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::{Server, media};

mod audiobook;
mod durability;
mod events;
mod history;
mod moved_files;
mod saves;

/// A small film. Its content depends on `seed`, below 336, which sets the position of a white box.
fn small_film(folder: &Path, name: &str, seed: u32) -> PathBuf {
    let path = folder.join(name);
    assert!(seed < 336, "seeds from 336 have no position for their box");
    let (x, y) = (seed % 56, 2 + seed / 56 * 9);
    let test_source = format!("testsrc2=s=64x64:r=5:d=1,drawbox=x={x}:y={y}:w=9:h=9:c=white");
    media::run_ffmpeg(&path, &["-f lavfi -i", &test_source, "-c:v libx264 -preset ultrafast"]);
    path
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn route_with_path(route: &str, path: &Path) -> String {
    format!("{route}?{}", serde_urlencoded::to_string([("path", path_text(path))]).unwrap())
}

/// Saves a position; returns the record.
async fn save(server: &Server, path: &Path, position: f64, fields: Value) -> Value {
    let mut body = json!({"mediaPath": path, "positionSeconds": position, "durationSeconds": 5400});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    expect_success(server.post("/api/stream/progress", &body).send().await.unwrap(), 200).await
}

async fn get(server: &Server, target: &str) -> Value {
    expect_success(send_until_ready(server.get(target)).await, 200).await
}

async fn delete(server: &Server, target: &str) -> Value {
    let request = server.request(reqwest::Method::DELETE, target).bearer_auth(&server.token);
    expect_success(request.send().await.unwrap(), 200).await
}
