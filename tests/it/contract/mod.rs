//! The contract of every answer.

mod errors;
mod web;
mod workers;
