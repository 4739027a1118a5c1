//! Worker processes, in which GStreamer runs apart from the server.

pub mod crash_page;
pub mod message;
