#![doc = include_str!("README.md")]

use std::sync::Arc;

use tokio::net::TcpListener;
use warp::Filter;
use warp::filters::BoxedFilter;
use warp::path::FullPath;
use warp::reply::Response;

use crate::error::Result;
use crate::service::Service;

mod api;
mod byte_range;
pub mod call;
mod client;
mod conditional;
mod cors;
mod decode;
mod dispatch;
pub mod endpoint;
pub mod forward;
mod metrics_text;
pub mod openapi;
pub mod reply;
mod route_class;
mod server;
pub mod ssdp;
mod text_stream;
mod urls;

pub use api::{endpoints, info};
use dispatch::{Dispatcher, RequestParts};
use server::{RequestBody, RequestContext};

/// All routes as one filter, which never rejects a request that carries its `RequestContext`.
pub fn routes(service: &Arc<Service>) -> BoxedFilter<(Response,)> {
    let dispatcher = Arc::new(Dispatcher::new(service, endpoints()));
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

/// Serves until `stop` resolves; responses in flight then have at most 4 s to finish.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: impl Future<Output = ()>) -> Result<()> {
    server::serve(routes(&service), &service.config, listener, stop).await
}
