//! A part of an item's stream, decoded by ffmpeg into memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::clock::ItemInput;
use super::ffmpeg::argument_list::ArgumentList;
use super::ffmpeg::run_to_end;
use super::process::ChildLimits;
use super::source::SourceFile;
use super::{Result, RunError};
use crate::domain::media::Media;

/// Time limit. Ten minutes of AAC, or the keyframes of a quarter of an hour of 1080p, take 2 to 4 s of one core.
const DEADLINE: Duration = Duration::from_secs(60);

/// Bytes of a sample.
const SAMPLE_BYTES: usize = 2;

/// A part of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Excerpt<'a> {
    pub source: &'a Arc<SourceFile>,
    pub media: &'a Media,
    /// ffmpeg's index.
    pub stream: u32,
    pub start_seconds: f64,
    pub seconds: f64,
}

impl Excerpt<'_> {
    /// Decodes it. The options of input and output are separated by spaces.
    ///
    /// # Errors
    /// `Decode` with ffmpeg's last message; `SourceRead`; `Stalled`; `Internal` when ffmpeg does not start.
    pub(super) async fn decode(
        &self,
        ffmpeg: &Path,
        input_options: &str,
        output_options: &str,
        max_bytes: usize,
    ) -> Result<Vec<u8>> {
        let Self { source, media, stream, start_seconds, seconds } = *self;
        let decode = async {
            let input = ItemInput::open(source, &media.clock_pieces, start_seconds).await?;
            let mut args = ArgumentList::new("-nostdin -hide_banner -v error");
            args.add(input_options);
            // A pipe begins there.
            if input.pipe.is_none() {
                args.pair("-ss", format!("{start_seconds:.3}"));
            }
            args.pair("-t", seconds).add_item(media.container, &source.proc_path(), input.pipe.as_ref());
            args.pair("-map", format!("0:{stream}")).add(output_options).add("-");
            run_to_end(ffmpeg, args.0, vec![input.file], ChildLimits::PROBE, max_bytes).await
        };
        let decoded = tokio::time::timeout(DEADLINE, decode).await;
        let (bytes, exit) = decoded.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))??;
        match bytes.is_empty() {
            true => Err(RunError::Decode(exit.last_error("ffmpeg decoded nothing"))),
            false => Ok(bytes),
        }
    }

    /// Decodes a part of an audio stream to mono.
    ///
    /// # Errors
    /// Those of [`Excerpt::decode`].
    pub(super) async fn decode_samples(&self, ffmpeg: &Path, sample_rate: u32) -> Result<Vec<i16>> {
        let output = format!("-ac 1 -ar {sample_rate} -f s16le");
        let max_samples = ((self.seconds + 1.0) * f64::from(sample_rate)) as usize;
        let bytes = self.decode(ffmpeg, "", &output, max_samples * SAMPLE_BYTES).await?;
        let samples = bytes.chunks_exact(SAMPLE_BYTES).map(|sample| i16::from_le_bytes([sample[0], sample[1]]));
        Ok(samples.collect())
    }
}
