//! A stream by SRT, received by GStreamer's `srtsrc`: in a worker, or in this process for servers without workers. Its
//! passphrase never appears in the list of processes.
//!
//! `srtsrc` gets a checked address, never a name, and SRT has no redirects, so it reaches no other server. It delivers
//! bytes, which a child process demuxes, as for every other stream.

use std::net::SocketAddr;

use bytes::Bytes;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;
use tokio::sync::mpsc;

use super::initialize;

/// Maximum number of queued packets, usually of 1316 bytes: half a second of 80 Mbit/s. Further packets are lost, as in
/// transit.
const MAX_QUEUED_PACKETS: usize = 4096;

/// Approximate maximum size of one read.
const MAX_READ_BYTES: usize = 64 << 10;

/// Packets, and at the end the reason.
type PacketReceiver = mpsc::Receiver<Result<Bytes, String>>;

/// A running stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct SrtStream {
    pipeline: gst::Pipeline,
    packets: PacketReceiver,
    /// Why the packets ended.
    end_reason: Option<String>,
}

impl SrtStream {
    /// Connects as a caller. Blocks until the server responds. `options` are properties of `srtsrc`: `streamid`,
    /// `passphrase`, `latency` (milliseconds) and `pbkeylen`; others are ignored.
    ///
    /// # Errors
    /// If GStreamer has no `srtsrc`, or if the connection fails at once. Without the address.
    pub fn connect(server: SocketAddr, options: &[(String, String)]) -> Result<Self, String> {
        initialize()?;
        let missing = |_| "GStreamer has no srtsrc (install gstreamer1.0-plugins-bad)".to_owned();
        let source = gst::ElementFactory::make("srtsrc").build().map_err(missing)?;
        source.set_property("uri", format!("srt://{server}?mode=caller"));
        for (name, value) in options {
            set_option(&source, name, value);
        }
        // The ingest has its own retry policy.
        if source.has_property("auto-reconnect") {
            source.set_property("auto-reconnect", false);
        }
        let (sender, packets) = mpsc::channel(MAX_QUEUED_PACKETS);
        let sink = app::AppSink::builder().sync(false).build();
        sink.set_callbacks(packet_callbacks(sender.clone()));
        let pipeline = gst::Pipeline::with_name("srt");
        pipeline.add_many([&source, sink.upcast_ref()]).map_err(|cause| cause.to_string())?;
        source.link(&sink).map_err(|cause| cause.to_string())?;
        let bus = pipeline.bus().ok_or("the pipeline has no bus")?;
        bus.set_sync_handler(move |_, message| {
            // The message contains no address; the debug details would.
            let reason = match message.view() {
                gst::MessageView::Error(error) => Some(error.error().message().to_owned()),
                gst::MessageView::Eos(_) => Some("the stream ended".to_owned()),
                _ => None,
            };
            if let Some(reason) = reason {
                let _ = sender.try_send(Err(reason));
            }
            gst::BusSyncReply::Drop
        });
        // From here on dropping it stops the pipeline.
        let stream = Self { pipeline, packets, end_reason: None };
        let started = stream.pipeline.set_state(gst::State::Playing);
        started.map_err(|_| "the server does not accept the connection".to_owned())?;
        Ok(stream)
    }

    /// The next packets, as many as are queued. Waits as long as it takes.
    ///
    /// # Errors
    /// Why there are no more.
    pub async fn next(&mut self) -> Result<Bytes, String> {
        self.check_end()?;
        let first = self.packets.recv().await;
        self.gather(first)
    }

    /// Passes all bytes to `deliver`, until the stream ends. Returns why it ended. Blocks; not for async threads.
    pub fn receive_all(mut self, mut deliver: impl FnMut(&[u8])) -> String {
        let mut next = || {
            self.check_end()?;
            let first = self.packets.blocking_recv();
            self.gather(first)
        };
        loop {
            match next() {
                Ok(bytes) => deliver(&bytes),
                Err(reason) => return reason,
            }
        }
    }

    fn check_end(&mut self) -> Result<(), String> {
        self.end_reason.take().map_or(Ok(()), Err)
    }

    /// The first packet and those queued after it.
    fn gather(&mut self, first: Option<Result<Bytes, String>>) -> Result<Bytes, String> {
        let mut bytes = Vec::from(first.ok_or("the stream ended")??);
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

impl Drop for SrtStream {
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

fn set_option(source: &gst::Element, name: &str, value: &str) {
    match (name, value.parse::<i32>()) {
        ("streamid" | "passphrase", _) => source.set_property(name, value),
        ("latency", Ok(ms)) => source.set_property("latency", ms.clamp(20, 8000)),
        ("pbkeylen", Ok(length @ (16 | 24 | 32))) => source.set_property_from_str("pbkeylen", &length.to_string()),
        _ => {}
    }
}

/// Queues the packets of a sink. They are dropped while the queue is full.
fn packet_callbacks(packets: mpsc::Sender<Result<Bytes, String>>) -> app::AppSinkCallbacks {
    let callbacks = app::AppSinkCallbacks::builder().new_sample(move |sink| {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        let Some(map) = sample.buffer().and_then(|buffer| buffer.map_readable().ok()) else {
            return Ok(gst::FlowSuccess::Ok);
        };
        match packets.try_send(Ok(Bytes::copy_from_slice(&map))) {
            Err(mpsc::error::TrySendError::Closed(_)) => Err(gst::FlowError::Eos),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(gst::FlowSuccess::Ok),
        }
    });
    callbacks.build()
}
