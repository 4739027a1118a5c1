//! The contract of every answer.

mod auth;
mod errors;
mod fuzz;
mod headers;
mod openapi;
mod prefix;
mod web;
mod wire;
mod workers;
