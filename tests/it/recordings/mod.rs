//! Recordings: made, resumed after a crash, kept and deleted, and invalid requests.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, media, player, ts};
use hearthcast::domain::time::Ticks;

mod durability;
/// Recordings of external channels.
mod external;

const RECORDINGS: &str = "/api/livetv/recordings";

/// A server with a channel that has repeated two short films for an hour, and the recordings folder.
struct RecordingServer {
    server: Server,
    channel: Value,
    recordings_folder: tempfile::TempDir,
    _films: tempfile::TempDir,
}

impl RecordingServer {
    async fn start() -> Self {
        let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        media::flash_and_beep(
            &films.path().join("Show S01E01.mp4"),
            6,
            "-c:v libx264 -preset ultrafast -g 50 -c:a aac",
        );
        media::flash_and_beep(&films.path().join("Show S01E02.mkv"), 8, "-c:v libx264 -preset ultrafast -g 50 -an");
        let folder = recorded.path().to_owned();
        let server = kit::start_server_with(&[films.path()], |config| config.recordings = Some(folder)).await;
        let start = (Timestamp::now() - Duration::from_secs(3600)).to_string();
        let items = json!([{"path": films.path()}]);
        let body = json!({"name": "One", "scheduleMode": "sequential", "startAt": start, "items": items});
        let answer = send_as_admin(&server, Method::POST, "/api/livetv/channels", &body).await;
        let channel = expect_success(answer, 201).await["channel"].clone();
        Self { server, channel, recordings_folder: recorded, _films: films }
    }

    /// Schedules a recording of a range, in seconds from now.
    async fn schedule(&self, from: i64, to: i64, fields: Value) -> Value {
        let now = Timestamp::now();
        let time =
            |seconds: i64| (now + Duration::from_secs(3600) - Duration::from_secs((3600 - seconds) as u64)).to_string();
        let mut body = json!({"channelId": self.channel["id"], "start": time(from), "end": time(to)});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        expect_success(send_as_admin(&self.server, Method::POST, RECORDINGS, &body).await, 201).await["recording"]
            .clone()
    }

    async fn get(&self, id: &Value) -> Value {
        let target = format!("{RECORDINGS}/{}", id.as_str().unwrap());
        let request = self.server.request(Method::GET, &target).bearer_auth(&self.server.admin);
        expect_success(request.send().await.unwrap(), 200).await["recording"].clone()
    }

