//! Memory, processes and descriptors of the server over time, as a table.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::player_buffer::Totals;
use crate::peer::anonymous_kib;
use crate::program::ServerProcess;

/// One row.
struct Usage {
    /// Anonymous memory of the server, MiB.
    memory: f64,
    descriptors: f64,
}

pub struct UsageTable {
    started: Instant,
    rows: Vec<Usage>,
    last: (Instant, f64, u64),
}

impl UsageTable {
    /// Prints the head.
    pub fn start(server: &ServerProcess) -> Self {
        println!(
            "| min | server MiB | workers and ffmpeg MiB | processes | descriptors | threads | CPU cores | MB/s | stalls | faults |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
        Self { started: Instant::now(), rows: Vec::new(), last: (Instant::now(), processor_seconds(server), 0) }
    }

    pub fn print_row(&mut self, server: &ServerProcess, totals: &Totals) {
        let children = server.descendants();
        let (memory, descriptors) = (anonymous_kib(server.pid()) / 1024.0, server.open_files());
        let children_memory = children.iter().map(|&pid| anonymous_kib(pid)).sum::<f64>() / 1024.0;
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).map_or(0, Iterator::count);
        let (cpu, bytes) = (processor_seconds(server), totals.bytes.load(Ordering::Relaxed));
        let seconds = self.last.0.elapsed().as_secs_f64();
        println!(
            "| {:.1} | {memory:.1} | {children_memory:.0} | {} | {descriptors} | {threads} | {:.2} | {:.0} | {} | {} |",
            self.started.elapsed().as_secs_f64() / 60.0,
            children.len(),
            (cpu - self.last.1).max(0.0) / seconds,
            (bytes - self.last.2) as f64 / seconds / 1e6,
            totals.stalls.load(Ordering::Relaxed),
            totals.fault_count()
        );
        self.last = (Instant::now(), cpu, bytes);
        self.rows.push(Usage { memory, descriptors: descriptors as f64 });
    }

    /// Prints how much the last third lies above the middle third.
    pub fn print_growth(&self) {
        let third = self.rows.len() / 3;
        let mean = |rows: &[Usage], of: fn(&Usage) -> f64| rows.iter().map(of).sum::<f64>() / rows.len().max(1) as f64;
        let growth = |of: fn(&Usage) -> f64| {
            mean(&self.rows[self.rows.len() - third..], of) - mean(&self.rows[third..self.rows.len() - third], of)
        };
        println!(
            "last third over middle third: memory {:+.1} MiB, descriptors {:+.1}",
            growth(|usage| usage.memory),
            growth(|usage| usage.descriptors)
        );
    }
}

/// Processor time of the server, its ended children and its descendants, seconds.
fn processor_seconds(server: &ServerProcess) -> f64 {
    let ticks = |pid: u32, fields: std::ops::Range<usize>| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let fields = after_name.skip(fields.start).take(fields.len());
        fields.filter_map(|text| text.parse::<f64>().ok()).sum::<f64>()
    };
    let running: f64 = server.descendants().into_iter().map(|pid| ticks(pid, 11..13)).sum();
    (ticks(server.pid(), 11..15) + running) / 100.0
}
