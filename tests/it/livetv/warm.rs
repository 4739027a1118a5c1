//! Channels that are kept ready without viewers.

use std::sync::Arc;
use std::time::Duration;

use hearthcast::domain::channel::Channel;
use hearthcast::domain::live_window::{self, LiveSegment, PlaylistView};
use hearthcast::domain::time::ChannelMs;
use hearthcast::service::live::{self, ListedSegments};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use super::play::{fetch_playlist, fetch_segments};
use super::{add_channel, get, send_as_admin};
use crate::kit::response::expect_success;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, media, player};

/// The segments of a playlist from where players begin, and those of the next two seconds.
fn needed_slots(server: &Server, channel: &Channel) -> Vec<LiveSegment> {
    let ListedSegments { segments, first, now_ms } =
        live::listed_segments(&server.service, channel, PlaylistView::Live);
    let first = first.unwrap();
    let next = live_window::segments_from(&channel.definition, None, now_ms)
        .take_while(|slot| slot.start < (now_ms + 2_000).to_ticks());
    segments.iter().copied().filter(|slot| slot.media_sequence >= first.media_sequence).chain(next).collect()
}

fn are_made(server: &Server, channel: &Arc<Channel>, slots: &[LiveSegment]) -> Vec<bool> {
    slots.iter().map(|slot| live::is_made(&server.service, channel, slot)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_channel_has_the_next_segments_of_its_playlist() {
    let folder = tempfile::tempdir().unwrap();
    // Of different lengths, because identical renditions are encoded once.
    for seconds in 30..34 {
        let path = folder.path().join(format!("{seconds}.avi"));
        media::flash_and_beep(&path, seconds, "-c:v mpeg4 -q:v 5 -c:a ac3");
    }
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    server.service.clock.advance(Duration::ZERO);
    let start = (server.service.clock.now() - Duration::from_secs(70)).to_string();
    let body =
        json!({"name": "Ready", "startAt": start, "items": [{"path": folder.path()}], "scheduleMode": "sequential"});
    let id = add_channel(&server, &body).await["id"].clone();
    let channel = server.service.channels.get(id.as_u64().unwrap() as u32).unwrap();
    assert_eq!(
        are_made(&server, &channel, &needed_slots(&server, &channel)).iter().filter(|is_made| **is_made).count(),
        0
    );
    let warm = send_as_admin(&server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id]})).await;
    assert_eq!(expect_success(warm, 202).await["channels"][0]["state"], "warming");

    // Across the end of a programme, where the only encode slot passes to the next one.
    for _ in 0..12 {
        let deadline = Instant::now() + MAX_WAIT;
        let slots = loop {
            let slots = needed_slots(&server, &channel);
            if are_made(&server, &channel, &slots).iter().all(|is_made| *is_made) {
                break slots;
            }
            assert!(Instant::now() < deadline, "{slots:?}: {:?}", are_made(&server, &channel, &slots));
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(get(&server, "/api/livetv/warm").await["channels"][0]["state"], "warm");
        // No earlier than needed: at most 20 s before a programme begins, and in steps of 20 s.
        let now_ms = ChannelMs::without_clock(server.service.clock.now_ms());
        let far_slots: Vec<LiveSegment> =
            live_window::segments_from(&channel.definition, None, now_ms + 46_000).take(3).collect();
        assert_eq!(are_made(&server, &channel, &far_slots), [false; 3], "at {now_ms:?}");
        server.service.clock.advance(Duration::from_secs(2));
        let listed = live::listed_segments(&server.service, &channel, PlaylistView::Live).segments;
        let current_slots: Vec<LiveSegment> =
            listed.iter().copied().filter(|slot| slot.media_sequence >= slots[0].media_sequence).collect();
        assert!(
            current_slots.len() > 3 && are_made(&server, &channel, &current_slots).iter().all(|is_made| *is_made),
            "a listed segment is missing"
        );
    }
    let target = format!("/api/livetv/watch/{id}");
    let url = server.get(&format!("{target}?wait=15&watchSession=sofa")).send().await.unwrap().url().clone();
    let playlist = fetch_playlist(&server, &format!("{}?{}", url.path(), url.query().unwrap())).await;
    assert!(!fetch_segments(&server, &playlist).await.is_empty());

    // A session takes the encode slot even from a channel that is to be kept warm.
    let leave = server.request(Method::DELETE, &format!("{target}?watchSession=sofa")).bearer_auth(&server.token);
    assert_eq!(expect_success(leave.send().await.unwrap(), 200).await, json!({"ended": true}));
    server.service.clock.advance(Duration::from_secs(20));
    let other = folder.path().join("other.avi");
    media::flash_and_beep(&other, 6, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let (status, started) = player::start(&server, &other, json!({})).await;
    assert_eq!(status, 200, "{started}");
    player::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_channels_a_viewer_may_zap_to_are_ready_while_slots_are_free() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 2).await;
    let start = (server.service.clock.now() - Duration::from_secs(70)).to_string();
    let mut channels = Vec::new();
    for number in 1..=3 {
        // Of different lengths, because identical renditions are encoded once.
        let path = folder.path().join(format!("{number}.avi"));
        media::flash_and_beep(&path, 60 + number, "-c:v mpeg4 -q:v 5 -c:a ac3");
        let body =
            json!({"name": format!("Zap {number}"), "number": number, "startAt": start, "items": [{"path": path}]});
        let id = add_channel(&server, &body).await["id"].as_u64().unwrap();
        channels.push(server.service.channels.get(id as u32).unwrap());
    }
    let [one, two, three] = &channels[..] else { panic!("three channels") };
    let is_ready = |channel: &Arc<Channel>| {
        are_made(&server, channel, &needed_slots(&server, channel)).iter().all(|is_made| *is_made)
    };
    let watch = async |channel: &Channel| {
        let target = format!("/api/livetv/watch/{}?wait=15&watchSession=sofa", channel.id);
        let url = server.get(&target).send().await.unwrap().url().clone();
        let playlist = fetch_playlist(&server, &format!("{}?{}", url.path(), url.query().unwrap())).await;
        assert!(!fetch_segments(&server, &playlist).await.is_empty());
    };
    // With two slots, of which the viewer has one: the next channel of the list, then in the viewer's direction.
    for (watched, likely) in [(one, two), (two, three), (one, three)] {
        watch(watched).await;
        let deadline = Instant::now() + MAX_WAIT;
        while !is_ready(likely) {
            assert!(Instant::now() < deadline, "channel {} is not made ready", likely.settings.number);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // A film takes the slot at once.
    let film = folder.path().join("film.avi");
    media::flash_and_beep(&film, 6, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let (status, started) = player::start(&server, &film, json!({})).await;
    assert_eq!(status, 200, "{started}");
    player::stop(&server, &started).await;
}
