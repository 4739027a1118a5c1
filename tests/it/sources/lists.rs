//! Channel lists: uploaded or fetched, previewed, filtered, and refreshed without changing channel ids.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, SOURCES, get_as_admin, send_as_admin, upload, with_rights};
use crate::kit::remote_server::{RemoteServer, ok, redirect};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

const LIST: &str = "#EXTM3U url-tvg=\"https://epg.example/guide.xml.gz\"\n\
    #EXTINF:-1 tvg-id=\"one\" tvg-chno=\"7\" group-title=\"News;World\",One\nhttp://ada:hunter2@tv.example/hunter2/1.m3u8\n\
    #EXTINF:-1 tvg-id=\"two\" tvg-chno=\"7\" group-title=\"Films\",Two\nhttp://tv.example/2.ts?token=hunter2\n\
    #EXTINF:-1,Three\nudp://@239.0.0.1:1234\n\
    #EXTINF:-1,Four\nhttp://tv.example/4.ts\n";

fn upload_body(text: &str) -> Value {
    with_rights(json!({"kind": "m3u", "name": "A list", "upload": text}))
}

/// Ids of all channels, by name.
async fn ids_by_name(server: &Server) -> BTreeMap<String, u64> {
    let all = get_as_admin(server, CHANNELS).await;
    let named = |channel: &Value| (channel["name"].as_str().unwrap().to_owned(), channel["id"].as_u64().unwrap());
    all["channels"].as_array().unwrap().iter().map(named).collect()
}

