//! Sessions whose segments are packaged directly from the file, without a process.

use serde_json::{Value, json};

use super::sessions::{play_to_end, session_path, start, status};
use crate::kit::{self, media};

#[tokio::test(flavor = "multi_thread")]
async fn packaged_segments_are_the_same_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a film.mp4");
    media::flash_and_beep(&film, 12, "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -b:a 96k");
    let options = json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true});
    let orders: [&[usize]; 2] = [&[0, 1, 2, 3, 4, 5], &[4, 1, 5, 0, 3, 2]];
    let mut fetched = Vec::new();
    for order in orders {
        // A new server for each order: nothing is cached.
        let server = kit::start_server(&[folder.path()]).await;
        let session = start(&server, &options).await;
        assert_eq!(session["decision"]["video"], "copy");
        assert_eq!(session["decision"]["audio"], "copy");
        let mut segments = vec![Vec::new(); order.len()];
        for &index in order {
            let answer = server.get(&format!("{}/v0-{index:05}.ts", session_path(&session))).send().await.unwrap();
            assert_eq!(answer.status(), 200, "segment {index}");
            segments[index] = answer.bytes().await.unwrap().to_vec();
        }
        let (warnings, seconds) =
            play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
        assert_eq!(warnings, "");
        assert!((seconds - 12.0).abs() < 0.1, "{seconds}");
        let status = status(&server, &session).await;
        assert_eq!(status["error"], Value::Null);
        assert_eq!(status["diagnostics"]["pipeline"], "packager");
        assert_eq!(status["diagnostics"]["encoder"], "copy");
        fetched.push(segments);
    }
    assert!(fetched[0] == fetched[1], "the same bytes in any order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packaged_segment_has_a_length_and_needs_the_unchanged_file() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    media::flash_and_beep(&film, 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true})).await;
    let segment = format!("{}/v0-00001.ts", session_path(&session));
    let first = server.get(&segment).send().await.unwrap();
    let (length, etag) = (first.content_length(), first.headers()["etag"].clone());
    let bytes = first.bytes().await.unwrap();
    assert!(!bytes.is_empty() && length == Some(bytes.len() as u64));
    let revalidated = server.get(&segment).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((revalidated.status().as_u16(), revalidated.bytes().await.unwrap().len()), (304, 0));
    assert_eq!(server.get(&segment).send().await.unwrap().bytes().await.unwrap(), bytes);

    let status = status(&server, &session).await;
    let buffered = status["diagnostics"]["bufferedBytes"].as_u64().unwrap();
    assert!(
        (1..bytes.len() as u64 / 2).contains(&buffered),
        "no copy of the segment is kept: {buffered} of {}",
        bytes.len()
    );

    let file = std::fs::File::options().write(true).open(&film).unwrap();
    file.set_len(film.metadata().unwrap().len() / 2).unwrap();
    let changed = server.get(&segment).send().await.unwrap();
    assert!(!changed.status().is_success());
    assert_eq!(changed.json::<Value>().await.unwrap()["code"], "SOURCE_CHANGED");
}
