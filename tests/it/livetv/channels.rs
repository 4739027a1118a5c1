//! `/api/livetv/channels`: create, change, delete, validate, store.

use hearthcast::service::channels::Channels;
use reqwest::Method;
use serde_json::json;

use super::{CHANNELS, add, get, refused_field, send, sounds};
use crate::kit;
use crate::kit::answer::{refused, success};

#[tokio::test]
async fn a_channel_is_made_seen_changed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    sounds(folder.path(), &[3, 4, 5]);
    let server = kit::server(&[folder.path()]).await;
    assert_eq!(get(&server, CHANNELS).await, json!({"channels": []}));
    let body = json!({"name": "80s, \"Action\" 🎬", "items": [{"path": folder.path()}], "category": "Movies"});
    refused(server.post(CHANNELS, &body).send().await.unwrap(), 403, "FORBIDDEN").await;

    let answer = send(&server, Method::POST, CHANNELS, &body).await;
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let made = success(answer, 201).await["channel"].clone();
    assert_eq!(location, format!("/api/livetv/channels/{}", made["id"]));
    for (field, value) in [
        ("name", json!("80s, \"Action\" 🎬")),
        ("number", json!(1)),
        ("sourceType", json!("virtual")),
        ("scheduleMode", json!("shuffle")),
        ("alwaysOn", json!(false)),
        ("category", json!("Movies")),
        ("enabled", json!(true)),
        ("itemCount", json!(3)),
        ("revision", json!(1)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert!(made["tvgId"].as_str().unwrap().starts_with(&format!("ch-{}.", made["id"])));
    let logo = server.ask(Method::GET, made["logoUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!((logo.status().as_u16(), &logo.headers()["content-type"]), (200, &"image/svg+xml".parse().unwrap()));

    let listed = get(&server, CHANNELS).await["channels"][0].clone();
    assert_eq!((&listed["id"], &listed["items"], &listed["seed"]), (&made["id"], &json!(null), &json!(null)));
    assert_eq!(listed["now"]["isLive"], true);
    assert_eq!(listed["now"]["end"], listed["next"]["start"]);

    // Name and number do not affect the schedule: the revision stays, and so do the ids that players use.
    let change = json!({"name": "Renamed", "number": 99, "enabled": false, "logoUrl": "/art/1.png"});
    let changed = success(send(&server, Method::PATCH, &location, &change).await, 200).await["channel"].clone();
    assert_eq!(
        (&changed["name"], &changed["number"], &changed["revision"]),
        (&json!("Renamed"), &json!(99), &json!(1))
    );
    assert_eq!((&changed["tvgId"], &changed["logoUrl"]), (&made["tvgId"], &json!("/art/1.png")));
    assert_eq!(get(&server, CHANNELS).await, json!({"channels": []}), "disabled channels are hidden from users");
    refused(server.get(&location).send().await.unwrap(), 404, "CHANNEL_NOT_FOUND").await;
    let back = send(&server, Method::PATCH, &location, &json!({"enabled": true, "logoUrl": null})).await;
    assert_eq!(success(back, 200).await["channel"]["logoUrl"], made["logoUrl"]);

    let gone = send(&server, Method::DELETE, &location, &json!({})).await;
    assert_eq!(success(gone, 200).await, json!({"channelId": made["id"], "deleted": true}));
    refused(send(&server, Method::DELETE, &location, &json!({})).await, 404, "CHANNEL_NOT_FOUND").await;
    let again = add(&server, &body).await;
    assert!(again["id"].as_u64() > made["id"].as_u64(), "ids are never reused");
}

#[tokio::test]
async fn what_cannot_be_a_channel_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[1]);
    std::fs::write(folder.path().join("note.txt"), "no media").unwrap();
    std::fs::write(folder.path().join("broken.mkv"), b"\x1a\x45\xdf\xa3 and nothing else").unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let server = kit::server(&[folder.path()]).await;
    let good = json!({"name": "A", "number": 7, "items": [{"path": files[0]}]});
    let with = |field: &str, value: serde_json::Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    for (body, field) in [
        (json!({"items": [{"path": files[0]}]}), "name"),
        (json!({"name": "A"}), "items"),
        (with("items", json!([])), "items"),
        (with("items", json!([{"path": folder.path().join("empty")}])), "items"),
        (with("items", json!([{"title": "x"}])), "items[0].path"),
        (with("items", json!([{"path": files[0], "weight": 101}])), "items[0].weight"),
        (with("items", json!([{"path": files[0], "order": "size"}])), "items[0].order"),
        (with("name", json!("")), "name"),
        (with("number", json!(0)), "number"),
        (with("number", json!(1.5)), "number"),
        (with("scheduleMode", json!("blocks")), "schedule"),
        (with("scheduleMode", json!("mixed")), "scheduleMode"),
        (with("schedule", json!({"dayStart": "05:00"})), "schedule.sources"),
        (with("filler", json!({"pre": [{"path": "/a"}]})), "filler"),
        (with("output", json!({"resolution": "9p"})), "output.resolution"),
        (with("output", json!({"loudnessLufs": -4})), "output.loudnessLufs"),
        (with("languages", json!({"subtitles": [""]})), "languages.subtitles"),
        (with("watermark", json!({"imageUrl": "https://example.org/a.png"})), "watermark.imageUrl"),
        (with("watermark", json!({"imageUrl": "/etc/hostname"})), "watermark.imageUrl"),
        (with("watermark", json!({"opacity": 0})), "watermark.opacity"),
        (with("watermark", json!({"widthPercent": 51})), "watermark.widthPercent"),
        (with("watermark", json!({"position": "middle"})), "watermark.position"),
        (with("timezone", json!("Mars/Olympus")), "timezone"),
        (with("startAt", json!("tomorrow")), "startAt"),
        (with("seed", json!(1u64 << 53)), "seed"),
        (with("sourceType", json!("tape")), "sourceType"),
    ] {
        refused_field(&server, Method::POST, CHANNELS, &body, field).await;
    }
    for (path, status, code) in [
        ("/etc/passwd".to_owned(), 403, "FORBIDDEN"),
        ("relative".to_owned(), 400, "INVALID_PATH"),
        (folder.path().join("none").to_str().unwrap().to_owned(), 404, "NOT_FOUND"),
        (folder.path().join("note.txt").to_str().unwrap().to_owned(), 415, "UNSUPPORTED_MEDIA_TYPE"),
    ] {
        let answer = send(&server, Method::POST, CHANNELS, &with("items", json!([{"path": path}]))).await;
        let refusal = refused(answer, status, code).await;
        assert_eq!(refusal["details"]["items"][0]["path"], json!(path), "{refusal}");
    }
    // Empty lists of unsupported filler are accepted.
    let body = with("filler", json!({"pre": [], "mid": []}));
    success(send(&server, Method::POST, CHANNELS, &body).await, 201).await;
    let taken = refused(send(&server, Method::POST, CHANNELS, &good).await, 409, "CONFLICT").await;
    assert_eq!(taken["details"]["field"], "number");

    let all = json!({"name": "All", "items": [{"path": folder.path()}]});
    let refusal = refused(send(&server, Method::POST, CHANNELS, &all).await, 422, "UNPLAYABLE_MEDIA").await;
    assert_eq!(refusal["details"]["items"][0]["path"], json!(folder.path().join("broken.mkv")), "{refusal}");
    let made = success(send(&server, Method::POST, "/api/livetv/channels?skipInvalid=true", &all).await, 201).await;
    assert_eq!(made["channel"]["itemCount"], 1);

    let mut external = json!({"name": "Elsewhere", "sourceType": "external"});
    let refusal = refused(send(&server, Method::POST, CHANNELS, &external).await, 422, "RIGHTS_BASIS_REQUIRED").await;
    assert_eq!(refusal["details"]["missing"].as_array().unwrap().len(), 7, "{refusal}");
    external["rights"] = json!({"basis": "licensed", "statement": "a contract of 2026 says so"});
    external["attestation"] = json!({"authorized": true});
    let refusal = refused(send(&server, Method::POST, CHANNELS, &external).await, 422, "RIGHTS_BASIS_REQUIRED").await;
    assert_eq!(refusal["details"]["missing"].as_array().unwrap().len(), 4, "{refusal}");
    for id in ["0", "4000000000", "99999999999", "x"] {
        let answer = server.get(&format!("{CHANNELS}/{id}")).send().await.unwrap();
        refused(answer, 404, "CHANNEL_NOT_FOUND").await;
    }
}

#[tokio::test]
async fn a_preview_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[600, 900]);
    let server = kit::server(&[folder.path()]).await;
    let body = json!({"name": "A", "scheduleMode": "sequential", "items": [{"path": files[0]}]});
    let target = format!("{CHANNELS}/preview");
    let seen = success(send(&server, Method::POST, &target, &body).await, 200).await;
    assert_eq!(seen["entries"].as_array().unwrap().len(), 24 * 6 + 1, "a day, including the current programme");
    assert_eq!(get(&server, CHANNELS).await, json!({"channels": []}));

    let made = add(&server, &body).await;
    let target = format!("{CHANNELS}/{}/preview", made["id"]);
    let change = json!({"items": [{"path": files[1]}]});
    let seen = success(send(&server, Method::POST, &target, &change).await, 200).await;
    let title = |n: usize| seen["entries"][n]["title"].clone();
    assert_eq!((title(0), title(1)), (json!("0"), json!("1")), "the current programme stays");
    let still = get(&server, &format!("{CHANNELS}/{}", made["id"])).await;
    assert_eq!((&still["channel"]["revision"], &still["channel"]["next"]["title"]), (&json!(1), &json!("0")));
}

