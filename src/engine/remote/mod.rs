#![doc = include_str!("README.md")]

use futures_util::future::BoxFuture;

mod backend;
mod cluster;
pub mod identity;
pub mod message;
#[cfg(feature = "cluster")]
pub mod nats;
pub mod nats_server;
pub mod nkey;
#[cfg(feature = "cluster")]
pub mod program;
pub mod queue_authority;
pub mod subjects;

pub use backend::RemoteBackend;
pub use cluster::{Cluster, OfferedRun, RunEvent, RunRefusal, WorkerStatus};

use message::RunControl;

/// The way from a server to its workers.
pub trait RunQueue: Send + Sync + std::fmt::Debug {
    /// Offers a run; resolves once the queue has stored it. The error is for people.
    fn offer(&self, run: &str) -> BoxFuture<'static, Result<(), String>>;

    /// Sends a message about a run to its worker. It may get lost.
    fn control(&self, worker: &str, run: &str, control: RunControl);
}

/// 128 random bits in hexadecimal digits: an id that cannot be guessed.
fn random_id() -> String {
    let mut bytes = [0; 16];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.expect("the system gives random bytes");
    data_encoding::HEXLOWER.encode(&bytes)
}
