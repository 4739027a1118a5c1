//! The GStreamer backend, compared with the ffmpeg backend, for each kind of run in interleaved rounds. `auto` is
//! decided by these figures (`service/renditions/backends.rs`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hearthcast::config::BackendSetting;
use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::domain::playback::PlaybackRequest;
use hearthcast::service::Service;
use hearthcast::service::renditions::planner::{self, PlannedPlayback, RenditionId, StartRequest, SubtitleRequest};

use crate::service_config::service_config;

const ROUNDS: usize = 5;

/// Milliseconds, and processor seconds for all segments.
#[derive(Clone, Copy)]
struct RunFigures {
    first_millis: f64,
    jump_millis: f64,
    all_millis: f64,
    cpu_seconds: f64,
}

/// A figure with its name.
type NamedFigure = (&'static str, fn(&RunFigures) -> f64);

/// A kind of run: its name, its film, and whether text is burned in.
type RunKind = (&'static str, fn(&Path) -> PathBuf, bool);

const ROWS: [RunKind; 4] = [
    ("video mp4", make_film, false),
    ("video mkv", make_matroska, false),
    ("burn-in", make_film, true),
    ("audio", make_audio, false),
];

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    for (name, make_item, has_burn) in ROWS {
        let item = make_item(folder.path());
        let (mut gstreamer, mut ffmpeg) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (backend, figures) in
                [(BackendSetting::Gstreamer, &mut gstreamer), (BackendSetting::Ffmpeg, &mut ffmpeg)]
            {
                figures.push(runtime.block_on(measure_runs(&item, folder.path(), backend, has_burn)));
            }
        }
        let rows: [NamedFigure; 4] = [
            ("first segment, ms", |f| f.first_millis),
            ("first after a jump, ms", |f| f.jump_millis),
            ("all 30 s, ms", |f| f.all_millis),
            ("processor time, s", |f| f.cpu_seconds),
        ];
        for (figure, figure_of) in rows {
            let (our, their) = (median(&gstreamer, figure_of), median(&ffmpeg, figure_of));
            println!("{name}, {figure}: gstreamer {our:.2}, ffmpeg {their:.2} ({:.2})", our / their);
        }
    }
}

fn median(figures: &[RunFigures], figure_of: fn(&RunFigures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(figure_of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn run_command(command: &mut Command) {
    assert!(command.status().expect("ffmpeg runs").success(), "{command:?}");
}

/// 30 s of 1080p24 at 8 Mbit/s with audio, and a sidecar subtitle.
pub fn make_film(folder: &Path) -> PathBuf {
    let path = folder.join("film.mp4");
    if !path.exists() {
        run_command(
            Command::new("ffmpeg")
                .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi"])
                .args(["-i", "testsrc2=s=1920x1080:r=24:d=30,noise=alls=12:allf=t", "-f", "lavfi"])
                .args(["-i", "sine=f=440:r=48000:d=30", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "8M"])
                .args([
                    "-maxrate", "8M", "-bufsize", "8M", "-g", "96", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2",
                ])
                .args(["-movflags", "+faststart"])
                .arg(&path),
        );
        let cues = (0..15).map(|n| format!("{n}\n00:00:{:02},000 --> 00:00:{:02},500\nline {n}\n\n", n * 2, n * 2 + 1));
        std::fs::write(folder.join("film.srt"), cues.collect::<String>()).expect("a folder of our own");
    }
    path
}

/// The same film as Matroska with AC-3.
fn make_matroska(folder: &Path) -> PathBuf {
    let path = folder.join("film.mkv");
    let source = make_film(folder);
    run_command(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-i"])
            .arg(source)
            .args(["-c:v", "copy", "-c:a", "ac3"])
            .arg(&path),
    );
    path
}

fn make_audio(folder: &Path) -> PathBuf {
    let path = folder.join("audio.flac");
    run_command(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "sine=f=440:r=44100:d=30", "-ac", "2"])
            .arg(&path),
    );
    path
}

/// The first segment and one after a jump in one session, then all segments of another, each on a new server.
async fn measure_runs(item: &Path, folder: &Path, backend: BackendSetting, has_burn: bool) -> RunFigures {
    let mut figures = RunFigures { first_millis: 0.0, jump_millis: 0.0, all_millis: 0.0, cpu_seconds: 0.0 };
    for is_complete in [false, true] {
        let state = tempfile::tempdir_in(folder).expect("a temporary folder");
        let mut config = service_config(&state.path().join("state"), &state.path().join("cache"));
        config.roots = vec![Root { id: "films".into(), path: folder.to_owned() }];
        config.backend = backend;
        let service = Service::open(config).expect("the service opens");
        let token = service.accounts.issue_token("viewer", Role::User).await.expect("a user can be made");
        let principal = service.accounts.authenticate(&token).expect("issued just now");
        tokio::join!(service.local_encoders.test_encoders(), service.renditions.find_backends(), service.media.warm());
        let request = start_request(item, has_burn);
        let (cpu, started) = (cpu_seconds(), Instant::now());
        let PlannedPlayback::Session(plan) =
            planner::plan_playback(&service, &hearthcast::domain::visibility::Visibility::All, request)
                .await
                .expect("a plan")
        else {
            panic!("direct")
        };
        let segments = plan.spec().grid.len();
        let session = service.sessions.start(&principal, *plan).await.expect("a session");
        if is_complete {
            for index in 0..segments {
                session.segment(RenditionId::Rung(0), index).await.expect("a segment");
            }
            figures.all_millis = millis_since(started);
        } else {
            session.segment(RenditionId::Rung(0), 0).await.expect("the first segment");
            figures.first_millis = millis_since(started);
            let jump_started = Instant::now();
            session.segment(RenditionId::Rung(0), segments * 2 / 3).await.expect("a segment");
            figures.jump_millis = millis_since(jump_started);
        }
        service.shutdown().await;
        drop((session, service));
        wait_until_childless().await;
        if is_complete {
            figures.cpu_seconds = cpu_seconds() - cpu;
        }
    }
    figures
}

pub fn start_request(item: &Path, has_burn: bool) -> StartRequest {
    let has_video = item.extension().is_some_and(|extension| extension != "flac");
    let sidecar = item.with_extension("srt");
    StartRequest {
        media_path: item.to_str().expect("plain name").to_owned(),
        playback: PlaybackRequest {
            force_transcode: true,
            max_height: has_video.then_some(720),
            max_bitrate_kbps: has_video.then_some(4_000),
            ..PlaybackRequest::default()
        },
        subtitle: if has_burn { SubtitleRequest::Burn } else { SubtitleRequest::None },
        subtitle_path: has_burn.then(|| sidecar.to_str().expect("plain name").to_owned()),
        ..StartRequest::default()
    }
}

fn millis_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
}

/// Waits until every child process has ended and was reaped; its processor time is counted only then.
pub async fn wait_until_childless() {
    let started = Instant::now();
    while has_children() && started.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn has_children() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
    threads
        .map(|thread| thread.path().join("children"))
        .any(|list| std::fs::read(list).is_ok_and(|ids| !ids.is_empty()))
}

/// Processor time of this process and of its reaped children, seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|text| text.parse().ok())
        .collect();
    fields.iter().sum::<f64>() / 100.0
}
