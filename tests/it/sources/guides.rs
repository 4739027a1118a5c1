//! Imported guides: parsed, shown with their channels, exported again.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use hearthcast::domain::rights::RightsClaim;
use hearthcast::domain::source::SourceKind;
use hearthcast::service::Service;
use hearthcast::service::channels::sources::SourceChange;
use jiff::{Timestamp, ToSpan};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, SOURCES, get_as_admin, send_as_admin, upload, with_rights};
use crate::kit::program::ServerProcess;
use crate::kit::remote_server::{RemoteServer, ok};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::service_config::service_config;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, xmltv};

/// A guide of one channel with three programmes of an hour; the second is on now.
fn xmltv_guide(id: &str, title: &str) -> String {
    let now: Timestamp = Timestamp::now();
    let hour_stamp = |hours: i64| (now + hours.hours()).strftime("%Y%m%d%H0000 +0000").to_string();
    let programme_element = |n: i64| {
        format!(
            "<programme start=\"{}\" stop=\"{}\" channel=\"{id}\"><title>{title} {n}</title><sub-title>A &amp; B</sub-title>\
             <desc>&lt;b&gt;</desc><category>Film</category><episode-num system=\"onscreen\">S02E0{n}</episode-num></programme>",
            hour_stamp(n - 2),
            hour_stamp(n - 1)
        )
    };
    let programmes: String = (1..4).map(programme_element).collect();
    format!(
        "<?xml version=\"1.0\"?><tv><channel id=\"{id}\"><display-name>One</display-name></channel>{programmes}</tv>"
    )
}

fn with_provenance_only(body: &Value) -> Value {
    let mut body = with_rights(body.clone());
    for field in ["rights", "attestation"] {
        body.as_object_mut().unwrap().remove(field);
    }
    body
}

