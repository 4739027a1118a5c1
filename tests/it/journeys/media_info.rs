//! Media info says what a start request of the same client decides.

use serde_json::{Value, json};

use super::sessions::start;
use crate::kit::response::send_until_ready;
use crate::kit::{self, media, player};

#[tokio::test]
async fn media_info_foretells_the_session_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 2, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -c:a ac3");
    let server = kit::start_server(&[folder.path()]).await;
    let info_url = format!("/api/stream/info/full?path={}", path.to_str().unwrap());
    for (client, format, [video, audio]) in [
        (json!({"capabilities": {"codecs": ["hvc1.1.6.L123.B0", "ac-3"]}}), "fmp4", [true, true]),
        (json!({"capabilities": {"codecs": ["hvc1.1.6.L123.B0", "mp4a.40.2"]}}), "fmp4", [true, false]),
        (json!({"capabilities": {"codecs": ["avc1.640033"]}}), "fmp4", [false, false]),
        (json!({"player": "mpv"}), "mpeg-ts", [true, true]),
        (json!({"player": "roku"}), "mpeg-ts", [false, false]),
    ] {
        let info = send_until_ready(server.post(&info_url, &client)).await.json::<Value>().await.unwrap();
        let playback = &info["playback"];
        let mut options = client.clone();
        options["mediaPath"] = json!(path);
        options["forceTranscode"] = json!(true);
        let started = start(&server, &options).await;
        let decision = &started["decision"];
        assert_eq!((&playback["format"], &decision["format"]), (&json!(format), &json!(format)), "{client}");
        let is_copied = |n: usize| decision["streams"][n]["action"] == "copy";
        assert_eq!([is_copied(0), is_copied(1)], [video, audio], "{client}: {decision}");
        let is_foretold = [&playback["canCopyVideo"], &playback["canCopyAudio"]].map(|value| *value == json!(true));
        assert_eq!(is_foretold, [video, audio], "{client}: {playback}");
        player::stop(&server, &started).await;
    }
}
