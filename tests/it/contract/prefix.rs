//! The whole server below a path prefix, with nginx in front: once it strips the prefix, once it passes it on.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearthcast::domain::access::Role;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, media};

/// A running nginx. Dropping it kills it.
struct Nginx {
    child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Serves `upstream` below `/tv/` on two ports: the first strips `/tv`, the second passes it on.
    fn start(upstream: &str, [stripping_port, passing_port]: [u16; 2]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let folder_path = folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {folder_path}/{name};\n"))
            .concat();
        let server = |port: u16, upstream: &str| {
            format!(
                "server {{ listen 127.0.0.1:{port}; location / {{ return 404; }}\n\
                 location /tv/ {{ proxy_pass {upstream}; proxy_http_version 1.1; proxy_set_header Host $http_host; }} }}\n"
            )
        };
        let config = format!(
            "daemon off; master_process off; pid {folder_path}/pid; error_log {folder_path}/errors;\n\
             events {{ worker_connections 64; }}\nhttp {{ access_log off;\n{temporary}{}{} }}\n",
            server(stripping_port, &format!("{upstream}/")),
            server(passing_port, upstream)
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let mut command = Command::new(program);
        command.arg("-e").arg(folder.path().join("errors")).arg("-c").arg(&file).stderr(Stdio::null());
        let child = command.spawn().expect("nginx starts: scripts/packages test installs it");
        let nginx = Self { child, _folder: folder };
        let deadline = Instant::now() + MAX_WAIT;
        while std::net::TcpStream::connect(("127.0.0.1", passing_port)).is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two free ports.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// A client that uses one of the two ports.
struct ProxyClient {
    client: Client,
    /// `http://127.0.0.1:PORT/tv`
    base: Url,
    token: String,
    admin: String,
}

impl ProxyClient {
    /// Resolves an address from a response; one that names the other port is changed to this client's port.
    fn resolve(&self, from: &Url, address: &str) -> Url {
        let mut url = from.join(address).unwrap();
        assert!(url.path().starts_with("/tv/"), "{address} in {from} leaves the prefix");
        url.set_port(self.base.port()).unwrap();
        url
    }

    fn root_url(&self) -> Url {
        self.base.join("/").unwrap()
    }

    fn url_text(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The bytes at a URL, fetched without extra headers.
    async fn fetch(&self, url: &Url) -> Vec<u8> {
        let answer = self.client.get(url.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{url}");
        answer.bytes().await.unwrap().to_vec()
    }

    async fn fetch_text(&self, url: &Url) -> String {
        String::from_utf8(self.fetch(url).await).unwrap()
    }

    /// A JSON response; asserts that every address in it has the prefix.
    async fn get(&self, path: &str) -> Value {
        let answer = send_until_ready(self.client.get(self.url_text(path)).bearer_auth(&self.token)).await;
        let body = expect_success(answer, 200).await;
        assert_prefixed(&body);
        body
    }

    async fn post(&self, path: &str, token: &str, body: &Value) -> (Value, Option<String>) {
        let answer = send_until_ready(self.client.post(self.url_text(path)).bearer_auth(token).json(body)).await;
        let location = answer.headers().get("location").map(|location| location.to_str().unwrap().to_owned());
        let status = answer.status().as_u16();
        assert!(status == 200 || status == 201, "{path}: {}", answer.text().await.unwrap());
        let body = answer.json().await.unwrap();
        assert_prefixed(&body);
        (body, location)
    }

    /// Follows a playlist down to its first segment.
    async fn play_to_first_segment(&self, playlist: Url) {
        let mut url = playlist;
        loop {
            let list = self.fetch_text(&url).await;
            assert!(list.starts_with("#EXTM3U"), "{list}");
            let first = list.lines().find(|line| !line.starts_with('#')).expect("the playlist has an entry").to_owned();
            url = self.resolve(&url, &first);
            if !url.path().ends_with(".m3u8") {
                break;
            }
        }
        assert_eq!(self.fetch(&url).await[0], 0x47, "{url} is MPEG-TS");
    }
}

/// Asserts that no address of this server lacks the prefix.
fn assert_prefixed(body: &Value) {
    match body {
        Value::String(text) => {
            assert!(!["/api/", "/web/", "/hdhr/"].iter().any(|route| text.starts_with(route)), "{text}")
        }
        Value::Array(all) => all.iter().for_each(assert_prefixed),
        Value::Object(all) => all.values().for_each(assert_prefixed),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_works_below_a_path_behind_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    media::flash_and_beep(&path, 6, "-c:v libx264 -preset ultrafast -g 25 -c:a aac");
    std::fs::write(folder.path().join("film.en.srt"), "1\n00:00:01,000 --> 00:00:02,000\nHello\n").unwrap();
    let ports = free_ports();
    let server = kit::start_server_with(&[folder.path()], |config| {
        config.public_base_url = Some(format!("http://127.0.0.1:{}/tv/", ports[0]));
        config.hdhomerun = true;
    })
    .await;
    server.service.accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let _nginx = Nginx::start(&server.base, ports);
    let media = path.to_str().unwrap();
    for (number, port) in (1..).zip(ports) {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let base = Url::parse(&format!("http://127.0.0.1:{port}/tv")).unwrap();
        let mut proxy_client = ProxyClient { client, base, token: String::new(), admin: server.admin.clone() };
        check_page(&proxy_client).await;
        let login = json!({"username": "ada", "password": "correct horse"});
        proxy_client.token =
            proxy_client.post("/api/auth/login", "", &login).await.0["token"].as_str().unwrap().to_owned();
        check_film(&proxy_client, media).await;
        check_channel(&proxy_client, media, number).await;
        assert_eq!(proxy_client.get_unchecked("/api/openapi.json").await["servers"][0]["url"], "/tv");
    }
    // Without a proxy, with and without the prefix.
    for path in ["/", "/tv/", "/api/health", "/tv/api/health", "/web/app.js"] {
        assert_eq!(reqwest::get(format!("{}{path}", server.base)).await.unwrap().status(), 200, "{path}");
    }
    let request = Client::builder().redirect(Policy::none()).build().unwrap().get(format!("{}/tv", server.base));
    let response = request.send().await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"/tv/".parse().unwrap())
    );
}

impl ProxyClient {
    async fn get_unchecked(&self, path: &str) -> Value {
        expect_success(self.client.get(self.url_text(path)).send().await.unwrap(), 200).await
    }
}

/// Fetches the page and everything it refers to.
async fn check_page(client: &ProxyClient) {
    let folder = client.url_text("/").parse::<Url>().unwrap();
    let mut urls = vec![folder.clone()];
    let mut next = 0;
    while next < urls.len() {
        let url = urls[next].clone();
        next += 1;
        let bytes = client.fetch(&url).await;
        let is_text = !url.path().contains("/vendor/") && (url.path().ends_with(".js") || url == folder);
        for word in String::from_utf8_lossy(&bytes).split('"').skip(1).step_by(2).filter(|_| is_text) {
            let referenced = match word {
                _ if word.starts_with("./") || word.starts_with("web/") => client.resolve(&url, word),
                // Modules prepend the path of the page to these.
                _ if word.starts_with("/web/") => client.url_text(word).parse().unwrap(),
                _ => continue,
            };
            if !urls.contains(&referenced) {
                urls.push(referenced);
            }
        }
    }
    for name in ["/tv/web/app.js", "/tv/web/player.js", "/tv/web/style.css", "/tv/web/vendor/hls.worker.js"] {
        assert!(urls.iter().any(|url| url.path() == name), "{name}");
    }
}

/// A film: its info, its bytes, its subtitle, and a session up to the first segment.
async fn check_film(client: &ProxyClient, media: &str) {
    let info = client.get(&format!("/api/stream/info/full?path={media}")).await;
    let subtitle = info["subtitles"][0]["signedUrl"].as_str().expect("a subtitle").to_owned();
    assert!(client.fetch_text(&client.resolve(&client.root_url(), &subtitle)).await.starts_with("WEBVTT"));
    let options = json!({"mediaPath": media, "forceTranscode": true});
    let session = client.post("/api/stream/transcode/start", &client.token, &options).await.0;
    client
        .play_to_first_segment(
            client.resolve(&client.root_url(), session["signedPlaylistUrl"].as_str().expect("a session")),
        )
        .await;
    // Some clients simply prepend the base URL to every address.
    let joined = client.url_text(session["playlistUrl"].as_str().unwrap());
    assert_eq!(client.client.get(joined).bearer_auth(&client.token).send().await.unwrap().status(), 200);
    let device = json!({"containers": ["mp4"], "videoCodecs": [{"codec": "h264"}], "audioCodecs": [{"codec": "aac"}]});
    let direct = json!({"mediaPath": media, "deviceProfile": device});
    let direct = client.post("/api/stream/transcode/start", &client.token, &direct).await.0;
    if let Some(address) = direct["signedDirectUrl"].as_str() {
        assert!(!client.fetch(&client.resolve(&client.root_url(), address)).await.is_empty());
    }
}

/// A channel: lists, guides, images, its playlist, exports and the tuner.
async fn check_channel(client: &ProxyClient, media: &str, number: u32) {
    let start = (jiff::Timestamp::now() - Duration::from_secs(60)).to_string();
    let body =
        json!({"name": format!("Films {number}"), "number": number, "startAt": start, "items": [{"path": media}]});
    let (created, location) = client.post("/api/livetv/channels", &client.admin, &body).await;
    let id = &created["channel"]["id"];
    assert_eq!(location, Some(format!("/tv/api/livetv/channels/{id}")));
    let listed = client.get(&format!("/api/livetv/channels/{id}")).await["channel"].clone();
    client.fetch(&client.resolve(&client.root_url(), listed["logoUrl"].as_str().unwrap())).await;
    let guide = client.get(&format!("/api/livetv/epg?channelId={id}")).await;
    let catchup_url = guide["entries"].as_array().unwrap().iter().find_map(|entry| entry["catchupUrl"].as_str());
    assert!(catchup_url.expect("the guide has a past entry").starts_with("/tv/api/livetv/watch/"));
    client.get(&format!("/api/livetv/now?channelId={id}")).await;

    let watch = client.resolve(&client.root_url(), listed["watchUrl"].as_str().unwrap());
    let response = client.client.get(format!("{watch}?wait=15")).bearer_auth(&client.token).send().await.unwrap();
    assert_eq!(response.status(), 302);
    client.play_to_first_segment(client.resolve(&watch, response.headers()["location"].to_str().unwrap())).await;
    let signed = client.post("/api/livetv/sign", &client.token, &json!({"channelId": id})).await.0;
    client.play_to_first_segment(client.resolve(&client.root_url(), signed["url"].as_str().unwrap())).await;

    let secret = client.post("/api/livetv/tokens", &client.token, &json!({"name": "TV"})).await.0["secret"].clone();
    let secret = secret.as_str().unwrap();
    let lineup = client.fetch_text(&client.url_text(&format!("/api/livetv/m3u?token={secret}")).parse().unwrap()).await;
    let link = lineup.lines().rfind(|line| !line.starts_with('#')).unwrap();
    client.play_to_first_segment(client.resolve(&client.root_url(), link)).await;
    let attribute = |name: &str| lineup.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
    client.fetch(&client.resolve(&client.root_url(), attribute("tvg-logo"))).await;
    let guide = client.fetch_text(&client.resolve(&client.root_url(), attribute("url-tvg"))).await;
    let icon = guide.split("<icon src=\"").nth(1).unwrap().split('"').next().unwrap();
    client.fetch(&client.resolve(&client.root_url(), icon)).await;

    let tuner = client.get_unchecked(&format!("/hdhr/{secret}/discover.json")).await;
    let lineup = client.fetch_text(&client.resolve(&client.root_url(), tuner["LineupURL"].as_str().unwrap())).await;
    let lineup: Value = serde_json::from_str(&lineup).unwrap();
    client.resolve(&client.root_url(), lineup[0]["URL"].as_str().unwrap());
}
