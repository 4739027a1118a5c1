#![doc = include_str!("../README.md")]

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
