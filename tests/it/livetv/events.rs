//! Events about channels.

use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CHANNELS, add_channel, get};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, media};

/// The event stream of a server.
struct EventStream {
    chunks: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

impl EventStream {
    async fn connect(server: &Server) -> Self {
        let answer = server.get("/api/events").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut events = Self { chunks: Box::pin(answer.bytes_stream()), text: String::new() };
        events.read_chunk().await;
        events
    }

    async fn read_chunk(&mut self) {
        let chunk = tokio::time::timeout(MAX_WAIT, self.chunks.next()).await.expect("an event");
        self.text.push_str(std::str::from_utf8(&chunk.expect("an open stream").unwrap()).unwrap());
    }

    /// The data of the next event with this name that fits.
    async fn next_event(&mut self, name: &str, is_match: impl Fn(&Value) -> bool) -> Value {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").to_owned();
                let (event_name, data) = (field("event: "), field("data: "));
                self.text = rest.to_owned();
                if event_name == name {
                    let data: Value = serde_json::from_str(&data).unwrap();
                    if is_match(&data) {
                        return data;
                    }
                }
            }
            self.read_chunk().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_and_programme_starts_are_published() {
    let folder = tempfile::tempdir().unwrap();
    media::flash_and_beep(&folder.path().join("a.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    media::flash_and_beep(&folder.path().join("b.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(61)).to_string();
    let body =
        json!({"name": "News", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}]});
    let id = add_channel(&server, &body).await["id"].clone();
    let mut events = EventStream::connect(&server).await;

    // Programme starts are published even without viewers, as in the guide.
    let event = events.next_event("programme.changed", |data| data["channelId"] == id).await;
    let now = get(&server, &format!("/api/livetv/now?channelId={id}")).await;
    assert_eq!(event["entry"]["start"], now["current"]["entry"]["start"]);
    assert_eq!((&event["entry"]["isLive"], &event["entry"]["channelId"]), (&json!(true), &id));

    let watch = format!("/api/livetv/watch/{id}");
    assert_eq!(server.get(&format!("{watch}?wait=15&watchSession=sofa")).send().await.unwrap().status(), 200);
    let live = events.next_event("channel.state", |data| data["state"] == "live").await;
    assert_eq!(live, json!({"channelId": id, "state": "live", "viewers": 1}));
    let leave =
        server.request(reqwest::Method::DELETE, &format!("{watch}?watchSession=sofa")).bearer_auth(&server.token);
    assert_eq!(leave.send().await.unwrap().status(), 200);
    events.next_event("channel.state", |data| data["state"] == "idle" && data["viewers"] == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unplayable_channel_publishes_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 20, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(9)).to_string();
    let channel = add_channel(&server, &json!({"name": "Gone", "startAt": start, "items": [{"path": path}]})).await;
    std::fs::remove_file(&path).unwrap();
    let mut events = EventStream::connect(&server).await;
    let watched = server.get(&format!("/api/livetv/watch/{}?wait=15", channel["id"])).send().await.unwrap();
    assert_eq!(watched.status(), 200, "a slate is aired");
    let event = events.next_event("channel.state", |data| data["state"] == "error").await;
    assert_eq!(event["channelId"], channel["id"]);
    let listed = get(&server, &format!("{CHANNELS}/{}", channel["id"])).await["channel"].clone();
    assert_eq!((&listed["state"], &listed["catchupDays"]), (&json!("error"), &json!(7)));
}
