mod enrolment;
mod nats_server;
mod sessions;
mod worker_program;
