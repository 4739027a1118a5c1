//! A stream by SRT, received by GStreamer's `srtsrc` in this process, so that its passphrase does not appear in the list
//! of processes.
//!
//! `srtsrc` gets a checked address, never a name, and SRT has no redirects, so it reaches no other server. It delivers
//! bytes, which a child process demuxes, as for every other stream.

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

/// Maximum number of queued packets, usually of 1316 bytes: half a second of 80 Mbit/s. Further packets are lost, as in
/// transit.
const WAITING: usize = 4096;

/// Approximate maximum size of one read.
const MOST_AT_ONCE: usize = 64 << 10;

/// Maximum time without a packet, the first one included.
const IDLE: Duration = Duration::from_secs(10);

/// A running stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct Receiver {
    pipeline: gst::Pipeline,
    packets: Packets,
    /// Why the packets ended.
    ended: Option<String>,
    _place: OwnedSemaphorePermit,
}

/// Connects as a caller to the socket address `to` that an address was resolved to.
///
/// # Errors
/// `Fault::Broken` if GStreamer has no `srtsrc`, or if the connection fails at once.
pub async fn call(address: &Address, to: SocketAddr, place: OwnedSemaphorePermit) -> Result<Receiver, Fault> {
    let address = address.clone();
    // Opening blocks until the server responds.
    let called = tokio::task::spawn_blocking(move || start(&address, to));
    let (pipeline, packets) = called.await.map_err(|fault| Fault::Broken(fault.to_string()))??;
    Ok(Receiver { pipeline, packets, ended: None, _place: place })
}

/// Packets, and at the end the reason.
type Packets = mpsc::Receiver<Result<Bytes, String>>;

fn start(address: &Address, to: SocketAddr) -> Result<(gst::Pipeline, Packets), Fault> {
    let broken = |cause: &dyn std::fmt::Display| Fault::Broken(cause.to_string());
    gst::init().map_err(|cause| broken(&cause))?;
    let lacking = |_| Fault::Broken("GStreamer has no srtsrc (install gstreamer1.0-plugins-bad)".into());
    let source = gst::ElementFactory::make("srtsrc").build().map_err(lacking)?;
    source.set_property("uri", format!("srt://{to}?mode=caller"));
    for (name, value) in address.full_url().query_pairs() {
        match (&*name, value.parse::<i32>()) {
            ("streamid" | "passphrase", _) => source.set_property(&name, &*value),
            ("latency", Ok(ms)) => source.set_property("latency", ms.clamp(20, 8000)),
            ("pbkeylen", Ok(length @ (16 | 24 | 32))) => source.set_property_from_str("pbkeylen", &length.to_string()),
            _ => {}
        }
    }
    // The ingest has its own retry policy.
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
    let bus = pipeline.bus().ok_or_else(|| Fault::Broken("the pipeline has no bus".into()))?;
    bus.set_sync_handler(move |_, message| {
        // The message contains no address; the debug details would.
        let said = match message.view() {
            gst::MessageView::Error(error) => Some(error.error().message().to_owned()),
            gst::MessageView::Eos(_) => Some("the stream ended".to_owned()),
            _ => None,
        };
        if let Some(said) = said {
            let _ = ended.try_send(Err(said));
        }
        gst::BusSyncReply::Drop
    });
    if pipeline.set_state(gst::State::Playing).is_err() {
        let _ = pipeline.set_state(gst::State::Null);
        return Err(Fault::Broken("the server does not accept the connection".into()));
    }
    Ok((pipeline, packets))
}

impl Receiver {
    /// The next packets, as many as are queued.
    ///
    /// # Errors
    /// `Fault::TooSlow`, `Fault::Broken`.
    pub async fn next(&mut self) -> Result<Bytes, Fault> {
        if let Some(why) = self.ended.take() {
            return Err(Fault::Broken(why));
        }
        let first = timeout(IDLE, self.packets.recv()).await.map_err(|_| Fault::TooSlow("no data received"))?;
        let first = first.ok_or_else(|| Fault::Broken("the stream ended".into()))?.map_err(Fault::Broken)?;
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
        // May block on GStreamer's threads.
        let stopping = move || {
            let _ = pipeline.set_state(gst::State::Null);
        };
        if std::thread::Builder::new().name("srt-stop".into()).spawn(stopping).is_err() {
            tracing::warn!("could not stop an SRT stream: no thread");
        }
    }
}
