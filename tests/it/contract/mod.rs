//! Rules that hold for every answer: error body, methods, headers, limits.

mod auth;
mod connections;
mod errors;
mod fuzz;
mod headers;
mod metrics;
mod openapi;
mod prefix;
mod quarantine;
mod schemas;
mod web;
mod workers;
