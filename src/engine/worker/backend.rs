//! The GStreamer backend in worker processes: a trait [`Backend`] over the pool, one worker a run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::message::EngineReport;
use super::pool::WorkerPool;
use super::process::WorkerProcess;
use super::replay::{Replay, ReplayWork};
use super::run_exchange::{RunExchange, RunOutcome, SegmentAssembly};
use super::run_job::RunJob;
use crate::domain::plan::{BurnedSubtitle, EncodeVideo, VideoPlan};
use crate::domain::subtitles::TextStyle;
use crate::domain::worker::blame::{Blame, Consequence};
use crate::engine::decoder_trial::{encode_sample, judge_decoded};
use crate::engine::gst::{ScriptSource, backend_version, check_job, select_encoder, text_to_burn};
use crate::engine::video_decoders::{HardwareDecoder, TrialFormat};
use crate::engine::{Backend, Job, Result, Run, RunError, Segment};

/// Time to encode a second of video for the trial of a decoder.
const SAMPLE_DEADLINE: Duration = Duration::from_secs(8);

/// Time for a worker to end its run before it is killed.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// Pause after a death when workers die with different files one after another.
const BACK_OFF: Duration = Duration::from_secs(1);

/// GStreamer in worker processes.
#[derive(Clone, Debug)]
pub struct WorkerBackend {
    pool: Arc<WorkerPool>,
    report: Arc<EngineReport>,
    version: String,
    scripts: Arc<ScriptSource>,
    decoder: Option<DecoderElement>,
}

/// Hardware that decodes a run: its name in the table of decoders, and GStreamer's element of it for the codec.
#[derive(Clone, Copy, Debug)]
struct DecoderElement {
    hardware: &'static str,
    element: &'static str,
}

impl WorkerBackend {
    /// The backend of this machine. The report is that of [`WorkerPool::examine`], accepted by
    /// [`crate::engine::gst::check_report`]; `style` is that of plain text to burn in.
    pub fn new(pool: Arc<WorkerPool>, report: Arc<EngineReport>, style: TextStyle) -> Self {
        let version = backend_version(&report, &style);
        Self { pool, report, version, scripts: Arc::new(ScriptSource::new(style)), decoder: None }
    }

    /// The same backend, decoding by this hardware if it decodes this format like software does.
    ///
    /// # Errors
    /// Why not.
    pub async fn with_decoder(
        &self,
        ffmpeg: &Path,
        decoder: &'static HardwareDecoder,
        format: &'static TrialFormat,
    ) -> Result<Self, String> {
        let missing = || format!("GStreamer has no element for {} by {}", format.codec, decoder.name);
        let element = decoder.element(format.codec).ok_or_else(missing)?;
        let film = encode_sample(ffmpeg, format, SAMPLE_DEADLINE).await?;
        judge_decoded(&self.pool.compare_decoder(element, &film).await?, format)?;
        Ok(Self { decoder: Some(DecoderElement { hardware: decoder.name, element }), ..self.clone() })
    }
}

impl Backend for WorkerBackend {
    fn name(&self) -> &'static str {
        "gstreamer"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        select_encoder(plan.codec, &plan.encoder, &self.report).map(|encoder| encoder.element)
    }

    fn audio_encoder(&self) -> &'static str {
        "avenc_aac"
    }

    fn hardware_decoder(&self) -> Option<&'static str> {
        self.decoder.map(|decoder| decoder.hardware)
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run> {
        check_job(&job, &self.report)?;
        let spec = job.spec.clone();
        if self.pool.recorder.is_quarantined(&self.pool.run_key(&spec)) {
            return Err(RunError::Internal("the file is in quarantine, because workers crashed on it".into()));
        }
        let encoder = match &spec.rendition.video {
            Some(VideoPlan::Encode(plan)) => {
                let missing = || RunError::Encoder("no H.264 encoder works on this machine".into());
                Some(self.video_encoder(plan).ok_or_else(missing)?)
            }
            _ => None,
        };
        let burn = text_to_burn(&spec.rendition).cloned();
        let (run, segments, gate) = Run::channel(last_allowed);
        let task = RunTask { backend: self.clone(), job, encoder, burn, segments, gate };
        tokio::spawn(task.run());
        Ok(run)
    }
}

