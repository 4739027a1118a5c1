//! Imported lists and guides: rights, parsing, SSRF.

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::Server;
use crate::kit::response::expect_success;

mod guides;
/// Hostile lists and guides.
mod hostile;
mod images;
mod lists;
/// Attempts to bypass the rights check.
mod rights_bypass;
mod rights_check;
mod ssrf;

const CHANNELS: &str = "/api/livetv/channels";
const SOURCES: &str = "/api/livetv/sources";

async fn send_as_admin(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    server.request(method, target).bearer_auth(&server.admin).json(body).send().await.unwrap()
}

async fn get_as_admin(server: &Server, target: &str) -> Value {
    expect_success(server.request(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap(), 200).await
}

/// Sends a multipart form with a file, as browsers do.
async fn upload(server: &Server, method: Method, target: &str, body: &Value, file: &[u8]) -> reqwest::Response {
    let mut form = String::new();
    for (field, value) in body.as_object().unwrap() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        form += &format!("--x\r\ncontent-disposition: form-data; name=\"{field}\"\r\n\r\n{text}\r\n");
    }
    form += "--x\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"f\"\r\n\r\n";
    let form = [form.as_bytes(), file, b"\r\n--x--\r\n"].concat();
    let request = server.request(method, target).bearer_auth(&server.admin);
    request.header("content-type", "multipart/form-data; boundary=x").body(form).send().await.unwrap()
}

/// Adds everything that is required to show an external channel.
fn with_rights(mut body: Value) -> Value {
    body["provenance"] =
        json!({"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/terms", "importedAt": "2026-01-01"});
    body["rights"] =
        json!({"basis": "own-content", "statement": "Received with my own antenna, for my own household."});
    body["attestation"] = json!({"authorized": true});
    body
}
