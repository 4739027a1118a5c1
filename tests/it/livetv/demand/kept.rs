//! Durability of the clock of an on-demand channel: restarts and concurrent changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hearthcast::config::Config;
use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::domain::schedule::ScheduleMode;
use hearthcast::service::Service;
use hearthcast::service::channels::{ChannelChange, Channels};

use super::{List, on, seconds, waiting};
use crate::kit::answer::success;
use crate::kit::program::Program;
use crate::livetv::sounds;

/// Opens the service over the state of a stopped program.
fn open(program: &Program, films: &Path) -> Arc<Service> {
    let mut config = Config::new(program.state(), program.state().join("cache"));
    config.roots = vec![Root { id: "r0".into(), path: films.to_path_buf() }];
    let deadline = Instant::now() + seconds(10);
    loop {
        match Service::open(config.clone()) {
            Ok(service) => return service,
            Err(fault) => assert!(Instant::now() < deadline, "{fault}"),
        }
        std::thread::yield_now();
    }
}

/// A channel watched during a kill continues as if nothing had happened; a paused one stays paused.
#[tokio::test]
async fn a_killed_server_knows_how_far_everybody_was() {
    let folder = tempfile::tempdir().unwrap();
    sounds(folder.path(), &[3000]);
    let mut program = Program::start(&[folder.path()], &[]).await;
    program.kill();
    let change = ChannelChange {
        name: Some("Mine".into()),
        mode: Some(ScheduleMode::Sequential),
        on_demand: Some(true),
        requested_items: Some(vec![RequestedItem {
            path: folder.path().to_str().unwrap().into(),
            recursive: false,
            title: None,
            weight: 1,
        }]),
        ..ChannelChange::default()
    };
    let service = open(&program, folder.path());
    let id = service.add_channel(change).await.unwrap().id;
    drop(service);
    program.restart().await;
    let now = async |program: &Program| {
        let now = success(program.get(&format!("/api/livetv/now?channelId={id}")).send().await.unwrap(), 200).await;
        let at: jiff::Timestamp = now["serverTime"].as_str().unwrap().parse().unwrap();
        (at.as_millisecond(), (now["current"]["offsetSeconds"].as_f64().unwrap() * 1000.0).round() as i64)
    };
    let watch = async |program: &Program| {
        let target = format!("/api/livetv/watch/{id}/live.m3u8?watchSession=sofa");
        let answer = program.get(&target).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        List::of((answer.text().await.unwrap(), String::new()))
    };
    assert!(now(&program).await.1 <= 6000, "no viewer came");
    let first = watch(&program).await;
    let (at, into) = now(&program).await;
    assert!(into > 0);
    program.restart().await;
    let second = watch(&program).await;
    second.follows(&first);
    let (then, gone) = now(&program).await;
    // Unless the machine was so busy that the viewer timed out meanwhile.
    assert!((gone - into) == (then - at) || then - at > 20_000, "{into} at {at}, {gone} at {then}");

    // The state opened by another service has the same position.
    let left = program.client.delete(format!("{}/api/livetv/watch/{id}?watchSession=sofa", program.base));
    success(left.bearer_auth(&program.token).send().await.unwrap(), 200).await;
    let (_, stood) = now(&program).await;
    program.kill();
    let service = open(&program, folder.path());
    let channel = service.channels.get(id).unwrap();
    assert!(channel.is_on_demand() && channel.clock.as_ref().unwrap().is_paused_at(service.clock.now().as_millisecond()));
    drop((channel, service));
    program.restart().await;
    assert_eq!(now(&program).await.1, stood, "the channel is paused where it was");
    watch(&program).await.follows(&second);
}

/// Concurrent starts, stops and skips run one after the other, and none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn many_remotes_at_once_are_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[100, 101, 102, 103, 104, 105, 106]);
    let (server, made) = waiting(folder.path(), &files).await;
    let id = made["id"].as_u64().unwrap() as u32;
    let channels = &server.service.channels;
    let skips = futures_util::future::join_all((0..5).map(|_| channels.skip_programme(id)));
    let runs = futures_util::future::join_all((0..20).map(|_| async { channels.extend_clock(&channels.get(id)?).await }));
    let halts = futures_util::future::join_all((0..5).map(|_| channels.pause_clock(id, || false)));
    let (skips, runs, ()) = tokio::join!(skips, runs, async { drop(halts.await) });
    assert!(skips.iter().all(Result::is_ok) && runs.iter().all(Result::is_ok));
    assert_eq!(on(&server, &made["id"]).await.0, "5", "five skips");
    let kept = channels.get(id).unwrap().clock.clone().unwrap();
    let read = Channels::open(server.service.store.clone(), server.service.clock.clone());
    assert_eq!(
        read.unwrap().get(id).unwrap().clock.as_ref().map(|pace| pace.intervals().to_vec()),
        Some(kept.intervals().to_vec())
    );
}
