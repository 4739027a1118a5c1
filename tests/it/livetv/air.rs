//! Channels on air: the same for every client, after restarts and on a second server; missing files, shared encodes, access.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::domain::live_window::PlaylistView;
use hearthcast::domain::schedule::ScheduleMode;
use hearthcast::engine::fake_backend::FakeBackend;
use hearthcast::service::Service;
use hearthcast::service::channels::ChannelChange;
use hearthcast::service::live as live_channels;
use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::play::{fetch_playlist, fetch_segments};
use super::{CHANNELS, add_channel, get, send_as_admin};
use crate::kit::program::ServerProcess;
use crate::kit::response::{expect_error, expect_success};
use crate::kit::service_config::service_config;
use crate::kit::{self, media, player, ts};

fn make_film(folder: &Path, name: &str, audio_args: &str) {
    media::flash_and_beep(&folder.join(name), 6, &format!("-c:v libx264 -preset ultrafast -g 50 {audio_args}"));
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Sequence number and name of every segment of a playlist.
fn numbered_segments(text: &str) -> Vec<(u64, String)> {
    let first = text.lines().find_map(|line| line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:")).unwrap();
    let names =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('?').next().unwrap().to_owned());
    (first.parse().unwrap()..).zip(names).collect()
}

#[tokio::test]
async fn playlists_are_the_same_after_a_kill_and_on_a_second_server() {
    let folder = tempfile::tempdir().unwrap();
    make_film(folder.path(), "a.mp4", "-c:a aac");
    make_film(folder.path(), "b.mkv", "-an");
    let mut program = ServerProcess::start(&[folder.path()], &[]).await;
    program.kill();
    let mut config = service_config(&program.state_folder(), &folder.path().join("cache"));
    config.roots = vec![Root { id: "r0".into(), path: folder.path().to_path_buf() }];
    let service = Service::open(config).unwrap();
    let path = folder.path().to_str().unwrap();
    let change = ChannelChange {
        name: Some("One".into()),
        mode: Some(ScheduleMode::Shuffle),
        start_at: Some(Timestamp::now() - Duration::from_secs(3600)),
        requested_items: Some(vec![RequestedItem::from_path(path)]),
        ..ChannelChange::default()
    };
    let id = service.add_channel(change).await.unwrap().id;
    drop(service);
    let target = format!("/api/livetv/watch/{id}/live.m3u8");
    program.restart().await;
    let before = program.get(&target).send().await.unwrap().text().await.unwrap();

    let copied = tempfile::tempdir().unwrap();
    program.kill();
    copy_folder(&program.state_folder(), &copied.path().join("state"));
    program.restart().await;
    let state = copied.path().join("state");
    let second = kit::start_unclaimed(&[folder.path()], |config| config.state = state).await;
    let second_playlist = async || {
        let request = second.client.get(format!("{}{target}", second.base)).bearer_auth(&program.token);
        request.send().await.unwrap().text().await.unwrap()
    };
    let after = program.get(&target).send().await.unwrap().text().await.unwrap();
    let (before, current) = (numbered_segments(&before), numbered_segments(&after));
    assert!(before[0].0 <= current[0].0 && current[0].0 <= before.last().unwrap().0 + 20, "{before:?} {current:?}");
    for (number, name) in &current {
        let earlier = before.iter().find(|(earlier_number, _)| earlier_number == number);
        assert!(earlier.is_none_or(|(_, earlier_name)| earlier_name == name), "segment {number} has changed");
    }
    // Time passes between requests: if our playlist is the same before and after the second one, all three must be equal.
    let mut is_compared = false;
    for _ in 0..20 {
        let ours = program.get(&target).send().await.unwrap().text().await.unwrap();
        let other = second_playlist().await;
        if program.get(&target).send().await.unwrap().text().await.unwrap() == ours {
            assert_eq!(other, ours);
            is_compared = true;
            break;
        }
    }
    assert!(is_compared, "the playlist changed during every comparison");
}

#[tokio::test]
async fn unplayable_items_become_slates_and_the_rest_stays_on_time() {
    let folder = tempfile::tempdir().unwrap();
    make_film(folder.path(), "0 whole.mp4", "-c:a aac");
    make_film(folder.path(), "1 gone.mp4", "-c:a aac");
    make_film(folder.path(), "2 broken.mkv", "-c:a aac");
    media::run_ffmpeg(
        &folder.path().join("3 audio.wav"),
        &["-f lavfi -i", "sine=frequency=300:duration=5:sample_rate=8000", "-c:a pcm_u8"],
    );
    let server = kit::start_server(&[folder.path()]).await;
    let start = Timestamp::now() - Duration::from_secs(60);
    let body = json!({"name": "Holes", "scheduleMode": "sequential", "startAt": start.to_string(), "items": [{"path": folder.path()}]});
    let channel = add_channel(&server, &body).await;
    std::fs::remove_file(folder.path().join("1 gone.mp4")).unwrap();
    std::fs::write(folder.path().join("2 broken.mkv"), vec![7; 100_000]).unwrap();

    let end = start + Duration::from_secs(25);
    let target = format!("/api/livetv/watch/{}?at={start}&end={end}&wait=15", channel["id"]);
    let answer = server.get(&target).send().await.unwrap();
    assert_eq!(answer.status(), 200, "the redirect leads to a playlist");
    let url = answer.url().clone();
    let playlist = fetch_playlist(&server, &format!("{}?{}", url.path(), url.query().unwrap())).await;
    // A slate in place of an item is not cached, because the item may be shown later.
    let mut aired: Vec<(&str, bool)> = Vec::new();
    for address in playlist.0.lines().filter(|line| !line.starts_with('#')) {
        let answer = server.request(Method::GET, &format!("{}/{address}", playlist.1)).send().await.unwrap();
        aired.push((address.split_once('-').unwrap().0, answer.headers()["cache-control"] != "no-store"));
    }
    // The whole film, then the missing one.
    let missing = aired.iter().find(|(programme, _)| *programme != aired[0].0).unwrap();
    assert!(aired[0].1 && !missing.1, "{aired:?}");
    let path = folder.path().join("aired.ts");
    let bytes = fetch_segments(&server, &playlist).await;
    ts::check_transport_stream(&bytes);
    std::fs::write(&path, bytes).unwrap();
    let decoded = player::decode(&path).await;
    assert!((decoded.video_seconds() - 25.0).abs() < 2.5, "{}", decoded.video_seconds());
    for pair in decoded.video.windows(2) {
        let step = pair[1].start_seconds - pair[0].start_seconds;
        assert!(step > 0.0 && step < 0.08, "video steps by {step} at {}", pair[0].start_seconds);
    }
    for pair in decoded.audio.windows(2) {
        let gap = pair[1].start_seconds - pair[0].start_seconds - pair[0].length_seconds;
        assert!(gap.abs() < 0.022, "audio steps by {gap} at {}", pair[0].start_seconds);
    }
}

#[tokio::test]
async fn one_file_on_three_channels_and_in_a_session_is_encoded_once() {
    let folder = tempfile::tempdir().unwrap();
    // Audio that a web session encodes, too: a copy of it would be a different rendition.
    media::flash_and_beep(&folder.path().join("a.avi"), 6, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let start = (Timestamp::now() - Duration::from_secs(3)).to_string();
    let path = folder.path().join("a.avi");
    let body = json!({"name": "Same", "startAt": start, "items": [{"path": path}]});
    for _ in 0..3 {
        let channel = add_channel(&server, &body).await;
        let playlist = channel_playlist(&server, &channel).await;
        assert!(!fetch_segments(&server, &playlist).await.is_empty());
    }
    let (status, started) =
        player::start(&server, &path, json!({"profile": {"resolution": "720p"}, "forceTranscode": true})).await;
    assert_eq!(status, 200, "{started}");
    assert!(server.service.renditions.active_jobs() <= 1);
    player::stop(&server, &started).await;
}

#[tokio::test]
async fn an_unwatched_channel_gives_its_encode_slot_to_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.avi");
    // Long enough that the channel's run does not end.
    media::flash_and_beep(&path, 60, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let start = (Timestamp::now() - Duration::from_secs(1)).to_string();
    let channel = add_channel(&server, &json!({"name": "Left", "startAt": start, "items": [{"path": path}]})).await;
    let id = &channel["id"];
    let warm = send_as_admin(&server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id]})).await;
    expect_success(warm, 202).await;
    let watched = server.get(&format!("/api/livetv/watch/{id}?wait=15&watchSession=sofa")).send().await.unwrap();
    assert_eq!((watched.status(), server.service.renditions.active_jobs()), (StatusCode::OK, 1));

    // The session and the watched channel take turns in the only encode slot.
    let other = folder.path().join("b.avi");
    media::flash_and_beep(&other, 6, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let (status, started) = player::start(&server, &other, json!({})).await;
    assert_eq!(status, 200, "{started}");
    let leave = format!("/api/livetv/watch/{id}?watchSession=sofa");
    let answer = server.request(Method::DELETE, &leave).bearer_auth(&server.token).send().await.unwrap();
    assert_eq!(expect_success(answer, 200).await, json!({"ended": true}));
    // A session that needs a whole slot takes that of the unwatched channel.
    player::stop(&server, &started).await;
    server.service.renditions.backends.force(Arc::new(FakeBackend::with_segment_time(Duration::from_secs(60))));
    let large = folder.path().join("c.avi");
    media::run_ffmpeg(&large, &["-f lavfi -i", "color=size=1920x1080:rate=60:duration=3", "-c:v mpeg4"]);
    let (status, started) = player::start(&server, &large, json!({})).await;
    assert_eq!(status, 200, "{started}");
    player::stop(&server, &started).await;
}

