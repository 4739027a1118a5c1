//! The OpenAPI document and the access class of every route.

use std::collections::BTreeSet;

use hearthcast::domain::access::{Access, Role};
use hearthcast::http::{endpoints, openapi};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::expect_error;
use crate::kit::{self, Server, media, schema};

/// Routes of the web page, which is not part of the API.
const PAGE_ROUTES: [&str; 6] =
    ["/", "/web/{file}", "/web/language/{file}", "/web/vendor/{file}", "/help/", "/help/{file}"];

/// Paths open without credentials. None of them serves media.
const PUBLIC_PATHS: [&str; 9] = [
    "/api/health",
    "/api/openapi.json",
    "/api/auth/status",
    "/api/auth/setup",
    "/api/auth/login",
    "/api/livetv/icons/{id}/{start}",
    "/api/livetv/logos/{id}",
    "/api/workers/enrol",
    "/api/workers/renew",
];

/// Paths that accept a signed grant (`st`) instead of a token: media and images, for players and pages that cannot send a header.
const GRANT_PATHS: [&str; 6] = [
    "/api/stream/file",
    "/api/stream/subtitle",
    "/api/stream/attachment",
    "/api/stream/transcode/{sessionId}",
    "/api/library/items/{id}/artwork",
    "/api/library/series/{id}/artwork",
];

/// Paths that also accept a stream token or a signed URL.
const STREAM_TOKEN_PATHS: [&str; 4] =
    ["/api/livetv/watch/{id}", "/api/livetv/m3u", "/api/livetv/xmltv", "/api/livetv/xmltv.gz"];

/// Paths for admins only.
const ADMIN_PATHS: [&str; 11] = [
    "/metrics",
    "/api/users",
    "/api/debug",
    "/api/quarantine",
    "/api/library/folders",
    "/api/server/folders",
    "/api/server/status",
    "/api/stream/transcode/sessions",
    "/api/workers",
    "/api/livetv/audit",
    "/api/livetv/sources",
];

/// Paths that every user may read and only admins may change.
const ADMIN_WRITABLE_PATHS: [&str; 3] = ["/api/livetv/channels", "/api/livetv/recordings", "/api/library/items"];