#[tokio::test]
async fn imported_programmes_are_shown_with_their_channels() {
    let server = kit::start_server(&[]).await;
    let list = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://tv.example/1\n#EXTINF:-1 tvg-id=\"other\",Two\nhttp://tv.example/2\n";
    expect_success(
        send_as_admin(
            &server,
            Method::POST,
            SOURCES,
            &with_rights(json!({"kind": "m3u", "name": "L", "upload": list})),
        )
        .await,
        201,
    )
    .await;
    let channels = get_as_admin(&server, CHANNELS).await["channels"].clone();
    let (one, two) = (channels[0]["id"].clone(), channels[1]["id"].clone());
    assert_eq!(get_as_admin(&server, "/api/livetv/epg").await["entries"], json!([]));

    // A guide needs provenance only.
    let body = json!({"kind": "xmltv", "name": "G", "upload": xmltv_guide("one", "Show")});
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, SOURCES, &body).await, 422, "RIGHTS_BASIS_REQUIRED").await;
    assert_eq!(refusal["details"]["missing"].as_array().unwrap().len(), 3);
    let guide_source = expect_success(
        send_as_admin(&server, Method::POST, SOURCES, &with_provenance_only(&body)).await,
        201,
    )
    .await["source"]
        .clone();
    assert_eq!(guide_source["counts"], json!({"entries": 1, "channels": 1, "programmes": 3, "skipped": 0}));
    assert_eq!(
        (&guide_source["rights"], &guide_source["provenance"]["sourceName"]),
        (&Value::Null, &json!("Own antenna"))
    );

    let entries = get_as_admin(&server, "/api/livetv/epg").await["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 3, "{entries:#}");
    let current = &entries[1];
    assert_eq!(
        (&current["title"], &current["subtitle"], &current["description"]),
        (&json!("Show 2"), &json!("A & B"), &json!("<b>"))
    );
    assert_eq!(
        (&current["season"], &current["episode"], &current["categories"]),
        (&json!(2), &json!(2), &json!(["Film"]))
    );
    assert_eq!((&current["channelId"], &current["isLive"], &current["isFiller"]), (&one, &json!(true), &json!(false)));
    let listed = get_as_admin(&server, CHANNELS).await["channels"][0].clone();
    assert_eq!((&listed["now"]["title"], &listed["next"]["title"]), (&json!("Show 2"), &json!("Show 3")));
    let now = get_as_admin(&server, &format!("/api/livetv/now?channelId={one}")).await;
    assert_eq!((&now["current"]["entry"]["id"], &now["next"]["title"]), (&current["id"], &json!("Show 3")));

    let answer = server.get("/api/livetv/xmltv").send().await.unwrap();
    let etag = answer.headers()["etag"].clone();
    let text = answer.text().await.unwrap();
    let tv = xmltv::parse_checked(&text);
    assert_eq!(tv.children_named("programme").count(), 3, "{text}");
    // External streams are not stored, so the playlist offers no catch-up.
    let list = server.get("/api/livetv/m3u").send().await.unwrap().text().await.unwrap();
    assert!(list.contains(",One\n") && !list.contains("catchup="), "{list}");
    assert_eq!((&current["catchupUrl"], &channels[0]["catchupDays"]), (&Value::Null, &json!(0)));
    assert!(text.contains("<title>Show 2</title><sub-title>A &amp; B</sub-title><desc>&lt;b&gt;</desc><category>Film</category><episode-num system=\"onscreen\">S02E02</episode-num><episode-num system=\"xmltv_ns\">1.1.</episode-num></programme>"), "{text}");

    // Mapped by hand: the other channel shows the same guide, whatever its `tvg-id`.
    let target = format!("{CHANNELS}/{two}");
    let mapped = json!({"guide": {"xmltvId": "one", "xmltvSourceId": guide_source["id"]}});
    let mapped =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &mapped).await, 200).await["channel"].clone();
    assert_eq!((&mapped["now"]["title"], &mapped["xmltvId"]), (&json!("Show 2"), &json!("one")));
    assert_eq!(get_as_admin(&server, "/api/livetv/epg").await["entries"].as_array().unwrap().len(), 6);
    expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"guide": {"xmltvId": null}})).await, 200)
        .await;

    // The guide is replaced, and cached exports become outdated.
    let target = format!("{SOURCES}/{}", guide_source["id"]);
    let body = json!({"upload": xmltv_guide("one", "News")});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    let answer = server.get("/api/livetv/xmltv").header("if-none-match", etag).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.text().await.unwrap().contains("News 2"));
    assert_eq!(get_as_admin(&server, CHANNELS).await["channels"][0]["now"]["title"], "News 2");
    expect_success(send_as_admin(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    assert_eq!(get_as_admin(&server, "/api/livetv/epg").await["entries"], json!([]));
}

/// Quirks of real guides, on one channel that is on air during all of them.
const QUIRKY_GUIDE: &str = "<tv><channel id=\"one\"><display-name>One</display-name></channel>\
    <programme start=\"S0\" stop=\"S2\" channel=\"one\"><title>A \u{1}&amp; B &lt;i&gt; &#xfffe;&#8;</title><title lang=\"de\">Zwei</title>\
    <desc>Lines\n&#13;and \u{202e}tricks ]]&gt;</desc><date>1999-05-01</date><category>Film</category><category>Drama &amp; more</category>\
    <episode-num system=\"onscreen\">S00E03</episode-num><previously-shown/><rating system=\"FSK\"><value>12 &amp; up</value></rating></programme>\
    <programme start=\"S1\" stop=\"S3\" channel=\"one\"><title></title><episode-num system=\"xmltv_ns\">.4.</episode-num></programme>\
    <programme start=\"S1\" stop=\"S9\" channel=\"one\"><title>Twice</title></programme>\
    <programme start=\"S4\" channel=\"one\"><title>Open</title><sub-title>\u{7}</sub-title></programme></tv>";

fn quirky_guide() -> String {
    let now = Timestamp::now();
    (0..10i64).fold(QUIRKY_GUIDE.to_owned(), |text, n| {
        let hour_stamp = (now + (n - 1).hours()).strftime("%Y%m%d%H0000 +0000").to_string();
        text.replace(&format!("\"S{n}\""), &format!("\"{hour_stamp}\""))
    })
}

#[tokio::test]
async fn leniently_parsed_guides_are_exported_as_the_dtd_requires() {
    let server = kit::start_server(&[]).await;
    let list = "#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\nhttp://tv.example/1\n";
    let list = with_rights(json!({"kind": "m3u", "name": "L", "upload": list}));
    expect_success(send_as_admin(&server, Method::POST, SOURCES, &list).await, 201).await;
    let body = with_provenance_only(&json!({"kind": "xmltv", "name": "G", "upload": quirky_guide()}));
    expect_success(send_as_admin(&server, Method::POST, SOURCES, &body).await, 201).await;
    let text = server.get("/api/livetv/xmltv?days=3").send().await.unwrap().text().await.unwrap();
    let tv = xmltv::parse_checked(&text);
    let programmes: Vec<&xmltv::Element> = tv.children_named("programme").collect();
    assert_eq!(programmes.len(), 3, "{text}");
    assert_eq!((programmes[0].text_of("title"), programmes[1].text_of("title")), ("A & B <i>", "Untitled"));
    assert_eq!(programmes[0].text_of("desc"), "Lines and tricks ]]>");
    assert!(
        programmes[0].children_named("previously-shown").next().is_some()
            && programmes[1].children_named("previously-shown").next().is_none()
    );
    assert_eq!(programmes[0].children_named("rating").next().unwrap().text_of("value"), "12 & up");
    assert_eq!(programmes[0].attributes["stop"], programmes[1].attributes["start"], "no programmes overlap");
    assert_eq!(programmes[2].text_of("title"), "Open");
    assert_eq!(programmes[2].children_named("sub-title").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_programmes_survive_a_restart() {
    let mut program = ServerProcess::start(&[], &[]).await;
    program.kill();
    {
        let service = open_service(&program).await;
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
        for (kind, text) in [(SourceKind::M3u, list.to_owned()), (SourceKind::Xmltv, xmltv_guide("one", "Show"))] {
            let change = SourceChange {
                kind: Some(kind),
                name: Some("S".into()),
                upload: Some(text.into()),
                claim: claim.clone(),
                changed_by: "operator".into(),
                ..SourceChange::default()
            };
            service.add_source(change).await.unwrap();
        }
    }
    let mut entries_by_run = Vec::new();
    for _ in 0..2 {
        program.restart().await;
        let target = "/api/livetv/epg?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z";
        assert_eq!(expect_success(program.get(target).send().await.unwrap(), 200).await["entries"], json!([]));
        let entries =
            expect_success(program.get("/api/livetv/epg").send().await.unwrap(), 200).await["entries"].clone();
        entries_by_run
            .push(entries.as_array().unwrap().iter().map(|one| (one["id"].clone(), one["title"].clone())).collect());
        let text = program.get("/api/livetv/xmltv").send().await.unwrap().text().await.unwrap();
        assert_eq!(xmltv::parse_checked(&text).children_named("programme").count(), 3, "{text}");
    }
    let (first, second): (&Vec<(Value, Value)>, _) = (&entries_by_run[0], &entries_by_run[1]);
    assert!(first == second && first.iter().any(|(_, title)| title == "Show 3"), "{entries_by_run:?}");
}

/// Opens the service over the state of a stopped program.
async fn open_service(program: &ServerProcess) -> Arc<Service> {
    let config = service_config(&program.state_folder(), &program.state_folder().join("cache"));
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match Service::open(config.clone()) {
            Ok(service) => return service,
            Err(fault) => assert!(Instant::now() < deadline, "{fault}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn compressed_guides_are_fetched_and_invalid_ones_refused_with_their_field() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(xmltv_guide("one", "Show").as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    let remote = RemoteServer::serve("127.0.0.1", move |path| match path {
        "/guide.xml.gz" => ok("application/gzip", &compressed),
        _ => ok("text/html", "<html>sign in</html>"),
    })
    .await;
    let server = kit::start_server_with(&[], |config| config.allowed_sources = vec!["127.0.0.1".into()]).await;
    let body = with_provenance_only(
        &json!({"kind": "xmltv", "name": "G", "url": remote.url("/guide.xml.gz"), "refreshHours": 6}),
    );
    let source =
        expect_success(send_as_admin(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    assert_eq!((&source["counts"]["programmes"], &source["refreshHours"]), (&json!(3), &json!(6)));
    let preview =
        expect_success(send_as_admin(&server, Method::POST, "/api/livetv/sources/preview", &body).await, 200).await;
    assert_eq!(preview["counts"], source["counts"]);
    let body = with_provenance_only(&json!({"kind": "xmltv", "name": "G", "url": remote.url("/page")}));
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, SOURCES, &body).await, 400, "VALIDATION_ERROR").await;
    assert!(refusal["error"].as_str().unwrap().contains("is not XMLTV"), "{refusal}");
    let wrong = json!({"guide": {"xmltvId": ""}});
    let channel = with_rights(json!({"name": "E", "sourceType": "external", "source": {"url": "http://tv.example/"}}));
    let id = expect_success(send_as_admin(&server, Method::POST, CHANNELS, &channel).await, 201).await["channel"]["id"]
        .clone();
    expect_error(
        send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &wrong).await,
        400,
        "VALIDATION_ERROR",
    )
    .await;
    let mapped = json!({"guide": {"xmltvId": "one"}});
    let mapped =
        expect_success(send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &mapped).await, 200).await;
    assert_eq!(mapped["channel"]["now"]["title"], "Show 2");
}

#[tokio::test]
async fn every_list_and_guide_of_the_corpus_is_imported() {
    let Ok(corpus) = std::env::var("HEARTHCAST_CORPUS") else {
        eprintln!("skipped: HEARTHCAST_CORPUS is not set");
        return;
    };
    let server = kit::start_server(&[]).await;
    let mut files: Vec<_> =
        std::fs::read_dir(format!("{corpus}/iptv")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut imported = 0;
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let kind = if name.contains(".m3u") { "m3u" } else { "xmltv" };
        if name.ends_with(".dtd") {
            continue;
        }
        let body = with_rights(json!({"kind": kind, "name": name}));
        let answer = upload(&server, Method::POST, SOURCES, &body, &std::fs::read(&file).unwrap()).await;
        let source = expect_success(answer, 201).await["source"].clone();
        println!("{name}: {}", source["counts"]);
        let counts = |field: &str| source["counts"][field].as_u64().unwrap();
        match kind {
            "m3u" => assert!(counts("channels") > 0, "{source}"),
            _ => assert!(counts("programmes") > 0 || name == "xmltv-empty.xml", "{source}"),
        }
        imported += 1;
    }
    assert!(imported > 10);
}
