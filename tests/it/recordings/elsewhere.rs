//! Recordings of external channels, scheduled by an imported guide.

use jiff::ToSpan;

use super::*;
use crate::ingest::antenna::{self, Antenna};

const SOURCES: &str = "/api/livetv/sources";

/// An XMLTV guide with programmes of one channel: title, further elements, start and end in hours from `now`.
fn guide(now: Timestamp, programmes: &[(&str, &str, f64, f64)]) -> String {
    let at = |hours: f64| {
        let at = now + ((hours * 3600.0) as i64).seconds();
        at.strftime("%Y%m%d%H%M%S +0000").to_string()
    };
    let programme = |(title, more, from, to): &(&str, &str, f64, f64)| {
        format!(
            "<programme start=\"{}\" stop=\"{}\" channel=\"one\"><title>{title}</title>{more}</programme>",
            at(*from),
            at(*to)
        )
    };
    let all: String = programmes.iter().map(programme).collect();
    format!("<tv><channel id=\"one\"><display-name>One</display-name></channel>{all}</tv>")
}

fn cleared(mut body: Value) -> Value {
    body["provenance"] =
        json!({"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/", "importedAt": "2026-01-01"});
    if body["kind"] == "m3u" {
        body["rights"] =
            json!({"basis": "own-content", "statement": "Received with my own antenna, for my own household."});
        body["attestation"] = json!({"authorized": true});
    }
    body
}

