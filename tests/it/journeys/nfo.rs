//! Descriptions from NFO files: media info has them, and hostile files harm neither the server nor media info.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::config::IsolationSetting;
use hearthcast::domain::worker::Stage;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::kit::decoder_faults::worker_program;
use crate::kit::media::flash_and_beep;
use crate::kit::program::ServerProcess;
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

const FILM: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<movie>
  <title>Paper Boats</title><year>2004</year><plot>Boats of paper &amp; ink.</plot><genre>Animation</genre>
  <ratings><rating name=\"imdb\" max=\"10\"><value>6.4</value><votes>1800</votes></rating></ratings>
  <actor><name>Ines Dahl</name><role>The captain</role></actor><uniqueid type=\"imdb\">tt0000077</uniqueid>
</movie>
https://www.example.com/movie/77?a=1&b=2";

fn info_url(path: &Path) -> String {
    let path = path.to_str().expect("plain names");
    format!("/api/stream/info/full?{}", serde_urlencoded::to_string([("path", path)]).expect("plain text"))
}

fn make_film(path: &Path) {
    flash_and_beep(path, 2, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac");
}

/// The description in media info.
async fn description(request: RequestBuilder) -> Value {
    let info = expect_success(send_until_ready(request).await, 200).await;
    assert_eq!(info["probe"]["container"], "mp4", "the rest of media info is complete: {info}");
    info.get("description").expect("the field is always present").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn media_info_describes_films_and_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let season = folder.path().join("Harbour Watch/Season 2");
    fs::create_dir_all(&season).unwrap();
    let (film, episode) = (folder.path().join("boats.mp4"), season.join("e05.mp4"));
    make_film(&film);
    fs::copy(&film, &episode).unwrap();
    fs::write(folder.path().join("boats.nfo"), FILM).unwrap();
    // As some programs of Windows write it.
    let utf16 =
        "\u{feff}<episodedetails><title>Nebel – Fog</title><season>2</season><episode>5</episode></episodedetails>";
    let utf16: Vec<u8> = utf16.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(season.join("e05.nfo"), utf16).unwrap();
    let show = "<tvshow><title>Harbour Watch</title><genre>Crime</genre></tvshow>";
    fs::write(folder.path().join("Harbour Watch/tvshow.nfo"), show).unwrap();
    for isolation in [IsolationSetting::Process, IsolationSetting::None] {
        let server = kit::start_server_with(&[folder.path()], |config| config.isolation = isolation).await;
        let film = description(server.get(&info_url(&film))).await;
        assert_eq!(film["plot"], "Boats of paper & ink.");
        let fields = (&film["kind"], &film["title"], &film["year"], &film["genres"]);
        assert_eq!(fields, (&json!("movie"), &json!("Paper Boats"), &json!(2004), &json!(["Animation"])));
        assert_eq!(film["people"], json!([{"name": "Ines Dahl", "role": "The captain", "kind": "actor"}]));
        assert_eq!(film["ratings"], json!([{"source": "imdb", "value": 6.4, "votes": 1800}]));
        assert_eq!(film["uniqueIds"], json!([{"source": "imdb", "id": "tt0000077"}]));
        let episode = description(server.get(&info_url(&episode))).await;
        let fields = (&episode["title"], &episode["showTitle"], &episode["season"], &episode["episode"]);
        assert_eq!(fields, (&json!("Nebel – Fog"), &json!("Harbour Watch"), &json!(2), &json!(5)));
        assert_eq!((&episode["genres"], &episode["plot"]), (&json!(["Crime"]), &Value::Null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_files_leave_memory_and_media_info_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let (film, nfo) = (folder.path().join("film.mp4"), folder.path().join("film.nfo"));
    make_film(&film);
    let server = ServerProcess::start(&[folder.path()], &[]).await;
    let describe = || description(server.get(&info_url(&film)));
    fs::write(&nfo, FILM).unwrap();
    assert_eq!(describe().await["title"], "Paper Boats");
    let laughs: String =
        (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let hostile: [(&str, Vec<u8>); 8] = [
        ("laughs", format!("<!DOCTYPE l [<!ENTITY l0 \"ha\">{laughs}]><movie><plot>&l9;</plot></movie>").into()),
        (
            "an external entity",
            b"<!DOCTYPE l [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><movie><plot>&x;</plot></movie>".to_vec(),
        ),
        ("nesting", format!("<movie>{}{}</movie>", "<a>".repeat(10_000), "</a>".repeat(10_000)).into()),
        ("50 MB", format!("<movie><plot>{}</plot></movie>", "x".repeat(50 << 20)).into()),
        ("many elements", format!("<movie>{}</movie>", "<a/>".repeat(200_000)).into()),
        ("NUL bytes", vec![0; 1 << 20]),
        ("a part", FILM.as_bytes()[..FILM.len() / 2].to_vec()),
        ("noise", (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
    ];
    let before_kib = server.memory_kib();
    for round in 0..4 {
        for (name, bytes) in &hostile {
            // Another version each time.
            fs::write(&nfo, [&bytes[..], &b" ".repeat(round)].concat()).unwrap();
            assert_eq!(describe().await, Value::Null, "{name}");
        }
    }
    let grown_kib = server.memory_kib().saturating_sub(before_kib);
    assert!(grown_kib < 24 << 10, "the server has grown by {grown_kib} KiB");
    fs::write(&nfo, FILM).unwrap();
    assert_eq!(describe().await["title"], "Paper Boats");
}

/// Media info of a film whose NFO file makes its worker fail.
async fn fail_while_parsing(fault: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first.mp4", "second.mp4"].map(|name| folder.path().join(name));
    make_film(&first);
    fs::copy(&first, &second).unwrap();
    let hostile = format!("<movie><title>hearthcast-nfo-fault-{fault}</title></movie>");
    fs::write(first.with_extension("nfo"), &hostile).unwrap();
    let configure = |config: &mut hearthcast::config::Config| config.worker_program = worker_program().to_owned();
    let server: Server = kit::start_server_with(&[folder.path()], configure).await;
    assert_eq!(description(server.get(&info_url(&first))).await, Value::Null);
    let deadline = Instant::now() + MAX_WAIT;
    while server.service.quarantine.is_empty() {
        assert!(Instant::now() < deadline, "nothing is in quarantine after {fault}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let faults: Vec<_> = server.service.quarantine.list().into_iter().map(|entry| entry.fault).collect();
    let marked: Vec<_> = faults.iter().map(|fault| (fault.path.as_str(), fault.key.stage)).collect();
    assert_eq!(marked, [(first.with_extension("nfo").to_str().unwrap(), Stage::Nfo)], "{faults:?}");
    // The same bytes beside another film reach no worker.
    let deaths = server.service.isolation.status().restarted;
    fs::write(second.with_extension("nfo"), &hostile).unwrap();
    assert_eq!(description(server.get(&info_url(&second))).await, Value::Null);
    assert_eq!(server.service.isolation.status().restarted, deaths);
    fs::write(second.with_extension("nfo"), FILM).unwrap();
    assert_eq!(description(server.get(&info_url(&second))).await["title"], "Paper Boats");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nfo_file_that_crashes_its_worker_goes_in_quarantine() {
    fail_while_parsing("null-write").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nfo_file_that_hangs_its_worker_goes_in_quarantine() {
    fail_while_parsing("sleep").await;
}
