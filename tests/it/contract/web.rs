//! The web page is served by the program and may load nothing from other origins.

use std::collections::BTreeSet;
use std::io::Read as _;

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

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
    // `strings.js` chooses the table.
    for language in ["en", "de", "es"] {
        names.extend(["", "-settings", "-television"].map(|part| format!("/web/language/{language}{part}.js")));
    }
    let mut next = 0;
    while next < names.len() {
        let answer = server.client.get(format!("{}{}", server.base, names[next])).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", names[next]);
        if !names[next].contains("vendor") {
            for name in referenced_names(&names[next], &answer.text().await.unwrap()) {
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

/// Own addresses in the text of the file `base`: `"web/x"` in the page, `"/web/x"` and `"./x.js"` in modules.
fn referenced_names(base: &str, text: &str) -> Vec<String> {
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let quoted = text.split('"').skip(1).step_by(2);
    quoted
        .filter_map(|word| match word.strip_prefix("./") {
            Some(module) => Some(format!("{folder}/{module}")),
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
    let (plain, gzip, brotli) = (get("identity").await, get("gzip, br;q=0").await, get("gzip, br").await);
    assert!(plain.headers().get("content-encoding").is_none());
    assert_eq!(gzip.headers()["content-encoding"], "gzip");
    assert_eq!(brotli.headers()["content-encoding"], "br");
    assert_eq!(gzip.headers()["vary"], "accept-encoding");
    let etags: BTreeSet<_> =
        [&plain, &gzip, &brotli].map(|answer| answer.headers()["etag"].to_str().unwrap().to_owned()).into();
    assert_eq!(etags.len(), 3, "they differ byte for byte: {etags:?}");
    let (plain, gzip, brotli) =
        (plain.bytes().await.unwrap(), gzip.bytes().await.unwrap(), brotli.bytes().await.unwrap());
    assert!(
        brotli.len() < gzip.len() && gzip.len() < plain.len() / 2,
        "{} {} {}",
        plain.len(),
        gzip.len(),
        brotli.len()
    );
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(gzip.as_ref()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}

#[tokio::test]
async fn the_shell_list_has_the_digests_of_what_is_served() {
    let server = kit::start_server(&[]).await;
    let get = async |name: &str| {
        let answer = server
            .client
            .get(format!("{}/{name}", server.base))
            .header("accept-encoding", "identity")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200, "{name}");
        answer
    };
    let worker = get("web/service-worker.js").await;
    assert_eq!(worker.headers()["service-worker-allowed"], "../");
    let list = get("web/shell.js").await.text().await.unwrap();
    let list: serde_json::Value =
        serde_json::from_str(list.trim().trim_start_matches("self.SHELL = ").trim_end_matches(';')).unwrap();
    for name in ["", "web/app.js", "web/language/es-settings.js", "web/library.css"] {
        let body = get(name).await.bytes().await.unwrap();
        let digest = BASE64URL_NOPAD.encode(&Sha256::digest(&body)[..15]);
        assert_eq!(list["files"][name].as_str(), Some(digest.as_str()), "{name}");
    }
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

/// The values of an attribute in a page.
fn attribute_values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let before = format!(" {attribute}=\"");
    page.split(&before).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[tokio::test]
async fn the_pages_of_help_link_one_another_and_name_the_labels_of_the_page() {
    let server = kit::start_server(&[]).await;
    let get = async |path: &str| {
        let answer = server.client.get(format!("{}{path}", server.base)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    };
    let mut labels = String::new();
    for part in ["", "-settings", "-television"] {
        labels += &get(&format!("/web/language/en{part}.js")).await;
    }
    let first = get("/help/").await;
    let mut pages = BTreeSet::new();
    for target in attribute_values(&first, "href") {
        if target.ends_with(".html") {
            pages.insert(target.to_owned());
        }
    }
    assert!(pages.len() >= 8, "{pages:?}");
    for name in &pages {
        let page = get(&format!("/help/{name}")).await;
        for target in attribute_values(&page, "href") {
            get(&format!("/help/{target}").replace("/help/../", "/")).await;
        }
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains("<script"), "{name}");
        let named = page.split("<em>").skip(1).map(|rest| rest.split("</em>").next().unwrap());
        for label in named.flat_map(|path| path.split(", ")) {
            assert!(labels.contains(&format!("\"{label}")), "{name} names {label:?}, which the page does not have");
        }
    }
    let answer = server.client.get(format!("{}/help/none.html", server.base)).send().await.unwrap();
    assert_eq!(answer.status(), 404);
}