#[tokio::test]
async fn a_list_becomes_channels_with_reasons_for_skipped_entries() {
    let server = kit::start_server(&[]).await;
    for (field, missing) in
        [("rights", "rights.basis"), ("provenance", "provenance.sourceName"), ("attestation", "attestation.authorized")]
    {
        let mut body = upload_body(LIST);
        body.as_object_mut().unwrap().remove(field);
        let refusal =
            expect_error(send_as_admin(&server, Method::POST, SOURCES, &body).await, 422, "RIGHTS_BASIS_REQUIRED")
                .await;
        assert_eq!(refusal["details"]["missing"][0], missing);
    }
    expect_error(server.post(SOURCES, &upload_body(LIST)).send().await.unwrap(), 403, "FORBIDDEN").await;
    let mut preview = json!({"kind": "m3u", "upload": LIST, "numberFrom": 50});
    let preview_response =
        expect_success(send_as_admin(&server, Method::POST, "/api/livetv/sources/preview", &preview).await, 200).await;
    assert_eq!(preview_response["counts"], json!({"entries": 4, "channels": 3, "programmes": 0, "skipped": 1}));
    assert_eq!(
        (&preview_response["channels"][2]["name"], &preview_response["channels"][2]["number"]),
        (&json!("Four"), &json!(52))
    );
    assert_eq!(
        (&preview_response["channels"][0]["tvgId"], &preview_response["channels"][0]["groups"]),
        (&json!("one"), &json!(["News", "World"]))
    );
    let reason = "its address begins with udp://: only http, https, srt and rtsp are fetched";
    assert_eq!(preview_response["skipped"], json!([{"line": 7, "name": "Three", "reason": reason}]));
    preview["select"] = json!({"groups": ["films"], "names": ["four"]});
    let filtered =
        expect_success(send_as_admin(&server, Method::POST, "/api/livetv/sources/preview", &preview).await, 200).await;
    assert_eq!(
        (&filtered["counts"]["channels"], &filtered["skipped"][1]["reason"]),
        (&json!(2), &json!("is not selected"))
    );
    assert!(ids_by_name(&server).await.is_empty(), "a preview stores nothing");

    let answer = send_as_admin(&server, Method::POST, SOURCES, &upload_body(LIST)).await;
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let source = expect_success(answer, 201).await["source"].clone();
    assert_eq!(
        (&source["state"], &source["counts"]["channels"], &source["url"]),
        (&json!("ready"), &json!(3), &Value::Null)
    );
    assert_eq!((&source["kind"], &source["attestation"]["by"]), (&json!("m3u"), &json!("operator")));
    assert_eq!(get_as_admin(&server, &location).await["source"]["skipped"][0]["name"], "Three");
    let all = get_as_admin(&server, CHANNELS).await["channels"].clone();
    let listed: Vec<_> =
        all.as_array().unwrap().iter().map(|one| (one["number"].clone(), one["name"].clone())).collect();
    // The entry "Two" has the same number.
    assert_eq!(listed, [(json!(1), json!("Two")), (json!(2), json!("Four")), (json!(7), json!("One"))]);
    assert_eq!((&all[2]["sourceType"], &all[2]["category"]), (&json!("m3u-import"), &json!("News")));
    assert_eq!(all[2]["provenance"]["sourceName"], "Own antenna");
    let one = get_as_admin(&server, &format!("{CHANNELS}/{}", all[2]["id"])).await["channel"].clone();
    assert_eq!((&one["sourceId"], &one["source"]["url"]), (&source["id"], &json!("http://tv.example/…")));
    for target in [CHANNELS, SOURCES, &location, "/api/livetv/m3u"] {
        let text =
            server.request(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap().text().await.unwrap();
        assert!(!text.contains("hunter2"), "{target}: {text}");
    }
    // Rights and stream URL of an imported channel belong to its source.
    for body in [json!({"source": {"url": "http://other.example/"}}), json!({"attestation": {"authorized": true}})] {
        let target = format!("{CHANNELS}/{}", one["id"]);
        expect_error(send_as_admin(&server, Method::PATCH, &target, &body).await, 400, "VALIDATION_ERROR").await;
    }
}

#[tokio::test]
async fn invalid_lists_are_refused_with_their_field() {
    let server = kit::start_server_with(&[], |config| config.allowed_sources = vec!["127.0.0.1".into()]).await;
    let remote = RemoteServer::serve("127.0.0.1", |path| match path {
        "/page" => ok("text/html", "<html>please sign in</html>"),
        "/away" => redirect("http://10.0.0.1/hunter2"),
        "/large" => b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
    })
    .await;
    for (path, expected_reason) in
        [("/page", "page"), ("/away", "blocked address"), ("/large", "more than"), ("/none?p=hunter2", "404")]
    {
        let mut body = with_rights(json!({"kind": "m3u", "name": "A", "url": remote.url(path)}));
        for target in [SOURCES, "/api/livetv/sources/preview"] {
            let refusal =
                expect_error(send_as_admin(&server, Method::POST, target, &body).await, 400, "VALIDATION_ERROR").await;
            assert!(
                refusal["error"].as_str().unwrap().contains(expected_reason)
                    && !refusal.to_string().contains("hunter2"),
                "{refusal}"
            );
        }
        body["url"] = json!("http://[::1]/list.m3u");
        expect_error(send_as_admin(&server, Method::POST, SOURCES, &body).await, 400, "VALIDATION_ERROR").await;
    }
    for (body, field) in [
        (with_rights(json!({"kind": "m3u", "name": "A"})), "url"),
        (with_rights(json!({"kind": "m3u", "name": "A", "upload": LIST, "url": "http://a.example/"})), "upload"),
        (with_rights(json!({"kind": "m3u", "upload": LIST})), "name"),
        (with_rights(json!({"kind": "m3u", "name": "", "upload": LIST})), "name"),
        (with_rights(json!({"name": "A", "upload": LIST})), "kind"),
        (with_rights(json!({"kind": "pls", "name": "A", "upload": LIST})), "kind"),
        (with_rights(json!({"kind": "m3u", "name": "A", "upload": LIST, "refreshHours": 0})), "refreshHours"),
        (with_rights(json!({"kind": "m3u", "name": "A", "upload": LIST, "numberFrom": 100_000})), "numberFrom"),
        (with_rights(json!({"kind": "m3u", "name": "A", "url": "file:///etc/passwd"})), "url"),
        (with_rights(json!({"kind": "m3u", "name": "A", "upload": ""})), "upload"),
    ] {
        let refusal =
            expect_error(send_as_admin(&server, Method::POST, SOURCES, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{refusal}");
    }
    assert_eq!(get_as_admin(&server, SOURCES).await, json!({"sources": []}));
    for method in [Method::GET, Method::DELETE] {
        expect_error(send_as_admin(&server, method, &format!("{SOURCES}/9"), &json!({})).await, 404, "NOT_FOUND").await;
    }
}

/// Requests a refresh and waits for its end.
async fn refresh(server: &Server, target: &str) -> Value {
    expect_success(send_as_admin(server, Method::POST, &format!("{target}/refresh"), &json!({})).await, 202).await;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let source = get_as_admin(server, target).await["source"].clone();
        if source["state"] != "refreshing" {
            return source;
        }
        assert!(Instant::now() < deadline, "{source}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn channels_keep_their_ids_through_every_refresh() {
    let current_list = Arc::new(Mutex::new(LIST.to_owned()));
    let served_list = current_list.clone();
    let remote =
        RemoteServer::serve("127.0.0.1", move |_| ok("audio/x-mpegurl", served_list.lock().unwrap().as_str())).await;
    let server = kit::start_server_with(&[], |config| config.allowed_sources = vec!["127.0.0.1".into()]).await;
    let url = remote.url("/get.php?password=hunter2");
    let body = with_rights(json!({"kind": "m3u", "name": "A", "url": url, "refreshHours": 12, "numberFrom": 100}));
    let source =
        expect_success(send_as_admin(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    assert_eq!(source["url"], format!("http://{}/…", remote.address));
    let target = format!("{SOURCES}/{}", source["id"]);
    let first = ids_by_name(&server).await;
    let four = format!("{CHANNELS}/{}", first["Four"]);
    expect_success(send_as_admin(&server, Method::PATCH, &four, &json!({"name": "My four", "number": 4})).await, 200)
        .await;

    // Reordered, renamed, with new tokens, and one new channel.
    *current_list.lock().unwrap() =
        "#EXTM3U\n#EXTINF:-1,New\nhttp://tv.example/new\n#EXTINF:-1,Four HD\nhttp://tv.example/4.ts\n\
        #EXTINF:-1 tvg-id=\"two\",Two HD\nhttp://tv.example/2.ts?token=other\n\
        #EXTINF:-1 tvg-id=\"one\",One\nhttp://moved.example/1.m3u8\n"
            .to_owned();
    assert_eq!(refresh(&server, &target).await["counts"]["channels"], 4);
    let second = ids_by_name(&server).await;
    assert_eq!((second["One"], second["Two HD"], second["My four"]), (first["One"], first["Two"], first["Four"]));
    assert_eq!(get_as_admin(&server, &four).await["channel"]["number"], 4, "manual changes stay");

    // A channel missing from the list is disabled until it comes back.
    *current_list.lock().unwrap() = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://moved.example/1.m3u8\n".to_owned();
    refresh(&server, &target).await;
    assert_eq!(get_as_admin(&server, &four).await["channel"]["enabled"], false);
    *current_list.lock().unwrap() = LIST.to_owned();
    refresh(&server, &target).await;
    let third = ids_by_name(&server).await;
    assert_eq!((third["One"], third["Two"], third["My four"]), (first["One"], first["Two"], first["Four"]));
    assert_eq!(get_as_admin(&server, &four).await["channel"]["enabled"], true);
    assert_eq!(get_as_admin(&server, &format!("{CHANNELS}/{}", second["New"])).await["channel"]["enabled"], false);

    // A failed refresh changes nothing and reports its reason.
    *current_list.lock().unwrap() = "<html>down for maintenance</html>".to_owned();
    let failed = refresh(&server, &target).await;
    assert_eq!((&failed["state"], ids_by_name(&server).await == third), (&json!("failed"), true));
    assert!(failed["error"].as_str().unwrap().contains("page"), "{failed}");

    // After a withdrawal, nothing is shown or fetched.
    let watch = format!("/api/livetv/watch/{}/live.m3u8", third["One"]);
    let body = json!({"attestation": {"authorized": false}});
    let withdrawn = expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    assert_eq!(withdrawn["source"]["state"], "withdrawn");
    expect_error(server.get(&watch).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    expect_error(
        send_as_admin(&server, Method::POST, &format!("{target}/refresh"), &json!({})).await,
        403,
        "RIGHTS_WITHDRAWN",
    )
    .await;
    let count = remote.request_heads().len();
    let body = json!({"url": remote.url("/other"), "select": {"names": ["One"]}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    assert_eq!(remote.request_heads().len(), count);
    *current_list.lock().unwrap() = LIST.to_owned();
    expect_success(
        send_as_admin(&server, Method::PATCH, &target, &json!({"attestation": {"authorized": true}, "select": null}))
            .await,
        200,
    )
    .await;
    let refusal = expect_error(
        send_as_admin(&server, Method::PATCH, &target, &json!({"url": remote.url("/third")})).await,
        422,
        "RIGHTS_BASIS_REQUIRED",
    )
    .await;
    assert_eq!(refusal["details"]["missing"], json!(["attestation.authorized"]));

    expect_success(send_as_admin(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert!(ids_by_name(&server).await.is_empty(), "channels are deleted with their source");
    let log = get_as_admin(&server, &format!("/api/livetv/audit?source={}", source["id"])).await;
    let actions: Vec<&str> =
        log["entries"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["attested", "withdrawn", "changed", "attested", "removed"], "{log:#}");
}

#[tokio::test]
async fn a_list_with_thousands_of_channels_can_be_uploaded_as_a_form() {
    let server = kit::start_server(&[]).await;
    let entries: String = (0..6000)
        .map(|n| {
            format!(
                "#EXTINF:-1 tvg-id=\"c{n}\" group-title=\"G{}\",Channel {n}\r\nhttp://tv.example/{n}.ts\r\n",
                n % 40
            )
        })
        .collect();
    let fields = with_rights(json!({"kind": "m3u", "name": "Many"}));
    let answer = upload(&server, Method::POST, SOURCES, &fields, format!("#EXTM3U\r\n{entries}").as_bytes()).await;
    let source = expect_success(answer, 201).await["source"].clone();
    assert_eq!(source["counts"], json!({"entries": 6000, "channels": 6000, "programmes": 0, "skipped": 0}));
    assert_eq!(server.service.channels.all().len(), 6000);
    expect_success(
        send_as_admin(&server, Method::DELETE, &format!("{SOURCES}/{}", source["id"]), &json!({})).await,
        200,
    )
    .await;
    assert!(server.service.channels.all().is_empty());
    for (kind, body) in [("multipart/form-data", "x"), ("multipart/form-data; boundary=x", "--x\r\nbroken")] {
        let request = server.request(Method::POST, SOURCES).bearer_auth(&server.admin).header("content-type", kind);
        expect_error(request.body(body).send().await.unwrap(), 400, "BAD_REQUEST").await;
    }
}
