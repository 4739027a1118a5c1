#![doc = include_str!("README.md")]

use std::sync::Arc;

use warp::Filter;
use warp::filters::BoxedFilter;
use warp::path::FullPath;
use warp::reply::Response;

use crate::service::Service;

mod address;
mod alarm;
mod attachment;
mod audiobook;
mod auth;
mod body;
pub mod call;
mod client;
mod conditional;
mod cors;
mod debug;
mod device;
mod dispatch;
pub mod endpoint;
mod events;
mod file;
mod health;
pub mod info;
mod lane;
mod library;
mod livetv;
pub mod openapi;
mod parcel;
mod pieces;
mod places;
pub mod progress;
mod recordings;
pub mod reply;
pub mod serve;
pub mod ssdp;
mod stream_index;
mod subtitle;
mod target;
mod transcode;
mod upload;
mod users;
mod web;
mod wire;
mod workers;

use call::Arrival;
use dispatch::{Dispatch, Request};
use endpoint::Endpoint;
use upload::Upload;

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

/// All routes as one filter, which never rejects a request that carries its [`Arrival`].
pub fn routes(service: &Arc<Service>) -> BoxedFilter<(Response,)> {
    let dispatch = Arc::new(Dispatch::new(service, endpoints(service)));
    warp::method()
        .and(warp::path::full())
        .and(warp::query::raw().or(warp::any().map(String::new)).unify())
        .and(warp::ext::get::<Arrival>())
        .and(warp::body::stream())
        .then(move |method, path: FullPath, query, arrival: Arrival, body| {
            let Arrival { context, headers, place } = arrival;
            let (path, body) = (path.as_str().to_owned(), Upload::new(&headers, body));
            dispatch.clone().answer(Request { method, path, query, headers, context, body, place })
        })
        .boxed()
}
