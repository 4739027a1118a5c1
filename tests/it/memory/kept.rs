//! Durability: what survives kill -9, damaged files, a full disk and failing system calls.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::small_film;
use crate::kit::kill;
use crate::kit::program::Program;

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_and_damage() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 40 + n)).collect();
    let seen = kill::rounds(&[folder.path()], &films, 6).await;
    assert!(seen.mended > 0, "damage is detected and logged: {seen:?}");
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_while_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 20 + n)).collect();
    if kill::rounds_with_the_disk_full(&[folder.path()], &films, 3, true).await.is_none() {
        eprintln!("no tmpfs can be mounted here");
    }
    let limited = kill::rounds_with_the_disk_full(&[folder.path()], &films, 3, false).await;
    assert!(limited.is_some(), "file size limits need no privileges");
}

#[tokio::test]
async fn answers_hold_after_kill_9_while_system_calls_fail() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 60 + n)).collect();
    let seen = kill::rounds_with_faults(&[folder.path()], &films, 4).await;
    assert!(seen.acknowledged > 0 && seen.faults.iter().sum::<u64>() > 0, "{seen:?}");
}

#[tokio::test]
async fn nothing_is_touched_where_a_start_has_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "a.mp4", 30);
    let Some(mut program) = Program::start_fillable(&[folder.path()], true).await else {
        return eprintln!("no tmpfs can be mounted here");
    };
    let body = json!({"mediaPath": film, "positionSeconds": 12.0, "durationSeconds": 3600.0});
    let save = program.client.post(format!("{}/api/stream/progress", program.base)).bearer_auth(&program.token);
    assert_eq!(save.json(&body).send().await.unwrap().status(), 200);
    program.kill();
    let disk = program.disk().unwrap();
    disk.fill(1 << 20);
    let lies = || {
        let mut files = Vec::new();
        let mut folders = vec![program.state()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.file_name() == "lock" => {}
                    false => files.push((entry.path(), std::fs::read(entry.path()).unwrap())),
                }
            }
        }
        files.sort();
        files
    };
    let before = lies();
    let inside = program.inside().join("state");
    let mut command = disk.enter();
    let tried = command.arg(env!("CARGO_BIN_EXE_hearthcast")).args(["user", "list", "--state"]).arg(inside).output();
    let tried = tried.unwrap();
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert_eq!(tried.status.code(), Some(1), "{said}");
    assert!(said.contains("the disk is full: ") && said.contains("4194304 are required"), "{said}");
    assert!(lies() == before, "a refused start changes nothing");
    disk.free();
    program.restart().await;
    let query = serde_urlencoded::to_string([("path", film.to_str().unwrap())]).unwrap();
    let stands = program.get(&format!("/api/stream/progress?{query}")).send().await.unwrap();
    assert_eq!(stands.json::<Value>().await.unwrap()["progress"]["positionSeconds"], 12.0);
}

#[tokio::test]
async fn a_disk_that_is_full_in_truth_is_507_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 60 + n)).collect();
    // No file may grow beyond 3 MiB: the effect of a full disk on a write, without a disk.
    let mut program = Program::start_limited(&[folder.path()], &[], 3 << 20).await;
    let url = format!("{}/api/stream/progress", program.base);
    let mut told = vec![0; films.len()];
    let mut refused = 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    for position in 1.. {
        assert!(Instant::now() < deadline, "the disk fills up within a minute");
        let saves = (0..64).map(|n| {
            let body = json!({"mediaPath": films[n % 8], "positionSeconds": position, "durationSeconds": 1e6,
                "title": "x".repeat(512), "deviceId": "y".repeat(128)});
            let request = program.client.post(&url).bearer_auth(&program.token).json(&body);
            async move {
                let answer = request.send().await.unwrap();
                (n % 8, answer.status().as_u16(), answer.json::<Value>().await.unwrap())
            }
        });
        for (film, status, answer) in futures_util::future::join_all(saves).await {
            match status {
                200 => told[film] = answer["version"].as_u64().unwrap().max(told[film]),
                507 => {
                    assert_eq!(answer["code"], "STORAGE_FULL");
                    refused += 1;
                }
                other => panic!("{other}: {answer}"),
            }
        }
        if refused > 200 {
            break;
        }
    }
    assert!(told.iter().all(|version| *version > 1), "saves succeeded before: {told:?}");
    let versions = async |program: &Program| {
        let mut versions = Vec::new();
        for film in &films {
            let query = serde_urlencoded::to_string([("path", film.to_str().unwrap())]).unwrap();
            let answer = program.get(&format!("/api/stream/progress?{query}")).send().await.unwrap();
            assert_eq!(answer.status(), 200, "reads succeed on a full disk: {}", program.log());
            versions.push(answer.json::<Value>().await.unwrap()["progress"]["version"].as_u64().unwrap());
        }
        versions
    };
    assert!(versions(&program).await.iter().zip(&told).all(|(stands, told)| stands >= told));
    program.kill();
    program.restart().await;
    let stand = versions(&program).await;
    assert!(stand.iter().zip(&told).all(|(stands, told)| stands >= told), "{stand:?} after {told:?} were acknowledged");
}
