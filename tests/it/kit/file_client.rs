//! A client that probes files and plays their first segments. It checks that each answer is documented.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::error::Code;
use serde_json::{Value, json};

use super::program::ServerProcess;
use super::wait::MAX_WAIT;

/// The longest time until a response. A segment may wait for its backends, one after the other.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(60);

/// Settings of the server.
fn settings(backend: &str) -> [(&'static str, &str); 3] {
    [
        ("HEARTHCAST_BACKEND", backend),
        ("HEARTHCAST_LIMITS_SESSIONS_PER_USER", "16"),
        ("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4"),
    ]
}

/// How far a file came.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The first segment, or the file itself, was delivered.
    Played,
    /// The server refused it: the step and the code.
    Refused(String),
    /// The server broke a rule.
    Fault(String),
}

/// A server, and the requests for one file.
pub struct FileClient {
    pub program: ServerProcess,
}

impl FileClient {
    /// A server over a folder, with this backend.
    pub async fn start(folder: &Path, backend: &str) -> Self {
        Self { program: ServerProcess::start(&[folder], &settings(backend)).await }
    }

    /// [`Self::start`] under strace; the lines that match `pattern` are written to `trace`.
    pub async fn start_traced(folder: &Path, backend: &str, pattern: &str, trace: &Path) -> Self {
        Self { program: ServerProcess::start_traced(&[folder], &settings(backend), pattern, trace).await }
    }

    /// Sends a request; returns status and body, or the outcome of this step if it is an error.
    async fn send(&self, step: &str, request: reqwest::RequestBuilder) -> Result<(u16, Vec<u8>), Outcome> {
        let fault = |text: String| Outcome::Fault(format!("{step}: {text}"));
        let answered = async {
            let answer = request.send().await?;
            Ok::<_, reqwest::Error>((answer.status().as_u16(), answer.bytes().await?.to_vec()))
        };
        let answered = tokio::time::timeout(MAX_RESPONSE_TIME, answered).await;
        let (status, body) = match answered {
            Err(_) => return Err(fault(format!("no answer within {} s", MAX_RESPONSE_TIME.as_secs()))),
            Ok(Err(cause)) => return Err(fault(format!("no answer: {cause:?}"))),
            Ok(Ok(answer)) => answer,
        };
        if status < 400 {
            return Ok((status, body));
        }
        let error: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = error["code"].as_str().unwrap_or_default();
        let has_text = error["error"].as_str().is_some_and(|text| !text.is_empty());
        let documented = Code::ALL.iter().find(|one| one.as_str() == code && one.status() == status);
        match documented {
            Some(code) if *code != Code::Internal && has_text => {
                Err(Outcome::Refused(format!("{step} {}", code.as_str())))
            }
            _ => Err(fault(format!("{status} {:.300}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Probes a file and, if that succeeds, plays its first segment, encoded.
    pub async fn try_file(&self, path: &Path) -> Outcome {
        let mut outcome = self.probe(path).await;
        if outcome.is_ok() {
            outcome = self.play(path).await;
        }
        outcome.err().unwrap_or(Outcome::Played)
    }

    pub async fn probe(&self, path: &Path) -> Result<(), Outcome> {
        let query = serde_urlencoded::to_string([("path", path.to_str().expect("plain name"))]).expect("plain text");
        self.send("probe", self.program.get(&format!("/api/stream/info/full?{query}"))).await.map(drop)
    }

    pub async fn play(&self, path: &Path) -> Result<(), Outcome> {
        let options = json!({"mediaPath": path, "forceTranscode": true, "profile": {"resolution": "240p"}});
        let url = format!("{}/api/stream/transcode/start", self.program.base);
        let request = self.program.client.post(url).bearer_auth(&self.program.token).json(&options);
        let (_, started) = self.send("start", request).await?;
        let started: Value = serde_json::from_slice(&started).unwrap_or_default();
        let Some(session) = started["sessionId"].as_str() else {
            let is_direct = started["playbackMode"] == "direct";
            return if is_direct { Ok(()) } else { Err(Outcome::Fault(format!("no session: {started}"))) };
        };
        let folder = format!("/api/stream/transcode/{session}");
        let played = self.play_first_segment(&folder).await;
        let url = format!("{}{folder}", self.program.base);
        let stopped = self.send("stop", self.program.client.delete(url).bearer_auth(&self.program.token)).await;
        played.and(stopped.map(drop))
    }

    async fn play_first_segment(&self, folder: &str) -> Result<(), Outcome> {
        let index = self.playlist(&format!("{folder}/index.m3u8")).await?;
        let playlist = self.playlist(&format!("{folder}/{}", first_uri(&index)?)).await?;
        let segment = self.program.get(&format!("{folder}/{}", first_uri(&playlist)?));
        let (_, segment) = self.send("segment", segment).await?;
        match segment.first() == Some(&0x47) && segment.len().is_multiple_of(188) {
            true => Ok(()),
            false => Err(Outcome::Fault(format!("segment: {} bytes are no transport stream", segment.len()))),
        }
    }

    /// A playlist; the request is repeated while the session is being prepared.
    async fn playlist(&self, path: &str) -> Result<String, Outcome> {
        let deadline = Instant::now() + MAX_RESPONSE_TIME;
        while Instant::now() < deadline {
            let (_, body) = self.send("playlist", self.program.get(path)).await?;
            let text = String::from_utf8_lossy(&body).into_owned();
            if text.starts_with("#EXTM3U") {
                return Ok(text);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Outcome::Fault("playlist: still being prepared".into()))
    }

    /// The pool in the view of workers.
    pub async fn pool(&self) -> Value {
        let answer = self.program.get("/api/stream/v2-workers").send().await.expect("the server answers");
        answer.json::<Value>().await.expect("JSON")["local"]["pool"].clone()
    }

    /// Waits until no worker has a job: runs are stopped, replays done.
    pub async fn wait_until_idle(&self) {
        let deadline = Instant::now() + MAX_WAIT;
        let mut idle_polls = 0;
        while idle_polls < 3 {
            let pool = self.pool().await;
            assert!(Instant::now() < deadline, "workers are still busy: {pool}");
            // A replay begins shortly after another one has ended.
            idle_polls = if pool["busy"] == 0 { idle_polls + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn quarantine(&self) -> Vec<Value> {
        let url = format!("{}/api/quarantine", self.program.base);
        let answer = self.program.client.get(url).bearer_auth(&self.program.admin).send().await;
        let body: Value = answer.expect("the server answers").json().await.expect("JSON");
        body["entries"].as_array().expect("entries").clone()
    }

    pub async fn lift(&self, entry: &Value) {
        let url = format!("{}/api/quarantine/{}", self.program.base, entry["id"].as_str().expect("an id"));
        let answer = self.program.client.delete(url).bearer_auth(&self.program.admin).send().await;
        assert_eq!(answer.expect("the server answers").status(), 204);
    }
}

/// The first line of a playlist that is an address.
fn first_uri(playlist: &str) -> Result<&str, Outcome> {
    let uri = playlist.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    uri.ok_or_else(|| Outcome::Fault(format!("a playlist without an address: {playlist}")))
}

/// Workers of a pool that died, by cause. Those that were recycled did not die.
pub fn deaths(pool: &Value) -> BTreeMap<String, u64> {
    let causes = pool["causes"].as_object().expect("causes by name");
    let died = causes.iter().filter(|(cause, _)| *cause != "recycled");
    died.map(|(cause, count)| (cause.clone(), count.as_u64().unwrap_or(0))).collect()
}
