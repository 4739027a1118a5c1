//! The contract of every answer.

mod auth;
mod errors;
mod headers;
mod web;
mod workers;
