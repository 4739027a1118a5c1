//! Recordings of external channels, scheduled by an imported guide.

use jiff::ToSpan;

use super::*;
use crate::ingest::transport_stream_source::{self, FILM_SECONDS, TransportStreamSource};

use crate::kit::wait::MAX_WAIT;

const SOURCES: &str = "/api/livetv/sources";

/// An XMLTV guide with programmes of one channel: title, further elements, start and end in hours from `now`.
fn xmltv_guide(now: Timestamp, programmes: &[(&str, &str, f64, f64)]) -> String {
    let time = |hours: f64| {
        let time = now + ((hours * 3600.0) as i64).seconds();
        time.strftime("%Y%m%d%H%M%S +0000").to_string()
    };
    let programme_element = |(title, more, from, to): &(&str, &str, f64, f64)| {
        format!(
            "<programme start=\"{}\" stop=\"{}\" channel=\"one\"><title>{title}</title>{more}</programme>",
            time(*from),
            time(*to)
        )
    };
    let elements: String = programmes.iter().map(programme_element).collect();
    format!("<tv><channel id=\"one\"><display-name>One</display-name></channel>{elements}</tv>")
}

fn with_rights(mut body: Value) -> Value {
    body["provenance"] =
        json!({"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/", "importedAt": "2026-01-01"});
    if body["kind"] == "m3u" {
        body["rights"] =
            json!({"basis": "own-content", "statement": "Received with my own antenna, for my own household."});
        body["attestation"] = json!({"authorized": true});
    }
    body
}

