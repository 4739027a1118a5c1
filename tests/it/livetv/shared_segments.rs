//! Segments with addresses that a shared cache can keep (`shared_cache`): one grant for all viewers, headers, what ends it.

use std::time::Duration;

use hearthcast::domain::access::Role;
use hearthcast::domain::signing::{SigningKey, parse_keys, sign_grant};
use hearthcast::service::live;
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CHANNELS, add_channel, get, send_as_admin};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server, media};

/// A server with a channel of one film, which began a minute ago.
struct Bench {
    server: Server,
    channel: Value,
    folder: TempDir,
}

impl Bench {
    async fn start(shared_cache: bool) -> Self {
        Self::start_with(shared_cache, "a.mp4", "-c:v libx264 -preset ultrafast -g 50 -c:a aac").await
    }

    async fn start_with(shared_cache: bool, name: &str, encoder_args: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        media::flash_and_beep(&folder.path().join(name), 120, encoder_args);
        let server = kit::start_server_with(&[folder.path()], |config| {
            config.shared_cache = shared_cache;
            config.allowed_origins = vec!["https://tv.example".into()];
        })
        .await;
        let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
        let body =
            json!({"name": "One", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}]});
        let channel = add_channel(&server, &body).await;
        Self { server, channel, folder }
    }

    fn id(&self) -> u64 {
        self.channel["id"].as_u64().unwrap()
    }

    fn watch(&self) -> String {
        format!("/api/livetv/watch/{}", self.id())
    }

    /// A playlist as a user reads it.
    async fn playlist(&self, name: &str, token: &str) -> String {
        let request = self.server.request(Method::GET, &format!("{}/{name}", self.watch())).bearer_auth(token);
        let answer = request.header("origin", "https://tv.example").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        assert_eq!(answer.headers()["cache-control"], "private, no-cache");
        answer.text().await.unwrap()
    }

    /// The path of an address in a playlist of the channel.
    fn resolve(&self, address: &str) -> String {
        let playlist = reqwest::Url::parse(&format!("{}{}/live.m3u8", self.server.base, self.watch())).unwrap();
        playlist.join(address).unwrap().path().to_owned()
    }

    /// A request without a login, as a shared cache makes it.
    async fn fetch(&self, path: &str) -> Response {
        self.server.request(Method::GET, path).header("origin", "https://tv.example").send().await.unwrap()
    }

    fn key(&self) -> SigningKey {
        let file = self.server.service.config.state.join("signing-keys");
        parse_keys(&std::fs::read_to_string(file).unwrap()).unwrap()[0]
    }

    async fn change(&self, body: &Value) {
        let target = format!("{CHANNELS}/{}", self.id());
        expect_success(send_as_admin(&self.server, Method::PATCH, &target, body).await, 200).await;
    }
}

/// The addresses of segments and init segments in a media playlist.
fn addresses(playlist: &str) -> Vec<String> {
    let of_line = |line: &str| match line.strip_prefix("#EXT-X-MAP:URI=\"") {
        Some(rest) => Some(rest.split('"').next().unwrap().to_owned()),
        None => (!line.starts_with('#')).then(|| line.to_owned()),
    };
    playlist.lines().filter_map(of_line).collect()
}

fn last_segment(playlist: &str) -> String {
    addresses(playlist).pop().unwrap()
}

/// Asserts that a shared cache may keep the response, for every origin and viewer.
fn expect_shared(headers: &HeaderMap) -> i64 {
    let text = headers["cache-control"].to_str().unwrap();
    let seconds = text.strip_prefix("public, max-age=").expect(text).strip_suffix(", immutable").expect(text);
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert!(!headers.contains_key("vary") && !headers.contains_key("set-cookie"), "{headers:?}");
    seconds.parse().unwrap()
}

#[tokio::test]
async fn without_the_setting_segments_stay_private_and_the_routes_do_not_exist() {
    let bench = Bench::start(false).await;
    let playlist = bench.playlist("live.m3u8", &bench.server.token).await;
    let all = addresses(&playlist);
    assert!(all.iter().all(|address| address.contains(".ts?st=") && !address.contains('/')), "{playlist}");
    let grant = sign_grant(&bench.key(), &format!("livetv/segments/{}", bench.id()), "shared", 9_999_999_999);
    let name = all[0].split('?').next().unwrap();
    for path in ["".to_owned(), format!("/0123456789abcdef/{name}")] {
        let path = format!("/api/livetv/segments/{grant}/{}{path}", bench.id());
        expect_error(bench.fetch(&path).await, 404, "NOT_FOUND").await;
    }
}

