//! Zapping to a channel, and repeated requests for its playlist.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::domain::access::Role;
use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::service::Service;
use hearthcast::service::channels::{ChannelChange, OutputChange};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::service_config::service_config;

const ROUNDS: usize = 7;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    make_film(&folder.path().join("copied.mp4"), "libx264 -preset ultrafast -b:v 8M -maxrate 8M -bufsize 8M -g 48");
    make_film(
        &folder.path().join("encoded.mkv"),
        "libx265 -preset ultrafast -b:v 8M -x265-params log-level=error:keyint=96",
    );
    // Other content, because identical renditions are encoded once.
    make_film(
        &folder.path().join("next.mkv"),
        "libx265 -preset ultrafast -b:v 8M -metadata title=next -x265-params log-level=error:keyint=96",
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    for (name, file) in [("copied", "copied.mp4"), ("encoded", "encoded.mkv")] {
        let (mut cold, mut warm, mut command) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let server = runtime.block_on(FreshServer::open(folder.path(), file, None));
            cold.push(runtime.block_on(server.zap_millis(server.channel)));
            runtime.block_on(server.warm_channel());
            warm.push(runtime.block_on(server.zap_millis(server.channel)));
            runtime.block_on(server.service.shutdown());
            if name == "encoded" {
                command.push(ffmpeg_millis(&folder.path().join(file)));
            }
        }
        let cold = median(cold);
        println!("zap, {name}: cold {cold:.0} ms, warm {:.1} ms (medians of {ROUNDS})", median(warm));
        if !command.is_empty() {
            let command = median(command);
            println!(
                "the ffmpeg command alone, 2 s from its middle: {command:.0} ms; cold zap {:.2} of it",
                cold / command
            );
        }
    }
    let next: Vec<f64> = (0..ROUNDS).map(|_| runtime.block_on(next_zap_millis(folder.path()))).collect();
    println!("zap to the next channel, encoded, 10 s after the last zap, two encode slots: {:.1} ms", median(next));
    let server = runtime.block_on(FreshServer::open(folder.path(), "copied.mp4", None));
    let cpu_before = own_cpu_seconds();
    let wrk = Command::new("wrk")
        .args(["-t1", "-c16", "-d5s", "-H", &format!("Authorization: Bearer {}", server.token)])
        .arg(format!("{}/api/livetv/watch/{}/live.m3u8", server.base, server.channel))
        .output();
    let cpu_seconds = own_cpu_seconds() - cpu_before;
    let wrk_report = wrk.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let requests = wrk_report.lines().find_map(|line| line.trim().split_once(" requests in")?.0.parse::<f64>().ok());
    match requests {
        Some(requests) => println!("live.m3u8: {:.0} requests in a second of one core's time", requests / cpu_seconds),
        None => println!("live.m3u8: wrk is missing"),
    }
    runtime.block_on(server.service.shutdown());
}

/// Processor time of this process, seconds.
fn own_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after = stat.rsplit(')').next().unwrap_or("");
    after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Milliseconds for two seconds of a film, encoded as for a channel, by the ffmpeg command.
fn ffmpeg_millis(path: &Path) -> f64 {
    let started = Instant::now();
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-ss", "15", "-i"])
        .arg(path)
        .args(["-t", "2", "-vf", "scale=-2:720", "-c:v", "libx264", "-preset", "veryfast", "-c:a", "aac"])
        .args(["-f", "mpegts", "-y", "/dev/null"])
        .status()
        .expect("ffmpeg runs");
    assert!(status.success());
    started.elapsed().as_secs_f64() * 1000.0
}

/// A zap to the next channel, 10 s after a zap to the first one of two that are encoded, milliseconds. Of two encode slots one is
/// free for it.
async fn next_zap_millis(folder: &Path) -> f64 {
    let server = FreshServer::open(folder, "encoded.mkv", Some(2)).await;
    let next = add_channel(&server.service, &folder.join("next.mkv")).await;
    server.zap_millis(server.channel).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.zap_millis(server.channel).await;
    }
    let millis = server.zap_millis(next).await;
    server.service.shutdown().await;
    millis
}

