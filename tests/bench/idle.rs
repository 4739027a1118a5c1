//! The cost of a thousand unwatched channels: memory per channel, and processor time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::service::Service;
use hearthcast::service::channels::ChannelChange;
use jiff::Timestamp;

use crate::program::ServerProcess;
use crate::service_config::service_config;

const CHANNELS: u32 = 1000;
/// Films of each channel: a folder of twenty, the same for all channels.
const FILMS_PER_CHANNEL: usize = 20;
const MEASURED_SPAN: Duration = Duration::from_secs(20);

pub fn run() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("\n# {CHANNELS} channels of {FILMS_PER_CHANNEL} films each, no viewers");
    runtime.block_on(measure());
}

async fn measure() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films: Vec<PathBuf> = (0..FILMS_PER_CHANNEL).map(|n| folder.path().join(format!("Film {n}.mp4"))).collect();
    let status = std::process::Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=120", "-g", "50"])
        .args(["-c:v", "libx264", "-preset", "ultrafast"])
        .arg(&films[0])
        .status();
    assert!(status.expect("ffmpeg runs").success());
    for film in &films[1..] {
        std::fs::copy(&films[0], film).expect("a copy");
    }
    let mut program = ServerProcess::start(&[folder.path()], &[]).await;
    program.kill();
    let mut single_channel_kib = 0;
    for count in [1, CHANNELS] {
        add_channels(&program, folder.path().to_path_buf(), count).await;
        program.restart().await;
        wait_until_up(&program).await;
        let memory = settled_kib(&program).await;
        if count == 1 {
            single_channel_kib = memory;
            program.kill();
            continue;
        }
        let bytes_each = (memory.saturating_sub(single_channel_kib)) * 1024 / u64::from(CHANNELS);
        println!("memory: {memory} KiB, {single_channel_kib} KiB with one channel: {bytes_each} bytes each");
        let (ticks, started) = (processor_ticks(&program), Instant::now());
        tokio::time::sleep(MEASURED_SPAN).await;
        let share = (processor_ticks(&program) - ticks) as f64 / 100.0 / started.elapsed().as_secs_f64();
        println!("processor: {:.2} % of one core; children: {:?}", share * 100.0, program.children());
    }
}

/// Adds channels to the state of a stopped program.
async fn add_channels(program: &ServerProcess, folder: PathBuf, count: u32) {
    let mut config = service_config(&program.state_folder(), &folder.join("cache"));
    config.roots = vec![Root { id: "r0".into(), path: folder.clone() }];
    let service = Service::open(config).expect("the service opens");
    for n in 0..count {
        let item = RequestedItem::from_path(folder.to_string_lossy());
        let change = ChannelChange {
            name: Some(format!("Channel {n}")),
            start_at: Some(Timestamp::now() - Duration::from_secs(3600)),
            requested_items: Some(vec![item]),
            ..ChannelChange::default()
        };
        service.add_channel(change).await.expect("a channel");
    }
}

async fn wait_until_up(program: &ServerProcess) {
    let answer = program.get("/api/health").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
}

/// Anonymous memory once it is constant, KiB; pages of files are not counted, because the kernel can reclaim them.
pub async fn settled_kib(program: &ServerProcess) -> u64 {
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel reports it");
        let now: u64 = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number");
        if now.abs_diff(last) < 64 {
            return now;
        }
        last = now;
    }
}

/// Processor time so far, hundredths of a second.
fn processor_ticks(program: &ServerProcess) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.pid())).expect("it runs");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}
