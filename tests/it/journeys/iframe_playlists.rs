//! I-frame playlists, for pictures while a viewer seeks.

use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use reqwest::Response;
use serde_json::{Value, json};

use super::sessions::{play_to_end, session_path, start};
use crate::kit::response::expect_error;
use crate::kit::{self, Server, media};

/// A page without AC-3 that shows pictures of an I-frame playlist, or does not.
fn page(iframe_playlists: bool) -> Value {
    json!({
        "codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true, "iframePlaylists": iframe_playlists,
    })
}

/// A film of 10 s with a keyframe every 2 s and two B-frames in a row, and AC-3.
fn make_film(path: &Path) {
    media::flash_and_beep(path, 10, "-c:v libx264 -preset ultrafast -bf 2 -g 50 -pix_fmt yuv420p -c:a ac3");
}

async fn start_session(server: &Server, film: &Path, capabilities: Value) -> Value {
    let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities, "forceTranscode": true});
    start(server, &options).await
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = server.get(path);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

/// The hash of every picture that ffmpeg decodes of a file.
fn picture_hashes(path: PathBuf) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    let command = command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    let output = command.args("-map 0:v -vsync passthrough -f framemd5 -".split(' ')).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let pictures = lines.lines().filter(|line| !line.starts_with('#'));
    pictures.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_entry_is_one_picture_of_the_film() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    for name in ["film.mp4", "film.mkv"] {
        let film = folder.path().join(name);
        make_film(&film);
        check_pictures(&server, folder.path(), film).await;
    }
}

/// In mp4 an entry is a byte range of a segment, in Matroska it is a file of its own.
async fn check_pictures(server: &Server, folder: &Path, film: PathBuf) {
    let has_ranges = film.extension().unwrap() == "mp4";
    let session = start_session(server, &film, page(true)).await;
    let text = get(server, session["playlistUrl"].as_str().unwrap(), &[]).await.text().await.unwrap();
    let multivariant = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let iframes: Vec<_> = multivariant.variants.iter().filter(|variant| variant.is_i_frame).collect();
    let [variant] = iframes[..] else { panic!("{text}") };
    let codecs = variant.codecs.as_deref().unwrap();
    assert!(codecs.starts_with("avc1.") && !codecs.contains(','), "{text}");
    assert_eq!(variant.resolution.unwrap().height, 180);
    // ffmpeg plays such a list as any other.
    let (warnings, seconds) =
        play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    assert_eq!(warnings, "");
    assert!((seconds - 10.0).abs() < 0.1, "{seconds}");

    let path = |name: &str| format!("{}/{name}", session_path(&session));
    let text = get(server, &path(&variant.uri), &[]).await.text().await.unwrap();
    let playlist = m3u8_rs::parse_media_playlist_res(text.as_bytes()).unwrap();
    assert!(playlist.i_frames_only && playlist.end_list, "{text}");
    assert_eq!(playlist.segments.len(), 5, "{text}");
    let media_playlist = get(server, &path("v0.m3u8"), &[]).await.text().await.unwrap();
    let map = playlist.segments[0].map.as_ref().unwrap();
    assert!(media_playlist.contains(&map.uri), "{media_playlist} has not the init segment of {text}");
    let init = get(server, &path(&map.uri), &[]).await.bytes().await.unwrap();
    let (mut pictures, mut bits) = (Vec::new(), 0);
    for segment in &playlist.segments {
        let part = match &segment.byte_range {
            Some(range) => fetch_range(server, &path(&segment.uri), range).await,
            None => get(server, &path(&segment.uri), &[]).await.bytes().await.unwrap(),
        };
        assert_eq!(segment.byte_range.is_some(), has_ranges);
        let fragment = folder.join("picture.tmp");
        std::fs::write(&fragment, [&init[..], &part].concat()).unwrap();
        let decoded = tokio::task::spawn_blocking(|| picture_hashes(fragment)).await.unwrap();
        assert_eq!(decoded.len(), 1, "{}", segment.uri);
        pictures.extend(decoded);
        bits += part.len() as u64 * 8;
    }
    let of_film = tokio::task::spawn_blocking(move || picture_hashes(film)).await.unwrap();
    assert_eq!(of_film.len(), 250);
    assert!(pictures.iter().eq(of_film.iter().step_by(50)), "{pictures:?}");
    assert!(variant.bandwidth >= bits / 10, "{} of {bits} bits in 10 s", variant.bandwidth);
    for name in ["v0-iframe-00005.m4s", "v1-iframe-00000.m4s"] {
        expect_error(get(server, &path(name), &[]).await, 404, "ASSET_NOT_FOUND").await;
    }
}