/// Makes half a minute of 1080p24 with audio.
fn make_film(path: &Path, video_args: &str) {
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi"])
        .args(["-i", "testsrc2=s=1920x1080:r=24:d=30", "-f", "lavfi"])
        .args(["-i", "sine=f=440:r=48000:d=30", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2", "-c:v"])
        .args(video_args.split_whitespace())
        .arg(path)
        .status()
        .expect("ffmpeg runs");
    assert!(status.success());
}

/// Adds a channel of one film that has been on air for a while.
async fn add_channel(service: &Arc<Service>, file: &Path) -> u32 {
    let max_height = file.ends_with("copied.mp4").then_some(None);
    let item = RequestedItem::from_path(file.to_string_lossy());
    let change = ChannelChange {
        name: Some("Zap".into()),
        start_at: Some(Timestamp::now() - Duration::from_secs(85)),
        requested_items: Some(vec![item]),
        output: OutputChange { max_height, ..OutputChange::default() },
        ..ChannelChange::default()
    };
    service.add_channel(change).await.expect("a channel").id
}

/// A freshly started server with one channel that has been on air for a while.
struct FreshServer {
    service: Arc<Service>,
    base: String,
    token: String,
    channel: u32,
    client: reqwest::Client,
    _stop: oneshot::Sender<()>,
    _state: tempfile::TempDir,
}

impl FreshServer {
    /// With the usual number of encode slots, or this one.
    async fn open(folder: &Path, file: &str, encode_slots: Option<usize>) -> Self {
        let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        let mut config = service_config(&state.path().join("state"), &state.path().join("cache"));
        config.limits.concurrent_jobs = encode_slots.unwrap_or(config.limits.concurrent_jobs);
        config.roots = vec![Root { id: "films".into(), path: folder.to_owned() }];
        let service = Service::open(config).expect("the service opens");
        let token = service.accounts.issue_token("viewer", Role::User).await.expect("a user can be made");
        tokio::join!(service.local_encoders.test_encoders(), service.renditions.find_backends(), service.media.warm());
        let channel = add_channel(&service, &folder.join(file)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(hearthcast::http::serve(service.clone(), listener, async {
            let _ = stopped.await;
        }));
        Self { service, base, token, channel, client: reqwest::Client::new(), _stop: stop, _state: state }
    }

    /// Requests that the channel is warmed, and waits until it is.
    async fn warm_channel(&self) {
        let address = format!("{}/api/livetv/warm", self.base);
        let body = serde_json::json!({ "channelIds": [self.channel] });
        let post = self.client.post(&address).bearer_auth(&self.token).json(&body);
        assert_eq!(post.send().await.expect("an answer").status(), 202);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.client.get(&address).bearer_auth(&self.token).send().await.expect("an answer");
            let answer: serde_json::Value = answer.json().await.expect("JSON");
            if answer["channels"][0]["state"] == "warm" {
                return;
            }
            assert!(Instant::now() < deadline, "{answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Time from the request for the playlist to the last byte of the segment a player begins with, milliseconds.
    async fn zap_millis(&self, channel: u32) -> f64 {
        let started = Instant::now();
        let address = format!("{}/api/livetv/watch/{channel}", self.base);
        let request = self.client.get(format!("{address}/live.m3u8")).bearer_auth(&self.token);
        let text = request.send().await.expect("an answer").text().await.expect("a playlist");
        let number = |line: &str, tag: &str| line.strip_prefix(tag)?.trim_end_matches(',').parse::<f64>().ok();
        let target = text.lines().find_map(|line| number(line, "#EXT-X-TARGETDURATION:")).expect("a target duration");
        let lengths = text.lines().filter_map(|line| number(line, "#EXTINF:"));
        let listed: Vec<(f64, &str)> = lengths.zip(text.lines().filter(|line| !line.starts_with('#'))).collect();
        let mut seconds_to_end = 0.0;
        let first = listed.iter().rev().find(|(length, _)| {
            seconds_to_end += length;
            seconds_to_end >= 3.0 * target
        });
        let name = first.or(listed.first()).expect("a segment").1;
        let segment = self.client.get(format!("{address}/{name}")).send().await.expect("an answer");
        assert_eq!(segment.status(), 200);
        segment.bytes().await.expect("the segment");
        started.elapsed().as_secs_f64() * 1000.0
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
