//! One run of a worker: ffmpeg reads the source through the block cache, and each segment is sent to the server.

use std::sync::Arc;

use async_nats::Subscriber;
use futures_util::StreamExt;

use super::block_cache::BlockCache;
use super::range_server::RangeServer;
use super::server_client::ServerClient;
use crate::domain::plan::VideoPlan;
use crate::engine::content::SegmentContent;
use crate::engine::ffmpeg::FfmpegBackend;
use crate::engine::hardware_rest::begin_rest;
use crate::engine::remote::message::{RunControl, RunEnd, WorkOrder};
use crate::engine::source::SourceFile;
use crate::engine::video_decoders::HardwareDecoder;
use crate::engine::video_encoders::VideoEncoder;
use crate::engine::{Backend, Job, RenditionSpec, Run, RunError};

/// A run that was claimed.
pub struct WorkerRun {
    pub server: Arc<ServerClient>,
    pub backend: FfmpegBackend,
    /// The encoder of this machine.
    pub encoder: &'static VideoEncoder,
    /// The hardware that decodes beside it, which the backend uses; None for software.
    pub decoder: Option<&'static HardwareDecoder>,
    pub order: WorkOrder,
}

impl WorkerRun {
    /// Makes the segments of the order, as far as the server lets it.
    ///
    /// # Errors
    /// Why it ended early: the server took the run back, or it failed here, which the server then knows.
    pub async fn make(self, controls: Subscriber) -> Result<(), String> {
        let order = Arc::new(self.order.clone());
        let cache = BlockCache::new(self.server.clone(), order.clone());
        let files = RangeServer::bind(cache).await.map_err(|cause| cause.to_string())?;
        let (port, path) = files.address().map_err(|cause| cause.to_string())?;
        tokio::select! {
            made = self.make_segments(order, (port, path), controls) => made,
            () = files.serve() => Err("the source is not served any more".to_owned()),
        }
    }

    async fn make_segments(
        &self,
        order: Arc<WorkOrder>,
        (port, path): (u16, String),
        mut controls: Subscriber,
    ) -> Result<(), String> {
        let source = SourceFile::at_loopback(order.len, order.fingerprint.clone(), port, path);
        let source = source.map_err(|cause| cause.to_string())?;
        let job = Job::new(Arc::new(self.spec(&order, source)), order.first);
        let mut run = match self.backend.start(job, order.through) {
            Ok(run) => run,
            Err(error) => return self.fail(&order, error).await,
        };
        let mut next = order.first;
        while next < order.end {
            tokio::select! {
                control = controls.next() => apply_control(control.as_ref().map(|message| &*message.payload), &run)?,
                made = run.next() => match made {
                    Some(Ok(segment)) => {
                        let SegmentContent::InMemory(bytes) = segment.content else {
                            return Err("a segment is not in memory".to_owned());
                        };
                        self.server.put_segment(&order.run, segment.index, bytes).await?;
                        next = segment.index + 1;
                    }
                    Some(Err(error)) => return self.fail(&order, error).await,
                    None => return self.server.end_run(&order.run, &RunEnd { error: None }).await,
                },
            }
        }
        Ok(())
    }

    /// The rendition with the encoder of this machine.
    fn spec(&self, order: &WorkOrder, source: SourceFile) -> RenditionSpec {
        let mut rendition = (*order.rendition).clone();
        if let Some(VideoPlan::Encode(plan)) = &mut rendition.video {
            self.encoder.name.clone_into(&mut plan.encoder);
        }
        RenditionSpec {
            source: Arc::new(source),
            fingerprint: order.fingerprint.clone(),
            media: order.media.clone(),
            rendition: Arc::new(rendition),
            grid: order.grid.clone(),
            sidecar: None,
            watermark: None,
            package: None,
        }
    }

    /// Reports a failure. The hardware that decoded rests afterwards; without it, the hardware that encoded.
    async fn fail(&self, order: &WorkOrder, error: RunError) -> Result<(), String> {
        let decoder = self.decoder.map(|decoder| decoder.name);
        if let Some(hardware) = decoder.or(self.encoder.is_hardware.then_some(self.encoder.name)) {
            begin_rest(self.backend.program(), hardware);
        }
        let reason = error.to_string();
        self.server.end_run(&order.run, &RunEnd { error: Some(error) }).await?;
        Err(reason)
    }
}

/// Applies a message of the server; the error is that the run is over.
fn apply_control(payload: Option<&[u8]>, run: &Run) -> Result<(), String> {
    let payload = payload.ok_or("the connection to the queue was closed")?;
    match serde_json::from_slice(payload) {
        Ok(RunControl::Through { through }) => run.allow_through(through),
        Ok(RunControl::Cancel) => return Err("the server took it back".to_owned()),
        Err(_) => {}
    }
    Ok(())
}
