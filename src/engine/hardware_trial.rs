//! The trial of a hardware encoder: it encodes two seconds of each kind of source as a run does, and its output is decoded in
//! software and compared.
//!
//! A driver may be there and yet encode garbage, which one frame of black would not show.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ffmpeg::to_memory_file;
use super::ffmpeg::tone_map::tone_map_filters;
use super::ffmpeg_encoders::{run_ffmpeg, run_ffmpeg_with};
use super::video_encoders::{FfmpegEncoder, VideoEncoder};
use crate::domain::media::Hdr;

/// Generated video with movement, and its frames.
pub(super) const SOURCE: &str = "testsrc2=s=640x360:r=25";
pub(super) const FRAMES: usize = 50;

/// A kind of source: what makes it of the generated video, and the filter of a run that the encoder is after.
#[derive(Debug)]
struct TrialSource {
    /// For people.
    name: &'static str,
    maker: &'static str,
    filter: String,
}

/// HDR reaches an encoder tone-mapped in software.
fn trial_sources() -> [TrialSource; 4] {
    let source = |name, maker, filter: &str| TrialSource { name, maker, filter: filter.to_owned() };
    [
        source("8-bit", "null", "null"),
        source("10-bit", "format=yuv420p10le", "null"),
        source("interlaced", "tinterlace=interleave_top,setfield=tff", "bwdif=mode=send_field:deint=interlaced"),
        source(
            "HDR",
            "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc",
            &tone_map_filters(Hdr::Hdr10, None, None),
        ),
    ]
}

/// How ffmpeg begins its error about a filter that it lacks.
const MISSING_FILTER: &str = "No such filter";

/// Keyframe interval, frames, and the maximum bit rate, kbit/s.
pub(super) const GOP_FRAMES: u32 = 25;
pub(super) const MAX_KBPS: u32 = 4000;

/// Least similarity of a frame to the source (PSNR of all planes). x264 reaches 38 dB at this rate; garbage is below 15.
pub(super) const MIN_PSNR_DB: f64 = 26.0;

/// Frames that an encoder may hold back at the end.
const MAX_MISSING_FRAMES: usize = 4;

/// Encodes and compares, each within `deadline`. HDR is left out where ffmpeg has no filters for it, because such films are not
/// encoded there.
///
/// # Errors
/// Why the encoder cannot be used.
pub(super) async fn compare_output(
    ffmpeg: &Path,
    encoder: &VideoEncoder,
    settings: &FfmpegEncoder,
    deadline: Duration,
) -> Result<(), String> {
    for source in trial_sources() {
        match compare_source(ffmpeg, encoder, settings, &source, deadline).await {
            Err(fault) if source.name == "HDR" && fault.starts_with(MISSING_FILTER) => (),
            Err(fault) if source.name == "8-bit" => return Err(fault),
            Err(fault) => return Err(format!("{fault} ({} video)", source.name)),
            Ok(()) => (),
        }
    }
    Ok(())
}

async fn compare_source(
    ffmpeg: &Path,
    encoder: &VideoEncoder,
    settings: &FfmpegEncoder,
    source: &TrialSource,
    deadline: Duration,
) -> Result<(), String> {
    let encoded = run_ffmpeg(ffmpeg, &borrowed(&encode_arguments(encoder, settings, source)), deadline).await?;
    encoder.codec.check_output(&encoded)?;
    let file = to_memory_file("trial", &encoded).map_err(|cause| cause.to_string())?;
    let arguments = compare_arguments(encoder, source, &format!("file:/proc/self/fd/{}", file.as_raw_fd()));
    let statistics = run_ffmpeg_with(ffmpeg, &borrowed(&arguments), vec![Arc::new(file)], deadline).await?;
    judge_frames(&frame_psnrs(&String::from_utf8_lossy(&statistics)), FRAMES, MIN_PSNR_DB)
}

impl TrialSource {
    /// Its filters, each with a comma after it.
    fn chain(&self) -> String {
        [self.maker, &self.filter]
            .into_iter()
            .filter(|filter| *filter != "null")
            .map(|filter| format!("{filter},"))
            .collect()
    }
}

pub(super) fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn encode_arguments(encoder: &VideoEncoder, settings: &FfmpegEncoder, source: &TrialSource) -> Vec<String> {
    let device = encoder.device_args().map_or_else(String::new, |option| option.join(" "));
    let (name, filter, muxer) = (encoder.name, settings.filter, encoder.codec.trial_muxer());
    let (run_args, source) = (settings.run_args(GOP_FRAMES, MAX_KBPS), source.chain());
    let text = format!(
        "{device} -f lavfi -i {SOURCE} -frames:v {FRAMES} -vf {source}{filter} -c:v {name} {run_args} -maxrate {MAX_KBPS}k \
         -bufsize {}k -f {muxer} pipe:1",
        MAX_KBPS * 2
    );
    text.split_whitespace().map(str::to_owned).collect()
}

