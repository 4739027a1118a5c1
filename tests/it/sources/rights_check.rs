//! The rights check: nothing external without provenance, rights and attestation.

use hearthcast::service::channels::Channels;
use hearthcast::service::channels::rights::AuditLog;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHANNELS, get_as_admin, send_as_admin, with_rights};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

const SECRET_URL: &str = "http://ada:hunter2@tv.example:8080/live/ada/hunter2/12.m3u8?token=hunter2";

async fn add_external_channel(server: &Server) -> (String, Value) {
    let body = with_rights(json!({"name": "Remote", "sourceType": "external", "source": {"url": SECRET_URL}}));
    let channel =
        expect_success(send_as_admin(server, Method::POST, CHANNELS, &body).await, 201).await["channel"].clone();
    (format!("{CHANNELS}/{}", channel["id"]), channel)
}

#[tokio::test]
async fn an_external_channel_shows_its_rights_and_never_its_password() {
    let server = kit::start_server(&[]).await;
    let (target, channel) = add_external_channel(&server).await;
    assert_eq!(
        (&channel["sourceType"], &channel["now"], &channel["itemCount"]),
        (&json!("external"), &Value::Null, &Value::Null)
    );
    assert_eq!(channel["provenance"]["importedAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(
        (&channel["rights"]["basis"], &channel["rights"]["recordingBasis"]),
        (&json!("own-content"), &Value::Null)
    );
    assert_eq!(
        (&channel["attestation"]["authorized"], &channel["attestation"]["by"]),
        (&json!(true), &json!("operator"))
    );
    assert!(channel["attestation"]["text"].as_str().unwrap().contains("authorised"));
    assert_eq!(channel["source"], json!({"url": "http://tv.example:8080/…", "failoverUrls": [], "userAgent": null}));

    let user_view = expect_success(server.get(&target).send().await.unwrap(), 200).await["channel"].clone();
    assert_eq!(
        (&user_view["source"], &user_view["rights"], &user_view["attestation"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(user_view["provenance"]["sourceName"], "Own antenna");
    let m3u = server.get("/api/livetv/m3u").send().await.unwrap().text().await.unwrap();
    assert!(m3u.contains("Remote"), "{m3u}");
    expect_success(server.get("/api/livetv/epg").send().await.unwrap(), 200).await;
    assert_eq!(server.get("/api/livetv/xmltv").send().await.unwrap().status(), 200);
    for target in [CHANNELS, &target, "/api/livetv/m3u", "/api/livetv/audit"] {
        let text =
            server.request(Method::GET, target).bearer_auth(&server.admin).send().await.unwrap().text().await.unwrap();
        assert!(!text.contains("hunter2"), "{target}: {text}");
    }
    assert!(!format!("{:?}", server.service.channels.all()).contains("hunter2"));
    // A segment that was never on air does not exist.
    let watch = format!("/api/livetv/watch/{}", channel["id"]);
    assert_eq!(server.get(&watch).send().await.unwrap().status(), 202);
    expect_error(server.get(&format!("{watch}/1-00000.ts")).send().await.unwrap(), 404, "ASSET_NOT_FOUND").await;

    let store = server.service.store.clone();
    let stored = Channels::open(store.clone(), server.service.clock.clone()).unwrap().all();
    assert_eq!(stored[0].external, server.service.channels.all()[0].external, "the stored channel is complete");
    assert_eq!(stored[0].external.as_deref().unwrap().stream.url.full_url().as_str(), SECRET_URL);
    let lines = AuditLog::open(store.clone(), server.service.clock.clone()).unwrap().entries(None, 0, 9).unwrap();
    assert_eq!(lines.len(), 1);
    let mut exported = Vec::new();
    hearthcast::store::export(&server.service.config.state, &mut exported).unwrap();
    let exported = String::from_utf8(exported).unwrap();
    assert!(exported.contains("\"tree\":\"audit\"") && exported.contains("Received with my own antenna"), "{exported}");
}

#[tokio::test]
async fn incomplete_rights_are_refused_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a.wav");
    kit::media::run_ffmpeg(&film, &["-f lavfi -i", "sine=duration=1", "-c:a pcm_u8"]);
    let server = kit::start_server(&[folder.path()]).await;
    let complete = with_rights(json!({"name": "Remote", "sourceType": "external", "source": {"url": SECRET_URL}}));
    let body_without = |field_path: &[&str]| {
        let mut body = complete.clone();
        let (last, path) = field_path.split_last().unwrap();
        path.iter().fold(&mut body, |body, part| &mut body[*part]).as_object_mut().unwrap().remove(*last);
        body
    };
    let provenance_fields = ["provenance.sourceName", "provenance.sourceUrl", "provenance.importedAt"];
    let cases: [(Value, &[&str]); 9] = [
        (body_without(&["provenance"]), &provenance_fields),
        (body_without(&["provenance", "sourceName"]), &["provenance.sourceName"]),
        (body_without(&["provenance", "importedAt"]), &["provenance.importedAt"]),
        (body_without(&["rights"]), &["rights.basis", "rights.statement"]),
        (body_without(&["rights", "basis"]), &["rights.basis"]),
        (body_without(&["rights", "statement"]), &["rights.statement"]),
        (body_without(&["attestation"]), &["attestation.authorized"]),
        (body_without(&["attestation", "authorized"]), &["attestation.authorized"]),
        (body_without(&["source"]), &["source.url"]),
    ];
    for kind in ["external", "m3u-import"] {
        for (body, missing) in &cases {
            let mut body = body.clone();
            body["sourceType"] = json!(kind);
            for target in [CHANNELS, "/api/livetv/channels/preview"] {
                let refusal = expect_error(
                    send_as_admin(&server, Method::POST, target, &body).await,
                    422,
                    "RIGHTS_BASIS_REQUIRED",
                )
                .await;
                assert_eq!(refusal["details"]["missing"], json!(missing), "{body}");
            }
        }
    }
    assert_eq!(get_as_admin(&server, "/api/livetv/audit").await["entries"], json!([]), "no channel and no audit entry");

    // A library channel cannot become external, nor the other way round.
    let body = json!({"name": "Own", "items": [{"path": film}]});
    let created =
        expect_success(send_as_admin(&server, Method::POST, CHANNELS, &body).await, 201).await["channel"]["id"].clone();
    let library_channel = format!("{CHANNELS}/{created}");
    let (target, _) = add_external_channel(&server).await;
    let invalid = [
        (&library_channel, with_rights(json!({"sourceType": "external", "source": {"url": SECRET_URL}})), "sourceType"),
        (&library_channel, json!({"source": {"url": SECRET_URL}}), "sourceType"),
        (&library_channel, json!({"attestation": {"authorized": true}}), "sourceType"),
        (&target, json!({"sourceType": "virtual"}), "sourceType"),
        (&target, json!({"sourceType": "virtual", "items": [{"path": film}]}), "sourceType"),
        (&target, json!({"items": [{"path": film}]}), "items"),
        (&target, json!({"source": {"url": "file:///etc/passwd"}}), "source.url"),
        (&target, json!({"source": {"url": "rtmp://tv.example/live"}}), "source.url"),
        (&target, json!({"source": {"failoverUrls": ["http://a.example/", "nowhere"]}}), "source.failoverUrls[1]"),
        (&target, json!({"source": {"userAgent": "a\r\nHost: b"}}), "source.userAgent"),
    ];
    for (target, body, field) in invalid {
        let refusal =
            expect_error(send_as_admin(&server, Method::PATCH, target, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{body}: {refusal}");
        assert!(!refusal.to_string().contains("hunter2"), "{refusal}");
    }
    let nulls = json!({"provenance": null, "source": null, "rights": null, "attestation": null});
    expect_success(send_as_admin(&server, Method::PATCH, &library_channel, &nulls).await, 200).await;

    // The attestation covers the current values: a change needs a new attestation.
    for (body, missing) in [
        (json!({"provenance": null}), "provenance.sourceName"),
        (json!({"rights": null}), "rights.basis"),
        (json!({"rights": {"statement": "short"}}), "rights.statement"),
        (json!({"rights": {"recordingBasis": "so it says"}}), "attestation.authorized"),
        (json!({"provenance": {"sourceName": "Another"}}), "attestation.authorized"),
        (json!({"source": {"url": "http://other.example/live.m3u8"}}), "attestation.authorized"),
        (json!({"source": {"failoverUrls": ["http://other.example/live.m3u8"]}}), "attestation.authorized"),
    ] {
        for target in [target.clone(), format!("{target}/preview")] {
            let method = if target.ends_with("preview") { Method::POST } else { Method::PATCH };
            let refusal =
                expect_error(send_as_admin(&server, method, &target, &body).await, 422, "RIGHTS_BASIS_REQUIRED").await;
            assert_eq!(refusal["details"]["missing"][0], missing, "{body}: {refusal}");
        }
    }
    let unchanged = server.service.channels.all().into_iter().find(|channel| channel.external.is_some()).unwrap();
    assert_eq!(
        (unchanged.version, unchanged.external.as_deref().unwrap().stream.url.full_url().as_str()),
        (1, SECRET_URL)
    );
    let renamed =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"name": "Renamed"})).await, 200).await;
    assert_eq!(renamed["channel"]["attestation"]["authorized"], true, "a new name needs no attestation");
}

#[tokio::test]
async fn a_shortened_address_sent_back_does_not_replace_the_stored_one() {
    let server = kit::start_server(&[]).await;
    let (target, _) = add_external_channel(&server).await;
    let failover_url = "http://b.example/live.ts?token=hunter2";
    let change = json!({"source": {"failoverUrls": [failover_url]}, "attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &change).await, 200).await;
    let received = get_as_admin(&server, &target).await["channel"].clone();
    assert_eq!(received["source"]["failoverUrls"], json!(["http://b.example/…"]));
    expect_success(send_as_admin(&server, Method::PATCH, &target, &received).await, 200).await;
    let assert_unchanged = || {
        let channel = server.service.channels.all().remove(0);
        let stream = &channel.external.as_deref().unwrap().stream;
        assert_eq!(stream.url.full_url().as_str(), SECRET_URL);
        let failover: Vec<&str> = stream.failover.iter().map(|address| address.full_url().as_str()).collect();
        assert_eq!(failover, [failover_url]);
    };
    assert_unchanged();

    let other = "http://other.example/…";
    let new = with_rights(json!({"name": "Copy", "sourceType": "external", "source": {"url": other}}));
    let list = with_rights(json!({"kind": "m3u", "name": "List", "url": other}));
    for (method, target, body, field) in [
        (Method::PATCH, &*target, json!({"source": {"url": other}}), "source.url"),
        (
            Method::PATCH,
            &*target,
            json!({"source": {"failoverUrls": ["http://b.example/…", other]}}),
            "source.failoverUrls[1]",
        ),
        (Method::POST, CHANNELS, new, "source.url"),
        (Method::POST, "/api/livetv/sources", list, "url"),
    ] {
        let refusal = expect_error(send_as_admin(&server, method, target, &body).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], json!(field), "{body}: {refusal}");
    }
    assert_unchanged();
}

#[tokio::test]
async fn a_withdrawal_stops_a_channel_at_once_and_is_audited() {
    let server = kit::start_server(&[]).await;
    let (target, created) = add_external_channel(&server).await;
    let watch = format!("/api/livetv/watch/{}", created["id"]);
    let service = &server.service;
    let channel = || service.channels.get(created["id"].as_u64().unwrap() as u32).unwrap();
    assert!(service.check_showing_rights(&channel()).is_ok());
    let refusal = service.check_recordable(&channel()).unwrap_err();
    assert_eq!(refusal.details.unwrap(), json!({"missing": ["rights.recordingBasis"]}));

    let body = json!({"rights": {"recordingBasis": "the statute lets me"}, "attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    assert!(service.check_recordable(&channel()).is_ok());

    let body = json!({"attestation": {"authorized": false}});
    let withdrawn = expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    assert_eq!(withdrawn["channel"]["attestation"]["authorized"], false);
    for target in [watch.clone(), format!("{watch}/live.m3u8"), format!("{watch}/1-00000.ts")] {
        expect_error(server.get(&target).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    }
    assert!(service.check_recordable(&channel()).is_err());
    // A repeated withdrawal is not logged, and a new statement alone does not restore the rights.
    expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    let body = json!({"rights": {"statement": "Now I have got a contract with them."}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    expect_error(server.get(&watch).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    let body = json!({"attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
    assert_ne!(server.get(&watch).send().await.unwrap().status(), 403);
    expect_success(send_as_admin(&server, Method::DELETE, &target, &json!({})).await, 200).await;

    let log = get_as_admin(&server, &format!("/api/livetv/audit?channel={}", created["id"])).await;
    let actions: Vec<(&str, &str)> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), entry["by"].as_str().unwrap()))
        .collect();
    let admin = "operator";
    assert_eq!(
        actions,
        [
            ("attested", admin),
            ("attested", admin),
            ("withdrawn", admin),
            ("changed", admin),
            ("attested", admin),
            ("removed", admin)
        ]
    );
    assert_eq!(log["entries"][1]["changed"], json!(["rights", "attestation"]));
    assert_eq!(log["entries"][3]["rights"]["statement"], "Now I have got a contract with them.");
    assert_eq!(get_as_admin(&server, "/api/livetv/audit?source=1").await["entries"], json!([]));
    let after = get_as_admin(&server, &format!("/api/livetv/audit?after={}", log["entries"][4]["id"])).await;
    assert_eq!(after["entries"].as_array().unwrap().len(), 1);
    for method in [Method::DELETE, Method::POST, Method::PATCH, Method::PUT] {
        expect_error(send_as_admin(&server, method, "/api/livetv/audit", &json!({})).await, 405, "METHOD_NOT_ALLOWED")
            .await;
    }
}

/// Tuner clients are recorders (Plex, Emby, Jellyfin). Plain players use M3U and XMLTV, so those keep the channel.
#[tokio::test]
async fn recorders_are_offered_an_external_channel_only_with_a_recording_basis() {
    let server = kit::start_server_with(&[], |config| config.hdhomerun = true).await;
    let (target, channel) = add_external_channel(&server).await;
    let token = send_as_admin(&server, Method::POST, "/api/livetv/tokens", &json!({"name": "Recorder"})).await;
    let secret = expect_success(token, 201).await["secret"].as_str().unwrap().to_owned();
    let (lineup, stream) =
        (format!("/hdhr/{secret}/lineup.json"), format!("/hdhr/{secret}/auto/v{}", channel["number"]));
    let text = async |target: &str| server.request(Method::GET, target).send().await.unwrap().text().await.unwrap();

    assert_eq!(text(&lineup).await, "[]");
    let refusal =
        expect_error(server.request(Method::GET, &stream).send().await.unwrap(), 422, "RIGHTS_BASIS_REQUIRED").await;
    assert_eq!(refusal["details"], json!({"missing": ["rights.recordingBasis"]}));
    assert_eq!(server.request(Method::HEAD, &stream).send().await.unwrap().status(), 422);
    assert!(text(&format!("/api/livetv/m3u?token={secret}")).await.contains("Remote"));
    assert!(text(&format!("/api/livetv/xmltv?token={secret}")).await.contains("Remote"));

    for (basis, is_listed) in [(json!("The statute permits it."), true), (Value::Null, false)] {
        let body = json!({"rights": {"recordingBasis": basis}, "attestation": {"authorized": true}});
        expect_success(send_as_admin(&server, Method::PATCH, &target, &body).await, 200).await;
        assert_eq!(text(&lineup).await.contains(&stream), is_listed, "{basis}");
        let head = server.request(Method::HEAD, &stream).send().await.unwrap().status();
        assert_eq!(head, if is_listed { 200 } else { 422 });
    }
}

#[tokio::test]
async fn users_see_no_credentials_in_urls() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a.wav");
    kit::media::run_ffmpeg(&film, &["-f lavfi -i", "sine=duration=60", "-c:a pcm_u8"]);
    let server = kit::start_server(&[folder.path()]).await;
    let (url_with_query, url_with_user_info, logo_with_query) = (
        "http://tv.example:8080/get.php?username=ada&password=hunter2",
        "http://ada:hunter2@tv.example/1.png",
        "http://tv.example/logo.php?username=ada&password=hunter2",
    );
    let mut external = with_rights(json!({"name": "Remote", "sourceType": "external", "source": {"url": SECRET_URL}}));
    (external["provenance"]["sourceUrl"], external["logoUrl"]) = (json!(url_with_query), json!(logo_with_query));
    let library_channel = json!({"name": "Own", "items": [{"path": film}], "startAt": "2026-01-01T00:00:00Z", "logoUrl": url_with_user_info});
    let mut channels = Vec::new();
    for body in [external, library_channel] {
        channels.push(
            expect_success(send_as_admin(&server, Method::POST, CHANNELS, &body).await, 201).await["channel"].clone(),
        );
    }
    assert_eq!(
        (&channels[0]["provenance"]["sourceUrl"], &channels[0]["logoUrl"]),
        (&json!(url_with_query), &json!(logo_with_query))
    );
    let listed = get_as_admin(&server, CHANNELS).await["channels"].clone();
    assert_eq!(
        (&listed[0]["provenance"]["sourceUrl"], &listed[1]["logoUrl"]),
        (&json!(url_with_query), &json!(url_with_user_info))
    );

    let channel_target = |index: usize| format!("{CHANNELS}/{}", channels[index]["id"]);
    let user_view = expect_success(server.get(CHANNELS).send().await.unwrap(), 200).await["channels"].clone();
    assert_eq!(user_view[0]["provenance"]["sourceUrl"], "http://tv.example:8080/");
    assert_eq!(user_view[0]["logoUrl"], format!("/api/livetv/logos/{}", channels[0]["id"]));
    let logo = user_view[1]["logoUrl"].as_str().unwrap();
    assert!(logo.starts_with(&format!("/api/livetv/logos/{}?v=", channels[1]["id"])), "{logo}");
    let on_now = format!("/api/livetv/now?channelId={}", channels[1]["id"]);
    let now = expect_success(server.get(&on_now).send().await.unwrap(), 200).await;
    assert!(now.to_string().contains(&format!("\"iconUrl\":\"{logo}\"")), "{now}");
    for target in [
        CHANNELS,
        &channel_target(0),
        &channel_target(1),
        &on_now,
        "/api/livetv/epg",
        "/api/livetv/m3u?auth=signed",
        "/api/livetv/xmltv",
        "/api/livetv/warm",
    ] {
        let answer = server.get(target).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{target}");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("hunter2"), "{target}: {text}");
    }
}
