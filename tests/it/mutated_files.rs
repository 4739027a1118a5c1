//! Mutated media files: probed, and played to the first segment if possible. The server answers each request, lives on and
//! does not grow; what it puts in quarantine really ends workers.
//!
//! `HEARTHCAST_MUTATED_FILES=10000` is the long form, with a table. `HEARTHCAST_MUTATED_FIRST` is the number of its first
//! file, so that a long run can be made in parts. With `HEARTHCAST_CORPUS`, files of the corpus are mutated as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::StreamExt;

use crate::corpus;
use crate::kit::file_client::{FileClient, Outcome, deaths};
use crate::kit::mutation::mutate;
use crate::kit::{media, small_films};

/// Files in the suite.
const FILES: u64 = 12;

/// Files between two checks of memory and quarantine.
const FILES_PER_BATCH: u64 = 30;

/// Files of the corpus beyond this size, bytes, are not mutated.
const MAX_BYTES: u64 = 8 << 20;

/// Requests at once.
const CONCURRENT_FILES: usize = 2;

/// Files until the server's caches should be full: results of probes (2,048), ended sessions (1,024), pages of the store (32 MiB).
const FILES_UNTIL_CACHES_ARE_FULL: u64 = 3000;

/// Memory that they fill until then, KiB: 41 MiB were measured.
const CACHES_KIB: u64 = 44 << 10;

/// Rise of the server's memory after that which is no growth, KiB.
const MAX_RISE_KIB: u64 = 24 << 10;

/// Attempts to end a worker by a file in quarantine. Some crashes need a coincidence of threads.
const PROOFS: usize = 4;

/// Whether a file in quarantine ends a worker of a new server, which reads no other file.
async fn ends_a_worker(path: &Path, stage: &str) -> bool {
    for _ in 0..PROOFS {
        let client = FileClient::start(path.parent().expect("in a folder"), "gstreamer").await;
        let _ = client.probe(path).await;
        if stage == "run" {
            let _ = client.play(path).await;
        }
        let pool = client.pool().await;
        if !deaths(&pool).is_empty() {
            return true;
        }
    }
    false
}

/// The files to mutate: made ones and those of the corpus, in turn.
struct Originals {
    made: Vec<Vec<u8>>,
    corpus: Vec<Vec<u8>>,
    names: (Vec<PathBuf>, Vec<PathBuf>),
}

impl Originals {
    fn collect(folder: &Path) -> Self {
        let made = small_films::make(folder);
        let is_small = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|file| (1..MAX_BYTES).contains(&file.len()));
        let corpus = corpus::corpus_folder().map(|folder| corpus::media_paths(&folder)).unwrap_or_default();
        let corpus: Vec<PathBuf> = corpus.into_iter().filter(is_small).collect();
        let read = |paths: &[PathBuf]| paths.iter().map(|path| std::fs::read(path).expect("readable")).collect();
        Self { made: read(&made), corpus: read(&corpus), names: (made, corpus) }
    }

    /// The mutated file of this number, written to a folder.
    fn write(&self, number: u64, folder: &Path) -> PathBuf {
        let (files, names) = match number.is_multiple_of(2) && !self.corpus.is_empty() {
            true => (&self.corpus, &self.names.1),
            false => (&self.made, &self.names.0),
        };
        // Numbers beyond the number of files take another combination of file and block.
        let at = (number / 2) as usize % files.len();
        let other = &self.made[(number / 3) as usize % self.made.len()];
        let (damage, bytes) = mutate(&files[at], other, number);
        let name = names[at].file_name().and_then(|name| name.to_str()).expect("plain name");
        let path = folder.join(format!("{number:05}-{damage:?}-{name}"));
        std::fs::write(&path, bytes).expect("a folder of our own");
        path
    }
}

/// The results of a run.
#[derive(Default)]
struct Tally {
    files: u64,
    playable: u64,
    errors: BTreeMap<String, u64>,
    /// Files in quarantine: stage, cause and name.
    quarantined: Vec<String>,
    faults: Vec<String>,
}

impl Tally {
    fn add(&mut self, path: &Path, outcome: Outcome) {
        self.files += 1;
        match outcome {
            Outcome::Played => self.playable += 1,
            Outcome::Refused(code) => *self.errors.entry(code).or_default() += 1,
            Outcome::Fault(text) => self.faults.push(format!("{}: {text}", path.display())),
        }
    }
}

