//! Channels that follow the library: rules, renamed files, and guides that describe each programme.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearthcast::service::{catalogue, channels, library_watcher};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add_channel, expect_refused_field, get, send_as_admin};
use crate::kit::response::expect_success;
use crate::kit::xmltv::parse_checked;
use crate::kit::{self, Server, media};

mod artwork;
mod playlists;

/// Films of one length, each with its own content.
struct Films {
    bytes: Vec<u8>,
    root: PathBuf,
    written: u32,
}

impl Films {
    fn new(root: &Path, seconds: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        let encode = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 4";
        media::run_ffmpeg(&path, &["-f lavfi -i", &format!("testsrc2=s=160x90:r=1:d={seconds}"), encode]);
        Self { bytes: std::fs::read(path).unwrap(), root: root.to_owned(), written: 0 }
    }

    /// Writes a film; a box at its end that players skip makes it another one.
    fn write(&mut self, path: &str) -> PathBuf {
        self.written += 1;
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = self.bytes.clone();
        bytes.extend_from_slice(b"\0\0\0\x0cfree");
        bytes.extend_from_slice(&self.written.to_be_bytes());
        // Written beside it first, so that no scan finds a part of it.
        let unfinished = path.with_extension("part");
        std::fs::write(&unfinished, bytes).unwrap();
        std::fs::rename(unfinished, &path).unwrap();
        path
    }
}

