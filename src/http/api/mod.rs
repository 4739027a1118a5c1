//! The handlers, a file or folder per resource: parse, call one service function, render.

use super::endpoint::Endpoint;
use super::openapi;

mod attachment;
mod audiobook;
mod auth;
mod debug;
mod device;
mod events;
mod file;
mod health;
pub mod info;
mod library;
pub(super) mod livetv;
mod progress;
mod recordings;
mod stream_index;
mod subtitle;
mod transcode;
mod users;
mod web;
mod workers;

/// All routes of the server.
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
