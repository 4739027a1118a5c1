//! `/api/library/folders` and `/api/server/folders`: media folders that an admin adds and removes while the server runs.

use std::fs;
use std::path::Path;
use std::time::Instant;

use hearthcast::config::Config;
use hearthcast::domain::media_folder::FolderKind;
use hearthcast::service::{Service, catalogue, library_watcher};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::catalogue::{wait_for, write};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::service_config::service_config;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

const FOLDERS: &str = "/api/library/folders";

async fn call(server: &Server, method: Method, path: &str, body: Option<Value>) -> Response {
    let request = server.request(method, path).bearer_auth(&server.admin);
    let request = if let Some(body) = body { request.json(&body) } else { request };
    request.send().await.unwrap()
}

async fn add(server: &Server, path: &Path) -> Response {
    call(server, Method::POST, FOLDERS, Some(json!({ "path": path }))).await
}

async fn folders(server: &Server) -> Vec<Value> {
    let answer = expect_success(call(server, Method::GET, FOLDERS, None).await, 200).await;
    answer["folders"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_folder_is_added_read_and_removed_without_a_restart() {
    let (configured, added) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(configured.path(), "Alien (1979).mkv");
    write(added.path(), "Movies/Amélie (2001).mkv");
    let server = kit::start_server(&[configured.path()]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    let has_films = |count: usize| {
        move |answer: &Value| answer["scanning"] == false && answer["items"].as_array().unwrap().len() == count
    };
    wait_for(&server, "/api/library/items", has_films(1)).await;

    let folder = expect_success(add(&server, added.path()).await, 201).await["folder"].clone();
    assert_eq!((&folder["origin"], &folder["available"]), (&json!("admin"), &json!(true)));
    wait_for(&server, "/api/library/items", has_films(2)).await;
    write(added.path(), "Movies/Heat (1995).mkv");
    wait_for(&server, "/api/library/items", has_films(3)).await;

    let listed = folders(&server).await;
    let origins: Vec<_> = listed.iter().map(|folder| folder["origin"].as_str().unwrap()).collect();
    assert_eq!(origins, ["configuration", "admin"]);
    let remove = async |folder: &Value| {
        call(&server, Method::DELETE, &format!("{FOLDERS}/{}", folder["id"].as_str().unwrap()), None).await
    };
    expect_error(remove(&listed[0]).await, 409, "CONFLICT").await;
    assert_eq!(remove(&listed[1]).await.status(), 204);
    wait_for(&server, "/api/library/items", has_films(1)).await;
    expect_error(remove(&listed[1]).await, 404, "NOT_FOUND").await;
    assert!(added.path().join("Movies/Heat (1995).mkv").exists(), "files stay");

    // Once more: the folder is read again.
    expect_success(add(&server, added.path()).await, 201).await;
    wait_for(&server, "/api/library/items", has_films(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_added_folder_survives_a_restart_also_while_its_disk_is_away() {
    let (state, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let films = disk.path().join("films");
    fs::create_dir(&films).unwrap();
    let open = |configure: fn(&mut Config, &TempDir)| {
        let mut config = service_config(&state.path().join("state"), &state.path().join("cache"));
        configure(&mut config, &disk);
        // The task of a dropped service may still hold the lock for a moment.
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            match Service::open(config.clone()) {
                Ok(service) => return service,
                Err(fault) => assert!(Instant::now() < deadline, "{fault}"),
            }
            std::thread::yield_now();
        }
    };
    let service = open(|_, _| ());
    service.add_media_folder(films.to_str().unwrap(), Some(FolderKind::HomeVideos)).await.unwrap();
    service.shutdown().await;
    drop(service);

    fs::rename(&films, disk.path().join("away")).unwrap();
    let service = open(|_, _| ());
    let [folder] = &service.media_folders().await[..] else { panic!("one folder") };
    assert_eq!((&*folder.path, folder.is_available), (&*films, false));
    assert_eq!(folder.kind, Some(FolderKind::HomeVideos), "its kind is kept");
    fs::rename(disk.path().join("away"), &films).unwrap();
    assert!(service.media_folders().await[0].is_available, "the disk is back");
    service.shutdown().await;
    drop(service);

    // The configuration has the folder of the state now.
    let service = open(|config, disk| config.cache = disk.path().join("films/cache"));
    assert!(service.media_folders().await.is_empty(), "an added folder never contains the program's own files");
}

#[tokio::test]
async fn the_kind_of_a_folder_decides_about_files_whose_names_do_not() {
    let disk = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    for (folder, kind, file) in [
        ("one", Some("films"), "The lake.mp4"),
        ("two", Some("homeVideos"), "The beach.mp4"),
        ("three", Some("audiobooks"), "The cellar.m4a"),
        ("four", Some("homeVideos"), "Lost S01E02.mp4"),
        ("five", None, "The attic.m4a"),
    ] {
        write(&disk.path().join(folder), file);
        let body = json!({"path": disk.path().join(folder), "kind": kind});
        let folder = expect_success(call(&server, Method::POST, FOLDERS, Some(body)).await, 201).await;
        assert_eq!(folder["folder"]["kind"], json!(kind));
    }
    let unknown = json!({"path": disk.path(), "kind": "podcasts"});
    expect_error(call(&server, Method::POST, FOLDERS, Some(unknown)).await, 400, "VALIDATION_ERROR").await;
    let has_all = |answer: &Value| answer["scanning"] == false && answer["items"].as_array().unwrap().len() == 5;
    let items = wait_for(&server, "/api/library/items", has_all).await;
    let mut kinds: Vec<(&str, &str)> = items["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["mediaPath"].as_str().unwrap().rsplit('/').next().unwrap(), item["kind"].as_str().unwrap()))
        .collect();
    kinds.sort_unstable();
    let expected = [
        ("Lost S01E02.mp4", "episode"),
        ("The attic.m4a", "music"),
        ("The beach.mp4", "homeVideo"),
        ("The cellar.m4a", "audiobook"),
        ("The lake.mp4", "film"),
    ];
    assert_eq!(kinds, expected, "a name that says what it is wins");
}

#[tokio::test]
async fn folders_that_cannot_be_media_folders_are_refused() {
    let (configured, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(configured.path().join("films")).unwrap();
    fs::write(other.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink(configured.path(), other.path().join("link")).unwrap();
    let server = kit::start_server(&[configured.path()]).await;
    let state = server.service.config.state.clone();
    fs::create_dir_all(state.join("inside")).unwrap();
    for (path, status, code) in [
        (configured.path(), 409, "CONFLICT"),
        (&configured.path().join("films"), 409, "CONFLICT"),
        (&other.path().join("link"), 409, "CONFLICT"),
        (&other.path().join("gone"), 404, "NOT_FOUND"),
        (&other.path().join("file"), 404, "NOT_FOUND"),
        (&state, 400, "VALIDATION_ERROR"),
        (&state.join("inside"), 400, "VALIDATION_ERROR"),
        (server.folder.path(), 400, "VALIDATION_ERROR"),
        (Path::new("/proc/self/root"), 400, "VALIDATION_ERROR"),
        (Path::new("/"), 400, "VALIDATION_ERROR"),
        (Path::new("films"), 400, "INVALID_PATH"),
        (&other.path().join("../.."), 400, "INVALID_PATH"),
    ] {
        expect_error(add(&server, path).await, status, code).await;
    }
    assert_eq!(folders(&server).await.len(), 1);
}

#[tokio::test]
async fn admins_browse_the_folders_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("Films/Old")).unwrap();
    fs::create_dir(folder.path().join(".hidden")).unwrap();
    fs::write(folder.path().join("film.mkv"), "").unwrap();
    let server = kit::start_server(&[]).await;
    let url = |path: &str| format!("/api/server/folders?path={path}");
    let path = folder.path().to_str().unwrap();
    let answer = expect_success(call(&server, Method::GET, &url(path), None).await, 200).await;
    assert_eq!(answer["folders"], json!([{ "name": "Films", "path": format!("{path}/Films") }]));
    assert_eq!(answer["parent"], folder.path().parent().unwrap().to_str().unwrap());
    let top = expect_success(call(&server, Method::GET, "/api/server/folders", None).await, 200).await;
    assert_eq!((&top["path"], &top["parent"]), (&json!("/"), &Value::Null));
    expect_error(call(&server, Method::GET, &url("/proc/1"), None).await, 400, "VALIDATION_ERROR").await;
    for (method, path) in
        [(Method::GET, url(path)), (Method::GET, FOLDERS.to_owned()), (Method::POST, FOLDERS.to_owned())]
    {
        let request = server.request(method, &path).bearer_auth(&server.token).json(&json!({ "path": "/srv" }));
        expect_error(request.send().await.unwrap(), 403, "FORBIDDEN").await;
    }
}
