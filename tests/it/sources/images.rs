//! Images on other servers: logos in imported lists, and icons of channels and programmes in imported guides.

use std::time::Duration;

use hearthcast::domain::image;
use jiff::Timestamp;
use reqwest::redirect::Policy;

use super::*;
use crate::kit;
use crate::kit::media::run_ffmpeg;
use crate::kit::remote_server::{RemoteServer, ok};

/// Status and width of an image that is fetched without credentials, or where it is.
async fn fetch(server: &Server, url: &str) -> (u16, String) {
    let client = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    let url = if url.starts_with('/') { format!("{}{url}", server.base) } else { url.to_owned() };
    let answer = client.get(url).send().await.unwrap();
    let (status, location) = (answer.status().as_u16(), answer.headers().get("location").cloned());
    if let Some(location) = location {
        return (status, location.to_str().unwrap().to_owned());
    }
    let bytes = answer.bytes().await.unwrap();
    let png = image::detect(&bytes).filter(|_| bytes.starts_with(b"\x89PNG"));
    (status, png.map_or("no PNG".into(), |(_, width, height)| format!("{width}x{height}")))
}

const LOGO_SVG: &str =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 200 100\"><circle cx=\"50\" cy=\"50\" r=\"40\"/></svg>";

async fn remote_images() -> RemoteServer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.jpg");
    run_ffmpeg(&path, &["-f lavfi -i", "testsrc2=s=800x400:d=1", "-frames:v 1"]);
    let jpeg = std::fs::read(path).unwrap();
    let path = folder.path().join("image.webp");
    run_ffmpeg(&path, &["-f lavfi -i", "testsrc2=s=300x100:d=1", "-frames:v 1 -c:v libwebp"]);
    let webp = std::fs::read(path).unwrap();
    let respond = move |path: &str| match path {
        "/four.webp" => ok("image/webp", &webp),
        "/logo.jpg" | "/icon.jpg?size=1" => ok("image/jpeg", &jpeg),
        "/logo.svg" => ok("image/svg+xml", LOGO_SVG),
        "/broken.svg" => ok("image/svg+xml", &LOGO_SVG[..LOGO_SVG.len() - 8]),
        _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    };
    RemoteServer::serve("127.0.0.1", respond).await
}

async fn import(server: &Server, kind: &str, text: String) {
    let mut body = with_rights(json!({"kind": kind, "name": kind, "upload": text}));
    if kind == "xmltv" {
        // A guide needs provenance only.
        body.as_object_mut().unwrap().retain(|field, _| !["rights", "attestation"].contains(&field.as_str()));
    }
    expect_success(send_as_admin(server, Method::POST, SOURCES, &body).await, 201).await;
}

fn list(remote: &RemoteServer) -> String {
    let channel = |name: &str, logo: &str| {
        let logo = remote.url(logo);
        format!("#EXTINF:-1 tvg-id=\"{name}\" tvg-logo=\"{logo}\",{name}\nhttp://tv.example/{name}\n")
    };
    let four = "#EXTINF:-1 tvg-id=\"four\",four\nhttp://tv.example/four\n";
    let channels = [("one", "/logo.jpg"), ("two", "/logo.svg"), ("three", "/none.png"), ("five", "/broken.svg")];
    format!("#EXTM3U\n{}{four}", channels.map(|(name, logo)| channel(name, logo)).concat())
}

