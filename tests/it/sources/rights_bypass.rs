//! Attempts to bypass the rights check: odd values, changing lists and race conditions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{Timestamp, ToSpan};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{CHANNELS, SOURCES, get_as_admin, send_as_admin, with_rights};
use crate::ingest::transport_stream_source::{self, FILM_SECONDS, TransportStreamSource};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

const RECORDINGS: &str = "/api/livetv/recordings";
const LIST: &str = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://tv.example/1.ts\n";

#[tokio::test]
async fn odd_values_do_not_pass_the_rights_check() {
    let server = kit::start_server(&[]).await;
    let repeated = |c: &str| json!(c.repeat(40));
    let odd_values: Vec<(&str, &str, Vec<Value>)> = vec![
        (
            "attestation",
            "authorized",
            vec![json!("true"), json!(1), json!([true]), json!({}), Value::Null, json!("yes")],
        ),
        (
            "rights",
            "basis",
            vec![json!("OWN-CONTENT"), json!("own-content "), json!(["own-content"]), json!(0), json!("")],
        ),
        (
            "rights",
            "statement",
            vec![json!(" ".repeat(40)), repeated("\u{3000}"), repeated("\u{200b}"), repeated("\u{2800}")],
        ),
        (
            "rights",
            "statement",
            vec![json!("\u{0}".repeat(40)), json!("x".repeat(5000)), json!(["x", "y"]), Value::Null],
        ),
        ("provenance", "sourceName", vec![json!(""), json!("\u{200b}"), json!(7), Value::Null]),
        (
            "provenance",
            "sourceUrl",
            vec![json!("https://"), json!("javascript:alert(1)"), json!("https://a:b@c.example/")],
        ),
        ("provenance", "importedAt", vec![json!("never"), json!(""), json!(0), json!("2026-13-01"), Value::Null]),
    ];
    let external =
        with_rights(json!({"name": "E", "sourceType": "external", "source": {"url": "http://tv.example/1.ts"}}));
    let list = with_rights(json!({"kind": "m3u", "name": "L", "upload": LIST}));
    for (target, valid) in [(CHANNELS, &external), (SOURCES, &list)] {
        for (part, field, values) in &odd_values {
            for value in values {
                let mut body = valid.clone();
                body[part][field] = value.clone();
                let answer = send_as_admin(&server, Method::POST, target, &body).await;
                let (status, error) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
                let field_path = format!("{part}.{field}");
                assert!(status == 400 || status == 422, "{field_path} {value}: {status} {error}");
                let fields = [&error["details"]["missing"][0], &error["details"]["fields"][0]["field"]];
                assert!(
                    fields.contains(&&json!(field_path)) || value.is_array() && error.to_string().contains(&field_path),
                    "{error}"
                );
            }
            for value in [json!("own-content"), json!(true), json!([]), Value::Null] {
                let mut body = valid.clone();
                body[part] = value.clone();
                let answer = send_as_admin(&server, Method::POST, target, &body).await;
                assert!([400, 422].contains(&answer.status().as_u16()), "{part}: {value}");
            }
        }
        // A second, different value for the same key.
        for duplicate in
            ["\"attestation\":{\"authorized\":false}", "\"rights\":{\"basis\":\"other\"}", "\"sourceType\":\"virtual\""]
        {
            let text = valid.to_string();
            let body = format!("{},{duplicate}}}", &text[..text.len() - 1]);
            let request = server
                .request(Method::POST, target)
                .bearer_auth(&server.admin)
                .header("content-type", "application/json");
            let answer = request.body(body).send().await.unwrap();
            let status = answer.status().as_u16();
            let is_unused_key = target == SOURCES && duplicate.contains("sourceType");
            assert!([400, 422].contains(&status) || is_unused_key && status == 201, "{duplicate}: {status}");
            if is_unused_key {
                let id = answer.json::<Value>().await.unwrap()["source"]["id"].clone();
                expect_success(
                    send_as_admin(&server, Method::DELETE, &format!("{SOURCES}/{id}"), &json!({})).await,
                    200,
                )
                .await;
            }
        }
    }
    for kind in ["External", "EXTERNAL", "external ", "m3u", "iptv", ""] {
        let mut body = external.clone();
        body["sourceType"] = json!(kind);
        expect_error(send_as_admin(&server, Method::POST, CHANNELS, &body).await, 400, "VALIDATION_ERROR").await;
    }
    for kind in [json!("virtual"), Value::Null] {
        let mut body = external.clone();
        body["sourceType"] = kind;
        assert_eq!(send_as_admin(&server, Method::POST, CHANNELS, &body).await.status(), 400);
    }
    // Users who are no admins cannot do it either.
    expect_error(server.post(CHANNELS, &external).send().await.unwrap(), 403, "FORBIDDEN").await;
    expect_error(server.post(SOURCES, &list).send().await.unwrap(), 403, "FORBIDDEN").await;
    assert!(server.service.channels.all().is_empty() && server.service.sources.all().is_empty());
}

