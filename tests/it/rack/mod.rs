#[cfg(feature = "cluster")]
mod certificates;
#[cfg(feature = "cluster")]
mod commands;
#[cfg(feature = "cluster")]
mod database;
#[cfg(feature = "cluster")]
mod database_proxy;
#[cfg(feature = "cluster")]
mod database_tls;
mod enrolment;
#[cfg(feature = "cluster")]
mod following;
#[cfg(feature = "cluster")]
mod hanging_database;
#[cfg(feature = "cluster")]
mod household;
mod nats_server;
mod nginx_server;
#[cfg(feature = "cluster")]
mod postgres_server;
#[cfg(feature = "cluster")]
mod queue_credentials;
#[cfg(feature = "cluster")]
mod recordings;
mod s3_server;
mod sessions;
mod shared_cache;
mod shared_store;
#[cfg(feature = "cluster")]
mod standby_encoders;
#[cfg(feature = "cluster")]
mod two_servers;
#[cfg(feature = "cluster")]
mod worker_failover;
#[cfg(feature = "cluster")]
mod worker_hardware;
mod worker_program;

use crate::kit::wait::MAX_WAIT;
