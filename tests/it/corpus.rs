//! Runs if `HEARTHCAST_CORPUS` names a folder with a `manifest.json`. `CORPUS_ONLY` selects files by a part of their
//! name; `CORPUS_LONG=1` decodes long files completely instead of some of their segments; `CORPUS_BACKEND` is the backend
//! for encodes (`auto`, `gstreamer`, `ffmpeg`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearthcast::config::{BackendSetting, Config};
use hearthcast::engine::TIMELINE_BASE_SECONDS;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kit::play::{self, Decoded, Frame, Stream, decode};
use crate::kit::{self, hear};

/// Longest time that any response may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Largest offset of audio against video, seconds.
const MOST_OFFSET: f64 = 0.04;
/// Of longer items, only some segments are played.
const LONG_SECONDS: f64 = 120.0;

#[derive(Deserialize)]
struct Manifest {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    file: String,
    sha256: String,
    expect: Expect,
    duration_packets: Option<f64>,
}

#[derive(Deserialize)]
struct Expect {
    #[serde(default)]
    accept: Vec<String>,
}

/// The corpus folder; logs when it is missing.
pub fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("HEARTHCAST_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: HEARTHCAST_CORPUS does not name a corpus folder");
    }
    folder
}

fn items(folder: &Path) -> Vec<Item> {
    let text = std::fs::read(folder.join("manifest.json")).expect("a manifest");
    let manifest: Manifest = serde_json::from_slice(&text).expect("the manifest's shape");
    let only = std::env::var("CORPUS_ONLY").unwrap_or_default();
    manifest.items.into_iter().filter(|item| item.file.contains(&only)).collect()
}

/// One row of the report: the request, the action, notes and faults.
struct Row {
    file: String,
    wish: &'static str,
    action: String,
    seconds: f64,
    notes: Vec<String>,
    faults: Vec<String>,
}