async fn asked(server: &Server, target: &str) -> Value {
    success(server.ask(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap(), 200).await
}

/// Start and title of scheduled recordings, by start.
async fn scheduled(server: &Server) -> Vec<(String, String)> {
    let all = asked(server, RECORDINGS).await["recordings"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let open = all.as_array().unwrap().iter().filter(|one| one["state"] == "scheduled");
    let mut open: Vec<_> = open.map(|one| (text(&one["start"]), text(&one["title"]))).collect();
    open.sort();
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_guide_from_elsewhere_says_is_recorded_by_entry_and_by_series() {
    let (folder, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a.ts");
    antenna::film(&path, 60);
    let antenna = Antenna::of(&path, 60).await;
    let shelf = recorded.path().to_owned();
    let server = kit::server_with(&[], |config| {
        config.recordings = Some(shelf);
        config.allowed_sources = vec!["127.0.0.1".into()];
        config.limits.ingest_linger = Duration::from_millis(500);
    })
    .await;
    let list = format!("#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\n{}\n", antenna.url());
    let list = cleared(json!({"kind": "m3u", "name": "L", "upload": list}));
    let source = success(send(&server, Method::POST, SOURCES, &list).await, 201).await["source"].clone();
    let source = format!("{SOURCES}/{}", source["id"]);
    let again = "<previously-shown/>";
    let told = [
        ("Now", "<sub-title>Part</sub-title><episode-num system=\"onscreen\">S01E02</episode-num>", -0.5, 0.5),
        ("Show", "<episode-num system=\"onscreen\">S01E01</episode-num>", 2.0, 3.0),
        ("Other", "", 3.0, 4.0),
        ("SHOW", "<episode-num system=\"onscreen\">S01E02</episode-num>", 4.0, 5.0),
        ("Show", again, 5.0, 6.0),
        ("Show", "<episode-num system=\"onscreen\">S01E01</episode-num>", 24.0, 25.0),
    ];
    let now = Timestamp::now();
    let body = cleared(json!({"kind": "xmltv", "name": "G", "upload": guide(now, &told)}));
    let made = success(send(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    let guides = format!("{SOURCES}/{}", made["id"]);
    let entries = asked(&server, "/api/livetv/epg").await["entries"].clone();
    let channel = entries[0]["channelId"].clone();
    let on = entries.as_array().unwrap().iter().find(|entry| entry["title"] == "Now").unwrap();

    // The right to show does not include the right to record, neither by entry nor by series.
    let by_entry = json!({"channelId": channel, "entryId": on["id"]});
    let by_series = json!({"channelId": channel, "series": {"title": "show", "newOnly": true}});
    for body in [&by_entry, &by_series] {
        let refusal = refused(send(&server, Method::POST, RECORDINGS, body).await, 422, "RIGHTS_BASIS_REQUIRED").await;
        assert_eq!(refusal["details"]["missing"], json!(["rights.recordingBasis"]));
    }
    let based = json!({"rights": {"recordingBasis": "My own pictures."}, "attestation": {"authorized": true}});
    success(send(&server, Method::PATCH, &source, &based).await, 200).await;
    let unknown = json!({"channelId": channel, "entryId": format!("{channel}-1")});
    refused(send(&server, Method::POST, RECORDINGS, &unknown).await, 404, "NOT_FOUND").await;

    let one = success(send(&server, Method::POST, RECORDINGS, &by_entry).await, 201).await["recording"].clone();
    assert_eq!((&one["title"], &one["subtitle"], &one["entryId"]), (&json!("Now"), &json!("Part"), &on["id"]));
    assert_eq!((&one["season"], &one["episode"], &one["end"]), (&json!(1), &json!(2), &on["end"]));
    // A series rule records new programmes only, and each episode once.
    success(send(&server, Method::POST, RECORDINGS, &by_series).await, 201).await;
    let first = scheduled(&server).await;
    assert_eq!(first.iter().map(|(_, title)| title.as_str()).collect::<Vec<_>>(), ["Show", "SHOW"], "{first:?}");

    // A programme moves in the guide, and its recording with it. The current programme gets another title and a later
    // end, and its running recording follows.
    let mut moved = told;
    (moved[3].2, moved[3].3) = (7.0, 8.0);
    (moved[0].0, moved[0].3) = ("Now with extra time", 0.75);
    success(send(&server, Method::PATCH, &guides, &json!({"upload": guide(now, &moved)})).await, 200).await;
    let other = json!({"channelId": channel, "series": {"title": "Other"}});
    success(send(&server, Method::POST, RECORDINGS, &other).await, 201).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let now = scheduled(&server).await;
        let titles: Vec<&str> = now.iter().map(|(_, title)| title.as_str()).collect();
        if titles == ["Show", "Other", "SHOW"] && now[2].0 > first[1].0 {
            break;
        }
        assert!(Instant::now() < deadline, "{first:?}, then {now:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // The current programme is recorded until the rights are withdrawn; then it stops at once and keeps its file.
    let target = format!("{RECORDINGS}/{}", one["id"].as_str().unwrap());
    let entries = asked(&server, "/api/livetv/epg").await["entries"].clone();
    let longer = entries.as_array().unwrap().iter().find(|entry| entry["id"] == on["id"]).unwrap();
    assert!(longer["end"].as_str() > on["end"].as_str(), "{longer}");
    let deadline = Instant::now() + Duration::from_secs(60);
    let path = loop {
        let one = asked(&server, &target).await["recording"].clone();
        let path = one["path"].as_str().map(std::path::PathBuf::from);
        let follows = (&one["title"], &one["end"]) == (&json!("Now with extra time"), &longer["end"]);
        let is_long = |path: &std::path::PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() > 100_000);
        if let Some(path) = path.filter(is_long).filter(|_| follows) {
            break path;
        }
        assert!(Instant::now() < deadline, "{one}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let no = json!({"attestation": {"authorized": false}});
    success(send(&server, Method::PATCH, &source, &no).await, 200).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let failed = loop {
        let one = asked(&server, &target).await["recording"].clone();
        if one["state"] != "recording" {
            break one;
        }
        assert!(Instant::now() < deadline, "{one}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("RIGHTS_WITHDRAWN")));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), failed["sizeBytes"].as_u64().unwrap());
    play::decodes_through(&path, 3 * 3600).await;
}
