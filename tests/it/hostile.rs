//! With `HEARTHCAST_CORPUS` the corpus' own script makes the inputs; without, a smaller set is made here.

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

/// How long any answer may take: 5 s, and as much again for a machine that builds and tests beside it; segments may take
/// as long as the contract lets them.
const ANSWER: Duration = Duration::from_secs(10);
const SEGMENT: Duration = Duration::from_secs(25);
const CANARY: &str = "TOP-SECRET-CANARY";

/// Codes that may come with a status of 500 and above: the file's fault, told as such.
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

/// A folder of inputs: `root` for the server, `outside` with what must never come out, `paths.txt`.
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

/// The smaller set.
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

/// Every name below a folder; links are named and not followed.
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

/// Everything wrong with one answer, and its body.
async fn ask(request: reqwest::RequestBuilder, limit: Duration, what: &str, faults: &mut Vec<String>) -> (u16, Value) {
    let began = Instant::now();
    let answer = tokio::time::timeout(limit + Duration::from_secs(5), async {
        let mut answer = request.send().await?;
        let status = answer.status().as_u16();
        // The head of a 5 GiB file is enough.
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await? {
            body.extend_from_slice(&piece);
            if body.len() > 4 << 20 {
                break;
            }
        }
        Ok::<_, reqwest::Error>((status, body))
    });
    let (status, body) = match answer.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(cause)) => {
            faults.push(format!("{what}: no answer: {cause:?}"));
            return (0, Value::Null);
        }
        Err(_) => {
            faults.push(format!("{what}: no answer within {limit:?}"));
            return (0, Value::Null);
        }
    };
    if began.elapsed() > limit {
        faults.push(format!("{what}: {status} after {:?}", began.elapsed()));
    }
    if body.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
        faults.push(format!("{what}: the canary came out"));
    }
    let json: Value = serde_json::from_slice(&body).unwrap_or_default();
    let code = json["code"].as_str().unwrap_or("");
    if status >= 400 && code.is_empty() {
        faults.push(format!("{what}: {status} without a code"));
    }
    if status >= 500 && !HONEST.contains(&code) {
        faults.push(format!("{what}: {status} {json}"));
    }
    (status, json)
}

/// Asks everything a client can ask about one path. True when any answer was a success.
async fn try_path(program: &Program, encoded: &str, path: Option<&str>, faults: &mut Vec<String>) -> bool {
    let what = |route: &str| format!("{route} {:.120}", path.unwrap_or(encoded));
    let mut reached = false;
    for route in ["info/full?path=", "file?path=", "subtitle?id=x0&path=", "subtitle?id=e2&path="] {
        let request = program.get(&format!("/api/stream/{route}{encoded}"));
        let (status, _) = ask(request, ANSWER, &what(route), faults).await;
        reached |= (200..300).contains(&status);
    }
    let Some(path) = path else { return reached };
    let url = format!("{}/api/stream/transcode/start", program.base);
    let body = json!({"mediaPath": path, "forceTranscode": true, "profile": {"resolution": "240p"}});
    let request = program.client.post(url).bearer_auth(&program.token).json(&body);
    let (status, started) = ask(request, ANSWER, &what("start"), faults).await;
    reached |= status == 200;
    if let Some(id) = started["sessionId"].as_str() {
        let media = ["v0", "a0"].map(|track| format!("/api/stream/transcode/{id}/{track}-00000.ts"));
        for target in media {
            ask(program.get(&target), SEGMENT, &what("segment"), faults).await;
        }
        let stop = program.client.delete(format!("{}/api/stream/transcode/{id}", program.base));
        let (status, _) = ask(stop.bearer_auth(&program.token), ANSWER, &what("stop"), faults).await;
        if status != 200 {
            faults.push(format!("{}: {status}", what("stop")));
        }
    }
    reached
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_files_and_paths_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let out = inputs(folder.path());
    let root = out.join("root");
    let mut program = Program::start(&[&root], &[("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4")]).await;
    let mut faults = Vec::new();

    let entries = walk(&root);
    assert!(entries.len() > 25, "{} entries", entries.len());
    for entry in &entries {
        try_path(&program, &encode(entry), entry.to_str(), &mut faults).await;
        if !program.lives() {
            panic!("the program died at {}:\n{}", entry.display(), program.log());
        }
    }
    let refused = std::fs::read_to_string(out.join("paths.txt")).unwrap();
    for line in refused.lines().filter(|line| !line.is_empty()) {
        // Lines with a percent sign are encoded already.
        let encoded = if line.contains('%') { line.to_owned() } else { encode(Path::new(line)) };
        if try_path(&program, &encoded, Some(line), &mut faults).await {
            faults.push(format!("{line} was not refused"));
        }
    }
    for name in ["rel-out.mp4", "abs-out.mp4", "passwd.mp4", "zero.mp4", "loop.mp4"] {
        let path = root.join("links").join(name);
        if try_path(&program, &encode(&path), path.to_str(), &mut faults).await {
            faults.push(format!("link {name} was followed"));
        }
    }

    assert!(program.lives());
    program.until_alone().await;
    let left = program.leftovers();
    if !left.is_empty() {
        faults.push(format!("left behind: {left:?}"));
    }
    assert!(faults.is_empty(), "{} faults over {} entries:\n{}", faults.len(), entries.len(), faults.join("\n"));
}
