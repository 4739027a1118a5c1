//! Fingerprints of an item's audio, by which parts that episodes have in common are found.

use std::path::Path;

use super::excerpt::Excerpt;
use super::{Result, RunError};
use crate::domain::marks::common_audio::{AudioFingerprint, SAMPLE_RATE};

/// The fingerprint of a part of an audio stream.
///
/// # Errors
/// Those of [`Excerpt`]: `Decode`, `SourceRead`, `Stalled`, `Internal`.
pub async fn fingerprint(ffmpeg: &Path, excerpt: &Excerpt<'_>) -> Result<AudioFingerprint> {
    let samples = excerpt.decode_samples(ffmpeg, SAMPLE_RATE).await?;
    let compute = move || AudioFingerprint::new(&samples);
    tokio::task::spawn_blocking(compute).await.map_err(|cause| RunError::Internal(cause.to_string()))
}
