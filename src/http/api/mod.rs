//! The handlers, a file or folder per resource: parse, call one service function, render.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::openapi;
use crate::service::Service;

pub(super) mod attachment;
pub(super) mod audiobook;
pub(super) mod auth;
pub(super) mod debug;
mod device;
pub(super) mod events;
pub(super) mod file;
pub(super) mod health;
pub mod info;
pub(super) mod library;
pub(super) mod livetv;
pub(super) mod progress;
pub(super) mod recordings;
mod stream_index;
pub(super) mod subtitle;
pub(super) mod transcode;
pub(super) mod users;
mod web;
pub(super) mod workers;

/// All routes of the server. The order affects only speed, so media bytes come first.
pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    [
        file::endpoints(service),
        transcode::endpoints(service),
        info::endpoints(service),
        library::endpoints(service),
        health::endpoints(service),
        subtitle::endpoints(service),
        attachment::endpoints(service),
        progress::endpoints(service),
        audiobook::endpoints(service),
        livetv::endpoints(service),
        recordings::endpoints(service),
        events::endpoints(service),
        workers::endpoints(service),
        debug::endpoints(service),
        web::endpoints(service),
        auth::endpoints(service),
        users::endpoints(service),
        openapi::endpoints(service),
    ]
    .into_iter()
    .flatten()
    .collect()
}
