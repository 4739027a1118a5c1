//! Channels that are kept ready without viewers.

use std::sync::Arc;
use std::time::Duration;

use hearthcast::domain::channel::Channel;
use hearthcast::domain::live_window::{self, LiveSegment, PlaylistView};
use hearthcast::service::live;
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use super::play::{fetch, list};
use super::{add, get, send};
use crate::kit::answer::success;
use crate::kit::{self, Server, film, play};

/// The segments of a playlist from where players begin, and those of the next two seconds.
fn wanted(server: &Server, channel: &Channel) -> Vec<LiveSegment> {
    let (listed, now_ms) = live::listed_segments(&server.service, channel, PlaylistView::Live);
    let first = live::first_requested_segment(&listed, channel.output.target_seconds).unwrap();
    let next = live_window::segments_from(&channel.definition, None, now_ms).take_while(|slot| slot.start_ticks < (now_ms + 2_000) * 90);
    listed.iter().copied().filter(|slot| slot.media_sequence >= first.media_sequence).chain(next).collect()
}

fn made(server: &Server, channel: &Arc<Channel>, slots: &[LiveSegment]) -> Vec<bool> {
    slots.iter().map(|slot| live::is_made(&server.service, channel, slot)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_kept_ready_has_what_its_list_is_about_to_name() {
    let folder = tempfile::tempdir().unwrap();
    // Of different lengths, because identical renditions are encoded once.
    for seconds in 30..34 {
        let path = folder.path().join(format!("{seconds}.avi"));
        film::flash_and_beep(&path, seconds, "-c:v mpeg4 -q:v 5 -c:a ac3");
    }
    let server = kit::server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    server.service.clock.advance(Duration::ZERO);
    let start = (server.service.clock.now() - Duration::from_secs(70)).to_string();
    let body =
        json!({"name": "Ready", "startAt": start, "items": [{"path": folder.path()}], "scheduleMode": "sequential"});
    let id = add(&server, &body).await["id"].clone();
    let channel = server.service.channels.get(id.as_u64().unwrap() as u32).unwrap();
    assert_eq!(made(&server, &channel, &wanted(&server, &channel)).iter().filter(|made| **made).count(), 0);
    let warm = send(&server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id]})).await;
    assert_eq!(success(warm, 202).await["channels"][0]["state"], "warming");

    // Across the end of a programme, where the only encode slot passes to the next one.
    for _ in 0..12 {
        let until = Instant::now() + Duration::from_secs(60);
        let slots = loop {
            let slots = wanted(&server, &channel);
            if made(&server, &channel, &slots).iter().all(|made| *made) {
                break slots;
            }
            assert!(Instant::now() < until, "{slots:?}: {:?}", made(&server, &channel, &slots));
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(get(&server, "/api/livetv/warm").await["channels"][0]["state"], "warm");
        // No earlier than needed: at most 20 s before a programme begins, and in steps of 20 s.
        let now_ms = server.service.clock.now().as_millisecond();
        let far: Vec<LiveSegment> = live_window::segments_from(&channel.definition, None, now_ms + 46_000).take(3).collect();
        assert_eq!(made(&server, &channel, &far), [false; 3], "at {now_ms}");
        server.service.clock.advance(Duration::from_secs(2));
        let (listed, _) = live::listed_segments(&server.service, &channel, PlaylistView::Live);
        let begun: Vec<LiveSegment> = listed.iter().copied().filter(|slot| slot.media_sequence >= slots[0].media_sequence).collect();
        assert!(
            begun.len() > 3 && made(&server, &channel, &begun).iter().all(|made| *made),
            "a listed segment is missing"
        );
    }
    let target = format!("/api/livetv/watch/{id}");
    let way = server.get(&format!("{target}?wait=15&watchSession=sofa")).send().await.unwrap().url().clone();
    let listed = list(&server, &format!("{}?{}", way.path(), way.query().unwrap())).await;
    assert!(!fetch(&server, &listed).await.is_empty());

    // A session takes the encode slot even from a channel that is to be kept warm.
    let leave = server.ask(Method::DELETE, &format!("{target}?watchSession=sofa")).bearer_auth(&server.token);
    assert_eq!(success(leave.send().await.unwrap(), 200).await, json!({"ended": true}));
    server.service.clock.advance(Duration::from_secs(20));
    let other = folder.path().join("other.avi");
    film::flash_and_beep(&other, 6, "-c:v mpeg4 -q:v 5 -c:a ac3");
    let (status, started) = play::start(&server, &other, json!({})).await;
    assert_eq!(status, 200, "{started}");
    play::stop(&server, &started).await;
}
