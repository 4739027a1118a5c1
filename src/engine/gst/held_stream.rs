//! A stream held at its demuxer until the pipeline has started to seek.
//!
//! A demuxer can only seek once it has read the file's headers. Without this, a pipeline would also decode and preroll the first
//! frames of the file, which the seek discards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use gstreamer as gst;
use gstreamer::prelude::*;

use super::panic_guard::ThreadWaker;

/// Blocks a demuxer's pad at its first data, once, until it is released.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldStream(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Set when the first data has arrived. Weak, because the pad's probe has this state.
    pad: OnceLock<gst::glib::WeakRef<gst::Pad>>,
    is_released: AtomicBool,
}

impl HeldStream {
    /// Holds the stream of `pad`. To be called before data flows; wakes the run's thread at the first data.
    pub(super) fn hold(&self, pad: &gst::Pad, wake: &ThreadWaker) {
        let (state, wake) = (self.0.clone(), wake.clone());
        let types = gst::PadProbeType::BLOCK | gst::PadProbeType::BUFFER | gst::PadProbeType::EVENT_DOWNSTREAM;
        pad.add_probe(types, move |pad, info| {
            // `Remove` lets the stream flow if the callback panics: the run then ends by itself.
            wake.run_callback("hold", gst::PadProbeReturn::Remove, || {
                if state.is_released.load(Ordering::SeqCst) {
                    return gst::PadProbeReturn::Remove;
                }
                if !is_start_of_data(info) {
                    return gst::PadProbeReturn::Pass;
                }
                let _ = state.pad.set(pad.downgrade());
                gst::PadProbeReturn::Ok
            })
        });
    }

    /// The pad, once its first data has arrived.
    pub(super) fn pad(&self) -> Option<gst::Pad> {
        self.0.pad.get()?.upgrade()
    }

    /// Lets buffers pass from the next one on; the one that is blocked is discarded by the flush of a seek.
    pub(super) fn release(&self) {
        self.0.is_released.store(true, Ordering::SeqCst);
    }
}

/// Whether this is a buffer, or a gap at the start of the stream: qtdemux sends one for an empty edit, and a sink in PAUSED blocks
/// the demuxer with it.
fn is_start_of_data(info: &gst::PadProbeInfo) -> bool {
    match &info.data {
        Some(gst::PadProbeData::Buffer(_)) => true,
        Some(gst::PadProbeData::Event(event)) => event.type_() == gst::EventType::Gap,
        _ => false,
    }
}
