//! `hearthcast worker --server`: makes runs of a server on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::time::interval;

use super::message::RunOffer;
use super::{nats, subjects};
use crate::domain::worker::remote::WorkerReport;
use crate::engine::ffmpeg::FfmpegBackend;

mod block_cache;
mod codecs;
mod credential_file;
mod range_server;
mod run;
mod server_client;

use codecs::MachineCodecs;
use credential_file::CredentialFile;
use run::WorkerRun;
use server_client::ServerClient;

const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const RENEWAL_CHECK_INTERVAL: Duration = Duration::from_secs(600);
const BEAT_INTERVAL: Duration = Duration::from_millis(300);

/// How long one request for offers waits at the queue.
const PULL_TIME: Duration = Duration::from_secs(5);

/// Pause after an error of the queue.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The options of a worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Base URL of the server.
    pub server: String,
    /// The one-time code, needed at the first start.
    pub code: Option<String>,
    /// Folder of its credential.
    pub state: PathBuf,
    /// Runs at once.
    pub slots: usize,
    pub ffmpeg: PathBuf,
    /// Hardware encoders and decoders that are never used, by ffmpeg's names; [`crate::config::FORBIDDEN_HARDWARE`] forbids all of them.
    pub forbidden: Vec<String>,
    /// Name of this machine in lists.
    pub name: String,
}

/// Enrols with the code if there is one, and works until it is dropped.
///
/// # Errors
/// Why it cannot start, for people.
pub async fn work(options: WorkerOptions) -> Result<(), String> {
    let file = CredentialFile::new(&options.state);
    let server = match &options.code {
        Some(code) => {
            let (server, stored) = ServerClient::enrol(&options.server, code, &options.name).await?;
            file.write(&stored)?;
            server
        }
        None => ServerClient::with_credential(&options.server, file.read()?)?,
    };
    if options.server.starts_with("http://") {
        tracing::warn!("the connection to this server is not encrypted: the media can be read on the network");
    }
    let server = Arc::new(server);
    server.renew(&file).await?;
    let codecs = MachineCodecs::new(&options.ffmpeg, options.forbidden);
    let best = *codecs.encoders().await.first().ok_or("no H.264 encoder of this machine's ffmpeg works")?;
    let program = options.ffmpeg.clone();
    let backend = tokio::task::spawn_blocking(move || FfmpegBackend::with_program(&program)).await;
    let backend = backend.map_err(|cause| cause.to_string())??;
    let name = format!("hearthcast worker {}", options.name);
    let inbox = subjects::inbox(server.worker_id());
    let client = nats::connect(&server.queue_address(), &name, &inbox, server.clone()).await?;
    let report = WorkerReport {
        id: server.worker_id().to_owned(),
        name: options.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        slots: options.slots,
        encoders: Vec::new(),
        has_hardware: false,
        active: 0,
        started_ms: Timestamp::now().as_millisecond(),
    };
    tracing::info!(server = options.server, encoder = best.name, slots = options.slots, "working");
    let worker = Arc::new(Worker { server, client, backend, codecs, active: AtomicUsize::new(0) });
    let slots = (0..options.slots).map(|_| worker.clone().take_offers());
    tokio::select! {
        _ = futures_util::future::join_all(slots) => {}
        () = worker.report(report) => {}
        () = worker.keep_credential(&file) => {}
        () = worker.codecs.follow_devices() => {}
    }
    Ok(())
}

/// A worker at work.
struct Worker {
    server: Arc<ServerClient>,
    client: Client,
    backend: FfmpegBackend,
    codecs: MachineCodecs,
    /// Runs in progress.
    active: AtomicUsize,
}

impl Worker {
    /// Reports each second.
    async fn report(&self, mut report: WorkerReport) {
        let mut ticks = interval(REPORT_INTERVAL);
        loop {
            ticks.tick().await;
            let encoders = self.codecs.encoders().await;
            report.has_hardware = encoders.first().is_some_and(|best| best.is_hardware);
            report.encoders = encoders.iter().map(|one| one.name.to_owned()).collect();
            report.active = self.active.load(Ordering::Relaxed);
            if let Ok(payload) = serde_json::to_vec(&report) {
                let _ = self.client.publish(subjects::report(&report.id), payload.into()).await;
            }
        }
    }

    async fn keep_credential(&self, file: &CredentialFile) {
        loop {
            tokio::time::sleep(RENEWAL_CHECK_INTERVAL).await;
            if let Err(reason) = self.server.renew(file).await {
                tracing::warn!(reason, "the credential was not renewed");
            }
        }
    }

    /// Takes one offer after the other.
    async fn take_offers(self: Arc<Self>) {
        loop {
            if let Err(reason) = self.take_offers_until_error().await {
                tracing::warn!(reason, "the queue does not answer");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    async fn take_offers_until_error(&self) -> Result<(), String> {
        loop {
            // A restart of nats-server loses the consumer, and then a pull has no offer, and no error either.
            let consumer = nats::offer_consumer(&self.client).await?;
            while self.take_offer(&consumer).await? {}
        }
    }

    /// Makes the run of the next offer; false when none came within [`PULL_TIME`].
    async fn take_offer(&self, consumer: &PullConsumer) -> Result<bool, String> {
        let batch = consumer.batch().max_messages(1).expires(PULL_TIME).messages().await;
        let mut batch = batch.map_err(|cause| cause.to_string())?;
        let Some(message) = batch.next().await else { return Ok(false) };
        self.make_run(&message.map_err(|cause| cause.to_string())?).await;
        Ok(true)
    }

    /// Makes an offered run, if it can still be claimed. The message is acknowledged at the end, and its progress meanwhile.
    async fn make_run(&self, message: &Message) {
        if let Ok(offer) = serde_json::from_slice::<RunOffer>(&message.payload) {
            self.active.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                made = self.make_offered_run(&offer.run) => if let Err(reason) = made {
                    tracing::info!(run = offer.run, reason, "the run was not made to its end");
                },
                () = self.beat(message, &offer.run) => {}
            }
            self.active.fetch_sub(1, Ordering::Relaxed);
        }
        let _ = message.ack().await;
    }

    async fn beat(&self, message: &Message, run: &str) {
        let mut ticks = interval(BEAT_INTERVAL);
        loop {
            ticks.tick().await;
            let _ = self.client.publish(subjects::beat(self.server.worker_id(), run), "".into()).await;
            let _ = message.ack_with(AckKind::Progress).await;
        }
    }

    async fn make_offered_run(&self, run: &str) -> Result<(), String> {
        let encoder = self.codecs.encoder().await.ok_or("all encoders rest")?;
        // Before the claim, so that no message is missed.
        let controls = nats::subscribe(&self.client, subjects::control(self.server.worker_id(), run)).await?;
        let order = self.server.claim(run, encoder).await?;
        let decoder = self.codecs.decoder_of(&order, encoder);
        let hardware = decoder.map_or("software", |decoder| decoder.name);
        tracing::debug!(run, "{} encodes, {hardware} decodes", encoder.name);
        let backend = decoder.map_or_else(|| self.backend.clone(), |decoder| self.backend.with_decoder(decoder));
        let run = WorkerRun { server: self.server.clone(), backend, encoder, decoder, order };
        run.make(controls).await
    }
}
