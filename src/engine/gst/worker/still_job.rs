//! A slate: one thread encodes and sends it. The process ends with it, as with a run.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::connection::Connection;
use super::end_process;
use super::job_runner::spawn;
use super::run_job::receive_image;
use crate::domain::worker::frame::{FrameKind, MAX_PIECE_BYTES};
use crate::engine::gst::StillTask;
use crate::engine::gst::encoder_elements::find_encoder;
use crate::engine::gst::script_source::read_script;
use crate::engine::worker::message::StillWork;
use crate::engine::{Result, RunError};

/// Starts the thread of a slate.
pub(super) fn start(job: u32, work: StillWork, descriptors: Vec<OwnedFd>, connection: Arc<Connection>) -> Result<()> {
    spawn("still", move || {
        let encode = || prepare(&work, descriptors)?.encode();
        let encoded = catch_unwind(AssertUnwindSafe(encode));
        match encoded.unwrap_or_else(|_| Err(RunError::Internal("the job panicked".into()))) {
            Ok(still) => {
                let stream = still.frames.concat();
                stream.chunks(MAX_PIECE_BYTES).for_each(|piece| connection.send(FrameKind::Piece, job, piece));
                connection.send(FrameKind::Done, job, &[]);
            }
            Err(error) => connection.send_json(FrameKind::Failed, job, &error),
        }
        end_process(0)
    })
}

fn prepare(work: &StillWork, descriptors: Vec<OwnedFd>) -> Result<StillTask> {
    let mut descriptors = descriptors.into_iter();
    let mut next_descriptor =
        || descriptors.next().ok_or_else(|| RunError::Internal("a descriptor of the slate is missing".into()));
    let image = if work.has_image { Some(Arc::new(receive_image(next_descriptor()?)?)) } else { None };
    let script = if work.has_script { Some(read_script(&File::from(next_descriptor()?))?) } else { None };
    Ok(StillTask { size: (work.width, work.height), encoder: find_encoder(&work.encoder)?, image, script })
}
