//! `GET /api/library`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::media;
use crate::kit;

fn folder(path: &Path, more: &str) -> String {
    format!("/api/library?path={}{more}", utf8_percent_encode(path.to_str().unwrap(), NON_ALPHANUMERIC))
}

async fn body(server: &kit::Server, path: &str) -> Value {
    let answer = server.get(path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    answer.json().await.unwrap()
}

fn names(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_folder_lists_folders_then_media_and_nothing_else() {
    let out = tempfile::tempdir().unwrap();
    let root = out.path().join("films");
    std::fs::create_dir_all(root.join("Season 10")).unwrap();
    std::fs::create_dir_all(root.join("season 2")).unwrap();
    std::fs::create_dir_all(root.join(".trash")).unwrap();
    for name in ["b 10.mkv", "B 9.mp4", "song.MP3", "notes.txt", ".hidden.mp4", "nl\nname.mp4", "mp4", ".mp4"] {
        std::fs::write(root.join(name), media(100)).unwrap();
    }
    std::fs::write(root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.mp4")), media(10)).unwrap();
    std::fs::write(out.path().join("secret.mp4"), media(10)).unwrap();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
    link("../secret.mp4", "out.mp4");
    link("/etc", "etc");
    link("loop.mp4", "loop.mp4");
    link("gone.mp4", "dangling.mp4");
    link("../b 10.mkv", "season 2/z inside.mkv");
    link("season 2", "a link");
    let server = kit::server(&[&root]).await;

    let roots = body(&server, "/api/library").await;
    assert_eq!(
        roots,
        json!({"path": null, "parent": null, "nextCursor": null, "entries": [
            {"name": "films", "path": root, "kind": "folder", "mediaKind": null, "sizeBytes": null, "modifiedAt": null}
        ]})
    );
    let page = body(&server, &folder(&root, "")).await;
    assert_eq!(names(&page), ["a link", "season 2", "Season 10", "B 9.mp4", "b 10.mkv", "nl\nname.mp4", "song.MP3"]);
    assert_eq!((&page["parent"], &page["nextCursor"]), (&Value::Null, &Value::Null));
    let song = &page["entries"][6];
    assert_eq!(
        (&song["kind"], &song["mediaKind"], &song["sizeBytes"]),
        (&json!("media"), &json!("audio"), &json!(100))
    );
    let at = song["modifiedAt"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");

    let inside = body(&server, &folder(&root.join("season 2"), "")).await;
    assert_eq!(names(&inside), ["z inside.mkv"]);
    assert_eq!(inside["parent"], json!(root));
    assert_eq!(body(&server, &folder(&root.join("a link"), "")).await["entries"][0]["sizeBytes"], 100);
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_repeat() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..25 {
        std::fs::write(root.path().join(format!("film {n}.mp4")), b"").unwrap();
    }
    std::fs::create_dir(root.path().join("z folder")).unwrap();
    let server = kit::server(&[root.path()]).await;
    let whole = body(&server, &folder(root.path(), "&limit=99999999999")).await;
    assert_eq!(names(&whole).len(), 26);
    let mut seen: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = body(&server, &folder(root.path(), &format!("&limit=7{cursor}"))).await;
        assert!(names(&page).len() <= 7);
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, names(&whole));
    assert_eq!((&seen[0][..], &seen[1][..], &seen[25][..]), ("z folder", "film 0.mp4", "film 24.mp4"));
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused_by_name() {
    let out = tempfile::tempdir().unwrap();
    let root = out.path().join("films");
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(out.path().join("films-evil")).unwrap();
    std::fs::write(root.join("a.mp4"), media(100)).unwrap();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    let server = kit::server(&[&root]).await;
    let root_text = root.to_str().unwrap();
    for (path, status, code) in [
        (format!("{root_text}/none"), 404, "NOT_FOUND"),
        (format!("{root_text}/a.mp4"), 404, "NOT_FOUND"),
        (format!("{root_text}/up"), 403, "FORBIDDEN"),
        (format!("{root_text}/up/films-evil"), 403, "FORBIDDEN"),
        (format!("{root_text}-evil"), 403, "FORBIDDEN"),
        (format!("{root_text}/.."), 403, "FORBIDDEN"),
        ("/".into(), 403, "FORBIDDEN"),
        ("".into(), 400, "INVALID_PATH"),
        ("films".into(), 400, "INVALID_PATH"),
    ] {
        let answer = server.get(&folder(Path::new(&path), "")).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], code, "{path}");
    }
    for more in ["&limit=0", "&limit=-1", "&limit=x", "&limit=1.5", "&cursor=%2f%2f", "&cursor=AAAA"] {
        let answer = server.get(&folder(&root, more)).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{more}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], "VALIDATION_ERROR", "{more}");
    }
    let anonymous = server.client.get(format!("{}/api/library", server.base)).send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
}
