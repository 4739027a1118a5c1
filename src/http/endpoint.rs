//! A route: method, path template, access class, handler. Routes cannot be mounted any other way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use http::header::AUTHORIZATION;
use warp::reply::Response;

use super::call::Call;
use crate::domain::access::{Access, Principal, Role};
use crate::error::{Code, Error, Result};
use crate::service::Service;

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;
type Handler = Box<dyn Fn(Arc<Service>, Call) -> HandlerFuture + Send + Sync>;

/// A mounted route.
pub struct Endpoint {
    pub method: Method,
    /// e.g. `/api/stream/transcode/{sessionId}/status`
    pub path: &'static str,
    pub access: Access,
    /// Largest body, bytes; None for the configured limit.
    pub(super) body_limit: Option<u64>,
    /// Whether the handler runs on the connection's own thread.
    pub(super) is_inline: bool,
    pub(super) handler: Handler,
    resource: fn(&Call) -> Option<String>,
}

/// A route without its handler, as a builder.
pub struct RouteBuilder {
    method: Method,
    path: &'static str,
    access: Access,
    body_limit: Option<u64>,
    is_inline: bool,
    resource: fn(&Call) -> Option<String>,
}

pub fn get(path: &'static str, access: Access) -> RouteBuilder {
    route_builder(Method::GET, path, access)
}

pub fn post(path: &'static str, access: Access) -> RouteBuilder {
    route_builder(Method::POST, path, access)
}

pub fn patch(path: &'static str, access: Access) -> RouteBuilder {
    route_builder(Method::PATCH, path, access)
}

pub fn delete(path: &'static str, access: Access) -> RouteBuilder {
    route_builder(Method::DELETE, path, access)
}

fn route_builder(method: Method, path: &'static str, access: Access) -> RouteBuilder {
    RouteBuilder { method, path, access, body_limit: None, is_inline: false, resource: |_| None }
}

impl RouteBuilder {
    /// Sets the largest body, bytes (default: the configured limit).
    pub fn body_limit(mut self, bytes: u64) -> Self {
        self.body_limit = Some(bytes);
        self
    }

    /// Runs the handler on the connection's own thread, which saves a thread switch. Only for a handler that nearly always
    /// answers from memory and starts no task that outlives the response.
    pub fn inline(mut self) -> Self {
        self.is_inline = true;
        self
    }

    /// For `Access::Granted` and `Access::Live`: names the resource that a signed grant must be for.
    pub fn resource(mut self, resource: fn(&Call) -> Option<String>) -> Self {
        self.resource = resource;
        self
    }

    /// Completes the route with its handler.
    pub fn to<H, F>(self, handler: H) -> Endpoint
    where
        H: Fn(Arc<Service>, Call) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        let Self { method, path, access, body_limit, is_inline, resource } = self;
        let handler: Handler = Box::new(move |service, call| Box::pin(handler(service, call)));
        Endpoint { method, path, access, body_limit, is_inline, handler, resource }
    }
}

impl Endpoint {
    /// Authenticates a request and checks its access class.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, `TOKEN_EXPIRED`, `FORBIDDEN`, `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`.
    pub(super) fn admit(&self, service: &Service, call: &Call) -> Result<Option<Arc<Principal>>> {
        if self.access == Access::Public {
            // An expired token does not lock anyone out of a public route.
            return Ok(bearer_token(call).ok().flatten().and_then(|token| service.accounts.authenticate(token).ok()));
        }
        if self.access == Access::Tuner {
            if !service.config.hdhomerun {
                return Err(Error::new(Code::NotFound, "no such route"));
            }
            return authenticate_stream_token(service, &call.params[0]);
        }
        if let Some(token) = bearer_token(call)? {
            let principal = service
                .accounts
                .authenticate(token)
                .map_err(|error| error.with_header("www-authenticate", "Bearer error=\"invalid_token\""))?;
            if self.access == Access::Admin && principal.role != Role::Admin {
                return Err(Error::new(Code::Forbidden, "only admins may do this"));
            }
            return Ok(Some(principal));
        }
        let accepts_grant = matches!(self.access, Access::Granted | Access::Live);
        if accepts_grant
            && let Some(grant) = call.query("st")?
            && let Some(resource) = (self.resource)(call)
        {
            return service.accounts.redeem(&resource, grant).map(Some);
        }
        if self.access == Access::Live
            && let Some(token) = call.query("token")?
            && let Some(resource) = (self.resource)(call)
        {
            return match (call.query("exp")?, call.query("sig")?) {
                (None, None) => authenticate_stream_token(service, token),
                (Some(exp), Some(sig)) => service.accounts.redeem_link(&resource, token, exp, sig).map(Some),
                _ => Err(Error::new(Code::SignatureInvalid, "exp and sig must be given together")),
            };
        }
        Err(Error::new(Code::Unauthorized, "a bearer token is required").with_header("www-authenticate", "Bearer"))
    }
}

/// Authenticates a stream token.
fn authenticate_stream_token(service: &Service, token: &str) -> Result<Option<Arc<Principal>>> {
    let principal = service.accounts.authenticate_stream(token).map(Some);
    principal.map_err(|error| error.with_header("www-authenticate", "Bearer error=\"invalid_token\""))
}

fn bearer_token(call: &Call) -> Result<Option<&str>> {
    let Some(value) = call.headers.get(AUTHORIZATION) else { return Ok(None) };
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
