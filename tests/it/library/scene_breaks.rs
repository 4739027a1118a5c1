//! Films without chapters are interrupted where their video is black and their audio silent.

use std::time::Duration;

use hearthcast::service::catalogue::IdleTime;
use hearthcast::service::{catalogue, library_watcher, marks};
use serde_json::json;

use crate::kit;
use crate::kit::media::run_ffmpeg;
use crate::livetv::add_channel;

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_interrupts_a_film_where_it_is_black_and_silent() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("Harbour (2020).mkv");
    let black = "between(t,345,346.9)+between(t,360,363)";
    let video = format!("color=gray:s=64x36:r=2:d=700,drawbox=c=black:t=fill:enable='{black}'");
    let silent = "between(t,320,321)+between(t,345,347)";
    let audio = format!("sine=440:r=8000:d=700,volume=0:enable='{silent}'");
    let encode = "-c:v libx264 -preset ultrafast -g 4 -c:a pcm_s16le".split(' ');
    let inputs = ["-f", "lavfi", "-i", &video, "-f", "lavfi", "-i", &audio];
    run_ffmpeg(&film, &inputs.into_iter().chain(encode).collect::<Vec<_>>());
    let server = kit::start_server(&[folder.path()]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    while server.service.catalogue.films().is_empty() {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    marks::search_library(&server.service, &mut IdleTime::passed(), || true).await;
    let source = server.service.library.open_uncached(film.to_str().unwrap()).await.unwrap();
    assert_eq!(server.service.scene_breaks(&source).await, [], "stopped before the first film");
    marks::search_library(&server.service, &mut IdleTime::passed(), || false).await;
    let found = server.service.scene_breaks(&source).await;
    let seconds: Vec<f64> = found.iter().map(|at| at.as_seconds()).collect();
    assert!(matches!(seconds[..], [at] if (at - 346.0).abs() < 0.5), "{seconds:?}");

    let channel = json!({"name": "A", "items": [{"path": film}], "filler": {"mid": [{"path": film}]}});
    add_channel(&server, &channel).await;
    let definition = server.service.channels.all()[0].definition.clone();
    let breaks = &definition.revisions[0].programme_items()[0].breaks;
    assert!(matches!(breaks[..], [only] if only.position_ms.abs_diff(346_000) <= 4_000), "{breaks:?}");
}
