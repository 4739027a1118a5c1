//! `/api/livetv/epg` and `/api/livetv/now`.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add, get, send, sounds, span};
use crate::kit::answer::{refused, success};
use crate::kit::{self, Server};

async fn epg(server: &Server, query: &str) -> Vec<Value> {
    get(server, &format!("/api/livetv/epg{query}")).await["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn the_guide_tiles_time_and_an_edit_changes_what_comes_only() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[300, 420, 777, 60, 1200]);
    let server = kit::server(&[folder.path()]).await;
    let body = json!({"name": "A", "seed": 42, "startAt": "2026-03-01T00:00:00+01:00", "timezone": "Europe/Berlin",
        "guide": {"minProgrammeSeconds": 60},
        "items": files.iter().map(|path| json!({"path": path})).collect::<Vec<_>>()});
    let made = add(&server, &body).await;
    let target = format!("{CHANNELS}/{}", made["id"]);
    // Across the change to daylight saving time.
    let day = "?from=2026-03-28T20:00:00%2B01:00&to=2026-03-29T20:00:00%2B02:00";
    let whole = epg(&server, day).await;
    let spans: Vec<(i64, i64)> = whole.iter().map(span).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap, no overlap");
    assert!(whole.len() > 100, "23 hours of short films: {}", whole.len());
    let halves = [
        epg(&server, "?from=2026-03-28T19:00:00Z&to=2026-03-29T03:00:00Z").await,
        epg(&server, "?from=2026-03-29T03:00:00Z&to=2026-03-29T18:00:00Z").await,
    ];
    let mut joined = halves.concat();
    joined.dedup_by(|a, b| a["id"] == b["id"]);
    assert_eq!(joined, whole, "adjacent ranges give the same entries as one range");

    // Short programmes are merged into the entry before.
    let least = json!({"guide": {"minProgrammeSeconds": 61}});
    success(send(&server, Method::PATCH, &target, &least).await, 200).await;
    let fewer = epg(&server, day).await;
    assert!(fewer.len() < whole.len() && fewer.iter().all(|entry| entry["title"] != "3"));
    assert!(fewer.iter().map(span).zip(fewer.iter().skip(1).map(span)).all(|(one, next)| one.1 == next.0));
    success(send(&server, Method::PATCH, &target, &json!({"guide": {"minProgrammeSeconds": 0}})).await, 200).await;

    // Replace the items while a programme is on.
    server.service.clock.advance(Duration::from_secs(1));
    let now = get(&server, &format!("/api/livetv/now?channelId={}", made["id"])).await;
    let before = epg(&server, "").await;
    let on = before.iter().position(|entry| entry["isLive"] == true).expect("a programme is on");
    assert_eq!(before[on]["id"], now["current"]["entry"]["id"]);
    let into = now["current"]["offsetSeconds"].as_f64().unwrap() + now["current"]["remainingSeconds"].as_f64().unwrap();
    assert_eq!(into, before[on]["durationSeconds"].as_f64().unwrap());
    let bytes = server.get(now["current"]["directUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(bytes.status(), 200);

    let change =
        json!({"items": [{"path": files[2], "title": "Show S02E03 - Only (2020)"}], "scheduleMode": "sequential"});
    success(send(&server, Method::PATCH, &target, &change).await, 200).await;
    let after = epg(&server, "").await;
    assert_eq!(after[..=on], before[..=on], "current and past entries are unchanged");
    let next = &after[on + 1];
    assert_eq!(next["start"], before[on]["end"]);
    assert_eq!((&next["title"], &next["season"], &next["episode"]), (&json!("Show"), &json!(2), &json!(3)));
    assert_eq!((&next["subtitle"], &next["mediaPath"]), (&json!("Only (2020)"), &json!(files[2])));
    assert!(after[on + 1..].iter().all(|entry| entry["title"] == "Show"));
    assert_eq!(epg(&server, day).await, whole, "past entries of March are unchanged");

    // `applyAt=now` cuts the current programme.
    let change = json!({"items": [{"path": files[3]}]});
    success(send(&server, Method::PATCH, &format!("{target}?applyAt=now"), &change).await, 200).await;
    let cut = get(&server, &format!("/api/livetv/now?channelId={}", made["id"])).await;
    assert_eq!((&cut["current"]["entry"]["title"], &cut["current"]["offsetSeconds"]), (&json!("3"), &json!(0.0)));
}

#[tokio::test]
async fn a_guide_is_asked_for_by_channel_and_span() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[1800]);
    let server = kit::server(&[folder.path()]).await;
    let body = |number: u32| {
        json!({"name": number.to_string(), "number": number, "items": [{"path": files[0]}],
        "startAt": "2026-01-01T00:00:00Z"})
    };
    let (high, low) = (add(&server, &body(9)).await["id"].clone(), add(&server, &body(2)).await["id"].clone());
    let channels = |entries: &[Value]| {
        let mut ids: Vec<Value> = entries.iter().map(|entry| entry["channelId"].clone()).collect();
        ids.dedup();
        ids
    };
    let all = epg(&server, "").await;
    assert_eq!(channels(&all), [low.clone(), high.clone()], "by number");
    assert!((96..=100).contains(&all.len()), "a day of half hours on each: {}", all.len());
    assert_eq!(channels(&epg(&server, &format!("?channelId={high}")).await), std::slice::from_ref(&high));
    assert_eq!(channels(&epg(&server, &format!("?channelId={high}&channelIds=77,{low}")).await), [low, high.clone()]);
    assert_eq!(epg(&server, "?channelIds=77").await, Vec::<Value>::new());
    assert_eq!(epg(&server, "?from=2025-12-01&to=2025-12-10").await, Vec::<Value>::new(), "before its first programme");
    assert_eq!(epg(&server, &format!("?channelId={high}&from=2026-02-01&to=2026-02-15")).await.len(), 14 * 48);
    for wrong in [
        "?channelId=x",
        "?channelIds=1,b",
        "?from=2026-01-02&to=2026-01-01",
        "?from=2026-01-02&to=2026-01-02",
        "?from=2026-01-01&to=2026-01-16",
        "?from=yesterday",
        "?from=2100-01-01&to=2100-01-02",
    ] {
        refused(server.get(&format!("/api/livetv/epg{wrong}")).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    }

    server.service.clock.advance(Duration::ZERO);
    let span = "/api/livetv/epg?from=2026-02-01&to=2026-02-02";
    let first = server.get(span).send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let again = server.get(span).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.bytes().await.unwrap().len()), (304, 0));
    success(send(&server, Method::PATCH, &format!("{CHANNELS}/{high}"), &json!({"name": "B"})).await, 200).await;
    assert_eq!(server.get(span).header("if-none-match", &etag).send().await.unwrap().status(), 200);
}
