use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::pending;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use super::s3::S3Bucket;
use super::*;
use crate::domain::grid::Grid;
use crate::domain::library::Root;
use crate::domain::media::{Container, Media};
use crate::domain::plan::{AudioPlan, EncodeVideo, Rendition, VideoPlan};
use crate::domain::time::FrameRate;
use crate::engine::fake_backend::FakeBackend;
use crate::engine::source::Roots;
use crate::engine::{Backend, RenditionSpec};

const DEADLINE: Duration = Duration::from_secs(1);

/// A rendition of the file `film.mp4` in a folder.
fn spec(folder: &std::path::Path) -> RenditionSpec {
    let roots = Roots::open(vec![Root { id: "r".into(), path: folder.into() }]).unwrap();
    let source = roots.open_file(folder.join("film.mp4").to_str().unwrap()).unwrap();
    let video = VideoPlan::Encode(EncodeVideo { encoder: "libx264".into(), ..EncodeVideo::sample(320, 240, 400) });
    RenditionSpec {
        source: Arc::new(source),
        fingerprint: "f_1".into(),
        media: Arc::new(Media::new(Container::Mp4, Vec::new())),
        rendition: Arc::new(Rendition { video: Some(video), ..Rendition::default() }),
        grid: Arc::new(Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, 200.0)),
        sidecar: None,
        watermark: None,
        package: None,
    }
}

/// A folder with a film of this text, modified at this time, milliseconds since 1970.
fn film(text: &str, modified_ms: u64) -> (tempfile::TempDir, RenditionSpec) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    std::fs::write(&path, text).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(modified_ms)).unwrap();
    let spec = spec(folder.path());
    (folder, spec)
}

fn key_of(spec: &RenditionSpec) -> Option<SharedKey> {
    SharedKey::of_rendition(&FakeBackend::default(), spec)
}

fn sample_key() -> SharedKey {
    key_of(&film("film", 1_000).1).unwrap()
}

/// A backend as [`FakeBackend`], of another version or with another encoder.
struct OtherBackend(FakeBackend, &'static str, Option<&'static str>);

impl Backend for OtherBackend {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn version(&self) -> &str {
        self.1
    }

    fn video_encoder(&self, _: &EncodeVideo) -> Option<&'static str> {
        self.2
    }

    fn start(&self, job: crate::engine::Job, last_allowed: usize) -> crate::engine::Result<crate::engine::Run> {
        self.0.start(job, last_allowed)
    }
}

#[test]
fn copies_of_a_file_on_two_machines_have_one_key_and_anything_else_another() {
    let (first, second) = (film("film", 1_000), film("film", 1_000));
    assert_ne!(first.1.source.version(), second.1.source.version(), "another inode");
    let key = key_of(&first.1).unwrap();
    assert_eq!(key, key_of(&second.1).unwrap());
    let path = key.object_path(12);
    assert!(path.starts_with("f_1-") && path.ends_with("/12.ts"), "{path}");

    let base = || film("film", 1_000);
    let mut others = vec![film("film", 1_001).1, film("films", 1_000).1];
    let mut other = base().1;
    other.fingerprint = "f_2".into();
    others.push(other);
    let mut other = base().1;
    other.grid = Arc::new(Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 4.0, 200.0));
    others.push(other);
    let mut other = base().1;
    let video = VideoPlan::Encode(EncodeVideo { encoder: "libx264".into(), ..EncodeVideo::sample(320, 240, 401) });
    other.rendition = Arc::new(Rendition { video: Some(video), ..Rendition::default() });
    others.push(other);
    for other in &others {
        assert_ne!(key_of(other).unwrap(), key);
    }
    let of_backend = |version, encoder| {
        SharedKey::of_rendition(&OtherBackend(FakeBackend::default(), version, encoder), &base().1).unwrap()
    };
    assert_eq!(of_backend("1", None), key);
    assert_ne!(of_backend("2", None), key);
    assert_ne!(of_backend("1", Some("openh264enc")), key);
}

#[test]
fn what_is_made_quickly_or_only_here_is_not_shared() {
    let (_folder, base) = film("film", 1_000);
    let instant = FakeBackend::with_instant_start(Duration::ZERO);
    assert_eq!(SharedKey::of_rendition(&instant, &base), None);
    let with = |rendition: Rendition| key_of(&RenditionSpec { rendition: Arc::new(rendition), ..base.clone() });
    let audio = Some(AudioPlan::Encode { stream: 1, channels: 2, kbps: 160, gain_tenths_db: None });
    assert_eq!(with(Rendition { audio: Some(AudioPlan::Copy { stream: 1 }), ..Rendition::default() }), None);
    assert!(with(Rendition { audio: audio.clone(), ..Rendition::default() }).is_some());
    let sidecar = Some(base.source.clone());
    assert_eq!(key_of(&RenditionSpec { sidecar, ..base.clone() }), None);
}

/// A store in memory, with its uploads running.
fn store_in_memory() -> (Arc<InMemory>, SharedSegments) {
    let objects = Arc::new(InMemory::new());
    let (shared, uploads) = SharedSegments::new(Arc::new(S3Bucket::over(objects.clone(), "tv/segments")), DEADLINE);
    tokio::spawn(uploads.run());
    (objects, shared)
}

