//! The state in PostgreSQL: what survives kill -9 of either side, failover, and the migration both ways.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;

use super::household::{Household, Server, run};
use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// Exit status of a server that another one has replaced.
const REPLACED_EXIT_STATUS: i32 = 75;

#[tokio::test]
async fn acknowledged_saves_survive_kill_9_of_the_server() {
    let Some(house) = Household::start().await else { return };
    let rounds = std::env::var("HEARTHCAST_DATABASE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let (mut acknowledged, mut sent) = (0, 0);
    for round in 0..rounds {
        let mut server = house.server("a");
        server.wait_until_listening();
        let found = server.position().await;
        assert!((acknowledged..=sent).contains(&found), "round {round}: {found} of {acknowledged} to {sent}");
        let killer = server.child.id();
        let killed = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60 + round * 37 % 200));
            let pid = rustix::process::Pid::from_raw(killer as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        });
        loop {
            sent += 1;
            match server.save(sent).await {
                Ok(response) if response.status() == StatusCode::OK => acknowledged = sent,
                Ok(response) => panic!("{}", response.text().await.unwrap_or_default()),
                Err(_) => break,
            }
        }
        killed.join().unwrap();
        server.kill();
        match round % 5 {
            1 => std::fs::remove_dir_all(&server.state).unwrap(),
            3 => std::fs::write(server.state.join("journal"), "damaged").unwrap(),
            _ => {}
        }
    }
    assert!(acknowledged > 0, "something was saved");
    house.expect_dense_numbers();
}

