//! Transcode sessions, from the start request to the last segment.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::engine::fake_backend::FakeBackend;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::response::send_until_ready;
use crate::kit::wait::{MAX_WAIT, wait_until};
use crate::kit::{self, Server, media};

/// A folder with one film that no browser plays, `seconds` long.
fn make_library(seconds: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    media::flash_and_beep(&folder.path().join("film.mkv"), seconds, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    folder
}

fn film_path(folder: &TempDir) -> String {
    folder.path().join("film.mkv").to_str().unwrap().to_owned()
}

pub(super) async fn start(server: &Server, body: &Value) -> Value {
    let answer = send_until_ready(server.post("/api/stream/transcode/start", body)).await;
    let status = answer.status();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(status, 200, "{body}");
    body
}

async fn get_text(server: &Server, path: &str) -> String {
    let answer = server.get(path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

pub(super) fn session_path(session: &Value) -> String {
    format!("/api/stream/transcode/{}", session["sessionId"].as_str().unwrap())
}

pub(super) async fn status(server: &Server, session: &Value) -> Value {
    server.get(&format!("{}/status", session_path(session))).send().await.unwrap().json().await.unwrap()
}

/// Number of descriptors of this process that are open on a file.
fn open_descriptors(file: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    links.filter_map(|link| std::fs::read_link(link.path()).ok()).filter(|target| target == file).count()
}

/// Plays a URL to the end with ffmpeg; returns its warnings and the length, seconds.
pub(super) async fn play_to_end(url: String) -> (String, f64) {
    tokio::task::spawn_blocking(move || {
        let output = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "warning", "-stats", "-i", &url, "-f", "null", "-"])
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr).replace('\r', "\n");
        let (stats, warnings): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| line.starts_with("frame="));
        let time = stats.last().and_then(|line| line.split("time=").nth(1)).unwrap_or("0:0:0");
        let parts: Vec<f64> = time.split(' ').next().unwrap().split(':').map(|part| part.parse().unwrap()).collect();
        (warnings.join("\n"), parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_film_is_encoded_and_plays_without_headers() {
    let folder = make_library(7);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film_path(&folder), "startPositionSeconds": 3})).await;
    assert_eq!(session["playbackMode"], "transcode");
    assert_eq!(session["directUrl"], Value::Null);
    assert_eq!(session["decision"]["video"], "encode");
    assert_eq!(session["decision"]["audio"], "encode");
    assert_eq!(session["startPositionSeconds"], 3.0);
    let reasons = session["decision"]["reasons"].as_array().unwrap();
    assert!(
        reasons.contains(&json!("CONTAINER_NOT_SUPPORTED")) && reasons.contains(&json!("AUDIO_CODEC_NOT_SUPPORTED"))
    );

    let answer = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/vnd.apple.mpegurl");
    assert_eq!(answer.headers()["cache-control"], "private, no-cache");
    let master = answer.text().await.unwrap();
    let parsed = m3u8_rs::parse_master_playlist_res(master.as_bytes()).unwrap();
    let variant = &parsed.variants[0];
    assert!(variant.codecs.as_deref().unwrap().starts_with("avc1."), "{master}");
    assert!(variant.codecs.as_deref().unwrap().ends_with(",mp4a.40.2"), "{master}");
    assert_eq!(variant.resolution.unwrap().height, 180);
    assert_eq!(variant.frame_rate, Some(25.0));

    let media = get_text(&server, &format!("{}/{}", session_path(&session), variant.uri)).await;
    let parsed = m3u8_rs::parse_media_playlist_res(media.as_bytes()).unwrap();
    assert!(parsed.end_list);
    assert!(media.contains("#EXT-X-START:TIME-OFFSET=3.000,PRECISE=YES"), "{media}");
    assert_eq!(parsed.segments.len(), 6);
    assert!(parsed.segments.iter().all(|segment| segment.uri.contains(".ts?st=")));
    // A segment has a content type, a validator and cache headers.
    let segment = server.get(&format!("{}/v0-00001.ts", session_path(&session))).send().await.unwrap();
    assert_eq!(segment.status(), 200);
    assert_eq!(segment.headers()["content-type"], "video/mp2t");
    assert_eq!(segment.headers()["cache-control"], "private, max-age=3600, immutable");
    let etag = segment.headers()["etag"].clone();
    let length: usize = segment.headers()["content-length"].to_str().unwrap().parse().unwrap();
    assert_eq!(segment.bytes().await.unwrap().len(), length);
    let revalidation = server.get(&format!("{}/v0-00001.ts", session_path(&session))).header("if-none-match", etag);
    assert_eq!(revalidation.send().await.unwrap().status(), 304);

    let (warnings, seconds) =
        play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    assert_eq!(warnings, "");
    assert!((seconds - 7.0).abs() < 0.1, "{seconds}");

    let status = status(&server, &session).await;
    assert_eq!(status["ready"], true);
    assert_eq!(status["progress"], 100);
    assert_eq!(status["error"], Value::Null);
    assert_eq!(status["mode"], "transcode");
    assert_eq!(status["state"], "complete");
    assert_eq!(status["diagnostics"]["encoder"], "x264enc");
    assert_eq!(status["diagnostics"]["decoder"], "mpeg2video");
    assert_eq!(status["diagnostics"]["pipeline"], "gstreamer");
    assert_eq!(status["diagnostics"]["segmentsReady"], 6);
    assert_eq!(status["diagnostics"]["producedSeconds"], 7.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_repaired_in_place_is_encoded_again() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.ts");
    media::flash_and_beep(&film, 12, "-c:v mpeg2video -q:v 2 -g 25 -c:a mp2");
    let complete = std::fs::read(&film).unwrap();
    let mut damaged = complete.clone();
    let (from, to) = (complete.len() / 1880 * 188, complete.len() / 1880 * 188 * 9 / 2);
    assert!(
        from > 64 << 10 && to < complete.len() / 2 - (64 << 10),
        "the sampled parts are unchanged: {}",
        complete.len()
    );
    // Null packets, as in an unfinished download.
    for packet in damaged[from..to].chunks_exact_mut(188) {
        packet.copy_from_slice(&[&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat());
    }
    std::fs::write(&film, &damaged).unwrap();
    let modified = std::fs::metadata(&film).unwrap().modified().unwrap();
    // The damaged film is still being encoded when the repaired one starts.
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 2).await;
    let body = json!({"mediaPath": film.to_str().unwrap()});
    let fetch_segment = async |session: Value| {
        let answer = server.get(&format!("{}/v0-00001.ts", session_path(&session))).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        (answer.headers()["etag"].clone(), answer.bytes().await.unwrap())
    };
    let info = async || {
        let request = server.get(&format!("/api/stream/info/full?path={}", film.display()));
        send_until_ready(request).await.json::<Value>().await.unwrap()
    };
    let before = info().await;
    let first = fetch_segment(start(&server, &body).await).await;
    assert_eq!(
        first,
        fetch_segment(start(&server, &body).await).await,
        "an unchanged file gives the same session and segment"
    );
    // Repaired in place, with the same length and modification time.
    std::fs::write(&film, &complete).unwrap();
    std::fs::File::options().write(true).open(&film).unwrap().set_modified(modified).unwrap();
    let repaired = fetch_segment(start(&server, &body).await).await;
    assert!(first.0 != repaired.0 && first.1 != repaired.1, "no segment of the damaged film is used again");
    assert_eq!(before["mediaId"], info().await["mediaId"], "progress stays with the file");
}

#[tokio::test(flavor = "multi_thread")]
async fn supported_video_is_copied_and_only_audio_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    media::flash_and_beep(&film, 9, "-c:v libx264 -preset ultrafast -bf 2 -g 40 -c:a ac3 -b:a 192k");
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let session = start(&server, &json!({"mediaPath": film.to_str().unwrap()})).await;
    assert_eq!(session["playbackMode"], "transcode");
    assert_eq!((&session["decision"]["video"], &session["decision"]["audio"]), (&json!("copy"), &json!("encode")));
    assert_eq!(server.service.renditions.active_jobs(), 0, "copies take no encode slot");
    let master = get_text(&server, session["playlistUrl"].as_str().unwrap()).await;
    assert!(master.contains("CODECS=\"avc1."), "{master}");
    let (warnings, seconds) =
        play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    assert_eq!(warnings, "");
    assert!((seconds - 9.0).abs() < 0.1, "{seconds}");
    let status = status(&server, &session).await;
    assert_eq!((&status["state"], &status["diagnostics"]["encoder"]), (&json!("complete"), &json!("aac")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supported_file_is_played_directly() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a film & more.mp4");
    media::flash_and_beep(&film, 3, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac -movflags +faststart");
    let server = kit::start_server(&[folder.path()]).await;
    let answer = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "startPositionSeconds": 1.5})).await;
    assert_eq!(answer["playbackMode"], "direct");
    assert_eq!(
        (&answer["sessionId"], &answer["playlistUrl"], &answer["signedPlaylistUrl"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(answer["decision"]["reasons"], json!([]));
    // The signed URL needs no header.
    let url = format!("{}{}", server.base, answer["signedDirectUrl"].as_str().unwrap());
    let bytes = server.client.get(url).send().await.unwrap();
    assert_eq!(bytes.status(), 200);
    assert_eq!(bytes.bytes().await.unwrap(), std::fs::read(&film).unwrap());
    let forced = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true})).await;
    assert_eq!(
        (&forced["playbackMode"], &forced["decision"]["reasons"]),
        (&json!("transcode"), &json!(["START_FORCED"]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_file_plays_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    media::flash_and_beep(&film, 20, "-c:v mpeg4 -q:v 4 -g 25 -c:a ac3 -movflags +faststart");
    let complete_length = std::fs::metadata(&film).unwrap().len();
    std::fs::File::options().write(true).open(&film).unwrap().set_len(complete_length / 2).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film.to_str().unwrap()})).await;
    for index in 0..3 {
        let answer = server.get(&format!("{}/v0-{index:05}.ts", session_path(&session))).send().await.unwrap();
        assert_eq!(answer.status(), 200, "segment {index}");
    }
    let past_the_end = server.get(&format!("{}/v0-00009.ts", session_path(&session))).send().await.unwrap();
    assert_eq!(past_the_end.status(), 404, "the probe measured the real length");
    let answer = server.get(&format!("{}/v0-00001.ts", session_path(&session))).send().await.unwrap();
    assert_eq!(answer.status(), 200, "the session is still alive");
    assert_eq!(status(&server, &session).await["error"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_once_and_reports_it() {
    let folder = make_library(4);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film_path(&folder)})).await;
    let path = session_path(&session);
    let signed = session["signedPlaylistUrl"].as_str().unwrap();
    let grant = signed.split_once('?').unwrap().1;
    // A beacon sends a grant and no header.
    let stopped = server.client.post(format!("{}{path}/stop?{grant}", server.base)).send().await.unwrap();
    assert_eq!(stopped.status(), 200);
    let stopped: Value = stopped.json().await.unwrap();
    assert_eq!(stopped, json!({"sessionId": session["sessionId"], "stopped": true}));
    // The film is closed, so deleting it frees its disk space.
    let deadline = Instant::now() + MAX_WAIT;
    while open_descriptors(&folder.path().join("film.mkv")) > 0 {
        assert!(Instant::now() < deadline, "the film is still open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let second_stop =
        server.client.delete(format!("{}{path}", server.base)).bearer_auth(&server.token).send().await.unwrap();
    assert_eq!(second_stop.json::<Value>().await.unwrap()["stopped"], false);
    for asset in ["index.m3u8", "v0.m3u8", "v0-00000.ts"] {
        let answer = server.get(&format!("{path}/{asset}")).send().await.unwrap();
        assert_eq!(answer.status(), 410, "{asset}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], "SESSION_ENDED");
    }
    assert_eq!(status(&server, &session).await["state"], "stopped");
    let unknown = server.client.delete(format!("{}/api/stream/transcode/ts_0", server.base)).bearer_auth(&server.token);
    let unknown = unknown.send().await.unwrap();
    assert_eq!(unknown.status(), 404);
    assert_eq!(unknown.json::<Value>().await.unwrap()["code"], "SESSION_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_start_is_one_session_hidden_from_other_users() {
    let folder = make_library(4);
    let server = kit::start_server(&[folder.path()]).await;
    let options = json!({"mediaPath": film_path(&folder), "profile": {"resolution": "240p"}});
    let (first, second) = tokio::join!(start(&server, &options), start(&server, &options));
    assert_eq!(first["sessionId"], second["sessionId"]);
    let other_token =
        server.service.accounts.issue_token("neighbour", hearthcast::domain::access::Role::User).await.unwrap();
    let path = format!("{}{}/status", server.base, session_path(&first));
    assert_eq!(server.client.get(&path).bearer_auth(other_token).send().await.unwrap().status(), 404);
    assert_eq!(server.client.get(&path).bearer_auth(&server.admin).send().await.unwrap().status(), 200);
    assert_eq!(server.client.get(&path).send().await.unwrap().status(), 401);
    // The grant opens this session only.
    let grant = first["signedPlaylistUrl"].as_str().unwrap().split_once('?').unwrap().1.to_owned();
    let other_session = format!("{}/api/stream/transcode/ts_1/status?{grant}", server.base);
    assert_eq!(server.client.get(other_session).send().await.unwrap().status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_lists_sessions_of_all_users_and_stops_one() {
    let folder = make_library(4);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film_path(&folder), "startPositionSeconds": 1})).await;
    let list_sessions = async || {
        let list = server.request(Method::GET, "/api/stream/transcode/sessions").bearer_auth(&server.admin);
        list.send().await.unwrap().json::<Value>().await.unwrap()["sessions"].clone()
    };
    let listed = list_sessions().await;
    let listed_session = &listed[0];
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (&listed_session["sessionId"], &listed_session["mediaPath"], &listed_session["startPositionSeconds"]),
        (&session["sessionId"], &json!(film_path(&folder)), &json!(1.0))
    );
    let owner: Value = server.get("/api/auth/me").send().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&listed_session["userId"], &listed_session["username"]),
        (&owner["user"]["id"], &owner["user"]["username"])
    );
    assert_eq!(listed_session["diagnostics"]["video"]["action"], "encode");
    let stop = server.request(Method::DELETE, &session_path(&session)).bearer_auth(&server.admin).send().await.unwrap();
    assert_eq!(stop.json::<Value>().await.unwrap()["stopped"], true);
    assert_eq!(list_sessions().await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_start_options_are_refused_with_their_field() {
    let folder = make_library(4);
    let server = kit::start_server(&[folder.path()]).await;
    let path = film_path(&folder);
    let rows = [
        (json!({}), "VALIDATION_ERROR", Some("mediaPath")),
        (json!({"mediaPath": 7}), "VALIDATION_ERROR", Some("mediaPath")),
        (json!({"mediaPath": ""}), "INVALID_PATH", None),
        (json!({"mediaPath": path, "startPositionSeconds": -1}), "VALIDATION_ERROR", Some("startPositionSeconds")),
        (json!({"mediaPath": path, "startPositionSeconds": "1"}), "VALIDATION_ERROR", Some("startPositionSeconds")),
        (json!({"mediaPath": path, "audioStreamIndex": 0}), "VALIDATION_ERROR", Some("audioStreamIndex")),
        (json!({"mediaPath": path, "audioStreamIndex": -2}), "VALIDATION_ERROR", Some("audioStreamIndex")),
        (json!({"mediaPath": path, "audioStreamIndex": 1e300}), "VALIDATION_ERROR", Some("audioStreamIndex")),
        (json!({"mediaPath": path, "subtitleStreamIndex": 1}), "VALIDATION_ERROR", Some("subtitleStreamIndex")),
        (json!({"mediaPath": path, "subtitleMode": "loud"}), "VALIDATION_ERROR", Some("subtitleMode")),
        (json!({"mediaPath": path, "profile": {"resolution": "best"}}), "VALIDATION_ERROR", Some("profile.resolution")),
        (json!({"mediaPath": path, "profile": []}), "VALIDATION_ERROR", Some("profile")),
    ];
    for (body, code, field) in rows {
        let answer = server.post("/api/stream/transcode/start", &body).send().await.unwrap();
        let status = answer.status();
        let response: Value = answer.json().await.unwrap();
        assert_eq!((status.as_u16(), &response["code"]), (400, &json!(code)), "{body} {response}");
        if let Some(field) = field {
            assert_eq!(response["details"]["fields"][0]["field"], field, "{body} {response}");
        }
    }
    let outside =
        server.post("/api/stream/transcode/start", &json!({"mediaPath": "/etc/passwd"})).send().await.unwrap();
    assert_eq!(outside.status(), 403);
    assert_eq!(server.service.sessions.live_sessions().len(), 0);

    // Lenient values are accepted.
    let lenient = json!({
        "mediaPath": path, "startPositionSeconds": 400, "audioStreamIndex": -1, "subtitleMode": "embedded",
        "subtitleStreamIndex": -1, "profile": {"resolution": "4K"},
    });
    let session = start(&server, &lenient).await;
    assert_eq!(session["startPositionSeconds"], 3.0, "the start of the last segment: {session}");
}

#[tokio::test(flavor = "multi_thread")]
async fn preparing_is_reported_at_once_with_zero_wait() {
    let folder = make_library(4);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film_path(&folder)})).await;
    let url = session["playlistUrl"].as_str().unwrap();
    let answer = server.get(&format!("{url}?wait=0")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    // On a fast machine the playlist may be ready already.
    if answer.headers()["content-type"] == "application/json" {
        assert_eq!(answer.headers()["retry-after"], "1");
        let body: Value = answer.json().await.unwrap();
        assert_eq!((&body["status"], &body["ready"]), (&json!("preparing"), &json!(false)));
    }
    for wait in ["-1", "21", "NaN", "soon"] {
        let answer = server.get(&format!("{url}?wait={wait}")).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{wait}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_reported_with_retry_after() {
    // More pixels than one encode slot is expected to encode in real time.
    let folder = tempfile::tempdir().unwrap();
    let frames = "color=size=1920x1080:rate=60:duration=4";
    let path = folder.path().join("film.mkv");
    media::run_ffmpeg(&path, &["-f lavfi -i", frames, "-f lavfi -i", "sine=duration=4", "-c:v mpeg2video -c:a ac3"]);
    let server = kit::start_server_with(&[folder.path()], |config| {
        config.limits.concurrent_jobs = 1;
        config.limits.sessions_per_user = 2;
    })
    .await;
    server.service.renditions.backends.force(Arc::new(FakeBackend::with_segment_time(Duration::from_secs(60))));
    let with_resolution = |label: &str| json!({"mediaPath": film_path(&folder), "profile": {"resolution": label}});
    let with_start = |seconds: f64| json!({"mediaPath": film_path(&folder), "startPositionSeconds": seconds});
    start(&server, &with_start(0.0)).await;
    let busy = server.post("/api/stream/transcode/start", &with_resolution("720p")).send().await.unwrap();
    assert_eq!(busy.status(), 503);
    assert!(busy.headers().contains_key("retry-after"));
    let busy: Value = busy.json().await.unwrap();
    assert_eq!((&busy["code"], &busy["details"]["max"]), (&json!("TRANSCODER_BUSY"), &json!(1)));
    // The same rendition needs no further slot; only the user's own limit applies.
    start(&server, &with_start(1.0)).await;
    let many = server.post("/api/stream/transcode/start", &with_start(2.0)).send().await.unwrap();
    assert_eq!(many.status(), 429);
    assert!(many.headers().contains_key("retry-after"));
    assert_eq!(many.json::<Value>().await.unwrap()["code"], "TOO_MANY_SESSIONS");
}

/// Child processes of this process that have `file` open.
fn children_reading(file: &Path) -> Vec<i32> {
    let own_pid = std::process::id().to_string();
    let parent_pid = |stat: &str| stat.rsplit(')').next().unwrap_or("").split(' ').nth(2).map(str::to_owned);
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let open = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let is_open = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|target| target == file);
        if parent_pid(&stat).as_deref() == Some(&own_pid) && is_open {
            pids.push(pid);
        }
    }
    pids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_child_costs_the_viewer_nothing() {
    let folder = make_library(60);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film_path(&folder)})).await;
    get_text(&server, session["playlistUrl"].as_str().unwrap()).await;
    let file = folder.path().join("film.mkv");
    let children = children_reading(&file);
    assert_eq!(children.len(), 1);
    // The encode is paused ahead of its reader, so its process still exists.
    assert!(Command::new("kill").args(["-9", &children[0].to_string()]).status().unwrap().success());
    wait_until("the child still exists", || !children_reading(&file).contains(&children[0])).await;
    for index in [0, 14, 29] {
        let answer = server.get(&format!("{}/v0-{index:05}.ts", session_path(&session))).send().await.unwrap();
        assert_eq!(answer.status(), 200, "segment {index}");
        assert!(answer.bytes().await.unwrap().len() > 1000);
    }
    assert_eq!(status(&server, &session).await["error"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_stopped_sessions_leave_no_process_or_file() {
    let folder = make_library(60);
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 2).await;
    let file = folder.path().join("film.mkv");
    for round in 0..100 {
        let options = json!({"mediaPath": film_path(&folder), "startPositionSeconds": round % 50});
        let session = start(&server, &options).await;
        let path = session_path(&session);
        if round % 10 == 0 {
            server.get(&format!("{path}/index.m3u8")).send().await.unwrap();
        }
        let stopped = server.client.delete(format!("{}{path}", server.base)).bearer_auth(&server.token).send().await;
        assert_eq!(stopped.unwrap().json::<Value>().await.unwrap()["stopped"], true);
    }
    assert_eq!((server.service.sessions.live_sessions().len(), server.service.renditions.active_jobs()), (0, 0));
    wait_until("a child still exists", || children_reading(&file).is_empty()).await;
    server.service.shutdown().await;
    assert!(!server.folder.path().join("cache/segments").exists(), "no segment file is left");
    let refused = server.post("/api/stream/transcode/start", &json!({"mediaPath": film_path(&folder)})).send().await;
    assert_eq!(refused.unwrap().status(), 503);
}

/// Stream and time of every packet in a segment, sorted. A run's first segment may have other B-frames than the same segment
/// from the middle of a run, hence another order of its packets.
fn packet_times(bytes: &[u8]) -> Vec<(u64, i64)> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    let mut times: Vec<_> = media::packets(file.path()).iter().map(|packet| (packet.stream, packet.pts)).collect();
    times.sort_unstable();
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_the_same_in_any_order_of_fetching() {
    let folder = make_library(20);
    let orders: [&[usize]; 2] = [&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[7, 2, 9, 0, 11, 5, 3, 8, 10, 1, 6, 4]];
    let mut fetched = Vec::new();
    for order in orders {
        let server = kit::start_server(&[folder.path()]).await;
        let session = start(&server, &json!({"mediaPath": film_path(&folder)})).await;
        let mut segments = vec![Vec::new(); order.len()];
        for &index in order {
            let answer = server.get(&format!("{}/v0-{index:05}.ts", session_path(&session))).send().await.unwrap();
            assert_eq!(answer.status(), 200, "segment {index}");
            segments[index] = packet_times(&answer.bytes().await.unwrap());
        }
        fetched.push(segments);
    }
    assert_eq!(fetched[0], fetched[1]);
    let frames: usize = fetched[0].iter().flatten().filter(|(stream, _)| *stream == 0).count();
    assert_eq!(frames, 500);
}
