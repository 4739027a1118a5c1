//! Workers on other machines: enrolled by a one-time code, known by a signed token that lasts a day.
#![doc = include_str!("README.md")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::domain::access::{Principal, Role};
use crate::domain::signing::{self, SignatureError};
use crate::domain::visibility::Visibility;
use crate::domain::worker::enrolment::EnrolmentCode;
use crate::engine::remote::Cluster;
use crate::engine::remote::identity::{is_public_key, is_signed_by};
use crate::engine::remote::message::{Credential, renewal_text};
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
        if !is_public_key(public_key) {
            return Err(Error::invalid_field("publicKey", "must be an Ed25519 public key in base64url"));
        }
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
        self.lock_enrolled().insert(id.clone(), worker);
        Ok(self.credential(id))
    }

    /// A new token for the owner of a worker's private key.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS`.
    pub fn renew(&self, worker_id: &str, time: i64, signature: &str) -> Result<Credential> {
        let is_recent = (self.clock.now().as_second() - time).abs() <= MAX_CLOCK_DIFFERENCE_SECONDS;
        let enrolled = self.lock_enrolled().get(worker_id).cloned();
        let is_signed =
            enrolled.is_some_and(|worker| is_signed_by(&worker.public_key, &renewal_text(worker_id, time), signature));
        if is_recent && is_signed {
            return Ok(self.credential(worker_id.to_owned()));
        }
        let message = "the worker is not enrolled, or its key or its clock is wrong";
        Err(Error::new(Code::InvalidCredentials, message))
    }

    fn credential(&self, worker_id: String) -> Credential {
        let expires_at = self.clock.now().as_second() + TOKEN_LIFETIME.as_secs();
        let token = signing::sign_grant(&self.keys[0], TOKEN_RESOURCE, &worker_id, expires_at);
        Credential { worker_id, token, expires_at, queue: self.queue.clone() }
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
        let is_enrolled = |id: &str| workers.is_enrolled(id);
        let served = crate::engine::remote::nats::serve_cluster(workers.cluster.clone(), &workers.queue, is_enrolled);
        if let Err(reason) = served.await {
            tracing::error!(reason, "remote workers are not used");
        }
    });
}

#[cfg(test)]
mod tests;
