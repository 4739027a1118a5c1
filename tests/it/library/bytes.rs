//! `GET /api/stream/file`: ranges, validators, headers, files that change.

use std::io::Write;
use std::path::PathBuf;

use hearthcast::domain::access::Role;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reqwest::{Method, StatusCode};
use tempfile::TempDir;

use super::{file_url, mp4_bytes};
use crate::kit;

struct ServedFile {
    server: kit::Server,
    path: PathBuf,
    content: Vec<u8>,
    _root: TempDir,
}

/// Serves one file of `len` bytes.
async fn serve_file(len: usize) -> ServedFile {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("It's a film – 100%.mp4");
    let content = mp4_bytes(len);
    std::fs::write(&path, &content).unwrap();
    ServedFile { server: kit::start_server(&[root.path()]).await, path, content, _root: root }
}

impl ServedFile {
    fn get(&self) -> reqwest::RequestBuilder {
        self.server.get(&file_url(&self.path))
    }

    async fn get_range(&self, range: &str) -> reqwest::Response {
        self.get().header("range", range).send().await.unwrap()
    }
}

#[tokio::test]
async fn a_whole_file_is_sent_with_everything_a_player_needs() {
    let it = serve_file(3_000_000).await;
    let answer = it.get().send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let headers = answer.headers().clone();
    assert_eq!(headers["content-type"], "video/mp4");
    assert_eq!(headers["content-length"], "3000000");
    assert_eq!(headers["accept-ranges"], "bytes");
    assert_eq!(headers["cache-control"], "private, no-cache");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(
        headers["content-disposition"],
        "inline; filename=\"It's a film _ 100_.mp4\"; filename*=UTF-8''It%27s%20a%20film%20%E2%80%93%20100%25.mp4"
    );
    assert!(headers["etag"].to_str().unwrap().starts_with('"'));
    assert!(headers.contains_key("last-modified") && headers.contains_key("x-request-id"));
    assert!(answer.bytes().await.unwrap() == it.content);

    let head = it.server.client.head(format!("{}{}", it.server.base, file_url(&it.path))).bearer_auth(&it.server.token);
    let head = head.header("range", "bytes=0-9").send().await.unwrap();
    assert_eq!(head.status(), 200, "HEAD ignores Range");
    for name in ["content-type", "content-length", "etag", "last-modified", "accept-ranges"] {
        assert_eq!(head.headers()[name], headers[name], "{name}");
    }
}

#[tokio::test]
async fn ranges_follow_the_rfc() {
    let it = serve_file(3_000_000).await;
    for (range, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-99", 0, 99),
        ("bytes=100-", 100, 2_999_999),
        ("bytes=1000000-2999998", 1_000_000, 2_999_998),
        ("bytes=-10", 2_999_990, 2_999_999),
        ("bytes=-4000000", 0, 2_999_999),
        ("bytes=2999999-9000000", 2_999_999, 2_999_999),
        ("bytes=0-18446744073709551615", 0, 2_999_999),
        ("bytes=0-99999999999999999999999999", 0, 2_999_999),
        ("bytes=10-19,20-29", 10, 29),
    ] {
        let answer = it.get_range(range).await;
        assert_eq!(answer.status(), 206, "{range}");
        assert_eq!(answer.headers()["content-range"], format!("bytes {first}-{last}/3000000"));
        assert_eq!(answer.headers()["content-length"], (last - first + 1).to_string());
        assert!(answer.bytes().await.unwrap() == it.content[first..=last], "{range}");
    }
    for range in ["bytes=3000000-", "bytes=3000000-3000001", "bytes=-0", "bytes=99999999999999999999999-"] {
        let answer = it.get_range(range).await;
        assert_eq!(answer.status(), 416, "{range}");
        assert_eq!(answer.headers()["content-range"], "bytes */3000000");
        let body: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(body["code"], "RANGE_NOT_SATISFIABLE");
    }
    for range in ["seconds=0-9", "bytes=9-1", "bytes=x", "bytes=0-9,100-109", "bytes", ""] {
        let answer = it.get_range(range).await;
        assert_eq!(answer.status(), 200, "{range}");
        assert!(!answer.headers().contains_key("content-range"));
        assert!(answer.bytes().await.unwrap() == it.content, "{range}");
    }
}

