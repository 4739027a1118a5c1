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

use super::OutboundError;
use crate::domain::address::Address;

/// Maximum number of queued packets, usually of 1316 bytes: half a second of 80 Mbit/s. Further packets are lost, as in
/// transit.
const MAX_QUEUED_PACKETS: usize = 4096;

/// Approximate maximum size of one read.
const MAX_READ_BYTES: usize = 64 << 10;

/// Maximum time without a packet, the first one included.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A running stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct SrtReceiver {
    pipeline: gst::Pipeline,
    packets: PacketReceiver,
    /// Why the packets ended.
    end_reason: Option<String>,
    _slot: OwnedSemaphorePermit,
}

/// Connects as a caller to the socket address that `address` was resolved to.
///
/// # Errors
/// `OutboundError::ConnectionFailed` if GStreamer has no `srtsrc`, or if the connection fails at once.
pub async fn connect(
    address: &Address,
    server: SocketAddr,
    slot: OwnedSemaphorePermit,
) -> Result<SrtReceiver, OutboundError> {
    let address = address.clone();
    // Opening blocks until the server responds.
    let started = tokio::task::spawn_blocking(move || start_pipeline(&address, server));
    let (pipeline, packets) = started.await.map_err(|fault| OutboundError::ConnectionFailed(fault.to_string()))??;
    Ok(SrtReceiver { pipeline, packets, end_reason: None, _slot: slot })
}

/// Packets, and at the end the reason.
type PacketReceiver = mpsc::Receiver<Result<Bytes, String>>;

fn start_pipeline(address: &Address, server: SocketAddr) -> Result<(gst::Pipeline, PacketReceiver), OutboundError> {
    let failed = |cause: &dyn std::fmt::Display| OutboundError::ConnectionFailed(cause.to_string());
    gst::init().map_err(|cause| failed(&cause))?;
    let missing =
        |_| OutboundError::ConnectionFailed("GStreamer has no srtsrc (install gstreamer1.0-plugins-bad)".into());
    let source = gst::ElementFactory::make("srtsrc").build().map_err(missing)?;
    source.set_property("uri", format!("srt://{server}?mode=caller"));
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
    let (sender, packets) = mpsc::channel(MAX_QUEUED_PACKETS);
    let sink = app::AppSink::builder().sync(false).build();
    let (packet_sender, end_sender) = (sender.clone(), sender);
    let callbacks = app::AppSinkCallbacks::builder().new_sample(move |sink| {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        let Some(map) = sample.buffer().and_then(|buffer| buffer.map_readable().ok()) else {
            return Ok(gst::FlowSuccess::Ok);
        };
        match packet_sender.try_send(Ok(Bytes::copy_from_slice(&map))) {
            Err(mpsc::error::TrySendError::Closed(_)) => Err(gst::FlowError::Eos),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(gst::FlowSuccess::Ok),
        }
    });
    sink.set_callbacks(callbacks.build());
    let pipeline = gst::Pipeline::with_name("srt");
    pipeline.add_many([&source, sink.upcast_ref()]).map_err(|cause| failed(&cause))?;
    source.link(&sink).map_err(|cause| failed(&cause))?;
    let bus = pipeline.bus().ok_or_else(|| OutboundError::ConnectionFailed("the pipeline has no bus".into()))?;
    bus.set_sync_handler(move |_, message| {
        // The message contains no address; the debug details would.
        let reason = match message.view() {
            gst::MessageView::Error(error) => Some(error.error().message().to_owned()),
            gst::MessageView::Eos(_) => Some("the stream ended".to_owned()),
            _ => None,
        };
        if let Some(reason) = reason {
            let _ = end_sender.try_send(Err(reason));
        }
        gst::BusSyncReply::Drop
    });
    if pipeline.set_state(gst::State::Playing).is_err() {
        let _ = pipeline.set_state(gst::State::Null);
        return Err(OutboundError::ConnectionFailed("the server does not accept the connection".into()));
    }
    Ok((pipeline, packets))
}

impl SrtReceiver {
    /// The next packets, as many as are queued; the error is why there are no more.
    pub async fn next(&mut self) -> Result<Bytes, OutboundError> {
        if let Some(reason) = self.end_reason.take() {
            return Err(OutboundError::ConnectionFailed(reason));
        }
        let first =
            timeout(IDLE_TIMEOUT, self.packets.recv()).await.map_err(|_| OutboundError::Timeout("no data received"))?;
        let ended = || OutboundError::ConnectionFailed("the stream ended".into());
        let first = first.ok_or_else(ended)?.map_err(OutboundError::ConnectionFailed)?;
        let mut bytes = Vec::from(first);
        while bytes.len() < MAX_READ_BYTES {
            match self.packets.try_recv() {
                Ok(Ok(packet)) => bytes.extend_from_slice(&packet),
                Ok(Err(reason)) => {
                    self.end_reason = Some(reason);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(bytes.into())
    }
}

impl Drop for SrtReceiver {
    fn drop(&mut self) {
        self.packets.close();
        let pipeline = self.pipeline.clone();
        // May block on GStreamer's threads.
        let stop = move || {
            let _ = pipeline.set_state(gst::State::Null);
        };
        if std::thread::Builder::new().name("srt-stop".into()).spawn(stop).is_err() {
            tracing::warn!("could not stop an SRT stream: no thread");
        }
    }
}
