//! Worker processes: the frames of their protocol, and who is to blame when one dies. Workers on other machines: how they are
//! enrolled, and when a run is given to one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub mod blame;
pub mod enrolment;
pub mod frame;
pub mod remote;

/// Name and version of the protocol between the server and its workers.
pub const PROTOCOL: &str = "media-worker";
pub const PROTOCOL_VERSION: &str = "0.1-draft";

named_values! {
    /// The work a worker did with a file when it failed.
    pub enum Stage {
        Probe = "probe",
        Run = "run",
        Image = "image",
        Nfo = "nfo",
    }
}

/// The scope of a quarantine. Another version of the program or of GStreamer tries the file again, and ffmpeg may always
/// read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuarantineKey {
    /// Content identity of the file.
    pub fingerprint: String,
    pub stage: Stage,
    /// Name of the work, e.g. `segment-with-text`.
    pub pipeline: String,
    /// This program's version and GStreamer's.
    pub version: String,
}

/// A fault of a file that was proven by a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenFault {
    #[serde(flatten)]
    pub key: QuarantineKey,
    /// The path of the file when it was read.
    pub path: String,
    /// How the worker ended, for people.
    pub cause: String,
    pub at: Timestamp,
}

/// The sandbox of a process, as the process reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxReport {
    /// Version of the kernel's Landlock interface in force; None if the kernel has none.
    pub landlock_abi: Option<u32>,
    /// Whether a seccomp filter is in force.
    pub seccomp: bool,
    /// Protections this kernel lacks, one sentence each.
    pub gaps: Vec<String>,
}
