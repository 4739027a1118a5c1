//! A running pipeline: its elements by name, its bus, and its shutdown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;

use super::board::{self, Pin};
use super::guard::Wake;
use super::text::Text;
use crate::engine::RunError;

/// A pipeline that takes longer to stop counts as hanging.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// How long a pipeline that is opening its file may take to reach a stable state before it is stopped.
const REST: gst::ClockTime = gst::ClockTime::from_seconds(4);

/// Error of a run whose callback panicked.
const PANICKED: &str = "a callback panicked";

/// With this many hanging pipelines the process starts no new ones.
const MOST_HANGING: usize = 8;

/// A pipeline; dropping it brings it to NULL on a thread of its own.
#[derive(Debug)]
pub(super) struct Live {
    pipeline: gst::Pipeline,
    bus: gst::Bus,
    wake: Wake,
    pin: Pin,
    opening: bool,
}

/// Result of a seek, set when it is over: whether it succeeded.
pub(super) type Sought = Arc<OnceLock<bool>>;

/// A message of a pipeline's bus.
#[derive(Debug)]
pub(super) enum Said {
    Settled,
    Ended,
    Fault(String),
}

impl Live {
    /// Builds `text` with the (video, audio) encoders; every bus message wakes `wake`. `of` is part of the pipeline's name.
    pub(super) fn new(text: Text, encoders: (&str, &str), of: &str, wake: &Wake) -> Result<Self, RunError> {
        if hanging() >= MOST_HANGING {
            return Err(RunError::Internal("too many pipelines of this process hang".into()));
        }
        let pipeline = text.parse(encoders.0, encoders.1)?;
        pipeline.set_property("name", format!("{}-{of}", text.name));
        let bus = pipeline.bus().ok_or_else(|| RunError::Internal("the pipeline has no bus".into()))?;
        let waking = wake.clone();
        bus.set_sync_handler(move |_, _| waking.callback("bus", gst::BusSyncReply::Pass, || gst::BusSyncReply::Pass));
        let pin = board::pin(&pipeline);
        Ok(Self { pipeline, bus, wake: wake.clone(), pin, opening: false })
    }

    pub(super) fn element(&self, name: &str) -> Result<gst::Element, RunError> {
        let missing = || RunError::Internal(format!("{} has no element {name}", self.pipeline.name()));
        self.pipeline.by_name(name).ok_or_else(missing)
    }

    pub(super) fn typed<T: IsA<gst::Element>>(&self, name: &str) -> Result<T, RunError> {
        let other = |_| RunError::Internal(format!("{name} of {} is an element of another type", self.pipeline.name()));
        self.element(name)?.downcast::<T>().map_err(other)
    }

    pub(super) fn go(&self, state: gst::State) -> Result<(), RunError> {
        self.pipeline.set_state(state).map(|_| ()).map_err(|_| match self.complaint() {
            Some(said) => RunError::Decode(said),
            None => RunError::Internal(format!("{} does not start", self.pipeline.name())),
        })
    }

    /// Whether it has reached PAUSED, its sinks prerolled.
    pub(super) fn rests(&self) -> bool {
        let (change, now, pending) = self.pipeline.state(gst::ClockTime::ZERO);
        change == Ok(gst::StateChangeSuccess::Success)
            && now == gst::State::Paused
            && pending == gst::State::VoidPending
    }

    /// Seeks to the keyframe at or before `at`, on a GStreamer thread because a demuxer may take long or never return.
    pub(super) fn seek(&self, at: gst::ClockTime) -> Sought {
        let sought = Sought::default();
        let (told, wake) = (sought.clone(), self.wake.clone());
        self.pipeline.call_async(move |pipeline| {
            wake.callback("seek", (), || {
                #[cfg(test)]
                if wake.hit("lost") {
                    return;
                }
                let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::KEY_UNIT | gst::SeekFlags::SNAP_BEFORE;
                let _ = told.set(pipeline.seek_simple(flags, at).is_ok());
            });
        });
        sought
    }

