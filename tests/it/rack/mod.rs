mod enrolment;
mod nats_server;
mod s3_server;
mod sessions;
mod shared_store;
mod worker_program;
