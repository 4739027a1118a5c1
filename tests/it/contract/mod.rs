//! Rules that hold for every answer: error body, methods, headers, limits.

mod auth;
mod connections;
mod errors;
mod fuzz;
mod headers;
mod household;
mod metrics;
mod openapi;
mod preferences;
mod prefix;
mod quarantine;
mod schemas;
mod server_status;
mod web;
mod workers;
