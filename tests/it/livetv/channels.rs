//! `/api/livetv/channels`: create, change, delete, validate, store.

use std::time::Duration;

use hearthcast::service::channels::Channels;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;

use super::{CHANNELS, add_channel, expect_refused_field, get, make_audio_files, send_as_admin};
use crate::kit;
use crate::kit::response::{expect_error, expect_success};

#[tokio::test]
async fn a_channel_is_created_listed_changed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    make_audio_files(folder.path(), &[3, 4, 5]);
    let server = kit::start_server(&[folder.path()]).await;
    assert_eq!(get(&server, CHANNELS).await, json!({"channels": []}));
    let body = json!({"name": "80s, \"Action\" 🎬", "items": [{"path": folder.path()}], "category": "Movies"});
    expect_error(server.post(CHANNELS, &body).send().await.unwrap(), 403, "FORBIDDEN").await;

    let answer = send_as_admin(&server, Method::POST, CHANNELS, &body).await;
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let channel = expect_success(answer, 201).await["channel"].clone();
    assert_eq!(location, format!("/api/livetv/channels/{}", channel["id"]));
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
        assert_eq!(channel[field], value, "{field}");
    }
    assert!(channel["tvgId"].as_str().unwrap().starts_with(&format!("ch-{}.", channel["id"])));
    let logo_url = channel["logoUrl"].as_str().unwrap();
    for (url, accept, expected) in [
        (logo_url.to_owned(), "image/avif,image/svg+xml,*/*", (200, "image/svg+xml")),
        (logo_url.to_owned(), "*/*", (200, "image/png")),
        (format!("{logo_url}?size=128"), "image/svg+xml", (200, "image/png")),
        (format!("{logo_url}?size=100"), "*/*", (400, "application/json")),
    ] {
        let logo = server.request(Method::GET, &url).header("accept", accept).send().await.unwrap();
        assert_eq!((logo.status().as_u16(), logo.headers()["content-type"].to_str().unwrap()), expected, "{url}");
    }

    let listed = get(&server, CHANNELS).await["channels"][0].clone();
    assert_eq!((&listed["id"], &listed["items"], &listed["seed"]), (&channel["id"], &json!(null), &json!(null)));
    assert_eq!(listed["now"]["isLive"], true);
    assert_eq!(listed["now"]["end"], listed["next"]["start"]);

    // Name and number do not affect the schedule: the revision stays, and so do the ids that players use.
    let change = json!({"name": "Renamed", "number": 99, "enabled": false, "logoUrl": "/art/1.png"});
    let changed =
        expect_success(send_as_admin(&server, Method::PATCH, &location, &change).await, 200).await["channel"].clone();
    assert_eq!(
        (&changed["name"], &changed["number"], &changed["revision"]),
        (&json!("Renamed"), &json!(99), &json!(1))
    );
    assert_eq!((&changed["tvgId"], &changed["logoUrl"]), (&channel["tvgId"], &json!("/art/1.png")));
    assert_eq!(get(&server, CHANNELS).await, json!({"channels": []}), "disabled channels are hidden from users");
    expect_error(server.get(&location).send().await.unwrap(), 404, "CHANNEL_NOT_FOUND").await;
    let restored = send_as_admin(&server, Method::PATCH, &location, &json!({"enabled": true, "logoUrl": null})).await;
    assert_eq!(expect_success(restored, 200).await["channel"]["logoUrl"], channel["logoUrl"]);

    let deletion = send_as_admin(&server, Method::DELETE, &location, &json!({})).await;
    assert_eq!(expect_success(deletion, 200).await, json!({"channelId": channel["id"], "deleted": true}));
    expect_error(send_as_admin(&server, Method::DELETE, &location, &json!({})).await, 404, "CHANNEL_NOT_FOUND").await;
    let next_channel = add_channel(&server, &body).await;
    assert!(next_channel["id"].as_u64() > channel["id"].as_u64(), "ids are never reused");
}

