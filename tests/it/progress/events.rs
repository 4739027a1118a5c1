//! `/api/events`: one device receives events about what another does.

use reqwest::Response;
use serde_json::{Value, json};

use super::{delete, route_with_path, save, small_film};
use crate::kit::response::expect_error;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

/// An event stream, read event by event.
struct EventStream {
    answer: Response,
    text: String,
}

struct ServerEvent {
    id: Option<String>,
    name: String,
    data: Value,
}

impl EventStream {
    async fn open(server: &Server, token: &str, last_event_id: Option<&str>) -> Self {
        let mut request = server.request(reqwest::Method::GET, "/api/events").bearer_auth(token);
        if let Some(last) = last_event_id {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        let mut stream = Self { answer, text: String::new() };
        assert_eq!(stream.next_block().await, ": listening");
        stream
    }

    async fn next_block(&mut self) -> String {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                return block;
            }
            let more = tokio::time::timeout(MAX_WAIT, self.answer.chunk()).await;
            let more = more.expect("the stream sends").unwrap().expect("the stream is still open");
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    async fn next_event(&mut self) -> ServerEvent {
        loop {
            let block = self.next_block().await;
            if block.starts_with(':') {
                continue;
            }
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
            return ServerEvent { id: field("id: "), name: field("event: ").unwrap(), data };
        }
    }
}

#[tokio::test]
async fn a_second_device_receives_progress_events() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 30);
    let server = kit::start_server(&[folder.path()]).await;
    let mut stream = EventStream::open(&server, &server.token, None).await;
    let mut other_user = EventStream::open(&server, &server.admin, None).await;
    let saved = save(&server, &film, 700.0, json!({})).await;
    let event = stream.next_event().await;
    assert_eq!((event.name.as_str(), &event.data["progress"]), ("progress.updated", &saved));
    let id = event.id.unwrap();
    delete(&server, &route_with_path("/api/stream/progress", &film)).await;
    let event = stream.next_event().await;
    assert_eq!((event.name.as_str(), &event.data["mediaPath"]), ("progress.deleted", &json!(film)));

    // A client that reconnects gets what it missed, and only events of its own user.
    let mut resumed = EventStream::open(&server, &server.token, Some(&id)).await;
    assert_eq!(resumed.next_event().await.name, "progress.deleted");
    let mut unknown_run = EventStream::open(&server, &server.token, Some("otherrun-7")).await;
    assert_eq!(unknown_run.next_event().await.name, "resync");
    server
        .client
        .post(format!("{}/api/stream/progress", server.base))
        .bearer_auth(&server.admin)
        .json(&json!({"mediaPath": film, "positionSeconds": 1, "durationSeconds": 100}))
        .send()
        .await
        .unwrap();
    assert_eq!(other_user.next_event().await.data["progress"]["positionSeconds"], 1.0);
}

#[tokio::test]
async fn event_streams_are_limited_and_end_with_the_server() {
    let server = kit::start_server(&[]).await;
    let mut streams = Vec::new();
    for _ in 0..16 {
        streams.push(EventStream::open(&server, &server.token, None).await);
    }
    expect_error(server.get("/api/events").send().await.unwrap(), 503, "SERVER_BUSY").await;
    let mut stream = streams.pop().unwrap();
    server.service.events.close();
    assert_eq!(stream.answer.chunk().await.unwrap(), None, "the stream ends cleanly");
}
