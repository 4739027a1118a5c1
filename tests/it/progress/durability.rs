//! Durability: what survives kill -9, damaged files, a full disk and failing system calls.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::small_film;
use crate::kit::kill;
use crate::kit::program::ServerProcess;
use crate::kit::wait::MAX_WAIT;

#[tokio::test]
async fn acknowledged_saves_survive_kill_9_and_damage() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 40 + n)).collect();
    let report = kill::kill_rounds(&[folder.path()], &films, 6).await;
    assert!(report.damaged > 0, "damage is detected and logged: {report:?}");
}

#[tokio::test]
async fn acknowledged_saves_survive_kill_9_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 20 + n)).collect();
    if kill::kill_rounds_with_full_disk(&[folder.path()], &films, 3, true).await.is_none() {
        eprintln!("no tmpfs can be mounted here");
    }
    let limited = kill::kill_rounds_with_full_disk(&[folder.path()], &films, 3, false).await;
    assert!(limited.is_some(), "file size limits need no privileges");
}

#[tokio::test]
async fn answers_are_true_after_kill_9_while_system_calls_fail() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 60 + n)).collect();
    let report = kill::kill_rounds_with_faults(&[folder.path()], &films, 4).await;
    assert!(report.acknowledged > 0 && report.faults.iter().sum::<u64>() > 0, "{report:?}");
}

#[tokio::test]
async fn a_start_without_disk_space_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "a.mp4", 30);
    let Some(mut program) = ServerProcess::start_fillable(&[folder.path()], true).await else {
        return eprintln!("no tmpfs can be mounted here");
    };
    let body = json!({"mediaPath": film, "positionSeconds": 12.0, "durationSeconds": 3600.0});
    let save = program.client.post(format!("{}/api/stream/progress", program.base)).bearer_auth(&program.token);
    assert_eq!(save.json(&body).send().await.unwrap().status(), 200);
    program.kill();
    let disk = program.disk().unwrap();
    disk.fill_up_to(1 << 20);
    let state_files = || {
        let mut files = Vec::new();
        let mut folders = vec![program.state_folder()];
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
    let before = state_files();
    let state_inside = program.mount_point().join("state");
    let mut command = disk.command_inside();
    let result =
        command.arg(env!("CARGO_BIN_EXE_hearthcast")).args(["user", "list", "--state"]).arg(state_inside).output();
    let tried = result.unwrap();
    let stderr = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert_eq!(tried.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the disk is full: ") && stderr.contains("4194304 are required"), "{stderr}");
    assert!(state_files() == before, "a refused start changes nothing");
    disk.free();
    program.restart().await;
    let query = serde_urlencoded::to_string([("path", film.to_str().unwrap())]).unwrap();
    let record = program.get(&format!("/api/stream/progress?{query}")).send().await.unwrap();
    assert_eq!(record.json::<Value>().await.unwrap()["progress"]["positionSeconds"], 12.0);
}

#[tokio::test]
async fn a_full_disk_is_507_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let films: Vec<PathBuf> = (0..8).map(|n| small_film(folder.path(), &format!("{n}.mp4"), 60 + n)).collect();
    // No file may grow beyond 8 MiB: the effect of a full disk on a write, without a disk. The index stays well below that.
    let mut program = ServerProcess::start_limited(&[folder.path()], &[], 8 << 20).await;
    let url = format!("{}/api/stream/progress", program.base);
    let mut acknowledged = vec![0; films.len()];
    let mut refused = 0;
    let deadline = Instant::now() + MAX_WAIT;
    for position in 1.. {
        assert!(Instant::now() < deadline, "the disk fills up in time");
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
                200 => acknowledged[film] = answer["version"].as_u64().unwrap().max(acknowledged[film]),
                507 => {
                    assert_eq!(answer["code"], "STORAGE_FULL");
                    refused += 1;
                }
                // The index may reach the limit before the journal does; then it is reopened.
                503 => assert_eq!(answer["code"], "SERVER_BUSY"),
                other => panic!("{other}: {answer}"),
            }
        }
        if refused > 200 {
            break;
        }
    }
    assert!(acknowledged.iter().all(|version| *version > 1), "saves succeeded before: {acknowledged:?}");
    let versions = async |program: &ServerProcess| {
        let mut versions = Vec::new();
        for film in &films {
            let query = serde_urlencoded::to_string([("path", film.to_str().unwrap())]).unwrap();
            let read = async || program.get(&format!("/api/stream/progress?{query}")).send().await.unwrap();
            let mut answer = read().await;
            while answer.status() == 503 {
                assert!(Instant::now() < deadline, "the index is reopened: {}", program.log());
                tokio::time::sleep(Duration::from_millis(100)).await;
                answer = read().await;
            }
            assert_eq!(answer.status(), 200, "reads succeed on a full disk: {}", program.log());
            versions.push(answer.json::<Value>().await.unwrap()["progress"]["version"].as_u64().unwrap());
        }
        versions
    };
    assert!(
        versions(&program)
            .await
            .iter()
            .zip(&acknowledged)
            .all(|(stored_version, acknowledged_version)| stored_version >= acknowledged_version)
    );
    program.kill();
    program.restart().await;
    let stored = versions(&program).await;
    assert!(
        stored
            .iter()
            .zip(&acknowledged)
            .all(|(stored_version, acknowledged_version)| stored_version >= acknowledged_version),
        "{stored:?} after {acknowledged:?} were acknowledged"
    );
}
