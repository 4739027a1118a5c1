//! Sessions over the end of the server process: after `kill -9` players continue with the same playlists.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::sessions::session_path;
use crate::kit::media;
use crate::kit::program::ServerProcess;
use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// A film of 12 s with two languages that browsers play, so its video is copied unless it is scaled.
fn make_film(path: &Path) {
    media::run_ffmpeg(
        path,
        &[
            "-f lavfi -i",
            "testsrc2=s=640x360:r=25:d=12",
            "-f lavfi -i",
            "sine=frequency=440:duration=12",
            "-f lavfi -i",
            "sine=frequency=880:duration=12",
            "-map 0:v -map 1:a -map 2:a -c:v libx264 -preset ultrafast -b:v 3M -pix_fmt yuv420p -g 50 -keyint_min 50 -sc_threshold 0 -c:a aac -ac 2",
            "-metadata:s:a:0 language=ger -metadata:s:a:1 language=eng",
        ],
    );
}

/// Options of a page. In its original resolution the video is copied.
fn options(film: &Path, resolution: &str, is_adaptive: bool) -> Value {
    json!({
        "mediaPath": film.to_str().unwrap(), "forceTranscode": true, "startPositionSeconds": 4,
        "profile": {"resolution": resolution, "abr": is_adaptive},
        "capabilities": {"codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true, "textRenditions": true},
    })
}

async fn start(program: &ServerProcess, options: &Value) -> Value {
    let request = program.client.post(format!("{}/api/stream/transcode/start", program.base)).json(options);
    expect_success(send_until_ready(request.bearer_auth(&program.token)).await, 200).await
}

/// Waits until the journal, which `kill -9` leaves, has a text.
async fn wait_for_journal(program: &ServerProcess, is_expected: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let journal = std::fs::read(program.state_folder().join("journal")).unwrap();
        if is_expected(&String::from_utf8_lossy(&journal)) {
            return;
        }
        assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&journal));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn get_text(program: &ServerProcess, path: &str) -> String {
    let answer = send_until_ready(program.get(path)).await;
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, StatusCode::OK, "{path}: {text}\n{}", program.log());
    text
}

/// The addresses of a playlist, without their grants, in order.
fn addresses(playlist: &str) -> Vec<&str> {
    let tags = playlist.split('"').filter(|part| part.contains("?st=") && !part.contains('\n'));
    let lines = playlist.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    tags.chain(lines).map(|address| address.split('?').next().unwrap()).collect()
}

/// All playlists of a session: the multivariant playlist and those that it names.
async fn playlists(program: &ServerProcess, session: &str) -> Vec<(String, String)> {
    let index = get_text(program, &format!("{session}/index.m3u8")).await;
    let mut found = vec![("index.m3u8".to_owned(), index.clone())];
    for name in addresses(&index) {
        if !found.iter().any(|(known, _)| known == name) {
            found.push((name.to_owned(), get_text(program, &format!("{session}/{name}")).await));
        }
    }
    found
}

