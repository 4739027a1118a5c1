//! `hearthcast openapi`.

use super::Outcome;
use crate::http::openapi;

/// Prints the OpenAPI document, as `GET /api/openapi.json` answers it.
pub fn print() -> Outcome {
    println!("{}", openapi::text());
    Ok(())
}
