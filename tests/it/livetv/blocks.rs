//! Channels with a block schedule.

use std::time::Duration;

use hearthcast::domain::time::WallMs;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, add_channel, entry_times_ms, expect_refused_field, get, make_audio_files, send_as_admin};
use crate::kit;
use crate::kit::response::{expect_error, expect_success};

#[tokio::test]
async fn a_block_channel_is_created_listed_changed_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[900, 1500, 2400, 60, 20]);
    let server = kit::start_server(&[folder.path()]).await;
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
    let channel = add_channel(&server, &body).await;
    assert_eq!((&channel["scheduleMode"], &channel["itemCount"]), (&json!("blocks"), &json!(7)));
    assert_eq!(channel["schedule"]["layers"][0]["when"], json!({"from": null, "to": null, "weekdays": ["sat", "sun"]}));
    assert_eq!(channel["schedule"]["layers"][0]["blocks"][0]["at"], "20:15");
    assert_eq!(["tail", "mid"].map(|kind| channel["filler"][kind].as_array().unwrap().len()), [2, 1]);
    let target = format!("{CHANNELS}/{}", channel["id"]);
    let guide_entries = async |from: &str, to: &str| -> Vec<Value> {
        let answer = get(&server, &format!("/api/livetv/epg?from={from}&to={to}&channelId={}", channel["id"])).await;
        answer["entries"].as_array().unwrap().clone()
    };
    // Saturday, and Sunday after the change to daylight saving time: the film starts at 20:15 on both days.
    let weekend = guide_entries("2026-03-27", "2026-03-30").await;
    let films: Vec<&str> =
        weekend.iter().filter(|entry| entry["title"] == "2").map(|entry| entry["start"].as_str().unwrap()).collect();
    assert_eq!(films, ["2026-03-28T19:15:00.000Z", "2026-03-29T18:15:00.000Z"]);
    let spans: Vec<(i64, i64)> = weekend.iter().map(entry_times_ms).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap, no overlap");
    assert!(spans.iter().all(|(start, _)| start % 300_000 == 0), "starts are multiples of 5 minutes");
    assert!(
        weekend.iter().all(|entry| ["0", "1", "2"].contains(&entry["title"].as_str().unwrap())),
        "filler is hidden"
    );
    // Filler is listed when the channel is set to show it.
    expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"guide": {"showFiller": true}})).await, 200)
        .await;
    let all = guide_entries("2026-03-27", "2026-03-30").await;
    assert!(
        all.len() > weekend.len()
            && all.iter().any(|entry| entry["isFiller"] == true && (entry["title"] == "3" || entry["title"] == "4"))
    );

    // A change takes effect at the end of the current programme, and the series continues.
    server.service.clock.advance(Duration::ZERO);
    let guide_before = get(&server, &format!("/api/livetv/now?channelId={}", channel["id"])).await;
    let mut schedule = body["schedule"].clone();
    schedule["padToMinutes"] = json!(0);
    let changed =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"schedule": schedule})).await, 200).await;
    assert_eq!(changed["channel"]["revision"], 2);
    let guide_after = get(&server, &format!("/api/livetv/now?channelId={}", channel["id"])).await;
    assert_eq!(guide_before["current"], guide_after["current"]);
    assert_eq!(guide_entries("2026-03-27", "2026-03-30").await, all, "aired programmes stay in the guide");
    // The stored channel equals the one in memory.
    let (store, clock) = (server.service.store.clone(), server.service.clock.clone());
    let stored = hearthcast::service::channels::Channels::open(store, clock).unwrap().all();
    let in_memory = server.service.channels.all();
    assert_eq!(
        (&in_memory[0].definition, &in_memory[0].requested_blocks, &in_memory[0].requested_filler),
        (&stored[0].definition, &stored[0].requested_blocks, &stored[0].requested_filler)
    );
    // The schedule of a far instant is not computed for a request that is refused.
    let far_ms = 4_102_444_800_000;
    let marks =
        || in_memory[0].definition.revisions.last().unwrap().blocks.as_ref().unwrap().new_checkpoints(WallMs(far_ms));
    marks();
    for path in [format!("?at={}", far_ms / 1000), format!("/{far_ms}-00000.ts")] {
        let answer = server.get(&format!("/api/livetv/watch/{}{path}", channel["id"])).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), marks()), (404, None), "{path}");
    }
    let target_far = format!("/api/livetv/epg?from=2100-01-01&to=2100-01-02&channelId={}", channel["id"]);
    expect_error(server.get(&target_far).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    assert_eq!(marks(), None);
    // Back to a sequential schedule.
    let simple = json!({"scheduleMode": "sequential", "items": [{"path": files[0]}]});
    let sequential =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &simple).await, 200).await["channel"].clone();
    assert_eq!((&sequential["scheduleMode"], sequential.get("schedule")), (&json!("sequential"), None));
}

#[tokio::test]
async fn invalid_block_schedules_are_refused_with_their_field() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1]);
    let server = kit::start_server(&[folder.path()]).await;
    let valid = json!({"name": "A", "scheduleMode": "blocks", "schedule": {
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
        let mut body = valid.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        expect_refused_field(&server, Method::POST, CHANNELS, &body, &field).await;
    }
    expect_success(send_as_admin(&server, Method::POST, CHANNELS, &valid).await, 201).await;
}
