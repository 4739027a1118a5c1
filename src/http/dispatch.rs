//! Routes each request to its endpoint, and completes the endpoint's response.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use warp::reply::Response;

use super::address::Addresses;
use super::call::{Call, Context};
use super::cors::Cors;
use super::endpoint::Endpoint;
use super::places::Place;
use super::upload::Upload;
use super::{address, reply, target};
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Longest time until any response begins. Each wait has a shorter timeout of its own (a segment 20 s, storage 15 s);
/// this one catches a wait that has none.
const DEADLINE: Duration = Duration::from_secs(60);

const API_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-api-version"), HeaderValue::from_static("1"));

/// The routing table.
pub struct Dispatch {
    service: Arc<Service>,
    endpoints: Vec<Arc<Endpoint>>,
    /// Endpoints whose path has no parameters.
    fixed: HashMap<&'static str, Vec<usize>>,
    /// Endpoints whose path has parameters, more exact ones first.
    open: Vec<usize>,
    cors: Cors,
    /// The main runtime, for handlers that are not inline and the tasks they start.
    runtime: Handle,
}

/// The parts of a request that warp extracts.
pub struct Request {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: Arc<HeaderMap>,
    pub context: Context,
    pub body: Upload,
    /// The slot of the connection.
    pub place: Arc<Place>,
}

impl Dispatch {
    /// Must be called inside the main runtime.
    pub fn new(service: &Arc<Service>, endpoints: Vec<Endpoint>) -> Self {
        let endpoints: Vec<Arc<Endpoint>> = endpoints.into_iter().map(Arc::new).collect();
        let mut fixed: HashMap<&'static str, Vec<usize>> = HashMap::new();
        let mut open = Vec::new();
        for (index, endpoint) in endpoints.iter().enumerate() {
            match endpoint.path.contains('{') {
                true => open.push(index),
                false => fixed.entry(endpoint.path).or_default().push(index),
            }
        }
        open.sort_by_key(|index| std::cmp::Reverse(target::exactness(endpoints[*index].path)));
        let cors = Cors::new(&service.config.allowed_origins);
        Self { service: service.clone(), endpoints, fixed, open, cors, runtime: Handle::current() }
    }

    /// Handles a request. Every error response has the JSON error body (`{error, code, …}`).
    pub async fn answer(self: Arc<Self>, request: Request) -> Response {
        let started = Instant::now();
        let (context, method) = (request.context.clone(), request.method.clone());
        let origin = self.cors.allowed(&request.headers);
        let (route, answer) = self.route(request).await;
        let mut response = answer.unwrap_or_else(|error| reply::error(error, &context));

        let headers = response.headers_mut();
        headers.insert(API_VERSION.0, API_VERSION.1);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        self.cors.mark(origin, headers);
        log(&context, &method, route, response.status(), started);
        response
    }

    async fn route(&self, request: Request) -> (&'static str, Result<Response>) {
        let Request { method, path, query, headers, context, body, place } = request;
        let prefix = Addresses::of(&self.service.config).prefix();
        let path = match path.len() - address::without_prefix(&path, prefix).len() {
            0 => path,
            // The page's URLs are relative to its folder, so the slash is needed.
            all if all == path.len() => return ("/", redirect(&format!("{prefix}/"))),
            some => path[some..].to_owned(),
        };
        let Some((endpoint, params)) = self.find(&method, &path) else {
            let allow = self.allow(&path);
            let answer = match allow {
                Some(allow) if method == Method::OPTIONS => Ok(self.options(&headers, &allow)),
                Some(allow) => Err(Error::new(Code::MethodNotAllowed, format!("this route does not allow {method}"))
                    .with_header("allow", allow)),
                None => Err(Error::new(Code::NotFound, "no such route")),
            };
            return ("-", answer);
        };
        let limit = endpoint.body_limit.unwrap_or(self.service.config.limits.body_bytes);
        let params: Result<Vec<String>> = params.into_iter().map(target::decode).collect();
        let mut call = Call {
            context,
            method,
            params: Vec::new(),
            headers,
            principal: None,
            query: Vec::new(),
            body,
            body_limit: limit,
        };
        let admitted = async {
            call.params = params?;
            call.query = target::query(&query)?;
            call.principal = endpoint.admit(&self.service, &call)?;
            if call.principal.is_some() {
                // Now, because the response may take a minute to begin.
                place.admit();
            }
            call.body.within(limit)
        };
        if let Err(error) = admitted.await {
            return (endpoint.path, Err(error));
        }
        (endpoint.path, self.run(&endpoint, call).await)
    }

