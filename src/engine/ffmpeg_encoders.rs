//! Finds the encoders of this machine's ffmpeg that really encode.
//!
//! A name in `ffmpeg -encoders` says only that the code was compiled in: on a machine without a graphics card Debian's
//! ffmpeg lists five hardware encoders and none works. So each software encoder of the table encodes one frame, a hardware
//! encoder two seconds that are compared with the source, and the message of a failure is kept as the reason.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::join_all;

use super::ffmpeg::run_to_end;
use super::hardware_devices::list_devices;
use super::hardware_trial;
use super::process::{ChildLimits, InheritedFile};
use super::trial_cache::TrialCache;
use super::versions::parse_ffmpeg_version;
use super::video_encoders::{FfmpegEncoder, VIDEO_ENCODERS, VideoEncoder};
use crate::domain::codec::TargetCodec;

/// Time limit of one trial. Measured: 0.1 s here; a sleeping graphics card may need seconds.
const TRIAL_DEADLINE: Duration = Duration::from_secs(8);
/// Largest output of a trial, bytes.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Encoders of one ffmpeg binary, tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderReport {
    /// First line of `ffmpeg -version`, e.g. `5.1.9-0+deb12u1`; None when there is no such program.
    pub version: Option<String>,
    /// Encoders that passed their trial, best first.
    pub working: Vec<&'static VideoEncoder>,
    /// Encoders that did not, with the reason.
    pub rejected: Vec<RejectedEncoder>,
}

impl EncoderReport {
    /// The best working encoder of this codec.
    pub fn best(&self, codec: TargetCodec) -> Option<&'static VideoEncoder> {
        self.working.iter().copied().find(|encoder| encoder.codec == codec)
    }

    /// The best working software encoder of this codec.
    pub fn best_software(&self, codec: TargetCodec) -> Option<&'static VideoEncoder> {
        self.working.iter().copied().find(|encoder| encoder.codec == codec && !encoder.is_hardware)
    }

    /// Whether video can be encoded for sessions, slates and external channels, all of which are H.264.
    pub fn can_transcode(&self) -> bool {
        self.best_software(TargetCodec::H264).is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedEncoder {
    pub name: &'static str,
    pub reason: String,
}

type Candidate = (&'static VideoEncoder, &'static FfmpegEncoder);

static REPORTS: LazyLock<TrialCache<EncoderReport>> = LazyLock::new(TrialCache::default);

/// Prefix of the reason of a trial that timed out.
pub(super) const TIMEOUT_PREFIX: &str = "no answer within";

/// Tests every encoder of a binary once per process; later calls return the cached report. If no H.264 encoder worked
/// because the machine was too busy, the next call tests again.
pub async fn encoder_report(ffmpeg: &Path) -> Arc<EncoderReport> {
    let trial = async {
        let report = Arc::new(test_encoders(ffmpeg).await);
        if is_final(&report) { Ok(report) } else { Err(report) }
    };
    REPORTS.get(ffmpeg, trial).await
}

/// Tests every encoder again, and replaces the report.
pub async fn retest_encoders(ffmpeg: &Path) {
    let report = Arc::new(test_encoders(ffmpeg).await);
    if is_final(&report) {
        REPORTS.replace(ffmpeg, report);
    }
}

/// Whether an encoder works that runs use. A first request waits for this, so it does not wait for the trials of all others, and only
/// a no is left to [`encoder_report`].
pub async fn can_transcode(ffmpeg: &Path) -> bool {
    find_software_encoder(ffmpeg).await.is_some() || encoder_report(ffmpeg).await.can_transcode()
}

/// The first software encoder of H.264 that works, by its name; found once per process.
async fn find_software_encoder(ffmpeg: &Path) -> Option<&'static str> {
    static FOUND: LazyLock<TrialCache<Option<&'static str>>> = LazyLock::new(TrialCache::default);
    let trial = async {
        let is_used = |(encoder, _): &Candidate| encoder.codec == TargetCodec::H264 && !encoder.is_hardware;
        for (encoder, settings) in candidates().filter(is_used) {
            if run_trial(ffmpeg, (encoder, settings)).await.is_ok() {
                return Ok(Arc::new(Some(encoder.name)));
            }
        }
        Err(Arc::new(None))
    };
    *FOUND.get(ffmpeg, trial).await
}

