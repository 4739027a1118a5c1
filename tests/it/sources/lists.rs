//! Channel lists: uploaded or fetched, previewed, filtered, and refreshed without changing channel ids.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, SOURCES, asked, cleared, send, upload};
use crate::kit::answer::{refused, success};
use crate::kit::elsewhere::{Elsewhere, moved, ok};
use crate::kit::{self, Server};

const LIST: &str = "#EXTM3U url-tvg=\"https://epg.example/guide.xml.gz\"\n\
    #EXTINF:-1 tvg-id=\"one\" tvg-chno=\"7\" group-title=\"News;World\",One\nhttp://ada:hunter2@tv.example/hunter2/1.m3u8\n\
    #EXTINF:-1 tvg-id=\"two\" tvg-chno=\"7\" group-title=\"Films\",Two\nhttp://tv.example/2.ts?token=hunter2\n\
    #EXTINF:-1,Three\nudp://@239.0.0.1:1234\n\
    #EXTINF:-1,Four\nhttp://tv.example/4.ts\n";

fn list(text: &str) -> Value {
    cleared(json!({"kind": "m3u", "name": "A list", "upload": text}))
}

/// Ids of all channels, by name.
async fn ids(server: &Server) -> BTreeMap<String, u64> {
    let all = asked(server, CHANNELS).await;
    let named = |channel: &Value| (channel["name"].as_str().unwrap().to_owned(), channel["id"].as_u64().unwrap());
    all["channels"].as_array().unwrap().iter().map(named).collect()
}

