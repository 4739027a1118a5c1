//! What users do, from end to end.

mod packaged;
mod sessions;
