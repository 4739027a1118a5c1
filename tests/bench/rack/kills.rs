//! Kill -9 of a worker, of the queue, of the database and of the active server, while viewers watch and save their progress.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::media::{Encoder, copy_film, make_film, write_stand_in};
use super::nats_server::NatsServer;
use super::nginx_server::NginxServer;
use super::postgres_server::PostgresServer;
use super::s3_server::S3Server;
use super::server::{Installation, Server};
use super::viewers::{Answer, Playback, Session, Task, save_progress, watch_encode, watch_ready_segments};
use super::worker::Worker;
use crate::workers::{median, print_floor};

/// Of the encoder of workers and servers.
const SEGMENT_TIME: Duration = Duration::from_millis(500);
const ENCODE: Playback = Playback::Encode { max_kbps: 90 };
/// A request for a segment that is ready must not take longer.
const MAX_READY_TIME: Duration = Duration::from_secs(1);
/// Longest time until the next segment of an encode, without the encode itself.
const MAX_GAP: Duration = Duration::from_secs(3);

/// Viewers watch for this long before something is killed, at least.
const WATCHED_BEFORE: Duration = Duration::from_secs(2);
/// And for this long afterwards.
const WATCHED_AFTER: Duration = Duration::from_secs(6);
const QUEUE_PAUSE: Duration = Duration::from_secs(2);
const DATABASE_PAUSE: Duration = Duration::from_secs(20);
/// Longest wait for a run at the worker, or for a save after a pause.
const MAX_WAIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Worker,
    Queue,
    Database,
    /// The active one of two servers.
    Server,
}

/// The parts of the row, their victims with names, and rounds.
const PARTS: [(&str, Victim, &str, usize); 4] = [
    ("kill-worker", Victim::Worker, "the worker", 5),
    ("kill-queue", Victim::Queue, "nats-server", 5),
    ("kill-database", Victim::Database, "PostgreSQL", 3),
    ("kill-server", Victim::Server, "the active server", 5),
];

pub async fn measure(folder: &Path, is_selected: impl Fn(&str) -> bool) {
    for (part, victim, name, rounds) in PARTS {
        if !is_selected(part) {
            continue;
        }
        let folder = folder.join(part);
        let Some(mut rack) = Rack::start(&folder, victim, rounds).await else { return };
        let mut figures = Figures::default();
        for round in 0..rounds {
            rack.play_round(victim, round, &mut figures).await;
        }
        figures.print(name, rounds, &rack);
    }
}

/// One server or two, a worker, and everything that they need.
struct Rack {
    database: PostgresServer,
    nats: NatsServer,
    _store: Option<S3Server>,
    installation: Installation,
    active: Server,
    /// The other server; viewers use its address if it exists.
    standby: Option<Server>,
    /// The proxy of both servers, which the worker uses; viewers use the standby.
    _front: Option<NginxServer>,
    /// The folders of both servers.
    names: (&'static str, &'static str),
    worker: Worker,
    copied: PathBuf,
    cached: PathBuf,
    /// Two films for each round.
    encoded: Vec<PathBuf>,
}

/// Figures of the viewers of all rounds.
#[derive(Default)]
struct Figures {
    ready_requests: usize,
    failed: usize,
    slow: usize,
    /// Of copied, and of cached segments.
    slowest: [Duration; 2],
    /// The longest wait for a segment of each encode after the kill, seconds.
    gaps: Vec<f64>,
    failed_encode_requests: usize,
    saved: Vec<u64>,
}