/// Lifts each quarantine and proves it again.
async fn prove_quarantines(client: &FileClient, tally: &mut Tally) {
    for entry in client.quarantine().await {
        let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let (path, stage) = (PathBuf::from(field("path")), field("stage"));
        let alone = tempfile::tempdir().expect("a temporary folder");
        let copy = alone.path().join(path.file_name().expect("a name"));
        std::fs::copy(&path, &copy).expect("the file is still there");
        let line = format!("{stage} {}: {}", path.file_name().unwrap_or_default().display(), field("cause"));
        if !ends_a_worker(&copy, &stage).await {
            tally.faults.push(format!("in quarantine without reason: {line}"));
        }
        tally.quarantined.push(line);
        client.lift(&entry).await;
    }
}

fn number_in_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_files_do_no_harm() {
    let long_form = number_in_environment("HEARTHCAST_MUTATED_FILES");
    let first = number_in_environment("HEARTHCAST_MUTATED_FIRST").unwrap_or(0);
    let last = first + long_form.unwrap_or(FILES);
    let (originals_folder, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let originals = Originals::collect(originals_folder.path());
    let mut client = FileClient::start(folder.path(), "gstreamer").await;
    let healthy = folder.path().join("healthy.mkv");
    media::flash_and_beep(&healthy, 1, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a ac3");
    let (pid, started_at) = (client.program.pid(), Instant::now());
    let (mut tally, mut memory_kib) = (Tally::default(), Vec::new());
    for start in (first..last).step_by(FILES_PER_BATCH as usize) {
        let end = last.min(start + FILES_PER_BATCH);
        let paths: Vec<PathBuf> = (start..end).map(|number| originals.write(number, folder.path())).collect();
        let shared = &client;
        let tried = futures_util::stream::iter(&paths).map(|path| async move { (path, shared.try_file(path).await) });
        let outcomes: Vec<_> = tried.buffer_unordered(CONCURRENT_FILES).collect().await;
        outcomes.into_iter().for_each(|(path, outcome)| tally.add(path, outcome));
        assert!(client.program.is_running(), "the server died at files {start} to {end}:\n{}", client.program.log());
        client.wait_until_idle().await;
        prove_quarantines(&client, &mut tally).await;
        memory_kib.push(client.program.memory_kib());
        if long_form.is_some() {
            eprintln!(
                "{end}: {} playable, {} KiB, {:?}",
                tally.playable,
                memory_kib[memory_kib.len() - 1],
                started_at.elapsed()
            );
        }
        paths.iter().for_each(|path| std::fs::remove_file(path).expect("a file of our own"));
    }
    let seconds = started_at.elapsed().as_secs();
    assert_eq!(client.try_file(&healthy).await, Outcome::Played, "a healthy film plays afterwards");
    assert_eq!((client.program.pid(), client.program.is_running()), (pid, true));
    client.wait_until_idle().await;
    let died = deaths(&client.pool().await);
    let full_at = usize::try_from(FILES_UNTIL_CACHES_ARE_FULL / FILES_PER_BATCH).expect("small");
    let (memory_first, max_rise) = match memory_kib.get(full_at) {
        Some(full) => (*full, MAX_RISE_KIB),
        None => (memory_kib[0], CACHES_KIB + MAX_RISE_KIB),
    };
    let memory_last = memory_kib[memory_kib.len() - 1];
    let log = client.program.log();
    if long_form.is_some() {
        println!(
            "| files | playable | errors by code | worker deaths | quarantined | memory first, last, KiB | s |\n\
             |---|---|---|---|---|---|---|\n\
             | {} | {} | {:?} | {died:?} | {} | {memory_first}, {memory_last} | {seconds} |\n{}",
            tally.files,
            tally.playable,
            tally.errors,
            tally.quarantined.len(),
            tally.quarantined.join("\n")
        );
        log.lines().filter(|line| line.contains("a worker died")).for_each(|line| println!("{line}"));
    }
    if log.contains("panicked at") {
        tally.faults.push(format!("a panic: {log}"));
    }
    if memory_last > memory_first + max_rise {
        tally.faults.push(format!("memory rose from {memory_first} to {memory_last} KiB: {memory_kib:?}"));
    }
    client.program.wait_until_childless().await;
    assert!(tally.faults.is_empty(), "{} faults:\n{}", tally.faults.len(), tally.faults.join("\n"));
    assert!(tally.playable * 10 > tally.files, "only {} of {} files play", tally.playable, tally.files);
}
