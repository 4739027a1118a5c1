//! A route: method, path template, access class, handler. Routes cannot be mounted any other way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use http::header::AUTHORIZATION;
use utoipa::openapi::OpenApi;
use warp::reply::Response;

use super::call::Call;
use crate::domain::access::{Access, Principal, Role};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::Accounts;

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;
type Handler = Box<dyn Fn(Arc<Service>, Call) -> HandlerFuture + Send + Sync>;

/// A mounted route.
pub struct Endpoint {
    pub method: Method,
    /// e.g. `/api/stream/transcode/{sessionId}/status`
    pub path: &'static str,
    pub access: Access,
    /// Builds the part of the OpenAPI document that describes this route; None for the web page.
    pub(super) document: Option<fn() -> OpenApi>,
    /// Largest body, bytes; None for the configured limit.
    pub(super) body_limit: Option<u64>,
    /// Whether the handler runs on the connection's own thread.
    pub(super) is_inline: bool,
    pub(super) handler: Handler,
    resource: fn(&Call) -> Option<String>,
}

/// Method, path and description of a handler, as declared by its `#[utoipa::path]`.
pub(super) struct Declaration {
    method: Method,
    path: String,
    document: fn() -> OpenApi,
}

impl Declaration {
    /// From an OpenAPI document with one operation.
    pub(super) fn new(document: fn() -> OpenApi) -> Self {
        let (path, item) = document().paths.paths.pop_first().expect("the document has one path");
        let methods = [
            (Method::GET, item.get),
            (Method::POST, item.post),
            (Method::PUT, item.put),
            (Method::PATCH, item.patch),
            (Method::DELETE, item.delete),
        ];
        let declared = methods.into_iter().find(|(_, operation)| operation.is_some());
        let (method, _) = declared.expect("a route is GET, POST, PUT, PATCH or DELETE");
        Self { method, path, document }
    }
}

/// Mounts a handler with the method and path of its `#[utoipa::path]`: `route!(status, Access::Public)`.
macro_rules! route {
    ($($handler:ident)::+, $access:expr) => {{
        // Here utoipa finds the description by the handler's name. Method and path are read once per process.
        #[derive(utoipa::OpenApi)]
        #[openapi(paths($($handler)::+))]
        struct Document;
        static DECLARATION: std::sync::LazyLock<$crate::http::endpoint::Declaration> = std::sync::LazyLock::new(|| {
            $crate::http::endpoint::Declaration::new(<Document as utoipa::OpenApi>::openapi)
        });
        $crate::http::endpoint::Endpoint::declared(&DECLARATION, $access, $($handler)::+)
    }};
}
pub(super) use route;

impl Endpoint {
    /// A route that is not in the OpenAPI document; `route!` makes the others.
    pub(super) fn new<H, F>(method: Method, path: &'static str, access: Access, handler: H) -> Self
    where
        H: Fn(Arc<Service>, Call) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        let handler: Handler = Box::new(move |service, call| Box::pin(handler(service, call)));
        Self { method, path, access, document: None, body_limit: None, is_inline: false, handler, resource: |_| None }
    }

    pub(super) fn declared<H, F>(declaration: &'static Declaration, access: Access, handler: H) -> Self
    where
        H: Fn(Arc<Service>, Call) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        let endpoint = Self::new(declaration.method.clone(), &declaration.path, access, handler);
        Self { document: Some(declaration.document), ..endpoint }
    }

    /// Sets the largest body, bytes (default: the configured limit).
    pub(super) fn body_limit(mut self, bytes: u64) -> Self {
        self.body_limit = Some(bytes);
        self
    }

    /// Runs the handler on the connection's own thread, which saves a thread switch. Only for a handler that nearly always
    /// answers from memory and starts no task that outlives the response.
    pub(super) fn inline(mut self) -> Self {
        self.is_inline = true;
        self
    }

    /// For `Access::Granted`, `Access::Live` and `Access::Shared`: names the resource that a signed grant must be for.
    pub(super) fn resource(mut self, resource: fn(&Call) -> Option<String>) -> Self {
        self.resource = resource;
        self
    }

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
        if self.access == Access::Shared {
            let no_route = || Error::new(Code::NotFound, "no such route");
            let resource = (self.resource)(call).filter(|_| service.config.shared_cache).ok_or_else(no_route)?;
            return service.accounts.redeem_shared(&resource, &call.params[0]).map(Some);
        }
        if self.access == Access::Worker {
            return authenticate_worker(service, call).map(Some);
        }
        if let Some(principal) = authenticate_bearer(&service.accounts, call)? {
            if self.access == Access::Admin && principal.role != Role::Admin {
                return Err(Error::new(Code::Forbidden, "only admins may do this"));
            }
            return Ok(Some(principal));
        }
        let accepts_grant = matches!(self.access, Access::Granted | Access::Live);
        if accepts_grant
            && let Some(grant) = call.query("st")
            && let Some(resource) = (self.resource)(call)
        {
            return service.accounts.redeem(&resource, grant).map(Some);
        }
        if self.access == Access::Live
            && let Some(token) = call.query("token")
            && let Some(resource) = (self.resource)(call)
        {
            return match (call.query("exp"), call.query("sig")) {
                (None, None) => authenticate_stream_token(service, token),
                (Some(exp), Some(sig)) => service.accounts.redeem_link(&resource, token, exp, sig).map(Some),
                _ => Err(Error::new(Code::SignatureInvalid, "exp and sig must be given together")),
            };
        }
        Err(Error::new(Code::Unauthorized, "a bearer token is required").with_header("www-authenticate", "Bearer"))
    }
}

/// The owner of the request's bearer token; None without one.
///
/// # Errors
/// `UNAUTHORIZED`, `TOKEN_EXPIRED`.
pub(super) fn authenticate_bearer(accounts: &Accounts, call: &Call) -> Result<Option<Arc<Principal>>> {
    let Some(token) = bearer_token(call)? else { return Ok(None) };
    let challenge = |error: Error| error.with_header("www-authenticate", "Bearer error=\"invalid_token\"");
    accounts.authenticate(token).map(Some).map_err(challenge)
}

fn authenticate_worker(service: &Service, call: &Call) -> Result<Arc<Principal>> {
    let unauthorized = || Error::new(Code::Unauthorized, "the token of a worker is required");
    let token = bearer_token(call)?.ok_or_else(unauthorized);
    let workers = service.remote_workers.as_ref().ok_or_else(unauthorized);
    let principal = token.and_then(|token| workers?.authenticate(token));
    principal.map_err(|error| error.with_header("www-authenticate", "Bearer"))
}

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