async fn channel_playlist(server: &kit::Server, channel: &serde_json::Value) -> (String, String) {
    let url = server.get(&format!("/api/livetv/watch/{}?wait=15", channel["id"])).send().await.unwrap().url().clone();
    fetch_playlist(server, &format!("{}?{}", url.path(), url.query().unwrap())).await
}

#[tokio::test]
async fn a_stream_token_opens_only_its_channels() {
    let folder = tempfile::tempdir().unwrap();
    make_film(folder.path(), "a.mp4", "-c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let body = json!({"name": "One", "startAt": start, "items": [{"path": folder.path()}]});
    let (one, other) = (add_channel(&server, &body).await, add_channel(&server, &body).await);
    let body = json!({"name": "TV", "channelIds": [one["id"]]});
    let created = expect_success(server.post("/api/livetv/tokens", &body).send().await.unwrap(), 201).await;
    let secret = created["secret"].as_str().unwrap();
    let listed = get(&server, "/api/livetv/tokens").await;
    assert_eq!((&listed["tokens"][0]["name"], &listed["tokens"][0]["channelIds"][0]), (&json!("TV"), &one["id"]));
    assert!(!listed.to_string().contains(secret));

    let get_without_sign_in = async |target: String| server.request(Method::GET, &target).send().await.unwrap();
    let own = format!("/api/livetv/watch/{}/live.m3u8?token={secret}", one["id"]);
    let text = fetch_playlist(&server, &own).await;
    assert!(!text.0.contains(secret), "the playlist does not contain the secret");
    assert!(!fetch_segments(&server, &text).await.is_empty());
    let other_channel = format!("/api/livetv/watch/{}/live.m3u8?token={secret}", other["id"]);
    expect_error(get_without_sign_in(other_channel).await, 404, "CHANNEL_NOT_FOUND").await;
    expect_error(get_without_sign_in(format!("{CHANNELS}?token={secret}")).await, 401, "UNAUTHORIZED").await;
    expect_error(
        get_without_sign_in(format!("/api/livetv/watch/{}/live.m3u8?token=hcs_x", one["id"])).await,
        401,
        "UNAUTHORIZED",
    )
    .await;

    let id = created["token"]["id"].as_str().unwrap();
    let answer =
        server.request(Method::DELETE, &format!("/api/livetv/tokens/{id}")).bearer_auth(&server.token).send().await;
    assert_eq!(expect_success(answer.unwrap(), 200).await, json!({"id": id, "deleted": true}));
    expect_error(get_without_sign_in(own).await, 401, "UNAUTHORIZED").await;
    let first = text.0.lines().find(|line| !line.starts_with('#')).unwrap();
    expect_error(get_without_sign_in(format!("{}/{first}", text.1)).await, 403, "SIGNATURE_INVALID").await;
}

#[tokio::test]
async fn a_signed_url_opens_one_channel_until_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    make_film(folder.path(), "a.mp4", "-c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let body = json!({"name": "One", "startAt": start, "items": [{"path": folder.path()}]});
    let (one, other) = (add_channel(&server, &body).await, add_channel(&server, &body).await);
    let body = json!({"channelId": one["id"], "ttlSeconds": 60});
    let signed = expect_success(server.post("/api/livetv/sign", &body).send().await.unwrap(), 200).await;
    let url = signed["url"].as_str().unwrap();
    let target = url.strip_prefix(&server.base).expect("an address of this server").to_owned();
    let first = fetch_playlist(&server, &target).await;
    assert!(!fetch_segments(&server, &first).await.is_empty());
    // No child URL outlives the signature that opened its playlist, directly or through another child URL.
    let one_watch = format!("/api/livetv/watch/{}", one["id"]);
    let child = |text: &str| text.lines().find(|line| !line.starts_with('#')).unwrap().to_owned();
    let grant = |address: &str| address.split_once("?st=").unwrap().1.split('&').next().unwrap().to_owned();
    let second = fetch_playlist(&server, &format!("{one_watch}/live.m3u8?st={}", grant(&child(&first.0)))).await;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let watched = client.get(format!("{}{one_watch}?wait=15&{}", server.base, target.split_once('?').unwrap().1));
    let location = watched.send().await.unwrap().headers()["location"].to_str().unwrap().to_owned();
    let third = fetch_playlist(&server, &location).await;
    let mut addresses = vec![target.clone(), location];
    for (text, base) in [&first, &second, &third] {
        addresses.extend(text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{base}/{line}")));
    }
    for address in &addresses[1..] {
        assert_eq!(grant(address).split('.').next().unwrap(), signed["exp"], "{address}");
    }
    let watch = |id: &serde_json::Value| format!("/watch/{id}/");
    let other_target = target.replace(&watch(&one["id"]), &watch(&other["id"]));
    expect_error(server.request(Method::GET, &other_target).send().await.unwrap(), 403, "SIGNATURE_INVALID").await;
    let unsigned = target.split("&exp").next().unwrap();
    expect_error(server.request(Method::GET, unsigned).send().await.unwrap(), 401, "UNAUTHORIZED").await;
    // From the start of the current programme: the playlist that a player reloads continues with the next programme.
    let body = json!({"channelId": one["id"], "fromStart": true});
    let from_start = expect_success(server.post("/api/livetv/sign", &body).send().await.unwrap(), 200).await;
    let target_from_start = from_start["url"].as_str().unwrap().strip_prefix(&server.base).unwrap().to_owned();
    let first = async || numbered_segments(&fetch_playlist(&server, &target_from_start).await.0)[0].clone();
    let before = first().await;
    // The same for a player with a stream token and without `watchSession`.
    let request = json!({"name": "Kitchen", "channelIds": null});
    let created = expect_success(server.post("/api/livetv/tokens", &request).send().await.unwrap(), 201).await;
    let live_target = format!("{one_watch}/live.m3u8?token={}", created["secret"].as_str().unwrap());
    let first_from_start_by_token =
        async || numbered_segments(&fetch_playlist(&server, &format!("{live_target}&fromStart=1")).await.0)[0].clone();
    let first_live_by_token = async || numbered_segments(&fetch_playlist(&server, &live_target).await.0)[0].clone();
    let (token_before, live_before) = (first_from_start_by_token().await, first_live_by_token().await);
    assert_eq!(token_before, before);
    server.service.clock.advance(Duration::from_secs(20));
    assert_eq!(first().await, before);
    assert_eq!(first_from_start_by_token().await, before);
    assert_ne!(first_live_by_token().await, live_before, "the live playlist still advances");
    server.service.clock.advance(Duration::from_secs(100));
    for address in addresses {
        expect_error(server.request(Method::GET, &address).send().await.unwrap(), 403, "SIGNATURE_EXPIRED").await;
    }
}

#[tokio::test]
async fn repeated_watch_requests_share_one_task_of_the_programme() {
    let folder = tempfile::tempdir().unwrap();
    media::flash_and_beep(&folder.path().join("a.avi"), 120, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let server = kit::start_server(&[folder.path()]).await;
    // No segment is made in time.
    server.service.renditions.backends.force(Arc::new(FakeBackend::with_segment_time(Duration::from_secs(60))));
    let start = (Timestamp::now() - Duration::from_secs(30)).to_string();
    let made =
        add_channel(&server, &json!({"name": "Slow", "startAt": start, "items": [{"path": folder.path()}]})).await;
    for session in ["sofa", "kitchen"] {
        let target = format!("/api/livetv/watch/{}?watchSession={session}", made["id"]);
        let starting = expect_success(server.get(&target).send().await.unwrap(), 202).await;
        assert_eq!(starting["progress"], 30, "{starting}");
    }
    let channel = server.service.channels.get(made["id"].as_u64().unwrap() as u32).unwrap();
    let first = live_channels::listed_segments(&server.service, &channel, PlaylistView::Live).first.unwrap();
    let segment_id = (first.programme_start_ms, first.index);
    let segment = live_channels::ScheduledSegment::find(&server.service, &channel, segment_id, "bedroom").unwrap();
    assert!(live_channels::make_ahead(&server.service, &channel, &segment).unwrap().is_none(), "one task is under way");
}

#[tokio::test]
async fn start_over_after_a_live_view_begins_with_the_programme_on_air() {
    let folder = tempfile::tempdir().unwrap();
    make_film(folder.path(), "a.mp4", "-c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let body = json!({"name": "One", "startAt": start, "items": [{"path": folder.path()}]});
    let channel = add_channel(&server, &body).await;
    // Stops the clock five seconds into the next programme.
    let next = async || {
        let now = get(&server, &format!("/api/livetv/now?channelId={}", channel["id"])).await;
        let remaining = now["current"]["remainingSeconds"].as_f64().unwrap();
        server.service.clock.advance(Duration::from_secs_f64(remaining + 5.0));
    };
    let watch = format!("/api/livetv/watch/{}/live.m3u8?watchSession=sofa", channel["id"]);
    let first = async |query: &str| {
        let answer = server.get(&format!("{watch}{query}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{query}");
        numbered_segments(&answer.text().await.unwrap())[0].clone()
    };
    server.service.clock.advance(Duration::ZERO);
    next().await;
    let before = first("&fromStart=1").await;
    next().await;
    assert_eq!(first("&fromStart=1").await, before, "the view keeps its start");
    // A catch-up view of the same name records none.
    first("").await;
    first(&format!("&at={}", server.service.clock.now().as_second() - 30)).await;
    let after = first("&fromStart=1").await;
    assert!(after.0 > before.0, "{after:?} after {before:?}");
    assert!(after.1.ends_with("-00000.ts"), "{after:?}");
}

#[tokio::test]
async fn viewers_are_counted_and_an_unwatched_channel_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    media::flash_and_beep(&folder.path().join("a.avi"), 6, "-c:v mpeg4 -q:v 5 -c:a mp3");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let body = json!({"name": "Idle", "startAt": start, "items": [{"path": folder.path()}]});
    for _ in 0..40 {
        add_channel(&server, &body).await;
    }
    let made = add_channel(&server, &body).await;
    let all = get(&server, CHANNELS).await;
    assert!(all["channels"].as_array().unwrap().iter().all(|channel| channel["state"] == "idle"));
    assert_eq!(server.service.renditions.active_jobs(), 0);

    let watch = format!("/api/livetv/watch/{}", made["id"]);
    let first = server.get(&format!("{watch}?wait=15&watchSession=sofa")).send().await.unwrap();
    assert_eq!(first.status(), 200);
    let channel_now = get(&server, &format!("{CHANNELS}/{}", made["id"])).await["channel"].clone();
    assert_eq!(
        (&channel_now["state"], &channel_now["viewers"], &channel_now["watchUrl"]),
        (&json!("live"), &json!(1), &json!(watch))
    );
    let renamed =
        send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{}", made["id"]), &json!({"name": "Watched"})).await;
    let renamed = expect_success(renamed, 200).await["channel"].clone();
    assert_eq!((&renamed["state"], &renamed["viewers"]), (&json!("live"), &json!(1)));
    // An invalid preference is ignored.
    let request = server.get(&format!("{watch}?watchSession=sofa")).header("prefer", "wait=nan");
    assert!(request.send().await.unwrap().status().is_success());
    let leave = async || {
        let request = server.request(Method::DELETE, &format!("{watch}?watchSession=sofa")).bearer_auth(&server.token);
        expect_success(request.send().await.unwrap(), 200).await
    };
    assert_eq!(leave().await, json!({"ended": true}));
    assert_eq!(leave().await, json!({"ended": false}));
    // Leaving a channel that was deleted while it was watched is not refused.
    let deleted_id = add_channel(&server, &body).await["id"].clone();
    let address = format!("/api/livetv/watch/{deleted_id}?wait=15&watchSession=sofa");
    assert_eq!(server.get(&address).send().await.unwrap().status(), 200);
    let deleted = send_as_admin(&server, Method::DELETE, &format!("{CHANNELS}/{deleted_id}"), &json!({})).await;
    expect_success(deleted, 200).await;
    for ended in [true, false] {
        let answer = server.request(Method::DELETE, &address).bearer_auth(&server.token).send().await.unwrap();
        assert_eq!(expect_success(answer, 200).await, json!({"ended": ended}));
    }

    let warm =
        send_as_admin(&server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [made["id"], 9999]})).await;
    let warm = expect_success(warm, 202).await;
    assert_eq!((&warm["accepted"], &warm["channels"][1]["reason"]), (&json!(1), &json!("unsupported")));
    assert_eq!(get(&server, "/api/livetv/warm").await["channels"][0]["channelId"], made["id"]);

    for (query, status, code) in [
        ("?at=tomorrow", 400, "VALIDATION_ERROR"),
        ("?at=1000000000", 404, "NOT_FOUND"),
        ("?watchSession=a%20b", 400, "VALIDATION_ERROR"),
        ("?wait=99", 400, "VALIDATION_ERROR"),
    ] {
        expect_error(server.get(&format!("{watch}{query}")).send().await.unwrap(), status, code).await;
    }
    expect_error(server.get("/api/livetv/watch/9999").send().await.unwrap(), 404, "CHANNEL_NOT_FOUND").await;
    for name in ["0-00000.ts", "x.ts", "master.m3u8"] {
        let answer = server.get(&format!("{watch}/{name}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{name}");
    }
}
