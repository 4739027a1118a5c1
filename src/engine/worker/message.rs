//! The control messages of the protocol `media-worker`, as JSON in frames ([`crate::domain::worker::frame`]).

use serde::{Deserialize, Serialize};

use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::plan::Rendition;
use crate::domain::trace::TraceContext;
use crate::domain::worker::{PROTOCOL, PROTOCOL_VERSION, SandboxReport};

/// Body of `Hello`, both ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    pub protocol: String,
    pub version: String,
    /// Version of the program. A local worker of another build is refused.
    pub build: String,
    /// The worker's sandbox; the server leaves it at its default.
    #[serde(default)]
    pub sandbox: SandboxReport,
}

impl Hello {
    pub fn new(sandbox: SandboxReport) -> Self {
        Self {
            protocol: PROTOCOL.to_owned(),
            version: PROTOCOL_VERSION.to_owned(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            sandbox,
        }
    }

    /// Whether both sides are of the same build.
    pub fn is_same_build(&self) -> bool {
        let own = Self::new(SandboxReport::default());
        (&self.protocol, &self.version, &self.build) == (&own.protocol, &own.version, &own.build)
    }
}

/// Body of `Job`. Its descriptors follow in the order of its fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobMessage {
    /// Address space that the worker may use, bytes; it lowers its own limit before it starts.
    pub memory_bytes: u64,
    pub work: Work,
}

/// The kinds of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Work {
    /// The streams of a file as decoders see them: `Report` with a `Vec<DecoderInfo>`. Descriptor: the file.
    Discover { source: SourceFacts },
    /// The segments of a rendition: `Segment` and `Piece`s for each.
    Run(Box<RunWork>),
    /// The elements of this machine, and a trial of each of these encoders: `Report` with an `EngineReport`.
    Examine { encoders: TrialScope },
    /// A film in memory decoded by an element of hardware and in software: `Report` with the PSNR of each frame, dB. Descriptor: the
    /// film (Matroska).
    CompareDecoder { element: String },
    /// A stream by SRT: `Piece`s until its end.
    Srt(SrtWork),
    /// A whole image decoded, to learn whether it can be shown: `Report` without content. Descriptor: the image.
    Image,
    /// An NFO file parsed: `Report` with a `Vec<Nfo>`. Descriptor: the file.
    Nfo,
    /// The frames of a slate: `Piece`s of one byte stream (ITU-T H.264 annex B), then `Done`.
    Still(StillWork),
}

/// A run. Descriptors: the file; the sidecar, the watermark and the script, if there are any.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunWork {
    pub source: SourceFacts,
    pub media: Media,
    pub rendition: Rendition,
    pub grid: Grid,
    /// The first segment to make.
    pub first: usize,
    /// The last segment it may make until a `Gate` raises the limit.
    pub through: usize,
    /// GStreamer's element that encodes video, proven by a trial; None without encoded video.
    pub encoder: Option<String>,
    /// GStreamer's element of hardware that decodes video, proven by a trial; None for software.
    pub decoder: Option<String>,
    pub sidecar: Option<SourceFacts>,
    pub has_watermark: bool,
    /// Whether the last descriptor is an ASS script to burn in.
    pub has_script: bool,
    /// The span of the run: the worker measures a part of it for each segment.
    #[serde(default)]
    pub trace: Option<TraceContext>,
}

/// An SRT connection to make as a caller.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SrtWork {
    /// The checked socket address.
    pub server: std::net::SocketAddr,
    /// `streamid`, `passphrase`, `latency` and `pbkeylen` of the address.
    pub options: Vec<(String, String)>,
}

/// A slate. Descriptors: the image and the script, if there are any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StillWork {
    pub width: u32,
    pub height: u32,
    /// GStreamer's element that encodes it, proven by a trial.
    pub encoder: String,
    pub has_image: bool,
    /// Whether the last descriptor is an ASS script with a line of text.
    pub has_script: bool,
}

/// The facts about an open file whose descriptor the server passes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceFacts {
    /// The request path, for messages and for the extension of its name. The worker cannot open it.
    pub path: String,
    /// Length when the server opened it, bytes.
    pub len: u64,
    /// Modification time when the server opened it: seconds since 1970, rounded down, and nanoseconds.
    pub modified: (i64, u32),
    /// Last change of content, name or permissions: seconds and nanoseconds.
    pub changed_at: (i64, i64),
    /// Device and inode.
    pub file_id: (u64, u64),
    pub is_local: bool,
    /// The fingerprint, if the server has computed it.
    pub fingerprint: Option<String>,
}

/// Body of `Gate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The last segment that the run may make.
    pub through: usize,
}

/// Body of `Beat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Bytes read, frames decoded and encoded, segments: grows while anything happens.
    pub progress: u64,
    pub stage: BeatStage,
}

/// The activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BeatStage {
    /// No job, or a run that waits for its gate or for the server to read.
    Idle,
    /// A read of the source has not returned.
    Reading,
    Working,
}

/// Body of `Segment`: its bytes follow in `Piece`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHeader {
    pub index: usize,
    pub bytes: usize,
    /// When the worker made it, if the run is traced.
    #[serde(default)]
    pub span: Option<SegmentSpan>,
}

/// The span of a segment in the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentSpan {
    pub span_id: u64,
    /// Nanoseconds since 1970.
    pub started_at: u64,
    pub ended_at: u64,
}

/// Body of `Ask`. Each is answered with one `Answer` of the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "what")]
pub enum Question {
    /// Its pipelines and failed ones: `Answer` with `PipelineLists`.
    Pipelines { question: u32 },
    /// GStreamer's DOT graph of a pipeline: `Answer` with an `Option<String>`.
    Dot { question: u32, pipeline: u64 },
    /// The normalised graph of a pipeline: `Answer` with an `Option<PipelineGraph>`.
    Graph { question: u32, pipeline: u64 },
    /// The bus messages of a pipeline: `Answer` with an `Option<Vec<String>>`.
    Messages { question: u32, pipeline: u64 },
}

impl Question {
    /// The number that its answer repeats.
    pub fn number(&self) -> u32 {
        match self {
            Self::Pipelines { question }
            | Self::Dot { question, .. }
            | Self::Graph { question, .. }
            | Self::Messages { question, .. } => *question,
        }
    }
}

/// Body of `Answer`. Before `Failed`, a run sends one without a question: number 0, with the `PipelineLists` of its failed
/// pipelines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    pub question: u32,
    pub value: serde_json::Value,
}

/// Body of `Log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMessage {
    /// `ERROR` to `TRACE`.
    pub level: String,
    pub target: String,
    pub text: String,
}

/// Encoders to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrialScope {
    All,
    /// After a hardware encoder has ended or stopped the process that tested it.
    Software,
}

/// GStreamer's abilities on this machine, found out by a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineReport {
    /// GStreamer's version, e.g. `1.22.0`.
    pub gstreamer: String,
    /// Required elements that are missing, each with the package that provides it.
    pub missing: Vec<(String, String)>,
    /// Optional elements that exist: `assrender`, `overlaycomposition`, …
    pub optional: Vec<String>,
    /// A trial of each row of the table of video encoders, in its order: None if it works, otherwise why not.
    pub encoder_faults: Vec<Option<String>>,
}

impl EngineReport {
    /// Whether an optional element exists.
    pub fn has(&self, element: &str) -> bool {
        self.optional.iter().any(|name| name == element)
    }
}
