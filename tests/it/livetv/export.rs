//! `/api/livetv/m3u` and `/api/livetv/xmltv`.

use std::io::Read;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add_channel, get, make_audio_files, send_as_admin};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::xmltv::{Element, parse_checked};
use crate::kit::{self, Server};

async fn get_text(server: &Server, target: &str) -> String {
    let answer = server.get(target).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{target}");
    answer.text().await.unwrap()
}

/// Three channels, the last of them disabled.
async fn add_lineup(server: &Server, files: &[std::path::PathBuf]) -> Vec<Value> {
    let items: Vec<Value> = files.iter().map(|path| json!({"path": path})).collect();
    let mut channels = Vec::new();
    for (number, name, category, description) in
        [(20, "Two, \"2\" <&> 🎬", "Kids & Co", "all\nday"), (5, "Five", "", ""), (7, "Off", "Kids & Co", "")]
    {
        let body = json!({"name": name, "number": number, "category": category, "enabled": name != "Off",
            "startAt": "2026-01-01T00:00:00Z", "items": items, "guide": {"description": description}});
        channels.push(add_channel(server, &body).await);
    }
    channels
}

#[tokio::test]
async fn the_m3u_lists_every_enabled_channel() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1800]);
    let server = kit::start_server(&[folder.path()]).await;
    let channels = add_lineup(&server, &files).await;
    let (two, five) = (&channels[0], &channels[1]);
    let answer = server.get("/api/livetv/m3u").send().await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "audio/x-mpegurl");
    assert_eq!(header("content-disposition"), "inline; filename=\"channels.m3u\"");
    let etag = header("etag");
    let playlist = answer.text().await.unwrap();
    let catchup = |id: &Value| {
        let link = format!("{}/api/livetv/watch/{id}/live.m3u8?at={{utc}}&end={{utcend}}", server.base);
        format!("catchup=\"default\" catchup-source=\"{link}\" catchup-days=\"7\"")
    };
    let (base, guide) = (&server.base, format!("{}/api/livetv/xmltv", server.base));
    let id = |channel: &Value| channel["tvgId"].as_str().unwrap().to_owned();
    let expected = format!(
        "#EXTM3U url-tvg=\"{guide}\" x-tvg-url=\"{guide}\" catchup-correction=\"0\"\n\
         #EXTINF:-1 tvg-id=\"{0}\" tvg-chno=\"5\" tvg-name=\"Five\" tvg-logo=\"{base}/api/livetv/logos/{1}\" \
         channel-id=\"{0}\" CUID=\"{0}\" tvc-stream-vcodec=\"h264\" tvc-stream-acodec=\"aac\" {4},Five\n\
         {base}/api/livetv/watch/{1}/live.m3u8\n\
         #EXTINF:-1 tvg-id=\"{2}\" tvg-chno=\"20\" tvg-name=\"Two, '2' <&> 🎬\" \
         tvg-logo=\"{base}/api/livetv/logos/{3}\" group-title=\"Kids & Co\" channel-id=\"{2}\" CUID=\"{2}\" \
         tvc-stream-vcodec=\"h264\" tvc-stream-acodec=\"aac\" {5},Two \"2\" <&> 🎬\n\
         {base}/api/livetv/watch/{3}/live.m3u8\n",
        id(five),
        five["id"],
        id(two),
        two["id"],
        catchup(&five["id"]),
        catchup(&two["id"]),
    );
    assert_eq!(playlist, expected);
    let revalidated = server.get("/api/livetv/m3u").header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((revalidated.status().as_u16(), revalidated.bytes().await.unwrap().len()), (304, 0));

    // Players store favourites by these ids, which do not depend on the channel name.
    let target = format!("{CHANNELS}/{}", five["id"]);
    expect_success(
        send_as_admin(&server, Method::PATCH, &target, &json!({"name": "Renamed", "number": 99})).await,
        200,
    )
    .await;
    let changed = server.get("/api/livetv/m3u").header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(changed.status(), 200);
    let changed = changed.text().await.unwrap();
    assert!(changed.contains(&format!("tvg-id=\"{}\" tvg-chno=\"99\" tvg-name=\"Renamed\"", id(five))), "{changed}");

    let filtered = get_text(&server, "/api/livetv/m3u?category=Kids%20%26%20Co&tvgId=number").await;
    assert_eq!((filtered.lines().count(), filtered.contains("tvg-id=\"20\"")), (3, true), "{filtered}");
    assert!(
        filtered.contains("url-tvg=\"") && filtered.contains("xmltv?category=Kids%20%26%20Co&tvgId=number\""),
        "{filtered}"
    );
    assert_eq!(get_text(&server, "/api/livetv/m3u?channelIds=77").await.lines().count(), 1);
    let file = server.get("/api/livetv/m3u?format=m3u8&download=1").send().await.unwrap();
    assert_eq!(file.headers()["content-type"], "application/vnd.apple.mpegurl");
    assert_eq!(file.headers()["content-disposition"], "attachment; filename=\"channels.m3u8\"");
    for wrong in
        ["?channelIds=x", "?tvgId=name2", "?format=pls", "?download=yes", "?catchup=x", "?auth=x", "?auth=token"]
    {
        expect_error(server.get(&format!("/api/livetv/m3u{wrong}")).send().await.unwrap(), 400, "VALIDATION_ERROR")
            .await;
    }
}

