//! `GET /` and `/web/…`: the web page, embedded in the binary, with its Content-Security-Policy (CSP).

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode};
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::domain::access::Access;
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::endpoint::Endpoint;
use crate::http::text_stream::accepts_gzip;

/// The files of assets/web. A debug build reads them from the source tree, so a reload shows a change.
#[derive(RustEmbed)]
#[folder = "assets/web"]
struct WebAssets;

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
    vec![serve_from("/", ""), serve_from("/web/{file}", ""), serve_from("/web/vendor/{file}", "vendor/")]
}

/// Compressed files by ETag: each is compressed once, when it is first requested.
static GZIPPED: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

/// Most compressed files to keep: all of the page, and some versions of them while a debug build reads the source tree.
const MAX_GZIPPED: usize = 256;

/// One file of the page. Only embedded files are served, so a name cannot escape the folder.
async fn page_file(name: &str, headers: &HeaderMap) -> Result<Response> {
    let not_found = || Error::new(Code::NotFound, "no such page");
    let content_type = content_type(name).ok_or_else(not_found)?;
    let file = WebAssets::get(name).ok_or_else(not_found)?;
    // Fonts are compressed already.
    let is_gzipped = !name.ends_with(".woff2") && accepts_gzip(headers);
    let etag = etag(&file, if is_gzipped { "-gz" } else { "" });
    let is_cached = Validators { etag: &etag, modified: None }.evaluate(headers) == PreconditionResult::NotModified;
    let plain = match file.data {
        std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        std::borrow::Cow::Owned(bytes) => bytes.into(),
    };
    let body = match (is_cached, is_gzipped) {
        (true, _) => Bytes::new(),
        (false, true) => gzipped(&etag, plain).await?,
        (false, false) => plain,
    };
    let mut response = reply::bytes(content_type, body);
    if is_cached {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    if is_gzipped && !is_cached {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
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
    Ok(response)
}

fn lock_gzipped() -> MutexGuard<'static, HashMap<String, Bytes>> {
    GZIPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file compressed with gzip.
async fn gzipped(etag: &str, plain: Bytes) -> Result<Bytes> {
    if let Some(body) = lock_gzipped().get(etag) {
        return Ok(body.clone());
    }
    // The renderer of subtitles has megabytes.
    let compress = move || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain).and_then(|()| encoder.finish())
    };
    let body: Bytes =
        tokio::task::spawn_blocking(compress).await.map_err(Error::internal)?.map_err(Error::internal)?.into();
    let mut kept = lock_gzipped();
    if kept.len() >= MAX_GZIPPED {
        kept.clear();
    }
    kept.insert(etag.to_owned(), body.clone());
    Ok(body)
}

/// Strong validator: the content's digest, and the encoding.
fn etag(file: &EmbeddedFile, suffix: &str) -> String {
    format!("\"{}{suffix}\"", BASE64URL_NOPAD.encode(&file.metadata.sha256_hash()[..15]))
}

/// The content type by extension; None for an unknown one.
fn content_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}
