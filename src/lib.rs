#![doc = include_str!("README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they made"))]

pub mod app;
pub mod cli;
pub mod config;
pub mod domain;
pub mod engine;
pub mod error;
pub mod http;
pub mod service;
pub mod store;
pub mod telemetry;
