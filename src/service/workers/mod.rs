//! Workers on other machines: enrolled by a one-time code, known by a signed token that lasts a day.
#![doc = include_str!("README.md")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::BASE64URL_NOPAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use url::Url;

use crate::config::Config;
use crate::domain::access::{Principal, Role};
use crate::domain::signing::{self, SignatureError};
use crate::domain::visibility::Visibility;
use crate::domain::worker::enrolment::EnrolmentCode;
use crate::engine::remote::Cluster;
use crate::engine::remote::identity::{is_signed_by, parse_public_key};
use crate::engine::remote::message::{Credential, renewal_text};
#[cfg(feature = "cluster")]
use crate::engine::remote::nats;
use crate::engine::remote::nats_server::DEFAULT_PORT;
use crate::engine::remote::queue_authority::QueueAuthority;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::{keys, random_bytes};
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

/// Enrolled workers at most.
const MAX_ENROLLED: usize = 256;

/// Longest name of a machine, bytes.
const MAX_NAME_BYTES: usize = 64;

/// How long a token is valid.
const TOKEN_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Largest difference of the clocks of worker and server at a renewal, seconds.
const MAX_CLOCK_DIFFERENCE_SECONDS: i64 = 300;

/// The resource of grants that are tokens of workers.
const TOKEN_RESOURCE: &str = "worker";

/// A worker that was enrolled, as it is stored under its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrolledWorker {
    /// Name of its machine.
    pub name: String,
    /// Its Ed25519 public key, base64url without padding.
    pub public_key: String,
    pub enrolled_at: Timestamp,
}

/// From it come the keys by which the server signs credentials for its queue. There is one record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueSecret {
    /// 32 random bytes, base64url without padding.
    secret: String,
    created_at: Timestamp,
}

/// The key of the record of [`QueueSecret`].
const QUEUE_SECRET: &str = "secret";

/// The remote workers of a server with a queue.
pub struct RemoteWorkers {
    pub cluster: Arc<Cluster>,
    /// Address of the queue, the same here and at workers.
    queue: String,
    store: Store,
    clock: Clock,
    keys: keys::Keys,
    enrolled: Mutex<BTreeMap<String, EnrolledWorker>>,
    code: Mutex<EnrolmentCode>,
    authority: OnceCell<Arc<QueueAuthority>>,
    /// Locked during every change.
    change_lock: tokio::sync::Mutex<()>,
}

impl RemoteWorkers {
    /// Reads the enrolled workers; None without a queue.
    ///
    /// # Errors
    /// `INTERNAL` when keys or records cannot be read.
    pub fn open(config: &Config, store: Store, clock: Clock) -> Result<Option<Arc<Self>>> {
        let Some(queue) = config.queue.clone() else { return Ok(None) };
        let enrolled = store.scan::<EnrolledWorker>(Tree::Workers)?.into_iter().collect();
        Ok(Some(Arc::new(Self {
            cluster: Cluster::new(config.limits.concurrent_jobs),
            queue,
            store,
            clock,
            keys: keys::open(&config.state)?,
            enrolled: Mutex::new(enrolled),
            code: Mutex::default(),
            authority: OnceCell::new(),
            change_lock: tokio::sync::Mutex::default(),
        })))
    }

    /// Makes the one code that is valid now; returns it with its expiry.
    pub fn create_code(&self) -> (String, Timestamp) {
        self.lock_code().create(random_bytes(), self.clock.now())
    }

