//! Events about channels.

use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CHANNELS, add, get};
use crate::kit::{self, Server, film};

/// The event stream of a server.
struct Heard {
    pieces: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

impl Heard {
    async fn listen(server: &Server) -> Self {
        let answer = server.get("/api/events").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut heard = Self { pieces: Box::pin(answer.bytes_stream()), text: String::new() };
        heard.more().await;
        heard
    }

    async fn more(&mut self) {
        let piece =
            tokio::time::timeout(Duration::from_secs(40), self.pieces.next()).await.expect("an event within 40 s");
        self.text.push_str(std::str::from_utf8(&piece.expect("an open stream").unwrap()).unwrap());
    }

    /// The data of the next event with this name that fits.
    async fn until(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").to_owned();
                let (told, data) = (field("event: "), field("data: "));
                self.text = rest.to_owned();
                if told == name {
                    let data: Value = serde_json::from_str(&data).unwrap();
                    if fits(&data) {
                        return data;
                    }
                }
            }
            self.more().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_and_what_begins_is_told() {
    let folder = tempfile::tempdir().unwrap();
    film::flash_and_beep(&folder.path().join("a.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    film::flash_and_beep(&folder.path().join("b.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let server = kit::server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(61)).to_string();
    let body =
        json!({"name": "Told", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}]});
    let id = add(&server, &body).await["id"].clone();
    let mut heard = Heard::listen(&server).await;

    // Programme starts are published even without viewers, as in the guide.
    let began = heard.until("programme.changed", |data| data["channelId"] == id).await;
    let now = get(&server, &format!("/api/livetv/now?channelId={id}")).await;
    assert_eq!(began["entry"]["start"], now["current"]["entry"]["start"]);
    assert_eq!((&began["entry"]["isLive"], &began["entry"]["channelId"]), (&json!(true), &id));

    let watch = format!("/api/livetv/watch/{id}");
    assert_eq!(server.get(&format!("{watch}?wait=15&watchSession=sofa")).send().await.unwrap().status(), 200);
    let live = heard.until("channel.state", |data| data["state"] == "live").await;
    assert_eq!(live, json!({"channelId": id, "state": "live", "viewers": 1}));
    let leave = server.ask(reqwest::Method::DELETE, &format!("{watch}?watchSession=sofa")).bearer_auth(&server.token);
    assert_eq!(leave.send().await.unwrap().status(), 200);
    heard.until("channel.state", |data| data["state"] == "idle" && data["viewers"] == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_cannot_be_shown_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    film::flash_and_beep(&path, 20, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let server = kit::server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(9)).to_string();
    let made = add(&server, &json!({"name": "Gone", "startAt": start, "items": [{"path": path}]})).await;
    std::fs::remove_file(&path).unwrap();
    let mut heard = Heard::listen(&server).await;
    let watched = server.get(&format!("/api/livetv/watch/{}?wait=15", made["id"])).send().await.unwrap();
    assert_eq!(watched.status(), 200, "a slate is aired");
    let told = heard.until("channel.state", |data| data["state"] == "error").await;
    assert_eq!(told["channelId"], made["id"]);
    let seen = get(&server, &format!("{CHANNELS}/{}", made["id"])).await["channel"].clone();
    assert_eq!((&seen["state"], &seen["catchupDays"]), (&json!("error"), &json!(7)));
}