    /// The next relevant message of its bus.
    pub(super) fn said(&self) -> Option<Said> {
        if self.wake.broken() {
            return Some(self.fault(PANICKED.into()));
        }
        while let Some(message) = self.bus.pop() {
            self.note(&message);
            match message.view() {
                gst::MessageView::Error(error) => {
                    // An element whose callback just panicked reports a follow-up error.
                    if self.wake.broken() {
                        return Some(self.fault(PANICKED.into()));
                    }
                    let source = message.src().map_or_else(String::new, |source| format!("{}: ", source.name()));
                    return Some(self.fault(format!("{source}{}", error.error())));
                }
                gst::MessageView::AsyncDone(_) => return Some(Said::Settled),
                gst::MessageView::Eos(_) => return Some(Said::Ended),
                _ => {}
            }
        }
        None
    }

    /// Sets whether it is still detecting the format of its file. If stopped then, urisourcebin of GStreamer 1.22 may
    /// deadlock with its own type finder (seen twice in 700 starts and stops). So `stop` first lets it reach a stable
    /// state.
    pub(super) fn set_opening(&mut self, opening: bool) {
        self.opening = opening;
    }

    /// Records it as stalled.
    pub(super) fn stalled(&self) {
        self.pin.failed(&self.pipeline, "no progress");
    }

    fn fault(&self, error: String) -> Said {
        self.pin.failed(&self.pipeline, &error);
        Said::Fault(error)
    }

    /// Logs a message in the registry, for diagnostics.
    fn note(&self, message: &gst::Message) {
        let source = message.src().map_or_else(String::new, |source| source.name().to_string());
        match message.view() {
            gst::MessageView::Error(error) => {
                self.pin.note(format!("error {source}: {} ({})", error.error(), error.debug().unwrap_or_default()));
            }
            gst::MessageView::Warning(warning) => {
                self.pin.note(format!("warning {source}: {}", warning.error()));
            }
            gst::MessageView::StateChanged(changed) => {
                self.pin.note(format!("{source} is {:?}", changed.current()));
            }
            gst::MessageView::Element(element) => {
                self.pin.note(format!("{source} posted {}", element.structure().map_or("", |told| told.name())));
            }
            gst::MessageView::AsyncDone(_) => self.pin.note("settled".into()),
            gst::MessageView::Eos(_) => self.pin.note("ended".into()),
            _ => {}
        }
    }

    fn complaint(&self) -> Option<String> {
        std::iter::from_fn(|| self.said()).find_map(|said| match said {
            Said::Fault(text) => Some(text),
            _ => None,
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bus.unset_sync_handler();
        stop(self.pipeline.clone(), self.opening);
    }
}

/// Stops in progress, by number: the pipeline's name, and since when.
static STOPPING: LazyLock<Mutex<HashMap<u64, (String, Instant)>>> = LazyLock::new(Mutex::default);

/// Brings a pipeline to NULL on another thread: an element may take long, or never return.
fn stop(pipeline: gst::Pipeline, opening: bool) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = pipeline.name().to_string();
    let stopping = || STOPPING.lock().unwrap_or_else(PoisonError::into_inner);
    stopping().insert(number, (name, Instant::now()));
    let held = pipeline.clone();
    let spawned = std::thread::Builder::new().name("gst-stop".into()).spawn(move || {
        if opening {
            let _ = held.state(REST);
        }
        let _ = held.set_state(gst::State::Null);
        drop(held);
        STOPPING.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    });
    if spawned.is_err() {
        // No thread is available: better to wait here than to leave it running.
        let _ = pipeline.set_state(gst::State::Null);
        stopping().remove(&number);
    }
}

/// Number of pipelines that have not stopped in time.
pub(super) fn hanging() -> usize {
    let stopping = STOPPING.lock().unwrap_or_else(PoisonError::into_inner);
    stopping.values().filter(|(_, since)| since.elapsed() > STOP_DEADLINE).count()
}
