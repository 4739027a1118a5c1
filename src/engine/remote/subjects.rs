//! The subjects of the queue, and which of them a worker may use.
//!
//! | subject | from | content |
//! | --- | --- | --- |
//! | `hc.offer.h264.1` | server | a [`RunOffer`](super::message::RunOffer), in the work queue `HC_OFFERS`; 1 is the priority of a waiting viewer |
//! | `hc.worker.<worker>.run.<run>.control` | server | a [`RunControl`](super::message::RunControl) |
//! | `hc.worker.<worker>.run.<run>.beat` | worker | nothing, every 300 ms |
//! | `$KV.hc_workers.<worker>` | worker | a [`WorkerReport`](crate::domain::worker::remote::WorkerReport), every second, kept for 3 s in the bucket `hc_workers` |

pub const OFFERS_STREAM: &str = "HC_OFFERS";
pub const OFFER_SUBJECTS: &str = "hc.offer.>";
pub const OFFER_SUBJECT: &str = "hc.offer.h264.1";
pub const OFFER_FILTER: &str = "hc.offer.h264.*";
pub const CONSUMER: &str = "h264";
pub const WORKERS_STREAM: &str = "KV_hc_workers";
pub const WORKERS_PREFIX: &str = "$KV.hc_workers.";

/// The heartbeats of all runs.
pub const BEATS: &str = "hc.worker.*.run.*.beat";

pub fn control(worker: &str, run: &str) -> String {
    format!("hc.worker.{worker}.run.{run}.control")
}

pub fn beat(worker: &str, run: &str) -> String {
    format!("hc.worker.{worker}.run.{run}.beat")
}

/// Worker and run of the subject of a heartbeat.
pub fn parse_beat(subject: &str) -> Option<(&str, &str)> {
    let mut parts = subject.strip_prefix("hc.worker.")?.strip_suffix(".beat")?.split('.');
    let (worker, run) = (parts.next()?, parts.nth(1)?);
    parts.next().is_none().then_some((worker, run))
}

pub fn report(worker: &str) -> String {
    format!("{WORKERS_PREFIX}{worker}")
}

/// Prefix of the subjects on which a worker gets replies.
pub fn inbox(worker: &str) -> String {
    format!("_INBOX_{worker}")
}

/// Subjects that a worker may publish to, and subscribe to. It takes offers of the one consumer, so it can take and acknowledge those that
/// another worker would take; the server then makes the run without them.
pub fn of_worker(worker: &str) -> (Vec<String>, Vec<String>) {
    let publish = vec![
        format!("$JS.API.CONSUMER.INFO.{OFFERS_STREAM}.{CONSUMER}"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{OFFERS_STREAM}.{CONSUMER}"),
        format!("$JS.ACK.{OFFERS_STREAM}.{CONSUMER}.>"),
        beat(worker, "*"),
        report(worker),
    ];
    (publish, vec![format!("{}.>", inbox(worker)), control(worker, "*")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_names_worker_and_run() {
        assert_eq!(parse_beat(&beat("w_1", "a")), Some(("w_1", "a")));
        for other in [control("w_1", "a"), "hc.worker.w_1.beat".into(), "hc.worker.w_1.run.a.b.beat".into()] {
            assert_eq!(parse_beat(&other), None, "{other}");
        }
    }
}
