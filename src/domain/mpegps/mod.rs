//! MPEG program streams (.mpg, .vob), of MPEG-1 (ISO/IEC 11172-1) and MPEG-2 (ISO/IEC 13818-1 section 2.5).
//!
//! A file is a sequence of packs, each a header with PES packets of all streams. A packet may begin and end inside a frame, and
//! its timestamp belongs to the first frame that begins in it. Input may be garbage: nothing here panics, and the memory used is
//! bounded.

pub mod packet;
pub mod picture_splitter;
pub mod picture_times;
pub mod stream_id;