#[tokio::test]
async fn xmltv_is_valid_and_equals_the_json_guide() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1800, 3000, 777]);
    let server = kit::start_server(&[folder.path()]).await;
    server.service.clock.advance(Duration::ZERO);
    let channels = add_lineup(&server, &files).await;
    let answer = server.get("/api/livetv/xmltv?days=2&prevDays=0").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/xml; charset=utf-8");
    assert!(answer.headers().get("content-encoding").is_none());
    let etag = answer.headers()["etag"].clone();
    let complete = answer.text().await.unwrap();
    let tv = parse_checked(&complete);
    let names: Vec<&str> = tv
        .children_named("channel")
        .flat_map(|channel| channel.children_named("display-name"))
        .map(|name| &*name.text)
        .collect();
    assert_eq!(names, ["Five", "5 Five", "5", "Two, \"2\" <&> 🎬", "20 Two, \"2\" <&> 🎬", "20"]);
    let ids: Vec<&str> = tv.children_named("channel").map(|channel| &*channel.attributes["id"]).collect();
    assert_eq!(ids, [channels[1]["tvgId"].as_str().unwrap(), channels[0]["tvgId"].as_str().unwrap()]);

    let midnight = server.service.clock.now().as_second() / 86400 * 86400;
    let instant = |second: i64| jiff::Timestamp::from_second(second).unwrap();
    let span = format!("?from={}&to={}", instant(midnight), instant(midnight + 3 * 86400));
    let guide = get(&server, &format!("/api/livetv/epg{span}")).await;
    let entries = guide["entries"].as_array().unwrap();
    let programmes: Vec<&Element> = tv.children_named("programme").collect();
    assert_eq!(programmes.len(), entries.len());
    let stamp = |instant: &Value| {
        let instant: jiff::Timestamp = instant.as_str().unwrap().parse().unwrap();
        instant.strftime("%Y%m%d%H%M%S +0000").to_string()
    };
    for (programme, entry) in programmes.iter().zip(entries) {
        let channel = channels.iter().find(|channel| channel["id"] == entry["channelId"]).unwrap();
        assert_eq!(programme.attributes["channel"], channel["tvgId"].as_str().unwrap());
        assert_eq!(programme.attributes["start"], stamp(&entry["start"]), "{entry}");
        assert_eq!(programme.attributes["stop"], stamp(&entry["end"]), "{entry}");
        assert_eq!(programme.text_of("title"), entry["title"]);
        assert_eq!(programme.text_of("desc"), entry["description"].as_str().unwrap().replace('\n', " "));
        assert!(programme.children_named("previously-shown").next().is_some(), "on since January: {programme:?}");
    }
    let neighbours =
        programmes.windows(2).filter(|pair| pair[0].attributes["channel"] == pair[1].attributes["channel"]);
    assert!(neighbours.clone().count() > 100);
    for pair in neighbours {
        assert_eq!(pair[0].attributes["stop"], pair[1].attributes["start"], "no gap, no overlap");
    }

    let revalidated =
        server.get("/api/livetv/xmltv?days=2&prevDays=0").header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((revalidated.status().as_u16(), revalidated.bytes().await.unwrap().len()), (304, 0));
    // Two ways to get it compressed.
    let compressed =
        server.get("/api/livetv/xmltv?days=2&prevDays=0").header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    assert!(compressed.headers()["vary"].to_str().unwrap().contains("accept-encoding"));
    assert_ne!(compressed.headers()["etag"], etag);
    let file = server.get("/api/livetv/xmltv.gz?days=2&prevDays=0").send().await.unwrap();
    assert_eq!(file.headers()["content-type"], "application/gzip");
    assert!(file.headers().get("content-encoding").is_none());
    for answer in [compressed, file] {
        let (packed, mut text) = (answer.bytes().await.unwrap(), String::new());
        flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
        assert!(text == complete && packed.len() * 4 < complete.len());
    }
    // Clients that store no ETag can use the date.
    server.service.clock.advance(Duration::from_secs(3));
    let target = "/api/livetv/xmltv";
    let modified = server.get(target).send().await.unwrap().headers()["last-modified"].clone();
    let revalidated = server.get(target).header("if-modified-since", &modified).send().await.unwrap();
    assert_eq!(revalidated.status(), 304);
    let tv = parse_checked(&get_text(&server, "/api/livetv/xmltv?tz=local&tvgId=number&channelIds=1").await);
    assert_eq!(tv.children_named("channel").map(|channel| &*channel.attributes["id"]).collect::<Vec<_>>(), ["20"]);
    let with_numbers = get_text(&server, "/api/livetv/xmltv?lcn=1").await;
    assert_eq!(with_numbers.matches("<lcn>").count(), 2);
    for wrong in ["?days=0", "?days=15", "?prevDays=8", "?prevDays=-1", "?tz=mars", "?lcn=x"] {
        expect_error(server.get(&format!("{target}{wrong}")).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    }
    expect_success(
        send_as_admin(&server, Method::DELETE, &format!("{CHANNELS}/{}", channels[1]["id"]), &json!({})).await,
        200,
    )
    .await;
    let changed = server.get(target).header("if-modified-since", &modified).send().await.unwrap();
    assert_eq!(changed.status(), 200);
}

