//! Channels through nginx with the configuration of the page of help: each segment comes from the server once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use hearthcast::domain::access::Role;
use hearthcast::domain::signing::{parse_keys, sign_grant};
use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode, Url};
use serde_json::json;

use super::nginx_server::NginxServer;
use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::{self, Server, media};

const HELP: &str = include_str!("../../../assets/docs/remote.html");

/// The configuration of the page of help, with the addresses and folders of this test and without a certificate. It logs how
/// each request was answered.
fn help_configuration(listen: &str, upstream: &str, folder: &Path) -> String {
    let text = HELP.split_once("<pre id=\"nginx-cache\">").unwrap().1.split_once("</pre>").unwrap().0;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let replaced = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "the configuration has {from}");
        text.replace(from, to)
    };
    let text = replaced(&text, "listen 443 ssl;", &format!("listen {listen};"));
    let text = replaced(&text, "http://127.0.0.1:8470", upstream);
    let text = replaced(&text, "/var/cache/nginx", folder.to_str().unwrap());
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("ssl_"));
    let log = folder.join("requests");
    let format = "log_format cache '$status $upstream_cache_status $uri';";
    format!("{format} access_log {} cache;\n{}\n", log.display(), lines.collect::<Vec<_>>().join("\n"))
}

/// nginx with a server that has a channel.
struct Edge {
    server: Server,
    nginx: NginxServer,
    client: Client,
    folder: tempfile::TempDir,
    /// The path of `public_base_url`.
    prefix: &'static str,
    channel: u64,
}

impl Edge {
    async fn start(prefix: &'static str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let media_folder = folder.path().join("media");
        std::fs::create_dir(&media_folder).unwrap();
        let languages = "-map 0:v -map 1:a -map 1:a -metadata:s:a:0 language=ger -metadata:s:a:1 language=eng";
        let encoder = "-c:v libx264 -preset ultrafast -g 50 -c:a aac";
        media::flash_and_beep(&media_folder.join("a.mkv"), 120, &format!("{languages} {encoder}"));
        std::fs::write(media_folder.join("a.de.srt"), "1\n00:00:01,000 --> 00:01:50,000\nHallo\n").unwrap();
        let server = kit::start_server_with(&[&media_folder], |config| {
            config.shared_cache = true;
            config.public_base_url = (!prefix.is_empty()).then(|| format!("https://home.example{prefix}"));
        })
        .await;
        let start = (jiff::Timestamp::now() - Duration::from_secs(60)).to_string();
        let body = json!({"name": "One", "startAt": start, "items": [{"path": media_folder}]});
        let request = server.client.post(format!("{}/api/livetv/channels", server.base)).bearer_auth(&server.admin);
        let created = expect_success(send_until_ready(request.json(&body)).await, 201).await;
        let nginx = NginxServer::start_with(folder.path(), |address| {
            help_configuration(&address.to_string(), &server.base, folder.path())
        })?;
        let channel = created["channel"]["id"].as_u64().unwrap();
        Some(Self { server, nginx, client: Client::new(), folder, prefix, channel })
    }

    fn url(&self, path: &str) -> Url {
        format!("{}{}{path}", self.nginx.base, self.prefix).parse().unwrap()
    }

    async fn fetch(&self, url: &Url) -> (StatusCode, HeaderMap, Vec<u8>) {
        let answer = self.client.get(url.clone()).send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        (status, headers, answer.bytes().await.unwrap().to_vec())
    }

