//! Faults at real system calls of std, sled and rustix. In a child process, `strace` makes the first call of a kind on a
//! file of the state fail, then the second, and so on until none is left. It takes minutes and needs `strace`, so it runs
//! only on request:
//!
//! `cargo test --lib store::tests::traced -- --ignored --nocapture`
//!
//! `HEARTHCAST_TRACED_CALLS="fsync flock"` selects calls. `close` is not tested: std panics when a folder cannot be closed
//! after reading, an error that Linux file systems do not report.

use std::process::{Command, Stdio};

use super::faults::{ExpectedRecords, OUTCOME_COUNTS, check_records, make_changes, memory_state, sizes};
use super::*;

/// System calls of the store, std and sled on files and folders.
const TRACED_CALLS: &str = "openat read pread64 write pwrite64 fsync fdatasync sync_file_range ftruncate fallocate renameat2 \
    unlinkat linkat mkdirat fchmodat flock statx newfstatat fstat statfs fstatfs getdents64 lseek fcntl mmap";

/// Errors, and the number of successive calls that fail.
const ERRORS: [(&str, usize); 4] = [("EIO", 1), ("EIO", 4), ("ENOSPC", 1), ("EMFILE", 1)];

const TRACED_FILES: [&str; 9] =
    ["", "lock", "journal", "journal.new", "journal.tail", "db", "db/db", "db/conf", "db/snap.0000000000000000"];

/// More calls of one kind than the child makes.
const MAX_CALLS: usize = 500;

const STATE_VARIABLE: &str = "HEARTHCAST_TRACED_STATE";
const RECORDS_VARIABLE: &str = "HEARTHCAST_TRACED_KNOWN";

/// The process that strace runs: start, changes with compactions, export, close, start, changes, `kill -9`.
#[tokio::test]
#[ignore = "the child process of `every_system_call_fails_once`"]
async fn child() {
    let (Ok(dir), Ok(records_json)) = (std::env::var(STATE_VARIABLE), std::env::var(RECORDS_VARIABLE)) else { return };
    let (dir, mut expected) = (Path::new(&dir), serde_json::from_str::<ExpectedRecords>(&records_json).unwrap());
    for start in 0..2_u64 {
        let store = match Store::open_with_sizes(dir, sizes(1)) {
            Ok(store) => store,
            Err(error) => return println!("\nSTART {error}"),
        };
        for round in 0..3 {
            make_changes(&store, &mut expected, 100 + 10 * start + round).await;
            println!("\nKNOWN {}", serde_json::to_string(&(&expected, OUTCOME_COUNTS.each_ref())).unwrap());
        }
        let mut exported = Vec::new();
        if export(dir, &mut exported).is_ok() {
            let lines = exported.split(|byte| *byte == b'\n').map(serde_json::from_slice::<serde_json::Value>);
            let records = lines.filter_map(|line| {
                let line = line.ok()?;
                Some((line["key"].as_str()?.to_owned(), line["value"].as_u64()?))
            });
            check_records(&expected, &records.collect::<Vec<_>>()).unwrap_or_else(|fault| panic!("exported: {fault}"));
        }
        if start == 1 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "takes minutes and needs strace"]
async fn every_system_call_fails_once() {
    let (live, killed) = (memory_state(), memory_state());
    let store = Store::open_with_sizes(live.path(), sizes(u64::MAX)).unwrap();
    let mut expected = ExpectedRecords::new();
    for round in 1..6 {
        make_changes(&store, &mut expected, round).await;
    }
    copy_folder(live.path(), killed.path());
    let records_json = serde_json::to_string(&expected).unwrap();
    let mut all = [0; 3];
    println!("\n| call | cases | failed starts | acknowledged | refused | unknown |\n|---|---|---|---|---|---|");
    let chosen = std::env::var("HEARTHCAST_TRACED_CALLS").unwrap_or_else(|_| TRACED_CALLS.to_owned());
    for call in chosen.split_whitespace() {
        let (mut cases, mut failed_starts, mut sums) = (0, 0, [0; 3]);
        for (error, burst) in ERRORS {
            for at in 1..MAX_CALLS {
                let case = memory_state();
                copy_folder(killed.path(), case.path());
                let log = case.path().with_extension("strace");
                let mut strace = Command::new("strace");
                strace.args(["-f", "-qq", "--seccomp-bpf", "-e", &format!("trace={call}"), "-o"]).arg(&log);
                strace.args(["-e", &format!("inject={call}:error={error}:when={at}..{}", at + burst - 1)]);
                for file in TRACED_FILES {
                    strace.arg("-P").arg(case.path().join(file).components().as_path());
                }
                strace
                    .arg(std::env::current_exe().unwrap())
                    .env(STATE_VARIABLE, case.path())
                    .env(RECORDS_VARIABLE, &records_json);
                strace.args(["store::tests::traced::child", "--exact", "--ignored", "--nocapture"]);
                let output = strace.stdin(Stdio::null()).output().expect("strace runs");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let what = format!("{call} {error} at {at}, {burst} in succession");
                let injected = fs::read_to_string(&log).unwrap().matches("(INJECTED)").count();
                fs::remove_file(log).unwrap();
                let failed = text.contains("\nSTART ");
                assert!(failed || !output.status.success(), "{what}: the child must be killed");
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(!text.contains("FAILED"), "{what}: {text} {errors}");
                let last = text.lines().rev().find_map(|line| line.strip_prefix("KNOWN "));
                let (after, counts): (ExpectedRecords, [usize; 3]) = match last {
                    Some(line) => serde_json::from_str(line).unwrap(),
                    None => (serde_json::from_str(&records_json).unwrap(), [0; 3]),
                };
                let found: Vec<(String, u64)> = Store::open_waiting(case.path()).unwrap().scan(Tree::Progress).unwrap();
                check_records(&after, &found).unwrap_or_else(|fault| panic!("{what}: {fault}\n{text}"));
                if injected == 0 {
                    break;
                }
                (cases, failed_starts) = (cases + 1, failed_starts + usize::from(failed));
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        println!("| {call} | {cases} | {failed_starts} | {} | {} | {} |", sums[0], sums[1], sums[2]);
        all.iter_mut().zip(sums).for_each(|(sum, count)| *sum += count);
    }
    println!("\nacknowledged {} (0 missing), refused {} (0 present), unknown {}", all[0], all[1], all[2]);
}
