//! The end of a worker: the evidence, who is to blame, and a text for people.

use super::statistics::EndCause;
use crate::domain::worker::blame::{Blame, Evidence, Silence, judge};

/// Names of signals that end workers.
const SIGNAL_NAMES: [(i32, &str); 12] = [
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    pub evidence: Evidence,
    pub blame: Blame,
    pub cause: EndCause,
    /// For people, e.g. `SIGSEGV in thread queue0:src`.
    pub text: String,
}

impl Death {
    /// Judges the evidence. `protocol_fault`: which rule of the protocol it broke; only a job whose file took over the
    /// worker makes it do that. `last_error`: the last line of its error output.
    pub fn new(evidence: Evidence, protocol_fault: Option<&str>, last_error: Option<&str>) -> Self {
        if let Some(fault) = protocol_fault {
            let text = format!("it broke the protocol: {fault}");
            return Self { evidence, blame: Blame::Job, cause: EndCause::Stuck, text };
        }
        let mut text = describe(&evidence);
        let is_explained = evidence.silence.is_some() || evidence.exit_signal == Some(9);
        if let (Some(line), false) = (last_error, is_explained) {
            text = format!("{text}: {line}");
        }
        Self { blame: judge(&evidence), cause: EndCause::of_death(&evidence), evidence, text }
    }
}

fn signal_name(signal: i32) -> String {
    let name = SIGNAL_NAMES.iter().find(|(number, _)| *number == signal);
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

fn describe(evidence: &Evidence) -> String {
    match evidence.silence {
        Some(Silence::NoBeat { state: 'T' | 't' }) => return "it was stopped by a signal".to_owned(),
        Some(Silence::NoBeat { state }) => return format!("no heartbeat (process state {state})"),
        Some(Silence::NoProgress { is_reading: true }) => return "a read of the file does not return".to_owned(),
        Some(Silence::NoProgress { is_reading: false }) => return "no progress".to_owned(),
        Some(Silence::Deadline) => return "no progress at the deadline".to_owned(),
        None => {}
    }
    if let Some(record) = &evidence.record {
        let sent_by = match record.sender {
            sender if record.code > 0 || sender == evidence.pid => String::new(),
            0 => ", sent from outside".to_owned(),
            sender => format!(", sent by process {sender}"),
        };
        return format!("{} in thread {}{sent_by}", signal_name(record.signal), record.thread);
    }
    match (evidence.exit_signal, evidence.exit_code) {
        (Some(signal), _) => signal_name(signal),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "it ended without a status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::worker::blame::SignalRecord;

    #[test]
    fn texts_name_signal_thread_and_sender() {
        let crash = |signal, code, sender| Evidence {
            pid: 70,
            exit_signal: Some(signal),
            record: Some(SignalRecord { signal, code, sender, thread: "queue0:src".into() }),
            ..Evidence::default()
        };
        let text = |evidence: Evidence, last_error| Death::new(evidence, None, last_error).text;
        assert_eq!(text(crash(11, 1, 0), None), "SIGSEGV in thread queue0:src");
        assert_eq!(text(crash(6, -6, 70), Some("out of memory")), "SIGABRT in thread queue0:src: out of memory");
        assert_eq!(text(crash(11, 0, 12), None), "SIGSEGV in thread queue0:src, sent by process 12");
        let killed = Evidence { exit_signal: Some(9), ..Evidence::default() };
        assert_eq!(text(killed, Some("an old warning")), "SIGKILL");
    }

    #[test]
    fn a_worker_that_breaks_the_protocol_was_taken_over_by_its_job() {
        let killed = Evidence { exit_signal: Some(9), ..Evidence::default() };
        assert_eq!(Death::new(killed.clone(), None, None).blame, Blame::Outside);
        let death = Death::new(killed, Some("frames of kind 9 are unknown"), None);
        assert_eq!((death.blame, death.cause), (Blame::Job, EndCause::Stuck));
        assert!(death.text.contains("kind 9"), "{}", death.text);
    }
}
