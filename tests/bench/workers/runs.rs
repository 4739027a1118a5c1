//! The first segment and the speed of an encode by GStreamer, in a worker and in this process.

use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::config::{BackendSetting, IsolationSetting};
use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::service::Service;
use hearthcast::service::renditions::planner::{self, PlannedPlayback, RenditionId, StartRequest};

use super::{median, print_floor};
use crate::backends;
use crate::service_config::service_config;

const ROUNDS: usize = 5;

/// Milliseconds to the first segment, and from there to the last one.
struct RunTimes {
    first: f64,
    others: f64,
}

pub async fn measure(folder: &Path) {
    let library = tempfile::tempdir_in(folder).expect("a temporary folder");
    let film = backends::make_film(library.path());
    let (mut in_process, mut in_worker) = (Vec::new(), Vec::new());
    // The first round starts GStreamer in this process, and is not counted.
    for round in 0..=ROUNDS {
        for (isolation, times) in
            [(IsolationSetting::None, &mut in_process), (IsolationSetting::Process, &mut in_worker)]
        {
            let measured = measure_run(&film, library.path(), isolation).await;
            if round > 0 {
                times.push(measured);
            }
        }
    }
    let figures =
        |times: &[RunTimes], figure_of: fn(&RunTimes) -> f64| median(&times.iter().map(figure_of).collect::<Vec<_>>());
    println!("| encode of 1080p24 to 720p, ms | first segment | the others |\n|---|---|---|");
    for (name, times) in [("in process", &in_process), ("in a worker", &in_worker)] {
        println!("| {name} | {:.0} | {:.0} |", figures(times, |t| t.first), figures(times, |t| t.others));
    }
    let added = figures(&in_worker, |t| t.first) - figures(&in_process, |t| t.first);
    print_floor("added to the first segment", added, " ms", "<=", 50.0);
    let speed = figures(&in_process, |t| t.others) / figures(&in_worker, |t| t.others);
    print_floor("speed of the others, of that in process", speed, "", ">=", 0.98);
}

/// Plays a film that the server has probed, from its first segment to its last.
async fn measure_run(film: &Path, library: &Path, isolation: IsolationSetting) -> RunTimes {
    let state = tempfile::tempdir().expect("a temporary folder");
    let mut config = service_config(&state.path().join("state"), &state.path().join("cache"));
    config.roots = vec![Root { id: "films".into(), path: library.to_owned() }];
    (config.backend, config.isolation) = (BackendSetting::Gstreamer, isolation);
    let service = Service::open(config).expect("the service opens");
    let token = service.accounts.issue_token("viewer", Role::User).await.expect("a user can be made");
    let principal = service.accounts.authenticate(&token).expect("issued just now");
    tokio::join!(service.local_encoders.test_encoders(), service.renditions.find_backends(), service.media.warm());
    plan(&service, backends::start_request(film, false)).await;
    // The spares that a server has ready.
    let deadline = Instant::now() + Duration::from_secs(30);
    while isolation == IsolationSetting::Process && service.isolation.status().ready < 2 {
        assert!(Instant::now() < deadline, "no spare: {:?}", service.isolation.status());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let started = Instant::now();
    let PlannedPlayback::Session(plan) = plan(&service, backends::start_request(film, false)).await else {
        panic!("direct")
    };
    let segments = plan.spec().grid.len();
    let session = service.sessions.start(&principal, *plan).await.expect("a session");
    session.segment(RenditionId::Rung(0), 0).await.expect("the first segment");
    let first = started.elapsed();
    for index in 1..segments {
        session.segment(RenditionId::Rung(0), index).await.expect("a segment");
    }
    let others = started.elapsed() - first;
    service.shutdown().await;
    drop((session, service));
    backends::wait_until_childless().await;
    RunTimes { first: first.as_secs_f64() * 1000.0, others: others.as_secs_f64() * 1000.0 }
}

async fn plan(service: &Service, request: StartRequest) -> PlannedPlayback {
    planner::plan_playback(service, &hearthcast::domain::visibility::Visibility::All, request).await.expect("a plan")
}
