//! Media folders that a user sees: every route that lists or opens files of the library, walked as a restricted user.

use std::path::Path;

use hearthcast::domain::access::Access;
use hearthcast::http::endpoints;
use hearthcast::service::{catalogue, library_watcher};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::catalogue::{get, wait_for_all, write};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

/// The word in the name of each hidden folder, file, person and genre.
const SECRET: &str = "zebra";

const HIDDEN_FILM: &str = "Films/Zebra Film (1999).mkv";
const HIDDEN_BOOK: &str = "Audiobooks/Zebra Author/Zebra Book";

/// A family's folder and a hidden one, which share a series.
struct Folders {
    _parent: TempDir,
    family: std::path::PathBuf,
    hidden: std::path::PathBuf,
}

fn make_folders() -> Folders {
    let parent = tempfile::tempdir().unwrap();
    let (family, hidden) = (parent.path().join("family"), parent.path().join("zebras"));
    for path in [
        "Films/Family Film (2001).mkv",
        "TV/Shared (2004)/Season 1/Shared S01E01.mkv",
        "Music/Family Band/Family Album/01 - Family Song.m4a",
    ] {
        write(&family, path);
    }
    for path in [
        HIDDEN_FILM,
        "TV/Shared (2004)/Season 1/Shared S01E02 Zebra Night.mkv",
        "TV/Zebra Show (2004)/Season 1/Zebra Show S01E01.mkv",
        "Music/Zebra Band/Zebra Album/01 - Zebra Song.m4a",
    ] {
        write(&hidden, path);
    }
    for part in ["01.m4b", "02.m4b"] {
        write(&hidden, &format!("{HIDDEN_BOOK}/{part}"));
    }
    let nfo = "<movie><title>Zebra Film</title><genre>Zebra</genre><actor><name>Zebra Actor</name></actor></movie>";
    std::fs::write(hidden.join("Films/Zebra Film (1999).nfo"), nfo).unwrap();
    std::fs::write(hidden.join("Films/zebra.m3u"), "Zebra Film (1999).mkv\n").unwrap();
    Folders { _parent: parent, family, hidden }
}

