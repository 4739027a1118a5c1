//! The speed of remote workers: two against one, and a segment of a worker against one of the server itself.

use std::path::Path;
use std::time::Duration;

use super::media::{Encoder, copy_film, make_film, write_stand_in};
use super::nats_server::NatsServer;
use super::server::{Installation, Server};
use super::viewers::{Playback, Session, encode_films};
use super::worker::Worker;
use crate::workers::{median, percentile, print_floor};

/// Workers that encode in each of the measurements, in this order.
const WORKERS_IN_TURN: [usize; 6] = [1, 2, 2, 1, 1, 2];
const FILMS: usize = 2;
/// Of an encoder that takes this long whatever the processor does.
const SEGMENT_TIME: Duration = Duration::from_millis(500);
/// Of the encoder by which the added time is measured.
const ALIGNED_SEGMENT_TIME: Duration = Duration::from_millis(250);
/// Films of 320x180 are encoded with this limit, thousands of bits per second.
const SMALL: Playback = Playback::Encode { max_kbps: 90 };
/// Films of 1280x720 are encoded in full size with this limit.
const LARGE: Playback = Playback::Encode { max_kbps: 3_900 };

/// Time of the films by one worker, divided by that by two.
pub async fn measure_two_workers(folder: &Path) {
    let fixed = Encoder::FixedTime { segment: SEGMENT_TIME };
    let small = ("testsrc2=s=320x180:r=25:d=48", "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let ratio = measure_ratio(&folder.join("fixed"), [fixed; 2], small, SMALL).await;
    print_floor("two workers, fixed-time encoder: speed of one", ratio, "", ">=", 1.9);
    let cores = [0, 1].map(|core| Encoder::OneCore { core });
    let large = (
        "testsrc2=s=1280x720:r=25:d=32,noise=alls=12:allf=t",
        "-c:v libx264 -preset ultrafast -g 50 -b:v 4M -maxrate 4M -bufsize 4M -pix_fmt yuv420p -c:a aac",
    );
    let ratio = measure_ratio(&folder.join("x264"), cores, large, LARGE).await;
    print_floor("two workers, x264 on one core each: speed of one", ratio, "", ">=", 1.6);
}

async fn measure_ratio(folder: &Path, encoders: [Encoder; 2], film: (&str, &str), playback: Playback) -> f64 {
    let Some(nats) = NatsServer::start() else { return f64::NAN };
    std::fs::create_dir_all(folder).expect("a fresh folder");
    let installation = install(folder, &nats, Encoder::Refusing).await;
    let original = installation.media.join("film.mp4");
    make_film(&original, film.0, film.1);
    let server = start_server(&installation);
    let [first, second] = [0, 1].map(|number| {
        (folder.join(format!("worker-{number}")), write_stand_in(folder, &format!("ffmpeg-{number}"), encoders[number]))
    });
    let mut second_worker = Worker::enrol(&server, &second.0, &second.1).await;
    server.wait_for_workers(1).await;
    second_worker.kill();
    server.wait_for_workers(0).await;
    let _first_worker = Worker::enrol(&server, &first.0, &first.1).await;
    server.wait_for_workers(1).await;
    let (mut times, mut running) = ([Vec::new(), Vec::new()], 1);
    for (turn, workers) in WORKERS_IN_TURN.into_iter().enumerate() {
        if workers < running {
            second_worker.kill();
        } else if workers > running {
            second_worker.run(&server.base);
        }
        running = workers;
        server.wait_for_workers(workers).await;
        let films = copy_film(&original, (0..FILMS).map(|number| format!("{turn}-{number}")));
        let Some(time) = encode_films(&server.base, &installation.token, &films, playback, workers).await else {
            println!("{workers} workers: a run was not made by a worker");
            continue;
        };
        println!("{workers} workers, {FILMS} films: {:.2} s", time.as_secs_f64());
        times[workers - 1].push(time.as_secs_f64());
        films.iter().for_each(|film| std::fs::remove_file(film).expect("a film"));
    }
    median(&times[0]) / median(&times[1])
}

/// The time by which segments of a worker arrive later than those of the server itself.
pub async fn measure_added_time(folder: &Path) {
    let Some(nats) = NatsServer::start() else { return };
    let folder = &folder.join("added");
    std::fs::create_dir_all(folder).expect("a fresh folder");
    let aligned = Encoder::Aligned { segment: ALIGNED_SEGMENT_TIME };
    let installation = install(folder, &nats, aligned).await;
    let original = installation.media.join("film.mp4");
    make_film(&original, "testsrc2=s=320x180:r=25:d=192", "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let films = copy_film(&original, (0..4).map(|number| number.to_string()));
    let server = start_server(&installation);
    let mut local = Vec::new();
    for film in &films[..2] {
        local.extend(fetch_film(&server, &installation, film).await.0);
    }
    let ffmpeg = write_stand_in(folder, "ffmpeg-worker", aligned);
    let _worker = Worker::enrol(&server, &folder.join("worker"), &ffmpeg).await;
    server.wait_for_workers(1).await;
    let (mut remote, mut remote_runs) = (Vec::new(), 0);
    for film in &films[2..] {
        let (delays, runs) = fetch_film(&server, &installation, film).await;
        remote.extend(delays);
        remote_runs += runs;
    }
    let added: Vec<f64> = local.iter().zip(&remote).map(|(local, remote)| remote - local).collect();
    println!("{} segments; the worker had a run in {remote_runs} of 2 films", added.len());
    for (name, delays) in [("of the server", &local), ("of a worker", &remote)] {
        let (middle, late) = (median(delays), percentile(delays, 0.99));
        println!("segments {name}: {middle:.1} ms after they are encoded (p99 {late:.1} ms)");
    }
    print_floor("added by a worker, median", median(&added), " ms", "<=", 10.0);
    println!("added by a worker, p99: {:.1} ms", percentile(&added, 0.99));
}

/// The delays of all segments of a film, and whether a worker had a run meanwhile (1) or not (0).
async fn fetch_film(server: &Server, installation: &Installation, film: &Path) -> (Vec<f64>, u64) {
    let session = Session::start(&server.base, &installation.token, film, SMALL).await;
    let runs = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.count_workers().await.1
    };
    let fetched = tokio::join!(session.fetch_aligned(ALIGNED_SEGMENT_TIME), runs);
    session.stop().await;
    fetched
}

/// The settings of a server with a queue, whose own ffmpeg is a stand-in.
async fn install(folder: &Path, nats: &NatsServer, encoder: Encoder) -> Installation {
    let mut installation = Installation::make(folder, None).await;
    let ffmpeg = write_stand_in(folder, "ffmpeg-server", encoder);
    installation.settings = vec![
        ("HEARTHCAST_QUEUE", nats.url.clone()),
        ("HEARTHCAST_BACKEND", "ffmpeg".to_owned()),
        ("HEARTHCAST_FFMPEG", ffmpeg.display().to_string()),
    ];
    installation
}

/// Starts a server that counts one core, so that workers have more processors and get all runs they can take. Afterwards it
/// may run on all.
fn start_server(installation: &Installation) -> Server {
    let mut server = installation.start("server", "127.0.0.1:0", Some(1));
    server.wait_until_listening();
    server.release_core();
    server
}