fn is_final(report: &EncoderReport) -> bool {
    report.can_transcode() || !report.rejected.iter().any(|rejected| rejected.reason.starts_with(TIMEOUT_PREFIX))
}

async fn test_encoders(ffmpeg: &Path) -> EncoderReport {
    let mut report = EncoderReport { version: None, working: Vec::new(), rejected: Vec::new() };
    let listing_bytes = match run_ffmpeg(ffmpeg, &["-encoders"], TRIAL_DEADLINE).await {
        Ok(listed) => listed,
        Err(reason) => {
            report.rejected = candidates()
                .map(|(encoder, _)| RejectedEncoder { name: encoder.name, reason: reason.clone() })
                .collect();
            return report;
        }
    };
    let text = run_ffmpeg(ffmpeg, &["-version"], TRIAL_DEADLINE).await.unwrap_or_default();
    report.version = parse_ffmpeg_version(&String::from_utf8_lossy(&text)).or_else(|| Some("unknown".to_owned()));
    let listing = String::from_utf8_lossy(&listing_bytes);
    let mut outcomes = HashMap::new();
    for is_later in [false, true] {
        let tested: Vec<Candidate> = candidates().filter(|(encoder, _)| is_tested_later(encoder) == is_later).collect();
        let results = join_all(tested.iter().map(|one| test_encoder(ffmpeg, *one, &listing, &outcomes))).await;
        outcomes.extend(tested.iter().map(|(encoder, _)| encoder.name).zip(results));
    }
    for (encoder, _) in candidates() {
        match outcomes.remove(encoder.name) {
            Some(Err(reason)) => report.rejected.push(RejectedEncoder { name: encoder.name, reason }),
            _ => report.working.push(encoder),
        }
    }
    report
}

/// Hardware is tested with H.264 first.
fn is_tested_later(encoder: &VideoEncoder) -> bool {
    encoder.is_hardware && encoder.codec != TargetCodec::H264
}

/// The encoders to test, best first.
fn candidates() -> impl Iterator<Item = Candidate> {
    VIDEO_ENCODERS.iter().filter_map(|encoder| Some((encoder, encoder.ffmpeg.as_ref()?)))
}

/// Tests an encoder, unless the tests before it answer for it.
async fn test_encoder(
    ffmpeg: &Path,
    (encoder, settings): Candidate,
    listing: &str,
    tested: &HashMap<&str, Result<(), String>>,
) -> Result<(), String> {
    if !is_listed(listing, encoder.name) {
        return Err("not compiled into this ffmpeg".to_owned());
    }
    if find_software_encoder(ffmpeg).await == Some(encoder.name) {
        return Ok(());
    }
    let devices = list_devices(Path::new("/dev"));
    if let Some(prefix) = encoder.device_prefix()
        && !devices.iter().any(|name| name.starts_with(prefix))
    {
        return Err(format!("there is no {prefix} device below /dev"));
    }
    // On a machine without any device, one trial of each interface is enough.
    match encoder.h264_encoder().and_then(|of_h264| tested.get(of_h264.name)) {
        Some(Err(reason)) if devices.is_empty() => Err(reason.clone()),
        _ => run_trial(ffmpeg, (encoder, settings)).await,
    }
}

/// Encodes one frame and looks for its codec in the output; with hardware two seconds, and compares them.
async fn run_trial(ffmpeg: &Path, (encoder, settings): Candidate) -> Result<(), String> {
    if encoder.is_hardware {
        return hardware_trial::compare_output(ffmpeg, encoder, settings, TRIAL_DEADLINE).await;
    }
    let mut args =
        Vec::from(["-f", "lavfi", "-i", "color=black:s=320x240:r=25", "-frames:v", "1", "-vf", settings.filter]);
    args.extend(["-c:v", encoder.name, "-f", encoder.codec.trial_muxer(), "pipe:1"]);
    let output = run_ffmpeg(ffmpeg, &args, TRIAL_DEADLINE).await?;
    encoder.codec.check_output(&output).map_err(str::to_owned)
}

/// Whether `ffmpeg -encoders` lists the encoder, in lines like ` V....D libx264   description`.
fn is_listed(listing: &str, name: &str) -> bool {
    listing.lines().any(|line| line.split_whitespace().nth(1) == Some(name))
}

