//! Channels scheduled from the library, and their guide.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::{Server, media};

mod air;
mod blocks;
mod breaks;
mod channels;
mod copies;
mod demand;
mod edits;
mod encode_turns;
mod events;
mod export;
mod follow;
mod guide;
mod output;
mod overlays;
mod play;
mod seams;
mod shared_segments;
mod slates;
mod ssdp;
mod tracks;
mod tuner;
mod warm;

const CHANNELS: &str = "/api/livetv/channels";

/// Makes audio files of these lengths, named by their index.
fn make_audio_files(folder: &Path, seconds: &[u32]) -> Vec<PathBuf> {
    let make = |(n, seconds): (usize, &u32)| {
        let path = folder.join(format!("{n}.wav"));
        let sine = format!("sine=frequency={}:duration={seconds}:sample_rate=8000", 200 + n);
        media::run_ffmpeg(&path, &["-f lavfi -i", &sine, "-c:a pcm_u8"]);
        path
    };
    seconds.iter().enumerate().map(make).collect()
}

async fn send_as_admin(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    send_until_ready(server.request(method, target).bearer_auth(&server.admin).json(body)).await
}

pub async fn add_channel(server: &Server, body: &Value) -> Value {
    expect_success(send_as_admin(server, Method::POST, CHANNELS, body).await, 201).await["channel"].clone()
}

async fn get(server: &Server, target: &str) -> Value {
    expect_success(server.get(target).send().await.unwrap(), 200).await
}

/// Start and end of an entry, ms.
fn entry_times_ms(entry: &Value) -> (i64, i64) {
    let ms = |field: &str| entry[field].as_str().unwrap().parse::<Timestamp>().unwrap().as_millisecond();
    (ms("start"), ms("end"))
}

/// Sends a request that must be refused with this field.
async fn expect_refused_field(server: &Server, method: Method, target: &str, body: &Value, field: &str) {
    let refusal = expect_error(send_as_admin(server, method, target, body).await, 400, "VALIDATION_ERROR").await;
    assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{body}: {refusal}");
}
