//! Routes each request to its endpoint, and completes the endpoint's response.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use matchit::Router;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use warp::reply::Response;

use super::call::Call;
use super::cors::Cors;
use super::endpoint::Endpoint;
use super::forward::{AUTHENTICATED_CLIENT, CLIENT_HEADER};
use super::route_class::route_class;
use super::server::{ConnectionSlot, RequestBody, RequestInfo};
use super::urls::ResourceUrls;
use super::{decode, reply, urls};
use crate::domain::forwarded_client::SignedRequest;
use crate::domain::trace::TraceContext;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::telemetry::traces::{self, ActiveSpan};

/// Longest time until any response begins. Each wait has a shorter timeout of its own (a segment 20 s, storage 15 s);
/// this one catches a wait that has none.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

const API_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-api-version"), HeaderValue::from_static("1"));

/// The routing table.
pub struct Dispatcher {
    service: Arc<Service>,
    /// By method first, so that a path whose own route lacks the method still matches a template that has it.
    routers: HashMap<Method, Router<Endpoint>>,
    /// The main runtime, for handlers that are not inline and the tasks they start.
    main_runtime: Handle,
}

/// The parts of a request that warp extracts.
pub struct RequestParts {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: Arc<HeaderMap>,
    pub info: RequestInfo,
    pub body: RequestBody,
    pub slot: Arc<ConnectionSlot>,
}

impl Dispatcher {
    /// Must be called inside the main runtime.
    pub fn new(service: &Arc<Service>, endpoints: Vec<Endpoint>) -> Self {
        let mut routers: HashMap<Method, Router<Endpoint>> = HashMap::new();
        for endpoint in endpoints {
            let router = routers.entry(endpoint.method.clone()).or_default();
            router.insert(endpoint.path, endpoint).expect("templates are valid and distinct");
        }
        Self { service: service.clone(), routers, main_runtime: Handle::current() }
    }

    /// Handles a request. Every error response has the JSON error body (`{error, code, …}`).
    pub async fn respond(self: Arc<Self>, mut request: RequestParts) -> Response {
        let started = Instant::now();
        self.take_forwarded_client(&mut request);
        let (info, method) = (request.info.clone(), request.method.clone());
        let cors = Cors::new(&self.service.config.allowed_origins);
        let origin = cors.allowed_origin(&request.headers);
        let slot = request.slot.clone();
        let mut span = ActiveSpan::of_request(trace_parent(&request.headers), || method.to_string());
        let (route, result) = self.route_request(request, span.context()).await;
        let mut response = result.unwrap_or_else(|error| reply::error(error, &info));

        add_common_headers(cors, origin, response.headers_mut());
        let class = route_class(route);
        self.service.traffic.count_response(class, response.status().as_u16());
        slot.count_sent_bytes_in(self.service.traffic.sent_bytes(class));
        complete_span(&mut span, &info, &method, route, response.status());
        log_request(&info, &method, route, response.status(), started);
        response
    }

    /// Takes the client's address from a standby that passed the request on. Without its signature the header has no effect.
    fn take_forwarded_client(&self, request: &mut RequestParts) {
        let RequestParts { method, path, query, headers, .. } = &*request;
        let Some(header) = headers.get(CLIENT_HEADER).and_then(|header| header.to_str().ok()) else { return };
        let signed = SignedRequest { method: method.as_str(), path, query };
        if let Some(client) = self.service.accounts.forwarded_client(header, signed) {
            request.info.remote = client;
            request.info.is_forwarded = true;
            request.slot.mark_standby();
        }
    }

