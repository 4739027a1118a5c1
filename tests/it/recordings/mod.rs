//! Recordings: made, resumed after a crash, kept and deleted, and invalid requests.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::answer::{refused, success};
use crate::kit::{self, Server, film, play, ts};

/// Recordings of external channels.
mod elsewhere;
mod survive;

const RECORDINGS: &str = "/api/livetv/recordings";

/// A server with a channel that has repeated two short films for an hour, and the recordings folder.
struct Studio {
    server: Server,
    channel: Value,
    recorded: tempfile::TempDir,
    _films: tempfile::TempDir,
}

impl Studio {
    async fn open() -> Self {
        let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        film::flash_and_beep(&films.path().join("Show S01E01.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
        film::flash_and_beep(&films.path().join("Show S01E02.mkv"), 8, "-c:v libx264 -preset ultrafast -g 50 -an");
        let folder = recorded.path().to_owned();
        let server = kit::server_with(&[films.path()], |config| config.recordings = Some(folder)).await;
        let start = (Timestamp::now() - Duration::from_secs(3600)).to_string();
        let items = json!([{"path": films.path()}]);
        let body = json!({"name": "One", "scheduleMode": "sequential", "startAt": start, "items": items});
        let made = send(&server, Method::POST, "/api/livetv/channels", &body).await;
        let channel = success(made, 201).await["channel"].clone();
        Self { server, channel, recorded, _films: films }
    }

    /// Schedules a recording of a range, in seconds from now.
    async fn record(&self, from: i64, to: i64, more: Value) -> Value {
        let now = Timestamp::now();
        let at =
            |seconds: i64| (now + Duration::from_secs(3600) - Duration::from_secs((3600 - seconds) as u64)).to_string();
        let mut body = json!({"channelId": self.channel["id"], "start": at(from), "end": at(to)});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        success(send(&self.server, Method::POST, RECORDINGS, &body).await, 201).await["recording"].clone()
    }

    async fn get(&self, id: &Value) -> Value {
        let target = format!("{RECORDINGS}/{}", id.as_str().unwrap());
        let asked = self.server.ask(Method::GET, &target).bearer_auth(&self.server.admin);
        success(asked.send().await.unwrap(), 200).await["recording"].clone()
    }

    /// Waits until a recording meets a condition.
    async fn until(&self, id: &Value, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let seen = self.get(id).await;
            if so(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "the recording did not get there within 60 s: {seen}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn send(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    server.ask(method, target).bearer_auth(&server.admin).json(body).send().await.unwrap()
}

/// Decodes a recording: no warning, increasing times that begin at one second, and about this length.
async fn plays(path: &Path, seconds: f64) {
    let (begins, long) = play::decodes_through(path, 2 * 3600).await;
    assert!((0.9..1.1).contains(&begins), "the file does not begin at 1 s: {begins}");
    assert!((long - seconds).abs() < 4.1, "{long} s instead of {seconds}");
    let first = ts::check(&std::fs::read(path).unwrap());
    assert!((0..90_000).contains(&first), "the first PCR is not wrapped: {first}");
    let known = film::ffprobe(path, &["-show_format"]);
    let known: f64 = known["format"]["duration"].as_str().unwrap().parse().unwrap();
    assert!((known - long).abs() < 0.2, "{known} s of {long}");
}

#[tokio::test]
async fn what_was_on_air_is_recorded_and_lies_in_the_library() {
    let studio = Studio::open().await;
    let made = studio.record(-60, -30, json!({"paddingSeconds": {"before": 2, "after": 2}})).await;
    assert_eq!((&made["title"], &made["state"]), (&json!("Show"), &json!("scheduled")));
    let done = studio.until(&made["id"], |one| one["state"] == "complete").await;
    let path = Path::new(done["path"].as_str().unwrap());
    assert!(path.starts_with(studio.recorded.path().join("Show")), "{done}");
    assert_eq!(done["sizeBytes"], std::fs::metadata(path).unwrap().len());
    assert_eq!(
        (&done["missingSeconds"], &done["conflicts"], &done["failure"]),
        (&json!(0.0), &json!([]), &Value::Null)
    );
    plays(path, 34.0).await;
    // GStreamer computes the length from the first and the last PCR.
    gstreamer::init().unwrap();
    let discoverer = gstreamer_pbutils::Discoverer::new(gstreamer::ClockTime::from_seconds(30)).unwrap();
    let uri = gstreamer::glib::filename_to_uri(path, None).unwrap();
    let info = tokio::task::spawn_blocking(move || discoverer.discover_uri(&uri).unwrap()).await.unwrap();
    let long = info.duration().expect("a length").mseconds() as f64 / 1000.0;
    assert!((30.0..=40.0).contains(&long), "{long} s");

    // An ordinary library item: listed, probed, with progress.
    let server = &studio.server;
    let folder = path.parent().unwrap().to_str().unwrap();
    let listed = success(server.get(&format!("/api/library?path={folder}")).send().await.unwrap(), 200).await;
    assert_eq!(listed["entries"][0]["path"], done["path"], "{listed}");
    let body = json!({"mediaPath": done["path"], "mediaType": "recording", "positionSeconds": 12});
    let saved = success(server.post("/api/stream/progress", &body).send().await.unwrap(), 200).await;
    let long = saved["durationSeconds"].as_f64().unwrap();
    assert!((30.0..=40.0).contains(&long), "{saved}");

    let target = format!("{RECORDINGS}/{}?file=delete", done["id"].as_str().unwrap());
    let gone = success(send(server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert_eq!(gone, json!({"id": done["id"], "deleted": true, "state": null, "fileDeleted": true}));
    assert!(!path.exists() && !path.parent().unwrap().exists());
    refused(send(server, Method::DELETE, &target, &json!({})).await, 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn a_recording_is_played_while_it_grows_and_is_cancelled_with_what_it_has() {
    let studio = Studio::open().await;
    let made = studio.record(-20, 3600, json!({})).await;
    let id = made["id"].as_str().unwrap();
    let grows = studio.until(&made["id"], |one| {
        let path = one["path"].as_str();
        one["state"] == "recording" && path.is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0))
    });
    let grows = grows.await;
    let direct = studio.server.get(grows["directUrl"].as_str().unwrap()).header("range", "bytes=0-187").send();
    let direct = direct.await.unwrap();
    assert_eq!((direct.status().as_u16(), direct.headers()["content-type"].to_str().unwrap()), (206, "video/mp2t"));
    assert_eq!(direct.bytes().await.unwrap()[0], 0x47);

    let target = format!("{RECORDINGS}/{id}");
    let gone = success(send(&studio.server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert_eq!(gone, json!({"id": id, "deleted": false, "state": "cancelled", "fileDeleted": false}));
    let kept = studio.get(&made["id"]).await;
    let path = Path::new(kept["path"].as_str().unwrap());
    assert_eq!(kept["sizeBytes"], std::fs::metadata(path).unwrap().len(), "{kept}");
    plays(path, kept["recordedSeconds"].as_f64().unwrap()).await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name() {
    let studio = Studio::open().await;
    let (server, id) = (&studio.server, &studio.channel["id"]);
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
    let later = (Timestamp::now() + Duration::from_secs(60)).to_string();
    let wrong = [
        ("channelId", json!({"start": start, "end": end})),
        ("entryId", json!({"channelId": id})),
        ("entryId", json!({"channelId": id, "entryId": "1-1", "start": start, "end": end})),
        ("end", json!({"channelId": id, "start": start})),
        ("end", json!({"channelId": id, "start": later, "end": start})),
        ("end", json!({"channelId": id, "start": later, "end": "2100-01-01T00:00:00Z"})),
        ("start", json!({"channelId": id, "start": start, "end": end})),
        ("start", json!({"channelId": id, "start": "soon", "end": end})),
        ("paddingSeconds.before", json!({"channelId": id, "entryId": "1-1", "paddingSeconds": {"before": -1}})),
        ("series.title", json!({"channelId": id, "series": {"title": " "}})),
        ("keep.count", json!({"channelId": id, "entryId": "1-1", "keep": {"count": 1}})),
        ("keep.days", json!({"channelId": id, "series": {"title": "a"}, "keep": {"days": 0}})),
    ];
    for (field, body) in wrong {
        let answer = send(server, Method::POST, RECORDINGS, &body).await;
        let refusal = refused(answer, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{body}: {refusal}");
    }
    let body = json!({"channelId": id, "entryId": "1-999999999"});
    refused(send(server, Method::POST, RECORDINGS, &body).await, 404, "NOT_FOUND").await;
    let body = json!({"channelId": 99, "entryId": "99-1"});
    refused(send(server, Method::POST, RECORDINGS, &body).await, 404, "CHANNEL_NOT_FOUND").await;
    refused(server.post(RECORDINGS, &body).send().await.unwrap(), 403, "FORBIDDEN").await;
    refused(send(server, Method::GET, &format!("{RECORDINGS}?state=lost"), &json!({})).await, 400, "VALIDATION_ERROR")
        .await;

    // Recordings of an admin are hidden from other users.
    let made = studio.record(600, 700, json!({})).await;
    let listed = success(server.get(RECORDINGS).send().await.unwrap(), 200).await;
    assert_eq!(listed, json!({"recordings": [], "series": []}));
    let target = format!("{RECORDINGS}/{}", made["id"].as_str().unwrap());
    refused(server.get(&target).send().await.unwrap(), 404, "NOT_FOUND").await;

    let films = tempfile::tempdir().unwrap();
    let bare = kit::server(&[films.path()]).await;
    let body = json!({"channelId": 1, "entryId": "1-1"});
    let refusal = refused(send(&bare, Method::POST, RECORDINGS, &body).await, 409, "CONFLICT").await;
    assert!(refusal["error"].as_str().unwrap().contains("recordings"), "{refusal}");
}

#[tokio::test]
async fn a_series_finds_its_programmes_and_conflicts_are_named() {
    let studio = Studio::open().await;
    let server = &studio.server;
    let body = json!({"channelId": studio.channel["id"], "series": {"title": "show"}, "keep": {"count": 2}});
    let made = success(send(server, Method::POST, RECORDINGS, &body).await, 201).await;
    assert_eq!((&made["series"]["title"], &made["series"]["keep"]["count"]), (&json!("show"), &json!(2)));
    let all = async || success(send(server, Method::GET, RECORDINGS, &json!({})).await, 200).await;
    let listed = all().await["recordings"].as_array().unwrap().clone();
    assert!(listed.len() >= 50, "{} were planned", listed.len());
    assert!(listed.iter().all(|one| one["title"] == "Show" && one["seriesId"] == made["series"]["id"]));
    // Copied films take no encode slot.
    assert!(listed.iter().all(|one| one["conflicts"] == json!([])));

    // New programmes only: both films have been shown within the hour.
    let body = json!({"channelId": studio.channel["id"], "series": {"title": "Show", "newOnly": true}});
    let new = success(send(server, Method::POST, RECORDINGS, &body).await, 201).await;
    assert_eq!(new["recording"], Value::Null, "{new}");

    let target = format!("{RECORDINGS}/series/{}", made["series"]["id"].as_str().unwrap());
    success(send(server, Method::DELETE, &target, &json!({})).await, 200).await;
    refused(send(server, Method::DELETE, &target, &json!({})).await, 404, "NOT_FOUND").await;
    let left =
        success(send(server, Method::GET, &format!("{RECORDINGS}?state=scheduled"), &json!({})).await, 200).await;
    assert_eq!((&left["recordings"], left["series"].as_array().unwrap().len()), (&json!([]), 1));
}

#[tokio::test]
async fn what_was_asked_for_by_its_entry_follows_its_programme() {
    let studio = Studio::open().await;
    let (server, id) = (&studio.server, &studio.channel["id"]);
    let ahead = Timestamp::now() + Duration::from_secs(600);
    let until = ahead + Duration::from_secs(300);
    let guide = async || {
        let asked = server.get(&format!("/api/livetv/epg?channelId={id}&from={ahead}&to={until}"));
        success(asked.send().await.unwrap(), 200).await["entries"].as_array().unwrap().clone()
    };
    let before = guide().await;
    let entry = before.iter().skip(1).find(|entry| entry["episode"] == 1).unwrap();
    let by_entry = json!({"channelId": id, "entryId": entry["id"]});
    let made = success(send(server, Method::POST, RECORDINGS, &by_entry).await, 201).await["recording"].clone();
    assert_eq!((&made["episode"], &made["start"]), (&json!(1), &entry["start"]));

    // Another film is inserted: the programme moves to another time and gets another id.
    let film = |name: &str| json!({"path": studio._films.path().join(name)});
    film::flash_and_beep(&studio._films.path().join("Other.mp4"), 5, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let edit = async |items: Value| {
        let target = format!("/api/livetv/channels/{id}");
        success(send(server, Method::PATCH, &target, &json!({"items": items})).await, 200).await
    };
    edit(json!([film("Show S01E01.mp4"), film("Other.mp4"), film("Show S01E02.mkv")])).await;
    let moved = studio.until(&made["id"], |one| one["entryId"] != made["entryId"]).await;
    let after = guide().await;
    let found = after.iter().find(|entry| entry["id"] == moved["entryId"]).unwrap();
    assert_eq!((&found["episode"], &found["start"], &found["end"]), (&json!(1), &moved["start"], &moved["end"]));
    // Entry ids are never reused for another programme.
    assert!(!after.iter().any(|entry| before.iter().any(|before| before["id"] == entry["id"])), "{before:?} {after:?}");
    refused(send(server, Method::POST, RECORDINGS, &by_entry).await, 404, "NOT_FOUND").await;

    // A programme that is no longer aired is not replaced by another.
    edit(json!([film("Other.mp4"), film("Show S01E02.mkv")])).await;
    let failed = studio.until(&made["id"], |one| one["state"] == "failed").await;
    assert_eq!(failed["failure"]["code"], "NOT_FOUND", "{failed}");

    // A change with `applyAt=now` cuts the current programme, and its running recording with it.
    let long = studio._films.path().join("Long.mp4");
    film::flash_and_beep(&long, 120, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let start = (Timestamp::now() - Duration::from_secs(5)).to_string();
    let body = json!({"name": "Two", "scheduleMode": "sequential", "startAt": start, "items": [{"path": long}]});
    let two = success(send(server, Method::POST, "/api/livetv/channels", &body).await, 201).await["channel"].clone();
    let by_entry = json!({"channelId": two["id"], "entryId": format!("{}-0", two["id"])});
    let made = success(send(server, Method::POST, RECORDINGS, &by_entry).await, 201).await["recording"].clone();
    studio.until(&made["id"], |one| one["state"] == "recording").await;
    let target = format!("/api/livetv/channels/{}?applyAt=now", two["id"]);
    let items = json!({"items": [film("Other.mp4")]});
    success(send(server, Method::PATCH, &target, &items).await, 200).await;
    let cut = studio.until(&made["id"], |one| one["state"] == "complete").await;
    assert_eq!((&cut["entryId"], &cut["start"]), (&made["entryId"], &made["start"]));
    assert!(cut["end"].as_str() < made["end"].as_str(), "{cut}");
    // A recording cannot be changed.
    let target = format!("{RECORDINGS}/{}", made["id"].as_str().unwrap());
    let refusal = send(server, Method::PATCH, &target, &json!({"end": made["end"]})).await;
    assert_eq!(refusal.headers()["allow"], "DELETE, GET, HEAD, OPTIONS");
    refused(refusal, 405, "METHOD_NOT_ALLOWED").await;
}

#[tokio::test]
async fn of_two_channels_that_must_be_encoded_at_once_each_names_the_other() {
    let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    film::flash_and_beep(&films.path().join("a.webm"), 4, "-c:v libvpx -deadline realtime -c:a libopus");
    let folder = recorded.path().to_owned();
    let server = kit::server_with(&[films.path()], |config| {
        config.recordings = Some(folder);
        config.limits.concurrent_jobs = 1;
    })
    .await;
    let now = Timestamp::now();
    let at = |seconds| (now + Duration::from_secs(seconds)).to_string();
    let mut ids = Vec::new();
    for name in ["One", "Two"] {
        let body = json!({"name": name, "items": [{"path": films.path()}]});
        let channel = success(send(&server, Method::POST, "/api/livetv/channels", &body).await, 201).await;
        let body = json!({"channelId": channel["channel"]["id"], "start": at(600), "end": at(900)});
        let made = success(send(&server, Method::POST, RECORDINGS, &body).await, 201).await;
        ids.push(made["recording"]["id"].clone());
    }
    let listed = success(send(&server, Method::GET, RECORDINGS, &json!({})).await, 200).await;
    for one in listed["recordings"].as_array().unwrap() {
        let other = ids.iter().find(|id| **id != one["id"]).unwrap();
        assert_eq!(one["conflicts"], json!([other]), "{one}");
    }
}
