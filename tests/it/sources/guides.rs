//! Guides from elsewhere: read, shown with the channels they belong to, exported again.

use std::io::Write;

use jiff::{Timestamp, ToSpan};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, SOURCES, asked, cleared, send};
use crate::kit;
use crate::kit::answer::{refused, success};
use crate::kit::elsewhere::{Elsewhere, ok};

/// A guide of one channel: three hours, the second of them on now.
fn guide(id: &str, title: &str) -> String {
    let now: Timestamp = Timestamp::now();
    let at = |hours: i64| (now + hours.hours()).strftime("%Y%m%d%H0000 +0000").to_string();
    let programme = |n: i64| {
        format!(
            "<programme start=\"{}\" stop=\"{}\" channel=\"{id}\"><title>{title} {n}</title><sub-title>A &amp; B</sub-title>\
             <desc>&lt;b&gt;</desc><category>Film</category><episode-num system=\"onscreen\">S02E0{n}</episode-num></programme>",
            at(n - 2),
            at(n - 1)
        )
    };
    let all: String = (1..4).map(programme).collect();
    format!("<?xml version=\"1.0\"?><tv><channel id=\"{id}\"><display-name>One</display-name></channel>{all}</tv>")
}

fn own(body: &Value) -> Value {
    let mut body = cleared(body.clone());
    for field in ["rights", "attestation"] {
        body.as_object_mut().unwrap().remove(field);
    }
    body
}