    async fn route_request(
        &self,
        request: RequestParts,
        trace: Option<TraceContext>,
    ) -> (&'static str, Result<Response>) {
        let RequestParts { method, path, query, headers, info, body, slot } = request;
        let prefix = ResourceUrls::from_config(&self.service.config).prefix();
        let path = match path.len() - urls::without_prefix(&path, prefix).len() {
            0 => path,
            // The page's URLs are relative to its folder, so the slash is needed.
            prefix_len if prefix_len == path.len() => return ("/", redirect(&format!("{prefix}/"))),
            prefix_len => path[prefix_len..].to_owned(),
        };
        let Some((endpoint, params)) = self.find_endpoint(&method, &path) else {
            let allowed = self.allowed_methods(&path);
            let result = match allowed {
                Some(allow) if method == Method::OPTIONS => Ok(self.options_response(&headers, &allow)),
                Some(allow) => Err(Error::new(Code::MethodNotAllowed, format!("this route does not allow {method}"))
                    .with_header("allow", allow)),
                None => Err(Error::new(Code::NotFound, "no such route")),
            };
            return ("-", result);
        };
        let body_limit = endpoint.body_limit.unwrap_or(self.service.config.limits.body_bytes);
        let params: Result<Vec<String>> = params.into_iter().map(decode::percent_decode).collect();
        let mut call =
            Call { info, method, params: Vec::new(), headers, principal: None, query: Vec::new(), body, body_limit };
        let admission = async {
            call.params = params?;
            call.query = decode::parse_query(&query)?;
            call.principal = endpoint.admit(&self.service, &call)?;
            if call.principal.is_some() {
                // Now, because the response may take a minute to begin.
                slot.mark_authenticated();
            }
            call.body.check_limit(body_limit)
        };
        if let Err(error) = admission.await {
            return (endpoint.path, Err(error));
        }
        let has_credentials = call.info.is_forwarded && call.principal.is_some();
        let mut result = self.run_handler(endpoint, call, trace).await;
        if has_credentials && let Ok(response) = &mut result {
            response.headers_mut().insert(CLIENT_HEADER, AUTHENTICATED_CLIENT);
        }
        (endpoint.path, result)
    }

    /// The endpoint of a request, with the raw values of its path's `{…}` parts. Fixed parts win over these.
    fn find_endpoint<'a>(&'a self, method: &Method, path: &'a str) -> Option<(&'a Endpoint, Vec<&'a str>)> {
        let routed_method = if *method == Method::HEAD { &Method::GET } else { method };
        let found = self.routers.get(routed_method)?.at(path).ok()?;
        Some((found.value, found.params.iter().map(|(_, value)| value).collect()))
    }

    /// The methods allowed for a path, for `Allow`; None for an unknown path.
    fn allowed_methods(&self, path: &str) -> Option<String> {
        let matching = self.routers.iter().filter(|(_, router)| router.at(path).is_ok());
        let mut methods: Vec<&str> = matching.map(|(method, _)| method.as_str()).collect();
        if methods.is_empty() {
            return None;
        }
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        methods.sort_unstable();
        Some(methods.join(", "))
    }

    fn options_response(&self, request: &HeaderMap, allow: &str) -> Response {
        let mut response = reply::empty();
        if let Ok(allow) = HeaderValue::from_str(allow) {
            let cors = Cors::new(&self.service.config.allowed_origins);
            cors.add_preflight_headers(request, &allow, response.headers_mut());
            response.headers_mut().insert(ALLOW, allow);
        }
        response
    }

    /// Runs a handler with a timeout; a panic becomes an error response.
    async fn run_handler(&self, endpoint: &Endpoint, call: Call, trace: Option<TraceContext>) -> Result<Response> {
        let is_change = call.method != Method::GET && call.method != Method::HEAD;
        let info = call.info.clone();
        let mut handler_future = (endpoint.handler)(self.service.clone(), call);
        if trace.is_some() {
            handler_future = Box::pin(traces::in_context(trace, handler_future));
        }
        let mut handler_future = AssertUnwindSafe(handler_future).catch_unwind();
        if endpoint.is_inline
            && let Some(result) = (&mut handler_future).now_or_never()
        {
            // A response that is ready immediately needs no timer.
            return result.unwrap_or_else(panic_error);
        }
        if endpoint.is_inline {
            return bounded(handler_future, info).await;
        }
        if is_change {
            // A change that has begun is completed even if the client disconnects or the deadline passes: dropping the
            // handle does not abort its task.
            let work = self.main_runtime.spawn(handler_future);
            let work = work.map(|ended| ended.unwrap_or_else(|cause| Ok(Err(Error::internal(cause)))));
            return bounded(work, info).await;
        }
        // Dropping the set aborts its tasks.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(bounded(handler_future, info), &self.main_runtime);
        tasks.join_next().await.expect("one task was spawned").unwrap_or_else(|cause| Err(Error::internal(cause)))
    }
}

