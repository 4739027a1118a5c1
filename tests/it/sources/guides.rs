//! Imported guides: parsed, shown with their channels, exported again.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use hearthcast::domain::rights::RightsClaim;
use hearthcast::domain::source::SourceKind;
use hearthcast::service::Service;
use hearthcast::service::sources::SourceChange;
use jiff::{Timestamp, ToSpan};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, SOURCES, asked, cleared, send, upload};
use crate::kit::answer::{refused, success};
use crate::kit::elsewhere::{Elsewhere, ok};
use crate::kit::program::Program;
use crate::kit::{self, xmltv};

/// A guide of one channel with three programmes of an hour; the second is on now.
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

    // A guide needs provenance only.
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
    let tv = xmltv::read(&text);
    assert_eq!(tv.all("programme").count(), 3, "{text}");
    // External streams are not stored, so the playlist offers no catch-up.
    let list = server.get("/api/livetv/m3u").send().await.unwrap().text().await.unwrap();
    assert!(list.contains(",One\n") && !list.contains("catchup="), "{list}");
    assert_eq!((&on["catchupUrl"], &all[0]["catchupDays"]), (&Value::Null, &json!(0)));
    assert!(text.contains("<title>Show 2</title><sub-title>A &amp; B</sub-title><desc>&lt;b&gt;</desc><category>Film</category><episode-num system=\"onscreen\">S02E02</episode-num><episode-num system=\"xmltv_ns\">1.1.</episode-num></programme>"), "{text}");

    // Mapped by hand: the other channel shows the same guide, whatever its `tvg-id`.
    let target = format!("{CHANNELS}/{two}");
    let mapped = json!({"guide": {"xmltvId": "one", "xmltvSourceId": made["id"]}});
    let mapped = success(send(&server, Method::PATCH, &target, &mapped).await, 200).await["channel"].clone();
    assert_eq!((&mapped["now"]["title"], &mapped["xmltvId"]), (&json!("Show 2"), &json!("one")));
    assert_eq!(asked(&server, "/api/livetv/epg").await["entries"].as_array().unwrap().len(), 6);
    success(send(&server, Method::PATCH, &target, &json!({"guide": {"xmltvId": null}})).await, 200).await;

    // The guide is replaced, and cached exports become outdated.
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

/// Quirks of real guides, on one channel that is on air during all of them.
const QUIRKS: &str = "<tv><channel id=\"one\"><display-name>One</display-name></channel>\
    <programme start=\"S0\" stop=\"S2\" channel=\"one\"><title>A \u{1}&amp; B &lt;i&gt; &#xfffe;&#8;</title><title lang=\"de\">Zwei</title>\
    <desc>Lines\n&#13;and \u{202e}tricks ]]&gt;</desc><date>1999-05-01</date><category>Film</category><category>Drama &amp; more</category>\
    <episode-num system=\"onscreen\">S00E03</episode-num><previously-shown/><rating system=\"FSK\"><value>12 &amp; up</value></rating></programme>\
    <programme start=\"S1\" stop=\"S3\" channel=\"one\"><title></title><episode-num system=\"xmltv_ns\">.4.</episode-num></programme>\
    <programme start=\"S1\" stop=\"S9\" channel=\"one\"><title>Twice</title></programme>\
    <programme start=\"S4\" channel=\"one\"><title>Open</title><sub-title>\u{7}</sub-title></programme></tv>";

fn quirks() -> String {
    let now = Timestamp::now();
    (0..10i64).fold(QUIRKS.to_owned(), |text, n| {
        let at = (now + (n - 1).hours()).strftime("%Y%m%d%H0000 +0000").to_string();
        text.replace(&format!("\"S{n}\""), &format!("\"{at}\""))
    })
}

#[tokio::test]
async fn what_is_read_leniently_is_written_as_the_dtd_has_it() {
    let server = kit::server(&[]).await;
    let list = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://tv.example/1\n";
    let list = cleared(json!({"kind": "m3u", "name": "L", "upload": list}));
    success(send(&server, Method::POST, SOURCES, &list).await, 201).await;
    let body = own(&json!({"kind": "xmltv", "name": "G", "upload": quirks()}));
    success(send(&server, Method::POST, SOURCES, &body).await, 201).await;
    let text = server.get("/api/livetv/xmltv?days=3").send().await.unwrap().text().await.unwrap();
    let tv = xmltv::read(&text);
    let told: Vec<&xmltv::Element> = tv.all("programme").collect();
    assert_eq!(told.len(), 3, "{text}");
    assert_eq!((told[0].text_of("title"), told[1].text_of("title")), ("A & B <i>", "Untitled"));
    assert_eq!(told[0].text_of("desc"), "Lines and tricks ]]>");
    assert!(told[0].all("previously-shown").next().is_some() && told[1].all("previously-shown").next().is_none());
    assert_eq!(told[0].all("rating").next().unwrap().text_of("value"), "12 & up");
    assert_eq!(told[0].attributes["stop"], told[1].attributes["start"], "no programmes overlap");
    assert_eq!(told[2].text_of("title"), "Open");
    assert_eq!(told[2].all("sub-title").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn programmes_are_there_still_after_a_restart() {
    let mut program = Program::start(&[], &[]).await;
    program.kill();
    {
        let service = open(&program).await;
        let claim = RightsClaim {
            source_name: Some("Own antenna".into()),
            source_url: Some("https://antenna.example/".into()),
            imported_at_ms: Some(0),
            basis: Some("own-content".into()),
            statement: Some("Received with my own antenna, for my own household.".into()),
            recording_basis: None,
            authorized: Some(true),
        };
        let list = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\" tvg-shift=\"-1\",One\nhttp://tv.example/1\n";
        for (kind, text) in [(SourceKind::M3u, list.to_owned()), (SourceKind::Xmltv, guide("one", "Show"))] {
            let change = SourceChange {
                kind: Some(kind),
                name: Some("S".into()),
                upload: Some(text.into()),
                claim: claim.clone(),
                changed_by: "keeper".into(),
                ..SourceChange::default()
            };
            service.add_source(change).await.unwrap();
        }
    }
    let mut seen = Vec::new();
    for _ in 0..2 {
        program.restart().await;
        let target = "/api/livetv/epg?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z";
        assert_eq!(success(program.get(target).send().await.unwrap(), 200).await["entries"], json!([]));
        let entries = success(program.get("/api/livetv/epg").send().await.unwrap(), 200).await["entries"].clone();
        seen.push(entries.as_array().unwrap().iter().map(|one| (one["id"].clone(), one["title"].clone())).collect());
        let text = program.get("/api/livetv/xmltv").send().await.unwrap().text().await.unwrap();
        assert_eq!(xmltv::read(&text).all("programme").count(), 3, "{text}");
    }
    let (first, second): (&Vec<(Value, Value)>, _) = (&seen[0], &seen[1]);
    assert!(first == second && first.iter().any(|(_, title)| title == "Show 3"), "{seen:?}");
}

/// Opens the service over the state of a stopped program.
async fn open(program: &Program) -> Arc<Service> {
    let config = Config::new(program.state(), program.state().join("cache"));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match Service::open(config.clone()) {
            Ok(service) => return service,
            Err(fault) => assert!(Instant::now() < deadline, "{fault}"),
        }
        tokio::task::yield_now().await;
    }
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
    assert!(refusal["error"].as_str().unwrap().contains("is not XMLTV"), "{refusal}");
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
        let body = cleared(json!({"kind": kind, "name": name}));
        let answer = upload(&server, Method::POST, SOURCES, &body, &std::fs::read(&file).unwrap()).await;
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
