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

use super::{CHANNELS, SOURCES, asked, cleared, send};
use crate::ingest::antenna::{self, Antenna};
use crate::kit::answer::{refused, success};
use crate::kit::{self, Server};

const RECORDINGS: &str = "/api/livetv/recordings";
const LIST: &str = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://tv.example/1.ts\n";

#[tokio::test]
async fn no_value_passes_for_another() {
    let server = kit::server(&[]).await;
    let hidden = |c: &str| json!(c.repeat(40));
    let odd: Vec<(&str, &str, Vec<Value>)> = vec![
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
            vec![json!(" ".repeat(40)), hidden("\u{3000}"), hidden("\u{200b}"), hidden("\u{2800}")],
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
    let external = cleared(json!({"name": "E", "sourceType": "external", "source": {"url": "http://tv.example/1.ts"}}));
    let list = cleared(json!({"kind": "m3u", "name": "L", "upload": LIST}));
    for (target, whole) in [(CHANNELS, &external), (SOURCES, &list)] {
        for (part, field, values) in &odd {
            for value in values {
                let mut body = whole.clone();
                body[part][field] = value.clone();
                let answer = send(&server, Method::POST, target, &body).await;
                let (status, told) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
                let named = format!("{part}.{field}");
                assert!(status == 400 || status == 422, "{named} {value}: {status} {told}");
                let fields = [&told["details"]["missing"][0], &told["details"]["fields"][0]["field"]];
                assert!(
                    fields.contains(&&json!(named)) || value.is_array() && told.to_string().contains(&named),
                    "{told}"
                );
            }
            for value in [json!("own-content"), json!(true), json!([]), Value::Null] {
                let mut body = whole.clone();
                body[part] = value.clone();
                let answer = send(&server, Method::POST, target, &body).await;
                assert!([400, 422].contains(&answer.status().as_u16()), "{part}: {value}");
            }
        }
        // A second, different value for the same key.
        for twice in
            ["\"attestation\":{\"authorized\":false}", "\"rights\":{\"basis\":\"other\"}", "\"sourceType\":\"virtual\""]
        {
            let text = whole.to_string();
            let body = format!("{},{twice}}}", &text[..text.len() - 1]);
            let request =
                server.ask(Method::POST, target).bearer_auth(&server.admin).header("content-type", "application/json");
            let answer = request.body(body).send().await.unwrap();
            let status = answer.status().as_u16();
            let ignored = target == SOURCES && twice.contains("sourceType");
            assert!([400, 422].contains(&status) || ignored && status == 201, "{twice}: {status}");
            if ignored {
                let id = answer.json::<Value>().await.unwrap()["source"]["id"].clone();
                success(send(&server, Method::DELETE, &format!("{SOURCES}/{id}"), &json!({})).await, 200).await;
            }
        }
    }
    for kind in ["External", "EXTERNAL", "external ", "m3u", "iptv", ""] {
        let mut body = external.clone();
        body["sourceType"] = json!(kind);
        refused(send(&server, Method::POST, CHANNELS, &body).await, 400, "VALIDATION_ERROR").await;
    }
    for kind in [json!("virtual"), Value::Null] {
        let mut body = external.clone();
        body["sourceType"] = kind;
        assert_eq!(send(&server, Method::POST, CHANNELS, &body).await.status(), 400);
    }
    // Users who are no admins cannot do it either.
    refused(server.post(CHANNELS, &external).send().await.unwrap(), 403, "FORBIDDEN").await;
    refused(server.post(SOURCES, &list).send().await.unwrap(), 403, "FORBIDDEN").await;
    assert!(server.service.channels.all().is_empty() && server.service.sources.all().is_empty());
}

/// A server that can record, and may connect to this machine.
async fn server(recorded: &Path) -> Server {
    let folder = recorded.to_owned();
    kit::server_with(&[], |config| {
        config.recordings = Some(folder);
        config.allowed_sources = vec!["127.0.0.1".into()];
        config.limits.ingest_linger = Duration::from_millis(500);
        config.hdhomerun = true;
    })
    .await
}

/// A stream token.
async fn token(server: &Server) -> String {
    let made = send(server, Method::POST, "/api/livetv/tokens", &json!({"name": "Tuner", "channelIds": null})).await;
    success(made, 201).await["secret"].as_str().unwrap().to_owned()
}

/// Asserts that every access to a channel is refused with this code, and that it is listed nowhere.
async fn is_closed(server: &Server, secret: &str, id: &Value, code: &str) {
    let watch = format!("/api/livetv/watch/{id}");
    for target in [watch.clone(), format!("{watch}/live.m3u8"), format!("{watch}/1767225600000-00000.ts")] {
        refused(server.get(&target).send().await.unwrap(), 403, code).await;
        refused(server.ask(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap(), 403, code).await;
        let head = server.ask(Method::HEAD, &target).bearer_auth(&server.admin).send().await.unwrap().status();
        assert!([403, 405].contains(&head.as_u16()), "{target}: {head}");
    }
    let number = server.service.channels.get(id.as_u64().unwrap() as u32).unwrap().settings.number;
    let tuner = format!("/hdhr/{secret}/auto/v{number}");
    refused(server.ask(Method::GET, &tuner).send().await.unwrap(), 403, code).await;
    // It is not offered to players either.
    let text = async |target: String| server.ask(Method::GET, &target).send().await.unwrap().text().await.unwrap();
    let list = text(format!("/api/livetv/m3u?token={secret}")).await;
    assert!(list.starts_with("#EXTM3U") && !list.contains(&format!("/watch/{id}/")), "{list}");
    let lineup = text(format!("/hdhr/{secret}/lineup.json")).await;
    assert!(lineup.starts_with('[') && !lineup.contains(&format!("/auto/v{number}\"")), "{lineup}");
    let guide = text(format!("/api/livetv/xmltv?token={secret}")).await;
    assert!(guide.contains("</tv>") && !guide.contains(&format!("\"ch-{id}.")), "{guide}");
    let warm = send(server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id], "ttlSeconds": 60})).await;
    assert_eq!(success(warm, 202).await["accepted"], 0);
    let (now, later) = (Timestamp::now().to_string(), (Timestamp::now() + 1.hours()).to_string());
    for body in [json!({"start": now, "end": later}), json!({"series": {"title": "Show"}})] {
        let mut body = body;
        body["channelId"] = id.clone();
        refused(send(server, Method::POST, RECORDINGS, &body).await, 403, code).await;
    }
    assert!(server.service.ingests.health(id.as_u64().unwrap() as u32).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_of_a_withdrawn_list_comes_back_by_no_other_way() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let secret = token(&server).await;
    let lists =
        crate::kit::elsewhere::Elsewhere::serve("127.0.0.1", |_| crate::kit::elsewhere::ok("text/plain", LIST)).await;
    let body = cleared(json!({"kind": "m3u", "name": "L", "url": lists.url("/l.m3u"), "refreshHours": 1}));
    let source = success(send(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    let target = format!("{SOURCES}/{}", source["id"]);
    let id = asked(&server, CHANNELS).await["channels"][0]["id"].clone();
    let channel = format!("{CHANNELS}/{id}");

    // Rights of an imported channel are attested with its list, never with the channel.
    let own = cleared(json!({}));
    for body in [
        json!({"source": {"url": "http://other.example/"}, "attestation": {"authorized": true}}),
        json!({"source": {"failoverUrls": ["http://other.example/"]}}),
        json!({"rights": {"recordingBasis": "because"}, "attestation": {"authorized": true}}),
        json!({"attestation": {"authorized": true}}),
        own.clone(),
    ] {
        let refusal = refused(send(&server, Method::PATCH, &channel, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], "source", "{body}");
    }
    let refusal = send(&server, Method::PATCH, &channel, &json!({"sourceType": "external"})).await;
    refused(refusal, 400, "VALIDATION_ERROR").await;

    success(send(&server, Method::PATCH, &target, &json!({"attestation": {"authorized": false}})).await, 200).await;
    is_closed(&server, &secret, &id, "RIGHTS_WITHDRAWN").await;
    let fetched = lists.asked().len();
    let ways = [
        (Method::PATCH, channel.clone(), json!({"enabled": true, "alwaysOn": true, "name": "Another"})),
        (Method::PATCH, channel.clone(), json!({"guide": {"xmltvId": "one"}})),
        (Method::PATCH, channel.clone(), json!({"attestation": {"authorized": true}})),
        (Method::PATCH, target.clone(), json!({"name": "Another", "refreshHours": 2})),
        (Method::PATCH, target.clone(), json!({"select": {"names": ["One"]}, "numberFrom": 500})),
        (Method::PATCH, target.clone(), json!({"url": lists.url("/other.m3u")})),
        (Method::PATCH, target.clone(), json!({"upload": LIST.replace("/1.ts", "/2.ts")})),
        (Method::PATCH, target.clone(), json!({"rights": {"statement": "Now I have got a contract with them."}})),
        (Method::PATCH, target.clone(), json!({"attestation": {}})),
        (Method::PATCH, target.clone(), json!({"attestation": null})),
        (Method::POST, format!("{target}/refresh"), json!({})),
    ];
    for (method, way, body) in ways {
        let answer = send(&server, method, &way, &body).await;
        let status = answer.status().as_u16();
        assert!(status < 500, "{way} {body}: {status}");
        is_closed(&server, &secret, &id, "RIGHTS_WITHDRAWN").await;
    }
    assert_eq!(lists.asked().len(), fetched, "a withdrawn list is not fetched");
    assert_eq!(server.service.channels.all().len(), 1);
    let again = json!({"attestation": {"authorized": true}, "url": lists.url("/l.m3u")});
    success(send(&server, Method::PATCH, &target, &again).await, 200).await;
    assert_ne!(server.get(&format!("/api/livetv/watch/{id}")).send().await.unwrap().status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_wins_every_race_that_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    antenna::film(&path, 60);
    let (antenna, server) = (Antenna::of(&path, 60).await, server(folder.path()).await);
    let secret = token(&server).await;
    let mut body = cleared(json!({"name": "E", "sourceType": "external", "source": {"url": antenna.url()}}));
    body["rights"]["recordingBasis"] = json!("My own pictures.");
    let id = success(send(&server, Method::POST, CHANNELS, &body).await, 201).await["channel"]["id"].clone();
    let target = format!("{CHANNELS}/{id}");
    let (yes, no) = (json!({"attestation": {"authorized": true}}), json!({"attestation": {"authorized": false}}));
    for round in 0..6u64 {
        success(send(&server, Method::PATCH, &target, &yes).await, 200).await;
        let span = json!({"channelId": id, "start": Timestamp::now().to_string(), "end": (Timestamp::now() + 1.hours()).to_string()});
        let playlist = format!("/api/livetv/watch/{id}/live.m3u8?watchSession=v");
        let begin = async {
            let answer = send(&server, Method::POST, RECORDINGS, &span).await;
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        };
        let end = async {
            // Before, during and after the creation of a recording.
            tokio::time::sleep(Duration::from_millis(round * round * 20)).await;
            success(send(&server, Method::PATCH, &target, &no).await, 200).await;
        };
        let renamed = async {
            for n in 0..10 {
                let body = json!({"name": format!("Name {n}"), "enabled": true});
                success(send(&server, Method::PATCH, &target, &body).await, 200).await;
            }
        };
        let (begun, (), (), _) = tokio::join!(begin, end, renamed, server.get(&playlist).send());
        is_closed(&server, &secret, &id, "RIGHTS_WITHDRAWN").await;
        let (status, told) = begun;
        assert!(status == 201 || status == 403, "{status} {told}");
        if status == 201 {
            let one = format!("{RECORDINGS}/{}", told["recording"]["id"].as_str().unwrap());
            let ended = until("the recording has failed", &async || {
                let seen = asked(&server, &one).await["recording"].clone();
                (seen["state"] == "failed").then_some(seen)
            })
            .await;
            assert_eq!(ended["failure"]["code"], "RIGHTS_WITHDRAWN");
            let size = ended["path"].as_str().map_or(0, |path| std::fs::metadata(path).unwrap().len());
            assert_eq!(size, ended["sizeBytes"].as_u64().unwrap_or(0), "{ended}");
        }
        until("the connection is closed", &async || (antenna.open() == 0).then_some(())).await;
    }
    let log = asked(&server, &format!("/api/livetv/audit?channel={id}&limit=100")).await;
    let withdrawn = log["entries"].as_array().unwrap().iter().filter(|line| line["action"] == "withdrawn").count();
    assert_eq!(withdrawn, 6, "{log:#}");
}

async fn until<T>(what: &str, so: &impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = so().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within 120 s: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server that answers each request with a list when permitted; returns its URL, its requests and the permits.
async fn slow() -> (String, Arc<Semaphore>, Arc<Semaphore>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/l.m3u", listener.local_addr().unwrap());
    let (came, may) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (asked, let_to) = (came.clone(), may.clone());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = socket.read(&mut head).await;
            asked.add_permits(1);
            let_to.acquire().await.unwrap().forget();
            let list = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{LIST}", LIST.len());
            let _ = socket.write_all(list.as_bytes()).await;
        }
    });
    (url, came, may)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_while_it_was_withdrawn_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let secret = token(&server).await;
    let (url, came, may) = slow().await;
    let body =
        cleared(json!({"kind": "m3u", "name": "L", "upload": "#EXTM3U\n#EXTINF:-1,Old\nhttp://tv.example/0.ts\n"}));
    let source = success(send(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    let target = format!("{SOURCES}/{}", source["id"]);
    let old = asked(&server, CHANNELS).await["channels"][0]["id"].clone();
    let no = json!({"attestation": {"authorized": false}});

    // The rights are withdrawn while a change still reads its list.
    let moved = json!({"url": url, "attestation": {"authorized": true}});
    let change = send(&server, Method::PATCH, &target, &moved);
    let withdraw = async {
        came.acquire().await.unwrap().forget();
        success(send(&server, Method::PATCH, &target, &no).await, 200).await;
        may.add_permits(1);
    };
    let (changed, ()) = tokio::join!(change, withdraw);
    refused(changed, 409, "CONFLICT").await;
    is_closed(&server, &secret, &old, "RIGHTS_WITHDRAWN").await;
    assert_eq!(server.service.channels.all().len(), 1, "the change has no effect");

    // The same during a scheduled refresh, and when the source is deleted meanwhile.
    let change = send(&server, Method::PATCH, &target, &moved);
    let (changed, ()) = tokio::join!(change, async { may.add_permits(1) });
    success(changed, 200).await;
    came.acquire().await.unwrap().forget();
    let before = server.service.channels.all().len();
    // The old channel is no longer in the list; another one is.
    let listed =
        server.service.channels.all().iter().find(|channel| channel.settings.enabled).map(|channel| json!(channel.id));
    let listed = listed.unwrap();
    assert_eq!(send(&server, Method::POST, &format!("{target}/refresh"), &json!({})).await.status(), 202);
    came.acquire().await.unwrap().forget();
    success(send(&server, Method::PATCH, &target, &no).await, 200).await;
    may.add_permits(1);
    let id = source["id"].as_u64().unwrap() as u32;
    until("the refresh is over", &async || (!server.service.sources.is_busy(id)).then_some(())).await;
    assert_eq!(server.service.channels.all().len(), before);
    is_closed(&server, &secret, &listed, "RIGHTS_WITHDRAWN").await;
    let yes = json!({"attestation": {"authorized": true}});
    success(send(&server, Method::PATCH, &target, &yes).await, 200).await;
    assert_eq!(send(&server, Method::POST, &format!("{target}/refresh"), &json!({})).await.status(), 202);
    came.acquire().await.unwrap().forget();
    success(send(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    may.add_permits(1);
    until("the refresh is over", &async || (!server.service.sources.is_busy(id)).then_some(())).await;
    assert!(server.service.channels.all().is_empty() && server.service.sources.all().is_empty());
}
