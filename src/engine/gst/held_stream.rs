//! A stream held at its demuxer until the pipeline has started to seek.
//!
//! A demuxer can only seek once it has read the file's headers. Without this, a pipeline would also decode and preroll the first
//! frames of the file, which the seek discards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use gstreamer as gst;
use gstreamer::prelude::*;

use super::panic_guard::ThreadWaker;

/// Blocks a demuxer's pad at its first buffer, once, until it is released.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldStream(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Set when the first buffer has arrived. Weak, because the pad's probe has this state.
    pad: OnceLock<gst::glib::WeakRef<gst::Pad>>,
    is_released: AtomicBool,
}

impl HeldStream {
    /// Holds the stream of `pad`. To be called before data flows; wakes the run's thread at the first buffer.
    pub(super) fn hold(&self, pad: &gst::Pad, wake: &ThreadWaker) {
        let (state, wake) = (self.0.clone(), wake.clone());
        pad.add_probe(gst::PadProbeType::BLOCK | gst::PadProbeType::BUFFER, move |pad, _| {
            // `Remove` lets the stream flow if the callback panics: the run then ends by itself.
            wake.run_callback("hold", gst::PadProbeReturn::Remove, || {
                let _ = state.pad.set(pad.downgrade());
                match state.is_released.load(Ordering::SeqCst) {
                    true => gst::PadProbeReturn::Remove,
                    false => gst::PadProbeReturn::Ok,
                }
            })
        });
    }

    /// The pad, once its first buffer has arrived.
    pub(super) fn pad(&self) -> Option<gst::Pad> {
        self.0.pad.get()?.upgrade()
    }

    /// Lets buffers pass from the next one on; the one that is blocked is discarded by the flush of a seek.
    pub(super) fn release(&self) {
        self.0.is_released.store(true, Ordering::SeqCst);
    }
}
