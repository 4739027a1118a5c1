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
use crate::kit::film;
use crate::kit::program::Program;

/// The longest time that a response may take.
const ANSWER: Duration = Duration::from_secs(5);
const CANARY: &str = "TOP-SECRET-CANARY";

/// Codes allowed with status 500 and above, because they blame the file or the load.
const HONEST: [&str; 8] = [
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
fn inputs(folder: &Path) -> PathBuf {
    let out = folder.join("hostile");
    match corpus::folder() {
        Some(corpus) => {
            let script = Command::new("bash")
                .arg(corpus.join("make-hostile.sh"))
                .arg(&out)
                .arg(corpus.join("video/h264-aac-edit-list.mp4"))
                .arg(corpus.join("video/cea608-captions.ts"))
                .output()
                .expect("bash runs");
            assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
        }
        None => make(&out),
    }
    out
}

/// Makes the smaller set.
fn make(out: &Path) {
    let (root, outside) = (out.join("root"), out.join("outside"));
    for folder in [&root.join("links"), &root.join("directory.mp4"), &outside, &out.join("root-evil")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let good = root.join("good.mp4");
    film::flash_and_beep(&good, 2, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac -movflags +faststart");
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
            let at = (step * 7919 + seed * 104_729) % flipped.len().min(if seed < 3 { 4096 } else { usize::MAX });
            flipped[at] ^= 1 << (step % 8);
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
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, root.join("links").join(name)).unwrap();
    link(Path::new("../../outside/secret.mp4"), "rel-out.mp4");
    link(&outside.join("secret.txt"), "abs-out.mp4");
    link(Path::new("/etc/passwd"), "passwd.mp4");
    link(Path::new("/dev/zero"), "zero.mp4");
    link(Path::new("loop.mp4"), "loop.mp4");
    link(Path::new("../../outside"), "dir-out");
    let fifo = Command::new("mkfifo").arg(root.join("fifo.mp4")).status().expect("mkfifo runs");
    assert!(fifo.success());
    let at = |text: &str| format!("{}/{text}\n", root.display());
    let mut paths = std::fs::File::create(out.join("paths.txt")).unwrap();
    for line in [
        "../outside/secret.txt",
        "links/rel-out.mp4",
        "links/dir-out/secret.mp4",
        "/../outside/secret.mp4",
        "good.mp4%00.txt",
        "",
    ] {
        paths.write_all(at(line).as_bytes()).unwrap();
    }
    paths.write_all(format!("{0}/root-evil/x.mp4\n/etc/passwd\nfile://{secret}\n", out.display()).as_bytes()).unwrap();
}

/// All paths below a folder; links are listed and not followed.
fn walk(folder: &Path) -> Vec<PathBuf> {
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

fn encode(path: &Path) -> String {
    percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC).to_string()
}

/// Sends requests and collects faults of the responses.
struct Asker {
    program: Program,
    /// The slowest response of each kind.
    slowest: BTreeMap<&'static str, (Duration, String)>,
    faults: Vec<String>,
}

impl Asker {
    /// Sends one request; returns status and body.
    async fn ask(&mut self, route: &'static str, path: &str, request: reqwest::RequestBuilder) -> (u16, Value) {
        let what = format!("{route} {path:.120}");
        let began = Instant::now();
        let answer = tokio::time::timeout(ANSWER * 3, async {
            let mut answer = request.send().await?;
            let status = answer.status().as_u16();
            // The beginning of a 5 GiB file is enough.
            let mut body = Vec::new();
            while let Some(piece) = answer.chunk().await? {
                body.extend_from_slice(&piece);
                if body.len() > 4 << 20 {
                    break;
                }
            }
            Ok::<_, reqwest::Error>((status, body))
        });
        let answer = answer.await;
        let took = began.elapsed();
        let slowest = self.slowest.entry(route).or_default();
        if took > slowest.0 {
            *slowest = (took, path.to_owned());
        }
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(cause)) => {
                self.faults.push(format!("{what}: no answer: {cause:?}"));
                return (0, Value::Null);
            }
            Err(_) => {
                self.faults.push(format!("{what}: no answer within {took:?}"));
                return (0, Value::Null);
            }
        };
        if took > ANSWER {
            self.faults.push(format!("{what}: {status} after {took:?}"));
        }
        if body.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
            self.faults.push(format!("{what}: the canary leaked"));
        }
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = json["code"].as_str().unwrap_or("");
        if status >= 400 && code.is_empty() {
            self.faults.push(format!("{what}: {status} without a code"));
        }
        if status >= 500 && !HONEST.contains(&code) {
            self.faults.push(format!("{what}: {status} {json}"));
        }
        (status, json)
    }

    /// Sends every kind of request for one path. Returns whether any of them succeeded.
    async fn try_path(&mut self, encoded: &str, path: Option<&str>, good: &Path) -> bool {
        let name = path.unwrap_or(encoded).to_owned();
        let mut reached = false;
        let mut note = |(status, _): &(u16, Value)| reached |= (200..300).contains(status);
        for (route, target) in [
            ("info", "stream/info/full?path="),
            ("file", "stream/file?path="),
            ("subtitle", "stream/subtitle?id=x0&path="),
            ("subtitle", "stream/subtitle?id=e2&path="),
        ] {
            let request = self.program.get(&format!("/api/{target}{encoded}"));
            note(&self.ask(route, &name, request).await);
        }
        for range in ["bytes=0-0", "bytes=-1", "bytes=4294967290-4294967300", "bytes=18446744073709551615-"] {
            let request = self.program.get(&format!("/api/stream/file?path={encoded}")).header("range", range);
            note(&self.ask("range", &name, request).await);
        }
        // A folder is listed; anything else is refused.
        let request = self.program.get(&format!("/api/library?path={encoded}"));
        self.ask("library", &name, request).await;
        let Some(path) = path else { return reached };
        let url = format!("{}/api/stream/info/full?path={encoded}", self.program.base);
        let device = json!({"deviceProfile": {"containers": ["mkv", "ts"], "video": [{"codec": "hevc"}], "audio": []}});
        let request = self.program.client.post(url).bearer_auth(&self.program.token).json(&device);
        note(&self.ask("info for a device", path, request).await);
        let wish = json!({"mediaPath": path, "forceTranscode": true, "profile": {"resolution": "240p"}});
        reached |= self.play(path, wish, &["index.m3u8", "v0.m3u8", "a0.m3u8", "v0-00000.ts", "a0-00000.ts"]).await;
        for mode in ["external", "burn"] {
            let wish = json!({"mediaPath": good, "subtitleMode": mode, "subtitlePath": path});
            reached |= self.play(path, wish, &["index.m3u8", "s0.m3u8", "s0-00000.vtt", "v0-00000.ts"]).await;
        }
        reached
    }

    /// Starts a session, fetches its assets and stops it. Returns whether it started.
    async fn play(&mut self, path: &str, wish: Value, assets: &[&str]) -> bool {
        let url = |target: &str| format!("{}/api/stream/transcode/{target}", self.program.base);
        let request = self.program.client.post(url("start")).bearer_auth(&self.program.token).json(&wish);
        let (status, started) = self.ask("start", path, request).await;
        if let Some(id) = started["sessionId"].as_str() {
            for asset in assets {
                let route = if asset.contains('-') { "segment" } else { "playlist" };
                let request = self.program.get(&format!("/api/stream/transcode/{id}/{asset}"));
                self.ask(route, path, request).await;
            }
            let url = format!("{}/api/stream/transcode/{id}", self.program.base);
            let request = self.program.client.delete(url).bearer_auth(&self.program.token);
            let (status, said) = self.ask("stop", path, request).await;
            if status != 200 {
                self.faults.push(format!("stop {path}: {status} {said}"));
            }
        }
        status == 200
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_files_and_paths_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let out = inputs(folder.path());
    let root = out.join("root");
    let program = Program::start(&[&root], &[("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4")]).await;
    let mut asker = Asker { program, slowest: BTreeMap::new(), faults: Vec::new() };
    let good = root.join("good.mp4");

    let entries = walk(&root);
    assert!(entries.len() > 25, "{} entries", entries.len());
    for entry in &entries {
        asker.try_path(&encode(entry), entry.to_str(), &good).await;
        if !asker.program.lives() {
            panic!("the program died at {}:\n{}", entry.display(), asker.program.log());
        }
    }
    let refused = std::fs::read_to_string(out.join("paths.txt")).unwrap();
    for line in refused.lines().filter(|line| !line.is_empty()) {
        // Lines with a percent sign are already encoded.
        let encoded = if line.contains('%') { line.to_owned() } else { encode(Path::new(line)) };
        if asker.try_path(&encoded, Some(line), &good).await {
            asker.faults.push(format!("{line} was not refused"));
        }
    }
    for name in ["rel-out.mp4", "abs-out.mp4", "passwd.mp4", "zero.mp4", "loop.mp4"] {
        let path = root.join("links").join(name);
        if asker.try_path(&encode(&path), path.to_str(), &good).await {
            asker.faults.push(format!("link {name} was followed"));
        }
    }

    assert!(asker.program.lives());
    asker.program.until_alone().await;
    let left = asker.program.leftovers();
    if !left.is_empty() {
        asker.faults.push(format!("leftovers: {left:?}"));
    }
    for (route, (took, path)) in &asker.slowest {
        eprintln!("slowest {route}: {took:.3?} {path:?}");
    }
    let faults = asker.faults;
    assert!(faults.is_empty(), "{} faults over {} entries:\n{}", faults.len(), entries.len(), faults.join("\n"));
}