/// The `exp` of every URL in a playlist, Unix seconds.
fn expiries(playlist: &str) -> Vec<i64> {
    playlist.split("&exp=").skip(1).map(|rest| rest[..10].parse().unwrap()).collect()
}

#[tokio::test]
async fn signed_lists_expire_with_their_links() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1800]);
    let server = kit::start_server(&[folder.path()]).await;
    let channels = add_lineup(&server, &files).await;
    let sign = async |body: Value| server.post("/api/livetv/sign", &body).send().await.unwrap();
    let get_url = async |url: &str| server.client.get(url).send().await.unwrap();
    let m3u = expect_success(sign(json!({"resource": "m3u", "ttlSeconds": 60})).await, 200).await;
    let guide = expect_success(sign(json!({"resource": "xmltv", "ttlSeconds": 60})).await, 200).await;
    let (m3u, exp, guide) = (m3u["url"].as_str().unwrap(), &m3u["exp"], guide["url"].as_str().unwrap());
    assert!(m3u.starts_with(&format!("{}/api/livetv/m3u?token=k", server.base)), "{m3u}");
    let playlist = get_url(m3u).await.text().await.unwrap();
    let lines: Vec<&str> = playlist.lines().collect();
    assert_eq!(lines.len(), 5, "{playlist}");
    let exp: i64 = exp.as_str().unwrap().parse().unwrap();
    assert!(expiries(&playlist).len() >= 3 && expiries(&playlist).iter().all(|end| *end == exp), "{exp}: {playlist}");
    let links = [m3u, guide, lines[0].split('"').nth(1).unwrap(), lines[2], lines[4]];
    for link in links {
        assert_eq!(get_url(link).await.status(), 200, "{link}");
    }
    assert_eq!(get_url(&guide.replace("/xmltv?", "/xmltv.gz?")).await.status(), 200, "the same guide as gzip file");
    expect_error(get_url(&guide.replace("/xmltv?", "/m3u?")).await, 403, "SIGNATURE_INVALID").await;
    let query = m3u.split_once('?').unwrap().1;
    expect_error(
        get_url(&format!("{}/api/livetv/watch/{}?{query}", server.base, channels[0]["id"])).await,
        403,
        "SIGNATURE_INVALID",
    )
    .await;
    for (wrong, field) in [
        (json!({}), "channelId"),
        (json!({"resource": "epg"}), "resource"),
        (json!({"resource": "m3u", "channelId": channels[0]["id"]}), "resource"),
        (json!({"resource": "m3u", "fromStart": true}), "fromStart"),
        (json!({"resource": "m3u", "ttlSeconds": 604_801}), "ttlSeconds"),
    ] {
        let refusal = expect_error(sign(wrong).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], field);
    }
    server.service.clock.advance(Duration::from_secs(120));
    for link in links {
        expect_error(get_url(link).await, 403, "SIGNATURE_EXPIRED").await;
    }
}

