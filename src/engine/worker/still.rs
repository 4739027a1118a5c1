//! Slates by workers: the frame of one, encoded in a worker of its own.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tokio::time::Instant;

use super::death::Death;
use super::message::{JobMessage, StillWork, Work};
use super::pool::{WorkerPool, error_text};
use super::process::WorkerProcess;
use super::replay::{Replay, ReplayWork};
use super::reply::NoReply;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::worker::QuarantineKey;
use crate::domain::worker::blame::Consequence;
use crate::domain::worker::frame::FrameKind;
use crate::engine::gst::select_still_encoder;
use crate::engine::still_image::{FRAMES, MAX_OUTPUT_BYTES, StillJob};
use crate::engine::video_encoders::EncoderElement;

/// The pipeline's name in quarantine keys.
const PIPELINE: &str = "still";

/// Time for a slate, after its worker has been found.
const STILL_TIMEOUT: Duration = Duration::from_secs(20);

/// Address space of the worker, bytes: as for a run, and an image and frames of 4096x4096.
const MEMORY_BYTES: u64 = 3 << 30;

impl WorkerPool {
    /// Encodes a slate. It is tried once: the caller has ffmpeg.
    ///
    /// # Errors
    /// Why no worker made it, for people.
    pub async fn encode_still(&self, job: &StillJob) -> Result<StillImage, String> {
        let report = self.examine().await?;
        let encoder = select_still_encoder(job, &report)?;
        let key = job.image.as_ref().map(|(image, _)| self.image_key(&image.digest, PIPELINE));
        if key.as_ref().is_some_and(|key| self.recorder.is_quarantined(key)) {
            return Err("the image is in quarantine, because workers crashed on it".to_owned());
        }
        let mut worker = self.take_run_worker().await?;
        let message = still_message(job, encoder);
        worker.send_job(&message, &still_descriptors(job), self.starter.statistics.count_busy()).await?;
        match receive_stream(&mut worker).await {
            Ok(stream) => check_still(&stream?),
            Err(NoReply::Slow) => Err(format!("no slate within {} s", STILL_TIMEOUT.as_secs())),
            Err(NoReply::Lost) => {
                let death = worker.death().await;
                self.handle_loss(job, encoder, key, &death);
                Err(format!("a media worker ended: {}", death.text))
            }
        }
    }

    /// Records the death of a worker that made a slate. Only an image can be at fault: the rest is ours.
    fn handle_loss(&self, job: &StillJob, encoder: &'static EncoderElement, key: Option<QuarantineKey>, death: &Death) {
        let path = job.image.as_ref().map_or("the built-in slate", |(_, path)| path);
        let own_key = key.clone().unwrap_or_else(|| self.image_key("built-in", PIPELINE));
        let consequence = self.record_death(&own_key, path, death);
        if let (Some(key), Consequence::Replay) = (key, consequence) {
            let work = ReplayWork::Still { job: job.clone(), encoder };
            self.replay(Replay { key, path: path.to_owned(), work });
        }
    }
}

/// The byte stream, or the error of the worker.
async fn receive_stream(worker: &mut WorkerProcess) -> Result<Result<Vec<u8>, String>, NoReply> {
    let deadline = Instant::now() + STILL_TIMEOUT;
    let mut stream = Vec::new();
    loop {
        let frame = worker.next_reply(deadline).await?;
        match frame.kind {
            FrameKind::Piece if stream.len() + frame.body.len() <= MAX_OUTPUT_BYTES => {
                stream.extend_from_slice(&frame.body);
            }
            FrameKind::Done => return Ok(Ok(stream)),
            FrameKind::Failed => return Ok(Err(error_text(&frame.body))),
            kind => worker.end_for_protocol(format!("a frame {kind:?} in a slate, after {} bytes", stream.len())),
        }
    }
}

/// The frames of a byte stream: as many as were requested, the first one with an IDR picture.
fn check_still(stream: &[u8]) -> Result<StillImage, String> {
    const IDR: u8 = 5;
    let still = StillImage::from_annex_b(stream);
    let is_idr = |frame: &Vec<u8>| frame.windows(4).any(|bytes| bytes[..3] == [0, 0, 1] && bytes[3] & 0x1f == IDR);
    if still.frames.len() != FRAMES as usize || !still.frames.first().is_some_and(is_idr) {
        return Err(format!("the worker sent {} frames of {FRAMES}, or no IDR picture", still.frames.len()));
    }
    Ok(still)
}

/// The job of a slate.
pub fn still_message(job: &StillJob, encoder: &EncoderElement) -> JobMessage {
    let work = StillWork {
        width: job.size.0,
        height: job.size.1,
        encoder: encoder.element.to_owned(),
        has_image: job.image.is_some(),
        has_script: job.script.is_some(),
    };
    JobMessage { memory_bytes: MEMORY_BYTES, work: Work::Still(work) }
}

/// The descriptors in the order of the message's fields.
pub fn still_descriptors(job: &StillJob) -> Vec<BorrowedFd<'_>> {
    let image = job.image.as_ref().map(|(image, _)| image.file.as_fd());
    let script = job.script.as_ref().map(|script| script.as_fd());
    image.into_iter().chain(script).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(frames: usize, first_unit: u8) -> Vec<u8> {
        let unit = |kind: u8| [&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1][..], &[kind, 0x88]].concat();
        let rest = std::iter::repeat_with(|| unit(0x41)).take(frames - 1);
        std::iter::once(unit(first_unit)).chain(rest).collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_slate_has_all_its_frames_and_begins_with_an_idr_picture() {
        let all = FRAMES as usize;
        assert_eq!(check_still(&stream(all, 0x65)).unwrap().frames.len(), all);
        assert!(check_still(&stream(all, 0x41)).is_err(), "no IDR picture");
        assert!(check_still(&stream(all - 1, 0x65)).is_err());
        assert!(check_still(&stream(all + 1, 0x65)).is_err());
        assert!(check_still(b"").is_err());
    }
}
