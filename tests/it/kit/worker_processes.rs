//! The worker processes of one server or pool, found by the cache folder in their environment.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Process ids of all workers with this cache folder.
pub fn worker_processes(cache: &Path) -> Vec<i32> {
    let cache = cache.to_str().expect("plain names").to_owned();
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_worker = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| String::from_utf8_lossy(&environment).contains(&cache))
    };
    processes.filter(is_worker).collect()
}

/// Sends a signal to all workers with this cache folder; one that has just ended is skipped.
pub fn signal_workers(cache: &Path, signal: Signal) {
    for pid in worker_processes(cache) {
        let _ = kill_process(Pid::from_raw(pid).expect("a process id"), signal);
    }
}
