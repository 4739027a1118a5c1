//! The web page is served by the program and may load nothing from other origins.

use crate::kit;

#[tokio::test]
async fn the_page_is_public_and_lets_nothing_foreign_in() {
    let server = kit::server(&[]).await;
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
async fn everything_the_page_names_is_there() {
    let server = kit::server(&[]).await;
    let mut seen = vec!["/".to_owned()];
    let mut next = 0;
    while next < seen.len() {
        let answer = server.client.get(format!("{}{}", server.base, seen[next])).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", seen[next]);
        if !seen[next].contains("vendor") {
            for name in named(&answer.text().await.unwrap()) {
                if !seen.contains(&name) {
                    seen.push(name);
                }
            }
        }
        next += 1;
    }
    for wanted in [
        "/web/app.js",
        "/web/player.js",
        "/web/style.css",
        "/web/vendor/hls.js",
        "/web/vendor/hls.worker.js",
        "/web/vendor/ass.worker.js",
    ] {
        assert!(seen.iter().any(|name| name == wanted), "{wanted} is missing among {seen:?}");
    }
}

#[tokio::test]
async fn only_the_worker_that_draws_subtitles_may_compile_a_program() {
    let server = kit::server(&[]).await;
    let policy = async |name: &str| {
        let answer = server.client.get(format!("{}{name}", server.base)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{name}");
        answer.headers()["content-security-policy"].to_str().unwrap().to_owned()
    };
    let drawing = policy("/web/vendor/ass.worker.js").await;
    assert!(drawing.contains("script-src 'self' 'wasm-unsafe-eval'") && !drawing.contains("'unsafe"), "{drawing}");
    for name in ["/", "/web/app.js", "/web/ass.js", "/web/vendor/ass.js", "/web/vendor/hls.worker.js"] {
        assert!(!policy(name).await.contains("unsafe"), "{name}");
    }
}

/// Own addresses in a text: `"web/x"` in the page, `"/web/x"` and `"./x.js"` in modules.
fn named(text: &str) -> Vec<String> {
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
async fn a_page_seen_before_is_not_sent_again() {
    let server = kit::server(&[]).await;
    let url = format!("{}/web/style.css", server.base);
    let first = server.client.get(&url).send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let again = server.client.get(&url).header("if-none-match", etag.clone()).send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["etag"], etag);
    assert_eq!(again.headers()["cache-control"], "no-cache");
    assert!(again.bytes().await.unwrap().is_empty());
    let other = server.client.get(&url).header("if-none-match", "\"other\"").send().await.unwrap();
    assert_eq!(other.status(), 200);
    let both = server.client.get(&url).header("if-none-match", "\"other\"").header("if-none-match", etag);
    assert_eq!(both.send().await.unwrap().status(), 304, "the header may be repeated");
}

#[tokio::test]
async fn names_that_are_no_page_are_not_found() {
    let server = kit::server(&[]).await;
    for name in ["package.json", "nothing.js", "..%2f..%2fCargo.toml", "%2fetc%2fhosts.txt", "vendor", "a.html%00.js"] {
        let answer = server.client.get(format!("{}/web/{name}", server.base)).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{name}");
        let body: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(body["code"], "NOT_FOUND", "{name}");
    }
}
