//! Which paths are served, and that no others are.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{file_url, file_url_of_text, mp4_bytes};
use crate::kit;

const CANARY: &str = "TOP-SECRET-CANARY";

/// Requests a URL; returns status and code. Asserts that nothing from `outside` leaks and that no file is waited for.
async fn fetch(server: &kit::Server, url: &str) -> (u16, String) {
    let started = Instant::now();
    let answer = server.get(url).header("range", "bytes=0-65535").send().await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.bytes().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(30), "{url} took {:?}", started.elapsed());
    assert!(!String::from_utf8_lossy(&body).contains(CANARY), "{url} leaked");
    let code = serde_json::from_slice::<Value>(&body).ok().and_then(|body| Some(body["code"].as_str()?.to_owned()));
    (status, code.unwrap_or_default())
}

#[tokio::test]
async fn only_regular_media_files_beneath_a_root_are_opened() {
    let outer = tempfile::tempdir().unwrap();
    let (root, outside) = (outer.path().join("root"), outer.path().join("outside"));
    for folder in [&root, &outside, &outer.path().join("root-evil"), &root.join("sub"), &root.join("folder.mp4")] {
        std::fs::create_dir(folder).unwrap();
    }
    let secret = [mp4_bytes(100), CANARY.as_bytes().to_vec()].concat();
    for path in [outside.join("secret.mp4"), outer.path().join("root-evil/x.mp4"), outside.join("hard.mp4")] {
        std::fs::write(path, &secret).unwrap();
    }
    std::fs::write(root.join("good.mp4"), mp4_bytes(500)).unwrap();
    std::fs::write(root.join("text.mp4"), "#EXTM3U\n#EXTINF:9,\nfile:///etc/passwd\n").unwrap();
    std::fs::write(root.join("empty.mp4"), "").unwrap();
    std::fs::hard_link(root.join("good.mp4"), root.join("sub/hard.mp4")).unwrap();
    for (target, name) in [
        ("../outside/secret.mp4", "rel-out.mp4"),
        ("../outside/none.mp4", "rel-out-none.mp4"),
        (outside.join("secret.mp4").to_str().unwrap(), "abs-out.mp4"),
        ("/nonexistent/x.mp4", "abs-none.mp4"),
        ("../outside", "dir-out"),
        ("/etc/passwd", "passwd.mp4"),
        ("/dev/zero", "zero.mp4"),
        ("/dev/stdin", "stdin.mp4"),
        ("/proc/self/environ", "environ.mp4"),
        ("/proc/self/root/etc/passwd", "magic.mp4"),
        ("good.mp4", "inside.mp4"),
        ("../good.mp4", "sub/inside.mp4"),
        ("loop.mp4", "loop.mp4"),
        ("missing.mp4", "dangling.mp4"),
        ("..", "up"),
        (root.join("good.mp4").to_str().unwrap(), "abs-in.mp4"),
        (root.join("sub").to_str().unwrap(), "abs-dir"),
        (root.join("sub/../abs-in.mp4").to_str().unwrap(), "sub/abs-abs.mp4"),
        ("../../root/good.mp4", "sub/around.mp4"),
        (root.join("none.mp4").to_str().unwrap(), "abs-dangling.mp4"),
        (root.join("abs-loop.mp4").to_str().unwrap(), "abs-loop.mp4"),
        (root.join("dir-out/secret.mp4").to_str().unwrap(), "abs-then-out.mp4"),
        (root.join("../outside/secret.mp4").to_str().unwrap(), "abs-up-out.mp4"),
        (outer.path().join("root-evil/x.mp4").to_str().unwrap(), "abs-evil.mp4"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    assert!(Command::new("mkfifo").arg(root.join("fifo.mp4")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket.mp4")).unwrap();
    let server = kit::start_server(&[&root]).await;

    let table = [
        ("good.mp4", 206, ""),
        ("inside.mp4", 206, ""),
        ("sub/inside.mp4", 206, ""),
        ("sub/hard.mp4", 206, ""),
        ("/good.mp4", 206, ""),
        ("./sub/.//inside.mp4", 206, ""),
        ("rel-out.mp4", 403, "FORBIDDEN"),
        ("rel-out-none.mp4", 403, "FORBIDDEN"),
        ("abs-out.mp4", 403, "FORBIDDEN"),
        ("abs-none.mp4", 403, "FORBIDDEN"),
        ("dir-out/secret.mp4", 403, "FORBIDDEN"),
        ("dir-out/none.mp4", 403, "FORBIDDEN"),
        ("up/root/good.mp4", 206, ""),
        ("up/outside/secret.mp4", 403, "FORBIDDEN"),
        ("../outside/secret.mp4", 403, "FORBIDDEN"),
        ("../outside/none.mp4", 403, "FORBIDDEN"),
        ("sub/../good.mp4", 403, "FORBIDDEN"),
        ("../root-evil/x.mp4", 403, "FORBIDDEN"),
        ("passwd.mp4", 403, "FORBIDDEN"),
        ("zero.mp4", 403, "FORBIDDEN"),
        ("stdin.mp4", 403, "FORBIDDEN"),
        ("environ.mp4", 403, "FORBIDDEN"),
        ("magic.mp4", 403, "FORBIDDEN"),
        ("loop.mp4", 403, "FORBIDDEN"),
        ("abs-in.mp4", 206, ""),
        ("abs-dir/hard.mp4", 206, ""),
        ("abs-dir/abs-abs.mp4", 206, ""),
        ("sub/around.mp4", 206, ""),
        ("abs-dangling.mp4", 404, "NOT_FOUND"),
        ("abs-dir/none.mp4", 404, "NOT_FOUND"),
        ("abs-loop.mp4", 403, "FORBIDDEN"),
        ("abs-then-out.mp4", 403, "FORBIDDEN"),
        ("abs-up-out.mp4", 403, "FORBIDDEN"),
        ("abs-evil.mp4", 403, "FORBIDDEN"),
        ("none.mp4", 404, "NOT_FOUND"),
        ("dangling.mp4", 404, "NOT_FOUND"),
        ("good.mp4/", 404, "NOT_FOUND"),
        ("good.mp4/.", 404, "NOT_FOUND"),
        ("good.mp4/x", 404, "NOT_FOUND"),
        ("fifo.mp4", 404, "NOT_FOUND"),
        ("socket.mp4", 404, "NOT_FOUND"),
        ("folder.mp4", 404, "NOT_FOUND"),
        ("sub/", 404, "NOT_FOUND"),
        ("", 404, "NOT_FOUND"),
        (&"n".repeat(300), 404, "NOT_FOUND"),
        ("text.mp4", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("empty.mp4", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("good.mp4\0.txt", 400, "INVALID_PATH"),
        (&"n/".repeat(3000), 400, "INVALID_PATH"),
    ];
    for (name, status, code) in table {
        let url = file_url_of_text(&format!("{}/{name}", root.display()));
        assert_eq!(fetch(&server, &url).await, (status, code.to_owned()), "{name}");
        // A repeated request gets the same answer.
        assert_eq!(fetch(&server, &url).await.0, status, "{name} again");
    }
    for (raw, status, code) in [
        (format!("{}-evil/x.mp4", root.display()), 403, "FORBIDDEN"),
        (format!("{}-none/x.mp4", root.display()), 403, "FORBIDDEN"),
        ("/etc/passwd".into(), 403, "FORBIDDEN"),
        ("/nonexistent".into(), 403, "FORBIDDEN"),
        ("/proc/self/environ".into(), 403, "FORBIDDEN"),
        (format!("file://{}/good.mp4", root.display()), 400, "INVALID_PATH"),
        ("good.mp4".into(), 400, "INVALID_PATH"),
        ("..%2foutside%2fsecret.mp4".into(), 400, "INVALID_PATH"),
        (String::new(), 400, "INVALID_PATH"),
    ] {
        assert_eq!(fetch(&server, &file_url_of_text(&raw)).await, (status, code.to_owned()), "{raw}");
    }
    for query in ["", "?path", "?path=%ff%fe", "?path=/a&path=/b"] {
        assert_eq!(fetch(&server, &format!("/api/stream/file{query}")).await.0, 400, "{query}");
    }
}

#[tokio::test]
async fn a_root_may_itself_be_a_link_and_roots_may_nest() {
    let outer = tempfile::tempdir().unwrap();
    let real = outer.path().join("real");
    std::fs::create_dir_all(real.join("inner")).unwrap();
    std::fs::write(real.join("a.mp4"), mp4_bytes(100)).unwrap();
    std::fs::write(real.join("inner/b.mp4"), mp4_bytes(100)).unwrap();
    symlink("../a.mp4", real.join("inner/up.mp4")).unwrap();
    symlink("../../real/inner/../a.mp4", real.join("inner/far.mp4")).unwrap();
    symlink(real.join("a.mp4"), real.join("inner/real.mp4")).unwrap();
    symlink(outer.path().join("link/a.mp4"), real.join("inner/link.mp4")).unwrap();
    symlink("../../c.mp4", real.join("inner/out.mp4")).unwrap();
    std::fs::write(outer.path().join("c.mp4"), mp4_bytes(100)).unwrap();
    let link = outer.path().join("link");
    symlink(&real, &link).unwrap();
    let nested = link.join("inner");
    let server = kit::start_server(&[&link, &nested]).await;
    assert_eq!(fetch(&server, &file_url(&link.join("a.mp4"))).await.0, 206);
    assert_eq!(fetch(&server, &file_url(&nested.join("b.mp4"))).await.0, 206);
    assert_eq!(fetch(&server, &file_url(&nested.join("up.mp4"))).await.0, 206, "from one root into another");
    for name in ["far.mp4", "real.mp4", "link.mp4"] {
        assert_eq!(fetch(&server, &file_url(&nested.join(name))).await.0, 206, "{name}");
    }
    assert_eq!(fetch(&server, &file_url(&nested.join("out.mp4"))).await.0, 403);
    assert_eq!(fetch(&server, &file_url(&real.join("a.mp4"))).await.0, 403, "only the configured spelling is a root");
}

/// Runs over the hostile inputs of the media corpus, if there is one.
#[tokio::test]
async fn the_corpus_of_hostile_inputs_leaks_nothing() {
    let Some(corpus) = std::env::var_os("HEARTHCAST_CORPUS").map(PathBuf::from) else { return };
    let outer = tempfile::tempdir().unwrap();
    let good = corpus.join("video/h264-aac-edit-list.mp4");
    let result = Command::new("bash")
        .arg(corpus.join("make-hostile.sh"))
        .args([outer.path(), &good, &corpus.join("video/cea608-captions.ts")])
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let root = outer.path().join("root");
    let server = kit::start_server(&[&root]).await;
    for line in std::fs::read_to_string(outer.path().join("paths.txt")).unwrap().lines() {
        for url in [file_url_of_text(line), format!("/api/stream/file?path={line}")] {
            let (status, code) = fetch(&server, &url).await;
            assert!((400..500).contains(&status) && !code.is_empty(), "{line}: {status} {code}");
        }
    }
    let mut folders = vec![root.clone()];
    let mut served = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let found = entry.unwrap();
            if found.file_type().unwrap().is_dir() {
                folders.push(found.path());
                continue;
            }
            let path = found.path();
            let Some(text) = path.to_str() else { continue };
            let (status, code) = fetch(&server, &file_url_of_text(text)).await;
            let expected = expected_statuses(path.strip_prefix(&root).unwrap());
            assert!(expected.contains(&status), "{text:?}: {status} {code}");
            served += usize::from(status == 206);
        }
    }
    assert!(served > 80, "only {served} were served");
}

/// The statuses allowed for a hostile file.
fn expected_statuses(path: &Path) -> &'static [u16] {
    let text = path.to_str().unwrap();
    match path.components().next().and_then(|part| part.as_os_str().to_str()).unwrap() {
        "names" | "ext" => &[206],
        "script" | "sub" => &[415],
        "ts" => &[206],
        "deep" => &[206, 400],
        "links" if text.ends_with("inside-ok.mp4") => &[206],
        // A hard link is indistinguishable from any other name of the file.
        "links" if text.ends_with("hard-out.mp4") => &[206],
        "links" => &[403, 404],
        "special" if text.ends_with("5g.mp4") || text.contains("no-read") => &[206, 415, 403],
        "special" => &[404],
        _ => &[206, 415],
    }
}
