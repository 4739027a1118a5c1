//! Channels scheduled from the library, and their guide.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::answer::{refused, success};
use crate::kit::{Server, film};

mod air;
mod blocks;
mod breaks;
mod channels;
mod demand;
mod drawn;
mod edits;
mod events;
mod export;
mod guide;
mod output;
mod play;
mod seams;
mod ssdp;
mod tuner;
mod turns;
mod warm;

const CHANNELS: &str = "/api/livetv/channels";

/// Makes audio files of these lengths, named by their index.
fn sounds(folder: &Path, seconds: &[u32]) -> Vec<PathBuf> {
    let make = |(n, seconds): (usize, &u32)| {
        let path = folder.join(format!("{n}.wav"));
        let sound = format!("sine=frequency={}:duration={seconds}:sample_rate=8000", 200 + n);
        film::make(&path, &["-f lavfi -i", &sound, "-c:a pcm_u8"]);
        path
    };
    seconds.iter().enumerate().map(make).collect()
}

async fn send(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    server.ask(method, target).bearer_auth(&server.admin).json(body).send().await.unwrap()
}

async fn add(server: &Server, body: &Value) -> Value {
    success(send(server, Method::POST, CHANNELS, body).await, 201).await["channel"].clone()
}

async fn get(server: &Server, target: &str) -> Value {
    success(server.get(target).send().await.unwrap(), 200).await
}

/// Start and end of an entry, ms.
fn span(entry: &Value) -> (i64, i64) {
    let at = |field: &str| entry[field].as_str().unwrap().parse::<Timestamp>().unwrap().as_millisecond();
    (at("start"), at("end"))
}

/// Sends a request that must be refused with this field.
async fn refused_field(server: &Server, method: Method, target: &str, body: &Value, field: &str) {
    let refusal = refused(send(server, method, target, body).await, 400, "VALIDATION_ERROR").await;
    assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{body}: {refusal}");
}
