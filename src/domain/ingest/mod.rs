//! Ingest of external streams: detects their content, cuts them at keyframes, and puts the segments on a channel's
//! timeline.

pub mod hls_playlist;
pub mod live_segmenter;
pub mod stream_info;
pub mod timeline;