#[tokio::test]
async fn programmes_are_shown_with_the_channels_they_belong_to() {
    let server = kit::server(&[]).await;
    let list = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://tv.example/1\n#EXTINF:-1 tvg-id=\"other\",Two\nhttp://tv.example/2\n";
    success(
        send(&server, Method::POST, SOURCES, &cleared(json!({"kind": "m3u", "name": "L", "upload": list}))).await,
        201,
    )
    .await;
    let all = asked(&server, CHANNELS).await["channels"].clone();
    let (one, two) = (all[0]["id"].clone(), all[1]["id"].clone());
    assert_eq!(asked(&server, "/api/livetv/epg").await["entries"], json!([]));

    // Of a guide it is enough to say where it comes from.
    let body = json!({"kind": "xmltv", "name": "G", "upload": guide("one", "Show")});
    let refusal = refused(send(&server, Method::POST, SOURCES, &body).await, 422, "RIGHTS_BASIS_REQUIRED").await;
    assert_eq!(refusal["details"]["missing"].as_array().unwrap().len(), 3);
    let made = success(send(&server, Method::POST, SOURCES, &own(&body)).await, 201).await["source"].clone();
    assert_eq!(made["counts"], json!({"entries": 1, "channels": 1, "programmes": 3, "skipped": 0}));
    assert_eq!((&made["rights"], &made["provenance"]["sourceName"]), (&Value::Null, &json!("Own antenna")));

    let entries = asked(&server, "/api/livetv/epg").await["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 3, "{entries:#}");
    let on = &entries[1];
    assert_eq!((&on["title"], &on["subtitle"], &on["description"]), (&json!("Show 2"), &json!("A & B"), &json!("<b>")));
    assert_eq!((&on["season"], &on["episode"], &on["categories"]), (&json!(2), &json!(2), &json!(["Film"])));
    assert_eq!((&on["channelId"], &on["isLive"], &on["isFiller"]), (&one, &json!(true), &json!(false)));
    let listed = asked(&server, CHANNELS).await["channels"][0].clone();
    assert_eq!((&listed["now"]["title"], &listed["next"]["title"]), (&json!("Show 2"), &json!("Show 3")));
    let now = asked(&server, &format!("/api/livetv/now?channelId={one}")).await;
    assert_eq!((&now["current"]["entry"]["id"], &now["next"]["title"]), (&on["id"], &json!("Show 3")));

    let answer = server.get("/api/livetv/xmltv").send().await.unwrap();
    let etag = answer.headers()["etag"].clone();
    let text = answer.text().await.unwrap();
    assert_eq!(text.matches("<programme ").count(), 3, "{text}");
    assert!(text.contains("<title>Show 2</title><sub-title>A &amp; B</sub-title><desc>&lt;b&gt;</desc><category>Film</category><episode-num system=\"onscreen\">S02E02</episode-num><episode-num system=\"xmltv_ns\">1.1.</episode-num></programme>"), "{text}");

    // By hand: the other channel shows the same, whatever its list says.
    let target = format!("{CHANNELS}/{two}");
    let mapped = json!({"guide": {"xmltvId": "one", "xmltvSourceId": made["id"]}});
    let mapped = success(send(&server, Method::PATCH, &target, &mapped).await, 200).await["channel"].clone();
    assert_eq!((&mapped["now"]["title"], &mapped["xmltvId"]), (&json!("Show 2"), &json!("one")));
    assert_eq!(asked(&server, "/api/livetv/epg").await["entries"].as_array().unwrap().len(), 6);
    success(send(&server, Method::PATCH, &target, &json!({"guide": {"xmltvId": null}})).await, 200).await;

    // Another guide takes its place; what players have kept is known to be old.
    let target = format!("{SOURCES}/{}", made["id"]);
    let body = json!({"upload": guide("one", "News")});
    success(send(&server, Method::PATCH, &target, &body).await, 200).await;
    let answer = server.get("/api/livetv/xmltv").header("if-none-match", etag).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.text().await.unwrap().contains("News 2"));
    assert_eq!(asked(&server, CHANNELS).await["channels"][0]["now"]["title"], "News 2");
    success(send(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert_eq!(asked(&server, "/api/livetv/epg").await["entries"], json!([]));
}

#[tokio::test]
async fn a_guide_is_fetched_packed_and_a_bad_one_is_refused_by_name() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(guide("one", "Show").as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let elsewhere = Elsewhere::serve("127.0.0.1", move |path| match path {
        "/guide.xml.gz" => ok("application/gzip", &packed),
        _ => ok("text/html", "<html>sign in</html>"),
    })
    .await;
    let server = kit::server_with(&[], |config| config.allowed_sources = vec!["127.0.0.1".into()]).await;
    let body = own(&json!({"kind": "xmltv", "name": "G", "url": elsewhere.url("/guide.xml.gz"), "refreshHours": 6}));
    let made = success(send(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    assert_eq!((&made["counts"]["programmes"], &made["refreshHours"]), (&json!(3), &json!(6)));
    let seen = success(send(&server, Method::POST, "/api/livetv/sources/preview", &body).await, 200).await;
    assert_eq!(seen["counts"], made["counts"]);
    let body = own(&json!({"kind": "xmltv", "name": "G", "url": elsewhere.url("/page")}));
    let refusal = refused(send(&server, Method::POST, SOURCES, &body).await, 400, "VALIDATION_ERROR").await;
    assert!(refusal["error"].as_str().unwrap().contains("is no XMLTV"), "{refusal}");
    let wrong = json!({"guide": {"xmltvId": ""}});
    let channel = cleared(json!({"name": "E", "sourceType": "external", "source": {"url": "http://tv.example/"}}));
    let id = success(send(&server, Method::POST, CHANNELS, &channel).await, 201).await["channel"]["id"].clone();
    refused(send(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &wrong).await, 400, "VALIDATION_ERROR").await;
    let mapped = json!({"guide": {"xmltvId": "one"}});
    let mapped = success(send(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &mapped).await, 200).await;
    assert_eq!(mapped["channel"]["now"]["title"], "Show 2");
}

#[tokio::test]
async fn every_list_and_guide_of_the_corpus_is_taken() {
    let Ok(corpus) = std::env::var("HEARTHCAST_CORPUS") else {
        eprintln!("skipped: HEARTHCAST_CORPUS is not set");
        return;
    };
    let server = kit::server(&[]).await;
    let mut files: Vec<_> =
        std::fs::read_dir(format!("{corpus}/iptv")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut seen = 0;
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = if name.contains(".m3u") { "m3u" } else { "xmltv" };
        if name.ends_with(".dtd") {
            continue;
        }
        let mut form = String::new();
        for (field, value) in cleared(json!({"kind": kind, "name": name})).as_object().unwrap() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form += &format!("--x\r\ncontent-disposition: form-data; name=\"{field}\"\r\n\r\n{text}\r\n");
        }
        form += "--x\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"f\"\r\n\r\n";
        let form = [form.as_bytes(), &std::fs::read(&file).unwrap(), b"\r\n--x--\r\n"].concat();
        let request = server.ask(Method::POST, SOURCES).bearer_auth(&server.admin);
        let answer = request.header("content-type", "multipart/form-data; boundary=x").body(form).send().await.unwrap();
        let source = success(answer, 201).await["source"].clone();
        println!("{name}: {}", source["counts"]);
        let counts = |field: &str| source["counts"][field].as_u64().unwrap();
        match kind {
            "m3u" => assert!(counts("channels") > 0, "{source}"),
            _ => assert!(counts("programmes") > 0 || name == "xmltv-empty.xml", "{source}"),
        }
        seen += 1;
    }
    assert!(seen > 10);
}
