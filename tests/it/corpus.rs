//! Runs if `HEARTHCAST_CORPUS` names a folder with a `manifest.json`. `CORPUS_ONLY` selects files by a part of their
//! name; `CORPUS_LONG=1` decodes long files completely instead of some of their segments; `CORPUS_BACKEND` is the backend
//! for encodes (`auto`, `gstreamer`, `ffmpeg`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearthcast::config::{BackendSetting, Config};
use hearthcast::engine::TIMELINE_BASE;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kit::player::{self, Decoded, Frame, PlayerSession, decode};
use crate::kit::response::send_until_ready;
use crate::kit::{self, audio};

/// Longest time that any response may take.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(5);
/// Largest offset of audio against video, seconds.
const MAX_OFFSET_SECONDS: f64 = 0.04;
/// Of longer items, only some segments are played.
const LONG_SECONDS: f64 = 120.0;

#[derive(Deserialize)]
struct CorpusManifest {
    items: Vec<CorpusItem>,
}

#[derive(Deserialize)]
struct CorpusItem {
    file: String,
    sha256: String,
    expect: ExpectedActions,
    duration_packets: Option<f64>,
}

#[derive(Deserialize)]
struct ExpectedActions {
    #[serde(default)]
    accept: Vec<String>,
}

/// The corpus folder; logs when it is missing.
pub fn corpus_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("HEARTHCAST_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: HEARTHCAST_CORPUS does not name a corpus folder");
    }
    folder
}

fn corpus_items(folder: &Path) -> Vec<CorpusItem> {
    let text = std::fs::read(folder.join("manifest.json")).expect("a manifest");
    let manifest: CorpusManifest = serde_json::from_slice(&text).expect("the manifest's shape");
    let filter = std::env::var("CORPUS_ONLY").unwrap_or_default();
    manifest.items.into_iter().filter(|item| item.file.contains(&filter)).collect()
}

/// The media files of the corpus.
pub fn media_paths(folder: &Path) -> Vec<PathBuf> {
    corpus_items(folder).iter().filter(|item| item.is_media()).map(|item| folder.join(&item.file)).collect()
}

impl CorpusItem {
    fn is_media(&self) -> bool {
        ["video/", "audio/", "broken/"].iter().any(|part| self.file.starts_with(part))
    }
}

/// One row of the report: the request, the action, notes and faults.
struct ReportRow {
    file: String,
    request: &'static str,
    action: String,
    seconds: f64,
    notes: Vec<String>,
    faults: Vec<String>,
}