    fn find<'a>(&self, method: &Method, path: &'a str) -> Option<(Arc<Endpoint>, Vec<&'a str>)> {
        let wanted = if *method == Method::HEAD { &Method::GET } else { method };
        let fixed = self.fixed.get(path).into_iter().flatten().map(|index| &self.endpoints[*index]);
        if let Some(endpoint) = fixed.into_iter().find(|endpoint| endpoint.method == *wanted) {
            return Some((endpoint.clone(), Vec::new()));
        }
        let open = self.open.iter().map(|index| &self.endpoints[*index]).filter(|endpoint| endpoint.method == *wanted);
        let mut fitting = open.filter_map(|endpoint| Some((endpoint.clone(), target::fit(endpoint.path, path)?)));
        fitting.next()
    }

    /// The methods allowed for a path, for `Allow`; None for an unknown path.
    fn allow(&self, path: &str) -> Option<String> {
        let mut methods: Vec<&str> = Vec::new();
        for endpoint in self.endpoints.iter().filter(|endpoint| target::fit(endpoint.path, path).is_some()) {
            methods.push(endpoint.method.as_str());
            if endpoint.method == Method::GET {
                methods.push("HEAD");
            }
        }
        if methods.is_empty() {
            return None;
        }
        methods.push("OPTIONS");
        methods.sort_unstable();
        methods.dedup();
        Some(methods.join(", "))
    }

    fn options(&self, request: &HeaderMap, allow: &str) -> Response {
        let mut response = reply::empty();
        if let Ok(allow) = HeaderValue::from_str(allow) {
            self.cors.preflight(request, &allow, response.headers_mut());
            response.headers_mut().insert(ALLOW, allow);
        }
        response
    }

    /// Runs a handler with a timeout; a panic becomes an error response.
    async fn run(&self, endpoint: &Endpoint, call: Call) -> Result<Response> {
        let changes = call.method != Method::GET && call.method != Method::HEAD;
        let context = call.context.clone();
        let mut work = AssertUnwindSafe((endpoint.handler)(call)).catch_unwind();
        if endpoint.inline
            && let Some(answer) = (&mut work).now_or_never()
        {
            // A response that is ready immediately needs no timer.
            return answer.unwrap_or_else(panicked);
        }
        if endpoint.inline {
            return bounded(work, context).await;
        }
        if changes {
            // A change that has begun is completed even if the client disconnects or the deadline passes: dropping the
            // handle does not abort its task.
            let work = self.runtime.spawn(work);
            let work = work.map(|ended| ended.unwrap_or_else(|cause| Ok(Err(Error::internal(cause)))));
            return bounded(work, context).await;
        }
        // Dropping the set aborts its tasks.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(bounded(work, context), &self.runtime);
        tasks.join_next().await.expect("one task was spawned").unwrap_or_else(|cause| Err(Error::internal(cause)))
    }
}

/// Waits for a handler, which may panic, until the deadline.
async fn bounded(
    work: impl Future<Output = std::thread::Result<Result<Response>>>,
    context: Context,
) -> Result<Response> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => panicked(panic),
        Err(_) => {
            let late = format!("no response within {} s", DEADLINE.as_secs());
            tracing::warn!(request.id = context.request_id.as_str(), "{late}");
            Err(Error::new(Code::ServerBusy, late).with_retry_after(5))
        }
    }
}

/// A permanent redirect to another URL of the same resource.
fn redirect(address: &str) -> Result<Response> {
    let mut response = reply::empty();
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(address).map_err(Error::internal)?);
    Ok(response)
}

/// The error response for a handler's panic.
fn panicked(panic: Box<dyn Any + Send>) -> Result<Response> {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    Err(Error::internal(format!("a handler panicked: {}", said.unwrap_or_default())))
}

/// Logs one line per request: changes and rejected credentials at `info`, server errors at `warn`, the many reads of a
/// player at `debug`. Never a path or a query: they contain names and grants.
fn log(context: &Context, method: &Method, route: &str, status: StatusCode, started: Instant) {
    let (id, method, status) = (context.request_id.as_str(), method.as_str(), status.as_u16());
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
mod tests;