#[tokio::test]
async fn a_list_becomes_channels_with_a_reason_for_what_does_not() {
    let server = kit::server(&[]).await;
    for (take, missing) in
        [("rights", "rights.basis"), ("provenance", "provenance.sourceName"), ("attestation", "attestation.authorized")]
    {
        let mut body = list(LIST);
        body.as_object_mut().unwrap().remove(take);
        let refusal = refused(send(&server, Method::POST, SOURCES, &body).await, 422, "RIGHTS_BASIS_REQUIRED").await;
        assert_eq!(refusal["details"]["missing"][0], missing);
    }
    refused(server.post(SOURCES, &list(LIST)).send().await.unwrap(), 403, "FORBIDDEN").await;
    let mut preview = json!({"kind": "m3u", "upload": LIST, "numberFrom": 50});
    let seen = success(send(&server, Method::POST, "/api/livetv/sources/preview", &preview).await, 200).await;
    assert_eq!(seen["counts"], json!({"entries": 4, "channels": 3, "programmes": 0, "skipped": 1}));
    assert_eq!((&seen["channels"][2]["name"], &seen["channels"][2]["number"]), (&json!("Four"), &json!(52)));
    assert_eq!(
        (&seen["channels"][0]["tvgId"], &seen["channels"][0]["groups"]),
        (&json!("one"), &json!(["News", "World"]))
    );
    let reason = "its address begins with udp://: only http, https, srt and rtsp are fetched";
    assert_eq!(seen["skipped"], json!([{"line": 7, "name": "Three", "reason": reason}]));
    preview["select"] = json!({"groups": ["films"], "names": ["four"]});
    let seen = success(send(&server, Method::POST, "/api/livetv/sources/preview", &preview).await, 200).await;
    assert_eq!((&seen["counts"]["channels"], &seen["skipped"][1]["reason"]), (&json!(2), &json!("is not selected")));
    assert!(ids(&server).await.is_empty(), "a preview stores nothing");

    let answer = send(&server, Method::POST, SOURCES, &list(LIST)).await;
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let made = success(answer, 201).await["source"].clone();
    assert_eq!((&made["state"], &made["counts"]["channels"], &made["url"]), (&json!("ready"), &json!(3), &Value::Null));
    assert_eq!((&made["kind"], &made["attestation"]["by"]), (&json!("m3u"), &json!("keeper")));
    assert_eq!(asked(&server, &location).await["source"]["skipped"][0]["name"], "Three");
    let all = asked(&server, CHANNELS).await["channels"].clone();
    let told: Vec<_> = all.as_array().unwrap().iter().map(|one| (one["number"].clone(), one["name"].clone())).collect();
    // The entry "Two" has the same number.
    assert_eq!(told, [(json!(1), json!("Two")), (json!(2), json!("Four")), (json!(7), json!("One"))]);
    assert_eq!((&all[2]["sourceType"], &all[2]["category"]), (&json!("m3u-import"), &json!("News")));
    assert_eq!(all[2]["provenance"]["sourceName"], "Own antenna");
    let one = asked(&server, &format!("{CHANNELS}/{}", all[2]["id"])).await["channel"].clone();
    assert_eq!((&one["sourceId"], &one["source"]["url"]), (&made["id"], &json!("http://tv.example/…")));
    for target in [CHANNELS, SOURCES, &location, "/api/livetv/m3u"] {
        let text =
            server.ask(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap().text().await.unwrap();
        assert!(!text.contains("hunter2"), "{target}: {text}");
    }
    // Rights and stream URL of an imported channel belong to its source.
    for body in [json!({"source": {"url": "http://other.example/"}}), json!({"attestation": {"authorized": true}})] {
        let target = format!("{CHANNELS}/{}", one["id"]);
        refused(send(&server, Method::PATCH, &target, &body).await, 400, "VALIDATION_ERROR").await;
    }
}

#[tokio::test]
async fn what_is_no_list_is_refused_by_name() {
    let server = kit::server_with(&[], |config| config.allowed_sources = vec!["127.0.0.1".into()]).await;
    let server_elsewhere = Elsewhere::serve("127.0.0.1", |path| match path {
        "/page" => ok("text/html", "<html>please sign in</html>"),
        "/away" => moved("http://10.0.0.1/hunter2"),
        "/large" => b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
    })
    .await;
    for (path, why) in
        [("/page", "page"), ("/away", "blocked address"), ("/large", "more than"), ("/none?p=hunter2", "404")]
    {
        let mut body = cleared(json!({"kind": "m3u", "name": "A", "url": server_elsewhere.url(path)}));
        for target in [SOURCES, "/api/livetv/sources/preview"] {
            let refusal = refused(send(&server, Method::POST, target, &body).await, 400, "VALIDATION_ERROR").await;
            assert!(
                refusal["error"].as_str().unwrap().contains(why) && !refusal.to_string().contains("hunter2"),
                "{refusal}"
            );
        }
        body["url"] = json!("http://[::1]/list.m3u");
        refused(send(&server, Method::POST, SOURCES, &body).await, 400, "VALIDATION_ERROR").await;
    }
    for (body, field) in [
        (cleared(json!({"kind": "m3u", "name": "A"})), "url"),
        (cleared(json!({"kind": "m3u", "name": "A", "upload": LIST, "url": "http://a.example/"})), "upload"),
        (cleared(json!({"kind": "m3u", "upload": LIST})), "name"),
        (cleared(json!({"kind": "m3u", "name": "", "upload": LIST})), "name"),
        (cleared(json!({"name": "A", "upload": LIST})), "kind"),
        (cleared(json!({"kind": "pls", "name": "A", "upload": LIST})), "kind"),
        (cleared(json!({"kind": "m3u", "name": "A", "upload": LIST, "refreshHours": 0})), "refreshHours"),
        (cleared(json!({"kind": "m3u", "name": "A", "upload": LIST, "numberFrom": 100_000})), "numberFrom"),
        (cleared(json!({"kind": "m3u", "name": "A", "url": "file:///etc/passwd"})), "url"),
        (cleared(json!({"kind": "m3u", "name": "A", "upload": ""})), "upload"),
    ] {
        let refusal = refused(send(&server, Method::POST, SOURCES, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{refusal}");
    }
    assert_eq!(asked(&server, SOURCES).await, json!({"sources": []}));
    for method in [Method::GET, Method::DELETE] {
        refused(send(&server, method, &format!("{SOURCES}/9"), &json!({})).await, 404, "NOT_FOUND").await;
    }
}

/// Requests a refresh and waits for its end.
async fn again(server: &Server, target: &str) -> Value {
    success(send(server, Method::POST, &format!("{target}/refresh"), &json!({})).await, 202).await;
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let source = asked(server, target).await["source"].clone();
        if source["state"] != "refreshing" {
            return source;
        }
        assert!(Instant::now() < until, "{source}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn channels_keep_their_ids_through_every_reading() {
    let now = Arc::new(Mutex::new(LIST.to_owned()));
    let said = now.clone();
    let list_elsewhere =
        Elsewhere::serve("127.0.0.1", move |_| ok("audio/x-mpegurl", said.lock().unwrap().as_str())).await;
    let server = kit::server_with(&[], |config| config.allowed_sources = vec!["127.0.0.1".into()]).await;
    let url = list_elsewhere.url("/get.php?password=hunter2");
    let body = cleared(json!({"kind": "m3u", "name": "A", "url": url, "refreshHours": 12, "numberFrom": 100}));
    let made = success(send(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    assert_eq!(made["url"], format!("http://{}/…", list_elsewhere.address));
    let target = format!("{SOURCES}/{}", made["id"]);
    let first = ids(&server).await;
    let four = format!("{CHANNELS}/{}", first["Four"]);
    success(send(&server, Method::PATCH, &four, &json!({"name": "My four", "number": 4})).await, 200).await;

    // Reordered, renamed, with new tokens, and one new channel.
    *now.lock().unwrap() =
        "#EXTM3U\n#EXTINF:-1,New\nhttp://tv.example/new\n#EXTINF:-1,Four HD\nhttp://tv.example/4.ts\n\
        #EXTINF:-1 tvg-id=\"two\",Two HD\nhttp://tv.example/2.ts?token=other\n\
        #EXTINF:-1 tvg-id=\"one\",One\nhttp://elsewhere.example/1.m3u8\n"
            .to_owned();
    assert_eq!(again(&server, &target).await["counts"]["channels"], 4);
    let second = ids(&server).await;
    assert_eq!((second["One"], second["Two HD"], second["My four"]), (first["One"], first["Two"], first["Four"]));
    assert_eq!(asked(&server, &four).await["channel"]["number"], 4, "manual changes stay");

    // A channel missing from the list is disabled until it comes back.
    *now.lock().unwrap() = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://elsewhere.example/1.m3u8\n".to_owned();
    again(&server, &target).await;
    assert_eq!(asked(&server, &four).await["channel"]["enabled"], false);
    *now.lock().unwrap() = LIST.to_owned();
    again(&server, &target).await;
    let third = ids(&server).await;
    assert_eq!((third["One"], third["Two"], third["My four"]), (first["One"], first["Two"], first["Four"]));
    assert_eq!(asked(&server, &four).await["channel"]["enabled"], true);
    assert_eq!(asked(&server, &format!("{CHANNELS}/{}", second["New"])).await["channel"]["enabled"], false);

    // A failed refresh changes nothing and reports its reason.
    *now.lock().unwrap() = "<html>down for maintenance</html>".to_owned();
    let failed = again(&server, &target).await;
    assert_eq!((&failed["state"], ids(&server).await == third), (&json!("failed"), true));
    assert!(failed["error"].as_str().unwrap().contains("page"), "{failed}");

    // After a withdrawal, nothing is shown or fetched.
    let watch = format!("/api/livetv/watch/{}/live.m3u8", third["One"]);
    let body = json!({"attestation": {"authorized": false}});
    let gone = success(send(&server, Method::PATCH, &target, &body).await, 200).await;
    assert_eq!(gone["source"]["state"], "withdrawn");
    refused(server.get(&watch).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    refused(send(&server, Method::POST, &format!("{target}/refresh"), &json!({})).await, 403, "RIGHTS_WITHDRAWN").await;
    let count = list_elsewhere.asked().len();
    let body = json!({"url": list_elsewhere.url("/other"), "select": {"names": ["One"]}});
    success(send(&server, Method::PATCH, &target, &body).await, 200).await;
    assert_eq!(list_elsewhere.asked().len(), count);
    *now.lock().unwrap() = LIST.to_owned();
    success(
        send(&server, Method::PATCH, &target, &json!({"attestation": {"authorized": true}, "select": null})).await,
        200,
    )
    .await;
    let refusal = refused(
        send(&server, Method::PATCH, &target, &json!({"url": list_elsewhere.url("/third")})).await,
        422,
        "RIGHTS_BASIS_REQUIRED",
    )
    .await;
    assert_eq!(refusal["details"]["missing"], json!(["attestation.authorized"]));

    success(send(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert!(ids(&server).await.is_empty(), "channels are deleted with their source");
    let log = asked(&server, &format!("/api/livetv/audit?source={}", made["id"])).await;
    let told: Vec<&str> =
        log["entries"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(told, ["attested", "withdrawn", "changed", "attested", "removed"], "{log:#}");
}

#[tokio::test]
async fn a_file_is_uploaded_as_a_form_and_thousands_are_taken_at_once() {
    let server = kit::server(&[]).await;
    let many: String = (0..6000)
        .map(|n| {
            format!(
                "#EXTINF:-1 tvg-id=\"c{n}\" group-title=\"G{}\",Channel {n}\r\nhttp://tv.example/{n}.ts\r\n",
                n % 40
            )
        })
        .collect();
    let fields = cleared(json!({"kind": "m3u", "name": "Many"}));
    let answer = upload(&server, Method::POST, SOURCES, &fields, format!("#EXTM3U\r\n{many}").as_bytes()).await;
    let made = success(answer, 201).await["source"].clone();
    assert_eq!(made["counts"], json!({"entries": 6000, "channels": 6000, "programmes": 0, "skipped": 0}));
    assert_eq!(server.service.channels.all().len(), 6000);
    success(send(&server, Method::DELETE, &format!("{SOURCES}/{}", made["id"]), &json!({})).await, 200).await;
    assert!(server.service.channels.all().is_empty());
    for (kind, body) in [("multipart/form-data", "x"), ("multipart/form-data; boundary=x", "--x\r\nbroken")] {
        let request = server.ask(Method::POST, SOURCES).bearer_auth(&server.admin).header("content-type", kind);
        refused(request.body(body).send().await.unwrap(), 400, "BAD_REQUEST").await;
    }
}
