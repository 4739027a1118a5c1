//! Hostile inputs. With `HEARTHCAST_CORPUS`, a script of the corpus makes them; otherwise this test makes a smaller set.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

use crate::corpus;
use crate::kit::media;
use crate::kit::program::ServerProcess;

/// The longest time that a response may take.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(20);
const CANARY: &str = "TOP-SECRET-CANARY";

/// Codes allowed with status 500 and above, because they blame the file or the load.
const ALLOWED_5XX_CODES: [&str; 8] = [
    "DECODE_FAILED",
    "ENCODER_FAILED",
    "SOURCE_READ_FAILED",
    "SOURCE_CHANGED",
    "TRANSCODER_BUSY",
    "SEGMENT_TIMEOUT",
    "STORAGE_TIMEOUT",
    "TRANSCODER_UNAVAILABLE",
];

/// Makes a folder of inputs: `root` for the server, `outside` with contents that must not leak, `paths.txt`.
fn make_inputs(folder: &Path) -> PathBuf {
    let hostile_folder = folder.join("hostile");
    match corpus::corpus_folder() {
        Some(corpus) => {
            let script = Command::new("bash")
                .arg(corpus.join("make-hostile.sh"))
                .arg(&hostile_folder)
                .arg(corpus.join("video/h264-aac-edit-list.mp4"))
                .arg(corpus.join("video/cea608-captions.ts"))
                .output()
                .expect("bash runs");
            assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
        }
        None => make_small_set(&hostile_folder),
    }
    hostile_folder
}

