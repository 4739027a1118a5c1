//! A running pipeline: its elements by name, its bus, and its shutdown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;

use super::launch_text::LaunchText;
use super::panic_guard::ThreadWaker;
use super::registry::{self, Registration};
use crate::engine::{Result, RunError};

/// A pipeline that takes longer to stop counts as hanging.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// How long a pipeline that is opening its file may take to reach a stable state before it is stopped.
const SETTLE_TIMEOUT: gst::ClockTime = gst::ClockTime::from_seconds(4);

/// Error of a run whose callback panicked.
const PANIC_MESSAGE: &str = "a callback panicked";

/// With this many hanging pipelines the process starts no new ones.
const MAX_HANGING: usize = 8;

/// A pipeline; dropping it brings it to NULL on a thread of its own.
#[derive(Debug)]
pub(super) struct RunningPipeline {
    pipeline: gst::Pipeline,
    bus: gst::Bus,
    waker: ThreadWaker,
    registration: Registration,
    is_detecting: bool,
}

/// Whether hlssink2 complains that a fragment was closed which it knows as closed: on a busy machine splitmuxsink sometimes
/// reports the end of a fragment twice (GStreamer 1.22, seen twice). By then all its bytes are written, and a
/// complete segment is checked frame by frame.
fn is_repeated_close(error: &gst::message::Error) -> bool {
    let is_hls_sink = |source: &gst::Object| {
        source
            .downcast_ref::<gst::Element>()
            .and_then(|element| element.factory())
            .is_some_and(|factory| factory.name() == "hlssink2")
    };
    error.error().matches(gst::ResourceError::OpenWrite) && error.src().is_some_and(is_hls_sink)
}

/// Result of a seek, set when it is over: whether it succeeded.
pub(super) type SeekResult = Arc<OnceLock<bool>>;

impl RunningPipeline {
    /// Builds `text` with the (video, audio) encoders; every bus message wakes `waker`. `label` is part of the pipeline's
    /// name.
    pub(super) fn new(text: LaunchText, encoders: (&str, &str), label: &str, waker: &ThreadWaker) -> Result<Self> {
        if count_hanging() >= MAX_HANGING {
            return Err(RunError::Internal("too many pipelines of this process hang".into()));
        }
        let pipeline = text.parse(encoders.0, encoders.1)?;
        pipeline.set_property("name", format!("{}-{label}", text.name));
        let bus = pipeline.bus().ok_or_else(|| RunError::Internal("the pipeline has no bus".into()))?;
        let bus_waker = waker.clone();
        bus.set_sync_handler(move |_, _| {
            bus_waker.run_callback("bus", gst::BusSyncReply::Pass, || gst::BusSyncReply::Pass)
        });
        let registration = registry::register(&pipeline);
        Ok(Self { pipeline, bus, waker: waker.clone(), registration, is_detecting: false })
    }

    pub(super) fn element(&self, name: &str) -> Result<gst::Element> {
        let missing = || RunError::Internal(format!("{} has no element {name}", self.pipeline.name()));
        self.pipeline.by_name(name).ok_or_else(missing)
    }

    pub(super) fn element_of_type<T: IsA<gst::Element>>(&self, name: &str) -> Result<T> {
        let wrong_type =
            |_| RunError::Internal(format!("{name} of {} is an element of another type", self.pipeline.name()));
        self.element(name)?.downcast::<T>().map_err(wrong_type)
    }

    /// Whether an element of this factory is part of it.
    pub(super) fn has_element_of(&self, factory: &str) -> bool {
        let is_of = |element: &gst::Element| element.factory().is_some_and(|found| found.name() == factory);
        self.pipeline.iterate_recurse().into_iter().flatten().any(|element| is_of(&element))
    }

    /// Calls `configure` for every element that a bin of it adds from now on.
    pub(super) fn on_element_added(&self, configure: impl Fn(&gst::Element) + Send + Sync + 'static) {
        let waker = self.waker.clone();
        self.pipeline.connect_deep_element_added(move |_, _, element| {
            waker.run_callback("element", (), || configure(element));
        });
    }

    pub(super) fn set_state(&self, state: gst::State) -> Result<()> {
        self.pipeline.set_state(state).map(|_| ()).map_err(|_| match self.next_error() {
            Some(error) => RunError::Decode(error),
            None => RunError::Internal(format!("{} does not start", self.pipeline.name())),
        })
    }

    /// Whether it has reached PAUSED, its sinks prerolled.
    pub(super) fn is_prerolled(&self) -> bool {
        let (change, current, pending) = self.pipeline.state(gst::ClockTime::ZERO);
        change == Ok(gst::StateChangeSuccess::Success)
            && current == gst::State::Paused
            && pending == gst::State::VoidPending
    }

    /// Seeks to the keyframe at or before `position`, on a GStreamer thread because a demuxer may take long or never return.
    pub(super) fn seek(&self, position: gst::ClockTime) -> SeekResult {
        self.send_seek(position, |pipeline, seek| pipeline.send_event(seek))
    }

    /// The same by the demuxer of this pad, before there is a sink to seek.
    pub(super) fn seek_from(&self, demuxer_pad: &gst::Pad, position: gst::ClockTime) -> SeekResult {
        let demuxer_pad = demuxer_pad.clone();
        self.send_seek(position, move |_, seek| demuxer_pad.send_event(seek))
    }

