//! What users do, from end to end.

mod sessions;
