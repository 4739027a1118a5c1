use super::*;
use crate::domain::grid::Grid;
use crate::domain::media::{Container, Media};
use crate::domain::plan::{EncodeVideo, Rendition, VideoPlan};
use crate::domain::time::FrameRate;
use crate::engine::RunError;
use crate::engine::source::open_in_test;

/// A queue without workers; it keeps the messages to them.
#[derive(Debug, Default)]
struct KeptControls(Mutex<Vec<(String, String, RunControl)>>);

impl RunQueue for KeptControls {
    fn offer(&self, _: &str) -> futures_util::future::BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn control(&self, worker: &str, run: &str, control: RunControl) {
        self.0.lock().unwrap().push((worker.to_owned(), run.to_owned(), control));
    }
}

/// A cluster with a queue and one local slot, and a rendition of 100 segments.
fn cluster() -> (Arc<Cluster>, Arc<RenditionSpec>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    std::fs::write(&path, "film").unwrap();
    let spec = RenditionSpec {
        source: Arc::new(open_in_test(&path)),
        fingerprint: "f_1".into(),
        media: Arc::new(Media::new(Container::Mp4, Vec::new())),
        rendition: Arc::new(Rendition {
            video: Some(VideoPlan::Encode(EncodeVideo::sample(320, 180, 400))),
            ..Rendition::default()
        }),
        grid: Arc::new(Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, 200.0)),
        sidecar: None,
        watermark: None,
        package: None,
    };
    let cluster = Cluster::new(1);
    cluster.connect(Arc::new(KeptControls::default()));
    (cluster, Arc::new(spec), folder)
}

fn report(id: &str, slots: usize) -> WorkerReport {
    WorkerReport {
        id: id.into(),
        name: "desktop".into(),
        version: "1".into(),
        cores: 1,
        slots,
        encoders: vec!["libx264".into()],
        has_hardware: false,
        active: 0,
        started_ms: 0,
    }
}

fn encoder() -> &'static VideoEncoder {
    VideoEncoder::of_name("libx264").unwrap()
}

fn packets() -> Bytes {
    let mut bytes = vec![0; 2 * PACKET_LEN];
    (bytes[0], bytes[PACKET_LEN]) = (0x47, 0x47);
    bytes.into()
}

#[tokio::test]
async fn a_run_belongs_to_the_worker_that_claimed_it_first() {
    let (cluster, spec, _folder) = cluster();
    let run = cluster.open_run("1".into(), &spec, (4, 12), 5);
    assert!(cluster.source("1", "a").is_none(), "it is not claimed");
    let order = cluster.claim("1", "a", encoder()).await.unwrap();
    assert_eq!((order.first, order.end, order.through, order.len), (4, 12, 5, 4));
    assert_eq!(cluster.claim("1", "b", encoder()).await, None);
    assert_eq!(cluster.claim("2", "a", encoder()).await, None);
    assert!(cluster.source("1", "a").is_some() && cluster.source("1", "b").is_none());
    let end = RunEnd { error: Some(RunError::Stalled(1)) };
    assert_eq!(cluster.accept_segment("1", "b", 4, packets()).await, Err(RunRefusal::NotYours));
    assert_eq!(cluster.end("1", "b", end.clone()).await, Err(RunRefusal::NotYours));
    drop(run);
    assert!(cluster.source("1", "a").is_none(), "it is over");
    assert_eq!(cluster.end("1", "a", end).await, Err(RunRefusal::NotYours));
}

#[tokio::test]
async fn segments_come_in_order_within_the_limit_and_the_first_copy_counts() {
    let (cluster, spec, _folder) = cluster();
    let mut run = cluster.open_run("1".into(), &spec, (4, 6), 4);
    cluster.claim("1", "a", encoder()).await.unwrap();
    assert!(matches!(run.events.recv().await, Some(RunEvent::Claimed { .. })));
    let accept = |index, bytes| cluster.accept_segment("1", "a", index, bytes);
    assert_eq!(accept(4, Bytes::from_static(b"no packets")).await, Err(RunRefusal::NotTransportStream));
    assert_eq!(accept(5, packets()).await, Err(RunRefusal::OutOfTurn));
    assert_eq!(accept(4, packets()).await, Ok(()));
    assert_eq!(accept(4, packets()).await, Ok(()), "a copy is ignored");
    assert!(matches!(run.events.recv().await, Some(RunEvent::Segment { index: 4, .. })));
    assert!(run.events.try_recv().is_err());
    assert_eq!(accept(5, packets()).await, Err(RunRefusal::OutOfTurn), "the limit is 4");
    cluster.set_through("1", 99);
    assert_eq!(accept(5, packets()).await, Ok(()));
    assert_eq!(accept(6, packets()).await, Err(RunRefusal::OutOfTurn), "the end");
}

#[tokio::test(start_paused = true)]
async fn runs_are_offered_to_workers_with_a_free_slot_when_this_server_is_full() {
    let (cluster, spec, _folder) = cluster();
    let slots = cluster.remote_slots();
    let local = cluster.count_local_run();
    assert!(!cluster.has_offer(), "no worker");
    cluster.record_report(report("a", 1));
    assert!(cluster.has_offer());
    assert_eq!(*slots.borrow(), 1);
    let run = cluster.open_run("1".into(), &spec, (0, 8), 0);
    assert!(!cluster.has_offer(), "the offer that waits takes its slot");
    cluster.claim("1", "a", encoder()).await.unwrap();
    assert!(!cluster.has_offer());
    assert_eq!(cluster.workers()[0].active_runs, 1);
    cluster.suspect_worker_of("1");
    drop(run);
    assert!(!cluster.has_offer(), "it lost a run");
    cluster.record_report(report("a", 1));
    assert!(cluster.has_offer());
    drop(local);
    assert!(!cluster.has_offer(), "this server has a free slot");
    tokio::time::advance(WORKER_EXPIRY).await;
    cluster.remove_expired(|_| true);
    assert_eq!((cluster.workers().len(), *slots.borrow()), (0, 0));
    cluster.record_report(report("a", 1));
    cluster.remove_expired(|_| false);
    assert_eq!(cluster.workers().len(), 0, "it was removed by an admin");
}

#[tokio::test]
async fn a_heartbeat_gets_the_limit_again_and_that_of_another_run_its_end() {
    let (_, spec, _folder) = cluster();
    let (cluster, kept) = (Cluster::new(1), Arc::new(KeptControls::default()));
    cluster.connect(kept.clone());
    let mut run = cluster.open_run("1".into(), &spec, (4, 12), 5);
    cluster.set_through("1", 6);
    cluster.record_beat("a", "1");
    assert!(run.events.try_recv().is_err(), "it is not claimed");
    cluster.claim("1", "a", encoder()).await.unwrap();
    cluster.set_through("1", 7);
    cluster.record_beat("a", "1");
    assert!(matches!(run.events.recv().await, Some(RunEvent::Claimed { .. })));
    assert!(matches!(run.events.recv().await, Some(RunEvent::Beat)));
    cluster.record_beat("b", "1");
    assert!(run.events.try_recv().is_err(), "the heartbeat of another worker does not count");
    cluster.record_beat("a", "2");
    drop(run);
    cluster.record_beat("a", "1");
    let limit = |through| ("a".to_owned(), "1".to_owned(), RunControl::Through { through });
    let end = |worker: &str, run: &str| (worker.to_owned(), run.to_owned(), RunControl::Cancel);
    let expected = [limit(6), limit(7), limit(7), end("b", "1"), end("a", "2"), end("a", "1"), end("a", "1")];
    assert_eq!(*kept.0.lock().unwrap(), expected);
}
