//! Channels on air as a player sees them, made of very different films.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::add_channel;
use crate::kit::{self, Server, media, player, ts};

/// Films that differ in everything that can break a player: size, rate, reordering, missing audio, container.
fn make_films(folder: &Path) -> Vec<PathBuf> {
    let make_film = |name: &str, encoder_args: &str| {
        let path = folder.join(name);
        media::flash_and_beep(&path, 6, encoder_args);
        path
    };
    vec![
        make_film("0 copied.mp4", "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac"),
        make_film("1 no reordering.mkv", "-c:v libx264 -preset ultrafast -profile:v baseline -g 25 -c:a aac -ar 44100"),
        make_film("2 silent.mp4", "-c:v libx264 -preset ultrafast -g 50 -an"),
        make_film("3 other codec.webm", "-c:v libvpx -deadline realtime -c:a libopus"),
        make_film("4 other rate.mkv", "-r 30000/1001 -s 480x270 -c:v mpeg4 -q:v 4 -c:a ac3 -ac 1"),
    ]
}

/// A channel that started a while ago and airs the files of a folder in order.
async fn add_film_channel(server: &Server, folder: &Path, ago: Duration) -> Value {
    let start = (Timestamp::now() - ago).to_string();
    let body =
        json!({"name": "All Sorts", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder}]});
    add_channel(server, &body).await
}

/// Fetches a playlist by its URL alone, as players do; returns its text and the path that its URLs are relative to.
pub(super) async fn fetch_playlist(server: &Server, target: &str) -> (String, String) {
    let answer = server.request(Method::GET, target).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{target}");
    assert_eq!(answer.headers()["content-type"], "application/vnd.apple.mpegurl");
    let base = target.split('?').next().unwrap().rsplit_once('/').unwrap().0.to_owned();
    (answer.text().await.unwrap(), base)
}

/// Fetches and joins all segments of a playlist, using only their URLs.
pub(super) async fn fetch_segments(server: &Server, (text, base): &(String, String)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A new connection: an idle one may be closed by the server at the moment it is used again.
    let client = reqwest::Client::new();
    for address in text.lines().filter(|line| !line.starts_with('#')) {
        let answer = client.get(format!("{}{base}/{address}", server.base)).send().await.unwrap();
        let status = answer.status();
        assert_eq!(status, 200, "{address}: {}", answer.text().await.unwrap());
        bytes.extend_from_slice(&answer.bytes().await.unwrap());
    }
    bytes
}

/// The segment URLs of each complete programme of a playlist.
fn split_programmes(text: &str) -> Vec<String> {
    let mut all: Vec<(String, String)> = Vec::new();
    for address in text.lines().filter(|line| !line.starts_with('#')) {
        let programme = address.split_once('-').unwrap().0.to_owned();
        if all.last().is_none_or(|(last, _)| *last != programme) {
            all.push((programme, String::new()));
        }
        let urls = &mut all.last_mut().unwrap().1;
        urls.push_str(address);
        urls.push('\n');
    }
    all.pop();
    all.into_iter().map(|(_, list)| list).collect()
}

#[tokio::test]
async fn different_files_play_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    make_films(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    let channel = add_film_channel(&server, folder.path(), Duration::from_secs(100)).await;
    let epoch = channel["epoch"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let end = epoch + Duration::from_secs(66);
    let watch = format!("/api/livetv/watch/{}?at={epoch}&end={end}&wait=15", channel["id"]);
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = client.get(format!("{}{watch}", server.base)).bearer_auth(&server.token).send().await.unwrap();
    assert_eq!(answer.status(), 302, "{:?}", answer.text().await);
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let playlist = fetch_playlist(&server, &location).await;
    assert!(playlist.0.contains("#EXT-X-ENDLIST") && playlist.0.contains("#EXT-X-DISCONTINUITY\n"), "{}", playlist.0);

    let request = client.get(format!("{}{location}", server.base)).header("user-agent", "VLC/3.0.21 LibVLC/3.0.21");
    let answer = request.send().await.unwrap();
    assert!(answer.headers().get_all("vary").iter().any(|value| value == "user-agent"));
    let is_no_discontinuity = |line: &&str| !line.starts_with("#EXT-X-DISCONTINUITY");
    let without_discontinuities = playlist.0.lines().filter(is_no_discontinuity).collect::<Vec<_>>().join("\n");
    let vlc_playlist = answer.text().await.unwrap().replace("#EXT-X-DISCONTINUITY-SEQUENCE:0\n", "");
    assert_eq!(vlc_playlist.trim_end(), without_discontinuities, "VLC gets no EXT-X-DISCONTINUITY");

    let path = folder.path().join("aired.ts");
    let bytes = fetch_segments(&server, &playlist).await;
    ts::check_transport_stream(&bytes);
    std::fs::write(&path, bytes).unwrap();
    // Audio of two items may overlap by less than a frame at a boundary.
    let mut warnings = player::decode(&path).await.warnings;
    warnings.retain(|warning| !warning.contains("non monotonically increasing"));
    assert_eq!(warnings, Vec::<String>::new());
    let stream_kinds = media::stream_kinds(&path);
    assert_eq!(stream_kinds.values().map(String::as_str).collect::<Vec<_>>(), ["video", "audio"]);
    let packets = media::packets(&path);
    let packets_of =
        |kind: &str| packets.iter().filter(|packet| stream_kinds[&packet.stream] == kind).collect::<Vec<_>>();
    let (video_packets, audio_packets) = (packets_of("video"), packets_of("audio"));
    assert!(video_packets.windows(2).all(|pair| pair[0].dts < pair[1].dts), "decoding times increase");
    let worst_gap = video_packets.windows(2).map(|pair| pair[1].dts - pair[0].dts).max().unwrap();
    assert!(worst_gap < 2 * 3600, "a frame is missing: {worst_gap}");
    for pair in audio_packets.windows(2) {
        let step = pair[1].pts - pair[0].pts;
        assert!((1..=2 * 1920).contains(&step), "audio steps by {step} at {}", pair[0].pts);
    }
    // Item by item, because their rates differ: every beep coincides with its flash.
    let rates = [25.0, 25.0, 25.0, 25.0, 30_000.0 / 1001.0];
    for (n, (programme, rate)) in split_programmes(&playlist.0).iter().zip(rates.iter().cycle()).enumerate() {
        std::fs::write(&path, fetch_segments(&server, &(programme.clone(), playlist.1.clone())).await).unwrap();
        let (flashes, beeps) = media::flash_and_beep_times(&path, *rate);
        assert!(flashes.len() >= 5, "item {n}: {flashes:?}");
        assert!(beeps.len() >= 5 || n % 5 == 2, "item {n}: {beeps:?}");
        for beep in &beeps {
            let offset = flashes.iter().map(|flash| beep - flash).min_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
            assert!(offset.abs() < 0.04, "item {n}: a beep at {beep} is {offset} from its flash");
        }
    }
}
