//! System calls that the sandbox refuses during media work: the server runs under strace while both backends probe and play
//! files. A refused call that is not in the list below is a gap in the sandbox, or work that it does not expect.
//!
//! `HEARTHCAST_REFUSED_CALLS=1` runs it, over the corpus if `HEARTHCAST_CORPUS` names one. It needs strace and prints a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::StreamExt;

use crate::corpus;
use crate::kit::file_client::{FileClient, Outcome, deaths};
use crate::kit::small_films;

/// Lines of the trace that are kept: refused calls, the beginnings of calls that end on another line, memory that may be
/// written and executed, new processes and threads, and the programs that they run.
const KEPT_LINES: &str = concat!(
    r" = -1 E(PERM|ACCES|NOSYS) |(open|openat|prctl)\(.*<unfinished|PROT_WRITE\|PROT_EXEC, MAP_PRIVATE\|MAP_ANON|",
    r"(clone|clone3|fork|vfork)( resumed|\()|execve\(|execve resumed"
);

/// Files at once.
const CONCURRENT_FILES: usize = 2;

/// Refused calls that are expected: program (any, if empty), call, error, argument (any, if empty), and the reason.
const EXPECTED: &[(&str, &str, &str, &str, &str)] = &[
    ("", "clone3", "ENOSYS", "", "the C library uses clone, whose flags a filter can test"),
    (
        "",
        "prctl",
        "EPERM",
        "PR_CAPBSET_READ",
        "libcap counts the capabilities of the kernel as it is loaded; a confined process has no use for them",
    ),
    (
        "",
        "openat",
        "EACCES",
        "/proc/self/status",
        "libcap-ng and libnuma, as they are loaded; workers load before the sandbox",
    ),
    ("", "openat", "EACCES", "/proc/filesystems", "libselinux looks for its file system as it is loaded"),
    ("", "openat", "EACCES", "/proc/mounts", "libselinux, the same"),
    (
        "",
        "openat",
        "EACCES",
        "/proc/sys/vm/overcommit_memory",
        "glibc, before it shrinks a heap; it assumes the default",
    ),
    ("ffmpeg", "openat", "EACCES", "/dev", "the trial of a V4L2 encoder; see *Limits* of engine/process"),
    ("ffmpeg", "sched_setscheduler", "EPERM", "", "SVT-AV1 gives its threads real-time priority when root starts it"),
    ("ffmpeg", "sched_setaffinity", "EPERM", "", "SVT-AV1 keeps its threads on the processors of one socket"),
    ("ffmpeg", "openat", "EACCES", "/proc/cpuinfo", "SVT-AV1 reads how many processors are on each socket"),
    ("worker", "openat", "EPERM", "/orcexec.", "ORC puts code into a file, and without one into anonymous memory"),
];

/// A refused call, as a row of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RefusedCall {
    /// `worker`, `ffmpeg` or `ffprobe`.
    program: String,
    call: String,
    error: String,
    /// A path if the call has one, otherwise its first argument.
    argument: String,
}

impl RefusedCall {
    fn reason(&self) -> Option<&'static str> {
        let is_expected = |(program, call, error, argument, _): &&(&str, &str, &str, &str, &str)| {
            (program.is_empty() || self.program == *program)
                && self.call == *call
                && self.error == *error
                && (argument.is_empty() || self.argument == *argument)
        };
        EXPECTED.iter().find(is_expected).map(|(.., reason)| *reason)
    }
}

