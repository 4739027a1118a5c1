//! Ingest of external streams: detects their content, cuts them at keyframes, and puts the segments on a channel's
//! timeline.

pub mod air;
pub mod cut;
pub mod playlist;
pub mod shape;
