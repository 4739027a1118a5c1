//! The handlers, a file or folder per resource: parse, call one service function, render.

use super::endpoint::Endpoint;
use super::openapi;

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
pub fn endpoints() -> Vec<Endpoint> {
    [
        file::endpoints(),
        transcode::endpoints(),
        info::endpoints(),
        library::endpoints(),
        health::endpoints(),
        subtitle::endpoints(),
        attachment::endpoints(),
        progress::endpoints(),
        audiobook::endpoints(),
        livetv::endpoints(),
        recordings::endpoints(),
        events::endpoints(),
        workers::endpoints(),
        debug::endpoints(),
        web::endpoints(),
        auth::endpoints(),
        users::endpoints(),
        openapi::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
