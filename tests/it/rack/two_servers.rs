//! Two servers of one database: the standby passes requests on and takes over, alone and with nginx in front of both.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::household::{Household, Pair, Server, another_film, progress_path};
use super::nginx_server::NginxServer;
use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// Longest time for an answer during a fail-over: a request is held for 10 s at most.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(12);

/// Rounds of kill -9; `HEARTHCAST_FAILOVER_ROUNDS` raises it.
const ROUNDS: u64 = 5;

fn rounds() -> u64 {
    std::env::var("HEARTHCAST_FAILOVER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

impl Pair {
    fn request(&self, server: &Server, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = server.client.request(method, format!("{}{path}", server.base));
        request.bearer_auth(&self.household.token).timeout(Duration::from_secs(30))
    }

    async fn get(&self, server: &Server, path: &str) -> Response {
        send_until_ready(self.request(server, Method::GET, path)).await
    }

    /// The same body from both addresses, at the latest when the server has read its library.
    async fn expect_same(&self, path: &str) -> Vec<u8> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let (first, second) = (self.get(&self.active, path).await, self.get(&self.standby, path).await);
            assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK), "{path}");
            let headers = |response: &Response| {
                ["content-type", "etag", "cache-control", "content-length", "x-api-version"]
                    .map(|name| response.headers().get(name).cloned())
            };
            let (first_headers, second_headers) = (headers(&first), headers(&second));
            let (first, second) = (first.bytes().await.unwrap(), second.bytes().await.unwrap());
            if first == second && first_headers == second_headers {
                return first.to_vec();
            }
            assert!(Instant::now() < deadline, "{path}: {first_headers:?} {second_headers:?}");
        }
    }
}