#[tokio::test]
async fn random_ranges_equal_the_file() {
    let it = serve_file(2_500_000).await;
    let mut runner = TestRunner::deterministic();
    let len = it.content.len();
    for _ in 0..40 {
        let (a, b) = (0..len, 0..len).new_tree(&mut runner).unwrap().current();
        let (first, last) = (a.min(b), a.max(b));
        let answer = it.get_range(&format!("bytes={first}-{last}")).await;
        assert_eq!(answer.status(), 206);
        assert!(answer.bytes().await.unwrap() == it.content[first..=last], "{first}-{last}");
    }
}

#[tokio::test]
async fn preconditions_are_evaluated_before_ranges() {
    let it = serve_file(1000).await;
    let plain = it.get().send().await.unwrap();
    let (etag, modified) = (plain.headers()["etag"].clone(), plain.headers()["last-modified"].clone());
    let request_with =
        |name: &'static str, value: &str| it.get().header("range", "bytes=0-9").header(name, value).send();
    let etag = etag.to_str().unwrap();
    let modified = modified.to_str().unwrap();
    let old = "Sat, 29 Oct 1994 19:43:31 GMT";
    for (name, value, status) in [
        ("if-none-match", etag, 304),
        ("if-none-match", "\"other\"", 206),
        ("if-modified-since", modified, 304),
        ("if-modified-since", old, 206),
        ("if-match", "\"other\"", 412),
        ("if-match", etag, 206),
        ("if-unmodified-since", old, 412),
        ("if-range", etag, 206),
        ("if-range", modified, 206),
        ("if-range", "\"other\"", 200),
        ("if-range", old, 200),
    ] {
        let answer = request_with(name, value).await.unwrap();
        assert_eq!(answer.status(), status, "{name}: {value}");
        if status == 304 {
            assert_eq!(answer.headers()["etag"], etag);
            assert_eq!(answer.headers()["cache-control"], "private, no-cache");
            assert!(answer.bytes().await.unwrap().is_empty());
        } else if status == 412 {
            let body: serde_json::Value = answer.json().await.unwrap();
            assert_eq!(body["code"], "PRECONDITION_FAILED");
        }
    }
}

