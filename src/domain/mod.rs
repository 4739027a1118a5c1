#![doc = include_str!("README.md")]

pub mod access;
pub mod account;
pub mod codec;
pub mod grid;
pub mod library;
pub mod media;
pub mod mpegts;
pub mod plan;
pub mod playback;
pub mod playlist;
pub mod session;
pub mod signing;
pub mod subtitles;
pub mod throttle;
pub mod time;
