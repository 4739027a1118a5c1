//! `/api/library/items`, `/series` and `/search`: what the catalogue makes of files, and how it follows them.

use std::path::Path;
use std::time::Duration;

use hearthcast::service::{catalogue, library_watcher};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::mp4_bytes;
use crate::kit;
use crate::kit::response::{expect_error, expect_success};

/// Writes a file of its own content.
pub(super) fn write(root: &Path, path: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut bytes = mp4_bytes(2000);
    bytes.extend_from_slice(path.to_str().unwrap().as_bytes());
    std::fs::write(path, bytes).unwrap();
}

pub(crate) async fn start(root: &Path) -> kit::Server {
    let server = kit::start_server(&[root]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    server
}

pub(super) async fn get(server: &kit::Server, path: &str) -> Value {
    expect_success(server.get(path).send().await.unwrap(), 200).await
}

/// Waits until a list has all its files.
pub(crate) async fn wait_for(server: &kit::Server, path: &str, is_done: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        let answer = get(server, path).await;
        if is_done(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{path}: {:#}", get(server, path).await);
}

pub(super) async fn wait_for_all(server: &kit::Server) -> Value {
    wait_for(server, "/api/library/items?limit=200", |answer| answer["scanning"] == false).await
}

fn fields<'a>(answer: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    answer[list].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn fill(root: &Path) {
    for path in [
        "Movies/The Matrix (1999)/The Matrix (1999).mkv",
        "Movies/Amélie (2001).mkv",
        "Movies/Alien (1979).mkv",
        "TV/Lost (2004)/Season 1/Lost S01E01 Pilot.mkv",
        "TV/Lost (2004)/Season 1/Lost S01E02.mkv",
        "TV/Lost (2004)/Season 2/Lost S02E01.mkv",
        "TV/Lost (2004)/Specials/Lost S00E01.mkv",
        "Music/ABBA/Gold (1992)/01 - Dancing Queen.m4a",
    ] {
        write(root, path);
    }
    let nfo = "<movie><title>Alien</title><year>1979</year><plot>In space.</plot><genre>Horror</genre>
        <actor><name>Sigourney Weaver</name><role>Ripley</role></actor></movie>";
    std::fs::write(root.join("Movies/Alien (1979).nfo"), nfo).unwrap();
    std::fs::write(root.join("TV/Lost (2004)/tvshow.nfo"), "<tvshow><title>Lost</title></tvshow>").unwrap();
    std::fs::write(root.join("Movies/broken.mp4"), b"no media").unwrap();
}

#[tokio::test]
async fn files_are_items_that_are_listed_filtered_and_found() {
    let root = tempfile::tempdir().unwrap();
    fill(root.path());
    let server = start(root.path()).await;
    let all = wait_for_all(&server).await;
    let titles =
        ["Dancing Queen", "Alien", "Amélie", "Pilot", "Episode 2", "Episode 1", "Episode 1", "The Matrix"].as_slice();
    let mut found = fields(&all, "items", "title");
    found.sort_unstable();
    let mut expected = titles.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(all["total"], 8);

    let films = get(&server, "/api/library/items?kind=film").await;
    assert_eq!(fields(&films, "items", "title"), ["Alien", "Amélie", "The Matrix"]);
    for (query, expected) in [
        ("genre=HORROR", &["Alien"][..]),
        ("person=sigourney%20weaver", &["Alien"]),
        ("year=1999", &["The Matrix"]),
        ("year=1970-1995&kind=film", &["Alien"]),
        ("kind=film&sort=year", &["Amélie", "The Matrix", "Alien"]),
        ("kind=film&sort=year&order=asc&limit=1", &["Alien"]),
        ("addedSince=2100-01-01T00:00:00Z", &[]),
        ("genre=Western", &[]),
    ] {
        let answer = get(&server, &format!("/api/library/items?{query}")).await;
        assert_eq!(fields(&answer, "items", "title"), expected, "{query}");
    }
    for query in [
        "kind=x",
        "year=x",
        "year=1999-1990",
        "sort=x",
        "order=x",
        "watched=x",
        "addedSince=x",
        "seriesId=x",
        "cursor=x",
        "limit=0",
    ] {
        let answer = server.get(&format!("/api/library/items?{query}")).send().await.unwrap();
        expect_error(answer, 400, "VALIDATION_ERROR").await;
    }
    let alien = get(&server, "/api/library/items?genre=horror").await["items"][0]["id"].as_str().unwrap().to_owned();
    let alien = get(&server, &format!("/api/library/items/{alien}")).await;
    assert_eq!((&alien["description"]["plot"], &alien["item"]["kind"]), (&json!("In space."), &json!("film")));
    expect_error(server.get("/api/library/items/f_0").send().await.unwrap(), 404, "NOT_FOUND").await;

    for (query, list, field, expected) in [
        ("amelei", "items", "title", &["Amélie"][..]),
        ("MATRX", "items", "title", &["The Matrix"]),
        ("danc abba", "items", "title", &["Dancing Queen"]),
        ("lost", "series", "title", &["Lost"]),
        ("weaver", "people", "name", &["Sigourney Weaver"]),
        ("weaver alien", "items", "title", &["Alien"]),
        ("xyzzy", "items", "title", &[]),
    ] {
        let answer = get(&server, &format!("/api/library/search?q={}", encoded(query))).await;
        assert_eq!(fields(&answer, list, field), expected, "{query}");
    }
    expect_error(server.get("/api/library/search").send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    let long = format!("/api/library/search?q={}", "x".repeat(201));
    expect_error(server.get(&long).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    let anonymous = server.client.get(format!("{}/api/library/items", server.base)).send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
}

#[tokio::test]
async fn films_with_people_and_genres_in_common_are_similar() {
    let root = tempfile::tempdir().unwrap();
    for (title, genres, person) in [
        ("Alien", &["Horror", "Science Fiction"][..], "Sigourney Weaver"),
        ("Event Horizon", &["Horror", "Science Fiction"], "Sam Neill"),
        ("Working Girl", &["Comedy"], "Sigourney Weaver"),
        ("The Fog", &["Horror"], "Jamie Lee Curtis"),
    ] {
        write(root.path(), &format!("Movies/{title} (1979).mkv"));
        let genres: String = genres.iter().map(|genre| format!("<genre>{genre}</genre>")).collect();
        let nfo = format!("<movie><title>{title}</title>{genres}<actor><name>{person}</name></actor></movie>");
        std::fs::write(root.path().join(format!("Movies/{title} (1979).nfo")), nfo).unwrap();
    }
    let server = start(root.path()).await;
    let films = wait_for_all(&server).await;
    let id = films["items"][0]["id"].as_str().unwrap();
    let similar = get(&server, &format!("/api/library/items/{id}/similar")).await;
    assert_eq!(fields(&similar, "items", "title"), ["Working Girl", "Event Horizon"], "a person, then two genres");
    let first = get(&server, &format!("/api/library/items/{id}/similar?limit=1")).await;
    assert_eq!(fields(&first, "items", "title"), ["Working Girl"]);
    let missing = format!("/api/library/items/f_{}/similar", "0".repeat(32));
    expect_error(server.get(&missing).send().await.unwrap(), 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn a_series_has_seasons_and_the_next_episode() {
    let root = tempfile::tempdir().unwrap();
    fill(root.path());
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    let list = get(&server, "/api/library/series").await;
    assert_eq!((fields(&list, "series", "title"), &list["total"]), (vec!["Lost"], &json!(1)));
    let lost = &list["series"][0];
    assert_eq!((&lost["seasonCount"], &lost["episodeCount"], &lost["year"]), (&json!(3), &json!(4), &json!(2004)));
    let address = format!("/api/library/series/{}", lost["id"].as_str().unwrap());
    let next = |answer: &Value| {
        let episode = &answer["nextEpisode"];
        (episode["season"].as_u64(), episode["episode"].as_u64())
    };
    let series = get(&server, &address).await;
    let seasons: Vec<_> =
        series["seasons"].as_array().unwrap().iter().map(|season| season["season"].as_u64()).collect();
    assert_eq!(seasons, [Some(1), Some(2), Some(0)]);
    assert_eq!(next(&series), (Some(1), Some(1)));
    for (path, expected) in [
        ("Season 1/Lost S01E01 Pilot.mkv", (Some(1), Some(2))),
        ("Season 1/Lost S01E02.mkv", (Some(2), Some(1))),
        ("Season 2/Lost S02E01.mkv", (None, None)),
    ] {
        let body = json!({"mediaPath": root.path().join("TV/Lost (2004)").join(path)});
        expect_success(server.post("/api/stream/progress/watched", &body).send().await.unwrap(), 200).await;
        assert_eq!(next(&get(&server, &address).await), expected, "after {path}");
    }
    let series = get(&server, &address).await;
    assert_eq!(series["series"]["watchedCount"], 3);
    assert_eq!(series["seasons"][0]["episodes"][0]["watched"], true);
    let unwatched = get(&server, "/api/library/items?kind=episode&watched=unwatched").await;
    assert_eq!(unwatched["items"][0]["season"], 0);
    assert_eq!(get(&server, "/api/library/items?watched=watched").await["total"], 3);
    expect_error(server.get("/api/library/series/s_0").send().await.unwrap(), 404, "NOT_FOUND").await;
}

#[tokio::test]
async fn a_chosen_title_survives_a_rename_and_changes_are_followed() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "Movies/Alien (1979).mkv");
    write(root.path(), "Movies/Brazil (1985).mkv");
    let server = start(root.path()).await;
    let all = wait_for_all(&server).await;
    assert_eq!(fields(&all, "items", "title"), ["Alien", "Brazil"]);
    let id = all["items"][0]["id"].as_str().unwrap().to_owned();
    let address = format!("/api/library/items/{id}");
    let change = |body: Value| server.request(Method::PATCH, &address).bearer_auth(&server.admin).json(&body).send();
    let changed = expect_success(change(json!({"title": " The  Eighth\nPassenger "})).await.unwrap(), 200).await;
    assert_eq!(changed["item"]["title"], "The Eighth Passenger");
    assert_eq!((&changed["item"]["sortTitle"], &changed["hasChosenTitle"]), (&json!("Eighth Passenger"), &json!(true)));
    for body in
        [json!({}), json!({"title": ""}), json!({"title": "x".repeat(301)}), json!({"title": 1}), json!({"name": "x"})]
    {
        expect_error(change(body).await.unwrap(), 400, "VALIDATION_ERROR").await;
    }
    std::fs::create_dir(root.path().join("Films")).unwrap();
    std::fs::rename(root.path().join("Movies/Alien (1979).mkv"), root.path().join("Films/renamed.mkv")).unwrap();
    std::fs::remove_file(root.path().join("Movies/Brazil (1985).mkv")).unwrap();
    write(root.path(), "Films/Casablanca (1942).mkv");
    let is_moved = |answer: &Value| fields(answer, "items", "title") == ["Casablanca", "The Eighth Passenger"];
    let moved = wait_for(&server, "/api/library/items", is_moved).await;
    assert_eq!((&moved["items"][1]["id"], moved["total"].as_u64()), (&json!(id), Some(2)));
    assert!(moved["items"][1]["mediaPath"].as_str().unwrap().ends_with("Films/renamed.mkv"));
    let nfo = "<movie><title>Casablanca!</title></movie>";
    std::fs::write(root.path().join("Films/Casablanca (1942).nfo"), nfo).unwrap();
    wait_for(&server, "/api/library/items", |answer| answer["items"][0]["title"] == "Casablanca!").await;
    expect_success(change(json!({"title": null})).await.unwrap(), 200).await;
    assert_eq!(get(&server, &address).await["item"]["title"], "renamed");

    let refused = server.request(Method::PATCH, &address).bearer_auth(&server.token).json(&json!({"title": "x"}));
    expect_error(refused.send().await.unwrap(), 403, "FORBIDDEN").await;
}

/// Completes a film or an episode.
async fn watch(server: &kit::Server, path: &Path) {
    server.service.clock.advance(Duration::from_secs(1));
    let body = json!({"mediaPath": path});
    expect_success(server.post("/api/stream/progress/watched", &body).send().await.unwrap(), 200).await;
}

#[tokio::test]
async fn next_up_crosses_seasons_and_ends_with_the_series() {
    let root = tempfile::tempdir().unwrap();
    fill(root.path());
    write(root.path(), "Movies/Alien 2 (1986).mkv");
    write(root.path(), "Movies/a.mkv");
    write(root.path(), "Movies/b.mkv");
    write(root.path(), "Music/ABBA/Gold (1992)/02 - Knowing Me.m4a");
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    let lost = root.path().join("TV/Lost (2004)");
    let next = async || {
        let answer = get(&server, "/api/stream/next-up").await;
        fields(&answer, "nextUp", "title").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for film in ["Movies/Alien (1979).mkv", "Movies/a.mkv"] {
        watch(&server, &root.path().join(film)).await;
    }
    assert_eq!(next().await, Vec::<String>::new(), "films of one folder are no episodes");
    watch(&server, &lost.join("Season 1/Lost S01E01 Pilot.mkv")).await;
    assert_eq!(next().await, ["Lost S01E02"]);
    watch(&server, &lost.join("Season 1/Lost S01E02.mkv")).await;
    assert_eq!(next().await, ["Lost S02E01"]);
    // Also after the watched episodes were removed.
    write(root.path(), "TV/Lost (2004)/Season 1/Lost S01E00 Before.mkv");
    std::fs::remove_file(lost.join("Season 1/Lost S01E02.mkv")).unwrap();
    std::fs::remove_file(lost.join("Season 1/Lost S01E01 Pilot.mkv")).unwrap();
    wait_for(&server, "/api/library/items?kind=episode", |answer| answer["total"] == 3).await;
    assert_eq!(next().await, ["Lost S02E01"]);
    watch(&server, &lost.join("Season 2/Lost S02E01.mkv")).await;
    assert_eq!(next().await, Vec::<String>::new(), "the series is over");
    watch(&server, &root.path().join("Music/ABBA/Gold (1992)/01 - Dancing Queen.m4a")).await;
    assert_eq!(next().await, ["02 - Knowing Me"]);
}

#[tokio::test]
async fn progress_is_shown_at_a_copy_that_still_exists() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "Movies/Ember (2026).mkv");
    let (original, copy) = (root.path().join("Movies/Ember (2026).mkv"), root.path().join("Movies/Ember copy.mkv"));
    std::fs::copy(&original, &copy).unwrap();
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    for played in [&copy, &original] {
        let body = json!({"mediaPath": played, "positionSeconds": 60, "durationSeconds": 600});
        expect_success(server.post("/api/stream/progress", &body).send().await.unwrap(), 200).await;
    }
    let history = get(&server, "/api/stream/history").await;
    assert_eq!((&history["history"][0]["mediaPath"], &history["total"]), (&json!(original), &json!(1)));
    std::fs::remove_file(&original).unwrap();
    let is_at_copy = |answer: &Value| answer["history"][0]["mediaPath"] == json!(copy);
    let history = wait_for(&server, "/api/stream/history", is_at_copy).await;
    assert_eq!((&history["history"][0]["available"], &history["total"]), (&json!(true), &json!(1)));
}
