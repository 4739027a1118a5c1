//! Streams from elsewhere: read, cut where they can be cut, and put on a channel's timeline.

pub mod air;
pub mod cut;
pub mod playlist;
pub mod shape;
