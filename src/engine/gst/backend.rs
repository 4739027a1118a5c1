//! The GStreamer backend in this process, for servers without worker processes (`isolation = "none"`).

use std::sync::Arc;
use std::thread::Thread;

use tokio::sync::watch;

use super::encoder_elements::select_encoder;
use super::refusal::check_job;
use super::run::RunTask;
use super::script_source::{ScriptSource, read_script, text_to_burn};
use crate::domain::codec::TargetCodec;
use crate::domain::plan::{BurnedSubtitle, EncodeVideo, VideoPlan};
use crate::domain::subtitles::TextStyle;
use crate::engine::worker::message::EngineReport;
use crate::engine::{Backend, Job, Result, Run, RunError, ass};

/// Raised whenever a change of the pipelines changes their output; part of the backend's version.
const PIPELINES_VERSION: u32 = 7;

/// Elements without which no run starts. The other required ones are needed by some files only.
const RUN_ELEMENTS: [&str; 10] = [
    "qtdemux",
    "matroskademux",
    "decodebin",
    "uridecodebin3",
    "videoconvertscale",
    "deinterlace",
    "avenc_aac",
    "aacparse",
    "h264parse",
    "hlssink2",
];

/// Everything besides the rendition that changes the bytes of segments made by GStreamer, in this process or in a worker.
pub fn backend_version(report: &EngineReport, style: &TextStyle) -> String {
    format!("gstreamer {} p{PIPELINES_VERSION}{}", report.gstreamer, ass::style_tag(style))
}

/// Checks that GStreamer can make segments on the machine of this report.
///
/// # Errors
/// Which element is missing.
pub fn check_report(report: &EngineReport) -> Result<(), String> {
    let is_needed = |element: &str| RUN_ELEMENTS.contains(&element);
    if let Some((element, package)) = report.missing.iter().find(|(element, _)| is_needed(element)) {
        return Err(format!("GStreamer has no {element} (in {package})"));
    }
    let encoder = select_encoder(TargetCodec::H264, "libx264", report);
    encoder.map(|_| ()).ok_or_else(|| "no H.264 encoder of GStreamer works".to_owned())
}

/// GStreamer in this process.
#[derive(Clone, Debug)]
pub struct GstBackend {
    version: String,
    report: Arc<EngineReport>,
    scripts: Arc<ScriptSource>,
    #[cfg(test)]
    pub(super) injected_fault: super::panic_guard::InjectedFault,
}

impl GstBackend {
    /// The backend of this machine, with the default text style. The report is that of [`super::examine()`], accepted by
    /// [`check_report`].
    pub fn new(report: Arc<EngineReport>) -> Self {
        Self {
            version: backend_version(&report, &TextStyle::default()),
            report,
            scripts: Arc::new(ScriptSource::new(TextStyle::default())),
            #[cfg(test)]
            injected_fault: super::panic_guard::InjectedFault::default(),
        }
    }

    /// Sets the style of plain text to burn in.
    #[must_use]
    pub fn with_text_style(mut self, style: TextStyle) -> Self {
        self.version = backend_version(&self.report, &style);
        self.scripts = Arc::new(ScriptSource::new(style));
        self
    }

    /// Starts the thread of a run.
    fn spawn_run(task: RunTask) -> Result<Thread> {
        let name = format!("run-{}", task.job.first);
        let thread = std::thread::Builder::new().name(name).spawn(move || task.run());
        let thread = thread.map_err(|cause| RunError::Internal(format!("no thread for a run: {cause}")))?;
        Ok(thread.thread().clone())
    }

    /// Starts the thread of a run after extracting the text to burn in.
    async fn spawn_run_with_text(&self, mut task: RunTask, burn: &BurnedSubtitle) -> Result<Thread> {
        let file = self.scripts.script_file_for(&task.job, burn).await?;
        let read = tokio::task::spawn_blocking(move || read_script(&file)).await;
        task.script = Some(read.map_err(|cause| RunError::Internal(cause.to_string()))??);
        Self::spawn_run(task)
    }
}

impl Backend for GstBackend {
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

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run> {
        check_job(&job, &self.report)?;
        let rendition = job.spec.rendition.clone();
        let encoder = match &rendition.video {
            Some(VideoPlan::Encode(plan)) => {
                let missing = || RunError::Encoder("no H.264 encoder works on this machine".into());
                Some(select_encoder(plan.codec, &plan.encoder, &self.report).ok_or_else(missing)?)
            }
            _ => None,
        };
        let (run, segments, gate) = Run::channel(last_allowed);
        let task = RunTask {
            job,
            encoder,
            script: None,
            segments,
            gate: gate.clone(),
            #[cfg(test)]
            injected_fault: self.injected_fault.clone(),
        };
        let Some(burn) = text_to_burn(&rendition).cloned() else {
            tokio::spawn(wake_on_change(gate, Self::spawn_run(task)?));
            return Ok(run);
        };
        // The text is extracted first, which may take a pass over the file.
        let backend = self.clone();
        tokio::spawn(async move {
            let segments = task.segments.clone();
            let started = tokio::select! {
                () = segments.closed() => return,
                started = backend.spawn_run_with_text(task, &burn) => started,
            };
            match started {
                Ok(thread) => wake_on_change(gate, thread).await,
                Err(error) => drop(segments.send(Err(error)).await),
            }
        });
        Ok(run)
    }
}

/// Wakes the thread of a run when its owner raises the limit or is gone.
async fn wake_on_change(mut gate: watch::Receiver<usize>, thread: Thread) {
    while gate.changed().await.is_ok() {
        thread.unpark();
    }
    thread.unpark();
}