async fn start(folders: &Folders) -> Server {
    let server = kit::start_server(&[&folders.family, &folders.hidden]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    server
}

fn query_path(path: &Path) -> String {
    format!("path={}", utf8_percent_encode(path.to_str().unwrap(), NON_ALPHANUMERIC))
}

/// The ids of hidden things.
struct HiddenIds {
    film: String,
    series: String,
    album: String,
}

async fn hidden_ids(server: &Server) -> HiddenIds {
    let found = get(server, "/api/library/search?q=zebra").await;
    let id = |list: &str| found[list][0]["id"].as_str().unwrap_or_else(|| panic!("{list}: {found:#}")).to_owned();
    let film = get(server, "/api/library/items?kind=film&genre=zebra").await;
    HiddenIds { film: film["items"][0]["id"].as_str().unwrap().to_owned(), series: id("series"), album: id("albums") }
}

/// The answers of a route to a restricted user.
enum Expected {
    /// 200 without a trace of hidden files, at these addresses.
    Clean(Vec<String>),
    /// This status at these addresses, with a body for changes.
    Refused(u16, Vec<(String, Value)>),
    /// The route names no file of the library.
    Unrelated,
}

fn expected(path: &str, folders: &Folders, ids: &HiddenIds) -> Expected {
    let (film, book) = (folders.hidden.join(HIDDEN_FILM), folders.hidden.join(HIDDEN_BOOK));
    let at_film = |more: &str| vec![(format!("{path}?{}{more}", query_path(&film)), Value::Null)];
    let of_film = |body: Value| vec![(path.to_owned(), body)];
    let filled = |id: &str| path.replace("{id}", id).replace("{kind}", "thumbnail").replace("{sheet}", "0");
    let clean = |queries: &[&str]| Expected::Clean(queries.iter().map(|query| format!("{path}{query}")).collect());
    match path {
        "/api/library" => {
            Expected::Refused(403, vec![(format!("{path}?{}", query_path(&folders.hidden)), Value::Null)])
        }
        "/api/library/items" => clean(&["", "?kind=film", "?person=zebra%20actor", "?genre=zebra", "?sort=added"]),
        "/api/library/search" => clean(&["?q=zebra", "?q=shared", "?q=family"]),
        "/api/library/artists" => clean(&["", "?kind=audiobook"]),
        "/api/library/genres"
        | "/api/library/albums"
        | "/api/library/books"
        | "/api/library/playlists"
        | "/api/library/series"
        | "/api/stream/history"
        | "/api/stream/next-up"
        | "/api/stream/audiobook/history" => clean(&[""]),
        "/api/library/albums/{id}" => Expected::Refused(404, vec![(filled(&ids.album), Value::Null)]),
        _ if path.starts_with("/api/library/series/{id}") => {
            Expected::Refused(404, vec![(filled(&ids.series), Value::Null)])
        }
        _ if path.starts_with("/api/library/items/{id}") => {
            Expected::Refused(404, vec![(filled(&ids.film), Value::Null)])
        }
        "/api/stream/audiobook/progress" => Expected::Refused(
            403,
            vec![(format!("{path}?{}", query_path(&book)), json!({"audiobookPath": book, "positionSeconds": 1}))],
        ),
        "/api/stream/audiobook" => Expected::Refused(403, vec![(format!("{path}?{}", query_path(&book)), Value::Null)]),
        "/api/stream/progress" => Expected::Refused(
            403,
            vec![(format!("{path}?{}", query_path(&film)), json!({"mediaPath": film, "positionSeconds": 9}))],
        ),
        "/api/stream/progress/watched" => Expected::Refused(403, of_film(json!({"mediaPath": film}))),
        "/api/stream/transcode/start" => Expected::Refused(403, of_film(json!({"mediaPath": film}))),
        "/api/stream/file" => Expected::Refused(403, at_film("")),
        "/api/stream/info/full" => Expected::Refused(403, vec![(format!("{path}?{}", query_path(&film)), json!({}))]),
        "/api/stream/subtitle" => Expected::Refused(403, at_film("&id=x0")),
        "/api/stream/attachment" => Expected::Refused(403, at_film("&index=0")),
        // Sessions belong to the user who started them.
        _ if path.starts_with("/api/stream/transcode/{sessionId}") || path == "/api/stream/v2-workers" => {
            Expected::Unrelated
        }
        _ if path.starts_with("/api/library") || path.starts_with("/api/stream") => {
            panic!("{path}: list above what a restricted user gets")
        }
        _ => Expected::Unrelated,
    }
}

async fn send(server: &Server, method: &Method, url: &str, body: &Value) -> reqwest::Response {
    let request = server.request(method.clone(), url).bearer_auth(&server.token);
    let request = if *method == Method::GET || body.is_null() { request } else { request.json(body) };
    request.send().await.unwrap()
}

/// Chooses the folders of the user `viewer`.
async fn restrict(server: &Server, folders: Value) {
    let id = server.service.accounts.user_by_name("viewer").unwrap().id;
    let request = server.request(Method::PATCH, &format!("/api/users/{id}")).bearer_auth(&server.admin);
    expect_success(request.json(&json!({ "folders": folders })).send().await.unwrap(), 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_user_finds_and_opens_nothing_in_other_folders() {
    let folders = make_folders();
    let server = start(&folders).await;
    wait_for_all(&server).await;
    let (ids, film) = (hidden_ids(&server).await, folders.hidden.join(HIDDEN_FILM));
    let watched = json!({"mediaPath": folders.hidden.join("TV/Zebra Show (2004)/Season 1/Zebra Show S01E01.mkv")});
    for (path, body) in [
        ("/api/stream/progress", json!({"mediaPath": film, "positionSeconds": 900, "durationSeconds": 3600})),
        ("/api/stream/progress/watched", watched),
    ] {
        expect_success(server.post(path, &body).send().await.unwrap(), 200).await;
    }
    let session_grant = expect_success(server.get("/api/library/items?kind=film").send().await.unwrap(), 200).await;
    assert!(session_grant.to_string().to_lowercase().contains(SECRET), "everything is seen at first");
    // Twice: first without a restriction, so that the walk could fail.
    for is_restricted in [false, true] {
        if is_restricted {
            restrict(&server, json!([folders.family])).await;
        }
        let mut traces = 0;
        for endpoint in endpoints() {
            if matches!(
                endpoint.access,
                Access::Admin | Access::Public | Access::Worker | Access::Tuner | Access::Shared
            ) {
                continue;
            }
            match expected(endpoint.path, &folders, &ids) {
                Expected::Unrelated => {}
                Expected::Clean(urls) => {
                    for url in urls {
                        let answer = expect_success(server.get(&url).send().await.unwrap(), 200).await;
                        let has_trace = answer.to_string().to_lowercase().contains(SECRET);
                        assert!(!(is_restricted && has_trace), "{url}: {answer:#}");
                        traces += usize::from(has_trace);
                    }
                }
                Expected::Refused(status, requests) => {
                    for (url, body) in requests {
                        // Without a restriction only reads, so that the second round has the same records.
                        if !is_restricted && endpoint.method != Method::GET {
                            continue;
                        }
                        let answer = send(&server, &endpoint.method, &url, &body).await;
                        let found = answer.status().as_u16();
                        if is_restricted {
                            let text = answer.text().await.unwrap();
                            assert_eq!(found, status, "{} {url}: {text}", endpoint.method);
                            assert!(!text.to_lowercase().contains(SECRET), "{url}: {text}");
                        } else {
                            assert_ne!(found, 403, "{} {url}", endpoint.method);
                        }
                    }
                }
            }
        }
        assert_eq!(traces == 0, is_restricted, "{traces} answers name hidden files");
    }
    let roots = get(&server, "/api/library").await;
    assert_eq!(roots["entries"].as_array().unwrap().len(), 1, "{roots}");
    let series = get(&server, "/api/library/series").await;
    let shared = &series["series"][0];
    assert_eq!((series["total"].as_u64(), &shared["episodeCount"]), (Some(1), &json!(1)), "{series}");
    let seen = folders.family.join("Films/Family Film (2001).mkv");
    let bytes = server.get(&format!("/api/stream/file?{}", query_path(&seen))).send().await.unwrap();
    assert_eq!(bytes.status(), 200, "the user's own folders stay");

    // An admin sees everything, and may give it back.
    let admin = server.request(Method::GET, "/api/library/items?kind=film").bearer_auth(&server.admin);
    assert_eq!(expect_success(admin.send().await.unwrap(), 200).await["total"], 2);
    restrict(&server, Value::Null).await;
    assert_eq!(get(&server, "/api/library/items?kind=film").await["total"], 2);
    assert_eq!(get(&server, "/api/stream/history").await["total"], 2, "progress was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_in_a_folder_that_is_seen_is_shown_there_and_links_end_with_the_folder() {
    let folders = make_folders();
    let copy = folders.family.join("Films/Copy (1999).mkv");
    std::fs::copy(folders.hidden.join(HIDDEN_FILM), &copy).unwrap();
    let server = start(&folders).await;
    wait_for_all(&server).await;
    let film = folders.hidden.join(HIDDEN_FILM);
    let (principal, resource) =
        (server.service.accounts.authenticate(&server.token).unwrap(), format!("stream/file:{}", film.display()));
    let until = server.service.clock.now().as_second() + 600;
    let grant = server.service.accounts.sign_grant(&principal, &resource, until);
    let signed = format!("/api/stream/file?{}&st={grant}", query_path(&film));
    let fetch = async || server.request(Method::GET, &signed).send().await.unwrap();
    assert_eq!(fetch().await.status(), 200);
    restrict(&server, json!([folders.family])).await;
    expect_error(fetch().await, 403, "FORBIDDEN").await;

    let films = get(&server, "/api/library/items?kind=film").await;
    assert_eq!(films["total"], 2, "{films:#}");
    let paths: Vec<_> =
        films["items"].as_array().unwrap().iter().map(|item| item["mediaPath"].as_str().unwrap()).collect();
    assert!(paths.contains(&copy.to_str().unwrap()), "{paths:?}");
    let at = paths.iter().position(|path| *path == copy.to_str().unwrap()).unwrap();
    let item = get(&server, &format!("/api/library/items/{}", films["items"][at]["id"].as_str().unwrap())).await;
    assert_eq!(item["mediaPaths"], json!([copy]), "the other path is not named");
    restrict(&server, json!([])).await;
    assert_eq!(get(&server, "/api/library/items").await["total"], 0);
    assert_eq!(get(&server, "/api/library").await["entries"], json!([]));
}

/// Handlers open files for the user of a request: the functions that open any file are for work of the server.
#[test]
fn handlers_open_files_through_the_gate() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/api")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for ungated in ["library.open(", "library.open_uncached(", "library.list(", ".open_file(", "path_of("] {
                let uses = text.matches(ungated).count() - text.matches(&format!("seen_{ungated}")).count();
                let is_known = path.ends_with("info.rs") && ungated == "path_of(";
                assert!(uses == 0 || is_known, "{}: {ungated}", path.display());
            }
        }
    }
}
