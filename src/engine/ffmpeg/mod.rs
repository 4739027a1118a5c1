//! The ffmpeg subprocess: the baseline producer, always there.

pub mod args;
pub mod run;
pub mod spawn;

pub use run::Ffmpeg;