/// Adds the headers that each response has; `origin` is that of the request, if it is an allowed one.
pub fn add_common_headers(cors: Cors<'_>, origin: Option<HeaderValue>, response: &mut HeaderMap) {
    response.insert(API_VERSION.0, API_VERSION.1);
    response.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    cors.add_headers(origin, response);
}

/// The span of a client that takes part in a trace (W3C Trace Context).
fn trace_parent(headers: &HeaderMap) -> Option<TraceContext> {
    if !traces::is_recording() {
        return None;
    }
    TraceContext::parse(headers.get("traceparent")?.to_str().ok()?)
}

/// Names the span of a request by its route, because its path contains names and grants.
fn complete_span(span: &mut ActiveSpan, info: &RequestInfo, method: &Method, route: &'static str, status: StatusCode) {
    span.rename(|| format!("{method} {route}"));
    span.set("http.request.method", method.as_str());
    span.set("http.route", route);
    span.set("http.response.status_code", status.as_u16());
    span.set("request.id", info.request_id.as_str());
    if status.is_server_error() {
        span.set_failed();
    }
}

/// Waits for a handler, which may panic, until the deadline.
async fn bounded(
    work: impl Future<Output = std::thread::Result<Result<Response>>>,
    info: RequestInfo,
) -> Result<Response> {
    match tokio::time::timeout(RESPONSE_TIMEOUT, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => panic_error(panic),
        Err(_) => {
            let message = format!("no response within {} s", RESPONSE_TIMEOUT.as_secs());
            tracing::warn!(request.id = info.request_id.as_str(), "{message}");
            Err(Error::new(Code::ServerBusy, message).with_retry_after(5))
        }
    }
}

/// A permanent redirect to another URL of the same resource.
fn redirect(url: &str) -> Result<Response> {
    let mut response = reply::empty();
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(url).map_err(Error::internal)?);
    Ok(response)
}

/// The error response for a handler's panic.
fn panic_error(panic: Box<dyn Any + Send>) -> Result<Response> {
    let static_message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = static_message.or_else(|| panic.downcast_ref::<String>().cloned());
    Err(Error::internal(format!("a handler panicked: {}", message.unwrap_or_default())))
}

/// Logs one line per request: changes and rejected credentials at `info`, server errors at `warn`, the many reads of a
/// player at `debug`. Never a path or a query: they contain names and grants.
fn log_request(info: &RequestInfo, method: &Method, route: &str, status: StatusCode, started: Instant) {
    let (id, method, status) = (info.request_id.as_str(), method.as_str(), status.as_u16());
    let duration_ms = (started.elapsed().as_secs_f64() * 100_000.0).round() / 100.0;
    match status {
        500.. => tracing::warn!(request.id = id, method, route, status, duration_ms, "answered"),
        401 | 403 | 429 => tracing::info!(request.id = id, method, route, status, duration_ms, "answered"),
        _ if method != "GET" && method != "HEAD" => {
            tracing::info!(request.id = id, method, route, status, duration_ms, "answered");
        }
        _ => tracing::debug!(request.id = id, method, route, status, duration_ms, "answered"),
    }
}

#[cfg(test)]
pub(super) mod tests;
