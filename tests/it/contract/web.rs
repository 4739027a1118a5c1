//! The web page is served by the program and may load nothing from other origins.

use std::io::Read as _;

use crate::kit;

#[tokio::test]
async fn the_page_is_public_and_allows_no_other_origins() {
    let server = kit::start_server(&[]).await;
    let answer = server.client.get(format!("{}/", server.base)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    for rule in ["default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    let page = answer.text().await.unwrap();
    assert!(page.contains("<title>Hearthcast</title>"));
    assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("<script>"));
}

#[tokio::test]
async fn everything_the_page_refers_to_exists() {
    let server = kit::start_server(&[]).await;
    let mut names = vec!["/".to_owned()];
    let mut next = 0;
    while next < names.len() {
        let answer = server.client.get(format!("{}{}", server.base, names[next])).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", names[next]);
        if !names[next].contains("vendor") {
            for name in referenced_names(&answer.text().await.unwrap()) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        next += 1;
    }
    for expected in [
        "/web/app.js",
        "/web/player.js",
        "/web/style.css",
        "/web/vendor/hls.js",
        "/web/vendor/hls.worker.js",
        "/web/vendor/ass.worker.js",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} is missing among {names:?}");
    }
}

#[tokio::test]
async fn only_the_subtitle_worker_may_compile_wasm() {
    let server = kit::start_server(&[]).await;
    let policy = async |name: &str| {
        let answer = server.client.get(format!("{}{name}", server.base)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{name}");
        answer.headers()["content-security-policy"].to_str().unwrap().to_owned()
    };
    let worker_policy = policy("/web/vendor/ass.worker.js").await;
    assert!(
        worker_policy.contains("script-src 'self' 'wasm-unsafe-eval'") && !worker_policy.contains("'unsafe"),
        "{worker_policy}"
    );
    for name in ["/", "/web/app.js", "/web/ass.js", "/web/vendor/ass.js", "/web/vendor/hls.worker.js"] {
        assert!(!policy(name).await.contains("unsafe"), "{name}");
    }
}

/// Own addresses in a text: `"web/x"` in the page, `"/web/x"` and `"./x.js"` in modules.
fn referenced_names(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted
        .filter_map(|word| match word.strip_prefix("./") {
            Some(module) => Some(format!("/web/{module}")),
            // The page uses relative addresses because it may lie below a path prefix.
            None if word.starts_with("web/") => Some(format!("/{word}")),
            None => word.starts_with("/web/").then(|| word.to_owned()),
        })
        .collect()
}

#[tokio::test]
async fn a_cached_page_is_not_sent_again() {
    let server = kit::start_server(&[]).await;
    let url = format!("{}/web/style.css", server.base);
    let first = server.client.get(&url).send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let revalidated = server.client.get(&url).header("if-none-match", etag.clone()).send().await.unwrap();
    assert_eq!(revalidated.status(), 304);
    assert_eq!(revalidated.headers()["etag"], etag);
    assert_eq!(revalidated.headers()["cache-control"], "no-cache");
    assert!(revalidated.bytes().await.unwrap().is_empty());
    let other = server.client.get(&url).header("if-none-match", "\"other\"").send().await.unwrap();
    assert_eq!(other.status(), 200);
    let both = server.client.get(&url).header("if-none-match", "\"other\"").header("if-none-match", etag);
    assert_eq!(both.send().await.unwrap().status(), 304, "the header may be repeated");
}

#[tokio::test]
async fn a_page_file_is_compressed_where_that_is_accepted() {
    let server = kit::start_server(&[]).await;
    let url = format!("{}/web/style.css", server.base);
    let get = async |encoding: &str| server.client.get(&url).header("accept-encoding", encoding).send().await.unwrap();
    let (plain, packed) = (get("identity").await, get("br, gzip").await);
    assert!(plain.headers().get("content-encoding").is_none());
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert_eq!(packed.headers()["vary"], "accept-encoding");
    assert_ne!(plain.headers()["etag"], packed.headers()["etag"], "the two differ byte for byte");
    let (plain, packed) = (plain.bytes().await.unwrap(), packed.bytes().await.unwrap());
    assert!(packed.len() < plain.len() / 2, "{} of {} bytes", packed.len(), plain.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.as_ref()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}

#[tokio::test]
async fn unknown_page_names_are_not_found() {
    let server = kit::start_server(&[]).await;
    for name in ["package.json", "nothing.js", "..%2f..%2fCargo.toml", "%2fetc%2fhosts.txt", "vendor", "a.html%00.js"] {
        let answer = server.client.get(format!("{}/web/{name}", server.base)).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{name}");
        let body: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(body["code"], "NOT_FOUND", "{name}");
    }
}
