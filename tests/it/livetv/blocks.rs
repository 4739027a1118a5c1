//! Channels with a block schedule.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add, get, refused_field, send, sounds, span};
use crate::kit;
use crate::kit::answer::{refused, success};

#[tokio::test]
async fn a_channel_by_the_clock_is_made_shown_changed_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[900, 1500, 2400, 60, 20]);
    let server = kit::server(&[folder.path()]).await;
    let body = json!({
        "name": "Clock", "scheduleMode": "blocks", "timezone": "Europe/Berlin", "startAt": "2026-03-01T00:00:00Z", "seed": 7,
        "schedule": {
            "dayStart": "06:00", "padToMinutes": 5,
            "layers": [
                {"when": {"weekdays": ["sat", "sun"]}, "blocks": [{"at": "20:15", "slots": [{"source": "film", "count": 1}]}]},
                {"blocks": [{"at": "06:00", "slots": [{"source": "series", "order": "sequential"}]}]}
            ],
            "sources": {"series": [{"path": files[0]}, {"path": files[1]}], "film": [{"path": files[2]}]}
        },
        "filler": {"tail": [{"path": files[3]}, {"path": files[4]}], "mid": [{"path": files[4]}], "cooldownSeconds": 0}
    });
    let made = add(&server, &body).await;
    assert_eq!((&made["scheduleMode"], &made["itemCount"]), (&json!("blocks"), &json!(7)));
    assert_eq!(made["schedule"]["layers"][0]["when"], json!({"from": null, "to": null, "weekdays": ["sat", "sun"]}));
    assert_eq!(made["schedule"]["layers"][0]["blocks"][0]["at"], "20:15");
    assert_eq!(["tail", "mid"].map(|kind| made["filler"][kind].as_array().unwrap().len()), [2, 1]);
    let target = format!("{CHANNELS}/{}", made["id"]);
    let epg = async |from: &str, to: &str| -> Vec<Value> {
        let answer = get(&server, &format!("/api/livetv/epg?from={from}&to={to}&channelId={}", made["id"])).await;
        answer["entries"].as_array().unwrap().clone()
    };
    // Saturday, and Sunday after the change to daylight saving time: the film starts at 20:15 on both days.
    let week = epg("2026-03-27", "2026-03-30").await;
    let films: Vec<&str> =
        week.iter().filter(|entry| entry["title"] == "2").map(|entry| entry["start"].as_str().unwrap()).collect();
    assert_eq!(films, ["2026-03-28T19:15:00.000Z", "2026-03-29T18:15:00.000Z"]);
    let spans: Vec<(i64, i64)> = week.iter().map(span).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap, no overlap");
    assert!(spans.iter().all(|(start, _)| start % 300_000 == 0), "starts are multiples of 5 minutes");
    assert!(week.iter().all(|entry| ["0", "1", "2"].contains(&entry["title"].as_str().unwrap())), "filler is hidden");
    // Filler is listed when the channel is set to show it.
    success(send(&server, Method::PATCH, &target, &json!({"guide": {"showFiller": true}})).await, 200).await;
    let all = epg("2026-03-27", "2026-03-30").await;
    assert!(
        all.len() > week.len()
            && all.iter().any(|entry| entry["isFiller"] == true && (entry["title"] == "3" || entry["title"] == "4"))
    );

    // A change takes effect at the end of the current programme, and the series continues.
    server.service.clock.advance(Duration::ZERO);
    let now = get(&server, &format!("/api/livetv/now?channelId={}", made["id"])).await;
    let mut schedule = body["schedule"].clone();
    schedule["padToMinutes"] = json!(0);
    let changed = success(send(&server, Method::PATCH, &target, &json!({"schedule": schedule})).await, 200).await;
    assert_eq!(changed["channel"]["revision"], 2);
    let then = get(&server, &format!("/api/livetv/now?channelId={}", made["id"])).await;
    assert_eq!(now["current"], then["current"]);
    assert_eq!(epg("2026-03-27", "2026-03-30").await, all, "aired programmes stay in the guide");
    // The stored channel equals the one in memory.
    let (store, clock) = (server.service.store.clone(), server.service.clock.clone());
    let read = hearthcast::service::channels::Channels::open(store, clock).unwrap().all();
    let held = server.service.channels.all();
    assert_eq!(
        (&held[0].definition, &held[0].requested_blocks, &held[0].requested_filler),
        (&read[0].definition, &read[0].requested_blocks, &read[0].requested_filler)
    );
    // The schedule of a far instant is not computed for a request that is refused.
    let far_ms = 4_102_444_800_000;
    let marks = || held[0].definition.revisions.last().unwrap().blocks.as_ref().unwrap().new_checkpoints(far_ms);
    marks();
    for path in [format!("?at={}", far_ms / 1000), format!("/{far_ms}-00000.ts")] {
        let answer = server.get(&format!("/api/livetv/watch/{}{path}", made["id"])).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), marks()), (404, None), "{path}");
    }
    let target_far = format!("/api/livetv/epg?from=2100-01-01&to=2100-01-02&channelId={}", made["id"]);
    refused(server.get(&target_far).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    assert_eq!(marks(), None);
    // Back to a sequential schedule.
    let simple = json!({"scheduleMode": "sequential", "items": [{"path": files[0]}]});
    let back = success(send(&server, Method::PATCH, &target, &simple).await, 200).await["channel"].clone();
    assert_eq!((&back["scheduleMode"], back.get("schedule")), (&json!("sequential"), None));
}

