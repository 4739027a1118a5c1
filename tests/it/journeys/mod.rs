//! What users do, from end to end.

mod seeks;
mod sessions;