async fn start(root: &Path) -> Server {
    let server = kit::start_server(&[root]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    channels::follow::start(&server.service);
    wait_for(&server, "/api/library/items", |answer| answer["scanning"] == false).await;
    server
}

/// Waits until an answer is as expected.
async fn wait_for(server: &Server, target: &str, is_done: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let answer = get(server, target).await;
        if is_done(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{target}: {:#}", get(server, target).await);
}

async fn wait_for_items(server: &Server, channel: &Value, count: usize) -> Value {
    let target = format!("{CHANNELS}/{}", channel["id"]);
    let has_items = |answer: &Value| answer["channel"]["itemCount"] == json!(count);
    let target = as_admin(server, &target, has_items).await;
    target["channel"].clone()
}

/// Waits until what an administrator gets is as expected.
async fn as_admin(server: &Server, target: &str, is_done: impl Fn(&Value) -> bool) -> Value {
    let mut answer = Value::Null;
    for _ in 0..600 {
        let response = server.request(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap();
        answer = expect_success(response, 200).await;
        if is_done(&answer) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{target}: {answer:#}");
}

fn hours_from(server: &Server, hours: i64) -> i64 {
    server.service.clock.now().as_millisecond() + hours * 3_600_000
}

/// The guide between two instants: start and title of each entry, and the file.
async fn guide(server: &Server, channel: &Value, from_ms: i64, to_ms: i64) -> Vec<String> {
    let instant = |ms: i64| jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
    let (from, to) = (instant(from_ms), instant(to_ms));
    let answer = get(server, &format!("/api/livetv/epg?channelId={}&from={from}&to={to}", channel["id"])).await;
    let text = |entry: &Value| format!("{} {} {}", entry["id"], entry["start"], entry["title"]);
    answer["entries"].as_array().unwrap().iter().map(text).collect()
}

fn has_title(guide: &[String], title: &str) -> bool {
    guide.iter().any(|entry| entry.contains(&format!("\"{title}\"")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_on_its_channel_after_the_published_hours() {
    let root = tempfile::tempdir().unwrap();
    let mut films = Films::new(root.path(), 300);
    for name in ["Alien (1979)", "Brazil (1985)", "Casablanca (1942)"] {
        films.write(&format!("Movies/{name}.mp4"));
    }
    let server = start(root.path()).await;
    let rule = json!({"kind": "folder", "value": root.path().join("Movies")});
    let body = json!({"name": "Films", "scheduleMode": "sequential", "guide": {"minProgrammeSeconds": 0},
        "items": [{"rule": rule}]});
    let channel = add_channel(&server, &body).await;
    assert_eq!((&channel["items"][0]["rule"], &channel["itemCount"]), (&rule, &json!(3)));
    assert!(channel["items"][0].get("path").is_none());
    let (from, until) = (hours_from(&server, 0), hours_from(&server, 6));
    let published = guide(&server, &channel, from, until).await;
    assert!(has_title(&published, "Alien") && published.len() > 70, "{}", published.len());

    films.write("Movies/Dune (1984).mp4");
    let followed = wait_for_items(&server, &channel, 4).await;
    assert_eq!(followed["revision"], 2);
    assert_eq!(guide(&server, &channel, from, until).await, published);
    let later = guide(&server, &channel, until + 3_600_000, until + 5_400_000).await;
    assert!(has_title(&later, "Dune") && has_title(&later, "Alien"), "{later:?}");
    let newest = get(&server, "/api/library/items?sort=added&limit=1").await;
    assert_eq!(newest["items"][0]["title"], "Dune");

    // Removed and renamed files change as little.
    std::fs::remove_file(root.path().join("Movies/Alien (1979).mp4")).unwrap();
    std::fs::rename(root.path().join("Movies/Brazil (1985).mp4"), root.path().join("Movies/Zardoz (1974).mp4"))
        .unwrap();
    wait_for_items(&server, &channel, 3).await;
    assert_eq!(guide(&server, &channel, from, until).await, published);
    let later = guide(&server, &channel, until + 3_600_000, until + 5_400_000).await;
    assert!(!has_title(&later, "Alien") && has_title(&later, "Casablanca"), "{later:?}");

    // With no file left it keeps its items.
    std::fs::remove_dir_all(root.path().join("Movies")).unwrap();
    wait_for(&server, "/api/library/items", |answer| answer["total"] == 0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(guide(&server, &channel, from, until).await, published);
    wait_for_items(&server, &channel, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_select_by_what_the_library_knows() {
    let root = tempfile::tempdir().unwrap();
    let mut films = Films::new(root.path(), 300);
    for path in [
        "Movies/Alien (1979).mp4",
        "Movies/Brazil (1985).mp4",
        "Movies/Brazil (1985)/Trailers/Trailer.mp4",
        "TV/Lost/Season 2/Lost S02E01.mp4",
        "TV/Lost/Season 1/Lost S01E02.mp4",
    ] {
        films.write(path);
    }
    let nfo = "<movie><title>Alien</title><year>1979</year><genre>Horror</genre>
        <actor><name>Sigourney Weaver</name></actor></movie>";
    std::fs::write(root.path().join("Movies/Alien (1979).nfo"), nfo).unwrap();
    let server = start(root.path()).await;
    let series = get(&server, "/api/library/series").await["series"][0]["id"].clone();
    let user = get(&server, "/api/auth/me").await["user"]["id"].clone();
    let body = json!({"mediaPath": root.path().join("Movies/Brazil (1985).mp4")});
    expect_success(server.post("/api/stream/progress/watched", &body).send().await.unwrap(), 200).await;
    let with_series = json!({"kind": "series", "value": series});
    for (rule, expected) in [
        (json!({"kind": "genre", "value": "horror"}), &["Alien"][..]),
        (json!({"kind": "person", "value": "Sigourney Weaver"}), &["Alien"]),
        (json!({"kind": "year", "value": "1980-1989"}), &["Brazil"]),
        (json!({"kind": "itemKind", "value": "film"}), &["Alien", "Brazil"]),
        (with_series.clone(), &["Lost S1E2", "Lost S2E1"]),
        (json!({"kind": "unwatched", "userId": user, "and": [{"kind": "itemKind", "value": "film"}]}), &["Alien"]),
        (json!({"kind": "newest", "count": 1, "and": [with_series]}), &["Lost S1E2"]),
    ] {
        let body = json!({"name": "By rule", "scheduleMode": "sequential", "guide": {"minProgrammeSeconds": 0},
            "items": [{"rule": rule}]});
        let channel = add_channel(&server, &body).await;
        assert_eq!(channel["items"][0]["rule"], rule);
        let target = format!("/api/livetv/epg?channelId={}", channel["id"]);
        let answer = get(&server, &target).await;
        let name = |entry: &Value| match entry["episode"].as_u64() {
            Some(episode) => format!("{} S{}E{episode}", entry["title"].as_str().unwrap(), entry["season"]),
            None => entry["title"].as_str().unwrap().to_owned(),
        };
        let count = channel["itemCount"].as_u64().unwrap() as usize;
        let aired: Vec<String> = answer["entries"].as_array().unwrap().iter().take(count).map(name).collect();
        assert_eq!(aired, expected, "{rule}");
        let removed =
            server.request(Method::DELETE, &format!("{CHANNELS}/{}", channel["id"])).bearer_auth(&server.admin);
        expect_success(removed.send().await.unwrap(), 200).await;
    }
    let outside = json!({"kind": "folder", "value": "/nowhere"});
    let refused = json!({"name": "x", "items": [{"rule": outside}]});
    assert_eq!(send_as_admin(&server, Method::POST, CHANNELS, &refused).await.status(), 403);
    for (item, field) in [
        (json!({"rule": {"kind": "mood", "value": "x"}}), "items[0].rule.kind"),
        (json!({"rule": {"kind": "genre"}}), "items[0].rule.value"),
        (json!({"rule": {"kind": "genre", "value": " "}}), "items[0].rule.value"),
        (json!({"rule": {"kind": "series", "value": "Lost"}}), "items[0].rule.value"),
        (json!({"rule": {"kind": "year", "value": "1999-1990"}}), "items[0].rule.value"),
        (json!({"rule": {"kind": "unwatched"}}), "items[0].rule.userId"),
        (json!({"rule": {"kind": "unwatched", "userId": "u_0"}}), "items"),
        (json!({"rule": {"kind": "newest", "count": 0}}), "items[0].rule.count"),
        (json!({"rule": {"kind": "newest", "and": [{"kind": "x"}]}}), "items[0].rule.and[0].kind"),
        (json!({"rule": {"kind": "newest"}, "path": "/x"}), "items[0].rule"),
        (json!({"rule": {"kind": "newest"}, "title": "x"}), "items[0].title"),
        (json!({"weight": 2}), "items[0].path"),
        (json!({"rule": {"kind": "genre", "value": "Western"}}), "items"),
    ] {
        expect_refused_field(&server, Method::POST, CHANNELS, &json!({"name": "x", "items": [item]}), field).await;
    }
}

/// Watches the last two minutes of a channel, in which each of its items is aired at least once, without a slate.
async fn air_each_once(server: &Server, channel: &Value, segment_count: usize) {
    let end = server.service.clock.now().as_second();
    let target = format!("/api/livetv/watch/{}", channel["id"]);
    let list = server.get(&format!("{target}/live.m3u8?at={}&end={end}", end - 125)).send().await.unwrap();
    let list = list.text().await.unwrap();
    let segments: Vec<&str> = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert!(segments.len() >= segment_count, "{list}");
    for segment in &segments {
        let answer = server.get(&format!("{target}/{segment}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{segment}");
    }
    let slates = server.service.slates.counts().snapshot().values().map(|count| count.started).sum::<u64>();
    assert_eq!(slates, 0, "no slate was aired");
}

#[tokio::test(flavor = "multi_thread")]
async fn renamed_files_are_aired_without_a_slate() {
    let root = tempfile::tempdir().unwrap();
    let mut films = Films::new(root.path(), 4);
    let items: Vec<_> = (0..30).map(|n| json!({"path": films.write(&format!("old/{n:02}.mp4"))})).collect();
    let server = start(root.path()).await;
    let body =
        json!({"name": "Renamed", "scheduleMode": "sequential", "startAt": "2026-01-01T00:00:00Z", "items": items});
    let channel = add_channel(&server, &body).await;
    std::fs::rename(root.path().join("old"), root.path().join("new")).unwrap();
    air_each_once(&server, &channel, 30).await;

    // The channel can be changed with the paths it was made with, once the catalogue knows where the files are.
    let is_moved = |item: &Value| item["mediaPath"].as_str().unwrap().contains("/new/");
    wait_for(&server, "/api/library/items?limit=200", |answer| {
        answer["items"].as_array().unwrap().iter().all(is_moved)
    })
    .await;
    let target = format!("{CHANNELS}/{}", channel["id"]);
    let changed = send_as_admin(&server, Method::PATCH, &target, &json!({"items": items[..2], "name": "Kept"})).await;
    assert_eq!(expect_success(changed, 200).await["channel"]["itemCount"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn renamed_files_are_aired_before_the_catalogue_has_read_their_folders() {
    let root = tempfile::tempdir().unwrap();
    let mut films = Films::new(root.path(), 4);
    let paths = ["Movies/Alien/film.mp4", "Movies/Brazil/film.mp4", "Movies/Brazil/other.mp4", "Series/Lost/S1/1.mp4"];
    let items: Vec<_> = paths.map(|path| json!({"path": films.write(path)})).into();
    let server = kit::start_server(&[root.path()]).await;
    catalogue::start(&server.service);
    // Without a watcher no change is noticed, as on a disk that is too slow.
    let top = root.path().to_str().unwrap();
    let folders = ["Movies/Alien", "Movies/Brazil", "Series/Lost/S1"].map(|folder| format!("{top}/{folder}"));
    server.service.catalogue.update_root(top, folders);
    wait_for(&server, "/api/library/items", |answer| answer["total"] == 4 && answer["scanning"] == false).await;
    let body =
        json!({"name": "Renamed", "scheduleMode": "sequential", "startAt": "2026-01-01T00:00:00Z", "items": items});
    let channel = add_channel(&server, &body).await;
    for (former, path) in [
        ("Movies/Alien", "Movies/Alien (1979)"),
        ("Movies/Brazil/film.mp4", "Movies/Brazil/Brazil (1985).mp4"),
        ("Movies/Brazil/other.mp4", "Movies/Brazil/Time Bandits (1981).mp4"),
        ("Series", "TV"),
    ] {
        std::fs::rename(root.path().join(former), root.path().join(path)).unwrap();
    }
    air_each_once(&server, &channel, 30).await;
    let listed = get(&server, "/api/library/items").await;
    let mut listed: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["mediaPath"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, paths.map(|path| format!("{top}/{path}")), "the catalogue lists them where they were");
}

#[tokio::test(flavor = "multi_thread")]
async fn guide_and_export_describe_each_programme() {
    let root = tempfile::tempdir().unwrap();
    let mut films = Films::new(root.path(), 300);
    films.write("Movies/alien.1979.1080p.mp4");
    films.write("TV/Lost (2004)/Season 1/Lost S01E02 Tabula Rasa.mp4");
    let nfo = "<movie><title>Alien</title><premiered>1979-05-25</premiered><plot>In space.</plot><genre>Horror</genre>
        <mpaa>R</mpaa><director>Ridley Scott</director><credits>Dan O'Bannon</credits>
        <actor><name>Sigourney Weaver</name><role>Ripley</role></actor></movie>";
    std::fs::write(root.path().join("Movies/alien.1979.1080p.nfo"), nfo).unwrap();
    let server = start(root.path()).await;
    let body = json!({"name": "Both", "scheduleMode": "sequential", "guide": {"minProgrammeSeconds": 0},
        "items": [{"path": root.path(), "recursive": true}]});
    let channel = add_channel(&server, &body).await;
    let answer = get(&server, &format!("/api/livetv/epg?channelId={}", channel["id"])).await;
    let [film, episode, repeat] = [0, 1, 2].map(|n| &answer["entries"][n]);
    let id = get(&server, "/api/library/items?kind=film").await["items"][0]["id"].clone();
    let expected = json!({"title": "Alien", "description": "In space.", "genres": ["Horror"], "rating": "R",
        "originalDate": "1979-05-25", "isNew": true, "video": {"width": 160, "height": 90}, "audioChannels": 2, "itemId": id,
        "credits": [{"name": "Ridley Scott", "role": null, "kind": "director"}, {"name": "Dan O'Bannon", "role": null, "kind": "writer"},
            {"name": "Sigourney Weaver", "role": "Ripley", "kind": "actor"}]});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&film[field], value, "{field}");
    }
    let expected = json!({"title": "Lost", "seriesTitle": "Lost", "subtitle": "Tabula Rasa", "season": 1, "episode": 2,
        "isNew": true});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&episode[field], value, "{field}");
    }
    assert_eq!((&repeat["title"], &repeat["isNew"], film.get("seriesTitle")), (&json!("Alien"), &json!(false), None));

    let text = server.get("/api/livetv/xmltv?days=1&prevDays=0").send().await.unwrap().text().await.unwrap();
    let guide = parse_checked(&text);
    let with_title = |title: &str| guide.children_named("programme").find(|one| one.text_of("title") == title).unwrap();
    let alien = with_title("Alien");
    assert_eq!((alien.text_of("desc"), alien.text_of("date")), ("In space.", "19790525"));
    let credits = alien.children_named("credits").next().unwrap();
    assert_eq!((credits.text_of("director"), credits.text_of("writer")), ("Ridley Scott", "Dan O'Bannon"));
    assert_eq!(credits.children_named("actor").next().unwrap().attributes["role"], "Ripley");
    assert_eq!(alien.children_named("rating").next().unwrap().text_of("value"), "R");
    assert_eq!(alien.children_named("video").next().unwrap().text_of("aspect"), "16:9");
    assert_eq!(alien.children_named("audio").next().unwrap().text_of("stereo"), "stereo");
    let lost = with_title("Lost");
    let numbers: Vec<&str> = lost.children_named("episode-num").map(|number| &*number.text).collect();
    assert_eq!((numbers, lost.text_of("sub-title")), (vec!["S01E02", "0.1."], "Tabula Rasa"));
}
