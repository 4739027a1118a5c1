#[cfg(feature = "cluster")]
mod database;
mod enrolment;
mod nats_server;
#[cfg(feature = "cluster")]
mod postgres_server;
mod s3_server;
mod sessions;
mod shared_store;
mod worker_program;
