//! The life of sessions, with a scripted backend and paused time.

use std::path::Path;

use super::*;
use crate::domain::plan::VideoPlan;
use crate::domain::session::SessionState;
use crate::domain::time::FrameRate;
use crate::engine::RunError;
use crate::engine::fake_backend::FakeBackend;
use crate::engine::worker::Isolation;
use crate::service::renditions::planner::{RenditionId, Rung, SessionAudio, StartRequest};
use crate::service::renditions::sample_spec::sample_spec;

mod audio;
mod resume;

struct Bench {
    folder: tempfile::TempDir,
    config: Config,
    store: Store,
    fake: FakeBackend,
    tasks: BackgroundTasks,
    renditions: Arc<Renditions>,
    sessions: Sessions,
}

fn default_bench(configure: impl FnOnce(&mut Config)) -> Bench {
    bench_with_segment_time(Duration::from_secs(1), configure)
}

/// A bench on which each segment takes `segment_time` to produce.
fn bench_with_segment_time(segment_time: Duration, configure: impl FnOnce(&mut Config)) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.mp4"), "film").unwrap();
    let mut config = Config::new(folder.path().join("state"), folder.path().join("cache"));
    config.limits.concurrent_jobs = 1;
    configure(&mut config);
    let store = Store::open(&config.state).unwrap();
    open_bench(folder, config, store, segment_time)
}

fn open_bench(folder: tempfile::TempDir, config: Config, store: Store, segment_time: Duration) -> Bench {
    let tasks = BackgroundTasks::default();
    let renditions = Renditions::open(&config, Isolation::None, None, tasks.clone()).unwrap();
    let sessions = Sessions::open(&config, store.clone(), renditions.clone(), tasks.clone()).unwrap();
    let fake = FakeBackend::with_segment_time(segment_time);
    renditions.backends.force(Arc::new(fake.clone()));
    Bench { folder, config, store, fake, tasks, renditions, sessions }
}

fn viewer(name: &str) -> Principal {
    Principal {
        user_id: name.into(),
        username: name.into(),
        role: Role::User,
        login_id: "l".into(),
        channels: None,
        expires_at: None,
        visibility: crate::domain::visibility::Visibility::All,
    }
}

impl Bench {
    /// A plan for 100 segments of 2 s.
    fn plan(&self, start_seconds: f64) -> SessionPlan {
        let path = self.folder.path();
        let media_path = path.join("film.mp4").to_str().unwrap().to_owned();
        let top = Rung {
            spec: Arc::new(sample_spec(path, 180)),
            size: Some((320, 180)),
            frame_rate: Some(FrameRate { num: 25, den: 1 }),
            bandwidth: 1,
            average_bandwidth: 1,
            iframe_bandwidth: None,
            audio_codec: None,
            copied_video: None,
        };
        SessionPlan {
            rungs: vec![top],
            audio: SessionAudio::default(),
            subtitles: Vec::new(),
            request: StartRequest { media_path, start_seconds, ..StartRequest::default() },
            duration_seconds: 200.0,
            reasons: Vec::new(),
            streams: Vec::new(),
            no_copy_reason: None,
        }
    }

    /// A plan with `rungs` rungs of falling bitrate.
    fn ladder(&self, rungs: u32) -> SessionPlan {
        let mut plan = self.plan(0.0);
        for rung in 1..rungs {
            let mut lower = plan.rungs[0].clone();
            if let Some(VideoPlan::Encode(video)) =
                &mut Arc::make_mut(&mut Arc::make_mut(&mut lower.spec).rendition).video
            {
                video.max_kbps /= 2 * rung;
            }
            plan.rungs.push(lower);
        }
        plan.request.playback.is_adaptive = true;
        plan
    }

