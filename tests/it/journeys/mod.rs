//! What users do, from end to end.

mod packaged;
mod seeks;
mod sessions;
