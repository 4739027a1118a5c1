//! Byte ranges of segments, of which I-frame playlists consist.

use std::path::Path;

use reqwest::Response;
use serde_json::{Value, json};

use super::sessions::{session_path, start};
use crate::kit::response::expect_error;
use crate::kit::{self, Server, media};

/// A page without AC-3.
fn page() -> Value {
    json!({"codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true})
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

#[tokio::test(flavor = "multi_thread")]
async fn segments_in_fmp4_answer_ranges_as_files_do() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start_session(&server, &film, page()).await;
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
