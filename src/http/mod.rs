#![doc = include_str!("README.md")]

use std::sync::Arc;

use warp::Filter;
use warp::filters::BoxedFilter;
use warp::path::FullPath;
use warp::reply::Response;

use crate::service::Service;

mod attachment;
mod audiobook;
mod auth;
mod body;
pub mod call;
mod client;
mod conditional;
mod connection;
mod connection_slots;
mod cors;
mod debug;
mod device;
mod dispatch;
pub mod endpoint;
mod events;
mod file;
mod header_timer;
mod health;
pub mod info;
mod lazy_segment;
mod library;
mod livetv;
pub mod openapi;
mod path_match;
pub mod progress;
mod recordings;
pub mod reply;
mod request_body;
pub mod serve;
pub mod ssdp;
mod stream_index;
mod subtitle;
mod text_stream;
mod transcode;
mod urls;
mod users;
mod web;
mod worker_thread;
mod workers;

use call::RequestContext;
use dispatch::{Dispatcher, RequestParts};
use endpoint::Endpoint;
use request_body::RequestBody;

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

/// All routes as one filter, which never rejects a request that carries its [`RequestContext`].
pub fn routes(service: &Arc<Service>) -> BoxedFilter<(Response,)> {
    let dispatcher = Arc::new(Dispatcher::new(service, endpoints(service)));
    warp::method()
        .and(warp::path::full())
        .and(warp::query::raw().or(warp::any().map(String::new)).unify())
        .and(warp::ext::get::<RequestContext>())
        .and(warp::body::stream())
        .then(move |method, path: FullPath, query, request_context: RequestContext, body| {
            let RequestContext { info, headers, slot } = request_context;
            let (path, body) = (path.as_str().to_owned(), RequestBody::new(&headers, body));
            dispatcher.clone().respond(RequestParts { method, path, query, headers, info, body, slot })
        })
        .boxed()
}
