//! Workers on other machines: what they report, and when a run is given to one.

use serde::{Deserialize, Serialize};

/// The facts a worker reports each second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerReport {
    /// The id of its enrolment.
    pub id: String,
    /// Name of its machine.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// Processors of its machine.
    pub cores: usize,
    /// Runs it makes at once.
    pub slots: usize,
    /// Its H.264 encoders, proven by a trial, best first, by ffmpeg's names.
    pub encoders: Vec<String>,
    /// Whether the first of them is a hardware encoder.
    pub has_hardware: bool,
    /// Runs it makes now.
    pub active: usize,
    /// When its program started, milliseconds since 1970.
    pub started_ms: i64,
}

/// Longest text of a report that is read, bytes.
pub const MAX_REPORT_BYTES: usize = 4096;

impl WorkerReport {
    /// A report from its bytes, with texts and numbers limited; None if it is malformed.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_REPORT_BYTES {
            return None;
        }
        let report: Self = serde_json::from_slice(bytes).ok()?;
        let is_plain = |text: &str| text.len() <= 128 && !text.chars().any(char::is_control);
        let texts = [&report.id, &report.name, &report.version];
        let is_valid = texts.into_iter().chain(&report.encoders).all(|text| is_plain(text))
            && (1..=64).contains(&report.slots)
            && report.encoders.len() <= 16;
        is_valid.then_some(report)
    }
}

/// This server, compared with its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMachine {
    /// Processors.
    pub cores: usize,
    /// Its own encode slots.
    pub slots: usize,
    /// Runs in them, paused ones as well.
    pub runs: usize,
}

/// Whether a run is offered to the workers: one of them has a free slot, and it has a hardware encoder or more processors than
/// this server, or all slots of this server are in use.
pub fn is_offered<'a>(local: LocalMachine, free_workers: impl IntoIterator<Item = &'a WorkerReport>) -> bool {
    let is_full = local.runs >= local.slots;
    free_workers.into_iter().any(|worker| is_full || worker.has_hardware || worker.cores > local.cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(cores: usize, has_hardware: bool) -> WorkerReport {
        WorkerReport {
            id: "w_1".into(),
            name: "desktop".into(),
            version: "1".into(),
            cores,
            slots: 1,
            encoders: vec!["libx264".into()],
            has_hardware,
            active: 0,
            started_ms: 0,
        }
    }

    #[test]
    fn a_run_is_offered_when_a_worker_is_better_or_this_server_is_full() {
        let local = |runs| LocalMachine { cores: 4, slots: 2, runs };
        let offered = |runs, workers: &[WorkerReport]| is_offered(local(runs), workers);
        assert!(!offered(2, &[]), "no worker");
        for (runs, cores, has_hardware, expected) in
            [(0, 4, false, false), (1, 4, false, false), (2, 4, false, true), (0, 2, true, true), (0, 8, false, true)]
        {
            assert_eq!(offered(runs, &[worker(cores, has_hardware)]), expected, "{runs} {cores} {has_hardware}");
        }
    }

    #[test]
    fn a_report_is_limited() {
        let parse = |report: &WorkerReport| WorkerReport::parse(&serde_json::to_vec(report).unwrap());
        assert_eq!(parse(&worker(4, true)), Some(worker(4, true)));
        assert_eq!(parse(&WorkerReport { slots: 65, ..worker(4, true) }), None);
        assert_eq!(parse(&WorkerReport { name: "a\n".into(), ..worker(4, true) }), None);
        assert_eq!(parse(&WorkerReport { id: "x".repeat(129), ..worker(4, true) }), None);
        assert_eq!(WorkerReport::parse(&vec![b' '; MAX_REPORT_BYTES + 1]), None);
    }
}