impl ReportRow {
    fn report_line(&self) -> String {
        let result = if self.faults.is_empty() { "ok" } else { "FAILED" };
        let remarks = [&self.faults[..], &self.notes[..]].concat().join("; ");
        format!("{result}\t{}\t{}\t{:.1}\t{}\t{remarks}", self.request, self.action, self.seconds, self.file)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_gets_an_accepted_response_and_plays_to_its_end() {
    let Some(folder) = corpus_folder() else { return };
    let backend = match std::env::var("CORPUS_BACKEND").as_deref() {
        Ok("gstreamer") => BackendSetting::Gstreamer,
        Ok("ffmpeg") => BackendSetting::Ffmpeg,
        _ => BackendSetting::Auto,
    };
    let configure = |config: &mut Config| (config.limits.concurrent_jobs, config.backend) = (4, backend);
    let server = kit::start_server_with(&[&folder], configure).await;
    let mut rows = Vec::new();
    for item in corpus_items(&folder).iter().filter(|item| item.is_media()) {
        let path = folder.join(&item.file);
        for (request, body) in
            [("plain", json!({})), ("forced", json!({"forceTranscode": true, "profile": {"resolution": "360p"}}))]
        {
            let started = Instant::now();
            let mut row = ReportRow {
                file: item.file.clone(),
                request,
                action: String::new(),
                seconds: 0.0,
                notes: Vec::new(),
                faults: Vec::new(),
            };
            let attempt = try_item(&server, &path, item, body, &mut row);
            if tokio::time::timeout(Duration::from_secs(180), attempt).await.is_err() {
                row.faults.push("did not end within 180 s".into());
            }
            row.seconds = started.elapsed().as_secs_f64();
            eprintln!("{}", row.report_line());
            rows.push(row);
        }
    }
    print_report(&rows);
    let failed: Vec<&ReportRow> = rows.iter().filter(|row| !row.faults.is_empty()).collect();
    assert!(failed.is_empty(), "{} of {} failed, see the table above", failed.len(), rows.len());
}

/// Prints the report and stores it in the build folder.
fn print_report(rows: &[ReportRow]) {
    let mut table = String::from("result\twish\taction\tseconds\tfile\tfaults and notes\n");
    for row in rows {
        table += &row.report_line();
        table.push('\n');
    }
    let report_path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus.tsv");
    std::fs::write(&report_path, &table).expect("the report is written");
    eprintln!("{table}\nstored in {}", report_path.display());
}

async fn try_item(server: &kit::Server, path: &Path, item: &CorpusItem, options: Value, row: &mut ReportRow) {
    let is_forced = options["forceTranscode"] == true;
    let accept: Vec<&str> = item.expect.accept.iter().map(String::as_str).collect();
    if is_forced && accept == ["refuse"] {
        row.action = "skipped".into();
        return;
    }
    let started_at = Instant::now();
    let (status, started) = player::start(server, path, options).await;
    if started_at.elapsed() > MAX_RESPONSE_TIME {
        row.faults.push(format!("start answered after {:.1} s", started_at.elapsed().as_secs_f64()));
    }
    row.action = action_of(status, &started);
    // A forced start may give any kind of session; files that may be refused may still be.
    let is_accepted = match is_forced {
        true => ["remux", "transcode"].contains(&row.action.as_str()) || accept.contains(&row.action.as_str()),
        false => accept.contains(&row.action.as_str()),
    };
    if !is_accepted {
        row.faults.push(format!("accepted: {}; answer: {status} {:.300}", accept.join(","), started.to_string()));
    }
    if status != 200 {
        if started["code"].as_str().is_none_or(str::is_empty) || started["code"] == "INTERNAL" || status >= 500 {
            row.faults.push(format!("refused without an honest code: {status} {started}"));
        }
        return;
    }
    let played = match started["playbackMode"].as_str() {
        Some("direct") => check_direct(server, path, item, &started).await,
        _ => check_session(server, path, item, &started, row).await,
    };
    if let Err(fault) = played {
        // A file that may be refused may also fail during playback, with an honest error.
        match accept.contains(&"refuse") && ["DECODE_FAILED", "UNPLAYABLE"].iter().any(|code| fault.contains(code)) {
            true => row.notes.push(fault),
            false => row.faults.push(fault),
        }
    }
    player::stop(server, &started).await;
}

/// The manifest's name for a response.
fn action_of(status: u16, started: &Value) -> String {
    let decision = &started["decision"];
    match (status, started["playbackMode"].as_str()) {
        (200, Some("direct")) => "direct".into(),
        (200, _) => match (decision["video"].as_str(), decision["audio"].as_str()) {
            (Some("copy"), _) | (None, Some("copy")) => "remux".into(),
            _ => "transcode".into(),
        },
        _ => "refuse".into(),
    }
}

/// Asserts that the bytes, whole and from the middle, are those of the file.
async fn check_direct(server: &kit::Server, path: &Path, item: &CorpusItem, started: &Value) -> Result<(), String> {
    let url = started["directUrl"].as_str().ok_or("direct without directUrl")?;
    let answer = server.get(url).send().await.map_err(|cause| cause.to_string())?;
    if answer.status() != 200 {
        return Err(format!("direct: {}", answer.status()));
    }
    let bytes = answer.bytes().await.map_err(|cause| cause.to_string())?;
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes));
    if digest != item.sha256 {
        return Err(format!("direct: {} bytes that are not those of {}", bytes.len(), path.display()));
    }
    let (from, to) = (bytes.len() / 3, bytes.len() / 2);
    let part = server.get(url).header("range", format!("bytes={from}-{to}")).send().await.map_err(|c| c.to_string())?;
    let (status, part) = (part.status(), part.bytes().await.map_err(|cause| cause.to_string())?);
    match status == 206 && part[..] == bytes[from..=to] {
        true => Ok(()),
        false => Err(format!("direct: a range answered {status} with {} bytes", part.len())),
    }
}

