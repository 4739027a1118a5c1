//! The encoders of this server, for diagnosis.

use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::ffmpeg_encoders::{self, EncoderReport};

/// Tests and reports the local encoders.
#[derive(Debug)]
pub struct LocalEncoders {
    ffmpeg: PathBuf,
}

impl LocalEncoders {
    pub fn new(ffmpeg: PathBuf) -> Self {
        Self { ffmpeg }
    }

    /// Tests the encoders before the first request.
    pub async fn test_encoders(&self) {
        let report = ffmpeg_encoders::encoder_report(&self.ffmpeg).await;
        let working: Vec<&str> = report.working.iter().map(|encoder| encoder.name).collect();
        match (&report.version, report.can_transcode()) {
            (Some(version), true) => tracing::info!(ffmpeg = version, encoders = ?working, "encoders ready"),
            _ => {
                tracing::error!(ffmpeg = %self.ffmpeg.display(), rejected = ?report.rejected, "no usable encoder was found")
            }
        }
    }

    /// Whether one works. The answer comes before all are tested.
    pub async fn can_transcode(&self) -> bool {
        ffmpeg_encoders::can_transcode(&self.ffmpeg).await
    }

    /// The encoders that work, best first; empty when ffmpeg is missing.
    pub async fn report(&self) -> Arc<EncoderReport> {
        ffmpeg_encoders::encoder_report(&self.ffmpeg).await
    }
}
