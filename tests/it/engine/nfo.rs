//! NFO files parsed by a worker and in this process: the same records, the same refusals, and no fault by a stopped worker.

use hearthcast::engine::nfo_file::NfoFile;
use hearthcast::engine::worker::{FaultRecorder, FileFault, Isolation};
use rustix::process::Signal;

use super::workers::Workers;
use crate::kit::worker_processes::signal_workers;

fn nfo(bytes: impl AsRef<[u8]>) -> NfoFile {
    NfoFile::from_bytes(bytes.as_ref()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_parses_as_this_process_does() {
    let workers = Workers::start().await;
    let episode = |number: u32, text: &str| {
        let actor = format!("<actor><name>{text}</name><role>{text}</role></actor>");
        format!("<episodedetails><title>{text}</title><episode>{number}</episode>{actor}</episodedetails>")
    };
    let many_episodes: String = (1..20).map(|number| episode(number, &"ü\"\\".repeat(2000))).collect();
    for bytes in ["<movie/>".to_owned(), episode(1, "A &amp; B"), many_episodes] {
        let by_worker = workers.isolation().parse_nfo(&nfo(&bytes), "a.nfo").await.unwrap();
        assert!(!by_worker.is_empty());
        assert_eq!(Isolation::None.parse_nfo(&nfo(&bytes), "a.nfo").await.unwrap(), by_worker);
    }
    for bytes in [&b""[..], b"<movie>", &vec![0_u8; 1 << 20], &vec![b'<'; 2 << 20]] {
        let by_worker = workers.isolation().parse_nfo(&nfo(bytes), "a.nfo").await.unwrap_err();
        assert!(matches!(by_worker, FileFault::Broken(_)), "{by_worker:?}");
        assert_eq!(Isolation::None.parse_nfo(&nfo(bytes), "a.nfo").await.unwrap_err(), by_worker);
    }
    let status = workers.isolation().status();
    assert_eq!((status.busy, status.restarted), (0, 0), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_worker_is_no_fault_of_its_file() {
    let workers = Workers::start().await;
    workers.wait_until_ready().await;
    // It is noticed after a second, so the job gets this worker.
    signal_workers(workers.cache(), Signal::STOP);
    let fault = workers.isolation().parse_nfo(&nfo("<movie/>"), "a.nfo").await.unwrap_err();
    assert!(matches!(fault, FileFault::Unchecked(_)), "{fault:?}");
    assert_eq!(workers.recorder.count(), 0);
}