impl Rack {
    async fn start(folder: &Path, victim: Victim, rounds: usize) -> Option<Self> {
        let (database, nats) = (PostgresServer::start()?, NatsServer::start()?);
        std::fs::create_dir_all(folder).expect("a fresh folder");
        let mut installation = Installation::make(folder, Some(&database.url)).await;
        let ffmpeg = write_stand_in(folder, "ffmpeg-fixed", Encoder::FixedTime { segment: SEGMENT_TIME });
        installation.settings = vec![
            ("HEARTHCAST_QUEUE", nats.url.clone()),
            ("HEARTHCAST_BACKEND", "ffmpeg".to_owned()),
            ("HEARTHCAST_FFMPEG", ffmpeg.display().to_string()),
            ("HEARTHCAST_LIMITS_SESSIONS_PER_USER", "16".to_owned()),
        ];
        // What one server has encoded is ready at the other one as well.
        let store = if victim == Victim::Server { Some(S3Server::start().await) } else { None };
        if let Some(store) = &store {
            let credentials = store.credentials_file.display().to_string();
            installation.settings.extend([
                ("HEARTHCAST_SEGMENTS", store.address.clone()),
                ("HEARTHCAST_SEGMENTS_ENDPOINT", store.endpoint.clone()),
                ("HEARTHCAST_SEGMENTS_CREDENTIALS_FILE", credentials),
            ]);
        }
        let arguments = "-c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p -c:a aac";
        let (copied, cached) = (installation.media.join("copied.mp4"), installation.media.join("cached.mp4"));
        make_film(&copied, "testsrc2=s=640x360:r=25:d=60", arguments);
        make_film(&cached, "testsrc2=s=320x180:r=25:d=20", arguments);
        let original = installation.media.join("encoded.mp4");
        make_film(&original, "testsrc2=s=320x180:r=25:d=240", arguments);
        let encoded = copy_film(&original, (0..2 * rounds).map(|number| format!("encoded-{number}")));
        // On one core each: workers then have more processors, and get all runs that they can take.
        let mut active = installation.start("a", "127.0.0.1:0", Some(0));
        active.wait_until_listening();
        let standby = (victim == Victim::Server).then(|| {
            let mut standby = installation.start("b", "127.0.0.1:0", Some(1));
            standby.wait_until_standby();
            standby
        });
        let front = match &standby {
            Some(standby) => Some(NginxServer::start(folder, &[active.base.clone(), standby.base.clone()])?),
            None => None,
        };
        let base = front.as_ref().map_or(&active.base, |front| &front.base);
        let worker = Worker::enrol_at(base, &active, &folder.join("worker"), &ffmpeg).await;
        active.wait_for_workers(1).await;
        let session = Session::start(&active.base, &installation.token, &cached, ENCODE).await;
        assert!(session.fetch_all().await, "the film is encoded");
        session.stop().await;
        let names = ("a", "b");
        Some(Self {
            database,
            nats,
            _store: store,
            installation,
            active,
            standby,
            _front: front,
            names,
            worker,
            copied,
            cached,
            encoded,
        })
    }

    /// The address that viewers use.
    fn viewed(&self) -> String {
        self.standby.as_ref().unwrap_or(&self.active).base.clone()
    }