async fn get_as_admin(server: &Server, target: &str) -> Value {
    expect_success(server.request(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap(), 200).await
}

/// Start and title of scheduled recordings, by start.
async fn scheduled_recordings(server: &Server) -> Vec<(String, String)> {
    let recordings = get_as_admin(server, RECORDINGS).await["recordings"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let scheduled = recordings.as_array().unwrap().iter().filter(|one| one["state"] == "scheduled");
    let mut scheduled: Vec<_> = scheduled.map(|one| (text(&one["start"]), text(&one["title"]))).collect();
    scheduled.sort();
    scheduled
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_guide_is_recorded_by_entry_and_by_series() {
    let (folder, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let source_server = TransportStreamSource::start(&path, FILM_SECONDS).await;
    let recordings_folder = recorded.path().to_owned();
    let server = kit::start_server_with(&[], |config| {
        config.recordings = Some(recordings_folder);
        config.allowed_sources = vec!["127.0.0.1".into()];
        config.limits.ingest_linger = Duration::from_millis(500);
    })
    .await;
    let list = format!("#EXTM3U\n#EXTINF:-1 tvg-id=\"one\",One\n{}\n", source_server.url());
    let list = with_rights(json!({"kind": "m3u", "name": "L", "upload": list}));
    let source =
        expect_success(send_as_admin(&server, Method::POST, SOURCES, &list).await, 201).await["source"].clone();
    let source = format!("{SOURCES}/{}", source["id"]);
    let repeat = "<previously-shown/>";
    let programmes = [
        ("Now", "<sub-title>Part</sub-title><episode-num system=\"onscreen\">S01E02</episode-num>", -0.5, 0.5),
        ("Show", "<episode-num system=\"onscreen\">S01E01</episode-num>", 2.0, 3.0),
        ("Other", "", 3.0, 4.0),
        ("SHOW", "<episode-num system=\"onscreen\">S01E02</episode-num>", 4.0, 5.0),
        ("Show", repeat, 5.0, 6.0),
        ("Show", "<episode-num system=\"onscreen\">S01E01</episode-num>", 24.0, 25.0),
    ];
    let now = Timestamp::now();
    let body = with_rights(json!({"kind": "xmltv", "name": "G", "upload": xmltv_guide(now, &programmes)}));
    let guide_source =
        expect_success(send_as_admin(&server, Method::POST, SOURCES, &body).await, 201).await["source"].clone();
    let guides = format!("{SOURCES}/{}", guide_source["id"]);
    let entries = get_as_admin(&server, "/api/livetv/epg").await["entries"].clone();
    let channel = entries[0]["channelId"].clone();
    let current = entries.as_array().unwrap().iter().find(|entry| entry["title"] == "Now").unwrap();

    // The right to show does not include the right to record, neither by entry nor by series.
    let by_entry = json!({"channelId": channel, "entryId": current["id"]});
    let by_series = json!({"channelId": channel, "series": {"title": "show", "newOnly": true}});
    for body in [&by_entry, &by_series] {
        let refusal =
            expect_error(send_as_admin(&server, Method::POST, RECORDINGS, body).await, 422, "RIGHTS_BASIS_REQUIRED")
                .await;
        assert_eq!(refusal["details"]["missing"], json!(["rights.recordingBasis"]));
    }
    let grant = json!({"rights": {"recordingBasis": "My own pictures."}, "attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &source, &grant).await, 200).await;
    let unknown = json!({"channelId": channel, "entryId": format!("{channel}-1")});
    expect_error(send_as_admin(&server, Method::POST, RECORDINGS, &unknown).await, 404, "NOT_FOUND").await;

    let recording =
        expect_success(send_as_admin(&server, Method::POST, RECORDINGS, &by_entry).await, 201).await["recording"]
            .clone();
    assert_eq!(
        (&recording["title"], &recording["subtitle"], &recording["entryId"]),
        (&json!("Now"), &json!("Part"), &current["id"])
    );
    assert_eq!(
        (&recording["season"], &recording["episode"], &recording["end"]),
        (&json!(1), &json!(2), &current["end"])
    );
    // A series rule records new programmes only, and each episode once.
    expect_success(send_as_admin(&server, Method::POST, RECORDINGS, &by_series).await, 201).await;
    let scheduled_before = scheduled_recordings(&server).await;
    assert_eq!(
        scheduled_before.iter().map(|(_, title)| title.as_str()).collect::<Vec<_>>(),
        ["Show", "SHOW"],
        "{scheduled_before:?}"
    );

    // A programme moves in the guide, and its recording with it. The current programme gets another title and a later
    // end, and its running recording follows.
    let mut moved_programmes = programmes;
    (moved_programmes[3].2, moved_programmes[3].3) = (7.0, 8.0);
    (moved_programmes[0].0, moved_programmes[0].3) = ("Now with extra time", 0.75);
    expect_success(
        send_as_admin(&server, Method::PATCH, &guides, &json!({"upload": xmltv_guide(now, &moved_programmes)})).await,
        200,
    )
    .await;
    let other = json!({"channelId": channel, "series": {"title": "Other"}});
    expect_success(send_as_admin(&server, Method::POST, RECORDINGS, &other).await, 201).await;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let scheduled_now = scheduled_recordings(&server).await;
        let titles: Vec<&str> = scheduled_now.iter().map(|(_, title)| title.as_str()).collect();
        if titles == ["Show", "Other", "SHOW"] && scheduled_now[2].0 > scheduled_before[1].0 {
            break;
        }
        assert!(Instant::now() < deadline, "{scheduled_before:?}, then {scheduled_now:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    // The current programme is recorded until the rights are withdrawn; then it stops at once and keeps its file.
    let target = format!("{RECORDINGS}/{}", recording["id"].as_str().unwrap());
    let entries = get_as_admin(&server, "/api/livetv/epg").await["entries"].clone();
    let extended_entry = entries.as_array().unwrap().iter().find(|entry| entry["id"] == current["id"]).unwrap();
    assert!(extended_entry["end"].as_str() > current["end"].as_str(), "{extended_entry}");
    let deadline = Instant::now() + MAX_WAIT;
    let path = loop {
        let recording = get_as_admin(&server, &target).await["recording"].clone();
        let path = recording["path"].as_str().map(std::path::PathBuf::from);
        let has_followed =
            (&recording["title"], &recording["end"]) == (&json!("Now with extra time"), &extended_entry["end"]);
        let is_long = |path: &std::path::PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() > 100_000);
        if let Some(path) = path.filter(is_long).filter(|_| has_followed) {
            break path;
        }
        assert!(Instant::now() < deadline, "{recording}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let withdrawal = json!({"attestation": {"authorized": false}});
    expect_success(send_as_admin(&server, Method::PATCH, &source, &withdrawal).await, 200).await;
    let deadline = Instant::now() + MAX_WAIT;
    let failed = loop {
        let recording = get_as_admin(&server, &target).await["recording"].clone();
        if recording["state"] != "recording" {
            break recording;
        }
        assert!(Instant::now() < deadline, "{recording}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((&failed["state"], &failed["failure"]["code"]), (&json!("failed"), &json!("RIGHTS_WITHDRAWN")));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), failed["sizeBytes"].as_u64().unwrap());
    player::check_decodes_through(&path, 3 * 3600).await;
}
