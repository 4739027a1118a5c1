//! The queue between server and workers: NATS JetStream, as Debian's nats-server 2.9 has it.
//!
//! | subject | from | content |
//! | --- | --- | --- |
//! | `hc.job.h264.1` | server | a [`RunOffer`], in the work queue `HC_JOBS`; 1 is the priority of a waiting viewer |
//! | `hc.run.<run>.control` | server | [`RunControl`] |
//! | `hc.run.<run>.beat` | worker | nothing, every 300 ms |
//! | `$KV.hc_workers.<worker>` | worker | [`WorkerReport`], every second, kept for 3 s in the bucket `hc_workers` |

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config as StreamConfig, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Subscriber};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::time::{MissedTickBehavior, interval};

use super::message::{RunControl, RunOffer};
use super::{Cluster, RunQueue};
use crate::domain::worker::remote::WorkerReport;

const JOBS_STREAM: &str = "HC_JOBS";
const JOB_SUBJECT: &str = "hc.job.h264.1";
const JOB_FILTER: &str = "hc.job.h264.*";
const CONSUMER: &str = "h264";
const WORKERS_STREAM: &str = "KV_hc_workers";
const WORKERS_PREFIX: &str = "$KV.hc_workers.";

/// Offers that wait at most, and how long one stays: its server gives up after a second.
const MAX_OFFERS: i64 = 1000;
const OFFER_LIFETIME: Duration = Duration::from_secs(10);

/// How long the queue keeps the report of a worker.
const REPORT_LIFETIME: Duration = Duration::from_secs(3);

/// An offer is delivered again when its worker has not acknowledged progress for this long.
const ACK_WAIT: Duration = Duration::from_secs(1);

/// Time between two checks of the streams, which a restart of nats-server loses.
const STREAM_CHECK_INTERVAL: Duration = Duration::from_secs(5);

const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Connects to a nats-server, and again whenever the connection is lost. `name` is for its lists of connections.
///
/// # Errors
/// When the address is not one. A server that does not answer is no error.
pub async fn connect(address: &str, name: &str) -> Result<Client, String> {
    let options = ConnectOptions::new()
        .name(name)
        .retry_on_initial_connect()
        .connection_timeout(Duration::from_secs(3))
        .request_timeout(Some(Duration::from_secs(2)))
        .ping_interval(Duration::from_secs(5));
    options.connect(address).await.map_err(|cause| cause.to_string())
}

/// The queue of a server.
#[derive(Clone, Debug)]
struct NatsQueue {
    client: Client,
    jetstream: Context,
}

impl RunQueue for NatsQueue {
    fn offer(&self, run: &str) -> BoxFuture<'static, Result<(), String>> {
        let (jetstream, offer) = (self.jetstream.clone(), RunOffer { run: run.to_owned() });
        Box::pin(async move {
            let payload = serde_json::to_vec(&offer).map_err(|cause| cause.to_string())?;
            let stored = jetstream.publish(JOB_SUBJECT, payload.into()).await.map_err(|cause| cause.to_string())?;
            stored.await.map(drop).map_err(|cause| cause.to_string())
        })
    }

    fn control(&self, run: &str, control: RunControl) {
        let (client, subject) = (self.client.clone(), control_subject(run));
        let Ok(payload) = serde_json::to_vec(&control) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { client.publish(subject, payload.into()).await });
        }
    }
}

/// Connects a cluster to its workers until the server stops. Reports of workers that are not enrolled are ignored.
///
/// # Errors
/// When the address is not one.
pub async fn serve_cluster(
    cluster: Arc<Cluster>,
    address: &str,
    is_enrolled: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let client = connect(address, "hearthcast server").await?;
    let queue = NatsQueue { jetstream: jetstream::new(client.clone()), client: client.clone() };
    let mut reports = subscribe(&client, format!("{WORKERS_PREFIX}*")).await?;
    let mut beats = subscribe(&client, "hc.run.*.beat".to_owned()).await?;
    let mut expiry_checks = interval(EXPIRY_CHECK_INTERVAL);
    expiry_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    cluster.connect(Arc::new(queue.clone()));
    let keep_streams = async {
        loop {
            if let Err(reason) = create_streams(&queue.jetstream).await {
                tracing::warn!(reason, "the queue of remote workers is not ready");
            }
            tokio::time::sleep(STREAM_CHECK_INTERVAL).await;
        }
    };
    let listen = async {
        loop {
            tokio::select! {
                Some(message) = reports.next() => {
                    let report = WorkerReport::parse(&message.payload);
                    let worker = message.subject.strip_prefix(WORKERS_PREFIX);
                    if let Some(report) = report.filter(|report| Some(&*report.id) == worker && is_enrolled(&report.id)) {
                        cluster.record_report(report);
                    }
                }
                Some(message) = beats.next() => {
                    if let Some(run) = message.subject.split('.').nth(2) {
                        cluster.record_beat(run);
                    }
                }
                _ = expiry_checks.tick() => cluster.remove_expired(&is_enrolled),
                else => return,
            }
        }
    };
    tokio::select! {
        () = keep_streams => {}
        () = listen => {}
    }
    Err("the connection to the queue was closed".to_owned())
}

/// Creates the work queue and the registry, unless they exist. `create_key_value` would not do: it reads account facts that
/// nats-server 2.9 does not give.
async fn create_streams(jetstream: &Context) -> Result<(), String> {
    let registry = StreamConfig {
        name: WORKERS_STREAM.to_owned(),
        subjects: vec![format!("{WORKERS_PREFIX}>")],
        max_messages_per_subject: 1,
        max_age: REPORT_LIFETIME,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        discard: DiscardPolicy::New,
        storage: StorageType::Memory,
        ..StreamConfig::default()
    };
    jetstream.get_or_create_stream(registry).await.map_err(|cause| cause.to_string())?;
    jetstream.get_or_create_stream(jobs_stream()).await.map(drop).map_err(|cause| cause.to_string())
}

fn jobs_stream() -> StreamConfig {
    StreamConfig {
        name: JOBS_STREAM.to_owned(),
        subjects: vec!["hc.job.>".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::Memory,
        max_messages: MAX_OFFERS,
        max_age: OFFER_LIFETIME,
        duplicate_window: OFFER_LIFETIME,
        ..StreamConfig::default()
    }
}

/// The offers for workers that encode H.264.
///
/// # Errors
/// When nats-server does not answer, or has no JetStream.
pub(super) async fn job_consumer(client: &Client) -> Result<PullConsumer, String> {
    let jetstream = jetstream::new(client.clone());
    let stream = jetstream.get_or_create_stream(jobs_stream()).await.map_err(|cause| cause.to_string())?;
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        filter_subject: JOB_FILTER.to_owned(),
        ..pull::Config::default()
    };
    stream.get_or_create_consumer(CONSUMER, config).await.map_err(|cause| cause.to_string())
}

pub(super) async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, String> {
    client.subscribe(subject).await.map_err(|cause| cause.to_string())
}

pub(super) fn control_subject(run: &str) -> String {
    format!("hc.run.{run}.control")
}

pub(super) fn beat_subject(run: &str) -> String {
    format!("hc.run.{run}.beat")
}

pub(super) fn report_subject(worker: &str) -> String {
    format!("{WORKERS_PREFIX}{worker}")
}
