//! Finds the hardware that decodes video for this machine's ffmpeg, and the formats in which it really does.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::decoder_trial;
use super::ffmpeg_encoders::encoder_report;
use super::trial_cache::TrialCache;
use super::video_decoders::{HARDWARE_DECODERS, HardwareDecoder, TRIAL_FORMATS, TrialFormat};
use super::video_encoders::VideoEncoder;
use crate::domain::media::Stream;

/// Time limit of one step of a trial; a sleeping graphics card may need seconds.
const TRIAL_DEADLINE: Duration = Duration::from_secs(8);

/// Decoding hardware of one ffmpeg binary, tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecoderReport {
    /// Hardware that passed in one format at least, best first.
    pub working: Vec<WorkingDecoder>,
    /// Hardware that did not, with the reason.
    pub rejected: Vec<RejectedDecoder>,
}

/// Hardware that decodes some formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkingDecoder {
    pub decoder: &'static HardwareDecoder,
    pub formats: Vec<&'static TrialFormat>,
    /// The other formats, with the reason.
    pub rejected_formats: Vec<(&'static TrialFormat, String)>,
}

/// Hardware that decodes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedDecoder {
    pub name: &'static str,
    pub reason: String,
}

impl DecoderReport {
    /// The hardware that decodes a stream beside this encoder.
    pub fn find(&self, encoder: &VideoEncoder, stream: &Stream) -> Option<&'static HardwareDecoder> {
        let is_suitable = |working: &&WorkingDecoder| {
            working.decoder.is_beside(encoder) && working.formats.iter().any(|format| format.is_of(stream))
        };
        self.working.iter().find(is_suitable).map(|working| working.decoder)
    }
}

static REPORTS: LazyLock<TrialCache<DecoderReport>> = LazyLock::new(TrialCache::default);

/// Tests the decoding hardware of a binary once per process; later calls return the cached report.
pub async fn decoder_report(ffmpeg: &Path) -> Arc<DecoderReport> {
    REPORTS.get(ffmpeg, async { Ok(Arc::new(test_decoders(ffmpeg).await)) }).await
}

/// The report, if all hardware was tested: no viewer waits for that.
pub fn find_decoder_report(ffmpeg: &Path) -> Option<Arc<DecoderReport>> {
    REPORTS.find(ffmpeg)
}

/// Tests it again, and replaces the report.
pub async fn retest_decoders(ffmpeg: &Path) {
    REPORTS.replace(ffmpeg, Arc::new(test_decoders(ffmpeg).await));
}

/// One after the other: hardware has few decoders, and viewers may need the processor. A decoder is used beside an encoder of its
/// device only, so one without such an encoder is not tested.
async fn test_decoders(ffmpeg: &Path) -> DecoderReport {
    let mut report = DecoderReport::default();
    let encoders = encoder_report(ffmpeg).await;
    for decoder in &HARDWARE_DECODERS {
        let tested = match encoders.working.iter().any(|encoder| decoder.is_beside(encoder)) {
            true => test_decoder(ffmpeg, decoder).await,
            false => Err("no encoder of its device works".to_owned()),
        };
        match tested {
            Ok(working) => report.working.push(working),
            Err(reason) => report.rejected.push(RejectedDecoder { name: decoder.name, reason }),
        }
    }
    report
}

async fn test_decoder(ffmpeg: &Path, decoder: &'static HardwareDecoder) -> Result<WorkingDecoder, String> {
    let (mut formats, mut rejected_formats) = (Vec::new(), Vec::new());
    for format in &TRIAL_FORMATS {
        match decoder_trial::compare_output(ffmpeg, decoder, format, TRIAL_DEADLINE).await {
            Ok(()) => formats.push(format),
            Err(reason) if formats.is_empty() && decoder.has_h264 => return Err(reason),
            Err(reason) => rejected_formats.push((format, reason)),
        }
    }
    match rejected_formats.first() {
        Some((_, reason)) if formats.is_empty() => Err(reason.clone()),
        _ => Ok(WorkingDecoder { decoder, formats, rejected_formats }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hardware_that_may_lack_h264_is_tried_with_the_other_formats() {
        const HEVC_ONLY: HardwareDecoder = HardwareDecoder { input_args: "-c:v hevc", ..HardwareDecoder::SOFTWARE };
        static WITH_H264: HardwareDecoder = HEVC_ONLY;
        static WITHOUT_H264: HardwareDecoder = HardwareDecoder { has_h264: false, ..HEVC_ONLY };
        let working = test_decoder(Path::new("ffmpeg"), &WITHOUT_H264).await.unwrap();
        let formats: Vec<_> = working.formats.iter().map(|format| format.name).collect();
        assert_eq!(formats, ["HEVC", "10-bit HEVC with HDR"], "{:?}", working.rejected_formats);
        assert_eq!(working.rejected_formats.len(), TRIAL_FORMATS.len() - formats.len());
        assert!(test_decoder(Path::new("ffmpeg"), &WITH_H264).await.is_err());
    }

    #[tokio::test]
    async fn all_hardware_is_accounted_for() {
        let report = decoder_report(Path::new("ffmpeg")).await;
        assert_eq!(report.working.len() + report.rejected.len(), HARDWARE_DECODERS.len());
        assert!(report.rejected.iter().all(|rejected| !rejected.reason.is_empty()), "{report:?}");
    }
}