    /// Waits until a recording meets a condition.
    async fn wait_until(&self, id: &Value, is_met: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let recording = self.get(id).await;
            if is_met(&recording) {
                return recording;
            }
            assert!(Instant::now() < deadline, "the recording does not get there: {recording}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn send_as_admin(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    send_until_ready(server.request(method, target).bearer_auth(&server.admin).json(body)).await
}

/// Decodes a recording: no warning, increasing times that begin at one second, and about this length.
async fn check_plays(path: &Path, seconds: f64) {
    let (start, length) = player::check_decodes_through(path, 2 * 3600).await;
    assert!((0.9..1.1).contains(&start), "the file does not begin at 1 s: {start}");
    assert!((length - seconds).abs() < 4.1, "{length} s instead of {seconds}");
    let first = ts::check_transport_stream(&std::fs::read(path).unwrap());
    assert!((Ticks::ZERO..Ticks::from_ms(1000)).contains(&first), "the first PCR is not wrapped: {first:?}");
    let report = media::ffprobe(path, &["-show_format"]);
    let container_length: f64 = report["format"]["duration"].as_str().unwrap().parse().unwrap();
    assert!((container_length - length).abs() < 0.2, "{container_length} s of {length}");
}

#[tokio::test]
async fn a_past_programme_is_recorded_and_appears_in_the_library() {
    let studio = RecordingServer::start().await;
    let created = studio.schedule(-60, -30, json!({"paddingSeconds": {"before": 2, "after": 2}})).await;
    assert_eq!((&created["title"], &created["state"]), (&json!("Show"), &json!("scheduled")));
    let complete = studio.wait_until(&created["id"], |one| one["state"] == "complete").await;
    let path = Path::new(complete["path"].as_str().unwrap());
    assert!(path.starts_with(studio.recordings_folder.path().join("Show")), "{complete}");
    assert_eq!(complete["sizeBytes"], std::fs::metadata(path).unwrap().len());
    assert_eq!(
        (&complete["missingSeconds"], &complete["conflicts"], &complete["failure"]),
        (&json!(0.0), &json!([]), &Value::Null)
    );
    check_plays(path, 34.0).await;
    // GStreamer computes the length from the first and the last PCR.
    gstreamer::init().unwrap();
    let discoverer = gstreamer_pbutils::Discoverer::new(gstreamer::ClockTime::from_seconds(30)).unwrap();
    let uri = gstreamer::glib::filename_to_uri(path, None).unwrap();
    let info = tokio::task::spawn_blocking(move || discoverer.discover_uri(&uri).unwrap()).await.unwrap();
    let length = info.duration().expect("a length").mseconds() as f64 / 1000.0;
    assert!((30.0..=40.0).contains(&length), "{length} s");

    // An ordinary library item: listed, probed, with progress.
    let server = &studio.server;
    let folder = path.parent().unwrap().to_str().unwrap();
    let listed = expect_success(server.get(&format!("/api/library?path={folder}")).send().await.unwrap(), 200).await;
    assert_eq!(listed["entries"][0]["path"], complete["path"], "{listed}");
    let body = json!({"mediaPath": complete["path"], "mediaType": "recording", "positionSeconds": 12});
    let saved = expect_success(server.post("/api/stream/progress", &body).send().await.unwrap(), 200).await;
    let length = saved["durationSeconds"].as_f64().unwrap();
    assert!((30.0..=40.0).contains(&length), "{saved}");

    let target = format!("{RECORDINGS}/{}?file=delete", complete["id"].as_str().unwrap());
    let answer = expect_success(send_as_admin(server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert_eq!(answer, json!({"id": complete["id"], "deleted": true, "state": null, "fileDeleted": true}));
    assert!(!path.exists() && !path.parent().unwrap().exists());
    expect_error(send_as_admin(server, Method::DELETE, &target, &json!({})).await, 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn a_growing_recording_can_be_played_and_cancelled() {
    let studio = RecordingServer::start().await;
    let created = studio.schedule(-20, 3600, json!({})).await;
    let id = created["id"].as_str().unwrap();
    let growing = studio.wait_until(&created["id"], |one| {
        let path = one["path"].as_str();
        one["state"] == "recording" && path.is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 0))
    });
    let growing = growing.await;
    let direct = studio.server.get(growing["directUrl"].as_str().unwrap()).header("range", "bytes=0-187").send();
    let direct = direct.await.unwrap();
    assert_eq!((direct.status().as_u16(), direct.headers()["content-type"].to_str().unwrap()), (206, "video/mp2t"));
    assert_eq!(direct.bytes().await.unwrap()[0], 0x47);

    let target = format!("{RECORDINGS}/{id}");
    let answer = expect_success(send_as_admin(&studio.server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert_eq!(answer, json!({"id": id, "deleted": false, "state": "cancelled", "fileDeleted": false}));
    let cancelled = studio.get(&created["id"]).await;
    let path = Path::new(cancelled["path"].as_str().unwrap());
    assert_eq!(cancelled["sizeBytes"], std::fs::metadata(path).unwrap().len(), "{cancelled}");
    check_plays(path, cancelled["recordedSeconds"].as_f64().unwrap()).await;
}

#[tokio::test]
async fn invalid_recordings_are_refused_with_their_field() {
    let studio = RecordingServer::start().await;
    let (server, id) = (&studio.server, &studio.channel["id"]);
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
    let in_seconds = |seconds: u64| (Timestamp::now() + Duration::from_secs(seconds)).to_string();
    let in_days = |days: u64| (in_seconds(days * 86_400), in_seconds(days * 86_400 + 3600));
    let later = in_seconds(60);
    let (too_far_start, too_far_end) = in_days(367);
    let invalid = [
        ("channelId", json!({"start": start, "end": end})),
        ("entryId", json!({"channelId": id})),
        ("entryId", json!({"channelId": id, "entryId": "1-1", "start": start, "end": end})),
        ("end", json!({"channelId": id, "start": start})),
        ("end", json!({"channelId": id, "start": later, "end": start})),
        ("end", json!({"channelId": id, "start": later, "end": "2100-01-01T00:00:00Z"})),
        ("start", json!({"channelId": id, "start": start, "end": end})),
        ("start", json!({"channelId": id, "start": "soon", "end": end})),
        ("start", json!({"channelId": id, "start": too_far_start, "end": too_far_end})),
        ("paddingSeconds.before", json!({"channelId": id, "entryId": "1-1", "paddingSeconds": {"before": -1}})),
        ("series.title", json!({"channelId": id, "series": {"title": " "}})),
        ("keep.count", json!({"channelId": id, "entryId": "1-1", "keep": {"count": 1}})),
        ("keep.days", json!({"channelId": id, "series": {"title": "a"}, "keep": {"days": 0}})),
    ];
    for (field, body) in invalid {
        let answer = send_as_admin(server, Method::POST, RECORDINGS, &body).await;
        let refusal = expect_error(answer, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{body}: {refusal}");
    }
    let (start, end) = in_days(365);
    let body = json!({"channelId": id, "start": start, "end": end});
    expect_success(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 201).await;
    let body = json!({"channelId": id, "entryId": "1-999999999"});
    expect_error(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 404, "NOT_FOUND").await;
    let body = json!({"channelId": 99, "entryId": "99-1"});
    expect_error(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 404, "CHANNEL_NOT_FOUND").await;
    expect_error(server.post(RECORDINGS, &body).send().await.unwrap(), 403, "FORBIDDEN").await;
    expect_error(
        send_as_admin(server, Method::GET, &format!("{RECORDINGS}?state=lost"), &json!({})).await,
        400,
        "VALIDATION_ERROR",
    )
    .await;

    // Recordings of an admin are hidden from other users.
    let created = studio.schedule(600, 700, json!({})).await;
    let listed = expect_success(server.get(RECORDINGS).send().await.unwrap(), 200).await;
    assert_eq!(listed, json!({"enabled": true, "recordings": [], "series": []}));
    let target = format!("{RECORDINGS}/{}", created["id"].as_str().unwrap());
    expect_error(server.get(&target).send().await.unwrap(), 404, "NOT_FOUND").await;

    let films = tempfile::tempdir().unwrap();
    let without_recordings = kit::start_server(&[films.path()]).await;
    let body = json!({"channelId": 1, "entryId": "1-1"});
    let refusal =
        expect_error(send_as_admin(&without_recordings, Method::POST, RECORDINGS, &body).await, 409, "CONFLICT").await;
    assert!(refusal["error"].as_str().unwrap().contains("recordings"), "{refusal}");
    let listed = expect_success(without_recordings.get(RECORDINGS).send().await.unwrap(), 200).await;
    assert_eq!(listed["enabled"], false);
}

#[tokio::test]
async fn a_series_rule_schedules_its_programmes_once() {
    let studio = RecordingServer::start().await;
    let server = &studio.server;
    let body = json!({"channelId": studio.channel["id"], "series": {"title": "show"}, "keep": {"count": 2}});
    let created = expect_success(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 201).await;
    assert_eq!((&created["series"]["title"], &created["series"]["keep"]["count"]), (&json!("show"), &json!(2)));
    let list = async || expect_success(send_as_admin(server, Method::GET, RECORDINGS, &json!({})).await, 200).await;
    let listed = list().await["recordings"].as_array().unwrap().clone();
    assert!(listed.len() >= 50, "{} were planned", listed.len());
    assert!(listed.iter().all(|one| one["title"] == "Show" && one["seriesId"] == created["series"]["id"]));
    // Copied films take no encode slot.
    assert!(listed.iter().all(|one| one["conflicts"] == json!([])));

    // New programmes only: both films have been shown within the hour.
    let body = json!({"channelId": studio.channel["id"], "series": {"title": "Show", "newOnly": true}});
    let new_only = expect_success(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 201).await;
    assert_eq!(new_only["recording"], Value::Null, "{new_only}");

    let target = format!("{RECORDINGS}/series/{}", created["series"]["id"].as_str().unwrap());
    expect_success(send_as_admin(server, Method::DELETE, &target, &json!({})).await, 200).await;
    expect_error(send_as_admin(server, Method::DELETE, &target, &json!({})).await, 404, "NOT_FOUND").await;
    let remaining = expect_success(
        send_as_admin(server, Method::GET, &format!("{RECORDINGS}?state=scheduled"), &json!({})).await,
        200,
    )
    .await;
    assert_eq!((&remaining["recordings"], remaining["series"].as_array().unwrap().len()), (&json!([]), 1));
}

#[tokio::test]
async fn scheduled_recordings_follow_a_changed_series_rule() {
    let studio = RecordingServer::start().await;
    let server = &studio.server;
    let body = json!({"channelId": studio.channel["id"], "series": {"title": "Show"}});
    let created = expect_success(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 201).await;
    let target = format!("{RECORDINGS}/series/{}", created["series"]["id"].as_str().unwrap());
    let change = async |body: Value| send_as_admin(server, Method::PATCH, &target, &body).await;
    let scheduled = async || {
        let target = format!("{RECORDINGS}?state=scheduled");
        let listed = expect_success(send_as_admin(server, Method::GET, &target, &json!({})).await, 200).await;
        listed["recordings"].as_array().unwrap().clone()
    };
    let before = scheduled().await;
    let ids = |recordings: &[Value]| -> std::collections::BTreeSet<String> {
        recordings.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let edits = json!({"paddingSeconds": {"after": 90}, "keep": {"count": 3}});
    let changed = expect_success(change(edits).await, 200).await["series"].clone();
    assert_eq!((&changed["title"], &changed["keep"]), (&json!("Show"), &json!({"count": 3, "days": null})));
    let after = scheduled().await;
    assert!(ids(&before).intersection(&ids(&after)).count() > 0, "the same recordings are scheduled");
    assert!(after.iter().all(|one| one["paddingSeconds"]["after"] == 90.0 && one["keep"]["count"] == 3));

    // Both films have been shown within the hour, so nothing is new.
    expect_success(change(json!({"newOnly": true})).await, 200).await;
    assert_eq!(scheduled().await, Vec::<Value>::new());
    expect_success(change(json!({"newOnly": false, "keep": {}})).await, 200).await;
    let planned = scheduled().await;
    assert!(planned.len() >= 40 && planned.iter().all(|one| one["keep"] == json!({"count": null, "days": null})));
    expect_success(change(json!({"title": "Another show"})).await, 200).await;
    assert_eq!(scheduled().await, Vec::<Value>::new());

    for (field, body) in [("title", json!({"title": " "})), ("keep.days", json!({"keep": {"days": 0}}))] {
        let refusal = expect_error(change(body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], field, "{refusal}");
    }
    let unknown = format!("{RECORDINGS}/series/ser_unknown");
    expect_error(send_as_admin(server, Method::PATCH, &unknown, &json!({})).await, 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn a_recording_by_entry_follows_its_programme() {
    let studio = RecordingServer::start().await;
    let (server, id) = (&studio.server, &studio.channel["id"]);
    let range_start = Timestamp::now() + Duration::from_secs(600);
    let range_end = range_start + Duration::from_secs(300);
    let guide = async || {
        let request = server.get(&format!("/api/livetv/epg?channelId={id}&from={range_start}&to={range_end}"));
        expect_success(request.send().await.unwrap(), 200).await["entries"].as_array().unwrap().clone()
    };
    let before = guide().await;
    let entry = before.iter().skip(1).find(|entry| entry["episode"] == 1).unwrap();
    let by_entry = json!({"channelId": id, "entryId": entry["id"]});
    let created =
        expect_success(send_as_admin(server, Method::POST, RECORDINGS, &by_entry).await, 201).await["recording"]
            .clone();
    assert_eq!((&created["episode"], &created["start"]), (&json!(1), &entry["start"]));

    // Another film is inserted: the programme moves to another time and gets another id.
    let film_item = |name: &str| json!({"path": studio._films.path().join(name)});
    media::flash_and_beep(&studio._films.path().join("Other.mp4"), 5, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let set_items = async |items: Value| {
        let target = format!("/api/livetv/channels/{id}");
        expect_success(send_as_admin(server, Method::PATCH, &target, &json!({"items": items})).await, 200).await
    };
    set_items(json!([film_item("Show S01E01.mp4"), film_item("Other.mp4"), film_item("Show S01E02.mkv")])).await;
    let moved = studio.wait_until(&created["id"], |one| one["entryId"] != created["entryId"]).await;
    let after = guide().await;
    let found = after.iter().find(|entry| entry["id"] == moved["entryId"]).unwrap();
    assert_eq!((&found["episode"], &found["start"], &found["end"]), (&json!(1), &moved["start"], &moved["end"]));
    // Entry ids are never reused for another programme.
    assert!(!after.iter().any(|entry| before.iter().any(|before| before["id"] == entry["id"])), "{before:?} {after:?}");
    expect_error(send_as_admin(server, Method::POST, RECORDINGS, &by_entry).await, 404, "NOT_FOUND").await;

    // A programme that is no longer aired is not replaced by another.
    set_items(json!([film_item("Other.mp4"), film_item("Show S01E02.mkv")])).await;
    let failed = studio.wait_until(&created["id"], |one| one["state"] == "failed").await;
    assert_eq!(failed["failure"]["code"], "NOT_FOUND", "{failed}");

    // A change with `applyAt=now` cuts the current programme, and its running recording with it.
    let long_film = studio._films.path().join("Long.mp4");
    media::flash_and_beep(&long_film, 120, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let start = (Timestamp::now() - Duration::from_secs(5)).to_string();
    let body = json!({"name": "Two", "scheduleMode": "sequential", "startAt": start, "items": [{"path": long_film}]});
    let second_channel = expect_success(send_as_admin(server, Method::POST, "/api/livetv/channels", &body).await, 201)
        .await["channel"]
        .clone();
    let by_entry = json!({"channelId": second_channel["id"], "entryId": format!("{}-0", second_channel["id"])});
    let created =
        expect_success(send_as_admin(server, Method::POST, RECORDINGS, &by_entry).await, 201).await["recording"]
            .clone();
    studio.wait_until(&created["id"], |one| one["state"] == "recording").await;
    let target = format!("/api/livetv/channels/{}?applyAt=now", second_channel["id"]);
    let items = json!({"items": [film_item("Other.mp4")]});
    expect_success(send_as_admin(server, Method::PATCH, &target, &items).await, 200).await;
    let shortened = studio.wait_until(&created["id"], |one| one["state"] == "complete").await;
    assert_eq!((&shortened["entryId"], &shortened["start"]), (&created["entryId"], &created["start"]));
    assert!(shortened["end"].as_str() < created["end"].as_str(), "{shortened}");
    // A recording cannot be changed.
    let target = format!("{RECORDINGS}/{}", created["id"].as_str().unwrap());
    let refusal = send_as_admin(server, Method::PATCH, &target, &json!({"end": created["end"]})).await;
    assert_eq!(refusal.headers()["allow"], "DELETE, GET, HEAD, OPTIONS");
    expect_error(refusal, 405, "METHOD_NOT_ALLOWED").await;
}

#[tokio::test]
async fn concurrent_encoded_recordings_name_each_other_as_conflicts() {
    let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    media::flash_and_beep(&films.path().join("a.webm"), 4, "-c:v libvpx -deadline realtime -c:a libopus");
    let folder = recorded.path().to_owned();
    let server = kit::start_server_with(&[films.path()], |config| {
        config.recordings = Some(folder);
        config.limits.concurrent_jobs = 1;
    })
    .await;
    let now = Timestamp::now();
    let time = |seconds| (now + Duration::from_secs(seconds)).to_string();
    let mut ids = Vec::new();
    for name in ["One", "Two"] {
        let body = json!({"name": name, "items": [{"path": films.path()}]});
        let channel =
            expect_success(send_as_admin(&server, Method::POST, "/api/livetv/channels", &body).await, 201).await;
        let body = json!({"channelId": channel["channel"]["id"], "start": time(600), "end": time(900)});
        let created = expect_success(send_as_admin(&server, Method::POST, RECORDINGS, &body).await, 201).await;
        ids.push(created["recording"]["id"].clone());
    }
    let listed = expect_success(send_as_admin(&server, Method::GET, RECORDINGS, &json!({})).await, 200).await;
    for one in listed["recordings"].as_array().unwrap() {
        let other = ids.iter().find(|id| **id != one["id"]).unwrap();
        assert_eq!(one["conflicts"], json!([other]), "{one}");
    }
}
