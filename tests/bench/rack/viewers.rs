//! Sessions, and the viewers of them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};

/// Time between two requests of a viewer of segments that are ready.
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a request that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Time between two saves of progress.
const SAVE_INTERVAL: Duration = Duration::from_millis(50);

/// The options of a session.
#[derive(Clone, Copy)]
pub enum Playback {
    Copy,
    /// The most bits per second, in thousands, which makes it encode.
    Encode {
        max_kbps: u32,
    },
}

/// A started session and its segments.
pub struct Session {
    pub segments: Vec<Url>,
    client: Client,
    base: String,
    id: String,
    token: String,
}

/// A request that has ended.
#[derive(Clone, Copy)]
pub struct Answer {
    pub sent: Instant,
    pub ended: Instant,
    pub is_whole: bool,
}

/// A task that makes requests until it is stopped.
pub struct Task<T> {
    is_stopped: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
    results: Arc<Mutex<Vec<T>>>,
}

impl Session {
    /// Starts playback of a film, and reads the playlists. Requests are repeated while the server is busy.
    pub async fn start(base: &str, token: &str, film: &Path, playback: Playback) -> Self {
        let client = Client::builder().timeout(ANSWER_TIMEOUT).build().expect("a client");
        let body = match playback {
            Playback::Copy => json!({"mediaPath": film, "forceTranscode": true}),
            Playback::Encode { max_kbps } => {
                json!({"mediaPath": film, "forceTranscode": true, "profile": {"maxBitrateKbps": max_kbps}})
            }
        };
        let request = client.post(format!("{base}/api/stream/transcode/start")).bearer_auth(token).json(&body);
        let started: Value = serde_json::from_str(&get_when_ready(request).await).expect("JSON");
        let signed = started["signedPlaylistUrl"].as_str().unwrap_or_else(|| panic!("{started}"));
        let index = Url::parse(&format!("{base}{signed}")).expect("an address");
        let variant = listed_urls(&index, &get_when_ready(client.get(index.clone())).await).remove(0);
        let segments = listed_urls(&variant, &get_when_ready(client.get(variant.clone())).await);
        let id = started["sessionId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
        Self { segments, client, base: base.to_owned(), id, token: token.to_owned() }
    }

    /// Requests a segment and reads it.
    pub async fn fetch(&self, index: usize) -> Answer {
        let sent = Instant::now();
        let is_whole = match self.client.get(self.segments[index % self.segments.len()].clone()).send().await {
            Ok(answer) => answer.status() == StatusCode::OK && answer.bytes().await.is_ok(),
            Err(_) => false,
        };
        Answer { sent, ended: Instant::now(), is_whole }
    }

    /// Fetches all segments in order; false when one failed.
    pub async fn fetch_all(&self) -> bool {
        for index in 0..self.segments.len() {
            if !self.fetch(index).await.is_whole {
                return false;
            }
        }
        true
    }

    /// Fetches all segments in order; returns how long after a multiple of `period` on the clock each arrived, milliseconds.
    pub async fn fetch_aligned(&self, period: Duration) -> Vec<f64> {
        let mut delays = Vec::new();
        for index in 0..self.segments.len() {
            assert!(self.fetch(index).await.is_whole, "segment {index}");
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
            delays.push((now.as_micros() % period.as_micros()) as f64 / 1000.0);
        }
        delays
    }

    pub async fn stop(&self) {
        let url = format!("{}/api/stream/transcode/{}", self.base, self.id);
        let _ = self.client.delete(url).bearer_auth(&self.token).send().await;
    }
}

impl<T: Copy + Send + 'static> Task<T> {
    fn start<F: Future<Output = ()> + Send + 'static>(
        run: impl FnOnce(Arc<AtomicBool>, Arc<Mutex<Vec<T>>>) -> F,
    ) -> Self {
        let (is_stopped, results) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        Self { task: tokio::spawn(run(is_stopped.clone(), results.clone())), is_stopped, results }
    }

    /// The results until now.
    pub fn results(&self) -> Vec<T> {
        self.results.lock().expect("no task panics").clone()
    }

    /// Ends it after its present request; returns all results.
    pub async fn stop(self) -> Vec<T> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.task.await.expect("no task panics");
        self.results.lock().expect("no task panics").clone()
    }
}

