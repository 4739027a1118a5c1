//! The encoders of this server, for diagnosis.

use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::ffmpeg_encoders::{self, EncoderReport};
use crate::engine::versions;

/// The current state of the local encoders.
#[derive(Clone, Debug)]
pub struct EncoderStatus {
    pub encoder_report: Arc<EncoderReport>,
    pub gstreamer_version: String,
    pub max_concurrent_jobs: usize,
}

/// Tests and reports the local encoders.
#[derive(Debug)]
pub struct LocalEncoders {
    ffmpeg: PathBuf,
    max_concurrent_jobs: usize,
}

impl LocalEncoders {
    pub fn new(ffmpeg: PathBuf, max_concurrent_jobs: usize) -> Self {
        Self { ffmpeg, max_concurrent_jobs }
    }

    /// Tests the encoders before the first request.
    pub async fn test_encoders(&self) {
        let report = ffmpeg_encoders::encoder_report(&self.ffmpeg).await;
        let working: Vec<&str> = report.working.iter().map(|encoder| encoder.name).collect();
        match (&report.version, working.is_empty()) {
            (Some(version), false) => tracing::info!(ffmpeg = version, encoders = ?working, "encoders ready"),
            _ => {
                tracing::error!(ffmpeg = %self.ffmpeg.display(), rejected = ?report.rejected, "no usable encoder was found")
            }
        }
    }

    /// The encoders that work, best first; empty when ffmpeg is missing.
    pub async fn report(&self) -> Arc<EncoderReport> {
        ffmpeg_encoders::encoder_report(&self.ffmpeg).await
    }

    pub async fn status(&self) -> EncoderStatus {
        EncoderStatus {
            encoder_report: self.report().await,
            gstreamer_version: versions::gstreamer_version(),
            max_concurrent_jobs: self.max_concurrent_jobs,
        }
    }
}
