//! The contract of every answer.

mod errors;
mod workers;