#[tokio::test]
async fn what_is_on_disk_is_what_is_aired() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[30, 70, 110]);
    let server = kit::server(&[folder.path()]).await;
    let made = add(&server, &json!({"name": "A", "number": 5, "items": [{"path": folder.path()}]})).await;
    let gone = add(&server, &json!({"name": "B", "items": [{"path": folder.path()}]})).await;
    let target = format!("{CHANNELS}/{}", made["id"]);
    // The second change replaces the first, which is never aired.
    for items in [json!([{"path": files[0]}]), json!([{"path": files[1], "weight": 3}, {"path": files[2]}])] {
        let change = json!({"items": items, "scheduleMode": "weighted"});
        success(send(&server, Method::PATCH, &target, &change).await, 200).await;
    }
    send(&server, Method::DELETE, &format!("{CHANNELS}/{}", gone["id"]), &json!({})).await;

    let held = server.service.channels.all();
    let read = Channels::open(server.service.store.clone(), server.service.clock.clone()).unwrap().all();
    assert_eq!((held.len(), read.len()), (1, 1));
    let (held, read) = (&held[0], &read[0]);
    assert_eq!(held.definition, read.definition);
    assert_eq!((&held.tvg_id, &held.settings, &held.requested_items), (&read.tvg_id, &read.settings, &read.requested_items));
    assert_eq!((held.version, held.definition.revisions.len()), (3, 2));
}
