//! `GET /api/library`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::mp4_bytes;
use crate::kit;

fn listing_url(path: &Path, options: &str) -> String {
    format!("/api/library?path={}{options}", utf8_percent_encode(path.to_str().unwrap(), NON_ALPHANUMERIC))
}

async fn get_page(server: &kit::Server, path: &str) -> Value {
    let answer = server.get(path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    answer.json().await.unwrap()
}

fn entry_names(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_listing_has_folders_then_media_files() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("films");
    std::fs::create_dir_all(root.join("Season 10")).unwrap();
    std::fs::create_dir_all(root.join("season 2")).unwrap();
    std::fs::create_dir_all(root.join(".trash")).unwrap();
    for name in ["b 10.mkv", "B 9.mp4", "song.MP3", "notes.txt", ".hidden.mp4", "nl\nname.mp4", "mp4", ".mp4"] {
        std::fs::write(root.join(name), mp4_bytes(100)).unwrap();
    }
    std::fs::write(root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.mp4")), mp4_bytes(10)).unwrap();
    std::fs::write(outer.path().join("secret.mp4"), mp4_bytes(10)).unwrap();
    let make_link = |target: &str, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
    make_link("../secret.mp4", "out.mp4");
    make_link("/etc", "etc");
    make_link("loop.mp4", "loop.mp4");
    make_link("gone.mp4", "dangling.mp4");
    make_link("../b 10.mkv", "season 2/z inside.mkv");
    make_link("season 2", "a link");
    let server = kit::start_server(&[&root]).await;

    let roots = get_page(&server, "/api/library").await;
    assert_eq!(
        roots,
        json!({"path": null, "parent": null, "nextCursor": null, "entries": [
            {"name": "films", "path": root, "kind": "folder", "mediaKind": null, "sizeBytes": null, "modifiedAt": null}
        ]})
    );
    let page = get_page(&server, &listing_url(&root, "")).await;
    assert_eq!(
        entry_names(&page),
        ["a link", "season 2", "Season 10", "B 9.mp4", "b 10.mkv", "nl\nname.mp4", "song.MP3"]
    );
    assert_eq!((&page["parent"], &page["nextCursor"]), (&Value::Null, &Value::Null));
    let song = &page["entries"][6];
    assert_eq!(
        (&song["kind"], &song["mediaKind"], &song["sizeBytes"]),
        (&json!("media"), &json!("audio"), &json!(100))
    );
    let modified_at = song["modifiedAt"].as_str().unwrap();
    assert!(modified_at.len() == 24 && modified_at.ends_with('Z'), "{modified_at}");

    let subfolder = get_page(&server, &listing_url(&root.join("season 2"), "")).await;
    assert_eq!(entry_names(&subfolder), ["z inside.mkv"]);
    assert_eq!(subfolder["parent"], json!(root));
    assert_eq!(get_page(&server, &listing_url(&root.join("a link"), "")).await["entries"][0]["sizeBytes"], 100);
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_repeat() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..25 {
        std::fs::write(root.path().join(format!("film {n}.mp4")), b"").unwrap();
    }
    std::fs::create_dir(root.path().join("z folder")).unwrap();
    let server = kit::start_server(&[root.path()]).await;
    let complete = get_page(&server, &listing_url(root.path(), "&limit=99999999999")).await;
    assert_eq!(entry_names(&complete).len(), 26);
    let mut names_by_page: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get_page(&server, &listing_url(root.path(), &format!("&limit=7{cursor}"))).await;
        assert!(entry_names(&page).len() <= 7);
        names_by_page.extend(entry_names(&page).into_iter().map(str::to_owned));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names_by_page, entry_names(&complete));
    assert_eq!(
        (&names_by_page[0][..], &names_by_page[1][..], &names_by_page[25][..]),
        ("z folder", "film 0.mp4", "film 24.mp4")
    );
}

#[tokio::test]
async fn unlistable_folders_are_refused_with_their_code() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("films");
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(outer.path().join("films-evil")).unwrap();
    std::fs::write(root.join("a.mp4"), mp4_bytes(100)).unwrap();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    let server = kit::start_server(&[&root]).await;
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
        let answer = server.get(&listing_url(Path::new(&path), "")).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], code, "{path}");
    }
    for options in ["&limit=0", "&limit=-1", "&limit=x", "&limit=1.5", "&cursor=%2f%2f", "&cursor=AAAA"] {
        let answer = server.get(&listing_url(&root, options)).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{options}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], "VALIDATION_ERROR", "{options}");
    }
    let anonymous = server.client.get(format!("{}/api/library", server.base)).send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
}
