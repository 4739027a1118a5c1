//! The encoders and decoders of a worker's machine, as tests found them.

use std::path::{Path, PathBuf};

use crate::config::is_forbidden;
use crate::domain::codec::TargetCodec;
use crate::domain::plan::VideoPlan;
use crate::engine::ffmpeg_decoders::{decoder_report, find_decoder_report, retest_decoders};
use crate::engine::ffmpeg_encoders::{encoder_report, retest_encoders};
use crate::engine::hardware_devices::DeviceWatch;
use crate::engine::hardware_rest::remaining_rest;
use crate::engine::remote::message::WorkOrder;
use crate::engine::video_decoders::HardwareDecoder;
use crate::engine::video_encoders::VideoEncoder;

/// The encoders and decoders of this machine's ffmpeg.
pub struct MachineCodecs {
    ffmpeg: PathBuf,
    /// Hardware that is never used, by ffmpeg's names.
    forbidden: Vec<String>,
}

impl MachineCodecs {
    pub fn new(ffmpeg: &Path, forbidden: Vec<String>) -> Self {
        Self { ffmpeg: ffmpeg.to_owned(), forbidden }
    }

    /// The encoders of H.264 that may be used, best first. The first call tests them.
    pub async fn encoders(&self) -> Vec<&'static VideoEncoder> {
        let report = encoder_report(&self.ffmpeg).await;
        let is_permitted = |one: &&VideoEncoder| {
            one.codec == TargetCodec::H264 && !(one.is_hardware && is_forbidden(&self.forbidden, one.name))
        };
        report.working.iter().copied().filter(is_permitted).collect()
    }

    /// The best encoder that does not rest.
    pub async fn encoder(&self) -> Option<&'static VideoEncoder> {
        self.encoders().await.into_iter().find(|one| remaining_rest(&self.ffmpeg, one.name).is_none())
    }

    /// The hardware that decodes the video of an order beside this encoder; `None` if software does.
    pub fn decoder_of(&self, order: &WorkOrder, encoder: &VideoEncoder) -> Option<&'static HardwareDecoder> {
        let Some(VideoPlan::Encode(plan)) = &order.rendition.video else { return None };
        let decoder = find_decoder_report(&self.ffmpeg)?.find(encoder, order.media.stream(plan.stream)?)?;
        (!is_forbidden(&self.forbidden, decoder.name) && remaining_rest(&self.ffmpeg, decoder.name).is_none())
            .then_some(decoder)
    }

    /// Tests the decoders, and both again when a device has come or gone. Never returns.
    pub async fn follow_devices(&self) {
        let mut devices = DeviceWatch::new(Path::new("/dev"));
        decoder_report(&self.ffmpeg).await;
        loop {
            devices.changed().await;
            retest_encoders(&self.ffmpeg).await;
            retest_decoders(&self.ffmpeg).await;
        }
    }
}
