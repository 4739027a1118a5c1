//! Sessions over a restart: what is stored of them, and how they continue.

use super::*;
use crate::domain::playlist::PlaylistTrack;
use crate::domain::segment_format::SegmentFormat;
use crate::engine::RenditionSpec;
use crate::service::renditions::planner::start_segment;
use crate::service::sessions::record::{InitSegment, PublishedParts, SessionRecord, StoredBytes};
use crate::store::Tree;
use crate::store::tests::records::assert_golden;

impl Bench {
    /// Waits for the committer, without letting the paused time pass, until the ids of the stored sessions fit.
    async fn wait_for_records(&self, is_expected: impl Fn(&[String]) -> bool) -> Vec<String> {
        let began = std::time::Instant::now();
        loop {
            let keys = self.store.keys(Tree::Sessions, "").unwrap();
            if is_expected(&keys) {
                return keys;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "stored: {keys:?}");
            std::thread::sleep(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a record fits.
    async fn wait_for_record(&self, id: &str, is_expected: impl Fn(&SessionRecord) -> bool) {
        self.wait_for_records(|_| self.record(id).is_some_and(|record| is_expected(&record))).await;
    }

    fn record(&self, id: &str) -> Option<SessionRecord> {
        self.store.get(Tree::Sessions, id).unwrap()
    }

    /// Stops the server and starts another one over the same state.
    async fn restart(self) -> Self {
        self.tasks.shutdown().await;
        open_bench(self.folder, self.config, self.store, Duration::from_secs(1))
    }

    fn dormant(&self, id: &str) -> Arc<DormantSession> {
        match self.sessions.find(&viewer("a"), id) {
            Ok(KnownSession::Dormant(dormant)) => dormant,
            _ => panic!("{id} is dormant"),
        }
    }

    async fn resume(&self, id: &str, plan: SessionPlan) -> Result<()> {
        let dormant = self.dormant(id);
        let resume = async { self.sessions.restart(&dormant, plan).await.map_err(ResumeError::Passing) };
        self.sessions.resume_once(&dormant, resume).await
    }

    fn live(&self, id: &str) -> Arc<Session> {
        match self.sessions.find(&viewer("a"), id) {
            Ok(KnownSession::Live(session)) => session,
            _ => panic!("{id} is live"),
        }
    }
}

#[test]
fn records_keep_their_bytes() {
    assert_golden::<SessionRecord>("sessions");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_stored_until_it_ends() {
    let bench = default_bench(|_| ());
    let stopped = bench.start("a", 0.0).await.unwrap();
    bench.wait_for_record(&stopped.id, |record| !record.published.is_ready).await;
    assert!(stopped.wait_ready(Duration::from_secs(2)).await.unwrap());
    bench.wait_for_record(&stopped.id, |record| record.published.is_ready).await;
    let idle = bench.start("a", 2.0).await.unwrap();
    bench.wait_for_records(|ids| ids.len() == 2).await;
    bench.sessions.stop(&viewer("a"), &stopped.id).await.unwrap();
    bench.wait_for_records(|ids| ids == [idle.id.clone()]).await;
    tokio::time::sleep(Duration::from_secs(62)).await;
    bench.wait_for_records(|ids| ids.is_empty()).await;
    for _ in 0..2 {
        bench.fake.fail_at(start_segment(&bench.plan(100.0)), RunError::Decode("garbage".into()));
    }
    let failed = bench.start("a", 100.0).await.unwrap();
    assert!(failed.wait_ready(Duration::from_secs(5)).await.is_err());
    failed.save();
    bench.wait_for_records(|ids| ids.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_is_the_same_and_makes_only_requested_segments() {
    let bench = default_bench(|_| ());
    let session = bench.start("a", 50.0).await.unwrap();
    assert!(session.wait_ready(Duration::from_secs(2)).await.unwrap());
    bench.wait_for_record(&session.id, |record| record.published.is_ready).await;
    let playlists = async |session: &Session| {
        let media = session.media_playlist(PlaylistTrack::Video(0), "?st=1").await.unwrap();
        (session.multivariant(true, "?st=1"), media)
    };
    let (id, started_at, before) = (session.id.clone(), session.started_at, playlists(&session).await);
    drop(session);
    let bench = bench.restart().await;
    assert_eq!(bench.sessions.live_sessions().len(), 0);
    assert_eq!(bench.sessions.find(&viewer("b"), &id).err().unwrap().code, Code::SessionNotFound);
    bench.resume(&id, bench.plan(50.0)).await.unwrap();
    let session = bench.live(&id);
    assert!(session.wait_ready(Duration::ZERO).await.unwrap(), "it was ready before");
    assert_eq!((session.started_at, playlists(&session).await), (started_at, before));
    assert_eq!(bench.fake.run_starts(), [] as [usize; 0]);
    session.segment(RenditionId::Rung(0), 60).await.unwrap();
    assert_eq!(bench.fake.run_starts(), [60], "as after a seek");
    assert_eq!(bench.sessions.session_counts(), (1, 0), "it is not a new one");
    let twin = bench.start("a", 50.0).await.unwrap();
    assert_ne!(twin.id, id, "a new start is no double click of the resumed session");
    assert!(bench.sessions.stop(&viewer("a"), &id).await.unwrap());
    bench.wait_for_records(|ids| ids == [twin.id.clone()]).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_not_ready_makes_its_first_segment_after_the_restart() {
    let bench = default_bench(|_| ());
    let id = bench.start("a", 50.0).await.unwrap().id.clone();
    bench.wait_for_records(|ids| ids.len() == 1).await;
    let bench = bench.restart().await;
    bench.resume(&id, bench.plan(50.0)).await.unwrap();
    let session = bench.live(&id);
    assert!(!session.wait_ready(Duration::ZERO).await.unwrap());
    assert!(session.wait_ready(Duration::from_secs(2)).await.unwrap());
    assert_eq!(bench.fake.run_starts(), [27]);
    bench.wait_for_record(&id, |record| record.published.is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn published_init_segments_are_not_made_again() {
    let bench = default_bench(|_| ());
    let fmp4_plan = |bench: &Bench| {
        let mut plan = bench.plan(0.0);
        let spec = Arc::make_mut(&mut plan.rungs[0].spec);
        Arc::make_mut(&mut spec.rendition).format = SegmentFormat::Fmp4;
        plan
    };
    let plan = fmp4_plan(&bench);
    let init = InitSegment { rendition: RenditionId::Rung(0), bytes: StoredBytes("init".into()) };
    let published = PublishedParts {
        is_ready: true,
        video_codec: Some("avc1.64001f".into()),
        init_segments: vec![init],
        iframe_init: Some(StoredBytes("iframe init".into())),
    };
    let record = SessionRecord::new("a", jiff::Timestamp::now(), &plan, published);
    bench.store.put(Tree::Sessions, "ts_1", &record).await.unwrap();
    let bench = bench.restart().await;
    bench.resume("ts_1", fmp4_plan(&bench)).await.unwrap();
    let session = bench.live("ts_1");
    assert_eq!(session.init_segment(RenditionId::Rung(0)).await.unwrap(), "init");
    assert_eq!(session.made_iframe_init().unwrap(), "iframe init");
    assert!(String::from_utf8_lossy(&session.multivariant(true, "")).contains("avc1.64001f"));
    assert_eq!(bench.fake.run_starts().len(), 0);
    assert_eq!(session.to_record(), record);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_resume_a_session_once() {
    let bench = default_bench(|_| ());
    let id = bench.start("a", 0.0).await.unwrap().id.clone();
    bench.wait_for_records(|ids| ids.len() == 1).await;
    let bench = bench.restart().await;
    let dormant = bench.dormant(&id);
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let request = |outcome: fn() -> Option<ResumeError>| {
        let (bench, dormant, attempts) = (&bench, &dormant, &attempts);
        let resume = async move {
            attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            match outcome() {
                Some(refused) => Err(refused),
                None => bench.sessions.restart(dormant, bench.plan(0.0)).await.map_err(ResumeError::Passing),
            }
        };
        bench.sessions.resume_once(dormant, resume)
    };
    let attempts = || attempts.load(std::sync::atomic::Ordering::Relaxed);
    // A passing error is the answer to all that waited; the next request tries again.
    let busy = || Some(ResumeError::Passing(Error::new(Code::TranscoderBusy, "busy")));
    let (first, second) = tokio::join!(request(busy), request(busy));
    assert_eq!([first, second].map(|outcome| outcome.unwrap_err().code), [Code::TranscoderBusy; 2]);
    assert_eq!(attempts(), 1);
    bench.wait_for_records(|ids| ids.len() == 1).await;
    let (first, second, third) = tokio::join!(request(|| None), request(|| None), request(|| None));
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!((attempts(), bench.sessions.live_sessions().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_continue_ends() {
    let bench = default_bench(|_| ());
    let (first, second) =
        (bench.start("a", 0.0).await.unwrap().id.clone(), bench.start("a", 2.0).await.unwrap().id.clone());
    bench.wait_for_records(|ids| ids.len() == 2).await;
    let bench = bench.restart().await;
    let dormant = bench.dormant(&first);
    let refuse = async { Err(ResumeError::Final(Error::new(Code::NotFound, "gone"))) };
    bench.sessions.resume_once(&dormant, refuse).await.unwrap();
    assert!(matches!(bench.sessions.find(&viewer("a"), &first), Ok(KnownSession::Ended(_))));
    bench.wait_for_records(|ids| ids == [second.clone()]).await;
    // A stop needs no plan, and a resumption in progress does not undo it.
    let dormant = bench.dormant(&second);
    assert!(bench.sessions.stop(&viewer("a"), &second).await.unwrap());
    assert!(!bench.sessions.stop(&viewer("a"), &second).await.unwrap());
    let late = bench.sessions.restart(&dormant, bench.plan(2.0)).await;
    assert_eq!(late.err().unwrap().code, Code::SessionEnded);
    bench.wait_for_records(|ids| ids.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn dormant_sessions_count_when_they_are_resumed_and_leave_when_nothing_requests_them() {
    let bench = default_bench(|config| {
        config.limits.sessions_per_user = 2;
        config.limits.concurrent_jobs = 4;
    });
    let oldest = SessionRecord::new("a", jiff::Timestamp::UNIX_EPOCH, &bench.plan(8.0), PublishedParts::default());
    bench.store.put(Tree::Sessions, "ts_oldest", &oldest).await.unwrap();
    bench.store.put(Tree::Sessions, "ts_unknown", &"a record of another version").await.unwrap();
    for user in ["a", "b"] {
        for start in [0.0, 2.0] {
            bench.start(user, start).await.unwrap();
        }
    }
    bench.wait_for_records(|ids| ids.len() == 6).await;
    let bench = bench.restart().await;
    // Of each user as many as may be live, the newest.
    let ids = bench.wait_for_records(|ids| ids.len() == 4).await;
    assert!(!ids.iter().any(|id| id.starts_with("ts_o") || id.starts_with("ts_u")), "{ids:?}");
    let own: Vec<&String> = ids.iter().filter(|id| bench.sessions.find(&viewer("a"), id).is_ok()).collect();
    bench.start("a", 4.0).await.unwrap();
    bench.start("a", 6.0).await.unwrap();
    assert_eq!(bench.resume(own[0], bench.plan(0.0)).await.unwrap_err().code, Code::TooManySessions);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(bench.resume(own[0], bench.plan(0.0)).await.unwrap_err().code, Code::TooManySessions);
    tokio::time::sleep(Duration::from_secs(25)).await;
    // The new ones were idle as well. The record that was requested again stays.
    assert_eq!(bench.wait_for_records(|ids| ids.len() == 1).await, [own[0].clone()]);
    bench.resume(own[0], bench.plan(0.0)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    bench.wait_for_records(|ids| ids.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn another_plan_has_another_digest_unless_only_the_encoder_differs() {
    let bench = default_bench(|_| ());
    let record = SessionRecord::new("a", jiff::Timestamp::now(), &bench.plan(0.0), PublishedParts::default());
    let changed = |change: fn(&mut RenditionSpec)| {
        let mut plan = bench.plan(0.0);
        change(Arc::make_mut(&mut plan.rungs[0].spec));
        record.has_same_plan(&plan)
    };
    fn video(spec: &mut RenditionSpec) -> &mut crate::domain::plan::EncodeVideo {
        match &mut Arc::make_mut(&mut spec.rendition).video {
            Some(VideoPlan::Encode(video)) => video,
            _ => panic!("the video is encoded"),
        }
    }
    assert!(changed(|_| ()));
    assert!(changed(|spec| video(spec).encoder = "h264_vaapi".into()));
    assert!(!changed(|spec| video(spec).codec = crate::domain::codec::TargetCodec::Hevc));
    assert!(!changed(|spec| video(spec).max_kbps -= 1));
    assert!(!changed(|spec| spec.fingerprint = "f_2".into()));
    assert!(!changed(|spec| {
        spec.grid = Arc::new(crate::domain::grid::Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 4.0, 200.0));
    }));
    assert!(!record.has_same_plan(&bench.ladder(2)));
    std::fs::write(bench.folder.path().join("film.mp4"), "another film").unwrap();
    assert!(!changed(|_| ()), "the file was replaced");
}
