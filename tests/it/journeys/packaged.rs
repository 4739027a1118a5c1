//! Sessions whose segments come out of the file itself, without a process.

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
        // A server without ffmpeg beside it would do.
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