/// A server that can record, and may connect to this machine.
async fn start_server(recordings_folder: &Path) -> Server {
    let folder = recordings_folder.to_owned();
    kit::start_server_with(&[], |config| {
        config.recordings = Some(folder);
        config.allowed_sources = vec!["127.0.0.1".into()];
        config.limits.ingest_linger = Duration::from_millis(500);
        config.hdhomerun = true;
    })
    .await
}

/// A stream token.
async fn create_token(server: &Server) -> String {
    let answer =
        send_as_admin(server, Method::POST, "/api/livetv/tokens", &json!({"name": "Tuner", "channelIds": null})).await;
    expect_success(answer, 201).await["secret"].as_str().unwrap().to_owned()
}

/// Asserts that every access to a channel is refused with this code, and that it is listed nowhere.
async fn assert_closed(server: &Server, secret: &str, id: &Value, code: &str) {
    let watch = format!("/api/livetv/watch/{id}");
    for target in [watch.clone(), format!("{watch}/live.m3u8"), format!("{watch}/1767225600000-00000.ts")] {
        expect_error(server.get(&target).send().await.unwrap(), 403, code).await;
        expect_error(server.request(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap(), 403, code)
            .await;
        let head = server.request(Method::HEAD, &target).bearer_auth(&server.admin).send().await.unwrap().status();
        assert!([403, 405].contains(&head.as_u16()), "{target}: {head}");
    }
    let number = server.service.channels.get(id.as_u64().unwrap() as u32).unwrap().settings.number;
    let tuner = format!("/hdhr/{secret}/auto/v{number}");
    expect_error(server.request(Method::GET, &tuner).send().await.unwrap(), 403, code).await;
    // It is not offered to players either.
    let fetch_text =
        async |target: String| server.request(Method::GET, &target).send().await.unwrap().text().await.unwrap();
    let list = fetch_text(format!("/api/livetv/m3u?token={secret}")).await;
    assert!(list.starts_with("#EXTM3U") && !list.contains(&format!("/watch/{id}/")), "{list}");
    let lineup = fetch_text(format!("/hdhr/{secret}/lineup.json")).await;
    assert!(lineup.starts_with('[') && !lineup.contains(&format!("/auto/v{number}\"")), "{lineup}");
    let guide = fetch_text(format!("/api/livetv/xmltv?token={secret}")).await;
    assert!(guide.contains("</tv>") && !guide.contains(&format!("\"ch-{id}.")), "{guide}");
    let warm =
        send_as_admin(server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id], "ttlSeconds": 60})).await;
    assert_eq!(expect_success(warm, 202).await["accepted"], 0);
    let (now, later) = (Timestamp::now().to_string(), (Timestamp::now() + 1.hours()).to_string());
    for body in [json!({"start": now, "end": later}), json!({"series": {"title": "Show"}})] {
        let mut body = body;
        body["channelId"] = id.clone();
        expect_error(send_as_admin(server, Method::POST, RECORDINGS, &body).await, 403, code).await;
    }
    assert!(server.service.ingests.health(id.as_u64().unwrap() as u32).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_change_reopens_a_channel_of_a_withdrawn_list() {
    let folder = tempfile::tempdir().unwrap();
    let server = start_server(folder.path()).await;
    let secret = create_token(&server).await;
    let list_server = crate::kit::remote_server::RemoteServer::serve("127.0.0.1", |_| {
        crate::kit::remote_server::ok("text/plain", LIST)
    })
    .await;
    let body = with_rights(json!({"kind": "m3u", "name": "L", "url": list_server.url("/l.m3u"), "refreshHours": 1}));
    let source =
        expect_success(send_as_admin(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    let target = format!("{SOURCES}/{}", source["id"]);
    let id = get_as_admin(&server, CHANNELS).await["channels"][0]["id"].clone();
    let channel = format!("{CHANNELS}/{id}");

    // Rights of an imported channel are attested with its list, never with the channel.
    let own_rights = with_rights(json!({}));
    for body in [
        json!({"source": {"url": "http://other.example/"}, "attestation": {"authorized": true}}),
        json!({"source": {"failoverUrls": ["http://other.example/"]}}),
        json!({"rights": {"recordingBasis": "because"}, "attestation": {"authorized": true}}),
        json!({"attestation": {"authorized": true}}),
        own_rights.clone(),
    ] {
        let refusal =
            expect_error(send_as_admin(&server, Method::PATCH, &channel, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], "source", "{body}");
    }
    let refusal = send_as_admin(&server, Method::PATCH, &channel, &json!({"sourceType": "external"})).await;
    expect_error(refusal, 400, "VALIDATION_ERROR").await;

    expect_success(
        send_as_admin(&server, Method::PATCH, &target, &json!({"attestation": {"authorized": false}})).await,
        200,
    )
    .await;
    assert_closed(&server, &secret, &id, "RIGHTS_WITHDRAWN").await;
    let fetch_count = list_server.request_heads().len();
    let attempts = [
        (Method::PATCH, channel.clone(), json!({"enabled": true, "alwaysOn": true, "name": "Another"})),
        (Method::PATCH, channel.clone(), json!({"guide": {"xmltvId": "one"}})),
        (Method::PATCH, channel.clone(), json!({"attestation": {"authorized": true}})),
        (Method::PATCH, target.clone(), json!({"name": "Another", "refreshHours": 2})),
        (Method::PATCH, target.clone(), json!({"select": {"names": ["One"]}, "numberFrom": 500})),
        (Method::PATCH, target.clone(), json!({"url": list_server.url("/other.m3u")})),
        (Method::PATCH, target.clone(), json!({"upload": LIST.replace("/1.ts", "/2.ts")})),
        (Method::PATCH, target.clone(), json!({"rights": {"statement": "Now I have got a contract with them."}})),
        (Method::PATCH, target.clone(), json!({"attestation": {}})),
        (Method::PATCH, target.clone(), json!({"attestation": null})),
        (Method::POST, format!("{target}/refresh"), json!({})),
    ];
    for (method, target, body) in attempts {
        let answer = send_as_admin(&server, method, &target, &body).await;
        let status = answer.status().as_u16();
        assert!(status < 500, "{target} {body}: {status}");
        assert_closed(&server, &secret, &id, "RIGHTS_WITHDRAWN").await;
    }
    assert_eq!(list_server.request_heads().len(), fetch_count, "a withdrawn list is not fetched");
    assert_eq!(server.service.channels.all().len(), 1);
    let restored = json!({"attestation": {"authorized": true}, "url": list_server.url("/l.m3u")});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &restored).await, 200).await;
    assert_ne!(server.get(&format!("/api/livetv/watch/{id}")).send().await.unwrap().status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_wins_every_race() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let (stream_source, server) =
        (TransportStreamSource::start(&path, FILM_SECONDS).await, start_server(folder.path()).await);
    let secret = create_token(&server).await;
    let mut body = with_rights(json!({"name": "E", "sourceType": "external", "source": {"url": stream_source.url()}}));
    body["rights"]["recordingBasis"] = json!("My own pictures.");
    let id =
        expect_success(send_as_admin(&server, Method::POST, CHANNELS, &body).await, 201).await["channel"]["id"].clone();
    let target = format!("{CHANNELS}/{id}");
    let (yes, no) = (json!({"attestation": {"authorized": true}}), json!({"attestation": {"authorized": false}}));
    for round in 0..6u64 {
        expect_success(send_as_admin(&server, Method::PATCH, &target, &yes).await, 200).await;
        let range = json!({"channelId": id, "start": Timestamp::now().to_string(), "end": (Timestamp::now() + 1.hours()).to_string()});
        let playlist = format!("/api/livetv/watch/{id}/live.m3u8?watchSession=v");
        let start_recording = async {
            let answer = send_as_admin(&server, Method::POST, RECORDINGS, &range).await;
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        };
        let withdraw = async {
            // Before, during and after the creation of a recording.
            tokio::time::sleep(Duration::from_millis(round * round * 20)).await;
            expect_success(send_as_admin(&server, Method::PATCH, &target, &no).await, 200).await;
        };
        let rename = async {
            for n in 0..10 {
                let body = json!({"name": format!("Name {n}"), "enabled": true});
                expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
            }
        };
        let (created, (), (), listed) = tokio::join!(start_recording, withdraw, rename, server.get(&playlist).send());
        assert_closed(&server, &secret, &id, "RIGHTS_WITHDRAWN").await;
        // A request that waits for the first segment ends with the right.
        assert!([200, 403].contains(&listed.unwrap().status().as_u16()));
        let (status, answer) = created;
        assert!(status == 201 || status == 403, "{status} {answer}");
        if status == 201 {
            let one = format!("{RECORDINGS}/{}", answer["recording"]["id"].as_str().unwrap());
            let ended = wait_for("the recording has failed", &async || {
                let recording = get_as_admin(&server, &one).await["recording"].clone();
                (recording["state"] == "failed").then_some(recording)
            })
            .await;
            assert_eq!(ended["failure"]["code"], "RIGHTS_WITHDRAWN");
            let size = ended["path"].as_str().map_or(0, |path| std::fs::metadata(path).unwrap().len());
            assert_eq!(size, ended["sizeBytes"].as_u64().unwrap_or(0), "{ended}");
        }
        wait_for("the connection is closed", &async || (stream_source.open_connections() == 0).then_some(())).await;
    }
    let log = get_as_admin(&server, &format!("/api/livetv/audit?channel={id}&limit=100")).await;
    let withdrawn = log["entries"].as_array().unwrap().iter().filter(|line| line["action"] == "withdrawn").count();
    assert_eq!(withdrawn, 6, "{log:#}");
}

async fn wait_for<T>(condition: &str, try_get: &impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        if let Some(found) = try_get().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {condition}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server that answers each request with a list when permitted; returns its URL, its requests and the permits.
async fn start_slow_server() -> (String, Arc<Semaphore>, Arc<Semaphore>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/l.m3u", listener.local_addr().unwrap());
    let (requests, permits) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (received, permitted) = (requests.clone(), permits.clone());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = socket.read(&mut head).await;
            received.add_permits(1);
            permitted.acquire().await.unwrap().forget();
            let list = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{LIST}", LIST.len());
            let _ = socket.write_all(list.as_bytes()).await;
        }
    });
    (url, requests, permits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_read_during_a_withdrawal_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let server = start_server(folder.path()).await;
    let secret = create_token(&server).await;
    let (url, requests, permits) = start_slow_server().await;
    let body =
        with_rights(json!({"kind": "m3u", "name": "L", "upload": "#EXTM3U\n#EXTINF:-1,Old\nhttp://tv.example/0.ts\n"}));
    let source =
        expect_success(send_as_admin(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    let target = format!("{SOURCES}/{}", source["id"]);
    let old = get_as_admin(&server, CHANNELS).await["channels"][0]["id"].clone();
    let withdrawal = json!({"attestation": {"authorized": false}});

    // The rights are withdrawn while a change still reads its list.
    let new_url = json!({"url": url, "attestation": {"authorized": true}});
    let change = send_as_admin(&server, Method::PATCH, &target, &new_url);
    let withdraw = async {
        requests.acquire().await.unwrap().forget();
        expect_success(send_as_admin(&server, Method::PATCH, &target, &withdrawal).await, 200).await;
        permits.add_permits(1);
    };
    let (changed, ()) = tokio::join!(change, withdraw);
    expect_error(changed, 409, "CONFLICT").await;
    assert_closed(&server, &secret, &old, "RIGHTS_WITHDRAWN").await;
    assert_eq!(server.service.channels.all().len(), 1, "the change has no effect");

    // The same during a scheduled refresh, and when the source is deleted meanwhile.
    let change = send_as_admin(&server, Method::PATCH, &target, &new_url);
    let (changed, ()) = tokio::join!(change, async { permits.add_permits(1) });
    expect_success(changed, 200).await;
    requests.acquire().await.unwrap().forget();
    let before = server.service.channels.all().len();
    // The old channel is no longer in the list; another one is.
    let enabled_id =
        server.service.channels.all().iter().find(|channel| channel.settings.enabled).map(|channel| json!(channel.id));
    let listed = enabled_id.unwrap();
    assert_eq!(send_as_admin(&server, Method::POST, &format!("{target}/refresh"), &json!({})).await.status(), 202);
    requests.acquire().await.unwrap().forget();
    expect_success(send_as_admin(&server, Method::PATCH, &target, &withdrawal).await, 200).await;
    permits.add_permits(1);
    let id = source["id"].as_u64().unwrap() as u32;
    wait_for("the refresh is over", &async || (!server.service.sources.is_busy(id)).then_some(())).await;
    assert_eq!(server.service.channels.all().len(), before);
    assert_closed(&server, &secret, &listed, "RIGHTS_WITHDRAWN").await;
    let attestation = json!({"attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &attestation).await, 200).await;
    assert_eq!(send_as_admin(&server, Method::POST, &format!("{target}/refresh"), &json!({})).await.status(), 202);
    requests.acquire().await.unwrap().forget();
    expect_success(send_as_admin(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    permits.add_permits(1);
    wait_for("the refresh is over", &async || (!server.service.sources.is_busy(id)).then_some(())).await;
    assert!(server.service.channels.all().is_empty() && server.service.sources.all().is_empty());
}