    fn send_seek(
        &self,
        position: gst::ClockTime,
        send: impl FnOnce(&gst::Pipeline, gst::Event) -> bool + Send + 'static,
    ) -> SeekResult {
        let seek_result = SeekResult::default();
        let (result, waker) = (seek_result.clone(), self.waker.clone());
        self.pipeline.call_async(move |pipeline| {
            waker.run_callback("seek", (), || {
                #[cfg(test)]
                if waker.take_injected("lost") {
                    return;
                }
                let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::KEY_UNIT | gst::SeekFlags::SNAP_BEFORE;
                let (start, stop) = (gst::SeekType::Set, gst::SeekType::None);
                let seek = gst::event::Seek::new(1.0, flags, start, position, stop, gst::ClockTime::NONE);
                let _ = result.set(send(pipeline, seek));
            });
        });
        seek_result
    }

    /// The next error of its bus; other messages are logged.
    pub(super) fn next_error(&self) -> Option<String> {
        if self.waker.has_panicked() {
            return Some(self.record_error(PANIC_MESSAGE.into()));
        }
        while let Some(message) = self.bus.pop() {
            self.log_message(&message);
            let gst::MessageView::Error(error) = message.view() else { continue };
            if is_repeated_close(error) {
                continue;
            }
            // An element whose callback just panicked reports a follow-up error.
            if self.waker.has_panicked() {
                return Some(self.record_error(PANIC_MESSAGE.into()));
            }
            let source = message.src().map_or_else(String::new, |source| format!("{}: ", source.name()));
            return Some(self.record_error(format!("{source}{}", error.error())));
        }
        None
    }

    /// Sets whether it is still detecting the format of its file. If stopped then, urisourcebin of GStreamer 1.22 may
    /// deadlock with its own type finder (seen twice in 700 starts and stops). So `stop_in_background` first lets it
    /// reach a stable state.
    pub(super) fn set_detecting(&mut self, is_detecting: bool) {
        self.is_detecting = is_detecting;
    }

    /// Records it as stalled.
    pub(super) fn record_stall(&self) {
        self.registration.record_failure(&self.pipeline, "no progress");
    }

    fn record_error(&self, error: String) -> String {
        self.registration.record_failure(&self.pipeline, &error);
        error
    }

    /// Logs a message in the registry, for diagnostics.
    fn log_message(&self, message: &gst::Message) {
        let source = message.src().map_or_else(String::new, |source| source.name().to_string());
        self.registration.log_message(match message.view() {
            gst::MessageView::Error(error) => {
                format!("error {source}: {} ({})", error.error(), error.debug().unwrap_or_default())
            }
            gst::MessageView::Warning(warning) => format!("warning {source}: {}", warning.error()),
            gst::MessageView::StateChanged(changed) => format!("{source} is {:?}", changed.current()),
            gst::MessageView::Element(element) => {
                format!("{source} posted {}", element.structure().map_or("", |structure| structure.name()))
            }
            gst::MessageView::AsyncDone(_) => "settled".into(),
            gst::MessageView::Eos(_) => "ended".into(),
            _ => return,
        });
    }
}

impl Drop for RunningPipeline {
    fn drop(&mut self) {
        self.bus.unset_sync_handler();
        stop_in_background(self.pipeline.clone(), self.is_detecting);
    }
}

/// Stops in progress, by number: the pipeline's name, and since when.
static STOPPING_PIPELINES: LazyLock<Mutex<HashMap<u64, (String, Instant)>>> = LazyLock::new(Mutex::default);

/// Brings a pipeline to NULL on another thread: an element may take long, or never return.
fn stop_in_background(pipeline: gst::Pipeline, is_detecting: bool) {
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = pipeline.name().to_string();
    let stopping = || STOPPING_PIPELINES.lock().unwrap_or_else(PoisonError::into_inner);
    stopping().insert(number, (name, Instant::now()));
    let stopping_pipeline = pipeline.clone();
    let spawned = std::thread::Builder::new().name("gst-stop".into()).spawn(move || {
        if is_detecting {
            let _ = stopping_pipeline.state(SETTLE_TIMEOUT);
        }
        let _ = stopping_pipeline.set_state(gst::State::Null);
        drop(stopping_pipeline);
        STOPPING_PIPELINES.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    });
    if spawned.is_err() {
        // No thread is available: better to wait here than to leave it running.
        let _ = pipeline.set_state(gst::State::Null);
        stopping().remove(&number);
    }
}

/// Number of pipelines that have not stopped in time.
fn count_hanging() -> usize {
    let stopping = STOPPING_PIPELINES.lock().unwrap_or_else(PoisonError::into_inner);
    stopping.values().filter(|(_, since)| since.elapsed() > STOP_DEADLINE).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_close_of_hlssink2_is_no_error() {
        gst::init().unwrap();
        let make = |factory: &str| gst::ElementFactory::make(factory).build().unwrap();
        let is_ignored = |source: &gst::Element, error: gst::ResourceError| {
            let message = gst::message::Error::builder(error, "").src(source).build();
            let gst::MessageView::Error(error) = message.view() else { panic!("an error") };
            is_repeated_close(error)
        };
        let hls_sink = make("hlssink2");
        assert!(is_ignored(&hls_sink, gst::ResourceError::OpenWrite));
        assert!(!is_ignored(&hls_sink, gst::ResourceError::Write));
        assert!(!is_ignored(&make("fakesink"), gst::ResourceError::OpenWrite));
    }
}
