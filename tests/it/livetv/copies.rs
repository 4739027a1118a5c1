//! Channels in fMP4 for clients that decode HEVC and AV1: the packets of the files, on the schedule that everyone else has.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use m3u8_rs::MasterPlaylist;
use reqwest::Url;
use serde_json::{Value, json};

use super::CHANNELS;
use super::tracks::{Track, fetch, store_decodable};
use crate::kit::program::ServerProcess;
use crate::kit::response::{expect_error, expect_success, send_until_ready};
use crate::kit::{self, media};

/// Length of each film, seconds.
const FILM_SECONDS: u32 = 6;

/// Codec and file of each film, in the order of the channel. HEVC has open groups of pictures, and audio that is encoded.
const FILMS: [(&str, &str, &str); 3] = [
    ("h264", "0 avc.mp4", "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -ac 2 -ar 48000"),
    (
        "hevc",
        "1 hevc.mkv",
        "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -x265-params log-level=none:bframes=3:keyint=75:open-gop=1 -c:a ac3",
    ),
    ("av1", "2 av1.mp4", "-s 480x270 -c:v libaom-av1 -usage realtime -cpu-used 8 -g 60 -c:a aac -ac 2 -ar 48000"),
];

/// The codecs of a client that decodes all of them.
const ALL_CODECS: &str = "videoCodecs=hvc1.2.4.L153.B0,av01.0.13M.10";

fn make_films(folder: &Path) {
    for (_, name, args) in FILMS {
        media::flash_and_beep(&folder.join(name), FILM_SECONDS, &format!("{args} -t {FILM_SECONDS}"));
    }
}

async fn add_film_channel(program: &ServerProcess, folder: &Path) -> Value {
    let start = (Timestamp::now() - Duration::from_secs(120)).to_string();
    let body = json!({"name": "Copies", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder}]});
    let request = program.client.post(format!("{}{CHANNELS}", program.base)).bearer_auth(&program.admin).json(&body);
    expect_success(send_until_ready(request).await, 201).await["channel"].clone()
}