#[tokio::test]
async fn what_no_clock_can_mean_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[1]);
    let server = kit::server(&[folder.path()]).await;
    let good = json!({"name": "A", "scheduleMode": "blocks", "schedule": {
        "layers": [{"blocks": [{"at": "06:00", "until": "05:00", "slots": [{"source": "a"}]}]}],
        "sources": {"a": [{"path": files[0]}]}}});
    let path = "schedule.layers[0].blocks[0]";
    for (pointer, value, field) in [
        ("/schedule", json!(null), "schedule".to_owned()),
        ("/schedule/layers", json!([]), "schedule.layers".to_owned()),
        ("/schedule/sources", json!({}), "schedule.sources".to_owned()),
        ("/schedule/sources/a", json!([]), "schedule.sources.a".to_owned()),
        ("/schedule/dayStart", json!("5:00"), "schedule.dayStart".to_owned()),
        ("/schedule/padToMinutes", json!(61), "schedule.padToMinutes".to_owned()),
        ("/schedule/layers/0/when", json!({"weekdays": ["day"]}), "schedule.layers[0].when.weekdays".to_owned()),
        ("/schedule/layers/0/when", json!({"from": "12-01"}), "schedule.layers[0].when".to_owned()),
        ("/schedule/layers/0/when", json!({"from": "02-30", "to": "03-01"}), "schedule.layers[0].when.from".to_owned()),
        ("/schedule/layers/0/blocks/0/at", json!("24:00"), format!("{path}.at")),
        ("/schedule/layers/0/blocks/0/until", json!("06:00"), format!("{path}.until")),
        ("/schedule/layers/0/blocks/0/slots", json!([]), format!("{path}.slots")),
        ("/schedule/layers/0/blocks/0/slots/0/source", json!("b"), format!("{path}.slots[0].source")),
        ("/schedule/layers/0/blocks/0/slots/0/order", json!("blocks"), format!("{path}.slots[0].order")),
        ("/schedule/layers/0/blocks/0/slots/0/count", json!(0), format!("{path}.slots[0].count")),
        ("/filler", json!({"mid": [{"path": files[0], "weight": 0}]}), "filler.mid[0].weight".to_owned()),
        ("/filler", json!({"cooldownSeconds": -1}), "filler.cooldownSeconds".to_owned()),
        ("/scheduleMode", json!("shuffle"), "schedule".to_owned()),
    ] {
        let mut body = good.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        refused_field(&server, Method::POST, CHANNELS, &body, &field).await;
    }
    success(send(&server, Method::POST, CHANNELS, &good).await, 201).await;
}