#[tokio::test]
async fn both_addresses_give_the_same_bytes() {
    let Some(pair) = Pair::start().await else { return };
    let (active, standby) = (&pair.active, &pair.standby);
    let health = |server: &Server| server.client.get(format!("{}/api/health", server.base)).send();
    assert_eq!(health(active).await.unwrap().json::<Value>().await.unwrap(), json!({"status": "ok"}));
    assert_eq!(health(standby).await.unwrap().json::<Value>().await.unwrap(), json!({"status": "standby"}));

    // A channel and a session, both made through the standby.
    let start = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(30);
    let body = json!({"name": "One", "startAt": start.to_string(), "items": [{"path": pair.household.film}]});
    let request = standby.client.post(format!("{}/api/livetv/channels", standby.base));
    let created = request.bearer_auth(&pair.household.admin).json(&body).send().await.unwrap();
    let channel = expect_success(created, 201).await["channel"].clone();
    pair.expect_same("/api/livetv/channels").await;
    let live = format!("/api/livetv/watch/{}/live.m3u8", channel["id"]);
    // A window moves on between two requests; sooner or later both fall into the same second.
    let mut is_same = false;
    for _ in 0..20 {
        let (first, second) = (pair.get(active, &live).await, pair.get(standby, &live).await);
        assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
        let without_viewer =
            |text: String| text.lines().map(|line| line.split('?').next().unwrap().to_owned()).collect();
        let (first, second): (Vec<String>, Vec<String>) =
            (without_viewer(first.text().await.unwrap()), without_viewer(second.text().await.unwrap()));
        is_same |= first == second && first.iter().any(|line| line.ends_with(".ts"));
    }
    assert!(is_same, "the playlists of the channel are the same");
    let options = json!({"mediaPath": pair.household.film, "forceTranscode": true});
    let request = pair.request(standby, Method::POST, "/api/stream/transcode/start").json(&options);
    let started = expect_success(send_until_ready(request).await, 200).await;
    // From playlist to playlist to segment: each address is relative to the one before.
    let mut address = Url::parse(&standby.base).unwrap().join(started["signedPlaylistUrl"].as_str().unwrap()).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..3 {
        bytes = pair.expect_same(&format!("{}?{}", address.path(), address.query().unwrap_or_default())).await;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(line) = text.lines().find(|line| text.starts_with("#EXTM3U") && !line.starts_with('#')) {
            address = address.join(line).unwrap();
        }
    }
    assert!(bytes.starts_with(b"G"), "a segment of a transport stream at {address}");

    // Errors and methods.
    expect_error(pair.get(standby, "/api/none").await, 404, "NOT_FOUND").await;
    let large = pair.request(standby, Method::POST, "/api/stream/progress").body(vec![b' '; 100_000]);
    expect_error(large.send().await.unwrap(), 413, "PAYLOAD_TOO_LARGE").await;
    let file = format!("/api/stream/file?path={}", pair.household.film.display());
    let head = pair.request(standby, Method::HEAD, &file).send().await.unwrap();
    let bytes = std::fs::read(&pair.household.film).unwrap();
    assert_eq!(head.headers()["content-length"], bytes.len().to_string().as_str());
    assert!(pair.expect_same(&file).await == bytes);
    let range = pair.request(standby, Method::GET, &file).header("range", "bytes=7-1006").send().await.unwrap();
    assert_eq!(range.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(range.headers()["content-range"], format!("bytes 7-1006/{}", bytes.len()).as_str());
    assert!(range.bytes().await.unwrap() == bytes[7..=1006]);
}

#[tokio::test]
async fn a_change_at_the_standby_is_there_at_both_and_events_pass_through() {
    let Some(pair) = Pair::start().await else { return };
    let mut events = pair.request(&pair.standby, Method::GET, "/api/events").send().await.unwrap();
    let mut text = String::new();
    for position in [7, 8, 9] {
        let server = if position == 8 { &pair.active } else { &pair.standby };
        assert_eq!(server.save(position).await.unwrap().status(), StatusCode::OK);
        assert_eq!((pair.active.position().await, pair.standby.position().await), (position, position));
    }
    let deadline = Instant::now() + MAX_WAIT;
    while text.matches("event: progress").count() < 3 {
        assert!(Instant::now() < deadline, "{text}");
        let chunk = tokio::time::timeout(MAX_WAIT, events.chunk()).await.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    pair.household.expect_dense_numbers();
}

fn wait_until(what: &str, is_met: impl Fn() -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !is_met() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn the_copy_of_a_standby_catches_up_and_follows() {
    let Some(mut pair) = Pair::start().await else { return };
    let has_copy = || std::fs::read_to_string(pair.standby.state.join("database")).is_ok_and(|id| id.contains('-'));
    wait_until("the copy is made", has_copy);
    pair.standby.kill();
    for position in 1..=1100 {
        assert_eq!(pair.active.save(position).await.unwrap().status(), StatusCode::OK);
    }
    pair.standby = pair.household.server("b");
    pair.standby.wait_until_standby();
    let journal = pair.standby.state.join("journal");
    let has = |position| {
        let text = format!("\"position_seconds\":{position}.0");
        move || std::fs::read_to_string(&journal).unwrap().contains(&text)
    };
    wait_until("the copy has caught up", has.clone()(1100));
    assert!(has.clone()(1)(), "with each change");
    assert_eq!(pair.active.save(1101).await.unwrap().status(), StatusCode::OK);
    wait_until("the copy follows", has(1101));
    pair.active.kill();
    assert_eq!(pair.standby.position().await, 1101);
    let log = std::fs::read_to_string(pair.household.folder.path().join("b/log")).unwrap();
    assert_eq!(log.matches("the copy of the database is made again").count(), 1, "{log}");
    assert!(!log.contains("damaged"), "{log}");
    pair.household.expect_dense_numbers();
}

/// A failed sign-in from a local address, with a header that states another client.
async fn sign_in(server: &Server, from: [u8; 4], attempt: usize) -> StatusCode {
    let client = Client::builder().local_address(IpAddr::from(from)).build().unwrap();
    let body = json!({"username": format!("user{attempt}"), "password": "wrong"});
    let request = client.post(format!("{}/api/auth/login", server.base)).json(&body);
    let forged = format!("203.0.113.{attempt} {} c2ln", jiff::Timestamp::now().as_second());
    let request =
        request.header("x-hearthcast-client", forged).header("x-forwarded-for", format!("203.0.113.{attempt}"));
    request.send().await.unwrap().status()
}

#[tokio::test]
async fn sign_ins_through_the_standby_count_for_the_client_and_cannot_be_forged() {
    let Some(pair) = Pair::start().await else { return };
    let from = [127, 0, 0, 2];
    for attempt in 0..5 {
        let server = if attempt % 2 == 0 { &pair.standby } else { &pair.active };
        assert_eq!(sign_in(server, from, attempt).await, StatusCode::UNAUTHORIZED, "attempt {attempt}");
    }
    for server in [&pair.standby, &pair.active] {
        assert_eq!(sign_in(server, from, 6).await, StatusCode::TOO_MANY_REQUESTS, "the client has no attempts left");
        assert_eq!(sign_in(server, [127, 0, 0, 3], 7).await, StatusCode::UNAUTHORIZED, "another client has");
    }
}

#[tokio::test]
async fn a_change_whose_outcome_is_unknown_is_reported_and_not_repeated() {
    let Some(mut pair) = Pair::start().await else { return };
    assert_eq!(pair.standby.save(5).await.unwrap().status(), StatusCode::OK);
    pair.active.signal(rustix::process::Signal::STOP);
    // The system of the stopped server takes the bytes.
    let (standby, active) = (&pair.standby, &mut pair.active);
    let kill = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        active.kill();
    };
    let (saved, ()) = tokio::join!(standby.save(6), kill);
    let body = expect_error(saved.unwrap(), 500, "INTERNAL").await;
    let text = body["error"].as_str().unwrap();
    assert!(text.contains("is unknown: check before you repeat it"), "{text}");
    assert_eq!(pair.standby.position().await, 5, "a read waits for the new active server");
    // A change of which nothing was sent waits for it as well.
    assert_eq!(pair.standby.save(7).await.unwrap().status(), StatusCode::OK);
    pair.household.expect_dense_numbers();
}

#[tokio::test]
async fn a_change_that_was_not_sent_waits_for_the_new_active_server() {
    let Some(mut pair) = Pair::start().await else { return };
    pair.active.kill();
    assert_eq!(pair.standby.save(5).await.unwrap().status(), StatusCode::OK);
    assert_eq!(pair.standby.position().await, 5);
    pair.household.expect_dense_numbers();
}

/// Clients of two addresses, until they are stopped.
struct Clients {
    is_stopped: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<Vec<u64>>>,
}

impl Clients {
    /// Starts readers and writers. A reader tries the next of its addresses when one does not answer, and fails when none does. Each
    /// writer saves the progress of a film of its own, at positions that it uses once.
    fn start(household: &Household, readers: &[Vec<String>], writers: &[(String, PathBuf)], first: u64) -> Self {
        let (is_stopped, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for bases in readers {
            let (is_stopped, reads, token) = (is_stopped.clone(), reads.clone(), household.token.clone());
            let (path, bases) = (progress_path(&household.film), bases.clone());
            tasks.push(tokio::spawn(async move {
                let client = Client::new();
                while !is_stopped.load(Ordering::Relaxed) {
                    read_from_any(&client, &bases, &path, &token).await;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
                Vec::new()
            }));
        }
        for (base, film) in writers {
            let (is_stopped, token) = (is_stopped.clone(), household.token.clone());
            let (base, film) = (base.clone(), film.clone());
            tasks.push(tokio::spawn(async move {
                let (client, mut acknowledged) = (Client::new(), Vec::new());
                for position in first.. {
                    if is_stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = json!({"mediaPath": film, "positionSeconds": position, "durationSeconds": 1_000_000});
                    let request = client.post(format!("{base}/api/stream/progress")).bearer_auth(&token).json(&body);
                    match request.timeout(MAX_ANSWER_TIME).send().await {
                        Ok(response) if response.status() == StatusCode::OK => acknowledged.push(position),
                        _ => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
                acknowledged
            }));
        }
        Self { is_stopped, reads, tasks }
    }

    /// Stops them; returns the acknowledged positions of each writer. Panics when a read failed.
    async fn stop(self) -> Vec<Vec<u64>> {
        self.is_stopped.store(true, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        for task in self.tasks {
            acknowledged.push(task.await.expect("no read failed"));
        }
        assert!(self.reads.load(Ordering::Relaxed) > 0, "something was read");
        acknowledged
    }
}

/// Reads from the first address that answers with 200, in time.
async fn read_from_any(client: &Client, bases: &[String], path: &str, token: &str) {
    let began = Instant::now();
    let mut failures = Vec::new();
    for base in bases {
        let request = client.get(format!("{base}{path}")).bearer_auth(token).timeout(MAX_ANSWER_TIME);
        match request.send().await {
            Ok(response) if response.status() == StatusCode::OK => {
                response.bytes().await.expect("a whole answer");
                assert!(began.elapsed() < MAX_ANSWER_TIME, "{base} answered after {:?}", began.elapsed());
                return;
            }
            Ok(response) => failures.push(format!("{base}: {}", response.status())),
            Err(cause) => failures.push(format!("{base}: {cause:?}")),
        }
    }
    panic!("no answer: {failures:?}");
}

/// Asserts that each acknowledged position of a film is in the changes of the database once.
fn expect_each_once(household: &Household, film: &Path, acknowledged: &[u64]) {
    let statement = format!(
        "SELECT (json::jsonb->>'position_seconds')::float::bigint || ' ' || count(*) FROM hearthcast_change \
         WHERE tree = 'progress' AND json::jsonb->>'path' = '{}' GROUP BY 1, json::jsonb->>'position_seconds'",
        film.display()
    );
    let statement = statement.replace(" GROUP BY 1, ", " GROUP BY ");
    let rows = household.database.sql(&statement);
    let counts: std::collections::HashMap<u64, u64> = rows
        .lines()
        .filter_map(|row| row.split_once(' '))
        .map(|(position, count)| (position.parse().unwrap(), count.parse().unwrap()))
        .collect();
    for position in acknowledged {
        assert_eq!(counts.get(position), Some(&1), "position {position} of {}", film.display());
    }
    assert!(counts.values().all(|count| *count == 1), "no change was made twice");
}

/// Prints the median and the worst of times until the first answer.
fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    if let (Some(median), Some(worst)) = (times.get(times.len() / 2), times.last()) {
        eprintln!("{name}: {} rounds, first answer after {median:?} (median), {worst:?} (worst)", times.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_of_the_active_server_loses_no_acknowledged_change_and_fails_no_read() {
    let Some(pair) = Pair::start().await else { return };
    let Pair { household, mut active, mut standby } = pair;
    let films = ["first.mp4", "second.mp4"].map(|name| another_film(&household, name));
    let (mut names, mut times, mut next) = (("a", "b"), Vec::new(), 1);
    let mut acknowledged = [Vec::new(), Vec::new()];
    for round in 0..rounds() {
        let bases = [active.base.clone(), standby.base.clone()];
        let readers = [vec![bases[1].clone()], bases.to_vec(), vec![bases[1].clone()]];
        let writers = [(bases[0].clone(), films[0].clone()), (bases[1].clone(), films[1].clone())];
        let clients = Clients::start(&household, &readers, &writers, next);
        tokio::time::sleep(Duration::from_millis(300 + round * 37 % 200)).await;
        active.kill();
        let killed = Instant::now();
        read_from_any(&standby.client, &bases[1..], &progress_path(&household.film), &household.token).await;
        times.push(killed.elapsed());
        standby.wait_until_listening();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut answered = clients.stop().await;
        let (second, first) = (answered.pop().unwrap(), answered.pop().unwrap());
        assert!(second.len() > 1, "round {round}: the standby took changes");
        next = first.iter().chain(&second).max().unwrap() + 1000;
        acknowledged[0].extend(first);
        acknowledged[1].extend(second);
        names = (names.1, names.0);
        let address = active.base.strip_prefix("http://").unwrap().to_owned();
        active = std::mem::replace(&mut standby, household.server_at(names.1, &address, &[]));
        standby.wait_until_standby();
        assert_eq!(standby.base, bases[0], "it listens where it did");
        let path = progress_path(&films[1]);
        for server in [&active, &standby] {
            let request = server.client.get(format!("{}{path}", server.base)).bearer_auth(&household.token);
            let record: Value = request.send().await.unwrap().json().await.unwrap();
            let position = record["progress"]["positionSeconds"].as_f64().unwrap() as u64;
            assert!(acknowledged[1].last().is_some_and(|last| position >= *last), "round {round}: {record}");
        }
    }
    report("kill -9", times);
    for (film, acknowledged) in films.iter().zip(&acknowledged) {
        expect_each_once(&household, film, acknowledged);
    }
    household.expect_dense_numbers();
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_either_server_and_fails_no_read_at_the_other() {
    let Some(pair) = Pair::start().await else { return };
    let Pair { household, mut active, mut standby } = pair;
    let mut third = household.server("c");
    third.wait_until_standby();
    third.signal(rustix::process::Signal::TERM);
    assert!(third.child.wait().unwrap().success(), "a standby ends");
    assert_eq!(standby.save(5).await.unwrap().status(), StatusCode::OK);
    let readers = vec![vec![standby.base.clone()]; 3];
    let clients = Clients::start(&household, &readers, &[], 1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    active.signal(rustix::process::Signal::TERM);
    standby.wait_until_listening();
    assert!(active.child.wait().unwrap().success());
    tokio::time::sleep(Duration::from_millis(300)).await;
    clients.stop().await;
    assert_eq!(standby.position().await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_no_read_fails_while_the_active_server_is_killed() {
    let Some(pair) = Pair::start().await else { return };
    let Pair { household, mut active, mut standby } = pair;
    let bases = [active.base.clone(), standby.base.clone()];
    let Some(nginx) = NginxServer::start(household.folder.path(), &bases) else { return };
    let film = another_film(&household, "first.mp4");
    let (mut times, mut acknowledged, mut names) = (Vec::new(), Vec::new(), ("a", "b"));
    for round in 0..rounds().min(20) {
        let readers = vec![vec![nginx.base.clone()]; 3];
        let writers = [(nginx.base.clone(), film.clone())];
        let first = acknowledged.last().map_or(1, |last| last + 1000);
        let clients = Clients::start(&household, &readers, &writers, first);
        tokio::time::sleep(Duration::from_millis(300 + round * 37 % 200)).await;
        active.kill();
        let killed = Instant::now();
        let client = Client::new();
        read_from_any(&client, std::slice::from_ref(&nginx.base), &progress_path(&household.film), &household.token)
            .await;
        times.push(killed.elapsed());
        standby.wait_until_listening();
        tokio::time::sleep(Duration::from_millis(200)).await;
        acknowledged.extend(clients.stop().await.pop().unwrap());
        names = (names.1, names.0);
        let address = active.base.strip_prefix("http://").unwrap().to_owned();
        active = std::mem::replace(&mut standby, household.server_at(names.1, &address, &[]));
        standby.wait_until_standby();
    }
    report("kill -9 behind nginx", times);
    assert!(!acknowledged.is_empty(), "something was saved");
    expect_each_once(&household, &film, &acknowledged);
    household.expect_dense_numbers();
}
