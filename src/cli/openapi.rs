//! `hearthcast openapi`.

use super::Outcome;
use crate::http::openapi;

/// Prints the OpenAPI document, as `GET /api/openapi.json` returns it.
pub fn print() -> Outcome {
    println!("{}", openapi::text());
    Ok(())
}
