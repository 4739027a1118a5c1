//! Sessions whose segments are packaged directly from the file, without a process.

use serde_json::{Value, json};

use super::sessions::{folder_of, play, start, status};
use crate::kit::{self, film};

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_film_is_packaged_and_plays_the_same_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a film.mp4");
    film::flash_and_beep(&film, 12, "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -b:a 96k");
    let wish = json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true});
    let orders: [&[usize]; 2] = [&[0, 1, 2, 3, 4, 5], &[4, 1, 5, 0, 3, 2]];
    let mut fetched = Vec::new();
    for order in orders {
        // A new server for each order: nothing is cached.
        let server = kit::server(&[folder.path()]).await;
        let session = start(&server, &wish).await;
        assert_eq!(session["decision"]["video"], "copy");
        assert_eq!(session["decision"]["audio"], "copy");
        let mut segments = vec![Vec::new(); order.len()];
        for &index in order {
            let answer = server.get(&format!("{}/v0-{index:05}.ts", folder_of(&session))).send().await.unwrap();
            assert_eq!(answer.status(), 200, "segment {index}");
            segments[index] = answer.bytes().await.unwrap().to_vec();
        }
        let (warnings, seconds) =
            play(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
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
async fn a_packaged_segment_says_its_length_and_is_not_sent_out_of_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    film::flash_and_beep(&film, 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let server = kit::server(&[folder.path()]).await;
    let session = start(&server, &json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true})).await;
    let segment = format!("{}/v0-00001.ts", folder_of(&session));
    let first = server.get(&segment).send().await.unwrap();
    let (length, etag) = (first.content_length(), first.headers()["etag"].clone());
    let bytes = first.bytes().await.unwrap();
    assert!(!bytes.is_empty() && length == Some(bytes.len() as u64));
    let known = server.get(&segment).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!((known.status().as_u16(), known.bytes().await.unwrap().len()), (304, 0));
    assert_eq!(server.get(&segment).send().await.unwrap().bytes().await.unwrap(), bytes);

    let status = status(&server, &session).await;
    let kept = status["diagnostics"]["bufferedBytes"].as_u64().unwrap();
    assert!((1..bytes.len() as u64 / 2).contains(&kept), "no copy of the segment is kept: {kept} of {}", bytes.len());

    let file = std::fs::File::options().write(true).open(&film).unwrap();
    file.set_len(film.metadata().unwrap().len() / 2).unwrap();
    let changed = server.get(&segment).send().await.unwrap();
    assert!(!changed.status().is_success());
    assert_eq!(changed.json::<Value>().await.unwrap()["code"], "SOURCE_CHANGED");
}
