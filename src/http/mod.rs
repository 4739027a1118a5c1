#![doc = include_str!("README.md")]

use std::sync::Arc;

use http::Method;
use warp::filters::BoxedFilter;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Reply};

use crate::error::{Code, Error};
use crate::service::Service;

mod body;
pub mod call;
mod conditional;
pub mod endpoint;
mod file;
mod health;
pub mod info;
mod library;
pub mod reply;
pub mod serve;
mod web;
mod workers;

use call::Context;
use endpoint::{Endpoint, template_params};

/// Every route of the program. The order matters for speed only: bytes first.
pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    [
        file::endpoints(service),
        info::endpoints(service),
        library::endpoints(service),
        health::endpoints(service),
        workers::endpoints(service),
        web::endpoints(service),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All routes as one filter that never rejects.
pub fn routes(service: &Arc<Service>) -> BoxedFilter<(Response,)> {
    let endpoints = endpoints(service);
    let table: Arc<[(Method, &'static str)]> = endpoints.iter().map(|e| (e.method.clone(), e.path)).collect();
    let fallback = warp::method()
        .and(warp::path::full())
        .and(warp::ext::optional::<Context>())
        .map(move |method: Method, path: FullPath, context: Option<Context>| {
            reply::error(unrouted(&table, &method, path.as_str()), &context.unwrap_or_default())
        })
        .boxed();
    endpoints
        .into_iter()
        .map(|endpoint| endpoint.filter)
        .chain([fallback])
        .reduce(|routes, next| routes.or(next).unify().boxed())
        .expect("the fallback is always there")
}

/// 405 with `Allow` where the path exists for other methods, else 404.
fn unrouted(table: &[(Method, &'static str)], method: &Method, path: &str) -> Error {
    let mut allow: Vec<&str> = Vec::new();
    for (known, template) in table {
        if template_params(template, path).is_some() {
            allow.push(known.as_str());
            if known == Method::GET {
                allow.push("HEAD");
            }
        }
    }
    if allow.is_empty() {
        return Error::new(Code::NotFound, "no such route");
    }
    allow.push("OPTIONS");
    allow.sort_unstable();
    allow.dedup();
    Error::new(Code::MethodNotAllowed, format!("{method} is not allowed here")).with_header("allow", allow.join(", "))
}

/// Makes any reply the one response type of the routes.
fn response(reply: impl Reply) -> Response {
    reply.into_response()
}