#[tokio::test]
async fn all_viewers_get_the_same_addresses_which_a_shared_cache_can_keep() {
    let bench = Bench::start(true).await;
    let other = bench.server.service.accounts.issue_token("ada", Role::User).await.unwrap();
    let index = bench.playlist("index.m3u8", &bench.server.token).await;
    let media: Vec<String> = addresses(&index).into_iter().chain(media_uris(&index)).collect();
    assert!(media.len() >= 2 && media.iter().all(|uri| uri.contains("?st=")), "playlists stay private: {index}");
    let names = media.iter().map(|uri| uri.split('?').next().unwrap());
    for name in std::iter::once("live.m3u8").chain(names) {
        let (first, second) = (bench.playlist(name, &bench.server.token).await, bench.playlist(name, &other).await);
        let (first, second) = (addresses(&first), addresses(&second));
        assert!(first.iter().filter(|address| second.contains(address)).count() >= 3, "{first:?} {second:?}");
        assert!(first.iter().all(|address| address.starts_with("../../segments/")), "{first:?}");
        for address in [&first[0], first.last().unwrap()] {
            let answer = bench.fetch(&bench.resolve(address)).await;
            assert_eq!(answer.status(), StatusCode::OK, "{address}");
            assert_eq!(expect_shared(answer.headers()), 3600);
            let etag = answer.headers()["etag"].clone();
            assert!(!answer.bytes().await.unwrap().is_empty());
            let request = bench.server.request(Method::GET, &bench.resolve(address)).header("if-none-match", etag);
            let again = request.send().await.unwrap();
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
            assert!(again.headers()["cache-control"].to_str().unwrap().starts_with("public, "));
        }
    }
    // In the past every viewer is at a place of their own.
    let past = bench.playlist("live.m3u8?fromStart=1", &bench.server.token).await;
    assert!(addresses(&past).iter().all(|address| address.contains("?st=")), "{past}");
}