/// The access class that a route must have.
fn expected_access(method: &Method, path: &str) -> Access {
    let is_below_any = |list: &[&str]| {
        list.iter().any(|prefix| path == *prefix || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')))
    };
    match path {
        _ if PUBLIC_PATHS.contains(&path) => Access::Public,
        _ if is_below_any(&["/hdhr"]) => Access::Tuner,
        _ if is_below_any(&["/api/livetv/segments"]) => Access::Shared,
        _ if is_below_any(&["/api/workers/runs"]) => Access::Worker,
        _ if is_below_any(&GRANT_PATHS) => Access::Granted,
        _ if is_below_any(&STREAM_TOKEN_PATHS) => Access::Live,
        _ if is_below_any(&ADMIN_PATHS) => Access::Admin,
        _ if is_below_any(&ADMIN_WRITABLE_PATHS) && *method != Method::GET => Access::Admin,
        _ => Access::User,
    }
}

fn operations() -> impl Iterator<Item = (String, String, &'static Value)> {
    let paths = openapi::document()["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    })
}

#[test]
fn operations_document_their_errors_and_required_fields() {
    let document = openapi::document();
    for (method, path, operation) in operations() {
        let documents = |status: &str| operation["responses"].get(status).is_some();
        let name = format!("{method} {path}");
        assert!(operation.get("requestBody").is_none() || documents("400"), "{name} takes a body");
        let is_public = operation["security"].as_array().unwrap().is_empty();
        assert!(is_public || documents("401"), "{name} needs credentials");
    }
    for path in ["/api/auth/login", "/api/auth/setup", "/api/stream/transcode/start"] {
        let response = document["paths"][path]["post"]["responses"].get("429");
        assert!(response.is_some(), "{path} is limited");
    }
    let required = |name: &str| document["components"]["schemas"][name]["required"].clone();
    assert_eq!(required("StartBody"), json!(["mediaPath"]));
    let new = &document["components"]["schemas"]["NewChannel"]["allOf"][1];
    assert_eq!(new["required"], json!(["name"]));
    assert_eq!(new["anyOf"].as_array().unwrap().len(), 3);
    let body = &document["paths"]["/api/livetv/channels"]["post"]["requestBody"]["content"]["application/json"];
    assert_eq!(body["schema"]["$ref"], "#/components/schemas/NewChannel");
}

#[tokio::test]
async fn exactly_the_mounted_routes_are_documented() {
    let server = kit::start_server(&[]).await;
    let mounted: BTreeSet<(String, String)> = endpoints()
        .iter()
        .filter(|endpoint| !PAGE_ROUTES.contains(&endpoint.path))
        .map(|endpoint| (endpoint.method.to_string(), endpoint.path.to_owned()))
        .collect();
    let documented: BTreeSet<_> = operations().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(mounted, documented, "only the page has routes without a description");
    let served = server.request(Method::GET, "/api/openapi.json").send().await.unwrap();
    assert_eq!(served.headers()["content-type"], "application/json");
    assert_eq!(&served.json::<Value>().await.unwrap(), openapi::document());
    assert!(openapi::document()["openapi"].as_str().unwrap().starts_with("3.1"));

    let ids: Vec<&str> = operations().map(|(_, _, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let names = |path: &str| -> BTreeSet<String> {
        path.split('/').filter_map(|part| Some(part.strip_prefix('{')?.strip_suffix('}')?.to_owned())).collect()
    };
    for (method, path, operation) in operations() {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described: BTreeSet<String> =
            parameters.filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(described, names(&path), "{method} {path}");
    }
}

/// The golden document shows the diff of a change to the API. `scripts/bless` updates it.
#[test]
fn the_document_is_the_golden_one() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/openapi.json");
    let current = format!("{}\n", openapi::text());
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(golden, &current).unwrap();
    }
    let golden_text = std::fs::read_to_string(golden).unwrap_or_default();
    let first_difference = golden_text.lines().zip(current.lines()).position(|(previous, now)| previous != now);
    let line = first_difference.unwrap_or_else(|| golden_text.lines().count().min(current.lines().count()));
    assert!(
        golden_text == current,
        "the API differs from tests/golden/openapi.json at line {}: {:?} is now {:?}; to accept it, run scripts/bless",
        line + 1,
        golden_text.lines().nth(line),
        current.lines().nth(line)
    );
}

#[tokio::test]
async fn every_route_has_an_access_class_and_media_needs_one() {
    let server = kit::start_server_with(&[], |config| {
        config.hdhomerun = true;
        config.shared_cache = true;
    });
    let server = server.await;
    for endpoint in endpoints() {
        if PAGE_ROUTES.contains(&endpoint.path) {
            assert_eq!((endpoint.access, endpoint.method), (Access::Public, Method::GET));
            continue;
        }
        assert_eq!(
            endpoint.access,
            expected_access(&endpoint.method, endpoint.path),
            "{} {}: list it above",
            endpoint.method,
            endpoint.path
        );
        let public = PUBLIC_PATHS.contains(&endpoint.path);
        assert_eq!(endpoint.access == Access::Public, public, "{}", endpoint.path);
        assert!(!public || !endpoint.path.starts_with("/api/stream"), "{} would serve media to anyone", endpoint.path);
        if public {
            continue;
        }
        let path: String = endpoint.path.replace(['{', '}'], "");
        for query in
            ["", "?path=%2Fetc%2Fpasswd", "?st=9999999999.l_x.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&path=/a"]
        {
            for (header, value) in
                [("accept", "*/*"), ("authorization", "Bearer hc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
            {
                let request = server.request(endpoint.method.clone(), &format!("{path}{query}")).header(header, value);
                let answer = request.json(&json!({})).send().await.unwrap();
                let is_forged_signature = query.contains("st=")
                    && header != "authorization"
                    && matches!(endpoint.access, Access::Granted | Access::Live);
                // The grant is in the path.
                let is_forged_signature = is_forged_signature || endpoint.access == Access::Shared;
                let (status, code) =
                    if is_forged_signature { (403, "SIGNATURE_INVALID") } else { (401, "UNAUTHORIZED") };
                expect_error(answer, status, code).await;
            }
        }
        if endpoint.access == Access::Admin {
            let answer = server
                .request(endpoint.method, &path)
                .bearer_auth(&server.token)
                .json(&json!({}))
                .send()
                .await
                .unwrap();
            expect_error(answer, 403, "FORBIDDEN").await;
        }
    }
}

/// Sends a request and validates the response against the document.
async fn assert_documented(
    server: &Server,
    token: &str,
    method: &str,
    path: &str,
    query: &str,
    body: Option<Value>,
) -> Value {
    assert_documented_at(server, token, method, path, &format!("{path}{query}"), body).await.1
}

/// Sends a request to `address`, which instantiates the template `path`, and validates the response against the document.
/// Returns the status, and null for anything but JSON.
async fn assert_documented_at(
    server: &Server,
    token: &str,
    method: &str,
    path: &str,
    address: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let operation = &openapi::document()["paths"][path][method];
    assert!(operation.is_object(), "{method} {path}");
    let request = server.request(method.to_uppercase().parse().unwrap(), address).bearer_auth(token);
    let request = if let Some(body) = body { request.json(&body) } else { request };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let described = operation["responses"].get(status.to_string()).unwrap_or(&operation["responses"]["default"]);
    let content_type =
        answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap().to_owned();
    let text = answer.bytes().await.unwrap();
    let Some(content) = described["content"].get(&media_type) else {
        assert!(text.is_empty(), "{method} {address} {status}: {media_type} is not documented");
        return (status, Value::Null);
    };
    if media_type != "application/json" {
        assert!(!text.is_empty(), "{method} {address} {status}: the body is empty");
        return (status, Value::Null);
    }
    let value: Value =
        serde_json::from_slice(&text).unwrap_or_else(|fault| panic!("{method} {address}: {fault} in {text:?}"));
    let violations = schema::violations(openapi::document(), &content["schema"], &value);
    assert!(violations.is_empty(), "{method} {address} {status}: {violations:#?}\n{value:#}");
    (status, value)
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_of_sessions_and_subtitles_match_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mkv");
    media::flash_and_beep(&path, 3, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a ac3");
    std::fs::write(folder.path().join("a.de.srt"), "1\n00:00:00,500 --> 00:00:01,500\nhello\n").unwrap();
    // Long enough for a busy machine: this test checks the shape of responses.
    let probe_deadline = std::time::Duration::from_secs(60);
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.probe_deadline = probe_deadline).await;
    let token = server.token.clone();
    let request = async |method: &str, path: &str, address: &str, body: Option<Value>| {
        assert_documented_at(&server, &token, method, path, address, body).await
    };
    let start = "/api/stream/transcode/start";
    let body = json!({"mediaPath": path, "subtitleMode": "external"});
    let (status, started) = request("post", start, start, Some(body)).await;
    assert_eq!(status, 200, "{started}");
    let session_url = format!("/api/stream/transcode/{}", started["sessionId"].as_str().unwrap());
    let session_template = "/api/stream/transcode/{sessionId}";
    for (template, tail, expected) in [
        ("/index.m3u8", "/index.m3u8?wait=0", 200),
        ("/index.m3u8", "/index.m3u8", 200),
        ("/index.m3u8", "/index.m3u8?wait=x", 400),
        ("/{asset}", "/v0.m3u8", 200),
        ("/{asset}", "/v0-00001.ts", 200),
        ("/{asset}", "/s0.m3u8", 200),
        ("/{asset}", "/s0-00000.vtt", 200),
        ("/{asset}", "/v0-99999.ts", 404),
        ("/status", "/status", 200),
    ] {
        let (status, body) =
            request("get", &format!("{session_template}{template}"), &format!("{session_url}{tail}"), None).await;
        assert_eq!(status, expected, "{tail}: {body}");
    }
    for expected in [true, false] {
        let (status, body) =
            request("post", &format!("{session_template}/stop"), &format!("{session_url}/stop"), None).await;
        assert_eq!((status, &body["stopped"]), (200, &json!(expected)));
    }
    assert_eq!(request("delete", session_template, &session_url, None).await.0, 200);
    assert_eq!(request("delete", session_template, "/api/stream/transcode/ts_0", None).await.0, 404);
    assert_eq!(
        request("get", &format!("{session_template}/{{asset}}"), &format!("{session_url}/v0.m3u8"), None).await.0,
        410
    );
    assert_eq!(
        request("get", &format!("{session_template}/status"), &format!("{session_url}/status"), None).await.0,
        200
    );

    let device = json!({"containers": ["mkv"], "video": [{"codec": "h264"}], "audio": [{"codec": "ac3"}]});
    let (status, direct) =
        request("post", start, start, Some(json!({"mediaPath": path, "deviceProfile": device}))).await;
    assert_eq!((status, &direct["playbackMode"]), (200, &json!("direct")), "{direct}");
    let srt = folder.path().join("a.de.srt");
    for (body, expected) in [
        (json!({}), 400),
        (json!({"mediaPath": path, "audioStreamIndex": 7}), 400),
        (json!({"mediaPath": "/etc/passwd"}), 403),
        (json!({"mediaPath": folder.path().join("none.mkv")}), 404),
        (json!({"mediaPath": srt}), 415),
    ] {
        assert_eq!(request("post", start, start, Some(body.clone())).await.0, expected, "{body}");
    }
    let subtitle = "/api/stream/subtitle";
    let media = percent_encoded(path.to_str().unwrap());
    for (query, expected) in
        [("id=x0", 200), ("id=x0&format=srt", 200), ("id=x7", 404), ("id=x0&format=ass", 415), ("format=vtt", 400)]
    {
        let (status, body) = request("get", subtitle, &format!("{subtitle}?path={media}&{query}"), None).await;
        assert_eq!(status, expected, "{query}: {body}");
    }
}

#[tokio::test]
async fn real_answers_fit_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's 100% \u{1f600}.mp4");
    // Not shorter, because every entry of one day of the guide is validated.
    media::flash_and_beep(&path, 30, "-c:v libx264 -preset ultrafast -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    server.service.accounts.add_user(None, "ada", Role::Admin, "correct horse").await.unwrap();
    let login = json!({"username": "ada", "password": "correct horse"});
    let ada = assert_documented(&server, "", "post", "/api/auth/login", "", Some(login)).await["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let media = format!("?path={}", percent_encoded(path.to_str().unwrap()));
    let root = format!("?path={}", percent_encoded(folder.path().to_str().unwrap()));
    let requests = [
        ("get", "/api/health", ""),
        ("get", "/api/openapi.json", ""),
        ("get", "/api/auth/status", ""),
        ("get", "/api/auth/me", ""),
        ("get", "/api/auth/sessions", ""),
        ("get", "/api/users", ""),
        ("get", "/api/quarantine", ""),
        ("get", "/metrics", ""),
        ("get", "/api/library", ""),
        ("get", "/api/library", &root),
        ("get", "/api/library/folders", ""),
        ("get", "/api/server/folders", ""),
        ("get", "/api/server/status", ""),
        ("get", "/api/server/status", "?after=x"),
        ("get", "/api/stream/info/full", &media),
        ("get", "/api/stream/v2-workers", ""),
        ("get", "/api/stream/progress", &media),
        ("get", "/api/stream/history", ""),
        ("get", "/api/stream/next-up", ""),
        ("get", "/api/stream/audiobook", &media),
        ("get", "/api/stream/audiobook/progress", &media),
        ("get", "/api/stream/audiobook/history", ""),
        ("get", "/api/livetv/channels", ""),
        ("get", "/api/livetv/epg", ""),
        ("get", "/api/livetv/now", "?channelId=1"),
        ("get", "/api/livetv/m3u", "?auth=signed"),
        ("get", "/api/livetv/m3u", "?format=m3u8"),
        ("get", "/api/livetv/xmltv", "?days=1"),
        ("get", "/api/livetv/xmltv.gz", "?days=1"),
        ("get", "/api/livetv/xmltv", "?days=99"),
        // Refusals have a schema too.
        ("get", "/api/stream/info/full", "?path=relative"),
        ("get", "/api/library", "?path=/etc"),
        ("delete", "/api/stream/progress", &media),
        ("delete", "/api/stream/audiobook/progress", &media),
        ("delete", "/api/auth/sessions", ""),
    ];
    let saved = json!({"mediaPath": path, "positionSeconds": 1, "completed": true});
    assert_documented(&server, &ada, "post", "/api/stream/progress", "", Some(saved)).await;
    let saved = json!({"mediaPath": path});
    assert_documented(&server, &ada, "post", "/api/stream/progress/watched", "", Some(saved)).await;
    let saved = json!({"audiobookPath": path, "positionSeconds": 0.5});
    assert_documented(&server, &ada, "post", "/api/stream/audiobook/progress", "", Some(saved)).await;
    let channel = json!({"name": "A", "items": [{"path": path}]});
    assert_documented(&server, &ada, "post", "/api/livetv/channels/preview", "", Some(channel.clone())).await;
    assert_documented(&server, &ada, "post", "/api/livetv/channels", "", Some(channel)).await;
    for (method, path, query) in requests {
        assert_documented(&server, &ada, method, path, query, None).await;
    }
    assert_documented(&server, "", "get", "/api/auth/me", "", None).await;
    let new = json!({"username": "bob", "password": "battery staple"});
    assert_documented(&server, &ada, "post", "/api/users", "", Some(new.clone())).await;
    assert_documented(&server, &ada, "post", "/api/users", "", Some(new)).await;
    assert_documented(&server, &ada, "post", "/api/users", "", Some(json!({"username": 1}))).await;
}

fn percent_encoded(path: &str) -> String {
    percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC).to_string()
}