/// A range of a segment, which has the same bytes as the whole one.
async fn fetch_range(server: &Server, path: &str, range: &m3u8_rs::ByteRange) -> Bytes {
    let (first, last) = (range.offset.unwrap(), range.offset.unwrap() + range.length - 1);
    let answer = get(server, path, &[("range", &format!("bytes={first}-{last}"))]).await;
    assert_eq!(answer.status(), 206);
    assert_eq!(answer.headers()["accept-ranges"], "bytes");
    let content_range = answer.headers()["content-range"].to_str().unwrap().to_owned();
    let part = answer.bytes().await.unwrap();
    let whole = get(server, path, &[]).await.bytes().await.unwrap();
    assert_eq!(content_range, format!("bytes {first}-{last}/{}", whole.len()));
    assert!(part == whole[first as usize..=last as usize], "{path}: other bytes");
    part
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_in_fmp4_answer_ranges_as_files_do() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start_session(&server, &film, page(true)).await;
    let file = format!("/api/stream/file?path={}", film.to_str().unwrap());
    // Copied video, and encoded audio that is kept in memory.
    for asset in ["v0-00001.m4s", "a0-00001.m4s"] {
        let path = format!("{}/{asset}", session_path(&session));
        let answer = get(&server, &path, &[]).await;
        assert_eq!((answer.status().as_u16(), &answer.headers()["accept-ranges"]), (200, &"bytes".parse().unwrap()));
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        let whole = answer.bytes().await.unwrap();
        let len = whole.len();
        for (range, first, last) in
            [("bytes=700-", 700, len - 1), ("bytes=-9", len - 9, len - 1), ("bytes=3-900", 3, 900)]
        {
            let answer = get(&server, &path, &[("range", range), ("if-range", &etag)]).await;
            assert_eq!(answer.status(), 206, "{asset} {range}");
            assert_eq!(answer.headers()["content-range"], format!("bytes {first}-{last}/{len}"));
            assert!(answer.bytes().await.unwrap() == whole[first..=last], "{asset} {range}");
        }
        let past_the_end = [("range", "bytes=99999999-")];
        for (path, len) in [(&path, len as u64), (&file, film.metadata().unwrap().len())] {
            let answer = get(&server, path, &past_the_end).await;
            assert_eq!(answer.headers()["content-range"], format!("bytes */{len}"), "{path}");
            assert_eq!(answer.headers()["accept-ranges"], "bytes", "{path}");
            expect_error(answer, 416, "RANGE_NOT_SATISFIABLE").await;
        }
        // A client that has the segment, one that has another, and a range that is ignored.
        for (headers, status) in [
            ([past_the_end[0], ("if-none-match", &*etag)], 304),
            ([past_the_end[0], ("if-range", "\"other\"")], 200),
            ([("range", "bytes=9-3"), ("accept", "*/*")], 200),
        ] {
            assert_eq!(get(&server, &path, &headers).await.status(), status, "{asset} {headers:?}");
        }
        let head = server.request(reqwest::Method::HEAD, &path).bearer_auth(&server.token);
        let head = head.header("range", "bytes=0-9").send().await.unwrap();
        assert_eq!(
            (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
            (200, &*len.to_string())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_that_use_iframe_playlists_find_them() {
    let folder = tempfile::tempdir().unwrap();
    let mp4 = folder.path().join("film.mp4");
    make_film(&mp4);
    let server = kit::start_server(&[folder.path()]).await;
    for (film, capabilities, extension, status) in [(&mp4, page(false), "m4s", 200), (&mp4, Value::Null, "ts", 404)] {
        let session = start_session(&server, film, capabilities.clone()).await;
        let text = get(&server, session["playlistUrl"].as_str().unwrap(), &[]).await.text().await.unwrap();
        assert!(text.contains("#EXT-X-STREAM-INF") && !text.contains("I-FRAME"), "{capabilities}: {text}");
        let path = |name: &str| format!("{}/{name}", session_path(&session));
        let answer = get(&server, &path("v0-iframes.m3u8"), &[]).await;
        assert_eq!(answer.status(), status, "{capabilities}");
        // Segments in MPEG-TS are sent whole.
        let segment = get(&server, &path(&format!("v0-00001.{extension}")), &[("range", "bytes=0-9")]).await;
        let found = (segment.status().as_u16(), segment.headers().contains_key("accept-ranges"));
        assert_eq!(found, if extension == "ts" { (200, false) } else { (206, true) }, "{capabilities}");
    }
}

/// Times at which ffmpeg decodes pictures of a file, seconds, and their sizes.
fn decoded_pictures(path: PathBuf) -> Vec<(f64, String)> {
    let mut command = Command::new("ffprobe");
    let command = command.args("-v error -show_entries frame=pts_time,key_frame,width,height -of csv=p=0".split(' '));
    let output = command.arg(path).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let frame = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[0], "1", "{line}");
        (fields[1].parse().unwrap(), format!("{}x{}", fields[2], fields[3]))
    };
    // Side data of a frame is a line without fields.
    lines.lines().filter(|line| !line.is_empty()).map(frame).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn encoded_video_has_small_pictures_of_the_keyframes_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let server = kit::start_server(&[folder.path()]).await;
    let capabilities = json!({"codecs": ["mp4a.40.2"], "iframePlaylists": true});
    let session = start_session(&server, &film, capabilities).await;
    assert_eq!(session["decision"]["streams"][0]["action"], "encode", "{session}");
    let text = get(&server, session["playlistUrl"].as_str().unwrap(), &[]).await.text().await.unwrap();
    let multivariant = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let variant = multivariant.variants.iter().find(|variant| variant.is_i_frame).expect(&text);
    assert_eq!(variant.codecs.as_deref().map(|codecs| &codecs[..4]), Some("avc3"), "{text}");
    let path = |name: &str| format!("{}/{name}", session_path(&session));
    let text = get(&server, &path(&variant.uri), &[]).await.text().await.unwrap();
    let playlist = m3u8_rs::parse_media_playlist_res(text.as_bytes()).unwrap();
    let media_playlist = get(&server, &path("v0.m3u8"), &[]).await.text().await.unwrap();
    assert!(playlist.i_frames_only, "{text}");
    assert_eq!(playlist.segments.len(), media_playlist.matches("#EXTINF").count(), "{text}");
    let init = &playlist.segments[0].map.as_ref().unwrap().uri;
    assert!(!media_playlist.contains(init), "a picture has the init segment of the rung");
    let mut pictures = get(&server, &path(init), &[]).await.bytes().await.unwrap().to_vec();
    let (mut starts, mut start) = (Vec::new(), 3600.0);
    for segment in &playlist.segments {
        let part = get(&server, &path(&segment.uri), &[]).await.bytes().await.unwrap();
        assert!(variant.bandwidth as f32 >= part.len() as f32 * 8.0 / segment.duration, "{}", segment.uri);
        pictures.extend(part);
        starts.push((start, "320x180".to_owned()));
        start += f64::from(segment.duration);
    }
    let file = folder.path().join("pictures.tmp");
    std::fs::write(&file, pictures).unwrap();
    let decoded = tokio::task::spawn_blocking(|| decoded_pictures(file)).await.unwrap();
    let near = |((time, size), (expected, expected_size)): (&(f64, String), &(f64, String))| {
        (time - expected).abs() < 0.001 && size == expected_size
    };
    assert!(decoded.len() == starts.len() && decoded.iter().zip(&starts).all(near), "{decoded:?} for {starts:?}");
    let past_the_end = format!("v0-iframe-{:05}.m4s", starts.len());
    expect_error(get(&server, &path(&past_the_end), &[]).await, 404, "ASSET_NOT_FOUND").await;
}