    /// Enrols a worker with a code.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS` when the code is not valid; `VALIDATION_ERROR`; `CONFLICT` with too many workers.
    pub async fn enrol(&self, code: &str, name: &str, public_key: &str) -> Result<Credential> {
        let name = name.trim();
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(Error::invalid_field("name", format!("must have 1 to {MAX_NAME_BYTES} bytes")));
        }
        if parse_public_key(public_key).is_none() {
            return Err(Error::invalid_field("publicKey", "must be an Ed25519 public key in base64url"));
        }
        let authority = self.authority().await?;
        let _change = self.change_lock.lock().await;
        if self.lock_enrolled().len() >= MAX_ENROLLED {
            return Err(Error::new(Code::Conflict, format!("{MAX_ENROLLED} workers are enrolled: remove one first")));
        }
        if !self.lock_code().redeem(code, self.clock.now()) {
            let message = "the code is wrong, used or expired: an admin can make another one";
            return Err(Error::new(Code::InvalidCredentials, message));
        }
        let id = format!("w_{}", data_encoding::HEXLOWER.encode(&random_bytes::<8>()));
        let worker =
            EnrolledWorker { name: name.to_owned(), public_key: public_key.to_owned(), enrolled_at: self.clock.now() };
        self.store.put(Tree::Workers, &id, &worker).await?;
        tracing::info!(worker = id, name, "a remote worker was enrolled");
        let credential = self.credential(&authority, &id, &worker);
        self.lock_enrolled().insert(id, worker);
        Ok(credential)
    }

    /// A new token for the owner of a worker's private key.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS`; `STORAGE_FULL` when the keys of the queue cannot be stored.
    pub async fn renew(&self, worker_id: &str, time: i64, signature: &str) -> Result<Credential> {
        let is_recent = (self.clock.now().as_second() - time).abs() <= MAX_CLOCK_DIFFERENCE_SECONDS;
        let is_signed =
            |worker: &EnrolledWorker| is_signed_by(&worker.public_key, &renewal_text(worker_id, time), signature);
        let enrolled = self.lock_enrolled().get(worker_id).cloned().filter(|worker| is_recent && is_signed(worker));
        let Some(worker) = enrolled else {
            let message = "the worker is not enrolled, or its key or its clock is wrong";
            return Err(Error::new(Code::InvalidCredentials, message));
        };
        Ok(self.credential(&*self.authority().await?, worker_id, &worker))
    }

    fn credential(&self, authority: &QueueAuthority, worker_id: &str, worker: &EnrolledWorker) -> Credential {
        let now = self.clock.now().as_second();
        let expires_at = now + TOKEN_LIFETIME.as_secs();
        let public_key = parse_public_key(&worker.public_key).unwrap_or_default();
        Credential {
            worker_id: worker_id.to_owned(),
            token: signing::sign_grant(&self.keys[0], TOKEN_RESOURCE, worker_id, expires_at),
            expires_at,
            queue: self.queue.clone(),
            queue_jwt: authority.worker_jwt(worker_id, &public_key, now, expires_at),
        }
    }

    /// The keys of the queue, made when they are first needed.
    ///
    /// # Errors
    /// `INTERNAL` when they cannot be read; `STORAGE_FULL` when they cannot be stored.
    async fn authority(&self) -> Result<Arc<QueueAuthority>> {
        let open = async {
            let stored = match self.store.get::<QueueSecret>(Tree::QueueKeys, QUEUE_SECRET)? {
                Some(stored) => stored,
                None => {
                    let secret = BASE64URL_NOPAD.encode(&random_bytes::<32>());
                    let made = QueueSecret { secret, created_at: self.clock.now() };
                    self.store.put(Tree::QueueKeys, QUEUE_SECRET, &made).await?;
                    made
                }
            };
            let secret = BASE64URL_NOPAD.decode(stored.secret.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
            let secret: [u8; 32] = secret.ok_or_else(|| Error::internal("the keys of the queue are damaged"))?;
            Ok(Arc::new(QueueAuthority::new(&secret, stored.created_at.as_second())))
        };
        self.authority.get_or_try_init(|| open).await.cloned()
    }

    /// A configuration for nats-server, by which it lets in this server and enrolled workers only.
    ///
    /// # Errors
    /// `INTERNAL` when its keys cannot be read; `STORAGE_FULL` when they cannot be stored.
    pub async fn queue_configuration(&self) -> Result<String> {
        let port = Url::parse(&self.queue).ok().and_then(|address| address.port());
        Ok(self.authority().await?.server_configuration(port.unwrap_or(DEFAULT_PORT)))
    }

    /// The worker of a token, as a principal of routes for workers; its user is the worker's id.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, `TOKEN_EXPIRED`.
    pub fn authenticate(&self, token: &str) -> Result<Arc<Principal>> {
        let unauthorized = || Error::new(Code::Unauthorized, "this is not the token of an enrolled worker");
        let now = self.clock.now().as_second();
        let verified = signing::verify_grant(&self.keys, TOKEN_RESOURCE, token, now);
        let (worker_id, expires_at) = verified.map_err(|error| match error {
            SignatureError::Expired => Error::new(Code::TokenExpired, "the token of this worker has expired"),
            SignatureError::Invalid => unauthorized(),
        })?;
        let enrolled = self.lock_enrolled();
        let worker = enrolled.get(worker_id).ok_or_else(unauthorized)?;
        Ok(Arc::new(Principal {
            user_id: worker_id.to_owned(),
            username: worker.name.clone(),
            role: Role::User,
            login_id: worker_id.to_owned(),
            channels: None,
            expires_at: Some(expires_at),
            visibility: Visibility::folders(&[]),
        }))
    }

    /// All enrolled workers, by id.
    pub fn enrolled(&self) -> Vec<(String, EnrolledWorker)> {
        self.lock_enrolled().iter().map(|(id, worker)| (id.clone(), worker.clone())).collect()
    }

    /// Whether a worker is enrolled.
    pub fn is_enrolled(&self, worker_id: &str) -> bool {
        self.lock_enrolled().contains_key(worker_id)
    }

    /// Removes a worker: its token is refused from now on, and its runs are made by others.
    ///
    /// # Errors
    /// `NOT_FOUND`; `STORAGE_FULL`, and then it stays.
    pub async fn remove(&self, worker_id: &str) -> Result<()> {
        let _change = self.change_lock.lock().await;
        if !self.is_enrolled(worker_id) {
            return Err(Error::new(Code::NotFound, "there is no such worker"));
        }
        self.store.delete(Tree::Workers, worker_id).await?;
        self.lock_enrolled().remove(worker_id);
        tracing::info!(worker = worker_id, "a remote worker was removed");
        Ok(())
    }

    fn lock_enrolled(&self) -> MutexGuard<'_, BTreeMap<String, EnrolledWorker>> {
        self.enrolled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_code(&self) -> MutexGuard<'_, EnrolmentCode> {
        self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the queue, and counts the slots of workers as encode slots. Does nothing without a queue.
pub fn start(service: &Arc<Service>) {
    let Some(workers) = service.remote_workers.clone() else { return };
    let (slots, local_slots) = (service.renditions.encode_slots().clone(), service.config.limits.concurrent_jobs);
    let mut remote_slots = workers.cluster.remote_slots();
    service.tasks.spawn(async move {
        while remote_slots.changed().await.is_ok() {
            let remote = *remote_slots.borrow_and_update();
            tracing::info!(remote, "encode slots of remote workers");
            slots.set_slot_count(local_slots + remote);
        }
    });
    #[cfg(feature = "cluster")]
    service.tasks.spawn(async move {
        let serve = async {
            let authority = workers.authority().await.map_err(|error| error.to_string())?;
            let is_enrolled = |id: &str| workers.is_enrolled(id);
            nats::serve_cluster(workers.cluster.clone(), &workers.queue, authority, is_enrolled).await
        };
        if let Err(reason) = serve.await {
            tracing::error!(reason, "remote workers are not used");
        }
    });
}

#[cfg(test)]
mod tests;
