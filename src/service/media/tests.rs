use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::domain::library::Root;
use crate::engine::source::Roots;
use crate::engine::worker::Isolation;
use crate::store::tests::records::assert_golden;

#[test]
fn records_keep_their_bytes() {
    assert_golden::<Versioned<ProbeResult>>("probes");
    assert_golden::<Versioned<Option<f64>>>("loudness");
}

fn new_probes(deadline: Duration) -> Probes {
    Probes::new(Path::new("ffmpeg"), deadline, Isolation::None)
}

fn sample_video(name: &str, seconds: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let test_video = format!("testsrc2=size=320x240:rate=25:duration={seconds}");
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", &test_video, "-c:v", "mpeg4"])
        .arg(&path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
    (folder, path)
}

fn open(path: &Path) -> SourceFile {
    let roots = Roots::open(vec![Root { id: "r".into(), path: path.parent().unwrap().to_owned() }]).unwrap();
    roots.open_file(path.to_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_disk_that_wakes_after_the_deadline_costs_one_request_and_not_the_file() {
    let (_folder, path) = sample_video("a.avi", 1);
    let probes = new_probes(Duration::from_millis(400));
    probes.warm().await;
    let mut source = open(&path);
    source.read_delay = Duration::from_millis(1500);
    let source = Arc::new(source);
    let refused = probes.probe(&source).await.unwrap_err();
    assert_eq!((refused.code, refused.retry_after), (Code::ProbeTimedOut, Some(RETRY_SECONDS)));
    assert_eq!((refused.code.status(), probes.lock_results().in_flight.len()), (503, 1));
    // A request meanwhile waits for the same probe.
    assert_eq!(probes.probe(&source).await.unwrap_err().code, Code::ProbeTimedOut);
    assert_eq!(MAX_IN_FLIGHT - probes.in_flight_slots.available_permits(), 1);
    let media = async {
        loop {
            match probes.probe(&source).await {
                Err(fault) if fault.code == Code::ProbeTimedOut => {}
                outcome => return outcome.unwrap().media,
            }
        }
    };
    let media = tokio::time::timeout(Duration::from_secs(60), media).await.expect("the probe ends");
    assert_eq!(media.streams[0].codec, "mpeg4");
    assert!(probes.lock_results().in_flight.is_empty());
}

#[tokio::test]
async fn a_patient_request_waits_several_deadlines_for_one_probe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.avi");
    std::fs::write(&path, "a film").unwrap();
    let probes = new_probes(Duration::from_millis(100));
    let mut source = open(&path);
    source.read_delay = Duration::from_secs(3);
    let source = Arc::new(source);
    let began = std::time::Instant::now();
    assert_eq!(probes.probe_patiently(&source).await.unwrap_err().code, Code::ProbeTimedOut);
    assert!((700..2900).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(MAX_IN_FLIGHT - probes.in_flight_slots.available_permits(), 1);
}

#[tokio::test]
async fn an_implausible_duration_is_unknown() {
    let (_folder, path) = sample_video("a.mkv", 1);
    let mut bytes = std::fs::read(&path).unwrap();
    let cues = bytes.windows(4).rposition(|four| four == [0x1c, 0x53, 0xbb, 0x6b]).expect("cues");
    // An element id that does not exist.
    bytes[cues] = 0x1d;
    // A last cluster at 2^50 ms with one block.
    bytes.extend([0x1f, 0x43, 0xb6, 0x75, 0x90, 0xe7, 0x87, 4, 0, 0, 0, 0, 0, 0, 0xa3, 0x85, 0x81, 0, 0, 0x80, 0]);
    std::fs::write(&path, bytes).unwrap();
    let probed = new_probes(Duration::from_secs(30)).probe(&Arc::new(open(&path))).await.unwrap();
    let media = probed.media;
    assert_eq!((media.duration_seconds, media.bitrate_kbps, media.is_seekable), (None, None, false));
    assert!(media.warnings.iter().any(|warning| warning.contains("unknown")), "{:?}", media.warnings);
}

#[tokio::test]
async fn a_stored_result_is_valid_for_its_version_only() {
    let (folder, path) = sample_video("a.avi", 30);
    let store = Store::open_waiting(&folder.path().join("state")).unwrap();
    let original_bytes = std::fs::read(&path).unwrap();
    let len = original_bytes.len();
    assert!(len > 800_000, "the fingerprint samples must leave room for a hole: {len}");
    // A download with its head, middle and tail, and a hole in between.
    let mut holed = original_bytes.clone();
    holed[len / 10..len * 4 / 10].fill(0);
    std::fs::write(&path, &holed).unwrap();
    let modified_at = std::fs::metadata(&path).unwrap().modified().unwrap();
    let quarantine = Quarantine::open(store.clone());
    let fresh_probes = || new_probes(Duration::from_secs(30)).with_store(store.clone(), quarantine.clone());
    let holed = Arc::new(open(&path));
    let first = fresh_probes().probe(&holed).await.unwrap();
    let probe_again = async || {
        // The record is written in the background.
        for _ in 0..100 {
            let key = format!("{PROBE_VERSION}/{}", holed.fingerprint().unwrap());
            if store.get::<Versioned<ProbeResult>>(Tree::Probes, &key).unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        fresh_probes().probe(&Arc::new(open(&path))).await.unwrap()
    };
    assert_eq!(probe_again().await.at, first.at, "unchanged: the stored result");
    std::fs::write(&path, &original_bytes).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified_at).unwrap();
    let repaired = open(&path);
    assert_eq!(repaired.fingerprint().unwrap(), holed.fingerprint().unwrap(), "no sampled byte changed");
    assert_eq!((repaired.len, repaired.modified), (holed.len, holed.modified));
    assert_ne!(repaired.version(), holed.version());
    assert_ne!(probe_again().await.at, first.at, "repaired in place, modification time restored: probed again");
}
