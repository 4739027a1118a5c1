//! `/api/events`: one device receives events about what another does.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};

use super::{delete, query, save, small_film};
use crate::kit::answer::refused;
use crate::kit::{self, Server};

/// An event stream, read event by event.
struct Ear {
    answer: Response,
    text: String,
}

struct Heard {
    id: Option<String>,
    name: String,
    data: Value,
}

impl Ear {
    async fn open(server: &Server, token: &str, last: Option<&str>) -> Self {
        let mut request = server.ask(reqwest::Method::GET, "/api/events").bearer_auth(token);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        let mut ear = Self { answer, text: String::new() };
        assert_eq!(ear.piece().await, ": listening");
        ear
    }

    async fn piece(&mut self) -> String {
        loop {
            if let Some((piece, rest)) = self.text.split_once("\n\n") {
                let piece = piece.to_owned();
                self.text = rest.to_owned();
                return piece;
            }
            let more = tokio::time::timeout(Duration::from_secs(20), self.answer.chunk()).await;
            let more = more.expect("the stream sends within 20 s").unwrap().expect("the stream is still open");
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    async fn event(&mut self) -> Heard {
        loop {
            let piece = self.piece().await;
            if piece.starts_with(':') {
                continue;
            }
            let field = |name: &str| piece.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
            return Heard { id: field("id: "), name: field("event: ").unwrap(), data };
        }
    }
}

#[tokio::test]
async fn a_second_device_sees_progress_move() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 30);
    let server = kit::server(&[folder.path()]).await;
    let mut ear = Ear::open(&server, &server.token, None).await;
    let mut stranger = Ear::open(&server, &server.admin, None).await;
    let saved = save(&server, &film, 700.0, json!({})).await;
    let heard = ear.event().await;
    assert_eq!((heard.name.as_str(), &heard.data["progress"]), ("progress.updated", &saved));
    let id = heard.id.unwrap();
    delete(&server, &query("/api/stream/progress", &film)).await;
    let heard = ear.event().await;
    assert_eq!((heard.name.as_str(), &heard.data["mediaPath"]), ("progress.deleted", &json!(film)));

    // A client that reconnects gets what it missed, and only events of its own user.
    let mut back = Ear::open(&server, &server.token, Some(&id)).await;
    assert_eq!(back.event().await.name, "progress.deleted");
    let mut lost = Ear::open(&server, &server.token, Some("otherrun-7")).await;
    assert_eq!(lost.event().await.name, "resync");
    server
        .client
        .post(format!("{}/api/stream/progress", server.base))
        .bearer_auth(&server.admin)
        .json(&json!({"mediaPath": film, "positionSeconds": 1, "durationSeconds": 100}))
        .send()
        .await
        .unwrap();
    assert_eq!(stranger.event().await.data["progress"]["positionSeconds"], 1.0);
}

#[tokio::test]
async fn listeners_are_bounded_and_end_with_their_login_and_with_the_server() {
    let server = kit::server(&[]).await;
    let mut ears = Vec::new();
    for _ in 0..16 {
        ears.push(Ear::open(&server, &server.token, None).await);
    }
    refused(server.get("/api/events").send().await.unwrap(), 503, "SERVER_BUSY").await;
    let mut ear = ears.pop().unwrap();
    server.service.events.close();
    assert_eq!(ear.answer.chunk().await.unwrap(), None, "the stream ends cleanly");
}