impl Row {
    fn line(&self) -> String {
        let result = if self.faults.is_empty() { "ok" } else { "FAILED" };
        let said = [&self.faults[..], &self.notes[..]].concat().join("; ");
        format!("{result}\t{}\t{}\t{:.1}\t{}\t{said}", self.wish, self.action, self.seconds, self.file)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_gets_an_accepted_answer_and_plays_to_its_end() {
    let Some(folder) = folder() else { return };
    let backend = match std::env::var("CORPUS_BACKEND").as_deref() {
        Ok("gstreamer") => BackendSetting::Gstreamer,
        Ok("ffmpeg") => BackendSetting::Ffmpeg,
        _ => BackendSetting::Auto,
    };
    let change = |config: &mut Config| (config.limits.concurrent_jobs, config.backend) = (4, backend);
    let server = kit::server_with(&[&folder], change).await;
    let mut rows = Vec::new();
    let media = |item: &Item| ["video/", "audio/", "broken/"].iter().any(|part| item.file.starts_with(part));
    for item in items(&folder).iter().filter(|item| media(item)) {
        let path = folder.join(&item.file);
        for (wish, body) in
            [("plain", json!({})), ("forced", json!({"forceTranscode": true, "profile": {"resolution": "360p"}}))]
        {
            let began = Instant::now();
            let mut row = Row {
                file: item.file.clone(),
                wish,
                action: String::new(),
                seconds: 0.0,
                notes: Vec::new(),
                faults: Vec::new(),
            };
            let work = try_one(&server, &path, item, body, &mut row);
            if tokio::time::timeout(Duration::from_secs(180), work).await.is_err() {
                row.faults.push("did not end within 180 s".into());
            }
            row.seconds = began.elapsed().as_secs_f64();
            eprintln!("{}", row.line());
            rows.push(row);
        }
    }
    report(&rows);
    let failed: Vec<&Row> = rows.iter().filter(|row| !row.faults.is_empty()).collect();
    assert!(failed.is_empty(), "{} of {} failed, see the table above", failed.len(), rows.len());
}

/// Prints the report and stores it in the build folder.
fn report(rows: &[Row]) {
    let mut table = String::from("result\twish\taction\tseconds\tfile\tfaults and notes\n");
    for row in rows {
        table += &row.line();
        table.push('\n');
    }
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus.tsv");
    std::fs::write(&kept, &table).expect("the report is written");
    eprintln!("{table}\nstored in {}", kept.display());
}

async fn try_one(server: &kit::Server, path: &Path, item: &Item, wish: Value, row: &mut Row) {
    let forced = wish["forceTranscode"] == true;
    let accept: Vec<&str> = item.expect.accept.iter().map(String::as_str).collect();
    if forced && accept == ["refuse"] {
        row.action = "skipped".into();
        return;
    }
    let began = Instant::now();
    let (status, started) = play::start(server, path, wish).await;
    if began.elapsed() > ANSWER {
        row.faults.push(format!("start answered after {:.1} s", began.elapsed().as_secs_f64()));
    }
    row.action = action(status, &started);
    // A forced start may give any kind of session; files that may be refused may still be.
    let right = match forced {
        true => ["remux", "transcode"].contains(&row.action.as_str()) || accept.contains(&row.action.as_str()),
        false => accept.contains(&row.action.as_str()),
    };
    if !right {
        row.faults.push(format!("accepted: {}; answer: {status} {:.300}", accept.join(","), started.to_string()));
    }
    if status != 200 {
        if started["code"].as_str().is_none_or(str::is_empty) || started["code"] == "INTERNAL" || status >= 500 {
            row.faults.push(format!("refused without an honest code: {status} {started}"));
        }
        return;
    }
    let played = match started["playbackMode"].as_str() {
        Some("direct") => direct(server, path, item, &started).await,
        _ => session(server, path, item, &started, row).await,
    };
    if let Err(fault) = played {
        // A file that may be refused may also fail during playback, with an honest error.
        match accept.contains(&"refuse") && ["DECODE_FAILED", "UNPLAYABLE"].iter().any(|code| fault.contains(code)) {
            true => row.notes.push(fault),
            false => row.faults.push(fault),
        }
    }
    play::stop(server, &started).await;
}

/// The manifest's name for a response.
fn action(status: u16, started: &Value) -> String {
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
async fn direct(server: &kit::Server, path: &Path, item: &Item, started: &Value) -> Result<(), String> {
    let url = started["directUrl"].as_str().ok_or("direct without directUrl")?;
    let whole = server.get(url).send().await.map_err(|cause| cause.to_string())?;
    if whole.status() != 200 {
        return Err(format!("direct: {}", whole.status()));
    }
    let bytes = whole.bytes().await.map_err(|cause| cause.to_string())?;
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

async fn session(server: &kit::Server, path: &Path, item: &Item, started: &Value, row: &mut Row) -> Result<(), String> {
    let stream = Stream::open(server, started).await?;
    let truth = item.duration_packets.unwrap_or(0.0);
    // The length in the header counts, too: it may be hours although the file has few bytes.
    let whole = truth.max(stream.duration()) <= LONG_SECONDS || std::env::var_os("CORPUS_LONG").is_some();
    let folder = tempfile::tempdir().map_err(|cause| cause.to_string())?;
    let kept = folder.path().join("played.ts");
    if !whole {
        let last = stream.segments.len() - 1;
        // The first segment in front shows the decoder all tracks, in case one of them ends early.
        let first = stream.segment(0).await?;
        for index in [0, last / 2, last, last / 3, last / 7, last - 1] {
            let segment = stream.segment(index).await?;
            let joined = if index == 0 { segment.to_vec() } else { [&first[..], &segment].concat() };
            std::fs::write(&kept, joined).map_err(|cause| cause.to_string())?;
            let mut decoded = decode(&kept).await;
            decoded.warnings.retain(|warning| !warning.contains("DTS discontinuity"));
            let (begin, end) = stream.span(index);
            let inside = |frame: &&Frame| (begin - 0.1..end + 0.1).contains(&(frame.at - TIMELINE_BASE_SECONDS as f64));
            if decoded.video.iter().chain(&decoded.audio).filter(inside).count() == 0 {
                return Err(format!("segment {index} of {} has nothing from {begin:.3} to {end:.3} s", last + 1));
            }
            excuse(&decoded.warnings, path, &format!("segment {index}"), row).await;
        }
        return match item.duration_packets {
            Some(_) => nearly("playlist", stream.duration(), truth, 0.5 + truth * 0.001),
            None => Ok(()),
        };
    }
    std::fs::write(&kept, stream.fetch_all().await?).map_err(|cause| cause.to_string())?;
    let decoded = decode(&kept).await;
    excuse(&decoded.warnings, path, "warning", row).await;
    excuse(&decoded.faults(), path, "time", row).await;
    let (video, audio) = (decoded.video_seconds(), decoded.audio_seconds());
    row.notes
        .push(format!("{} frames {video:.3} s, audio {audio:.3} s, true length {truth:.3} s", decoded.video.len()));
    if decoded.video.is_empty() && decoded.audio.is_empty() {
        return Err("decodes to nothing".into());
    }
    let played = if decoded.video.is_empty() { audio } else { video };
    in_step(server, path, &kept, started["decision"]["video"] == "copy", &decoded).await?;
    if nearly("played", played, truth, 0.25).is_err() {
        let source = decode(path).await;
        // Encoded video lasts from the source's first frame or sample to its last, never longer.
        nearly("played", played, truth.max(source.seconds()), 0.25)?;
        row.notes.push(format!("the source lasts {:.3} s", source.seconds()));
    }
    nearly("playlist", stream.duration(), video.max(audio), 0.5)
}

/// Fails if audio is further from the video than in the source. Encoded video is on a grid, so its times are exact.
async fn in_step(server: &kit::Server, path: &Path, kept: &Path, copied: bool, played: &Decoded) -> Result<(), String> {
    let query = serde_urlencoded::to_string([("path", path.to_str().expect("UTF-8"))]).expect("plain text");
    let info = server.get(&format!("/api/stream/info/full?{query}")).send().await.map_err(|cause| cause.to_string())?;
    let info: Value = info.json().await.map_err(|cause| cause.to_string())?;
    let start = info["probe"]["startSeconds"].as_f64().ok_or("no startSeconds")?;
    let base = TIMELINE_BASE_SECONDS as f64;
    let Some(sound) = hear::later((kept, base), (path, start)).await else { return Ok(()) };
    let source = decode(path).await;
    let picture = match (played.video.first(), source.video.first()) {
        (Some(ours), Some(theirs)) if copied => (ours.at - base) - (theirs.at - start),
        (None, _) | (_, None) => return Ok(()),
        _ => 0.0,
    };
    match (sound - picture).abs() < MOST_OFFSET {
        true => Ok(()),
        false => Err(format!("audio {:.0} ms late, video {:.0} ms", sound * 1000.0, picture * 1000.0)),
    }
}

fn nearly(what: &str, is: f64, wanted: f64, tolerance: f64) -> Result<(), String> {
    match (is - wanted).abs() <= tolerance {
        true => Ok(()),
        false => Err(format!("{what} {is:.3} s, expected {wanted:.3} s")),
    }
}

/// Reports warnings as faults, unless decoding the source gives warnings, too.
async fn excuse(complaints: &[String], path: &Path, what: &str, row: &mut Row) {
    let Some(first) = complaints.first() else { return };
    let source = decode(path).await;
    let said = format!("{what}: {first} (+{})", complaints.len() - 1);
    match source.warnings.is_empty() && source.faults().is_empty() {
        true => row.faults.push(said),
        false => row.notes.push(format!("{said}, as the source")),
    }
}
