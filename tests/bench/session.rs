//! A session's start and speed, compared with the ffmpeg command doing the same work, in interleaved rounds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::domain::playback::PlaybackRequest;
use hearthcast::service::Service;
use hearthcast::service::renditions::planner::{self, PlannedPlayback, RenditionId, StartRequest};

use crate::service_config::service_config;

const ROUNDS: usize = 5;

/// First segment and all segments, milliseconds.
#[derive(Clone, Copy)]
struct SessionTimes {
    first_millis: f64,
    all_millis: f64,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    // The film would be played directly, so both rows force a session.
    let encode = "-c:v libx264 -preset veryfast -crf 23 -maxrate 8M -bufsize 16M -profile:v high -sc_threshold 0 \
        -x264opts subme=0:me_range=16:rc_lookahead=10:me=hex:open_gop=0 -force_key_frames expr:gte(t,n_forced*3) \
        -c:a aac -b:a 160k -hls_time 3";
    let copy = "-c copy -hls_time 6";
    for (name, arguments, encodes) in [("encode 1080p24", encode, true), ("copy", copy, false)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(runtime.block_on(measure_session(&film, folder.path(), encodes)));
            theirs.push(measure_ffmpeg(&film, folder.path(), arguments));
        }
        let median = |figure_of: fn(&SessionTimes) -> f64, figures: &[SessionTimes]| {
            let mut values: Vec<f64> = figures.iter().map(figure_of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        for (figure, figure_of) in
            [("first segment", (|f| f.first_millis) as fn(&SessionTimes) -> f64), ("30 s", |f| f.all_millis)]
        {
            let (our, their) = (median(figure_of, &ours), median(figure_of, &theirs));
            println!("{name}, {figure}: session {our:.0} ms, ffmpeg {their:.0} ms ({:.2})", our / their);
        }
    }
}

/// Makes 30 s of 1080p24 at 8 Mbit/s with audio.
fn make_film(film: &Path) {
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi"])
        .args(["-i", "testsrc2=s=1920x1080:r=24:d=30,noise=alls=12:allf=t", "-f", "lavfi"])
        .args(["-i", "sine=f=440:r=48000:d=30", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "8M"])
        .args(["-maxrate", "8M", "-bufsize", "8M", "-g", "48", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2"])
        .args(["-movflags", "+faststart"])
        .arg(film)
        .status()
        .expect("ffmpeg runs");
    assert!(status.success());
}

/// Time from a cold service (empty caches) to the first and to the last segment.
async fn measure_session(film: &Path, folder: &Path, is_encoded: bool) -> SessionTimes {
    let state = tempfile::tempdir_in(folder).expect("a temporary folder");
    let mut config = service_config(&state.path().join("state"), &state.path().join("cache"));
    config.roots = vec![Root { id: "films".into(), path: folder.to_owned() }];
    let service = Service::open(config).expect("the service opens");
    let token = service.accounts.issue_token("viewer", Role::User).await.expect("a user can be made");
    let principal = service.accounts.authenticate(&token).expect("issued just now");
    // As a server does when it starts.
    tokio::join!(service.local_encoders.test_encoders(), service.renditions.find_backends(), service.media.warm());
    let media_path = film.to_str().expect("plain name").to_owned();
    // A bit rate limit is the only option that encodes at full size.
    let max_bitrate_kbps = is_encoded.then_some(7_900);
    let playback = PlaybackRequest { force_transcode: true, max_bitrate_kbps, ..PlaybackRequest::default() };
    let request = StartRequest { media_path, playback, ..StartRequest::default() };
    let started = Instant::now();
    let PlannedPlayback::Session(plan) =
        planner::plan_playback(&service, &hearthcast::domain::visibility::Visibility::All, request)
            .await
            .expect("a plan")
    else {
        panic!("direct")
    };
    assert_eq!(plan.spec().rendition.encodes_video(), is_encoded);
    let segments = plan.spec().grid.len();
    let session = service.sessions.start(&principal, *plan).await.expect("a session");
    session.segment(RenditionId::Rung(0), 0).await.expect("the first segment");
    let first = started.elapsed();
    for index in 1..segments {
        session.segment(RenditionId::Rung(0), index).await.expect("a segment");
    }
    let all = started.elapsed();
    service.shutdown().await;
    SessionTimes { first_millis: to_millis(first), all_millis: to_millis(all) }
}

/// Time from the start of the process to the first segment in its playlist, and to its end.
fn measure_ffmpeg(film: &Path, folder: &Path, arguments: &str) -> SessionTimes {
    let out = tempfile::tempdir_in(folder).expect("a temporary folder");
    let playlist: PathBuf = out.path().join("out.m3u8");
    let started = Instant::now();
    let mut child = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-i"])
        .arg(film)
        .args(arguments.split_whitespace())
        .args(["-f", "hls", "-hls_list_size", "0", "-hls_segment_type", "mpegts"])
        .arg(&playlist)
        .stdin(Stdio::null())
        .spawn()
        .expect("ffmpeg runs");
    let is_listed = || std::fs::read_to_string(&playlist).is_ok_and(|text| text.contains(".ts"));
    while !is_listed() && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let first = started.elapsed();
    assert!(child.wait().expect("a child").success());
    SessionTimes { first_millis: to_millis(first), all_millis: to_millis(started.elapsed()) }
}

fn to_millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}
