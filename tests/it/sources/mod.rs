//! What comes from elsewhere: by what right, how it is read, and where it may be fetched from.

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::Server;
use crate::kit::answer::success;

mod gate;
mod guides;
mod inside;
mod lists;

const CHANNELS: &str = "/api/livetv/channels";
const SOURCES: &str = "/api/livetv/sources";

async fn send(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    server.ask(method, target).bearer_auth(&server.admin).json(body).send().await.unwrap()
}

async fn asked(server: &Server, target: &str) -> Value {
    success(server.ask(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap(), 200).await
}

/// Everything that is needed to show something from elsewhere.
fn cleared(mut body: Value) -> Value {
    body["provenance"] =
        json!({"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/terms", "importedAt": "2026-01-01"});
    body["rights"] =
        json!({"basis": "own-content", "statement": "Received with my own antenna, for my own household."});
    body["attestation"] = json!({"authorized": true});
    body
}