async fn wait_for_uploads(shared: &SharedSegments, count: u64) {
    while shared.counts().uploaded < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_uploaded_segment_is_found_by_its_key() {
    let (objects, shared) = store_in_memory();
    let key = sample_key();
    assert_eq!(shared.find(&key, 3).await, None);
    shared.offer(&key, 3, "segment".into());
    wait_for_uploads(&shared, 1).await;
    assert_eq!(shared.find(&key, 3).await.as_deref(), Some(&b"segment"[..]));
    let path = Path::from(format!("tv/segments/{}", key.object_path(3)));
    let meta = objects.get(&path).await.unwrap();
    assert_eq!(meta.attributes.get(&object_store::Attribute::ContentType).unwrap().as_ref(), "video/mp2t");
    let counts = shared.counts();
    assert_eq!((counts.hits, counts.misses, counts.faults, counts.read_times.count), (1, 1, 0, 2));
}

#[tokio::test]
async fn a_damaged_object_counts_as_absent_and_an_upload_replaces_it() {
    let (objects, shared) = store_in_memory();
    let key = sample_key();
    shared.offer(&key, 0, "segment".into());
    wait_for_uploads(&shared, 1).await;
    let path = Path::from(format!("tv/segments/{}", key.object_path(0)));
    let attributes = objects.get(&path).await.unwrap().attributes;
    for damaged in ["segmenT", ""] {
        let options = object_store::PutOptions { attributes: attributes.clone(), ..Default::default() };
        objects.put_opts(&path, PutPayload::from(damaged), options).await.unwrap();
        assert_eq!(shared.find(&key, 0).await, None, "{damaged}");
    }
    // A copy without its metadata.
    objects.put(&path, PutPayload::from("segment")).await.unwrap();
    assert_eq!(shared.find(&key, 0).await, None);
    assert_eq!(shared.counts().faults, 3);
    assert!(shared.is_available(), "the store itself works");
    shared.offer(&key, 0, "segment".into());
    wait_for_uploads(&shared, 2).await;
    assert!(shared.find(&key, 0).await.is_some());
}

#[tokio::test]
async fn the_check_of_doctor_passes_on_a_store_that_works() {
    let bucket = S3Bucket::over(Arc::new(InMemory::new()), "");
    assert_eq!(bucket.check().await, Ok(()));
}

/// A bucket that never answers, or refuses.
#[derive(Debug, Default)]
struct BrokenBucket {
    refuses: AtomicBool,
}

impl ObjectBucket for BrokenBucket {
    fn get(&self, _: &str) -> BoxFuture<'static, Result<Option<SegmentObject>, String>> {
        if self.refuses.load(Ordering::Relaxed) {
            return Box::pin(async { Err("refused".to_owned()) });
        }
        Box::pin(pending())
    }

    fn put(&self, _: &str, _: SegmentObject) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_or_fails_is_left_alone_for_half_a_minute() {
    let bucket = Arc::new(BrokenBucket::default());
    let (shared, _uploads) = SharedSegments::new(bucket.clone(), DEADLINE);
    let (key, start) = (sample_key(), Instant::now());
    assert_eq!(shared.find(&key, 0).await, None);
    assert_eq!(start.elapsed(), DEADLINE);
    for index in 1..100 {
        assert_eq!(shared.find(&key, index).await, None);
    }
    shared.offer(&key, 0, "segment".into());
    assert_eq!(start.elapsed(), DEADLINE, "none of these waits");
    let counts = shared.counts();
    assert_eq!((counts.faults, counts.skipped, counts.dropped_uploads, counts.is_available), (1, 99, 1, false));

    tokio::time::sleep(Duration::from_secs(30)).await;
    bucket.refuses.store(true, Ordering::Relaxed);
    assert!(shared.is_available());
    assert_eq!(shared.find(&key, 0).await, None);
    assert!(!shared.is_available(), "the trial failed");
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_uploads_is_bounded_in_segments_and_in_bytes() {
    let (shared, uploads) = SharedSegments::new(Arc::new(BrokenBucket::default()), DEADLINE);
    let key = sample_key();
    for index in 0..70 {
        shared.offer(&key, index, "segment".into());
    }
    assert_eq!(shared.counts().dropped_uploads, 6, "64 wait");
    drop((shared, uploads));
    let (shared, _uploads) = SharedSegments::new(Arc::new(BrokenBucket::default()), DEADLINE);
    let large = Bytes::from(vec![0; 50 << 20]);
    for index in 0..4 {
        shared.offer(&key, index, large.clone());
    }
    shared.offer(&key, 5, vec![0; MAX_OBJECT_BYTES + 1].into());
    assert_eq!(shared.counts().dropped_uploads, 3, "128 MiB wait, and none is above 64 MiB");
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_hangs_opens_the_breaker_and_the_rest_is_dropped() {
    let (shared, uploads) = SharedSegments::new(Arc::new(BrokenBucket::default()), DEADLINE);
    let key = sample_key();
    for index in 0..10 {
        shared.offer(&key, index, "segment".into());
    }
    tokio::spawn(uploads.run());
    tokio::time::sleep(Duration::from_secs(25)).await;
    let counts = shared.counts();
    assert_eq!((counts.failed_uploads, counts.dropped_uploads, counts.is_available), (2, 8, false));
}
