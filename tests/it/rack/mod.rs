#[cfg(feature = "cluster")]
mod database;
mod enrolment;
mod nats_server;
#[cfg(feature = "cluster")]
mod postgres_server;
mod sessions;
mod worker_program;
