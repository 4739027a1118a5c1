use std::process::Command;

use super::*;
use crate::domain::library::Root;
use crate::engine::source::Roots;

fn film(path: &Path, seconds: u32) {
    let picture = format!("testsrc2=size=320x240:rate=25:duration={seconds}");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", &picture, "-c:v", "mpeg4"])
        .arg(path)
        .status();
    assert!(made.expect("ffmpeg runs").success());
}

fn open(path: &Path) -> SourceFile {
    let roots = Roots::open(vec![Root { id: "r".into(), path: path.parent().unwrap().to_owned() }]).unwrap();
    roots.open_media(path.to_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_disk_that_wakes_after_the_deadline_costs_one_request_and_not_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.avi");
    film(&path, 1);
    let probes = Probes::new(Path::new("ffmpeg"), Duration::from_millis(400));
    probes.warm().await;
    let mut source = open(&path);
    source.read_delay = Duration::from_millis(1500);
    let source = Arc::new(source);
    let refused = probes.probe(&source).await.unwrap_err();
    assert_eq!((refused.code, refused.retry_after), (Code::ProbeTimedOut, Some(RETRY_SECONDS)));
    assert_eq!((refused.code.status(), probes.known().under_way.len()), (503, 1));
    // A request meanwhile waits for the same probe.
    assert_eq!(probes.probe(&source).await.unwrap_err().code, Code::ProbeTimedOut);
    assert_eq!(MOST_UNDER_WAY - probes.under_way.available_permits(), 1);
    let media = async {
        loop {
            match probes.probe(&source).await {
                Err(fault) if fault.code == Code::ProbeTimedOut => {}
                outcome => return outcome.unwrap(),
            }
        }
    };
    let media = tokio::time::timeout(Duration::from_secs(60), media).await.expect("the probe ends");
    assert_eq!(media.streams[0].codec, "mpeg4");
    assert!(probes.known().under_way.is_empty());
}

#[tokio::test]
async fn an_implausible_duration_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mkv");
    film(&path, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    let cues = bytes.windows(4).rposition(|four| four == [0x1c, 0x53, 0xbb, 0x6b]).expect("cues");
    // An element id that does not exist.
    bytes[cues] = 0x1d;
    // A last cluster at 2^50 ms with one block.
    bytes.extend([0x1f, 0x43, 0xb6, 0x75, 0x90, 0xe7, 0x87, 4, 0, 0, 0, 0, 0, 0, 0xa3, 0x85, 0x81, 0, 0, 0x80, 0]);
    std::fs::write(&path, bytes).unwrap();
    let media = Probes::new(Path::new("ffmpeg"), Duration::from_secs(30)).probe(&Arc::new(open(&path))).await.unwrap();
    assert_eq!((media.duration_seconds, media.bitrate_kbps, media.is_seekable), (None, None, false));
    assert!(media.warnings.iter().any(|warning| warning.contains("unknown")), "{:?}", media.warnings);
}

#[tokio::test]
async fn a_stored_result_counts_for_the_version_it_was_found_in() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_waiting(&folder.path().join("state")).unwrap();
    let quarantine = Arc::new(Quarantine::open(folder.path().join("reading")).unwrap());
    let path = folder.path().join("a.avi");
    film(&path, 30);
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 800_000, "the fingerprint samples must leave room for a hole: {}", whole.len());
    // A download with its head, middle and tail, and a hole in between.
    let mut holed = whole.clone();
    holed[whole.len() / 10..whole.len() * 4 / 10].fill(0);
    std::fs::write(&path, &holed).unwrap();
    let at = std::fs::metadata(&path).unwrap().modified().unwrap();
    let fresh =
        || Probes::new(Path::new("ffmpeg"), Duration::from_secs(30)).remembering(store.clone(), quarantine.clone());
    let holed = Arc::new(open(&path));
    let first = fresh().probed(&holed).await.unwrap();
    let again = async || {
        // The record is written in the background.
        for _ in 0..100 {
            let key = format!("{PROBE_VERSION}/{}", holed.fingerprint().unwrap());
            if store.get::<Versioned<Probed>>(Tree::Probes, &key).unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        fresh().probed(&Arc::new(open(&path))).await.unwrap()
    };
    assert_eq!(again().await.at, first.at, "unchanged: the stored result");
    std::fs::write(&path, &whole).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    let repaired = open(&path);
    assert_eq!(repaired.fingerprint().unwrap(), holed.fingerprint().unwrap(), "no sampled byte changed");
    assert_eq!((repaired.len, repaired.modified), (holed.len, holed.modified));
    assert_ne!(repaired.version(), holed.version());
    assert_ne!(again().await.at, first.at, "repaired in place, modification time restored: probed again");
}
