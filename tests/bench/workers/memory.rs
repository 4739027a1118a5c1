//! The peak memory of the server process while it probes and plays hostile files.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

use super::{corpus_folder, make_film, print_floor};
use crate::program::ServerProcess;

/// Time for a request; a server answers sooner.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(60);

/// Warm-up plays of a healthy film, so that pages of the program and its caches are in memory.
const WARM_UP_PLAYS: usize = 10;

/// The worst files in the report.
const REPORTED_FILES: usize = 5;

pub async fn measure(folder: &Path) {
    let library = tempfile::tempdir_in(folder).expect("a temporary folder");
    let huge = library.path().join("huge.mkv");
    let huge_film = "-c:v libx264 -preset ultrafast -threads 1 -pix_fmt yuv420p -c:a aac";
    make_film(&huge, "color=s=16000x16000:r=1:d=1", huge_film);
    let healthy = library.path().join("healthy.mp4");
    make_film(&healthy, "testsrc2=s=640x360:r=25:d=5", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac");
    let hostile = make_hostile_files(library.path(), &healthy);
    let files = files_below(&hostile);
    let settings = [("HEARTHCAST_BACKEND", "gstreamer"), ("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4")];
    let program = ServerProcess::start(&[library.path()], &settings).await;
    for _ in 0..WARM_UP_PLAYS {
        let statuses = try_file(&program, &healthy).await;
        assert!(statuses.iter().all(|status| *status == 200), "a healthy film plays: {statuses:?}");
    }
    let (rise, statuses) = rise_mib(&program, &huge).await;
    println!("16000x16000: answers {statuses:?}");
    print_floor("peak memory over a file of 16000x16000 pixels", rise, " MiB", "<=", 5.0);
    let mut rises = Vec::new();
    for file in &files {
        rises.push((rise_mib(&program, file).await.0, file));
    }
    rises.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (rise, file) in rises.iter().take(REPORTED_FILES) {
        println!("{rise:.2} MiB: {:.80}", file.strip_prefix(library.path()).unwrap_or(file).display());
    }
    let worst = rises.first().map_or(0.0, |(rise, _)| *rise);
    print_floor(&format!("peak memory over each of {} hostile files", files.len()), worst, " MiB", "<=", 5.0);
}

/// The hostile files of the corpus; without a corpus, parts of a healthy film.
fn make_hostile_files(library: &Path, healthy: &Path) -> PathBuf {
    let folder = library.join("hostile");
    let Some(corpus) = corpus_folder() else {
        std::fs::create_dir(&folder).expect("a fresh folder");
        let bytes = std::fs::read(healthy).expect("a film");
        for part in 0..20 {
            let end = bytes.len() * part / 20;
            std::fs::write(folder.join(format!("cut-{part}.mp4")), &bytes[..end]).expect("a folder of our own");
        }
        return folder;
    };
    let mut script = Command::new("bash");
    script.arg(corpus.join("make-hostile.sh")).arg(&folder).arg(corpus.join("video/h264-aac-edit-list.mp4"));
    let made = script.arg(corpus.join("video/cea608-captions.ts")).output().expect("bash runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder.join("root")
}

/// All files, links and special files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of our own").flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}

/// The rise of the server's peak memory over its present memory while a file is probed and its first segment made, MiB, and
/// the status of each answer.
async fn rise_mib(program: &ServerProcess, file: &Path) -> (f64, Vec<u16>) {
    // Resets the peak to the present memory (proc(5)).
    std::fs::write(format!("/proc/{}/clear_refs", program.pid()), "5").expect("the server's user");
    let before = program.memory_kib();
    let statuses = try_file(program, file).await;
    (peak_kib(program).saturating_sub(before) as f64 / 1024.0, statuses)
}

fn peak_kib(program: &ServerProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel reports it");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// Probes a file and plays its first segment. The status of each answer; errors are answers as well.
async fn try_file(program: &ServerProcess, file: &Path) -> Vec<u16> {
    let encoded = percent_encode(file.as_os_str().as_bytes(), NON_ALPHANUMERIC).to_string();
    let (status, _) = send(program.get(&format!("/api/stream/info/full?path={encoded}"))).await;
    let mut statuses = vec![status];
    let Some(path) = file.to_str() else { return statuses };
    let folder = format!("{}/api/stream/transcode", program.base);
    let options = json!({"mediaPath": path, "forceTranscode": true, "profile": {"resolution": "240p"}});
    let start = program.client.post(format!("{folder}/start")).bearer_auth(&program.token).json(&options);
    let (status, started) = send(start).await;
    statuses.push(status);
    let started: Value = serde_json::from_slice(&started).unwrap_or_default();
    let Some(session) = started["sessionId"].as_str() else { return statuses };
    for asset in ["index.m3u8", "v0.m3u8", "v0-00000.ts"] {
        statuses.push(send(program.get(&format!("/api/stream/transcode/{session}/{asset}"))).await.0);
    }
    statuses.push(send(program.client.delete(format!("{folder}/{session}")).bearer_auth(&program.token)).await.0);
    statuses
}

async fn send(request: reqwest::RequestBuilder) -> (u16, Vec<u8>) {
    let answer = request.timeout(MAX_RESPONSE_TIME).send().await.expect("the server answers");
    (answer.status().as_u16(), answer.bytes().await.expect("a body").to_vec())
}