#[tokio::test]
async fn invalid_channels_are_refused_with_their_field() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[1]);
    std::fs::write(folder.path().join("note.txt"), "no media").unwrap();
    std::fs::write(folder.path().join("broken.mkv"), b"\x1a\x45\xdf\xa3 and nothing else").unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let valid = json!({"name": "A", "number": 7, "items": [{"path": files[0]}]});
    let with_field = |field: &str, value: serde_json::Value| {
        let mut body = valid.clone();
        body[field] = value;
        body
    };
    for (body, field) in [
        (json!({"items": [{"path": files[0]}]}), "name"),
        (json!({"name": "A"}), "items"),
        (with_field("items", json!([])), "items"),
        (with_field("items", json!([{"path": folder.path().join("empty")}])), "items"),
        (with_field("items", json!([{"title": "x"}])), "items[0].path"),
        (with_field("items", json!([{"path": files[0], "weight": 101}])), "items[0].weight"),
        (with_field("items", json!([{"path": files[0], "order": "size"}])), "items[0].order"),
        (with_field("name", json!("")), "name"),
        (with_field("number", json!(0)), "number"),
        (with_field("number", json!(1.5)), "number"),
        (with_field("scheduleMode", json!("blocks")), "schedule"),
        (with_field("scheduleMode", json!("mixed")), "scheduleMode"),
        (with_field("schedule", json!({"dayStart": "05:00"})), "schedule.sources"),
        (with_field("filler", json!({"pre": [{"path": "/a"}]})), "filler"),
        (with_field("output", json!({"resolution": "9p"})), "output.resolution"),
        (with_field("output", json!({"loudnessLufs": -4})), "output.loudnessLufs"),
        (with_field("languages", json!({"subtitles": [""]})), "languages.subtitles"),
        (with_field("watermark", json!({"imageUrl": "https://example.org/a.png"})), "watermark.imageUrl"),
        (with_field("watermark", json!({"imageUrl": "/etc/hostname"})), "watermark.imageUrl"),
        (with_field("watermark", json!({"opacity": 0})), "watermark.opacity"),
        (with_field("watermark", json!({"widthPercent": 51})), "watermark.widthPercent"),
        (with_field("watermark", json!({"position": "middle"})), "watermark.position"),
        (with_field("timezone", json!("Mars/Olympus")), "timezone"),
        (with_field("startAt", json!("tomorrow")), "startAt"),
        (with_field("seed", json!(1u64 << 53)), "seed"),
        (with_field("sourceType", json!("satellite")), "sourceType"),
    ] {
        expect_refused_field(&server, Method::POST, CHANNELS, &body, field).await;
    }
    for (path, status, code) in [
        ("/etc/passwd".to_owned(), 403, "FORBIDDEN"),
        ("relative".to_owned(), 400, "INVALID_PATH"),
        (folder.path().join("none").to_str().unwrap().to_owned(), 404, "NOT_FOUND"),
        (folder.path().join("note.txt").to_str().unwrap().to_owned(), 415, "UNSUPPORTED_MEDIA_TYPE"),
    ] {
        let answer =
            send_as_admin(&server, Method::POST, CHANNELS, &with_field("items", json!([{"path": path}]))).await;
        let refusal = expect_error(answer, status, code).await;
        assert_eq!(refusal["details"]["items"][0]["path"], json!(path), "{refusal}");
    }
    // Empty lists of unsupported filler are accepted.
    let body = with_field("filler", json!({"pre": [], "mid": []}));
    expect_success(send_as_admin(&server, Method::POST, CHANNELS, &body).await, 201).await;
    let conflict = expect_error(send_as_admin(&server, Method::POST, CHANNELS, &valid).await, 409, "CONFLICT").await;
    assert_eq!(conflict["details"]["field"], "number");

    let all = json!({"name": "All", "items": [{"path": folder.path()}]});
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, CHANNELS, &all).await, 422, "UNPLAYABLE_MEDIA").await;
    assert_eq!(refusal["details"]["items"][0]["path"], json!(folder.path().join("broken.mkv")), "{refusal}");
    let created =
        expect_success(send_as_admin(&server, Method::POST, "/api/livetv/channels?skipInvalid=true", &all).await, 201)
            .await;
    assert_eq!(created["channel"]["itemCount"], 1);

    let mut external = json!({"name": "Remote", "sourceType": "external"});
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, CHANNELS, &external).await, 422, "RIGHTS_BASIS_REQUIRED")
            .await;
    assert_eq!(refusal["details"]["missing"].as_array().unwrap().len(), 7, "{refusal}");
    external["rights"] = json!({"basis": "licensed", "statement": "a contract of 2026 says so"});
    external["attestation"] = json!({"authorized": true});
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, CHANNELS, &external).await, 422, "RIGHTS_BASIS_REQUIRED")
            .await;
    assert_eq!(refusal["details"]["missing"].as_array().unwrap().len(), 4, "{refusal}");
    for id in ["0", "4000000000", "99999999999", "x"] {
        let answer = server.get(&format!("{CHANNELS}/{id}")).send().await.unwrap();
        expect_error(answer, 404, "CHANNEL_NOT_FOUND").await;
    }
}

#[tokio::test]
async fn a_change_takes_effect_within_a_year() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[600, 900]);
    let server = kit::start_server(&[folder.path()]).await;
    let channel = add_channel(&server, &json!({"name": "A", "items": [{"path": files[0]}]})).await;
    let change = json!({"items": [{"path": files[1]}]});
    let at = |days: u64| Timestamp::now() + Duration::from_secs(days * 86_400);
    for (method, path) in [(Method::PATCH, ""), (Method::POST, "/preview")] {
        let target = |days| format!("{CHANNELS}/{}{path}?applyAt={}", channel["id"], at(days));
        expect_refused_field(&server, method.clone(), &target(367), &change, "applyAt").await;
        expect_success(send_as_admin(&server, method, &target(365), &change).await, 200).await;
    }
}