async fn check_session(
    server: &kit::Server,
    path: &Path,
    item: &CorpusItem,
    started: &Value,
    row: &mut ReportRow,
) -> Result<(), String> {
    let player = PlayerSession::open(server, started).await?;
    let true_seconds = item.duration_packets.unwrap_or(0.0);
    // The length in the header counts, too: it may be hours although the file has few bytes.
    let is_played_completely =
        true_seconds.max(player.duration()) <= LONG_SECONDS || std::env::var_os("CORPUS_LONG").is_some();
    let folder = tempfile::tempdir().map_err(|cause| cause.to_string())?;
    let output = folder.path().join("played.ts");
    if !is_played_completely {
        let last = player.segments.len() - 1;
        // The first segment in front shows the decoder all tracks, in case one of them ends early.
        let first = player.segment(0).await?;
        for index in [0, last / 2, last, last / 3, last / 7, last - 1] {
            let segment = player.segment(index).await?;
            let joined = if index == 0 { segment.to_vec() } else { [&first[..], &segment].concat() };
            std::fs::write(&output, joined).map_err(|cause| cause.to_string())?;
            let mut decoded = decode(&output).await;
            decoded.warnings.retain(|warning| !warning.contains("DTS discontinuity"));
            let (begin, end) = player.segment_seconds(index);
            let is_inside =
                |frame: &&Frame| (begin - 0.1..end + 0.1).contains(&(frame.start_seconds - TIMELINE_BASE.as_seconds()));
            if decoded.video.iter().chain(&decoded.audio).filter(is_inside).count() == 0 {
                return Err(format!("segment {index} of {} has nothing from {begin:.3} to {end:.3} s", last + 1));
            }
            report_warnings(&decoded.warnings, path, &format!("segment {index}"), row).await;
        }
        return match item.duration_packets {
            Some(_) => check_nearly("playlist", player.duration(), true_seconds, 0.5 + true_seconds * 0.001),
            None => Ok(()),
        };
    }
    std::fs::write(&output, player.fetch_all().await?).map_err(|cause| cause.to_string())?;
    let decoded = decode(&output).await;
    report_warnings(&decoded.warnings, path, "warning", row).await;
    report_warnings(&decoded.timing_faults(), path, "time", row).await;
    let (video, audio) = (decoded.video_seconds(), decoded.audio_seconds());
    row.notes.push(format!(
        "{} frames {video:.3} s, audio {audio:.3} s, true length {true_seconds:.3} s",
        decoded.video.len()
    ));
    if decoded.video.is_empty() && decoded.audio.is_empty() {
        return Err("decodes to nothing".into());
    }
    let played = if decoded.video.is_empty() { audio } else { video };
    check_sync(server, path, &output, started["decision"]["video"] == "copy", &decoded).await?;
    if check_nearly("played", played, true_seconds, 0.25).is_err() {
        let source = decode(path).await;
        // Encoded video lasts from the source's first frame or sample to its last, never longer.
        check_nearly("played", played, true_seconds.max(source.total_seconds()), 0.25)?;
        row.notes.push(format!("the source lasts {:.3} s", source.total_seconds()));
    }
    check_nearly("playlist", player.duration(), video.max(audio), 0.5)
}

/// Fails if audio is further from the video than in the source. Encoded video is on a grid, so its times are exact.
async fn check_sync(
    server: &kit::Server,
    path: &Path,
    output: &Path,
    is_copied: bool,
    played: &Decoded,
) -> Result<(), String> {
    let query = serde_urlencoded::to_string([("path", path.to_str().expect("UTF-8"))]).expect("plain text");
    let info = send_until_ready(server.get(&format!("/api/stream/info/full?{query}"))).await;
    let info: Value = info.json().await.map_err(|cause| cause.to_string())?;
    let start = info["probe"]["startSeconds"].as_f64().ok_or("no startSeconds")?;
    let base = TIMELINE_BASE.as_seconds();
    let Some(audio_delay) = audio::audio_delay_seconds((output, base), (path, start)).await else { return Ok(()) };
    let source = decode(path).await;
    let video_delay = match (played.video.first(), source.video.first()) {
        (Some(ours), Some(theirs)) if is_copied => (ours.start_seconds - base) - (theirs.start_seconds - start),
        (None, _) | (_, None) => return Ok(()),
        _ => 0.0,
    };
    match (audio_delay - video_delay).abs() < MAX_OFFSET_SECONDS {
        true => Ok(()),
        false => Err(format!("audio {:.0} ms late, video {:.0} ms", audio_delay * 1000.0, video_delay * 1000.0)),
    }
}

fn check_nearly(name: &str, actual: f64, expected: f64, tolerance: f64) -> Result<(), String> {
    match (actual - expected).abs() <= tolerance {
        true => Ok(()),
        false => Err(format!("{name} {actual:.3} s, expected {expected:.3} s")),
    }
}

/// Reports warnings as faults, unless decoding the source gives warnings, too.
async fn report_warnings(warnings: &[String], path: &Path, label: &str, row: &mut ReportRow) {
    let Some(first) = warnings.first() else { return };
    let source = decode(path).await;
    let text = format!("{label}: {first} (+{})", warnings.len() - 1);
    match source.warnings.is_empty() && source.timing_faults().is_empty() {
        true => row.faults.push(text),
        false => row.notes.push(format!("{text}, as the source")),
    }
}
