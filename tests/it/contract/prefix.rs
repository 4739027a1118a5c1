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

use crate::kit::answer::success;
use crate::kit::{self, film};

/// A running nginx. Dropping it kills it.
struct Nginx {
    child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Serves `upstream` below `/tv/` on two ports: the first strips `/tv`, the second passes it on.
    fn start(upstream: &str, [strips, passes]: [u16; 2]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {place}/{name};\n"))
            .concat();
        let server = |port: u16, upstream: &str| {
            format!(
                "server {{ listen 127.0.0.1:{port}; location / {{ return 404; }}\n\
                 location /tv/ {{ proxy_pass {upstream}; proxy_http_version 1.1; proxy_set_header Host $http_host; }} }}\n"
            )
        };
        let config = format!(
            "daemon off; master_process off; pid {place}/pid; error_log {place}/errors;\n\
             events {{ worker_connections 64; }}\nhttp {{ access_log off;\n{temporary}{}{} }}\n",
            server(strips, &format!("{upstream}/")),
            server(passes, upstream)
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let mut command = Command::new(program);
        command.arg("-e").arg(folder.path().join("errors")).arg("-c").arg(&file).stderr(Stdio::null());
        let child = command.spawn().expect("nginx starts: scripts/packages test installs it");
        let nginx = Self { child, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", passes)).is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen within 20 s");
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
fn ports() -> [u16; 2] {
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

/// A client that uses one of the two ports.
struct Guest {
    client: Client,
    /// `http://127.0.0.1:PORT/tv`
    base: Url,
    token: String,
    admin: String,
}

impl Guest {
    /// Resolves an address from a response; one that names the other port is changed to this client's port.
    fn reach(&self, from: &Url, address: &str) -> Url {
        let mut url = from.join(address).unwrap();
        assert!(url.path().starts_with("/tv/"), "{address} in {from} leaves the prefix");
        url.set_port(self.base.port()).unwrap();
        url
    }

    fn root(&self) -> Url {
        self.base.join("/").unwrap()
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The bytes at a URL, fetched without extra headers.
    async fn fetch(&self, url: &Url) -> Vec<u8> {
        let answer = self.client.get(url.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{url}");
        answer.bytes().await.unwrap().to_vec()
    }

    async fn text(&self, url: &Url) -> String {
        String::from_utf8(self.fetch(url).await).unwrap()
    }

    /// A JSON response; asserts that every address in it has the prefix.
    async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(self.at(path)).bearer_auth(&self.token).send().await.unwrap();
        let body = success(answer, 200).await;
        within(&body);
        body
    }

    async fn post(&self, path: &str, token: &str, body: &Value) -> (Value, Option<String>) {
        let answer = self.client.post(self.at(path)).bearer_auth(token).json(body).send().await.unwrap();
        let location = answer.headers().get("location").map(|location| location.to_str().unwrap().to_owned());
        let status = answer.status().as_u16();
        assert!(status == 200 || status == 201, "{path}: {}", answer.text().await.unwrap());
        let body = answer.json().await.unwrap();
        within(&body);
        (body, location)
    }

    /// Follows a playlist down to its first segment.
    async fn play(&self, playlist: Url) {
        let mut url = playlist;
        loop {
            let list = self.text(&url).await;
            assert!(list.starts_with("#EXTM3U"), "{list}");
            let first = list.lines().find(|line| !line.starts_with('#')).expect("the playlist has an entry").to_owned();
            url = self.reach(&url, &first);
            if !url.path().ends_with(".m3u8") {
                break;
            }
        }
        assert_eq!(self.fetch(&url).await[0], 0x47, "{url} is MPEG-TS");
    }
}

/// Asserts that no address of this server lacks the prefix.
fn within(body: &Value) {
    match body {
        Value::String(text) => assert!(!["/api/", "/web/", "/hdhr/"].iter().any(|own| text.starts_with(own)), "{text}"),
        Value::Array(all) => all.iter().for_each(within),
        Value::Object(all) => all.values().for_each(within),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_below_a_path_behind_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    film::flash_and_beep(&path, 6, "-c:v libx264 -preset ultrafast -g 25 -c:a aac");
    std::fs::write(folder.path().join("film.en.srt"), "1\n00:00:01,000 --> 00:00:02,000\nHello\n").unwrap();
    let ports = ports();
    let server = kit::server_with(&[folder.path()], |config| {
        config.public_base_url = Some(format!("http://127.0.0.1:{}/tv/", ports[0]));
        config.hdhomerun = true;
    })
    .await;
    server.service.accounts.add_user("ada", Role::User, "correct horse").await.unwrap();
    let _nginx = Nginx::start(&server.base, ports);
    let media = path.to_str().unwrap();
    for (number, port) in (1..).zip(ports) {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let base = Url::parse(&format!("http://127.0.0.1:{port}/tv")).unwrap();
        let mut guest = Guest { client, base, token: String::new(), admin: server.admin.clone() };
        page(&guest).await;
        let login = json!({"username": "ada", "password": "correct horse"});
        guest.token = guest.post("/api/auth/login", "", &login).await.0["token"].as_str().unwrap().to_owned();
        film(&guest, media).await;
        channel(&guest, media, number).await;
        assert_eq!(guest.get_unchecked("/api/openapi.json").await["servers"][0]["url"], "/tv");
    }
    // Without a proxy, with and without the prefix.
    for path in ["/", "/tv/", "/api/health", "/tv/api/health", "/web/app.js"] {
        assert_eq!(reqwest::get(format!("{}{path}", server.base)).await.unwrap().status(), 200, "{path}");
    }
    let bare = Client::builder().redirect(Policy::none()).build().unwrap().get(format!("{}/tv", server.base));
    let bare = bare.send().await.unwrap();
    assert_eq!(
        (bare.status(), &bare.headers()["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"/tv/".parse().unwrap())
    );
}

impl Guest {
    async fn get_unchecked(&self, path: &str) -> Value {
        success(self.client.get(self.at(path)).send().await.unwrap(), 200).await
    }
}

/// Fetches the page and everything it refers to.
async fn page(guest: &Guest) {
    let folder = guest.at("/").parse::<Url>().unwrap();
    let mut seen = vec![folder.clone()];
    let mut next = 0;
    while next < seen.len() {
        let url = seen[next].clone();
        next += 1;
        let bytes = guest.fetch(&url).await;
        let is_text = !url.path().contains("/vendor/") && (url.path().ends_with(".js") || url == folder);
        for word in String::from_utf8_lossy(&bytes).split('"').skip(1).step_by(2).filter(|_| is_text) {
            let named = match word {
                _ if word.starts_with("./") || word.starts_with("web/") => guest.reach(&url, word),
                // Modules prepend the path of the page to these.
                _ if word.starts_with("/web/") => guest.at(word).parse().unwrap(),
                _ => continue,
            };
            if !seen.contains(&named) {
                seen.push(named);
            }
        }
    }
    for name in ["/tv/web/app.js", "/tv/web/player.js", "/tv/web/style.css", "/tv/web/vendor/hls.worker.js"] {
        assert!(seen.iter().any(|url| url.path() == name), "{name}");
    }
}

/// A film: its info, its bytes, its subtitle, and a session up to the first segment.
async fn film(guest: &Guest, media: &str) {
    let info = guest.get(&format!("/api/stream/info/full?path={media}")).await;
    let subtitle = info["subtitles"][0]["signedUrl"].as_str().expect("a subtitle").to_owned();
    assert!(guest.text(&guest.reach(&guest.root(), &subtitle)).await.starts_with("WEBVTT"));
    let wish = json!({"mediaPath": media, "forceTranscode": true});
    let session = guest.post("/api/stream/transcode/start", &guest.token, &wish).await.0;
    guest.play(guest.reach(&guest.root(), session["signedPlaylistUrl"].as_str().expect("a session"))).await;
    // Some clients simply prepend the base URL to every address.
    let joined = guest.at(session["playlistUrl"].as_str().unwrap());
    assert_eq!(guest.client.get(joined).bearer_auth(&guest.token).send().await.unwrap().status(), 200);
    let device = json!({"containers": ["mp4"], "videoCodecs": [{"codec": "h264"}], "audioCodecs": [{"codec": "aac"}]});
    let direct = json!({"mediaPath": media, "deviceProfile": device});
    let direct = guest.post("/api/stream/transcode/start", &guest.token, &direct).await.0;
    if let Some(address) = direct["signedDirectUrl"].as_str() {
        assert!(!guest.fetch(&guest.reach(&guest.root(), address)).await.is_empty());
    }
}

/// A channel: lists, guides, images, its playlist, exports and the tuner.
async fn channel(guest: &Guest, media: &str, number: u32) {
    let start = (jiff::Timestamp::now() - Duration::from_secs(60)).to_string();
    let body =
        json!({"name": format!("Films {number}"), "number": number, "startAt": start, "items": [{"path": media}]});
    let (made, location) = guest.post("/api/livetv/channels", &guest.admin, &body).await;
    let id = &made["channel"]["id"];
    assert_eq!(location, Some(format!("/tv/api/livetv/channels/{id}")));
    let listed = guest.get(&format!("/api/livetv/channels/{id}")).await["channel"].clone();
    guest.fetch(&guest.reach(&guest.root(), listed["logoUrl"].as_str().unwrap())).await;
    let guide = guest.get(&format!("/api/livetv/epg?channelId={id}")).await;
    let past = guide["entries"].as_array().unwrap().iter().find_map(|entry| entry["catchupUrl"].as_str());
    assert!(past.expect("the guide has a past entry").starts_with("/tv/api/livetv/watch/"));
    guest.get(&format!("/api/livetv/now?channelId={id}")).await;

    let watch = guest.reach(&guest.root(), listed["watchUrl"].as_str().unwrap());
    let led = guest.client.get(format!("{watch}?wait=15")).bearer_auth(&guest.token).send().await.unwrap();
    assert_eq!(led.status(), 302);
    guest.play(guest.reach(&watch, led.headers()["location"].to_str().unwrap())).await;
    let signed = guest.post("/api/livetv/sign", &guest.token, &json!({"channelId": id})).await.0;
    guest.play(guest.reach(&guest.root(), signed["url"].as_str().unwrap())).await;

    let secret = guest.post("/api/livetv/tokens", &guest.token, &json!({"name": "TV"})).await.0["secret"].clone();
    let secret = secret.as_str().unwrap();
    let lineup = guest.text(&guest.at(&format!("/api/livetv/m3u?token={secret}")).parse().unwrap()).await;
    let link = lineup.lines().rfind(|line| !line.starts_with('#')).unwrap();
    guest.play(guest.reach(&guest.root(), link)).await;
    let quoted = |name: &str| lineup.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
    guest.fetch(&guest.reach(&guest.root(), quoted("tvg-logo"))).await;
    let guide = guest.text(&guest.reach(&guest.root(), quoted("url-tvg"))).await;
    let icon = guide.split("<icon src=\"").nth(1).unwrap().split('"').next().unwrap();
    guest.fetch(&guest.reach(&guest.root(), icon)).await;

    let tuner = guest.get_unchecked(&format!("/hdhr/{secret}/discover.json")).await;
    let lineup = guest.text(&guest.reach(&guest.root(), tuner["LineupURL"].as_str().unwrap())).await;
    let lineup: Value = serde_json::from_str(&lineup).unwrap();
    guest.reach(&guest.root(), lineup[0]["URL"].as_str().unwrap());
}