#[tokio::test]
async fn images_of_other_servers_are_shown_as_png_in_two_sizes() {
    let remote = remote_images().await;
    let server =
        kit::start_server_with(&[], |config| config.allowed_sources = vec![remote.address.ip().to_string()]).await;
    import(&server, "m3u", list(&remote)).await;
    let stamp = |at: Timestamp| at.strftime("%Y%m%d%H%M%S +0000").to_string();
    let now = Timestamp::now();
    let (start, stop) = (stamp(now), stamp(now + Duration::from_secs(3600)));
    let programme = |channel: &str, rest: &str| {
        format!(
            "<programme start=\"{start}\" stop=\"{stop}\" channel=\"{channel}\"><title>Show</title>{rest}</programme>"
        )
    };
    let icons = ["/icon.jpg?size=1", "/four.webp"].map(|path| format!("<icon src=\"{}\"/>", remote.url(path)));
    let guide = format!(
        "<tv><channel id=\"one\">{}</channel><channel id=\"four\">{}</channel>{}{}</tv>",
        icons[1],
        icons[1],
        programme("one", &icons[0]),
        programme("four", "")
    );
    import(&server, "xmltv", guide).await;
    let channels = expect_success(server.get(CHANNELS).send().await.unwrap(), 200).await["channels"].clone();
    let logos = [0, 1, 2, 3].map(|at| channels[at]["logoUrl"].as_str().unwrap().to_owned());
    assert!(logos[0].starts_with(&format!("/api/livetv/logos/{}?v=", channels[0]["id"])), "{logos:?}");
    assert_eq!(fetch(&server, &logos[0]).await, (200, "512x256".into()));
    assert_eq!(fetch(&server, &format!("{}&size=128", logos[0])).await, (200, "128x64".into()));
    assert_eq!(fetch(&server, &format!("{}&size=100", logos[0])).await.0, 400);
    assert_eq!(fetch(&server, &logos[1]).await, (200, "512x256".into()), "drawn from SVG");
    assert_eq!(fetch(&server, &format!("{}&size=128", logos[1])).await, (200, "128x64".into()));
    assert_eq!(fetch(&server, &logos[3]).await, (302, remote.url("/broken.svg")), "no image that is decoded here");
    for _ in 0..2 {
        assert_eq!(fetch(&server, &logos[2]).await, (302, remote.url("/none.png")));
    }
    let four = &channels[4]["logoUrl"].as_str().unwrap();
    assert_eq!(fetch(&server, four).await, (200, "300x100".into()), "the icon in the guide, a WebP");
    let requests = |path: &str| remote.request_heads().iter().filter(|head| head.contains(path)).count();
    let fetched = ["/logo.jpg", "/logo.svg", "/none.png", "/broken.svg"].map(requests);
    assert_eq!(fetched, [1, 1, 1, 1], "each was fetched once");
    let guessed = format!("/api/livetv/logos/{}?v=0123456789abcdef", channels[0]["id"]);
    assert_eq!(fetch(&server, &guessed).await, (200, "512x512".into()), "a generated one");
    let received = json!({"name": "Renamed", "logoUrl": logos[0]});
    let target = format!("{CHANNELS}/{}", channels[0]["id"]);
    let changed = expect_success(send_as_admin(&server, Method::PATCH, &target, &received).await, 200).await;
    assert_eq!(changed["channel"]["logoUrl"], remote.url("/logo.jpg"), "sent back as received");

    let entry = expect_success(server.get("/api/livetv/epg").send().await.unwrap(), 200).await["entries"][0].clone();
    let icon = entry["artwork"]["thumbnail"].as_str().unwrap();
    assert_eq!(fetch(&server, icon).await, (200, "512x256".into()));
    for wrong in [icon.replace("?v=", "?v=0"), icon.replace("/icons/", "/icons/9"), "/api/livetv/icons/1/x?v=1".into()]
    {
        assert_eq!(fetch(&server, &wrong).await.0, 404, "{wrong}");
    }
    let m3u = server.get("/api/livetv/m3u").send().await.unwrap().text().await.unwrap();
    assert!(m3u.contains(&format!("tvg-logo=\"{}{}\"", server.base, logos[0])), "{m3u}");
}

#[tokio::test]
async fn an_image_at_a_blocked_address_is_not_fetched() {
    let remote = remote_images().await;
    let server = kit::start_server(&[]).await;
    import(&server, "m3u", list(&remote)).await;
    let channels = expect_success(server.get(CHANNELS).send().await.unwrap(), 200).await["channels"].clone();
    let logo = channels[0]["logoUrl"].as_str().unwrap();
    assert_eq!(fetch(&server, logo).await, (302, remote.url("/logo.jpg")));
    assert_eq!(remote.request_heads(), [""; 0]);
}