    /// The addresses of a playlist's segments, init segments and playlists. The playlist must not be cached.
    async fn read_playlist(&self, url: &Url, token: &str) -> Vec<Url> {
        let answer = self.client.get(url.clone()).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{url}");
        assert_eq!(answer.headers()["cache-control"], "private, no-cache");
        let text = answer.text().await.unwrap();
        let in_tags = text.split("URI=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.chain(in_tags).map(|address| url.join(address).unwrap()).collect()
    }

    /// The logged answers with a path below `/api/livetv/segments/`: how often each was a miss, and a hit.
    fn cache_results(&self) -> BTreeMap<String, (usize, usize)> {
        let mut results: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for line in self.log().lines() {
            let [status, result, path] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            if !path.contains("/api/livetv/segments/") {
                assert_eq!(result, "-", "only segments are cached: {line}");
            } else if status == "200" {
                let counts = results.entry(path.to_owned()).or_default();
                *(if result == "HIT" { &mut counts.1 } else { &mut counts.0 }) += 1;
            }
        }
        results
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default()
    }

    /// The same address with another grant.
    fn with_grant(&self, url: &Url, grant: &str) -> Url {
        let (start, rest) = url.as_str().split_once("/segments/").unwrap();
        format!("{start}/segments/{grant}/{}", rest.split_once('/').unwrap().1).parse().unwrap()
    }
}

/// Watches a channel through nginx with two logins.
async fn watch_through_nginx(prefix: &'static str) {
    let Some(edge) = Edge::start(prefix).await else { return };
    let other = edge.server.service.accounts.issue_token("ada", Role::User).await.unwrap();
    let watch = format!("/api/livetv/watch/{}", edge.channel);
    let index = edge.url(&format!("{watch}/index.m3u8"));
    let mut playlists = vec![edge.url(&format!("{watch}/live.m3u8"))];
    playlists.extend(edge.read_playlist(&index, &edge.server.token).await);
    // Video, two languages and text.
    assert!(playlists.len() >= 5, "{playlists:?}");

    let mut segments = BTreeSet::new();
    for playlist in &playlists {
        let mut playlist = playlist.clone();
        // Each viewer's own grant would be there.
        playlist.set_query(None);
        let first = edge.read_playlist(&playlist, &edge.server.token).await;
        let second = edge.read_playlist(&playlist, &other).await;
        for url in first.iter().chain(&second) {
            assert!(
                url.path().starts_with(&format!("{prefix}/api/livetv/segments/")) && url.query().is_none(),
                "{url}"
            );
        }
        assert!(first.iter().filter(|url| second.contains(url)).count() >= 3, "both get the same");
        for url in &first {
            // At the same time: one request waits for the other.
            let ((status, headers, bytes), again) = tokio::join!(edge.fetch(url), edge.fetch(url));
            assert_eq!((status, again.0), (StatusCode::OK, StatusCode::OK), "{url}");
            assert!(headers["cache-control"].to_str().unwrap().starts_with("public, max-age="), "{headers:?}");
            assert!(bytes == again.2 && !bytes.is_empty(), "{url}");
        }
        for url in second {
            assert_eq!(edge.fetch(&url).await.0, StatusCode::OK, "{url}");
            segments.insert(url);
        }
        segments.extend(first);
    }
    let results = edge.cache_results();
    assert_eq!(results.len(), segments.len(), "{results:?} {segments:?}");
    assert!(results.values().all(|(misses, _)| *misses == 1), "once from the server: {results:?}");
    let hits: usize = results.values().map(|(_, hits)| hits).sum();
    assert!(hits > results.len(), "the others from the cache: {results:?}");
    expect_checked_grants(&edge, segments.first().unwrap()).await;
    expect_playable(&edge).await;
}

/// Plays the channel with ffmpeg, which knows nothing but an address with a stream token.
async fn expect_playable(edge: &Edge) {
    let request = edge.server.post("/api/livetv/tokens", &json!({"name": "TV"}));
    let secret = expect_success(request.send().await.unwrap(), 201).await["secret"].clone();
    for playlist in ["live.m3u8", "index.m3u8"] {
        let path = format!("/api/livetv/watch/{}/{playlist}?token={}", edge.channel, secret.as_str().unwrap());
        let mut ffmpeg = tokio::process::Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-i", edge.url(&path).as_str(), "-t", "6", "-f", "null", "-"]);
        let output = ffmpeg.output().await.unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && messages.is_empty(), "{playlist}: {messages}");
    }
}

/// Asserts that the edge sends nothing that it has cached without a valid grant.
async fn expect_checked_grants(edge: &Edge, cached: &Url) {
    let keys = std::fs::read_to_string(edge.server.service.config.state.join("signing-keys")).unwrap();
    let key = parse_keys(&keys).unwrap()[0];
    let resource = format!("livetv/segments/{}", edge.channel);
    let now = jiff::Timestamp::now().as_second();
    assert_eq!(edge.fetch(&edge.with_grant(cached, &sign_grant(&key, &resource, "shared", now + 60))).await.0, 200);
    for grant in [
        sign_grant(&[9; 32], &resource, "shared", now + 3600),
        sign_grant(&key, &resource, "shared", now - 60),
        sign_grant(&key, "livetv/segments/99", "shared", now + 3600),
        "x".to_owned(),
    ] {
        let (status, headers, bytes) = edge.fetch(&edge.with_grant(cached, &grant)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{grant}");
        assert!(!headers.contains_key("etag") && !bytes.starts_with(b"G"), "{headers:?}");
    }
    // What the pattern of the configuration does not accept goes to the server.
    let strange = edge.client.get(edge.with_grant(cached, "a%20b")).send().await.unwrap();
    expect_error(strange, 403, "SIGNATURE_INVALID").await;
    let hits = edge.log().lines().filter(|line| line.starts_with("403 HIT")).count();
    assert_eq!(hits, 0, "a refusal is not cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_segment_of_a_channel_comes_from_the_server_once() {
    watch_through_nginx("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_cache_works_below_a_path() {
    watch_through_nginx("/tv").await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn segments_come_through_a_standby_and_grants_outlive_the_active_server() {
    let Some(mut household) = super::household::Household::start().await else { return };
    household.settings.push(("HEARTHCAST_SHARED_CACHE", "true".to_owned()));
    let mut active = household.server("a");
    active.wait_until_listening();
    let mut standby = household.server("b");
    standby.wait_until_standby();
    let start = (jiff::Timestamp::now() - Duration::from_secs(60)).to_string();
    let body = json!({"name": "One", "startAt": start, "items": [{"path": household.film}]});
    let request = standby.client.post(format!("{}/api/livetv/channels", standby.base)).bearer_auth(&household.admin);
    let created = expect_success(send_until_ready(request.json(&body)).await, 201).await;
    let playlist = format!("{}/api/livetv/watch/{}/live.m3u8", standby.base, created["channel"]["id"]);
    let answer = send_until_ready(standby.client.get(&playlist).bearer_auth(&household.token)).await;
    let text = answer.text().await.unwrap();
    let last = text.lines().rfind(|line| !line.starts_with('#')).unwrap();
    let segment = Url::parse(&playlist).unwrap().join(last).unwrap();
    let answer = send_until_ready(standby.client.get(segment.clone())).await;
    assert_eq!(answer.status(), StatusCode::OK, "{segment}");
    assert_eq!(answer.headers()["cache-control"], "public, max-age=3600, immutable");
    assert!(answer.bytes().await.unwrap().starts_with(b"G"));
    active.kill();
    let check = segment.join("..").unwrap();
    let check = check.as_str().trim_end_matches('/');
    let answer = send_until_ready(standby.client.get(check)).await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{check}");
}
