//! A run: one thread makes segments, another one sends them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Thread;

use tokio::sync::{mpsc, watch};

use super::beats::Activity;
use super::connection::Connection;
use super::end_process;
use super::job_runner::spawn;
use super::questions::failure_report;
use crate::domain::worker::frame::{FrameKind, MAX_PIECE_BYTES};
use crate::engine::content::SegmentContent;
use crate::engine::gst::RunTask;
use crate::engine::gst::elements::prefer_decoder;
use crate::engine::gst::encoder_elements::find_encoder;
use crate::engine::gst::script_source::read_script;
use crate::engine::image::Image;
use crate::engine::source::SourceFile;
use crate::engine::worker::message::{RunWork, SegmentHeader, SegmentSpan};
use crate::engine::{Job, RenditionSpec, Result, Run, RunError, Segment};
use crate::telemetry::traces;

/// Control of the run of this process.
pub(super) struct RunControl {
    gate: watch::Sender<usize>,
    thread: Thread,
}

impl RunControl {
    /// Lets the run make segments up to and including `through`. The limit never goes down again.
    pub(super) fn raise_gate(&self, through: usize) {
        let is_raised = self.gate.send_if_modified(|gate| {
            let is_higher = through > *gate;
            *gate = through.max(*gate);
            is_higher
        });
        if is_raised {
            self.thread.unpark();
        }
    }
}

/// Starts a run. When it is over, and all of it is written, the process ends.
pub(super) fn start(
    job: u32,
    work: RunWork,
    descriptors: Vec<OwnedFd>,
    connection: Arc<Connection>,
    activity: Arc<Activity>,
) -> Result<RunControl> {
    let (Run { segments, gate, .. }, sender, gate_receiver) = Run::channel(work.through);
    let name = format!("run-{}", work.first);
    let is_traced = work.trace.is_some();
    let make_segments = move || {
        // A panic after the preparation is an error that the task sends by itself.
        let prepared = catch_unwind(AssertUnwindSafe(|| prepare(work, descriptors, sender.clone(), gate_receiver)));
        match prepared.unwrap_or_else(|_| Err(RunError::Internal("the job panicked".into()))) {
            Ok(task) => {
                // The task holds the only other end: with it the run ends.
                drop(sender);
                task.run();
            }
            Err(error) => drop(sender.blocking_send(Err(error))),
        }
    };
    let thread = std::thread::Builder::new().name(name).spawn(make_segments);
    let thread = thread.map_err(|cause| RunError::Internal(format!("no thread for a run: {cause}")))?.thread().clone();
    spawn("segments", move || send_segments(job, segments, &connection, &activity, is_traced))?;
    Ok(RunControl { gate, thread })
}

/// The task of a run, from what the server passed.
fn prepare(
    work: RunWork,
    descriptors: Vec<OwnedFd>,
    segments: mpsc::Sender<Result<Segment>>,
    gate: watch::Receiver<usize>,
) -> Result<RunTask> {
    let mut descriptors = descriptors.into_iter();
    let mut next_descriptor =
        || descriptors.next().ok_or_else(|| RunError::Internal("a descriptor of the run is missing".into()));
    let source = Arc::new(SourceFile::from_descriptor(next_descriptor()?, &work.source));
    let sidecar = match &work.sidecar {
        Some(facts) => Some(Arc::new(SourceFile::from_descriptor(next_descriptor()?, facts))),
        None => None,
    };
    let watermark = if work.has_watermark { Some(Arc::new(receive_image(next_descriptor()?)?)) } else { None };
    let script = if work.has_script { Some(read_script(&File::from(next_descriptor()?))?) } else { None };
    let spec = RenditionSpec {
        source,
        fingerprint: work.source.fingerprint.unwrap_or_default(),
        media: Arc::new(work.media),
        rendition: Arc::new(work.rendition),
        grid: Arc::new(work.grid),
        sidecar,
        watermark,
        package: None,
    };
    if work.first >= spec.grid.len() {
        return Err(RunError::Internal(format!("segment {} is past the end", work.first)));
    }
    if let Some(decoder) = &work.decoder {
        prefer_decoder(decoder)?;
    }
    Ok(RunTask {
        job: Job::new(Arc::new(spec), work.first),
        encoder: work.encoder.as_deref().map(find_encoder).transpose()?,
        script,
        segments,
        gate,
        #[cfg(test)]
        injected_fault: crate::engine::gst::panic_guard::InjectedFault::default(),
    })
}

/// An image that the server has passed, and checked already.
pub(super) fn receive_image(descriptor: OwnedFd) -> Result<Image> {
    let image = Image::from_file(File::from(descriptor));
    let image = image.map_err(|cause| RunError::Internal(format!("an image could not be read: {cause}")))?;
    image.ok_or_else(|| RunError::Internal("a descriptor is not that of an image".into()))
}

/// Sends what a run makes, and ends the process with the run.
fn send_segments(
    job: u32,
    mut segments: mpsc::Receiver<Result<Segment>>,
    connection: &Connection,
    activity: &Activity,
    is_traced: bool,
) -> ! {
    while let Some(outcome) = segments.blocking_recv() {
        // The socket is full while the server does not read. That is no fault of the run.
        activity.set_waiting(true);
        let span = is_traced.then(|| segment_span(activity));
        let sent = outcome.and_then(|segment| send_segment(job, &segment, span, connection).map(|()| segment.index));
        match sent {
            Ok(index) => activity.set_delivered(index),
            Err(error) => {
                connection.send_json(FrameKind::Answer, job, &failure_report());
                connection.send_json(FrameKind::Failed, job, &error);
                end_process(0);
            }
        }
        activity.set_waiting(false);
    }
    connection.send(FrameKind::Done, job, &[]);
    end_process(0)
}

/// The span of a segment that is complete now.
fn segment_span(activity: &Activity) -> SegmentSpan {
    let ended_at = traces::now_nanos();
    SegmentSpan { span_id: traces::random_id(), started_at: activity.working_since().min(ended_at), ended_at }
}

fn send_segment(job: u32, segment: &Segment, span: Option<SegmentSpan>, connection: &Connection) -> Result<()> {
    let SegmentContent::InMemory(bytes) = &segment.content else {
        return Err(RunError::Internal("a segment of GStreamer has no bytes".into()));
    };
    let header = SegmentHeader { index: segment.index, bytes: bytes.len(), span };
    connection.send_json(FrameKind::Segment, job, &header);
    bytes.chunks(MAX_PIECE_BYTES).for_each(|piece| connection.send(FrameKind::Piece, job, piece));
    Ok(())
}
