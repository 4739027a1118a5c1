//! Finds the H.264 encoders of this machine's ffmpeg that really encode.
//!
//! A name in `ffmpeg -encoders` says only that the code was compiled in: on a machine without a graphics card Debian's
//! ffmpeg lists five hardware encoders and none works. So each candidate encodes one frame, and the message of a failure is
//! kept as the reason.
//!
//! Every encoder here is H.264, and every segment is MPEG-TS. HEVC or AV1 needs a codec in `EncodeVideo` and a CMAF writer
//! first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::ffmpeg::spawn::confined;

/// Time limit of one trial. Measured: 0.1 s here; a sleeping graphics card may need seconds.
const TRIAL_DEADLINE: Duration = Duration::from_secs(8);
/// Largest output of a trial, bytes.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// Reports kept: one per ffmpeg binary this process was configured to use.
const REPORTS: usize = 16;

/// Encoders of one ffmpeg binary, tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// First line of `ffmpeg -version`, e.g. `5.1.9-0+deb12u1`; None when there is no such program.
    pub version: Option<String>,
    /// Encoders that encoded a frame, best first.
    pub proven: Vec<Encoder>,
    /// Encoders that did not, with the reason.
    pub rejected: Vec<Rejected>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// The name that ffmpeg and the rendition use, e.g. `libx264`.
    pub name: &'static str,
    pub hardware: bool,
    /// The device file it needs, if any.
    pub device: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub name: &'static str,
    pub reason: String,
}

struct Candidate {
    encoder: Encoder,
    /// Global arguments before the input.
    before: &'static [&'static str],
    filter: &'static str,
    /// Whether runs can use it; others are tested for diagnostics only.
    driven: bool,
}

const fn candidate(name: &'static str, hardware: bool) -> Candidate {
    let encoder = Encoder { name, hardware, device: None };
    Candidate { encoder, before: &[], filter: "format=yuv420p", driven: !hardware }
}

/// Best first: hardware before software, because it leaves the processor to other viewers.
const CANDIDATES: [Candidate; 5] = [
    candidate("h264_nvenc", true),
    candidate("h264_qsv", true),
    Candidate {
        encoder: Encoder { name: "h264_vaapi", hardware: true, device: Some("/dev/dri/renderD128") },
        before: &["-vaapi_device", "/dev/dri/renderD128"],
        filter: "format=nv12,hwupload",
        driven: false,
    },
    candidate("h264_v4l2m2m", true),
    candidate("libx264", false),
];

type Reports = Mutex<HashMap<PathBuf, Arc<OnceCell<Arc<Report>>>>>;

/// Prefix of the reason of a trial that timed out.
const LATE: &str = "no answer within";

/// Tests every encoder of a binary once per process; later calls return the cached report. If no encoder worked because the
/// machine was too busy, the next call tests again.
pub async fn report(ffmpeg: &Path) -> Arc<Report> {
    static REPORTS_KEPT: LazyLock<Reports> = LazyLock::new(Reports::default);
    let cell = {
        let mut kept = REPORTS_KEPT.lock().expect("no panic while held");
        if kept.len() >= REPORTS && !kept.contains_key(ffmpeg) {
            kept.clear();
        }
        kept.entry(ffmpeg.to_owned()).or_default().clone()
    };
    let examined = cell.get_or_try_init(|| async {
        let report = Arc::new(examine(ffmpeg).await);
        if is_final(&report) { Ok(report) } else { Err(report) }
    });
    examined.await.cloned().unwrap_or_else(|report| report)
}

fn is_final(report: &Report) -> bool {
    !report.proven.is_empty() || !report.rejected.iter().any(|rejected| rejected.reason.starts_with(LATE))
}

/// The version of the GStreamer library this process uses, e.g. `1.22.0`.
pub fn gstreamer_version() -> String {
    let (major, minor, micro, _) = gstreamer::version();
    format!("{major}.{minor}.{micro}")
}

async fn examine(ffmpeg: &Path) -> Report {
    let mut report = Report { version: None, proven: Vec::new(), rejected: Vec::new() };
    let listed = match output(ffmpeg, &["-encoders"]).await {
        Ok(listed) => listed,
        Err(reason) => {
            report.rejected = CANDIDATES.map(|c| Rejected { name: c.encoder.name, reason: reason.clone() }).into();
            return report;
        }
    };
    report.version = match output(ffmpeg, &["-version"]).await {
        Ok(text) => version(&String::from_utf8_lossy(&text)),
        Err(_) => None,
    }
    .or_else(|| Some("unknown".to_owned()));
    let listed = String::from_utf8_lossy(&listed);
    let outcomes = join_all(CANDIDATES.iter().map(|candidate| examine_one(ffmpeg, candidate, &listed))).await;
    for (candidate, outcome) in CANDIDATES.iter().zip(outcomes) {
        match outcome {
            Ok(()) => report.proven.push(candidate.encoder.clone()),
            Err(reason) => report.rejected.push(Rejected { name: candidate.encoder.name, reason }),
        }
    }
    report
}