    async fn play_round(&mut self, victim: Victim, round: usize, figures: &mut Figures) {
        let (base, token) = (self.viewed(), self.installation.token.clone());
        let start = async |film: &Path, playback: Playback| Session::start(&base, &token, film, playback).await;
        let copied = watch_ready_segments(start(&self.copied, Playback::Copy).await);
        let cached = watch_ready_segments(start(&self.cached, ENCODE).await);
        let encode = watch_encode(start(&self.encoded[2 * round], ENCODE).await);
        let first = figures.saved.last().map_or(1, |last| last + 1000);
        let saves = save_progress(&base, &token, &self.copied, first);
        tokio::time::sleep(WATCHED_BEFORE).await;
        let deadline = Instant::now() + MAX_WAIT;
        while self.active.count_workers().await.1 == 0 || encode.results().len() < 3 {
            assert!(Instant::now() < deadline, "the worker has a run");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // In the middle of a segment, at another part of it in each round.
        tokio::time::sleep(Duration::from_millis(100 * round as u64)).await;
        let killed = Instant::now();
        self.kill(victim, &saves).await;
        tokio::time::sleep(WATCHED_AFTER).await;
        let ended = Instant::now();
        figures.note_ready(0, &copied.stop().await);
        figures.note_ready(1, &cached.stop().await);
        figures.note_encode(&encode.stop().await, killed, ended);
        figures.saved.extend(saves.stop().await);
        self.repair(victim, round).await;
    }

    /// Kills it, and starts nats-server and PostgreSQL again.
    async fn kill(&mut self, victim: Victim, saves: &Task<u64>) {
        match victim {
            Victim::Worker => self.worker.kill(),
            Victim::Queue => {
                self.nats.kill();
                tokio::time::sleep(QUEUE_PAUSE).await;
                self.nats.run().expect("nats-server starts");
            }
            Victim::Database => {
                self.database.kill();
                tokio::time::sleep(DATABASE_PAUSE).await;
                let before = saves.results().len();
                self.database.run();
                let restarted = Instant::now();
                while saves.results().len() == before {
                    assert!(restarted.elapsed() < MAX_WAIT, "progress is saved again");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                println!("PostgreSQL was restarted; the next save after {:.2} s", restarted.elapsed().as_secs_f64());
            }
            Victim::Server => self.active.kill(),
        }
    }

    /// Starts what is still missing after a round.
    async fn repair(&mut self, victim: Victim, round: usize) {
        match victim {
            Victim::Worker => self.worker.run(&self.active.base),
            Victim::Queue => self.print_next_encode(round).await,
            Victim::Database => {}
            Victim::Server => {
                let mut taking_over = self.standby.take().expect("two servers");
                taking_over.wait_until_listening();
                self.names = (self.names.1, self.names.0);
                let core = usize::from(self.names.1 == "b");
                let mut standby = self.installation.start(self.names.1, &self.active.address(), Some(core));
                standby.wait_until_standby();
                self.active = taking_over;
                self.standby = Some(standby);
            }
        }
        self.active.wait_for_workers(1).await;
    }

    /// Starts another encode, and prints who makes it and how soon.
    async fn print_next_encode(&self, round: usize) {
        let started = Instant::now();
        let film = &self.encoded[2 * round + 1];
        let encode = watch_encode(Session::start(&self.active.base, &self.installation.token, film, ENCODE).await);
        while encode.results().is_empty() {
            assert!(started.elapsed() < MAX_WAIT, "a segment arrives");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let first = started.elapsed().as_secs_f64();
        let runs = self.active.count_workers().await.1;
        println!("the next encode: first segment after {first:.2} s");
        print_floor("its runs at the worker", runs as f64, "", ">=", 1.0);
        encode.stop().await;
    }

    /// Positions of the film that are in the changes of the database.
    fn stored_positions(&self) -> HashSet<u64> {
        let statement = format!(
            "SELECT (json::jsonb->>'position_seconds')::float::bigint FROM hearthcast_change \
             WHERE tree = 'progress' AND json::jsonb->>'path' = '{}'",
            self.copied.display()
        );
        self.database.sql(&statement).lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Figures {
    /// Counts the requests of a viewer of copied (0) or cached (1) segments.
    fn note_ready(&mut self, kind: usize, answers: &[Answer]) {
        for answer in answers {
            let time = answer.ended - answer.sent;
            self.ready_requests += 1;
            self.failed += usize::from(!answer.is_whole);
            self.slow += usize::from(answer.is_whole && time > MAX_READY_TIME);
            self.slowest[kind] = self.slowest[kind].max(time);
        }
    }

    /// The longest time without a new segment from the kill to the end of the round.
    fn note_encode(&mut self, answers: &[Answer], killed: Instant, ended: Instant) {
        let arrivals =
            answers.iter().filter(|answer| answer.is_whole && answer.ended > killed).map(|answer| answer.ended);
        let (mut longest, mut last) = (Duration::ZERO, killed);
        for arrival in arrivals.filter(|arrival| *arrival < ended).chain([ended]) {
            longest = longest.max(arrival - last);
            last = arrival;
        }
        self.gaps.push(longest.as_secs_f64());
        self.failed_encode_requests += answers.iter().filter(|answer| !answer.is_whole).count();
    }

    fn print(&self, name: &str, rounds: usize, rack: &Rack) {
        println!("## kill -9 of {name}, {rounds} rounds");
        println!("{} requests for copied and cached segments", self.ready_requests);
        print_floor("failed", self.failed as f64, "", "<=", 0.0);
        print_floor("slower than a second", self.slow as f64, "", "<=", 0.0);
        let [copied, cached] = self.slowest.map(|time| time.as_millis());
        println!("the slowest of copied, of cached segments: {copied} ms, {cached} ms");
        let worst = self.gaps.iter().copied().fold(0.0, f64::max);
        println!("next segment of the encode, median: {:.2} s", median(&self.gaps));
        let floor = (MAX_GAP + SEGMENT_TIME).as_secs_f64();
        print_floor("next segment of the encode, worst", worst, " s", "<=", floor);
        println!("failed requests for segments of the encode: {}", self.failed_encode_requests);
        let stored = rack.stored_positions();
        let missing = self.saved.iter().filter(|position| !stored.contains(position)).count();
        print_floor(&format!("missing of {} acknowledged saves", self.saved.len()), missing as f64, "", "<=", 0.0);
    }
}