/// Makes the smaller set.
fn make_small_set(out: &Path) {
    let (root, outside) = (out.join("root"), out.join("outside"));
    for folder in [&root.join("links"), &root.join("directory.mp4"), &outside, &out.join("root-evil")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let good = root.join("good.mp4");
    media::flash_and_beep(&good, 2, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac -movflags +faststart");
    let bytes = std::fs::read(&good).unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(root.join(name), bytes).unwrap();
    std::fs::write(outside.join("secret.txt"), format!("{CANARY}\n")).unwrap();
    std::fs::write(outside.join("secret.mp4"), &bytes).unwrap();
    std::fs::write(out.join("root-evil/x.mp4"), &bytes).unwrap();
    for cut in [0, 1, 8, 512, bytes.len() / 2, bytes.len() - 8] {
        put(&format!("cut-{cut}.mp4"), &bytes[..cut]);
    }
    for seed in 0..6_usize {
        let mut flipped = bytes.clone();
        for step in 0..40 {
            let position = (step * 7919 + seed * 104_729) % flipped.len().min(if seed < 3 { 4096 } else { usize::MAX });
            flipped[position] ^= 1 << (step % 8);
        }
        put(&format!("flip-{seed}.mp4"), &flipped);
    }
    let secret = outside.join("secret.txt").display().to_string();
    put(
        "hls.mp4",
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{secret}\n#EXT-X-ENDLIST\n").as_bytes(),
    );
    put("concat.mkv", format!("ffconcat version 1.0\nfile {secret}\n").as_bytes());
    put("dash.webm", b"<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\"/>");
    put("pls.mp3", format!("[playlist]\nFile1=file://{secret}\nNumberOfEntries=1\nVersion=2\n").as_bytes());
    put("good.huge.srt", &[b"1\n00:00:01,000 --> 00:00:02,000\n".to_vec(), vec![b'A'; 2_000_000]].concat());
    put("good.markup.srt", b"1\n00:00:01,000 --> 00:00:02,000\n<script>alert(1)</script>a\0b\n");
    for name in [
        "-i.mp4",
        "a b  c.mp4",
        "nl\nname.mp4",
        "%2e%2e%2fx.mp4",
        "%00.mp4",
        "a?b=c.mp4",
        "$(id).mp4",
        "concat:a|b.mp4",
    ] {
        put(name, &bytes);
    }
    std::fs::write(root.join(OsString::from_vec(b"\xff\xfe.mp4".to_vec())), &bytes).unwrap();
    let make_link =
        |target: &Path, name: &str| std::os::unix::fs::symlink(target, root.join("links").join(name)).unwrap();
    make_link(Path::new("../../outside/secret.mp4"), "rel-out.mp4");
    make_link(&outside.join("secret.txt"), "abs-out.mp4");
    make_link(Path::new("/etc/passwd"), "passwd.mp4");
    make_link(Path::new("/dev/zero"), "zero.mp4");
    make_link(Path::new("loop.mp4"), "loop.mp4");
    make_link(Path::new("../../outside"), "dir-out");
    let fifo = Command::new("mkfifo").arg(root.join("fifo.mp4")).status().expect("mkfifo runs");
    assert!(fifo.success());
    let line_below_root = |text: &str| format!("{}/{text}\n", root.display());
    let mut paths = std::fs::File::create(out.join("paths.txt")).unwrap();
    for line in [
        "../outside/secret.txt",
        "links/rel-out.mp4",
        "links/dir-out/secret.mp4",
        "/../outside/secret.mp4",
        "good.mp4%00.txt",
        "",
    ] {
        paths.write_all(line_below_root(line).as_bytes()).unwrap();
    }
    paths.write_all(format!("{0}/root-evil/x.mp4\n/etc/passwd\nfile://{secret}\n", out.display()).as_bytes()).unwrap();
}

/// All paths below a folder; links are listed and not followed.
fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn percent_encoded(path: &Path) -> String {
    percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC).to_string()
}

/// Sends requests and collects faults of the responses.
struct HostileClient {
    program: ServerProcess,
    /// The slowest response of each kind.
    slowest: BTreeMap<&'static str, (Duration, String)>,
    faults: Vec<String>,
}

impl HostileClient {
    /// Sends one request; returns status and body.
    async fn send(&mut self, route: &'static str, path: &str, request: reqwest::RequestBuilder) -> (u16, Value) {
        let label = format!("{route} {path:.120}");
        let started = Instant::now();
        let answer = tokio::time::timeout(MAX_RESPONSE_TIME * 3, async {
            let mut answer = request.send().await?;
            let status = answer.status().as_u16();
            // The beginning of a 5 GiB file is enough.
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                body.extend_from_slice(&chunk);
                if body.len() > 4 << 20 {
                    break;
                }
            }
            Ok::<_, reqwest::Error>((status, body))
        });
        let answer = answer.await;
        let elapsed = started.elapsed();
        let slowest = self.slowest.entry(route).or_default();
        if elapsed > slowest.0 {
            *slowest = (elapsed, path.to_owned());
        }
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(cause)) => {
                self.faults.push(format!("{label}: no answer: {cause:?}"));
                return (0, Value::Null);
            }
            Err(_) => {
                self.faults.push(format!("{label}: no answer within {elapsed:?}"));
                return (0, Value::Null);
            }
        };
        if elapsed > MAX_RESPONSE_TIME {
            self.faults.push(format!("{label}: {status} after {elapsed:?}"));
        }
        if body.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
            self.faults.push(format!("{label}: the canary leaked"));
        }
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = json["code"].as_str().unwrap_or("");
        if status >= 400 && code.is_empty() {
            self.faults.push(format!("{label}: {status} without a code"));
        }
        if status >= 500 && !ALLOWED_5XX_CODES.contains(&code) {
            self.faults.push(format!("{label}: {status} {json}"));
        }
        (status, json)
    }

    /// Sends every kind of request for one path. Returns whether any of them succeeded.
    async fn request_path(&mut self, encoded: &str, path: Option<&str>, good: &Path) -> bool {
        let name = path.unwrap_or(encoded).to_owned();
        let mut has_success = false;
        let mut note = |(status, _): &(u16, Value)| has_success |= (200..300).contains(status);
        for (route, target) in [
            ("info", "stream/info/full?path="),
            ("file", "stream/file?path="),
            ("subtitle", "stream/subtitle?id=x0&path="),
            ("subtitle", "stream/subtitle?id=e2&path="),
        ] {
            let request = self.program.get(&format!("/api/{target}{encoded}"));
            note(&self.send(route, &name, request).await);
        }
        for range in ["bytes=0-0", "bytes=-1", "bytes=4294967290-4294967300", "bytes=18446744073709551615-"] {
            let request = self.program.get(&format!("/api/stream/file?path={encoded}")).header("range", range);
            note(&self.send("range", &name, request).await);
        }
        // A folder is listed; anything else is refused.
        let request = self.program.get(&format!("/api/library?path={encoded}"));
        self.send("library", &name, request).await;
        let Some(path) = path else { return has_success };
        let url = format!("{}/api/stream/info/full?path={encoded}", self.program.base);
        let device = json!({"deviceProfile": {"containers": ["mkv", "ts"], "video": [{"codec": "hevc"}], "audio": []}});
        let request = self.program.client.post(url).bearer_auth(&self.program.token).json(&device);
        note(&self.send("info for a device", path, request).await);
        let options = json!({"mediaPath": path, "forceTranscode": true, "profile": {"resolution": "240p"}});
        has_success |=
            self.play_session(path, options, &["index.m3u8", "v0.m3u8", "a0.m3u8", "v0-00000.ts", "a0-00000.ts"]).await;
        for mode in ["external", "burn"] {
            let options = json!({"mediaPath": good, "subtitleMode": mode, "subtitlePath": path});
            has_success |=
                self.play_session(path, options, &["index.m3u8", "s0.m3u8", "s0-00000.vtt", "v0-00000.ts"]).await;
        }
        has_success
    }

    /// Starts a session, fetches its assets and stops it. Returns whether it started.
    async fn play_session(&mut self, path: &str, options: Value, assets: &[&str]) -> bool {
        let url = |target: &str| format!("{}/api/stream/transcode/{target}", self.program.base);
        let request = self.program.client.post(url("start")).bearer_auth(&self.program.token).json(&options);
        let (status, started) = self.send("start", path, request).await;
        if let Some(id) = started["sessionId"].as_str() {
            for asset in assets {
                let route = if asset.contains('-') { "segment" } else { "playlist" };
                let request = self.program.get(&format!("/api/stream/transcode/{id}/{asset}"));
                self.send(route, path, request).await;
            }
            let url = format!("{}/api/stream/transcode/{id}", self.program.base);
            let request = self.program.client.delete(url).bearer_auth(&self.program.token);
            let (status, body) = self.send("stop", path, request).await;
            if status != 200 {
                self.faults.push(format!("stop {path}: {status} {body}"));
            }
        }
        status == 200
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_files_and_paths_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let hostile_folder = make_inputs(folder.path());
    let root = hostile_folder.join("root");
    let program = ServerProcess::start(&[&root], &[("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4")]).await;
    let mut hostile_client = HostileClient { program, slowest: BTreeMap::new(), faults: Vec::new() };
    let good = root.join("good.mp4");

    let entries = paths_below(&root);
    assert!(entries.len() > 25, "{} entries", entries.len());
    for entry in &entries {
        hostile_client.request_path(&percent_encoded(entry), entry.to_str(), &good).await;
        if !hostile_client.program.is_running() {
            panic!("the program died at {}:\n{}", entry.display(), hostile_client.program.log());
        }
    }
    let refused_paths = std::fs::read_to_string(hostile_folder.join("paths.txt")).unwrap();
    for line in refused_paths.lines().filter(|line| !line.is_empty()) {
        // Lines with a percent sign are already encoded.
        let encoded = if line.contains('%') { line.to_owned() } else { percent_encoded(Path::new(line)) };
        if hostile_client.request_path(&encoded, Some(line), &good).await {
            hostile_client.faults.push(format!("{line} was not refused"));
        }
    }
    for name in ["rel-out.mp4", "abs-out.mp4", "passwd.mp4", "zero.mp4", "loop.mp4"] {
        let path = root.join("links").join(name);
        if hostile_client.request_path(&percent_encoded(&path), path.to_str(), &good).await {
            hostile_client.faults.push(format!("link {name} was followed"));
        }
    }

    assert!(hostile_client.program.is_running());
    hostile_client.program.wait_until_childless().await;
    let leftovers = hostile_client.program.leftovers();
    if !leftovers.is_empty() {
        hostile_client.faults.push(format!("leftovers: {leftovers:?}"));
    }
    for (route, (took, path)) in &hostile_client.slowest {
        eprintln!("slowest {route}: {took:.3?} {path:?}");
    }
    let faults = hostile_client.faults;
    assert!(faults.is_empty(), "{} faults over {} entries:\n{}", faults.len(), entries.len(), faults.join("\n"));
}