/// Standard output of one short ffmpeg call, or a short reason why it failed.
pub(super) async fn run_ffmpeg(ffmpeg: &Path, args: &[&str], deadline: Duration) -> Result<Vec<u8>, String> {
    run_ffmpeg_with(ffmpeg, args, Vec::new(), deadline).await
}

/// Like [`run_ffmpeg`], with open files that it inherits.
pub(super) async fn run_ffmpeg_with(
    ffmpeg: &Path,
    args: &[&str],
    files: Vec<InheritedFile>,
    deadline: Duration,
) -> Result<Vec<u8>, String> {
    let args = ["-nostdin", "-hide_banner", "-loglevel", "error"].iter().chain(args).map(|word| (*word).to_owned());
    let work = run_to_end(ffmpeg, args.collect(), files, ChildLimits::TRANSCODE, MAX_OUTPUT_BYTES);
    let ended = tokio::time::timeout(deadline, work).await;
    let ended = ended.map_err(|_| format!("{TIMEOUT_PREFIX} {} s", deadline.as_secs()))?;
    let (output, exit) = ended.map_err(|error| format!("{}: {error}", ffmpeg.display()))?;
    if exit.is_success() { Ok(output) } else { Err(first_error_line(&exit.error_lines.join("\n"))) }
}

/// The first line of ffmpeg's error output, without the bracketed prefix, at most 200 characters. The banner that SVT-AV1
/// writes there at every start is skipped.
fn first_error_line(error_output: &str) -> String {
    let mut lines = error_output.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with("Svt[info]"));
    let line = line.unwrap_or("failed without a message");
    let line = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, message)| message);
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_encodes_in_software_and_every_candidate_is_accounted_for() {
        let report = encoder_report(Path::new("ffmpeg")).await;
        assert!(report.version.is_some() && report.can_transcode());
        for name in ["libx264", "libx265", "libsvtav1"] {
            assert!(report.working.iter().any(|encoder| encoder.name == name && !encoder.is_hardware), "{report:?}");
        }
        assert_eq!(report.working.len() + report.rejected.len(), candidates().count());
        assert!(report.rejected.iter().all(|rejected| !rejected.reason.is_empty()));
    }

    #[tokio::test]
    async fn a_missing_program_proves_nothing() {
        let report = encoder_report(Path::new("/nonexistent/ffmpeg")).await;
        assert_eq!((report.version.as_deref(), report.working.len()), (None, 0));
        assert!(!report.can_transcode());
        assert!(report.rejected[0].reason.contains("does not start"), "{report:?}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_ffmpeg_proves_nothing() {
        let report = encoder_report(Path::new("/bin/true")).await;
        assert!(report.working.is_empty(), "{report:?}");
        assert!(report.rejected.iter().all(|rejected| rejected.reason == "not compiled into this ffmpeg"));
    }

    #[test]
    fn complaints_are_short_and_free_of_addresses() {
        let line = first_error_line("\n[h264_nvenc @ 0x56] Cannot load libcuda.so.1\nmore");
        assert_eq!(line, "Cannot load libcuda.so.1");
        let after_banner =
            "Svt[info]: ------\nSvt[info]: SVT [version]: 1.4.1\n[libsvtav1 @ 0x56] Error setting parameters";
        assert_eq!(first_error_line(after_banner), "Error setting parameters");
        assert_eq!(first_error_line(""), "failed without a message");
        assert_eq!(first_error_line(&"é".repeat(500)).chars().count(), 200);
    }

    #[test]
    fn an_encoder_is_listed_by_its_whole_name() {
        let listing = " V....D libx264rgb  RGB\n V....D h264_vaapi  libx264";
        assert!(!is_listed(listing, "libx264"));
        assert!(is_listed(listing, "h264_vaapi"));
    }

    #[test]
    fn a_report_is_cached_unless_all_trials_timed_out() {
        let report = |proven: &[&'static str], reason: &str| EncoderReport {
            version: Some("5.1".into()),
            working: VIDEO_ENCODERS.iter().filter(|encoder| proven.contains(&encoder.name)).collect(),
            rejected: vec![RejectedEncoder { name: "h264_vaapi", reason: reason.into() }],
        };
        assert!(is_final(&report(&["libx264"], "no answer within 8 s")));
        assert!(is_final(&report(&[], "not compiled into this ffmpeg")));
        assert!(!is_final(&report(&[], "no answer within 8 s")));
    }
}