    async fn start(&self, user: &str, start_seconds: f64) -> Result<Arc<Session>> {
        self.sessions.start(&viewer(user), self.plan(start_seconds)).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_ready_when_the_segment_at_its_start_exists() {
    let bench = default_bench(|_| ());
    let session = bench.start("a", 50.0).await.unwrap();
    assert!(!session.wait_ready(Duration::from_millis(900)).await.unwrap());
    assert_eq!(session.status().state, SessionState::Starting);
    assert!(session.wait_ready(Duration::from_millis(200)).await.unwrap());
    assert_eq!(bench.fake.run_starts(), [27]);
    session.segment(RenditionId::Rung(0), 27).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_stopped_and_remembered_for_ten_minutes() {
    let bench = default_bench(|_| ());
    let session = bench.start("a", 0.0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(session.status().state, SessionState::Paused, "a status request resets the idle timeout");
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(bench.sessions.live_sessions().len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(bench.sessions.live_sessions().is_empty());
    assert_eq!((bench.renditions.active_jobs(), bench.fake.live_runs()), (0, 0));
    assert_eq!(session.segment(RenditionId::Rung(0), 0).await.unwrap_err().code, Code::SessionEnded);
    assert!(!bench.sessions.stop(&viewer("a"), &session.id).await.unwrap());
    tokio::time::sleep(ENDED_RETENTION).await;
    assert_eq!(bench.sessions.find(&viewer("a"), &session.id).err().unwrap().code, Code::SessionNotFound);
}

/// Number of descriptors of this process that refer to a file.
fn count_descriptors(path: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with(&*path.to_string_lossy())).count()
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_closes_its_file_at_once_and_still_answers() {
    let bench = default_bench(|_| ());
    let media_file = bench.folder.path().join("film.mp4");
    let session = bench.start("a", 0.0).await.unwrap();
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    let id = session.id.clone();
    drop(session);
    std::fs::remove_file(&media_file).unwrap();
    assert!(count_descriptors(&media_file) > 0, "the file is open");
    assert!(bench.sessions.stop(&viewer("a"), &id).await.unwrap());
    // Long enough for the tasks of the session and of its run to return.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(count_descriptors(&media_file), 0, "a deleted file gives its space back");
    let Ok(KnownSession::Ended(ended)) = bench.sessions.find(&viewer("a"), &id) else {
        panic!("the ended session is remembered")
    };
    assert_eq!(ended.status.state, SessionState::Stopped);
    assert_eq!(bench.sessions.find(&viewer("b"), &id).err().unwrap().code, Code::SessionNotFound);
    assert!(!bench.sessions.stop(&viewer("a"), &id).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn segments_are_freed_a_minute_after_the_last_session() {
    let bench = default_bench(|_| ());
    let session = bench.start("a", 0.0).await.unwrap();
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    assert!(bench.sessions.stop(&viewer("a"), &session.id).await.unwrap());
    let second = bench.start("a", 1.0).await.unwrap();
    second.segment(RenditionId::Rung(0), 0).await.unwrap();
    let starts = bench.fake.run_starts();
    assert!(starts.len() == 2 && starts[1] > 0, "the first segment was still stored: {starts:?}");
    bench.sessions.stop(&viewer("a"), &second.id).await.unwrap();
    tokio::time::sleep(Duration::from_secs(80)).await;
    bench.start("a", 2.0).await.unwrap().segment(RenditionId::Rung(0), 0).await.unwrap();
    assert_eq!(bench.fake.run_starts()[2..], [0], "produced again");
}

#[tokio::test(start_paused = true)]
async fn sessions_per_user_are_limited_and_a_double_click_counts_once() {
    let bench = default_bench(|config| config.limits.sessions_per_user = 2);
    let first = bench.start("a", 0.0).await.unwrap();
    let twin = bench.start("a", 0.0).await.unwrap();
    assert_eq!(first.id, twin.id);
    bench.start("a", 2.0).await.unwrap();
    let refused = bench.start("a", 4.0).await.err().unwrap();
    assert_eq!((refused.code, refused.retry_after), (Code::TooManySessions, Some(10)));
    bench.start("b", 4.0).await.unwrap();
    tokio::time::sleep(DOUBLE_CLICK_WINDOW).await;
    assert_eq!(bench.start("a", 0.0).await.err().unwrap().code, Code::TooManySessions, "too late for a double click");
    bench.sessions.stop(&viewer("a"), &first.id).await.unwrap();
    bench.start("a", 4.0).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_session_reports_its_failure_until_stopped_and_can_be_restarted() {
    let bench = default_bench(|_| ());
    bench.fake.fail_at(0, RunError::Decode("garbage".into()));
    bench.fake.fail_at(0, RunError::Decode("garbage".into()));
    let session = bench.start("a", 0.0).await.unwrap();
    assert_eq!(session.wait_ready(Duration::from_secs(5)).await.err().unwrap().code, Code::DecodeFailed);
    let status = session.status();
    assert_eq!(status.state, SessionState::Failed);
    assert!(matches!(status.failure.unwrap().error, RunError::Decode(_)));
    assert_eq!(session.segment(RenditionId::Rung(0), 0).await.unwrap_err().code, Code::DecodeFailed);
    assert_eq!(bench.renditions.active_jobs(), 0, "its slot is free");
    let restarted = bench.start("a", 0.0).await.unwrap();
    assert_ne!(restarted.id, session.id);
    assert!(restarted.wait_ready(Duration::from_secs(5)).await.unwrap());
    assert!(bench.sessions.stop(&viewer("a"), &session.id).await.unwrap());
    assert_eq!(session.segment(RenditionId::Rung(0), 0).await.unwrap_err().code, Code::SessionEnded);
}

#[tokio::test(start_paused = true)]
async fn a_late_segment_is_a_timeout_and_the_session_survives() {
    let bench = default_bench(|config| config.limits.segment_wait = Duration::from_millis(500));
    let session = bench.start("a", 0.0).await.unwrap();
    let timeout = session.segment(RenditionId::Rung(0), 0).await.unwrap_err();
    assert_eq!((timeout.code, timeout.retry_after), (Code::SegmentTimeout, Some(2)));
    assert!(session.wait_ready(Duration::from_secs(1)).await.unwrap());
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    assert_eq!(session.segment(RenditionId::Rung(0), 102).await.unwrap_err().code, Code::AssetNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_waiting_requests() {
    let bench = default_bench(|_| ());
    let session = bench.start("a", 0.0).await.unwrap();
    let (waited, stopped) = tokio::join!(session.segment(RenditionId::Rung(0), 80), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.sessions.stop(&viewer("a"), &session.id).await
    });
    assert_eq!(waited.unwrap_err().code, Code::SessionEnded);
    assert!(stopped.unwrap());
}

#[tokio::test(start_paused = true)]
async fn shutdown_leaves_no_session_no_run_and_no_file() {
    let bench = default_bench(|config| config.limits.concurrent_jobs = 4);
    for start_seconds in 0..4 {
        bench.start("a", f64::from(start_seconds)).await.unwrap();
    }
    bench.tasks.shutdown().await;
    bench.renditions.clear_segments();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((bench.sessions.live_sessions().len(), bench.fake.live_runs()), (0, 0));
    assert!(!bench.folder.path().join("cache/segments").exists());
    assert_eq!(bench.start("a", 0.0).await.err().unwrap().code, Code::ServerBusy);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_rung_moves_a_single_encode_slot() {
    let bench = default_bench(|_| ());
    let session = bench.sessions.start(&viewer("a"), bench.ladder(3)).await.unwrap();
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    session.segment(RenditionId::Rung(2), 1).await.unwrap();
    let status = session.status();
    assert_eq!((status.rung, status.leased_rungs), (2, vec![false, false, true]));
    assert_eq!((bench.renditions.active_jobs(), status.state), (1, SessionState::Running));
    // Back to the first: its segments are still stored, and releasing a rung never failed the session.
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    session.segment(RenditionId::Rung(0), 2).await.unwrap();
    let status = session.status();
    assert_eq!((status.rung, status.leased_rungs, status.failure.is_none()), (0, vec![true, false, false], true));
    assert_eq!(session.segment(RenditionId::Rung(3), 0).await.unwrap_err().code, Code::AssetNotFound);
    assert!(bench.sessions.stop(&viewer("a"), &session.id).await.unwrap());
    assert_eq!(session.segment(RenditionId::Rung(1), 0).await.unwrap_err().code, Code::SessionEnded);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((bench.renditions.active_jobs(), bench.fake.live_runs()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unused_rung_is_released_and_sooner_for_another_session() {
    let bench = bench_with_segment_time(Duration::from_millis(1800), |config| config.limits.concurrent_jobs = 2);
    let session = bench.sessions.start(&viewer("a"), bench.ladder(3)).await.unwrap();
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    session.segment(RenditionId::Rung(1), 1).await.unwrap();
    assert_eq!(session.status().leased_rungs, [true, true, false], "each rung has a slot");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(session.status().leased_rungs, [false, true, false]);
    assert_eq!(bench.renditions.active_jobs(), 1);
    session.segment(RenditionId::Rung(1), 2).await.unwrap();
    session.segment(RenditionId::Rung(2), 2).await.unwrap();
    assert_eq!(session.status().leased_rungs, [false, true, true]);
    let mut other_plan = bench.plan(0.0);
    Arc::make_mut(&mut other_plan.rungs[0].spec).fingerprint = "f_2".into();
    let other_session = bench.sessions.start(&viewer("b"), other_plan).await.unwrap();
    for index in 0..3 {
        other_session.segment(RenditionId::Rung(0), index).await.unwrap();
    }
    // Both slots are needed, and no viewer loses a share to a later one.
    assert_eq!(bench.sessions.start(&viewer("c"), bench.ladder(2)).await.err().unwrap().code, Code::TranscoderBusy);
    assert_eq!(session.status().leased_rungs, [false, false, true]);
    session.segment(RenditionId::Rung(2), 30).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rung_with_a_waiting_request_is_not_released() {
    let bench = default_bench(|config| config.limits.concurrent_jobs = 2);
    let session = bench.sessions.start(&viewer("a"), bench.ladder(3)).await.unwrap();
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    let (far, near, third) = tokio::join!(
        session.segment(RenditionId::Rung(0), 40),
        session.segment(RenditionId::Rung(1), 0),
        session.segment(RenditionId::Rung(2), 0)
    );
    assert!(far.is_ok() && near.is_ok() && third.is_ok(), "the third rung waits for a slot");
}

#[tokio::test(start_paused = true)]
async fn releasing_a_rung_does_not_end_the_session() {
    let bench = default_bench(|_| ());
    let session = bench.sessions.start(&viewer("a"), bench.ladder(2)).await.unwrap();
    session.segment(RenditionId::Rung(0), 0).await.unwrap();
    session.leases.release_unused(1, Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((session.status().leased_rungs, bench.fake.live_runs()), (vec![false, false], 0));
    session.segment(RenditionId::Rung(1), 1).await.unwrap();
    session.segment(RenditionId::Rung(0), 2).await.unwrap();
    assert!(session.status().failure.is_none());
}

#[tokio::test(start_paused = true)]
async fn two_sessions_share_one_encode_slot_and_a_third_is_refused() {
    let bench = bench_with_segment_time(Duration::from_millis(800), |_| ());
    let mut other_plan = bench.plan(0.0);
    Arc::make_mut(&mut other_plan.rungs[0].spec).fingerprint = "f_2".into();
    let (first, two) =
        (bench.start("a", 0.0).await.unwrap(), bench.sessions.start(&viewer("b"), other_plan.clone()).await.unwrap());
    let watch = async |session: &Session| {
        let mut late_segments = 0;
        for index in 0..40 {
            let began = tokio::time::Instant::now();
            session.segment(RenditionId::Rung(0), index).await.unwrap();
            late_segments += usize::from(index > 2 && began.elapsed() > Duration::from_secs(4));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        late_segments
    };
    assert_eq!(tokio::join!(watch(&first), watch(&two)), (0, 0));
    assert_eq!((bench.renditions.active_jobs(), bench.fake.run_starts().len()), (1, 2));
    Arc::make_mut(&mut other_plan.rungs[0].spec).fingerprint = "f_3".into();
    let refused = bench.sessions.start(&viewer("c"), other_plan.clone()).await.err().unwrap();
    assert_eq!((refused.code, refused.retry_after), (Code::TranscoderBusy, Some(5)));
    assert!(bench.sessions.stop(&viewer("a"), &first.id).await.unwrap());
    bench.sessions.start(&viewer("c"), other_plan).await.unwrap();
}