/// Requests one segment after the other again and again, each 200 ms after the one before it or when that has arrived.
pub fn watch_ready_segments(session: Session) -> Task<Answer> {
    Task::start(|is_stopped, results| async move {
        for index in 0.. {
            if is_stopped.load(Ordering::Relaxed) {
                break;
            }
            let answer = session.fetch(index).await;
            results.lock().expect("no task panics").push(answer);
            tokio::time::sleep(REQUEST_INTERVAL.saturating_sub(answer.sent.elapsed())).await;
        }
        session.stop().await;
    })
}

/// Requests each segment of an encode until it has arrived, then the next one, to the end.
pub fn watch_encode(session: Session) -> Task<Answer> {
    Task::start(|is_stopped, results| async move {
        for index in 0..session.segments.len() {
            let mut is_whole = false;
            while !is_whole && !is_stopped.load(Ordering::Relaxed) {
                let answer = session.fetch(index).await;
                is_whole = answer.is_whole;
                results.lock().expect("no task panics").push(answer);
                if !is_whole {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
        session.stop().await;
    })
}

/// Saves rising positions of a film, from `first`; the results are those that were acknowledged.
pub fn save_progress(base: &str, token: &str, film: &Path, first: u64) -> Task<u64> {
    let (url, token, film) = (format!("{base}/api/stream/progress"), token.to_owned(), film.to_owned());
    Task::start(move |is_stopped, results| async move {
        let client = Client::builder().timeout(ANSWER_TIMEOUT).build().expect("a client");
        for position in first.. {
            if is_stopped.load(Ordering::Relaxed) {
                break;
            }
            let body = json!({"mediaPath": film, "positionSeconds": position, "durationSeconds": 1_000_000});
            let answer = client.post(&url).bearer_auth(&token).json(&body).send().await;
            if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                results.lock().expect("no task panics").push(position);
            }
            tokio::time::sleep(SAVE_INTERVAL).await;
        }
    })
}

/// Time in which some viewers at once see all segments of the films, one film after the other; None when a segment failed.
pub async fn encode_films(
    base: &str,
    token: &str,
    films: &[PathBuf],
    playback: Playback,
    viewers: usize,
) -> Option<Duration> {
    let (base, token): (Arc<str>, Arc<str>) = (base.into(), token.into());
    let films: Arc<Mutex<VecDeque<PathBuf>>> = Arc::new(Mutex::new(films.iter().cloned().collect()));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..viewers {
        let (base, token, films) = (base.clone(), token.clone(), films.clone());
        tasks.spawn(async move {
            loop {
                let next = films.lock().expect("no task panics").pop_front();
                let Some(film) = next else { return true };
                let session = Session::start(&base, &token, &film, playback).await;
                let is_complete = session.fetch_all().await;
                session.stop().await;
                if !is_complete {
                    return false;
                }
            }
        });
    }
    let outcomes = tasks.join_all().await;
    outcomes.into_iter().all(|is_complete| is_complete).then(|| started.elapsed())
}

/// The body of a successful answer; the request is repeated while the server is busy or prepares it.
async fn get_when_ready(request: reqwest::RequestBuilder) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = request.try_clone().expect("a small body").send().await.expect("an answer");
        let status = answer.status();
        let is_ready = status == StatusCode::OK && !answer.headers().contains_key("retry-after");
        let text = answer.text().await.expect("a body");
        if is_ready {
            return text;
        }
        assert!(Instant::now() < deadline && (status.is_success() || status == 503), "{status} {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The addresses in a playlist that are no tags.
fn listed_urls(playlist: &Url, text: &str) -> Vec<Url> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| playlist.join(line).expect("an address")).collect()
}