/// The multivariant playlist of the channel's first airing of each film.
async fn open_past(program: &ServerProcess, channel: &Value, query: &str) -> (Url, MasterPlaylist, String) {
    let epoch = channel["epoch"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let end = epoch + Duration::from_secs(u64::from(FILMS.len() as u32 * FILM_SECONDS));
    let target = format!("/api/livetv/watch/{}?at={epoch}&end={end}&wait=15&{query}", channel["id"]);
    let answer = program.get(&target).send().await.unwrap();
    assert_eq!(answer.status(), 200, "the redirect leads to a playlist");
    let url = answer.url().clone();
    let text = answer.text().await.unwrap();
    (url, m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap(), text)
}

/// A digest of every packet of the video, in decoding order.
fn packet_digests(path: &Path) -> Vec<String> {
    let args =
        ["-select_streams", "v:0", "-show_packets", "-show_data_hash", "MD5", "-show_entries", "packet=data_hash"];
    let report = media::ffprobe(path, &args);
    let packets = report["packets"].as_array().unwrap();
    packets.iter().map(|packet| packet["data_hash"].as_str().unwrap().to_owned()).collect()
}

/// A playlist without the grant in its addresses.
fn without_grants(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_inclusive(['\n', '"']).map(|part| part.split("?st=").next().unwrap().to_owned() + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hevc_and_av1_are_copied_on_the_schedule_of_all_clients() {
    let folder = tempfile::tempdir().unwrap();
    let films = folder.path().join("films");
    std::fs::create_dir(&films).unwrap();
    make_films(&films);
    let mut program = ServerProcess::start(&[&films], &[]).await;
    let channel = add_film_channel(&program, &films).await;
    let (index, master, text) = open_past(&program, &channel, &format!("format=fmp4&{ALL_CODECS}")).await;
    let codecs: Vec<&str> = master.variants[0].codecs.as_deref().unwrap().split(',').collect();
    let kinds: Vec<&str> = codecs.iter().map(|codec| codec.split('.').next().unwrap()).collect();
    assert_eq!((master.variants.len(), kinds), (1, vec!["avc3", "av01", "hvc1", "mp4a"]), "{text}");
    assert!(!text.contains("INDEPENDENT-SEGMENTS"), "HEVC has open groups of pictures");

    let audio_uri = master.alternatives[0].uri.clone().unwrap();
    let (video, audio) = (Track::read(&index, &master.variants[0].uri).await, Track::read(&index, &audio_uri).await);
    assert_eq!(audio.timeline(), video.timeline());
    assert_eq!(audio.playlist.media_sequence, video.playlist.media_sequence);
    assert_eq!(audio.playlist.discontinuity_sequence, video.playlist.discontinuity_sequence);
    assert_eq!(
        video.timeline().iter().filter(|(.., discontinuity)| *discontinuity).count(),
        2,
        "one at each next film"
    );
    let (shown, played) = (video.programmes("video/mp4").await, audio.programmes("audio/mp4").await);
    for (n, ((codec, name, _), ((map, video), (_, audio)))) in FILMS.iter().zip(shown.iter().zip(&played)).enumerate() {
        let (video, audio) =
            (store_decodable(folder.path(), "v.mp4", video), store_decodable(folder.path(), "a.mp4", audio));
        let report = media::ffprobe(&video, &["-show_entries", "stream=codec_name"]);
        assert_eq!(report["streams"][0]["codec_name"], json!(codec), "{map:?}");
        if *codec != "h264" {
            assert_eq!(packet_digests(&video), packet_digests(&films.join(name)), "{name}: the packets of the file");
        }
        let (flashes, _) = media::flash_and_beep_times(&video, 25.0);
        let (_, beeps) = media::flash_and_beep_times(&audio, 25.0);
        assert_eq!((flashes.len(), beeps.len()), (6, 6), "{name}: {flashes:?} {beeps:?}");
        for (flash, beep) in flashes.iter().zip(&beeps).skip(1) {
            assert!((beep - flash).abs() < 0.02, "{name}: a beep is {} from its flash", beep - flash);
        }
        let packets = media::packets(&video);
        let start_ms = channel["epoch"].as_str().unwrap().parse::<Timestamp>().unwrap().as_millisecond();
        let first = packets.iter().map(|packet| packet.pts).min().unwrap() as f64;
        let timescale = media::ffprobe(&video, &["-show_entries", "stream=time_base"])["streams"][0]["time_base"]
            .as_str()
            .and_then(|base| base.strip_prefix("1/")?.parse::<f64>().ok())
            .unwrap();
        let expected = start_ms as f64 / 1000.0 + f64::from(n as u32 * FILM_SECONDS);
        assert!(
            (first / timescale - expected).abs() < 0.002,
            "{name} begins at {} s, not at {expected} s",
            first / timescale
        );
    }

    // Without these codecs, the same programmes in H.264; with one of them, that one is copied.
    let (index, plain, text) = open_past(&program, &channel, "format=fmp4&videoCodecs=avc1.640033,hvc1.2.4").await;
    assert_eq!(plain.variants[0].uri.split('?').next(), Some("video.m3u8"), "{text}");
    let encoded = Track::read(&index, &plain.variants[0].uri).await;
    let starts = |track: &Track| {
        let mut starts: Vec<String> = Vec::new();
        for segment in &track.playlist.segments {
            let name = segment.uri.split('?').next().unwrap();
            let start = name.rsplit('-').nth(1).unwrap().to_owned();
            if starts.last() != Some(&start) {
                starts.push(start);
            }
        }
        starts
    };
    assert_eq!(starts(&encoded), starts(&video), "the guide is true for both");
    let (_, partly, text) = open_past(&program, &channel, "format=auto&videoCodecs=av01.0.09M.08").await;
    assert!(text.contains("av01") && !text.contains("hvc1"), "{text}");
    assert_ne!(partly.variants[0].uri.split('?').next(), master.variants[0].uri.split('?').next());

    // The same after a restart, also for players that continue with addresses they have.
    let id = &channel["id"];
    let name = video.url.path_segments().unwrap().next_back().unwrap().to_owned();
    assert!(name.starts_with("copy") && name.ends_with("-video.m3u8"), "{name}");
    let query = video.url.query().unwrap().to_owned();
    let read_list = async |program: &ServerProcess| {
        let url = format!("{}/api/livetv/watch/{id}/{name}?{query}", program.base);
        without_grants(&fetch(&url.parse().unwrap()).await.1)
    };
    let before = read_list(&program).await;
    program.restart().await;
    assert_eq!(read_list(&program).await, before);
    let segment = video.playlist.segments[3].uri.clone();
    let url = format!("{}/api/livetv/watch/{id}/{segment}", program.base).parse().unwrap();
    assert_eq!(fetch(&url).await.0, "video/mp4", "a segment of the restarted server");
}

#[tokio::test]
async fn what_a_client_states_is_checked_and_a_changed_file_is_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    // Long enough to be on air throughout the test.
    let scratch = tempfile::tempdir().unwrap();
    let make_film = |args: &str| {
        let part = scratch.path().join("part.mkv");
        media::flash_and_beep(&part, FILM_SECONDS, args);
        media::run_ffmpeg(&film, &["-stream_loop 50 -i", part.to_str().unwrap(), "-c copy"]);
    };
    let args = FILMS[1].2;
    make_film(args);
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let body =
        json!({"name": "One", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}]});
    let id = super::add_channel(&server, &body).await["id"].clone();
    let refused =
        server.get(&format!("/api/livetv/watch/{id}/index.m3u8?videoCodecs=hvc1%26x=1")).send().await.unwrap();
    expect_error(refused, 400, "VALIDATION_ERROR").await;
    for name in ["copy1-live.m3u8", "copy0-video.m3u8", "copyffffffff-video.m3u8", "video-00000000000000ff.mp4"] {
        let refused = server.get(&format!("/api/livetv/watch/{id}/{name}")).send().await.unwrap();
        expect_error(refused, 404, "ASSET_NOT_FOUND").await;
    }
    // MPEG-TS stays the default, whatever the client decodes.
    let answer = server.get(&format!("/api/livetv/watch/{id}?wait=15&{ALL_CODECS}")).send().await.unwrap();
    assert!(answer.url().path().ends_with("/live.m3u8"), "{}", answer.url());

    let watch = format!("/api/livetv/watch/{id}?wait=15&format=auto&{ALL_CODECS}");
    let answer = server.get(&watch).send().await.unwrap();
    let (index, text) = (answer.url().clone(), answer.text().await.unwrap());
    let master = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let video = Track::read(&index, &master.variants[0].uri).await;
    assert_eq!((video.playlist.target_duration, video.playlist.end_list), (10, false), "{text}");
    // With other keyframes, so that no segment can be copied.
    make_film(&args.replace("keyint=75", "keyint=40"));
    let last = video.url.join(&video.playlist.segments.last().unwrap().uri).unwrap();
    expect_error(reqwest::get(last).await.unwrap(), 404, "ASSET_NOT_FOUND").await;
    let answer = server.get(&watch).send().await.unwrap();
    let text = answer.text().await.unwrap();
    assert!(text.contains("\nvideo.m3u8?"), "a player that opens the channel anew gets it encoded: {text}");
}
