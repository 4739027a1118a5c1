//! The trial of a hardware decoder: a second of video in a format, encoded in software, are decoded by both and compared.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ffmpeg::to_memory_file;
use super::ffmpeg_encoders::{run_ffmpeg, run_ffmpeg_with};
use super::hardware_trial::{SOURCE, borrowed, frame_psnrs, judge_frames};
use super::video_decoders::{HardwareDecoder, TrialFormat};

/// Frames of a trial; half as many if they are interlaced.
const FRAMES: usize = 24;

/// Least similarity of a frame to that of the software decoder (PSNR). Decoders of newer codecs agree in each bit; those of
/// MPEG-2 may round differently.
const MIN_PSNR_DB: f64 = 40.0;

/// Decodes and compares, each step within `deadline`.
///
/// # Errors
/// Why the hardware is not used for this format.
pub(super) async fn compare_output(
    ffmpeg: &Path,
    decoder: &HardwareDecoder,
    format: &TrialFormat,
    deadline: Duration,
) -> Result<(), String> {
    let file = encode_sample(ffmpeg, format, deadline).await?;
    let arguments = compare_arguments(decoder, format, &format!("file:/proc/self/fd/{}", file.as_raw_fd()));
    let statistics = run_ffmpeg_with(ffmpeg, &borrowed(&arguments), vec![Arc::new(file)], deadline).await?;
    judge_decoded(&frame_psnrs(&String::from_utf8_lossy(&statistics)), format)
}

/// Encodes video of this format in software: a Matroska file in memory.
///
/// # Errors
/// Why this ffmpeg does not.
pub(super) async fn encode_sample(ffmpeg: &Path, format: &TrialFormat, deadline: Duration) -> Result<File, String> {
    let (frames, encode_args) = (format.trial_frames(), format.encode_args);
    let encode = format!("-f lavfi -i {SOURCE} -frames:v {frames} {encode_args} -f matroska pipe:1");
    let encode: Vec<&str> = encode.split_whitespace().collect();
    let encoded =
        run_ffmpeg(ffmpeg, &encode, deadline).await.map_err(|cause| format!("no video to try it with: {cause}"))?;
    to_memory_file("trial", &encoded).map_err(|cause| cause.to_string())
}

/// Judges the frames of such a file by their PSNR to those of the software decoder, dB.
///
/// # Errors
/// Why the hardware is not used for this format.
pub(super) fn judge_decoded(psnrs: &[f64], format: &TrialFormat) -> Result<(), String> {
    judge_frames(psnrs, format.trial_frames(), MIN_PSNR_DB)
}

impl TrialFormat {
    fn trial_frames(&self) -> usize {
        if self.is_interlaced { FRAMES / 2 } else { FRAMES }
    }
}

/// The statistics of each frame go to the standard output.
fn compare_arguments(decoder: &HardwareDecoder, format: &TrialFormat, file: &str) -> Vec<String> {
    let (hardware, more) = (decoder.input_args(format.codec), decoder.trial_args);
    let [fetch, pixels] = match format.bit_depth {
        8 => [decoder.trial_filters[0], "yuv420p"],
        _ => [decoder.trial_filters[1], "yuv420p10le"],
    };
    let input = format!("-protocol_whitelist file -f matroska -i {file}");
    let times = "settb=1/25,setpts=N";
    let text = format!(
        "{hardware} {more} {input} {input} -lavfi [0:v]{fetch},format={pixels},{times}[a];[1:v]format={pixels},{times}[b];\
         [a][b]psnr=stats_file=-:shortest=1 -f null -"
    );
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::hardware_devices::vaapi_device;
    use crate::engine::video_decoders::{HARDWARE_DECODERS, TRIAL_FORMATS};

    const DEADLINE: Duration = Duration::from_secs(60);

    const SOFTWARE: HardwareDecoder = HardwareDecoder::SOFTWARE;

    #[tokio::test]
    async fn software_passes_the_trial_of_hardware_in_each_format() {
        for format in &TRIAL_FORMATS {
            assert_eq!(
                compare_output(Path::new("ffmpeg"), &SOFTWARE, format, DEADLINE).await,
                Ok(()),
                "{}",
                format.name
            );
        }
    }

    #[tokio::test]
    async fn other_video_is_rejected() {
        let garbage = HardwareDecoder { trial_filters: ["negate"; 2], ..SOFTWARE };
        let fault = compare_output(Path::new("ffmpeg"), &garbage, &TRIAL_FORMATS[0], DEADLINE).await.unwrap_err();
        assert!(fault.starts_with("its video differs from the source"), "{fault}");
        let software_only = HardwareDecoder { trial_filters: ["hwdownload,format=nv12"; 2], ..SOFTWARE };
        let fault = compare_output(Path::new("ffmpeg"), &software_only, &TRIAL_FORMATS[0], DEADLINE).await;
        assert!(fault.is_err(), "software took over unnoticed");
    }

    #[test]
    fn frames_of_a_trial_come_from_the_hardware() {
        let arguments =
            |format: usize| compare_arguments(&HARDWARE_DECODERS[1], &TRIAL_FORMATS[format], "FILE").join(" ");
        let device = vaapi_device();
        assert_eq!(
            arguments(0),
            format!("-hwaccel vaapi -hwaccel_device {device} -hwaccel_output_format vaapi ")
                + "-protocol_whitelist file -f matroska -i FILE -protocol_whitelist file -f matroska -i FILE \
             -lavfi [0:v]hwdownload,format=nv12,format=yuv420p,settb=1/25,setpts=N[a];\
             [1:v]format=yuv420p,settb=1/25,setpts=N[b];[a][b]psnr=stats_file=-:shortest=1 -f null -"
        );
        assert!(arguments(3).contains("hwdownload,format=p010le,format=yuv420p10le"), "{}", arguments(3));
    }
}