#[tokio::test]
async fn a_channel_sent_back_as_received_stays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    make_audio_files(folder.path(), &[600, 900]);
    let base_url = Some("https://home.example/tv".to_owned());
    let server = kit::start_server_with(&[folder.path()], |config| config.public_base_url = base_url).await;
    let items = json!([{"path": folder.path()}]);
    let schedule =
        json!({"layers": [{"blocks": [{"at": "05:00", "slots": [{"source": "all"}]}]}], "sources": {"all": items}});
    for body in [
        json!({"name": "Shuffled", "items": items}),
        json!({"name": "By the clock", "scheduleMode": "blocks", "schedule": schedule}),
        json!({"name": "With a logo", "items": items, "logoUrl": "/art/1.png"}),
    ] {
        let id = add_channel(&server, &body).await["id"].clone();
        let target = format!("{CHANNELS}/{id}");
        let answer = server.request(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap();
        let received = expect_success(answer, 200).await["channel"].clone();
        assert_eq!((&received["state"], &received["viewers"]), (&json!("idle"), &json!(0)));
        // Status fields of a request are ignored, whatever they contain.
        let mut request = received.clone();
        (request["state"], request["viewers"]) = (json!("live"), json!("seven"));
        let answer = send_as_admin(&server, Method::PATCH, &target, &request).await;
        let changed = expect_success(answer, 200).await["channel"].clone();
        for field in [
            "id",
            "name",
            "number",
            "scheduleMode",
            "logoUrl",
            "tvgId",
            "epoch",
            "revision",
            "state",
            "viewers",
            "seed",
            "items",
            "schedule",
            "filler",
            "itemCount",
        ] {
            assert_eq!(changed[field], received[field], "{field} of {received}");
        }
        request["number"] = json!(null);
        let copy = add_channel(&server, &request).await;
        assert_ne!(copy["id"], id);
        assert_eq!((&copy["name"], &copy["state"], &copy["viewers"]), (&received["name"], &json!("idle"), &json!(0)));
        let logo = if body["logoUrl"].is_null() {
            format!("/tv/api/livetv/logos/{}", copy["id"])
        } else {
            "/tv/art/1.png".to_owned()
        };
        assert_eq!(copy["logoUrl"], json!(logo));
    }
}

#[tokio::test]
async fn a_preview_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[600, 900]);
    let server = kit::start_server(&[folder.path()]).await;
    let body = json!({"name": "A", "scheduleMode": "sequential", "items": [{"path": files[0]}]});
    let target = format!("{CHANNELS}/preview");
    let preview = expect_success(send_as_admin(&server, Method::POST, &target, &body).await, 200).await;
    assert_eq!(preview["entries"].as_array().unwrap().len(), 24 * 6 + 1, "a day, including the current programme");
    assert_eq!(get(&server, CHANNELS).await, json!({"channels": []}));

    let channel = add_channel(&server, &body).await;
    let target = format!("{CHANNELS}/{}/preview", channel["id"]);
    let change = json!({"items": [{"path": files[1]}]});
    let preview = expect_success(send_as_admin(&server, Method::POST, &target, &change).await, 200).await;
    let title = |n: usize| preview["entries"][n]["title"].clone();
    assert_eq!((title(0), title(1)), (json!("0"), json!("1")), "the current programme stays");
    let unchanged = get(&server, &format!("{CHANNELS}/{}", channel["id"])).await;
    assert_eq!((&unchanged["channel"]["revision"], &unchanged["channel"]["next"]["title"]), (&json!(1), &json!("0")));
}

#[tokio::test]
async fn stored_channels_equal_those_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[30, 70, 110]);
    let server = kit::start_server(&[folder.path()]).await;
    let kept_channel =
        add_channel(&server, &json!({"name": "A", "number": 5, "items": [{"path": folder.path()}]})).await;
    let deleted_channel = add_channel(&server, &json!({"name": "B", "items": [{"path": folder.path()}]})).await;
    let target = format!("{CHANNELS}/{}", kept_channel["id"]);
    // The second change replaces the first, which is never aired.
    for items in [json!([{"path": files[0]}]), json!([{"path": files[1], "weight": 3}, {"path": files[2]}])] {
        let change = json!({"items": items, "scheduleMode": "weighted"});
        expect_success(send_as_admin(&server, Method::PATCH, &target, &change).await, 200).await;
    }
    send_as_admin(&server, Method::DELETE, &format!("{CHANNELS}/{}", deleted_channel["id"]), &json!({})).await;

    let in_memory = server.service.channels.all();
    let stored = Channels::open(server.service.store.clone(), server.service.clock.clone()).unwrap().all();
    assert_eq!((in_memory.len(), stored.len()), (1, 1));
    let (in_memory, stored) = (&in_memory[0], &stored[0]);
    assert_eq!(in_memory.definition, stored.definition);
    assert_eq!(
        (&in_memory.tvg_id, &in_memory.settings, &in_memory.requested_items),
        (&stored.tvg_id, &stored.settings, &stored.requested_items)
    );
    assert_eq!((in_memory.version, in_memory.definition.revisions.len()), (3, 2));
}
