//! `GET /`, `/web/…` and `/help/…`: the web page and the pages of help, embedded in the binary, with its Content-Security-Policy (CSP).

mod files;
mod minify;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode};

use crate::domain::access::Access;
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::endpoint::Endpoint;
use crate::http::text_stream::accepts_encoding;
use files::{Encoding, SERVICE_WORKER};

/// Only our own scripts run and only this server is contacted. hls.js passes media and subtitles to the video element as
/// `blob:`; the style sheet's images are `data:`.
const PAGE_POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data: blob:; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The policy of the worker that renders ASS subtitles: it is WebAssembly, which may be compiled only there.
const ASS_WORKER_POLICY: &str =
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; object-src 'none'; base-uri 'none'";
const ASS_WORKER: &str = "vendor/ass.worker.js";

pub fn endpoints() -> Vec<Endpoint> {
    let serve_from = |path, folder: &'static str| {
        Endpoint::new(Method::GET, path, Access::Public, move |_, call| async move {
            let name = call.params.first().map_or("index.html", String::as_str);
            page_file(&format!("{folder}{name}"), &call.headers).await
        })
    };
    vec![
        serve_from("/", ""),
        serve_from("/web/{file}", ""),
        serve_from("/web/language/{file}", "language/"),
        serve_from("/web/vendor/{file}", "vendor/"),
        serve_from("/help/", files::HELP),
        serve_from("/help/{file}", files::HELP),
    ]
}

/// One file of the page.
async fn page_file(name: &str, headers: &HeaderMap) -> Result<Response> {
    let not_found = || Error::new(Code::NotFound, "no such page");
    let content_type = content_type(name).ok_or_else(not_found)?;
    let file = files::find(name).ok_or_else(not_found)?;
    // Fonts and images are compressed already.
    let is_compressible = !name.ends_with(".woff2") && !name.ends_with(".png");
    let encoding = [Encoding::Brotli, Encoding::Gzip]
        .into_iter()
        .find(|encoding| is_compressible && accepts_encoding(headers, encoding.name()));
    // A strong validator: the content's digest, and the encoding.
    let etag = format!("\"{}{}\"", file.digest, encoding.map_or(String::new(), |found| format!("-{}", found.name())));
    let is_cached = Validators { etag: &etag, modified: None }.evaluate(headers) == PreconditionResult::NotModified;
    let body = match (is_cached, encoding) {
        (true, _) => Bytes::new(),
        (false, Some(encoding)) => files::compressed(file, encoding).await?,
        (false, None) => file.content,
    };
    let mut response = reply::bytes(content_type, body);
    if is_cached {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    if let Some(encoding) = encoding.filter(|_| !is_cached) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(ETAG, HeaderValue::from_str(&etag).expect("base64 is a header value"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let policy = if name == ASS_WORKER { ASS_WORKER_POLICY } else { PAGE_POLICY };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("permissions-policy", HeaderValue::from_static("camera=(), geolocation=(), microphone=()"));
    if name == SERVICE_WORKER {
        // It is for the page, which is above its own folder.
        headers.insert("service-worker-allowed", HeaderValue::from_static("../"));
    }
    Ok(response)
}

/// The content type by extension; None for an unknown one.
fn content_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}