/// The addresses of media playlists in the tags of a multivariant playlist.
fn media_uris(index: &str) -> Vec<String> {
    index.split("URI=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_grant_opens_the_segments_of_one_channel_until_it_expires() {
    let bench = Bench::start(true).await;
    let server = &bench.server;
    let (id, key) = (bench.id(), bench.key());
    let path = bench.resolve(&last_segment(&bench.playlist("live.m3u8", &server.token).await));
    let grant = path.split('/').nth(4).unwrap().to_owned();
    let check = format!("/api/livetv/segments/{grant}/{id}");
    let answer = bench.fetch(&check).await;
    assert_eq!(
        (answer.status(), &answer.headers()["cache-control"]),
        (StatusCode::NO_CONTENT, &"public, max-age=60".parse().unwrap())
    );
    assert!(!answer.headers().contains_key("vary"));

    let now = Timestamp::now().as_second();
    let sign = |resource: &str, subject: &str, exp| sign_grant(&key, resource, subject, exp);
    let resource = format!("livetv/segments/{id}");
    let login = get(server, "/api/auth/sessions").await["sessions"][0]["id"].as_str().unwrap_or("l_1").to_owned();
    let flipped = if grant.as_bytes()[20] == b'A' { "B" } else { "A" };
    let forged = format!("{}{flipped}{}", &grant[..20], &grant[21..]);
    for (grant, code) in [
        (forged, "SIGNATURE_INVALID"),
        (sign_grant(&[9; 32], &resource, "shared", now + 3600), "SIGNATURE_INVALID"),
        (sign("livetv/segments/99", "shared", now + 3600), "SIGNATURE_INVALID"),
        (sign(&resource, &login, now + 3600), "SIGNATURE_INVALID"),
        (sign(&format!("livetv/watch/{id}"), "shared", now + 3600), "SIGNATURE_INVALID"),
        (sign(&resource, "shared", now - 60), "SIGNATURE_EXPIRED"),
    ] {
        for path in
            [path.replace(path.split('/').nth(4).unwrap(), &grant), format!("/api/livetv/segments/{grant}/{id}")]
        {
            let answer = bench.fetch(&path).await;
            assert_eq!(answer.headers()["cache-control"], "no-store");
            expect_error(answer, 403, code).await;
        }
    }
    // It opens nothing else, and a login is no substitute.
    for path in [format!("{}/live.m3u8?st={grant}", bench.watch()), format!("{}?st={grant}", bench.watch())] {
        expect_error(bench.fetch(&path).await, 403, "SIGNATURE_INVALID").await;
    }
    expect_error(server.get(&format!("/api/livetv/segments/x/{id}")).send().await.unwrap(), 403, "SIGNATURE_INVALID")
        .await;
    let no_playlist = format!("{check}/init/live.m3u8");
    expect_error(bench.fetch(&no_playlist).await, 404, "ASSET_NOT_FOUND").await;

    // No cache keeps a segment for longer than its grant is valid.
    let soon = sign(&resource, "shared", now + 600);
    let answer = bench.fetch(&path.replace(&grant, &soon)).await;
    assert!((1..=600).contains(&expect_shared(answer.headers())), "{:?}", answer.headers());
    // All viewers of six hours share it, and it is valid for 12 to 18 hours.
    let expires_at: i64 = grant.split('.').next().unwrap().parse().unwrap();
    assert_eq!(expires_at % (6 * 3600), 0);
    assert!((12 * 3600..=18 * 3600).contains(&(expires_at - now)), "{}", expires_at - now);
    server.service.clock.advance(Duration::from_secs((expires_at - now) as u64 + 60));
    expect_error(bench.fetch(&check).await, 403, "SIGNATURE_EXPIRED").await;
    expect_error(bench.fetch(&path).await, 403, "SIGNATURE_EXPIRED").await;
}

#[tokio::test]
async fn a_disabled_channel_ends_its_segments_at_once() {
    let bench = Bench::start(true).await;
    let path = bench.resolve(&last_segment(&bench.playlist("live.m3u8", &bench.server.token).await));
    let (check, _) = path.rsplit_once('/').unwrap().0.rsplit_once('/').unwrap();
    assert_eq!(bench.fetch(&path).await.status(), StatusCode::OK);
    bench.change(&json!({"enabled": false})).await;
    expect_error(bench.fetch(&path).await, 404, "CHANNEL_NOT_FOUND").await;
    // `auth_request` of nginx knows no 404.
    expect_error(bench.fetch(check).await, 403, "FORBIDDEN").await;
}

#[tokio::test]
async fn a_segment_that_may_change_under_its_address_is_not_kept() {
    let bench = Bench::start(true).await;
    let playlist = bench.playlist("live.m3u8", &bench.server.token).await;
    let path = bench.resolve(&last_segment(&playlist));
    expect_shared(bench.fetch(&path).await.headers());
    let version = path.rsplit('/').nth(1).unwrap();
    let not_kept = async |path: &str| {
        let answer = bench.fetch(path).await;
        assert_eq!(
            (answer.status(), &answer.headers()["cache-control"]),
            (StatusCode::OK, &"no-store".parse().unwrap()),
            "{path}"
        );
    };
    // Of another time, or made up.
    not_kept(&path.replace(version, "0123456789abcdef")).await;
    // The programme on air keeps the settings that it began with, so the new name is not that of its segments.
    bench.change(&json!({"output": {"videoBitrateKbps": 300}})).await;
    let changed = bench.playlist("live.m3u8", &bench.server.token).await;
    let changed = bench.resolve(
        addresses(&changed).iter().find(|address| address.ends_with(path.rsplit('/').next().unwrap())).unwrap(),
    );
    assert_ne!(changed, path);
    not_kept(&path).await;
    not_kept(&changed).await;
}

#[tokio::test]
async fn a_slate_in_place_of_a_film_is_not_kept() {
    let bench = Bench::start(true).await;
    std::fs::remove_file(bench.folder.path().join("a.mp4")).unwrap();
    let path = bench.resolve(&last_segment(&bench.playlist("live.m3u8", &bench.server.token).await));
    let answer = bench.fetch(&path).await;
    assert_eq!((answer.status(), &answer.headers()["cache-control"]), (StatusCode::OK, &"no-store".parse().unwrap()));
}

#[tokio::test]
async fn viewers_are_counted_by_their_playlists() {
    let bench = Bench::start(true).await;
    let viewers =
        async || get(&bench.server, &format!("{CHANNELS}/{}", bench.id())).await["channel"]["viewers"].clone();
    let path = bench.resolve(&last_segment(&bench.playlist("live.m3u8?watchSession=sofa", &bench.server.token).await));
    assert_eq!(viewers().await, 1);
    assert_eq!(bench.fetch(&path).await.status(), StatusCode::OK);
    assert_eq!(viewers().await, 1, "a shared cache is no viewer");
    bench.playlist("live.m3u8?watchSession=kitchen", &bench.server.token).await;
    assert_eq!(viewers().await, 2);
}

#[tokio::test]
async fn a_channel_whose_segments_come_from_a_cache_keeps_its_encode_slot() {
    let bench = Bench::start_with(true, "c.avi", "-c:v mpeg4 -q:v 5 -c:a ac3").await;
    let playlist = async || bench.playlist("live.m3u8?watchSession=sofa", &bench.server.token).await;
    let path = bench.resolve(&last_segment(&playlist().await));
    assert_eq!(bench.fetch(&path).await.status(), StatusCode::OK);
    // A programme without any request for 6 s gives up its slot to a new viewer.
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        playlist().await;
    }
    assert!(!live::make_room(&bench.server.service), "it is watched");
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(live::make_room(&bench.server.service), "it had something to give up");
}
