//! Durability of the clock of an on-demand channel: restarts and concurrent changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::domain::schedule::ScheduleMode;
use hearthcast::service::Service;
use hearthcast::service::channels::{ChannelChange, Channels};

use super::{ParsedPlaylist, current_programme, start_on_demand};
use crate::kit::program::ServerProcess;
use crate::kit::response::expect_success;
use crate::kit::service_config::service_config;
use crate::kit::wait::MAX_WAIT;
use crate::livetv::make_audio_files;

/// Opens the service over the state of a stopped program.
fn open_service(program: &ServerProcess, films: &Path) -> Arc<Service> {
    let mut config = service_config(&program.state_folder(), &program.state_folder().join("cache"));
    config.roots = vec![Root { id: "r0".into(), path: films.to_path_buf() }];
    let deadline = Instant::now() + MAX_WAIT;
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
async fn the_channel_clock_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    make_audio_files(folder.path(), &[3000]);
    let mut program = ServerProcess::start(&[folder.path()], &[]).await;
    program.kill();
    let change = ChannelChange {
        name: Some("Mine".into()),
        mode: Some(ScheduleMode::Sequential),
        on_demand: Some(true),
        requested_items: Some(vec![RequestedItem::from_path(folder.path().to_str().unwrap())]),
        ..ChannelChange::default()
    };
    let service = open_service(&program, folder.path());
    let id = service.add_channel(change).await.unwrap().id;
    drop(service);
    program.restart().await;
    let position = async |program: &ServerProcess| {
        let now =
            expect_success(program.get(&format!("/api/livetv/now?channelId={id}")).send().await.unwrap(), 200).await;
        let server_time: jiff::Timestamp = now["serverTime"].as_str().unwrap().parse().unwrap();
        (server_time.as_millisecond(), (now["current"]["offsetSeconds"].as_f64().unwrap() * 1000.0).round() as i64)
    };
    let watch = async |program: &ServerProcess| {
        let target = format!("/api/livetv/watch/{id}/live.m3u8?watchSession=sofa");
        let answer = program.get(&target).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        ParsedPlaylist::parse((answer.text().await.unwrap(), String::new()))
    };
    assert!(position(&program).await.1 <= 6000, "no viewer came");
    let first = watch(&program).await;
    let (time_before, position_before) = position(&program).await;
    assert!(position_before > 0);
    program.restart().await;
    let second = watch(&program).await;
    second.assert_follows(&first);
    let (time_after, position_after) = position(&program).await;
    // Unless the machine was so busy that the viewer timed out meanwhile.
    assert!(
        (position_after - position_before) == (time_after - time_before) || time_after - time_before > 20_000,
        "{position_before} at {time_before}, {position_after} at {time_after}"
    );

    // The state opened by another service has the same position.
    let stop_watching = program.client.delete(format!("{}/api/livetv/watch/{id}?watchSession=sofa", program.base));
    expect_success(stop_watching.bearer_auth(&program.token).send().await.unwrap(), 200).await;
    let (_, paused_position) = position(&program).await;
    program.kill();
    let service = open_service(&program, folder.path());
    let channel = service.channels.get(id).unwrap();
    assert!(channel.is_on_demand() && channel.clock.as_ref().unwrap().is_paused_at(service.clock.now_ms()));
    drop((channel, service));
    program.restart().await;
    assert_eq!(position(&program).await.1, paused_position, "the channel is paused where it was");
    watch(&program).await.assert_follows(&second);
}

/// Concurrent starts, stops and skips run one after the other, and none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_skips_are_serialized() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[100, 101, 102, 103, 104, 105, 106]);
    let (server, channel) = start_on_demand(folder.path(), &files).await;
    let id = channel["id"].as_u64().unwrap() as u32;
    let channels = &server.service.channels;
    let skips = futures_util::future::join_all((0..5).map(|_| channels.skip_programme(id)));
    let runs =
        futures_util::future::join_all((0..20).map(|_| async { channels.extend_clock(&channels.get(id)?).await }));
    let halts = futures_util::future::join_all((0..5).map(|_| channels.pause_clock(id, || false)));
    let (skips, runs, ()) = tokio::join!(skips, runs, async { drop(halts.await) });
    assert!(skips.iter().all(Result::is_ok) && runs.iter().all(Result::is_ok));
    assert_eq!(current_programme(&server, &channel["id"]).await.0, "5", "five skips");
    let clock_in_memory = channels.get(id).unwrap().clock.clone().unwrap();
    let stored_channels = Channels::open(server.service.store.clone(), server.service.clock.clone());
    assert_eq!(
        stored_channels.unwrap().get(id).unwrap().clock.as_ref().map(|clock| clock.intervals().to_vec()),
        Some(clock_in_memory.intervals().to_vec())
    );
}
