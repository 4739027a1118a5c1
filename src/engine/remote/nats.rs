//! The queue between server and workers: NATS JetStream, as Debian's nats-server 2.9 has it. [`subjects`] lists what is in it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config as StreamConfig, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Auth, Client, ConnectOptions, Subscriber};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::time::{MissedTickBehavior, interval};

use super::message::{RunControl, RunOffer};
use super::queue_authority::QueueAuthority;
use super::subjects::{self, CONSUMER, OFFERS_STREAM, WORKERS_PREFIX, WORKERS_STREAM};
use super::{Cluster, RunQueue};
use crate::domain::worker::remote::WorkerReport;

/// Offers that wait at most, and how long one stays: its server gives up after a second.
const MAX_OFFERS: i64 = 1000;
const OFFER_LIFETIME: Duration = Duration::from_secs(10);

/// How long the queue keeps the report of a worker.
const REPORT_LIFETIME: Duration = Duration::from_secs(3);

/// An offer is delivered again when its worker has not acknowledged progress for this long.
const ACK_WAIT: Duration = Duration::from_secs(1);

/// Time between two checks of the streams and the consumer, which a restart of nats-server loses.
const STREAM_CHECK_INTERVAL: Duration = Duration::from_secs(2);

const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Who connects to the queue.
pub trait QueueLogin: Send + Sync + 'static {
    /// Its JWT, and the signature of a nonce by the key it is for. Called for each connection.
    fn login(&self, nonce: &[u8]) -> (String, Vec<u8>);
}

impl QueueLogin for QueueAuthority {
    fn login(&self, nonce: &[u8]) -> (String, Vec<u8>) {
        self.server_login(nonce)
    }
}

/// Connects to a nats-server, and again whenever the connection is lost. `name` is for its lists of connections, `inbox` the
/// prefix of subjects on which replies come.
///
/// # Errors
/// When the address is not one. A server that does not answer, or that refuses the login, is no error.
pub async fn connect(address: &str, name: &str, inbox: &str, login: Arc<dyn QueueLogin>) -> Result<Client, String> {
    let authenticate = move |nonce: Vec<u8>| {
        let (jwt, signature) = login.login(&nonce);
        async move {
            let mut auth = Auth::new();
            (auth.jwt, auth.signature) = (Some(jwt), Some(signature));
            Ok(auth)
        }
    };
    let options = ConnectOptions::with_auth_callback(authenticate)
        .name(name)
        .custom_inbox_prefix(inbox)
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
            let stored =
                jetstream.publish(subjects::OFFER_SUBJECT, payload.into()).await.map_err(|cause| cause.to_string())?;
            stored.await.map(drop).map_err(|cause| cause.to_string())
        })
    }

    fn control(&self, worker: &str, run: &str, control: RunControl) {
        let (client, subject) = (self.client.clone(), subjects::control(worker, run));
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
    authority: Arc<QueueAuthority>,
    is_enrolled: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let client = connect(address, "hearthcast server", "_INBOX", authority).await?;
    let queue = NatsQueue { jetstream: jetstream::new(client.clone()), client: client.clone() };
    let mut reports = subscribe(&client, format!("{WORKERS_PREFIX}*")).await?;
    let mut beats = subscribe(&client, subjects::BEATS.to_owned()).await?;
    let mut expiry_checks = interval(EXPIRY_CHECK_INTERVAL);
    expiry_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    cluster.connect(Arc::new(queue.clone()));
    let keep_streams = async {
        let mut is_warned = false;
        loop {
            if let Err(reason) = create_streams(&queue.jetstream).await {
                tracing::warn!(reason, "the queue of remote workers is not ready");
            } else if !client.server_info().auth_required && !std::mem::replace(&mut is_warned, true) {
                tracing::warn!(
                    "the queue lets in everybody who reaches it: GET /api/workers/queue-configuration makes a configuration \
                     for nats-server that lets in only enrolled workers"
                );
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
                    if let Some((worker, run)) = subjects::parse_beat(&message.subject) {
                        cluster.record_beat(worker, run);
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

/// Creates the work queue with its consumer and the registry, unless they exist. `create_key_value` would not do: it reads account facts that
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
    let offers = jetstream.get_or_create_stream(offers_stream()).await.map_err(|cause| cause.to_string())?;
    let consumer = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        filter_subject: subjects::OFFER_FILTER.to_owned(),
        ..pull::Config::default()
    };
    offers.get_or_create_consumer(CONSUMER, consumer).await.map(drop).map_err(|cause| cause.to_string())
}

fn offers_stream() -> StreamConfig {
    StreamConfig {
        name: OFFERS_STREAM.to_owned(),
        subjects: vec![subjects::OFFER_SUBJECTS.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        storage: StorageType::Memory,
        max_messages: MAX_OFFERS,
        max_age: OFFER_LIFETIME,
        duplicate_window: OFFER_LIFETIME,
        ..StreamConfig::default()
    }
}

/// The offers for workers that encode H.264. The server creates this consumer.
///
/// # Errors
/// When nats-server does not answer or refuses, or has no consumer yet.
pub(super) async fn offer_consumer(client: &Client) -> Result<PullConsumer, String> {
    let consumer = jetstream::new(client.clone()).get_consumer_from_stream(CONSUMER, OFFERS_STREAM).await;
    consumer.map_err(|cause| cause.to_string())
}

pub(super) async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, String> {
    client.subscribe(subject).await.map_err(|cause| cause.to_string())
}
