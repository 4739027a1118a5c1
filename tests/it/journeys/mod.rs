//! What users do, from end to end.

mod native;
mod packaged;
mod seeks;
mod sessions;