async fn examine_one(ffmpeg: &Path, candidate: &Candidate, listed: &str) -> Result<(), String> {
    let name = candidate.encoder.name;
    if !lists(listed, name) {
        return Err("not compiled into this ffmpeg".to_owned());
    }
    trial(ffmpeg, candidate).await?;
    if !candidate.driven {
        return Err("works, but this version of hearthcast does not use it yet".to_owned());
    }
    Ok(())
}

/// Encodes one frame and looks for an H.264 start code in the output.
async fn trial(ffmpeg: &Path, candidate: &Candidate) -> Result<(), String> {
    let mut args = candidate.before.to_vec();
    args.extend(["-f", "lavfi", "-i", "color=black:s=320x240:r=25", "-frames:v", "1", "-vf", candidate.filter]);
    args.extend(["-c:v", candidate.encoder.name, "-f", "h264", "pipe:1"]);
    let stream = output(ffmpeg, &args).await?;
    match stream.windows(3).any(|bytes| bytes == [0, 0, 1]) {
        true => Ok(()),
        false => Err("encoding a frame gave no H.264 output".to_owned()),
    }
}

/// Whether `ffmpeg -encoders` lists the encoder, in lines like ` V....D libx264   description`.
fn lists(listing: &str, name: &str) -> bool {
    listing.lines().any(|line| line.split_whitespace().nth(1) == Some(name))
}

/// The version in `ffmpeg version 5.1.9-0+deb12u1 Copyright …`.
fn version(text: &str) -> Option<String> {
    text.lines().next()?.strip_prefix("ffmpeg version ")?.split_whitespace().next().map(str::to_owned)
}

/// Standard output of one short ffmpeg call, or a short reason why it failed.
async fn output(ffmpeg: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let mut child = Command::from(confined(ffmpeg))
        .args(["-nostdin", "-hide_banner", "-loglevel", "error"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|cause| format!("{} does not start: {cause}", ffmpeg.display()))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let (mut out, mut said) = (Vec::new(), Vec::new());
    let work = async {
        let (mut stdout, mut stderr) = (stdout.take(OUTPUT_LIMIT), stderr.take(OUTPUT_LIMIT));
        let (read, _) = tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut said));
        read?;
        child.wait().await
    };
    let status = tokio::time::timeout(TRIAL_DEADLINE, work)
        .await
        .map_err(|_| format!("{LATE} {} s", TRIAL_DEADLINE.as_secs()))?
        .map_err(|cause| cause.to_string())?;
    if status.success() { Ok(out) } else { Err(first_complaint(&String::from_utf8_lossy(&said))) }
}

/// The first line of ffmpeg's error output, without the bracketed prefix, at most 200 characters.
fn first_complaint(said: &str) -> String {
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed without a message").trim();
    let line = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, message)) => message,
        None => line,
    };
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_encodes_in_software_and_every_candidate_is_accounted_for() {
        let report = report(Path::new("ffmpeg")).await;
        assert!(report.version.is_some());
        assert!(report.proven.iter().any(|encoder| encoder.name == "libx264" && !encoder.hardware), "{report:?}");
        assert_eq!(report.proven.len() + report.rejected.len(), CANDIDATES.len());
        assert!(report.rejected.iter().all(|rejected| !rejected.reason.is_empty()));
    }

    #[tokio::test]
    async fn a_missing_program_proves_nothing() {
        let report = report(Path::new("/nonexistent/ffmpeg")).await;
        assert_eq!((report.version.as_deref(), report.proven.len()), (None, 0));
        assert!(report.rejected[0].reason.contains("does not start"), "{report:?}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_ffmpeg_proves_nothing() {
        let report = report(Path::new("/bin/true")).await;
        assert_eq!(report.proven, []);
        assert!(report.rejected.iter().all(|rejected| rejected.reason == "not compiled into this ffmpeg"));
    }

    #[test]
    fn complaints_are_short_and_free_of_addresses() {
        assert_eq!(first_complaint("\n[h264_nvenc @ 0x56] Cannot load libcuda.so.1\nmore"), "Cannot load libcuda.so.1");
        assert_eq!(first_complaint(""), "failed without a message");
        assert_eq!(first_complaint(&"é".repeat(500)).chars().count(), 200);
    }

    #[test]
    fn an_encoder_is_listed_by_its_whole_name() {
        let listing = " V....D libx264rgb  RGB\n V....D h264_vaapi  libx264";
        assert!(!lists(listing, "libx264"));
        assert!(lists(listing, "h264_vaapi"));
    }

    #[test]
    fn a_report_is_kept_unless_nothing_worked_for_want_of_time() {
        let report = |proven: &[&'static str], reason: &str| Report {
            version: Some("5.1".into()),
            proven: proven.iter().map(|name| Encoder { name, hardware: false, device: None }).collect(),
            rejected: vec![Rejected { name: "h264_vaapi", reason: reason.into() }],
        };
        assert!(is_final(&report(&["libx264"], "no answer within 8 s")));
        assert!(is_final(&report(&[], "not compiled into this ffmpeg")));
        assert!(!is_final(&report(&[], "no answer within 8 s")));
    }
}