#[tokio::test]
async fn players_without_sign_in_use_a_token_or_a_signed_url() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1800]);
    let server = kit::start_server(&[folder.path()]).await;
    let channels = add_lineup(&server, &files).await;
    let token_body = json!({"name": "Kodi", "channelIds": [channels[0]["id"]]});
    let token = expect_success(server.post("/api/livetv/tokens", &token_body).send().await.unwrap(), 201).await;
    let secret = token["secret"].as_str().unwrap();
    let get_without_sign_in = async |target: &str| server.request(Method::GET, target).send().await.unwrap();

    let answer = get_without_sign_in(&format!("/api/livetv/m3u?token={secret}")).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["cache-control"]),
        (200, &"private, no-store".parse().unwrap())
    );
    assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
    let playlist = answer.text().await.unwrap();
    let lines: Vec<&str> = playlist.lines().collect();
    assert_eq!(lines.len(), 3, "the channels of this token: {playlist}");
    assert_eq!(lines[2], format!("{}/api/livetv/watch/{}/live.m3u8?token={secret}", server.base, channels[0]["id"]));
    // Links in the playlist work as they are.
    let guide = lines[0].split('"').nth(1).unwrap();
    let guide = server.client.get(guide).send().await.unwrap();
    assert_eq!(parse_checked(&guide.text().await.unwrap()).children_named("channel").count(), 1);
    let second_playlist = get_without_sign_in(&format!("/api/livetv/m3u?token={secret}")).await.text().await.unwrap();
    assert_eq!(second_playlist, playlist, "URLs are stable, because favourites depend on them");

    let signed = server.get("/api/livetv/m3u?auth=signed").send().await.unwrap().text().await.unwrap();
    let lines: Vec<&str> = signed.lines().collect();
    let guide = lines[0].split('"').nth(1).unwrap();
    assert!(guide.contains("&exp=") && guide.contains("&sig="), "{guide}");
    assert_eq!(server.client.get(guide).send().await.unwrap().status(), 200);
    let query = guide.split_once('?').unwrap().1;
    expect_error(get_without_sign_in(&format!("/api/livetv/m3u?{query}")).await, 403, "SIGNATURE_INVALID").await;
    let url_parts: Vec<&str> = lines[2].split(['?', '/']).collect();
    assert!(url_parts.contains(&channels[1]["id"].to_string().as_str()), "{url_parts:?}");
    let channel = server.client.get(lines[2]).send().await.unwrap();
    assert_eq!(channel.status(), 200);
    let forged = lines[2].replace(&format!("watch/{}/", channels[1]["id"]), &format!("watch/{}/", channels[0]["id"]));
    expect_error(server.client.get(forged).send().await.unwrap(), 403, "SIGNATURE_INVALID").await;
    // An unsigned `exp` is ignored.
    let week = server.service.clock.now().as_second() + 7 * 86_400;
    for query in ["auth=signed&exp=9999999999", "exp=9999999999"] {
        let playlist = server.get(&format!("/api/livetv/m3u?{query}")).send().await.unwrap().text().await.unwrap();
        assert!(expiries(&playlist).len() >= 3, "{playlist}");
        assert!(expiries(&playlist).iter().all(|exp| *exp <= week), "{playlist}");
    }
    assert!(!server.get("/api/livetv/m3u?auth=none").send().await.unwrap().text().await.unwrap().contains("token"));
    for target in ["m3u", "xmltv", "xmltv.gz"] {
        expect_error(get_without_sign_in(&format!("/api/livetv/{target}")).await, 401, "UNAUTHORIZED").await;
        expect_error(get_without_sign_in(&format!("/api/livetv/{target}?token=hs_x")).await, 401, "UNAUTHORIZED").await;
    }
    let id = token["token"]["id"].as_str().unwrap();
    expect_success(
        server
            .request(Method::DELETE, &format!("/api/livetv/tokens/{id}"))
            .bearer_auth(&server.token)
            .send()
            .await
            .unwrap(),
        200,
    )
    .await;
    expect_error(get_without_sign_in(&format!("/api/livetv/m3u?token={secret}")).await, 401, "UNAUTHORIZED").await;
}