async fn expect_segment(program: &ServerProcess, path: &str) {
    let answer = program.get(path).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "{path}\n{}", program.log());
    assert!(answer.bytes().await.unwrap().len() > 100, "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_encoded_and_adaptive_sessions_continue_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let mut program = ServerProcess::start(&[folder.path()], &[("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4")]).await;
    let mut before = Vec::new();
    // Of the adaptive one, the best rung is copied and the other one encoded.
    for (resolution, is_adaptive, action, encoded_playlist) in [
        ("original", false, "copy", None),
        ("240p", false, "encode", Some("v0.m3u8")),
        ("original", true, "copy", Some("v1.m3u8")),
    ] {
        let session = start(&program, &options(&film, resolution, is_adaptive)).await;
        let decision = &session["decision"];
        assert_eq!((&decision["video"], &decision["format"]), (&json!(action), &json!("fmp4")), "{decision}");
        let path = session_path(&session);
        let playlists = playlists(&program, &path).await;
        let names: Vec<&str> = playlists.iter().map(|(name, _)| name.as_str()).collect();
        assert!(["v0.m3u8", "a0.m3u8", "a1.m3u8"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(encoded_playlist.is_none_or(|name| names.contains(&name)), "{names:?}");
        expect_segment(&program, &format!("{path}/v0-00002.m4s")).await;
        expect_segment(&program, &format!("{path}/a0-00002.m4s")).await;
        // The playlist of an encoded rendition publishes its init segment, which is stored as well.
        let id = session["sessionId"].as_str().unwrap();
        wait_for_journal(&program, |journal| {
            let last = journal.lines().rfind(|line| line.contains(id));
            let has_init = |record: &str| encoded_playlist.is_none() || record.contains("\"bytes\":");
            last.is_some_and(|record| record.contains("\"isReady\":true") && has_init(record))
        })
        .await;
        before.push((path, session["signedPlaylistUrl"].clone(), playlists));
    }
    let stopped = start(&program, &json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true})).await;
    let stopped_id = stopped["sessionId"].as_str().unwrap();
    wait_for_journal(&program, |journal| journal.contains(stopped_id)).await;
    let stop = program.client.delete(format!("{}{}", program.base, session_path(&stopped))).bearer_auth(&program.token);
    expect_success(stop.send().await.unwrap(), 200).await;
    wait_for_journal(&program, |journal| {
        let last = journal.lines().rfind(|line| line.contains(stopped_id)).unwrap();
        !last.contains("startedAt")
    })
    .await;

    program.restart().await;
    let listed = program.client.get(format!("{}/api/stream/transcode/sessions", program.base));
    let listed = expect_success(listed.bearer_auth(&program.admin).send().await.unwrap(), 200).await;
    assert_eq!(listed["sessions"], json!([]), "sessions continue when they are requested");
    for (path, signed, earlier) in &before {
        // As a player does: first the next segments, several at once, with the grant alone.
        let grant = signed.as_str().unwrap().split_once('?').unwrap().1;
        let get = |name: &str| program.client.get(format!("{}{path}/{name}?{grant}", program.base)).send();
        let (video, audio, other) = tokio::join!(get("v0-00004.m4s"), get("a0-00004.m4s"), get("a1-00004.m4s"));
        for answer in [video, audio, other] {
            let answer = answer.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}: {}\n{}", answer.text().await.unwrap(), program.log());
        }
        assert_eq!(&playlists(&program, path).await, earlier, "{path}");
        for (_, playlist) in &earlier[1..] {
            for address in addresses(playlist) {
                expect_segment(&program, &format!("{path}/{address}")).await;
            }
        }
        let status = expect_success(program.get(&format!("{path}/status")).send().await.unwrap(), 200).await;
        assert_eq!(status["ready"], true, "{status}");
    }
    let ended = program.get(&format!("{}/index.m3u8", session_path(&stopped))).send().await.unwrap();
    expect_error(ended, 404, "SESSION_NOT_FOUND").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_film_was_replaced_ends_and_so_does_that_of_a_removed_user() {
    let folder = tempfile::tempdir().unwrap();
    let films = ["replaced.mkv", "gone.mkv", "stopped.mkv"].map(|name| folder.path().join(name));
    films.iter().for_each(|film| make_film(film));
    let mut program = ServerProcess::start(&[folder.path()], &[]).await;
    let mut sessions = Vec::new();
    for film in &films {
        sessions.push(start(&program, &options(film, "original", false)).await);
    }
    let other_film = folder.path().join("other.mkv");
    make_film(&other_film);
    // Of an admin, who is removed afterwards by another one.
    let admin = program.client.post(format!("{}/api/users", program.base)).bearer_auth(&program.admin);
    let member = json!({"username": "member", "password": "correct horse", "role": "user"});
    let member = expect_success(admin.json(&member).send().await.unwrap(), 201).await;
    let login = json!({"username": "member", "password": "correct horse"});
    let login = program.client.post(format!("{}/api/auth/login", program.base)).json(&login).send().await.unwrap();
    let member_token = expect_success(login, 200).await["token"].as_str().unwrap().to_owned();
    let request = program.client.post(format!("{}/api/stream/transcode/start", program.base));
    let request = request.json(&options(&other_film, "original", false)).bearer_auth(member_token);
    let of_member = expect_success(send_until_ready(request).await, 200).await;
    for session in sessions.iter().chain([&of_member]) {
        let id = session["sessionId"].as_str().unwrap();
        wait_for_journal(&program, |journal| journal.contains(id)).await;
    }
    let user_id = member["user"]["id"].as_str().or(member["id"].as_str()).unwrap();
    let remove = program.client.delete(format!("{}/api/users/{user_id}", program.base)).bearer_auth(&program.admin);
    assert!(remove.send().await.unwrap().status().is_success());

    program.kill();
    let modified = std::fs::metadata(&films[0]).unwrap().modified().unwrap() + Duration::from_secs(10);
    std::fs::File::options().write(true).open(&films[0]).unwrap().set_modified(modified).unwrap();
    std::fs::remove_file(&films[1]).unwrap();
    program.try_start().await.unwrap();
    for session in &sessions[..2] {
        let path = session_path(session);
        expect_error(program.get(&format!("{path}/v0-00003.m4s")).send().await.unwrap(), 410, "SESSION_ENDED").await;
        let status = expect_success(program.get(&format!("{path}/status")).send().await.unwrap(), 200).await;
        assert_eq!((&status["state"], &status["ready"]), (&json!("stopped"), &json!(false)));
    }
    // A stop ends it without resuming it, and once.
    let path = session_path(&sessions[2]);
    for is_first in [true, false] {
        let stop = program.client.request(Method::DELETE, format!("{}{path}", program.base));
        let stop = expect_success(stop.bearer_auth(&program.token).send().await.unwrap(), 200).await;
        assert_eq!(stop["stopped"], is_first);
    }
    let admin = program.client.get(format!("{}{}/index.m3u8", program.base, session_path(&of_member)));
    expect_error(admin.bearer_auth(&program.admin).send().await.unwrap(), 410, "SESSION_ENDED").await;
}