/// Refused calls of confined processes in a trace, and how often each occurred. Lines begin with the id of the thread.
fn refused_calls(trace: &str) -> BTreeMap<RefusedCall, usize> {
    let mut programs: BTreeMap<&str, String> = BTreeMap::new();
    let (mut unfinished, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for line in trace.lines() {
        let Some((thread, text)) = line.split_once(' ') else { continue };
        let text = text.trim_start();
        let resumed = text.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"));
        let Some((call, rest)) = resumed.or_else(|| text.split_once('(')) else { continue };
        let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
        // The arguments of a call that another thread interrupted are on an earlier line.
        let arguments = match resumed {
            Some(_) => unfinished.remove(&(thread, call)).unwrap_or(arguments),
            None => arguments,
        };
        if rest.ends_with("<unfinished ...>") {
            unfinished.insert((thread, call), arguments);
        }
        if call == "execve" && resumed.is_none() {
            programs.insert(thread, program_name(arguments));
        } else if ["clone", "clone3", "fork", "vfork"].contains(&call) && !result.starts_with('-') {
            // A new process or thread belongs to the program of its parent.
            let parent = programs.get(thread).cloned().unwrap_or_else(|| "server".to_owned());
            // The execve of a child may come before its parent continues.
            programs.entry(result.split_whitespace().next().unwrap_or_default()).or_insert(parent);
        }
        let Some(error) = result.strip_prefix("-1 ").and_then(|rest| rest.split_whitespace().next()) else { continue };
        let program = programs.get(thread).map_or("server", String::as_str);
        if ["worker", "ffmpeg", "ffprobe"].contains(&program) && ["EPERM", "EACCES", "ENOSYS"].contains(&error) {
            let argument = arguments.split('"').nth(1).or_else(|| arguments.split([',', ')']).next());
            let argument = without_random_suffix(argument.unwrap_or_default());
            let (program, call, error) = (program.to_owned(), call.to_owned(), error.to_owned());
            *refused.entry(RefusedCall { program, call, error, argument }).or_default() += 1;
        }
    }
    refused
}

/// A path without the letters that mkstemp(3) made up for a file of ORC.
fn without_random_suffix(argument: &str) -> String {
    const NAME: &str = "/orcexec.";
    argument.find(NAME).map_or(argument, |at| &argument[at..at + NAME.len()]).to_owned()
}

/// The program of an execve: a worker is this program with another argument.
fn program_name(arguments: &str) -> String {
    let path = arguments.split('"').nth(1).unwrap_or_default();
    match arguments.contains("\"worker\"") {
        true => "worker".to_owned(),
        false => path.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn a_trace_is_read_by_program() {
    let trace = r#"
10 execve("/usr/bin/hearthcast", ["hearthcast", "serve"], 0x1 /* 3 vars */) = 0
10 open("/secret", O_RDONLY) = -1 EACCES (Permission denied)
10 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x1}, 88) = 11
11 vfork( <unfinished ...>
12 execve("/proc/self/exe", ["hearthcast", "worker", "--number", "1"], 0x1 /* 3 vars */ <unfinished ...>
11 <... vfork resumed>) = 12
12 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = -1 ENOSYS (Function not implemented)
12 clone(child_stack=0x7, flags=CLONE_VM|CLONE_THREAD) = 13
13 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = -1 EACCES (Permission denied)
13 openat(AT_FDCWD, "/tmp/orcexec.X1y2Z3", O_RDWR <unfinished ...>
12 prctl(PR_SET_SECCOMP, 0x20) = -1 EPERM (Operation not permitted)
13 <... openat resumed>) = -1 EPERM (Operation not permitted)
"#;
    let refused = refused_calls(trace);
    let rows: Vec<_> = refused.keys().map(|row| [&row.program, &row.call, &row.argument].map(String::as_str)).collect();
    let expected = [
        ["worker", "clone3", "{flags=CLONE_VM|CLONE_THREAD}"],
        ["worker", "openat", "/etc/passwd"],
        ["worker", "openat", "/orcexec."],
        ["worker", "prctl", "PR_SET_SECCOMP"],
    ];
    assert_eq!(rows, expected);
    assert_eq!(refused.keys().filter(|row| row.reason().is_none()).count(), 2);
}

/// The files to play.
fn media_files(folder: &Path) -> (PathBuf, Vec<PathBuf>) {
    match corpus::corpus_folder() {
        Some(corpus) => (corpus.clone(), corpus::media_paths(&corpus)),
        None => (folder.to_owned(), small_films::make(folder)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_work_needs_no_refused_system_call() {
    if std::env::var_os("HEARTHCAST_REFUSED_CALLS").is_none() {
        eprintln!("skipped: HEARTHCAST_REFUSED_CALLS is not set; it takes minutes");
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: strace is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, files) = media_files(folder.path());
    let mut refused: BTreeMap<RefusedCall, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for backend in ["gstreamer", "ffmpeg"] {
        let trace = folder.path().join(format!("{backend}.strace"));
        let client = FileClient::start_traced(&root, backend, KEPT_LINES, &trace).await;
        let shared = &client;
        let tried = futures_util::stream::iter(&files).map(|file| async move { (file, shared.try_file(file).await) });
        let outcomes: Vec<_> = tried.buffer_unordered(CONCURRENT_FILES).collect().await;
        let played = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Played).count();
        for (file, outcome) in &outcomes {
            if let Outcome::Fault(text) = outcome {
                faults.push(format!("{}: {text}", file.display()));
            }
        }
        client.wait_until_idle().await;
        println!("{backend}: {played} of {} files played, deaths {:?}", files.len(), deaths(&client.pool().await));
        drop(client);
        // The tracer ends with the last process.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let text = std::fs::read_to_string(&trace).unwrap();
        assert!(text.contains("\"worker\"") && text.contains("clone"), "the trace has the workers: {text:.500}");
        let executable = text.lines().filter(|line| line.contains("PROT_EXEC, MAP_PRIVATE|MAP_ANON")).count();
        println!("{backend}: executable anonymous memory was mapped {executable} times");
        for (call, count) in refused_calls(&text) {
            *refused.entry(call).or_default() += count;
        }
    }
    println!("| program | call | error | argument | count | reason |\n|---|---|---|---|---|---|");
    for (call, count) in &refused {
        let RefusedCall { program, call: name, error, argument } = call;
        println!(
            "| {program} | {name} | {error} | {argument} | {count} | {} |",
            call.reason().unwrap_or("NOT EXPECTED")
        );
    }
    faults.extend(refused.keys().filter(|call| call.reason().is_none()).map(|call| format!("refused: {call:?}")));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
