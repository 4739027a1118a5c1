//! The state in PostgreSQL: what survives kill -9 of either side, failover, and the migration both ways.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use hearthcast::domain::access::Role;
use hearthcast::service::accounts::Accounts;
use hearthcast::service::clock::Clock;
use hearthcast::store::Store;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::postgres_server::PostgresServer;
use crate::kit::media;
use crate::kit::response::{expect_error, expect_success, send_until_ready};

/// Exit status of a server that another one has replaced.
const REPLACED_EXIT_STATUS: i32 = 75;

/// A database with the state of a household, a film, and the token of a user.
struct House {
    database: PostgresServer,
    folder: TempDir,
    film: PathBuf,
    token: String,
}

impl House {
    /// Makes accounts in a folder, and moves them to the database by export and import.
    async fn start() -> Option<Self> {
        let database = PostgresServer::start()?;
        let folder = tempfile::tempdir().unwrap();
        let (state, media_folder) = (folder.path().join("files"), folder.path().join("media"));
        std::fs::create_dir(&media_folder).unwrap();
        let film = media_folder.join("a.mp4");
        media::run_ffmpeg(&film, &["-f lavfi -i", "testsrc2=s=64x64:r=5:d=1", "-c:v libx264 -preset ultrafast"]);
        let config = Config::new(state.clone(), folder.path().join("cache"));
        let store = Store::open_waiting(&state).unwrap();
        let accounts = Accounts::open(&config, store, Clock::default()).unwrap();
        let token = accounts.issue_token("viewer", Role::User).await.unwrap();
        drop(accounts);
        let exported = run(&["export"], state.to_str().unwrap(), &folder.path().join("unused"), None);
        let file = folder.path().join("export");
        std::fs::write(&file, exported).unwrap();
        run(&["import", file.to_str().unwrap()], &database.url, &folder.path().join("importer"), None);
        Some(Self { database, folder, film, token })
    }

    /// Starts a server with a state folder of its own.
    fn server(&self, name: &str) -> Server {
        Server::start(self.folder.path(), name, &self.database.url, &self.token, &self.film)
    }

    /// Asserts that the numbers of all changes are there once.
    fn expect_dense_numbers(&self) {
        let statement = "SELECT count(*) = coalesce(max(number) - min(number) + 1, 0) FROM hearthcast_change";
        assert_eq!(self.database.sql(statement), "t");
    }
}

/// A server process. Dropping it kills it.
struct Server {
    child: Child,
    lines: mpsc::Receiver<String>,
    base: String,
    client: reqwest::Client,
    token: String,
    film: PathBuf,
    state: PathBuf,
}

impl Server {
    fn start(folder: &Path, name: &str, database: &str, token: &str, film: &Path) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = program(database, &folder);
        command.args(["serve", "--listen", "127.0.0.1:0", "--root"]).arg(film.parent().unwrap());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let (token, film, client) = (token.to_owned(), film.to_owned(), reqwest::Client::new());
        Self { child, lines, base: String::new(), client, token, film, state: folder.join("hearthcast") }
    }

    /// Waits until it listens; returns how long that took.
    fn wait_until_listening(&mut self) -> Duration {
        let began = Instant::now();
        let line = self.lines.recv_timeout(Duration::from_secs(60)).expect("it listens within 60 s");
        line.strip_prefix("listening on ").expect("an address").clone_into(&mut self.base);
        began.elapsed()
    }

    fn is_listening(&mut self) -> bool {
        self.lines.try_recv().is_ok()
    }

    async fn save(&self, position: u64) -> reqwest::Result<reqwest::Response> {
        let body = json!({"mediaPath": self.film, "positionSeconds": position, "durationSeconds": 1_000_000});
        let request = self.client.post(format!("{}/api/stream/progress", self.base)).bearer_auth(&self.token);
        request.json(&body).timeout(Duration::from_secs(20)).send().await
    }

    /// The stored position; 0 without one.
    async fn position(&self) -> u64 {
        let query = serde_urlencoded::to_string([("path", self.film.to_str().unwrap())]).unwrap();
        let url = format!("{}/api/stream/progress?{query}", self.base);
        let response = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let record: Value = response.json().await.unwrap();
        record["progress"]["positionSeconds"].as_f64().unwrap_or(0.0) as u64
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program with a state; its folders are below `folder`.
fn program(state: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    let kept = ["PATH", "HOME", "LD_LIBRARY_PATH"].iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept).env("HEARTHCAST_STATE", state).env("XDG_STATE_HOME", folder);
    command.envs([("HEARTHCAST_HEVC_ENCODER", "off"), ("HEARTHCAST_AV1_ENCODER", "off")]);
    command.env("HEARTHCAST_CACHE", folder.join("cache"));
    command
}

/// Runs a command; returns its standard output. With `fault`, it must fail with a message that contains it.
fn run(arguments: &[&str], state: &str, folder: &Path, fault: Option<&str>) -> Vec<u8> {
    let output = program(state, folder).args(arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), fault.is_none(), "{message}");
    assert!(message.contains(fault.unwrap_or_default()), "{message}");
    output.stdout
}

#[tokio::test]
async fn acknowledged_saves_survive_kill_9_of_the_server() {
    let Some(house) = House::start().await else { return };
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
    let Some(mut house) = House::start().await else { return };
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
    let deadline = Instant::now() + Duration::from_secs(30);
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
    let Some(house) = House::start().await else { return };
    let mut active = house.server("a");
    active.wait_until_listening();
    assert_eq!(active.save(5).await.unwrap().status(), StatusCode::OK);
    let mut standby = house.server("b");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!standby.is_listening(), "a standby does not listen");
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
    let Some(house) = House::start().await else { return };
    let mut active = house.server("a");
    active.wait_until_listening();
    let body = json!({"mediaPath": house.film, "forceTranscode": true});
    let start = active.client.post(format!("{}/api/stream/transcode/start", active.base)).json(&body);
    let started = expect_success(send_until_ready(start.bearer_auth(&house.token)).await, 200).await;
    let signed = started["signedPlaylistUrl"].as_str().unwrap().to_owned();
    let fetch = async |server: &Server, name: &str| {
        let url = format!("{}{}", server.base, signed.replace("index.m3u8", name));
        let answer = send_until_ready(server.client.get(url)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        answer.bytes().await.unwrap()
    };
    let before = [fetch(&active, "index.m3u8").await, fetch(&active, "v0.m3u8").await];
    let stored = "SELECT count(*) FROM hearthcast_record WHERE tree = 'sessions' AND json LIKE '%\"isReady\":true%'";
    let deadline = Instant::now() + Duration::from_secs(30);
    while house.database.sql(stored) != "1" {
        assert!(Instant::now() < deadline, "the session is stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    active.kill();
    let mut standby = house.server("b");
    standby.wait_until_listening();
    assert!(!fetch(&standby, "v0-00000.ts").await.is_empty());
    assert_eq!([fetch(&standby, "index.m3u8").await, fetch(&standby, "v0.m3u8").await], before);
}

#[tokio::test]
async fn export_and_import_move_a_state_both_ways() {
    let Some(house) = House::start().await else { return };
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