/// The statistics of each frame go to the standard output.
fn compare_arguments(encoder: &VideoEncoder, source: &TrialSource, file: &str) -> Vec<String> {
    let (muxer, source) = (encoder.codec.trial_muxer(), source.chain());
    let text = format!(
        "-protocol_whitelist file -f {muxer} -i {file} -f lavfi -i {SOURCE} \
         -lavfi [0:v]format=yuv420p,settb=1/25,setpts=N[a];[1:v]{source}format=yuv420p,settb=1/25,setpts=N[b];\
         [a][b]psnr=stats_file=-:shortest=1 -f null -"
    );
    text.split_whitespace().map(str::to_owned).collect()
}

/// The PSNR of each frame, dB, from lines such as `n:1 mse_avg:2.04 … psnr_avg:45.03 …`.
pub(super) fn frame_psnrs(statistics: &str) -> Vec<f64> {
    let of_frame = |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("psnr_avg:")?.parse().ok());
    statistics.lines().filter_map(of_frame).collect()
}

/// Judges the PSNR of each frame, dB: nearly as many as there should be frames, and none of a lower value.
pub(super) fn judge_frames(frames: &[f64], expected: usize, min_psnr_db: f64) -> Result<(), String> {
    if frames.len() + MAX_MISSING_FRAMES < expected {
        return Err(format!("only {} of {expected} encoded frames could be decoded", frames.len()));
    }
    match frames.iter().copied().reduce(f64::min) {
        Some(worst) if worst < min_psnr_db => Err(format!("its video differs from the source (PSNR {worst:.0} dB)")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::hardware_devices::vaapi_device;

    const DEADLINE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn software_encoders_pass_the_trial_of_hardware() {
        let encoder = VideoEncoder::of_name("libx264").unwrap();
        let settings = encoder.ffmpeg.as_ref().unwrap();
        for filter in [settings.filter, "format=nv12"] {
            let settings = FfmpegEncoder { filter, ..*settings };
            assert_eq!(compare_output(Path::new("ffmpeg"), encoder, &settings, DEADLINE).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn another_video_or_a_part_of_it_is_rejected() {
        let encoder = VideoEncoder::of_name("libx264").unwrap();
        let settings = encoder.ffmpeg.as_ref().unwrap();
        let negative = FfmpegEncoder { filter: "negate,format=yuv420p", ..*settings };
        let fault = compare_output(Path::new("ffmpeg"), encoder, &negative, DEADLINE).await.unwrap_err();
        assert!(fault.starts_with("its video differs from the source"), "{fault}");
        let short = FfmpegEncoder { filter: "trim=end_frame=20,format=yuv420p", ..*settings };
        let fault = compare_output(Path::new("ffmpeg"), encoder, &short, DEADLINE).await.unwrap_err();
        assert_eq!(fault, "only 20 of 50 encoded frames could be decoded");
    }

    #[tokio::test]
    async fn hdr_is_left_out_where_ffmpeg_cannot_map_its_tones() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let ffmpeg = folder.path().join("ffmpeg");
        let encoder = VideoEncoder::of_name("libx264").unwrap();
        let settings = encoder.ffmpeg.as_ref().unwrap();
        for (fault, expected) in [
            ("[AVFilterGraph @ 0x1] No such filter: 'zscale'", Ok(())),
            ("the driver failed", Err("the driver failed (HDR video)".to_owned())),
        ] {
            let refusal = format!("case \"$*\" in *zscale*) echo \"{fault}\" >&2; exit 1;; esac");
            std::fs::write(&ffmpeg, format!("#!/bin/sh\n{refusal}\nexec ffmpeg \"$@\"\n")).unwrap();
            std::fs::set_permissions(&ffmpeg, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(compare_output(&ffmpeg, encoder, settings, DEADLINE).await, expected);
        }
    }

    #[test]
    fn a_device_comes_before_the_inputs_and_its_upload_before_the_encoder() {
        let encoder = VideoEncoder::of_name("h264_vaapi").unwrap();
        let arguments = encode_arguments(encoder, encoder.ffmpeg.as_ref().unwrap(), &trial_sources()[0]).join(" ");
        assert_eq!(
            arguments,
            format!("-vaapi_device {} ", vaapi_device())
                + "-f lavfi -i testsrc2=s=640x360:r=25 -frames:v 50 -vf format=nv12,hwupload \
             -c:v h264_vaapi -rc_mode VBR -bf 0 -g 25 -keyint_min 25 -b:v 4000k -maxrate 4000k -bufsize 8000k -f h264 pipe:1"
        );
    }
}