/// State of a run's task.
struct RunTask {
    backend: WorkerBackend,
    job: Job,
    encoder: Option<&'static str>,
    /// The text subtitle to burn in.
    burn: Option<BurnedSubtitle>,
    segments: mpsc::Sender<Result<Segment>>,
    gate: watch::Receiver<usize>,
}

impl RunTask {
    /// Runs to the end of the grid or of the source, or until the run is dropped.
    async fn run(mut self) {
        let segments = self.segments.clone();
        let prepared = tokio::select! {
            biased;
            () = segments.closed() => return,
            prepared = self.prepare() => prepared,
        };
        let outcome = match prepared {
            Ok((worker, run_job)) => self.make_segments(worker, run_job).await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            let _ = segments.send(Err(error)).await;
        }
    }

    /// Extracts the text to burn in, which may take a pass over the file, and takes a worker.
    async fn prepare(&self) -> Result<(WorkerProcess, RunJob)> {
        let script = match &self.burn {
            Some(burn) => Some(self.backend.scripts.script_file_for(&self.job, burn).await?),
            None => None,
        };
        let worker = self.backend.pool.take_run_worker().await.map_err(RunError::Internal)?;
        let decoder = self.backend.decoder.map(|decoder| decoder.element);
        Ok((worker, RunJob { spec: self.job.spec.clone(), encoder: self.encoder, decoder, script }))
    }

    async fn make_segments(&mut self, mut worker: WorkerProcess, run_job: RunJob) -> Result<()> {
        let pool = self.backend.pool.clone();
        let through = *self.gate.borrow_and_update();
        let message = run_job.message(self.job.first, through, self.job.trace);
        let sent = worker.send_job(&message, &run_job.descriptors(), pool.starter.statistics.count_busy()).await;
        sent.map_err(RunError::Internal)?;
        let mut assembly = SegmentAssembly::new(self.job.first, self.job.spec.grid.len());
        let mut inspected = pool.inspection.register(worker.number());
        let exchange = RunExchange {
            worker: &mut worker,
            assembly: &mut assembly,
            segments: &self.segments,
            gate: &mut self.gate,
            inspected: &mut inspected,
            trace: self.job.trace,
        };
        match exchange.run().await {
            RunOutcome::Complete => Ok(()),
            RunOutcome::Failed(error) => Err(error),
            RunOutcome::Abandoned => {
                worker.cancel(CANCEL_GRACE).await;
                Ok(())
            }
            RunOutcome::Lost => Err(explain_loss(&pool, worker, run_job, assembly.next()).await),
        }
    }
}

/// The error for a run whose worker has died as it made segment `segment`.
async fn explain_loss(pool: &WorkerPool, mut worker: WorkerProcess, run_job: RunJob, segment: usize) -> RunError {
    let death = worker.death().await;
    if let Some(element) = run_job.hardware_element().filter(|_| death.blame == Blame::Job) {
        // Its driver is part of the worker, so this proves nothing about the file: one at fault ends a worker in software too.
        let text = format!("{element}: {} ({})", death.text, run_job.spec.source.path);
        pool.starter.statistics.record_death(death.cause, &text);
        tracing::warn!(element, cause = death.text, "a worker died as it used hardware");
        return RunError::Encoder(format!("a media worker with {element} ended: {}", death.text));
    }
    let (key, path) = (pool.run_key(&run_job.spec), run_job.spec.source.path.clone());
    let blame = match pool.record_death(&key, &path, &death) {
        Consequence::Retry => death.blame,
        Consequence::Replay => {
            pool.replay(Replay { key, path, work: ReplayWork::Run { job: run_job, segment } });
            Blame::Job
        }
        Consequence::BackOff => {
            tokio::time::sleep(BACK_OFF).await;
            Blame::Unexplained
        }
    };
    RunError::WorkerLost { blame, text: death.text }
}
