//! A route: method, path template, access class, handler. There is no other way to mount one.

use std::future::{Future, ready};
use std::sync::Arc;

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use warp::Filter;
use warp::filters::BoxedFilter;
use warp::path::FullPath;
use warp::reply::Response;

use super::call::{BodyStream, Call, Context};
use super::{reply, response};
use crate::domain::access::{Access, Principal, Role};
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// A mounted route.
pub struct Endpoint {
    pub method: Method,
    /// e.g. `/api/stream/transcode/{sessionId}/status`
    pub path: &'static str,
    pub access: Access,
    pub(super) filter: BoxedFilter<(Response,)>,
}

/// A route that lacks its handler.
pub struct Unmounted {
    method: Method,
    path: &'static str,
    access: Access,
    body_limit: u64,
    resource: fn(&Call) -> Option<String>,
}

pub fn get(path: &'static str, access: Access) -> Unmounted {
    unmounted(Method::GET, path, access)
}

pub fn post(path: &'static str, access: Access) -> Unmounted {
    unmounted(Method::POST, path, access)
}

pub fn delete(path: &'static str, access: Access) -> Unmounted {
    unmounted(Method::DELETE, path, access)
}

fn unmounted(method: Method, path: &'static str, access: Access) -> Unmounted {
    Unmounted { method, path, access, body_limit: 64 * 1024, resource: |_| None }
}

impl Unmounted {
    /// Largest body, bytes (64 KiB unless said).
    pub fn body_limit(mut self, bytes: u64) -> Self {
        self.body_limit = bytes;
        self
    }

    /// For `Access::Granted`: the resource a signed grant must name.
    pub fn resource(mut self, resource: fn(&Call) -> Option<String>) -> Self {
        self.resource = resource;
        self
    }

    /// Mounts the handler.
    pub fn to<H, F>(self, service: &Arc<Service>, handler: H) -> Endpoint
    where
        H: Fn(Arc<Service>, Call) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        let Self { method, path, access, body_limit, resource } = self;
        let service = service.clone();
        let wanted = method.clone();
        let filter = warp::method()
            .and(warp::path::full())
            .and_then(move |method: Method, full: FullPath| {
                let fits = method == wanted || (method == Method::HEAD && wanted == Method::GET);
                let params = if fits { template_params(path, full.as_str()) } else { None };
                ready(params.map(|params| (method, full, params)).ok_or_else(warp::reject::not_found))
            })
            .untuple_one()
            .and(warp::query::raw().or(warp::any().map(String::new)).unify())
            .and(warp::header::headers_cloned())
            .and(warp::ext::optional::<Context>())
            .and(warp::body::stream().map(whole_pieces))
            .then(move |method, full: FullPath, params, query: String, headers, context: Option<Context>, body| {
                let context = context.unwrap_or_default();
                let mut call = Call {
                    context: context.clone(),
                    method,
                    path: full.as_str().to_owned(),
                    params,
                    headers,
                    principal: None,
                    query: Vec::new(),
                    body,
                    body_limit,
                };
                let (service, handler) = (service.clone(), handler.clone());
                async move {
                    let answer = async {
                        call.query = parse_query(&query)?;
                        call.principal = admit(&service, &call, access, resource)?;
                        handler(service, call).await
                    };
                    answer.await.unwrap_or_else(|error| reply::error(error, &context))
                }
            })
            .map(response)
            .boxed();
        Endpoint { method, path, access, filter }
    }
}

/// A body's pieces as plain bytes.
fn whole_pieces(body: impl Stream<Item = Result<impl Buf + 'static, warp::Error>> + Send + 'static) -> BodyStream {
    Box::pin(body.map(|piece| {
        piece.map(|mut piece| {
            let size = piece.remaining();
            piece.copy_to_bytes(size)
        })
    }))
}

/// Decoded values of the template's `{…}` parts when `path` fits it.
pub(super) fn template_params(template: &str, path: &str) -> Option<Vec<String>> {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    let mut params = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(params),
            (Some(part), Some(value)) if part.starts_with('{') => {
                if value.is_empty() {
                    return None;
                }
                params.push(percent_decode_str(value).decode_utf8().ok()?.into_owned());
            }
            (Some(part), Some(value)) if part == value => {}
            _ => return None,
        }
    }
}

fn parse_query(raw: &str) -> Result<Vec<(String, String)>> {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced)
            .decode_utf8()
            .map(|text| text.into_owned())
            .map_err(|_| Error::new(Code::BadRequest, "the query is not UTF-8"))
    };
    raw.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

/// Lets a request in, or says why not.
fn admit(
    service: &Service,
    call: &Call,
    access: Access,
    resource: fn(&Call) -> Option<String>,
) -> Result<Option<Principal>> {
    let bearer = bearer(&call.headers)?;
    if access == Access::Public {
        return Ok(bearer.and_then(|token| service.accounts.authenticate(token).ok()));
    }
    if let Some(token) = bearer {
        let principal = service.accounts.authenticate(token)?;
        if access == Access::Admin && principal.role != Role::Admin {
            return Err(Error::new(Code::Forbidden, "this needs an admin"));
        }
        return Ok(Some(principal));
    }
    if access == Access::Granted
        && let Some(grant) = call.query("st")?
        && let Some(resource) = resource(call)
    {
        return service.accounts.redeem(&resource, grant).map(Some);
    }
    Err(Error::new(Code::Unauthorized, "a bearer token is needed").with_header("www-authenticate", "Bearer"))
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let malformed = || {
        Error::new(Code::Unauthorized, "the Authorization header must be: Bearer <token>")
            .with_header("www-authenticate", "Bearer")
    };
    let (scheme, token) = value.to_str().map_err(|_| malformed())?.split_once(' ').ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(malformed());
    }
    Ok(Some(token.trim()))
}
