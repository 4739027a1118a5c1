//! A stream by SRT, received by GStreamer's `srtsrc` in this process, so that its passphrase stands in no list of processes.
//!
//! It is told an address that was checked, never a name, and SRT knows no redirects: it cannot be led elsewhere. What comes
//! is bytes; whoever looks into them is a child process, as with every other stream.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use super::Fault;
use crate::domain::address::Address;

/// Packets that wait to be taken at most, of 1316 bytes usually: half a second of 80 Mbit/s. More are lost, as on the way.
const WAITING: usize = 4096;

/// Bytes given at once, about.
const MOST_AT_ONCE: usize = 64 << 10;

/// How long nothing may come, and how long the other side may take to answer.
const IDLE: Duration = Duration::from_secs(10);

/// A stream under way. Dropping it ends it.
#[derive(Debug)]
pub struct Receiver {
    pipeline: gst::Pipeline,
    packets: Packets,
    /// Why there are no more.
    ended: Option<String>,
    _place: OwnedSemaphorePermit,
}

/// Calls the server of an address, at where that was found to lead.
///
/// # Errors
/// `Fault::Broken` where GStreamer has no SRT, or the call fails at once.
pub async fn call(address: &Address, to: SocketAddr, place: OwnedSemaphorePermit) -> Result<Receiver, Fault> {
    let address = address.clone();
    // Opening waits for the other side.
    let called = tokio::task::spawn_blocking(move || start(&address, to));
    let (pipeline, packets) = called.await.map_err(|fault| Fault::Broken(fault.to_string()))??;
    Ok(Receiver { pipeline, packets, ended: None, _place: place })
}

/// Packets, and at their end why.
type Packets = mpsc::Receiver<Result<Bytes, String>>;

fn start(address: &Address, to: SocketAddr) -> Result<(gst::Pipeline, Packets), Fault> {
    let broken = |cause: &dyn std::fmt::Display| Fault::Broken(cause.to_string());
    gst::init().map_err(|cause| broken(&cause))?;
    let lacking = |_| Fault::Broken("GStreamer has no srtsrc here (gstreamer1.0-plugins-bad)".into());
    let source = gst::ElementFactory::make("srtsrc").build().map_err(lacking)?;
    source.set_property("uri", format!("srt://{to}?mode=caller"));
    for (name, value) in address.secret().query_pairs() {
        match (&*name, value.parse::<i32>()) {
            ("streamid" | "passphrase", _) => source.set_property(&name, &*value),
            ("latency", Ok(ms)) => source.set_property("latency", ms.clamp(20, 8000)),
            ("pbkeylen", Ok(length @ (16 | 24 | 32))) => source.set_property_from_str("pbkeylen", &length.to_string()),
            _ => {}
        }
    }
    // Whoever takes it in has a patience of its own.
    if source.has_property("auto-reconnect") {
        source.set_property("auto-reconnect", false);
    }
    let (send, packets) = mpsc::channel(WAITING);
    let sink = app::AppSink::builder().sync(false).build();
    let (arrived, ended) = (send.clone(), send);
    let callbacks = app::AppSinkCallbacks::builder().new_sample(move |sink| {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        let Some(map) = sample.buffer().and_then(|buffer| buffer.map_readable().ok()) else {
            return Ok(gst::FlowSuccess::Ok);
        };
        match arrived.try_send(Ok(Bytes::copy_from_slice(&map))) {
            Err(mpsc::error::TrySendError::Closed(_)) => Err(gst::FlowError::Eos),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(gst::FlowSuccess::Ok),
        }
    });
    sink.set_callbacks(callbacks.build());
    let pipeline = gst::Pipeline::with_name("srt");
    pipeline.add_many([&source, sink.upcast_ref()]).map_err(|cause| broken(&cause))?;
    source.link(&sink).map_err(|cause| broken(&cause))?;
    let bus = pipeline.bus().ok_or_else(|| Fault::Broken("a pipeline without a bus".into()))?;
    bus.set_sync_handler(move |_, message| {
        // Its own words name no address; its details would.
        let said = match message.view() {
            gst::MessageView::Error(error) => Some(error.error().message().to_owned()),
            gst::MessageView::Eos(_) => Some("it came to its end".to_owned()),
            _ => None,
        };
        if let Some(said) = said {
            let _ = ended.try_send(Err(said));
        }
        gst::BusSyncReply::Drop
    });
    if pipeline.set_state(gst::State::Playing).is_err() {
        let _ = pipeline.set_state(gst::State::Null);
        return Err(Fault::Broken("it does not take the call".into()));
    }
    Ok((pipeline, packets))
}

impl Receiver {
    /// The next packets, as many as are there.
    ///
    /// # Errors
    /// `Fault::TooSlow`, `Fault::Broken`.
    pub async fn next(&mut self) -> Result<Bytes, Fault> {
        if let Some(why) = self.ended.take() {
            return Err(Fault::Broken(why));
        }
        let first = timeout(IDLE, self.packets.recv()).await.map_err(|_| Fault::TooSlow("nothing comes"))?;
        let first = first.ok_or_else(|| Fault::Broken("it came to its end".into()))?.map_err(Fault::Broken)?;
        let mut all = Vec::from(first);
        while all.len() < MOST_AT_ONCE {
            match self.packets.try_recv() {
                Ok(Ok(more)) => all.extend_from_slice(&more),
                Ok(Err(why)) => {
                    self.ended = Some(why);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(all.into())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.packets.close();
        let pipeline = self.pipeline.clone();
        // May wait for threads of its own.
        let stopping = move || {
            let _ = pipeline.set_state(gst::State::Null);
        };
        if std::thread::Builder::new().name("srt-stop".into()).spawn(stopping).is_err() {
            tracing::warn!("an SRT stream could not be stopped");
        }
    }
}
