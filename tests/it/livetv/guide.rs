//! `/api/livetv/epg` and `/api/livetv/now`.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add_channel, entry_times_ms, get, make_audio_files, send_as_admin};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

async fn guide_entries(server: &Server, query: &str) -> Vec<Value> {
    get(server, &format!("/api/livetv/epg{query}")).await["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_guide_has_no_gaps_and_a_change_affects_the_future_only() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[300, 420, 777, 60, 1200]);
    let server = kit::start_server(&[folder.path()]).await;
    let body = json!({"name": "A", "seed": 42, "startAt": "2026-03-01T00:00:00+01:00", "timezone": "Europe/Berlin",
        "guide": {"minProgrammeSeconds": 60},
        "items": files.iter().map(|path| json!({"path": path})).collect::<Vec<_>>()});
    let channel = add_channel(&server, &body).await;
    let target = format!("{CHANNELS}/{}", channel["id"]);
    // Across the change to daylight saving time.
    let day = "?from=2026-03-28T20:00:00%2B01:00&to=2026-03-29T20:00:00%2B02:00";
    let complete = guide_entries(&server, day).await;
    let spans: Vec<(i64, i64)> = complete.iter().map(entry_times_ms).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap, no overlap");
    assert!(complete.len() > 100, "23 hours of short films: {}", complete.len());
    let halves = [
        guide_entries(&server, "?from=2026-03-28T19:00:00Z&to=2026-03-29T03:00:00Z").await,
        guide_entries(&server, "?from=2026-03-29T03:00:00Z&to=2026-03-29T18:00:00Z").await,
    ];
    let mut joined = halves.concat();
    joined.dedup_by(|a, b| a["id"] == b["id"]);
    assert_eq!(joined, complete, "adjacent ranges give the same entries as one range");

    // Short programmes are merged into the entry before.
    let settings = json!({"guide": {"minProgrammeSeconds": 61}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &settings).await, 200).await;
    let fewer = guide_entries(&server, day).await;
    assert!(fewer.len() < complete.len() && fewer.iter().all(|entry| entry["title"] != "3"));
    assert!(
        fewer
            .iter()
            .map(entry_times_ms)
            .zip(fewer.iter().skip(1).map(entry_times_ms))
            .all(|(entry, next)| entry.1 == next.0)
    );
    expect_success(
        send_as_admin(&server, Method::PATCH, &target, &json!({"guide": {"minProgrammeSeconds": 0}})).await,
        200,
    )
    .await;

    // Replace the items while a programme is on.
    server.service.clock.advance(Duration::from_secs(1));
    let now = get(&server, &format!("/api/livetv/now?channelId={}", channel["id"])).await;
    let before = guide_entries(&server, "").await;
    let current = before.iter().position(|entry| entry["isLive"] == true).expect("a programme is on");
    assert_eq!(before[current]["id"], now["current"]["entry"]["id"]);
    let duration =
        now["current"]["offsetSeconds"].as_f64().unwrap() + now["current"]["remainingSeconds"].as_f64().unwrap();
    assert_eq!(duration, before[current]["durationSeconds"].as_f64().unwrap());
    let bytes = server.get(now["current"]["directUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(bytes.status(), 200);

    let change =
        json!({"items": [{"path": files[2], "title": "Show S02E03 - Only (2020)"}], "scheduleMode": "sequential"});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &change).await, 200).await;
    let after = guide_entries(&server, "").await;
    assert_eq!(after[..=current], before[..=current], "current and past entries are unchanged");
    let next = &after[current + 1];
    assert_eq!(next["start"], before[current]["end"]);
    assert_eq!((&next["title"], &next["season"], &next["episode"]), (&json!("Show"), &json!(2), &json!(3)));
    assert_eq!((&next["subtitle"], &next["mediaPath"]), (&json!("Only (2020)"), &json!(files[2])));
    assert!(after[current + 1..].iter().all(|entry| entry["title"] == "Show"));
    assert_eq!(guide_entries(&server, day).await, complete, "past entries of March are unchanged");

    // `applyAt=now` cuts the current programme.
    let change = json!({"items": [{"path": files[3]}]});
    expect_success(send_as_admin(&server, Method::PATCH, &format!("{target}?applyAt=now"), &change).await, 200).await;
    let now_playing = get(&server, &format!("/api/livetv/now?channelId={}", channel["id"])).await;
    assert_eq!(
        (&now_playing["current"]["entry"]["title"], &now_playing["current"]["offsetSeconds"]),
        (&json!("3"), &json!(0.0))
    );
}

#[tokio::test]
async fn the_guide_can_be_filtered_by_channel_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1800]);
    let server = kit::start_server(&[folder.path()]).await;
    let body = |number: u32| {
        json!({"name": number.to_string(), "number": number, "items": [{"path": files[0]}],
        "startAt": "2026-01-01T00:00:00Z"})
    };
    let (high_id, low_id) =
        (add_channel(&server, &body(9)).await["id"].clone(), add_channel(&server, &body(2)).await["id"].clone());
    let channel_ids = |entries: &[Value]| {
        let mut ids: Vec<Value> = entries.iter().map(|entry| entry["channelId"].clone()).collect();
        ids.dedup();
        ids
    };
    let all = guide_entries(&server, "").await;
    assert_eq!(channel_ids(&all), [low_id.clone(), high_id.clone()], "by number");
    assert!((96..=100).contains(&all.len()), "a day of half hours on each: {}", all.len());
    assert_eq!(
        channel_ids(&guide_entries(&server, &format!("?channelId={high_id}")).await),
        std::slice::from_ref(&high_id)
    );
    assert_eq!(
        channel_ids(&guide_entries(&server, &format!("?channelId={high_id}&channelIds=77,{low_id}")).await),
        [low_id, high_id.clone()]
    );
    assert_eq!(guide_entries(&server, "?channelIds=77").await, Vec::<Value>::new());
    assert_eq!(
        guide_entries(&server, "?from=2025-12-01&to=2025-12-10").await,
        Vec::<Value>::new(),
        "before its first programme"
    );
    assert_eq!(
        guide_entries(&server, &format!("?channelId={high_id}&from=2026-02-01&to=2026-02-15")).await.len(),
        14 * 48
    );
    for wrong in [
        "?channelId=x",
        "?channelIds=1,b",
        "?from=2026-01-02&to=2026-01-01",
        "?from=2026-01-02&to=2026-01-02",
        "?from=2026-01-01&to=2026-01-16",
        "?from=yesterday",
        "?from=2100-01-01&to=2100-01-02",
    ] {
        expect_error(server.get(&format!("/api/livetv/epg{wrong}")).send().await.unwrap(), 400, "VALIDATION_ERROR")
            .await;
    }

    server.service.clock.advance(Duration::ZERO);
    let target = "/api/livetv/epg?from=2026-02-01&to=2026-02-02";
    let first = server.get(target).send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let revalidated = server.get(target).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((revalidated.status().as_u16(), revalidated.bytes().await.unwrap().len()), (304, 0));
    expect_success(
        send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{high_id}"), &json!({"name": "B"})).await,
        200,
    )
    .await;
    assert_eq!(server.get(target).header("if-none-match", &etag).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn programmes_are_described_by_the_nfo_files_of_their_media() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[300, 420, 360, 330]);
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "0.nfo",
        "<movie><title>Boats &amp; Ink</title><year>2004</year><plot>On paper.</plot><genre>Drama</genre></movie>",
    );
    let episode = "<title>Fog</title><season>2</season><episode>5</episode><plot>It closes.</plot>";
    write("1.nfo", &format!("<episodedetails>{episode}</episodedetails>"));
    write("tvshow.nfo", "<tvshow><title>Harbour Watch</title><genre>Crime</genre><genre>Sea</genre></tvshow>");
    write("2.nfo", "<movie><title>Not this title</title><plot>But this text.</plot></movie>");
    write("3.nfo", "<movie><title>Broken");
    let server = kit::start_server(&[folder.path()]).await;
    let mut items: Vec<Value> = files.iter().map(|path| json!({"path": path})).collect();
    items[2]["title"] = json!("Named by its owner");
    let body = json!({"name": "A", "scheduleMode": "sequential", "startAt": "2026-03-01T00:00:00Z", "category": "Movies",
        "guide": {"description": "The channel.", "minProgrammeSeconds": 0}, "items": items});
    add_channel(&server, &body).await;
    // The guide is frozen with the items.
    std::fs::remove_file(folder.path().join("0.nfo")).unwrap();
    let entries = guide_entries(&server, "?from=2026-03-01T00:00:00Z&to=2026-03-01T00:23:00Z").await;
    let fields = ["title", "subtitle", "season", "episode", "year", "description", "categories"];
    let found: Vec<Vec<Value>> =
        entries.iter().map(|entry| fields.iter().map(|field| entry[*field].clone()).collect()).collect();
    let expected = json!([
        ["Boats & Ink", null, null, null, 2004, "On paper.", ["Drama"]],
        ["Harbour Watch", "Fog", 2, 5, null, "It closes.", ["Crime", "Sea"]],
        ["Named by its owner", null, null, null, null, "But this text.", ["Movies"]],
        ["3", null, null, null, null, "The channel.", ["Movies"]],
    ]);
    assert_eq!(json!(found), expected);
    let xmltv = server.get("/api/livetv/xmltv?prevDays=0").send().await.unwrap().text().await.unwrap();
    for part in [
        "<title>Boats &amp; Ink</title><desc>On paper.</desc><date>2004</date><category>Drama</category>",
        "<title>Harbour Watch</title><sub-title>Fog</sub-title><desc>It closes.</desc><category>Crime</category>\
         <category>Sea</category><length units=\"seconds\">420</length><episode-num system=\"onscreen\">S02E05</episode-num>",
        "<title>Named by its owner</title><desc>But this text.</desc><category>Movies</category>",
        "<title>3</title><desc>The channel.</desc><category>Movies</category>",
    ] {
        assert!(xmltv.contains(part), "{part}");
    }
}
