//! A database that accepts connections and does not answer: reads continue, changes wait or are refused, and nothing that was
//! acknowledged is missing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::household::{Household, Server, another_film, progress_path};

use crate::kit::wait::MAX_WAIT;

/// Longest time for a read, which needs no database: a busy machine may take long, but not as long as the longest hang.
const MAX_READ_TIME: Duration = Duration::from_secs(20);

/// Longest time for the answer to a change: 10 s for its commit, 10 s until its outcome is known, and 6 s for the last attempt
/// to connect.
const MAX_WRITE_TIME: Duration = Duration::from_secs(30);

/// The positions that one writer sent, by outcome.
#[derive(Default)]
struct Outcomes {
    acknowledged: Vec<u64>,
    refused: Vec<u64>,
    unknown: Vec<u64>,
    longest: Duration,
}

/// Saves increasing positions until it is stopped.
async fn write(base: String, token: String, film: PathBuf, is_stopped: Arc<AtomicBool>) -> Outcomes {
    let (client, mut outcomes) = (Client::new(), Outcomes::default());
    for position in 1.. {
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
        let body = json!({"mediaPath": film, "positionSeconds": position, "durationSeconds": 1_000_000});
        let request = client.post(format!("{base}/api/stream/progress")).bearer_auth(&token).json(&body);
        let began = Instant::now();
        let answer = request.timeout(MAX_WRITE_TIME).send().await.expect("an answer in time");
        outcomes.longest = outcomes.longest.max(began.elapsed());
        let status = answer.status();
        let body: Value = answer.json().await.expect("JSON");
        match (status, body["code"].as_str()) {
            (StatusCode::OK, _) => outcomes.acknowledged.push(position),
            (StatusCode::SERVICE_UNAVAILABLE, Some("SERVER_BUSY")) => outcomes.refused.push(position),
            (StatusCode::INTERNAL_SERVER_ERROR, Some("INTERNAL")) => {
                assert!(body["error"].as_str().unwrap().contains("is unknown"), "{body}");
                outcomes.unknown.push(position);
            }
            other => panic!("{other:?}: {body}"),
        }
        if status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    outcomes
}

/// Reads until it is stopped; returns the number of reads.
async fn read(base: String, token: String, path: String, is_stopped: Arc<AtomicBool>, reads: Arc<AtomicU64>) {
    let client = Client::new();
    while !is_stopped.load(Ordering::Relaxed) {
        let request = client.get(format!("{base}{path}")).bearer_auth(&token).timeout(MAX_READ_TIME);
        let answer = request.send().await.expect("a read in time");
        assert_eq!(answer.status(), StatusCode::OK);
        answer.bytes().await.expect("a whole answer");
        reads.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Positions of a film in the changes of the database, with how often each is there.
fn stored_counts(household: &Household, film: &std::path::Path) -> HashMap<u64, u64> {
    let statement = format!(
        "SELECT position || ' ' || count(*) FROM (SELECT (json::jsonb->>'position_seconds')::float::bigint AS position \
         FROM hearthcast_change WHERE tree = 'progress' AND json::jsonb->>'path' = '{}') AS changes GROUP BY position",
        film.display()
    );
    let rows = household.database.sql(&statement);
    let rows = rows.lines().filter_map(|row| row.split_once(' '));
    rows.map(|(position, count)| (position.parse().unwrap(), count.parse().unwrap())).collect()
}

async fn read_position(server: &Server, token: &str, film: &std::path::Path) -> u64 {
    let request = server.client.get(format!("{}{}", server.base, progress_path(film))).bearer_auth(token);
    let record: Value = request.send().await.unwrap().json().await.unwrap();
    record["progress"]["positionSeconds"].as_f64().unwrap_or(0.0) as u64
}

/// Stops all processes of the database for some time under reads and writes; returns the outcomes of the writers.
async fn hang_database(seconds: u64) -> Option<Vec<Outcomes>> {
    let household = Household::start().await?;
    let mut server = household.server("a");
    server.wait_until_listening();
    let films: Vec<PathBuf> = (0..3).map(|number| another_film(&household, &format!("film{number}.mp4"))).collect();
    let (is_stopped, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = films
        .iter()
        .map(|film| {
            let (base, token, path) = (server.base.clone(), household.token.clone(), progress_path(film));
            tokio::spawn(read(base, token, path, is_stopped.clone(), reads.clone()))
        })
        .collect();
    let writers: Vec<_> = films
        .iter()
        .map(|film| {
            let (base, token) = (server.base.clone(), household.token.clone());
            tokio::spawn(write(base, token, film.clone(), is_stopped.clone()))
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    household.database.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = reads.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(seconds - 1)).await;
    let during = reads.load(Ordering::Relaxed) - before;
    household.database.signal(Signal::CONT);
    eprintln!("{seconds} s: {during} reads meanwhile");
    assert!(during > seconds, "reads continue: {during}");
    let deadline = Instant::now() + MAX_WAIT;
    while server.save(1).await.unwrap().status() != StatusCode::OK {
        assert!(Instant::now() < deadline, "changes are accepted again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    is_stopped.store(true, Ordering::Relaxed);
    let mut outcomes = Vec::new();
    for writer in writers {
        outcomes.push(writer.await.expect("every answer is as expected"));
    }
    for reader in readers {
        reader.await.expect("no read failed");
    }

    for (film, outcomes) in films.iter().zip(&outcomes) {
        let counts = stored_counts(&household, film);
        for position in &outcomes.acknowledged {
            assert_eq!(counts.get(position), Some(&1), "position {position} was acknowledged");
        }
        for position in &outcomes.refused {
            assert_eq!(counts.get(position), None, "position {position} was refused");
        }
        for position in &outcomes.unknown {
            assert!(counts.get(position).is_none_or(|count| *count == 1), "position {position} is there twice");
        }
        let statement = format!(
            "SELECT (json::jsonb->>'position_seconds')::float::bigint FROM hearthcast_record \
             WHERE tree = 'progress' AND json::jsonb->>'path' = '{}'",
            film.display()
        );
        let stored: u64 = household.database.sql(&statement).parse().unwrap();
        assert_eq!(read_position(&server, &household.token, film).await, stored);
        eprintln!(
            "{} acknowledged, {} refused, {} unknown ({} of them there), longest {:?}",
            outcomes.acknowledged.len(),
            outcomes.refused.len(),
            outcomes.unknown.len(),
            outcomes.unknown.iter().filter(|position| counts.contains_key(position)).count(),
            outcomes.longest
        );
    }
    household.expect_dense_numbers();
    // The same from a copy that was opened again.
    let mut positions = Vec::new();
    for film in &films {
        positions.push(read_position(&server, &household.token, film).await);
    }
    server.kill();
    let mut server = household.server("a");
    server.wait_until_listening();
    for (film, position) in films.iter().zip(positions) {
        assert_eq!(read_position(&server, &household.token, film).await, position);
    }
    Some(outcomes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_for_5_s_only_delays_changes() {
    let Some(outcomes) = hang_database(5).await else { return };
    for outcomes in outcomes {
        assert!(outcomes.refused.is_empty() && outcomes.unknown.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_for_15_s_loses_no_acknowledged_change() {
    hang_database(15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_until_outcomes_are_unknown_shows_readers_what_it_has() {
    let Some(outcomes) = hang_database(25).await else { return };
    assert!(outcomes.iter().any(|outcomes| !outcomes.unknown.is_empty()), "an outcome was unknown");
}