#[tokio::test]
async fn a_file_that_changed_has_another_etag_at_once() {
    let it = serve_file(1000).await;
    let before = it.get().send().await.unwrap().headers()["etag"].clone();
    // Overwritten in place, by rename, and shortened.
    std::fs::write(&it.path, mp4_bytes(900)).unwrap();
    let shorter = it.get().send().await.unwrap();
    assert_eq!(shorter.headers()["content-length"], "900");
    let etag = shorter.headers()["etag"].clone();
    assert_ne!(etag, before);
    let replacement = it.path.with_extension("new");
    std::fs::write(&replacement, mp4_bytes(800)).unwrap();
    std::fs::rename(&replacement, &it.path).unwrap();
    let renamed = it.get().send().await.unwrap();
    assert_eq!(renamed.headers()["content-length"], "800");
    assert_ne!(renamed.headers()["etag"], etag);
    std::fs::remove_file(&it.path).unwrap();
    assert_eq!(it.get().send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_file_that_shrinks_during_a_transfer_is_cut_not_padded() {
    let it = serve_file(80_000_000).await;
    let mut answer = it.get().send().await.unwrap();
    assert_eq!(answer.headers()["content-length"], "80000000");
    let mut received = answer.chunk().await.unwrap().unwrap().to_vec();
    std::fs::OpenOptions::new().write(true).open(&it.path).unwrap().set_len(1000).unwrap();
    let is_aborted = loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => received.extend(chunk),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(is_aborted, "the client sees that bytes are missing");
    assert!(received.len() < it.content.len());
    // The kernel sends cached pages by reference; pages cleared by the truncation arrive as zeros.
    let is_expected = |(received_byte, file_byte): (&u8, &u8)| received_byte == file_byte || *received_byte == 0;
    assert!(received.iter().zip(&it.content).all(is_expected), "only bytes of the file are sent");
    assert_eq!(it.get().send().await.unwrap().headers()["content-length"], "1000");
}

#[tokio::test]
async fn a_file_that_grows_is_sent_with_its_announced_length() {
    let it = serve_file(20_000_000).await;
    let mut answer = it.get().send().await.unwrap();
    let mut received = answer.chunk().await.unwrap().unwrap().to_vec();
    std::fs::OpenOptions::new().append(true).open(&it.path).unwrap().write_all(&[1; 5000]).unwrap();
    while let Some(chunk) = answer.chunk().await.unwrap() {
        received.extend(chunk);
    }
    assert!(received == it.content);
    assert_eq!(it.get().send().await.unwrap().headers()["content-length"], "20005000");
}

#[tokio::test]
async fn offsets_above_four_gigabytes_are_exact() {
    let it = serve_file(100).await;
    let writer = std::fs::OpenOptions::new().write(true).open(&it.path).unwrap();
    writer.set_len(5 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&writer, b"far away", (5 << 30) - 8).unwrap();
    let answer = it.get_range("bytes=-10").await;
    assert_eq!(answer.headers()["content-range"], "bytes 5368709110-5368709119/5368709120");
    assert_eq!(&answer.bytes().await.unwrap()[..], b"\0\0far away");
    // A client that requests the whole file and disconnects.
    let mut whole = it.get().send().await.unwrap();
    assert_eq!(whole.headers()["content-length"], "5368709120");
    assert!(whole.chunk().await.unwrap().is_some());
    drop(whole);
    assert_eq!(it.get_range("bytes=0-3").await.bytes().await.unwrap(), &b"\0\0\0\x14"[..]);
}

#[tokio::test]
async fn bytes_need_a_token_or_a_grant_for_this_file() {
    let it = serve_file(1000).await;
    let other = it.path.with_file_name("other.mp4");
    std::fs::write(&other, mp4_bytes(50)).unwrap();
    let url = |path: &PathBuf, query: &str| format!("{}{}{query}", it.server.base, file_url(path));
    let status = async |url: String| it.server.client.get(url).send().await.unwrap().status();
    assert_eq!(status(url(&it.path, "")).await, StatusCode::UNAUTHORIZED);
    let token = it.server.service.accounts.issue_token("guest", Role::User).await.unwrap();
    let principal = it.server.service.accounts.authenticate(&token).unwrap();
    let resource = format!("stream/file:{}", it.path.display());
    let grant = it.server.service.accounts.sign_grant(&principal, &resource, unix_seconds() + 60);
    assert_eq!(status(url(&it.path, &format!("&st={grant}"))).await, StatusCode::OK);
    assert_eq!(status(url(&other, &format!("&st={grant}"))).await, StatusCode::FORBIDDEN);
    assert_eq!(status(url(&it.path, "&st=1.2.3")).await, StatusCode::FORBIDDEN);
    let late = it.server.service.accounts.sign_grant(&principal, &resource, unix_seconds() - 60);
    assert_eq!(status(url(&it.path, &format!("&st={late}"))).await, StatusCode::FORBIDDEN);
    let post = it.server.client.request(Method::POST, url(&it.path, "")).bearer_auth(&token).send().await.unwrap();
    assert_eq!((post.status().as_u16(), post.headers()["allow"].to_str().unwrap()), (405, "GET, HEAD, OPTIONS"));
}

fn unix_seconds() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64
}