#[tokio::test]
async fn without_its_database_a_server_reads_and_refuses_changes() {
    let Some(mut house) = Household::start().await else { return };
    let mut server = house.server("a");
    server.wait_until_listening();
    assert_eq!(server.save(7).await.unwrap().status(), StatusCode::OK);
    house.database.kill();
    tokio::time::sleep(Duration::from_secs(2)).await;
    for position in [8, 9] {
        let refused = server.save(position).await.unwrap();
        expect_error(refused, 503, "SERVER_BUSY").await;
        assert_eq!(server.position().await, 7);
    }
    house.database.run();
    let deadline = Instant::now() + MAX_WAIT;
    while server.save(20).await.unwrap().status() != StatusCode::OK {
        assert!(Instant::now() < deadline, "changes are accepted again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(server);
    let mut server = house.server("b");
    server.wait_until_listening();
    assert_eq!(server.position().await, 20);
    house.expect_dense_numbers();
}

#[tokio::test]
async fn a_standby_takes_over_and_the_former_active_server_writes_nothing() {
    let Some(house) = Household::start().await else { return };
    let mut active = house.server("a");
    active.wait_until_listening();
    assert_eq!(active.save(5).await.unwrap().status(), StatusCode::OK);
    let mut standby = house.server("b");
    standby.wait_until_standby();
    let log = std::fs::read_to_string(house.folder.path().join("b/log")).unwrap();
    assert!(log.contains("standby: another server is the active one"), "{log}");

    active.signal(rustix::process::Signal::STOP);
    let sessions = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    assert_eq!(house.database.sql(sessions), "1");
    let took = standby.wait_until_listening();
    eprintln!("failover after {took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(standby.position().await, 5);
    assert_eq!(standby.save(100).await.unwrap().status(), StatusCode::OK);
    active.signal(rustix::process::Signal::CONT);
    let outcome = active.save(50).await;
    assert!(outcome.is_err(), "it ends before it answers: {outcome:?}");
    assert_eq!(active.child.wait().unwrap().code(), Some(REPLACED_EXIT_STATUS));
    assert_eq!(standby.position().await, 100);

    // The same after kill -9, without a change in between.
    let mut third = house.server("a");
    standby.kill();
    let took = third.wait_until_listening();
    eprintln!("start and failover after kill -9: {took:?}");
    assert_eq!(third.position().await, 100);
    house.expect_dense_numbers();
}

#[tokio::test]
async fn a_session_continues_on_the_server_that_takes_over() {
    let Some(household) = Household::start().await else { return };
    let mut active = household.server("a");
    active.wait_until_listening();
    let body = json!({"mediaPath": household.film, "forceTranscode": true});
    let start = active.client.post(format!("{}/api/stream/transcode/start", active.base)).json(&body);
    let started = expect_success(send_until_ready(start.bearer_auth(&household.token)).await, 200).await;
    let signed = started["signedPlaylistUrl"].as_str().unwrap().to_owned();
    let fetch = async |server: &Server, name: &str| {
        let url = format!("{}{}", server.base, signed.replace("index.m3u8", name));
        let answer = send_until_ready(server.client.get(url)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        answer.bytes().await.unwrap()
    };
    let mut standby = household.server("b");
    standby.wait_until_standby();
    let before = [fetch(&active, "index.m3u8").await, fetch(&active, "v0.m3u8").await];
    let stored = "SELECT count(*) FROM hearthcast_record WHERE tree = 'sessions' AND json LIKE '%\"isReady\":true%'";
    let deadline = Instant::now() + MAX_WAIT;
    while household.database.sql(stored) != "1" {
        assert!(Instant::now() < deadline, "the session is stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    active.kill();
    assert!(!fetch(&standby, "v0-00000.ts").await.is_empty());
    assert_eq!([fetch(&standby, "index.m3u8").await, fetch(&standby, "v0.m3u8").await], before);
}

#[tokio::test]
async fn export_and_import_move_a_state_both_ways() {
    let Some(house) = Household::start().await else { return };
    let mut server = house.server("a");
    server.wait_until_listening();
    assert_eq!(server.save(42).await.unwrap().status(), StatusCode::OK);
    let other = house.folder.path().join("other");
    // A running server may be exported, but neither replaced nor changed.
    let exported = run(&["export"], &house.database.url, &other, None);
    let file = house.folder.path().join("back");
    std::fs::write(&file, &exported).unwrap();
    let file = file.to_str().unwrap();
    run(&["import", "--replace", file], &house.database.url, &other, Some("in use by a running server"));
    server.kill();
    run(&["import", file], &house.database.url, &other, Some("already contains a state"));
    run(&["user", "list"], server.state.to_str().unwrap(), &other, Some("is the copy of a state in PostgreSQL"));
    assert!(String::from_utf8(run(&["user", "list"], &house.database.url, &other, None)).unwrap().contains("viewer"));

    let files = house.folder.path().join("files-again");
    run(&["import", file], files.to_str().unwrap(), &other, None);
    let from_files = run(&["export"], files.to_str().unwrap(), &other, None);
    let sorted = |export: &[u8]| {
        let mut lines: Vec<String> = String::from_utf8(export.to_vec()).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&from_files), sorted(&exported));
    // Replaced in the database: the copy of the former state is made again.
    run(&["import", "--replace", file], &house.database.url, &other, None);
    let mut server = house.server("a");
    server.wait_until_listening();
    assert_eq!(server.position().await, 42);
    let checked = String::from_utf8(run(&["config", "check"], &house.database.url, &other, None)).unwrap();
    assert!(checked.contains("in PostgreSQL") && !checked.contains("postgres://"), "{checked}");
}

#[tokio::test]
async fn tables_of_the_first_version_get_their_new_column() {
    let Some(household) = Household::start().await else { return };
    let mut server = household.server("a");
    server.wait_until_listening();
    assert_eq!(server.save(5).await.unwrap().status(), StatusCode::OK);
    server.kill();
    household.database.sql("ALTER TABLE hearthcast_state DROP COLUMN active_address");
    let mut server = household.server("a");
    server.wait_until_listening();
    assert_eq!(household.database.sql("SELECT active_address FROM hearthcast_state"), server.base);
    assert_eq!(server.position().await, 5);
}
