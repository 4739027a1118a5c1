//! The API as a plain client uses it: documented request bodies only, without extra fields.

use serde_json::{Value, json};

use super::sessions::{play_to_end, session_path, start, status};
use crate::kit::response::send_until_ready;
use crate::kit::{self, Server, media};

async fn get_text(server: &Server, path: &str) -> String {
    let answer = server.get(path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

/// Starts a session with this `User-Agent`.
async fn start_with_user_agent(server: &Server, agent: &str, body: &Value) -> Value {
    let request = server.post("/api/stream/transcode/start", body).header("user-agent", agent);
    send_until_ready(request).await.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requested_subtitle_is_always_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let (film, subtitles) = (folder.path().join("film.mp4"), folder.path().join("words.srt"));
    std::fs::write(&subtitles, "1\n00:00:01,000 --> 00:00:02,000\nHello there\n").unwrap();
    media::run_ffmpeg(
        &film,
        &[
            "-f lavfi -i",
            "testsrc2=s=320x180:r=25:d=4",
            "-f lavfi -i",
            "sine=d=4",
            "-i",
            subtitles.to_str().unwrap(),
            "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -c:a aac -c:s mov_text",
        ],
    );
    std::fs::rename(&subtitles, folder.path().join("film.de.srt")).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    // Without a subtitle the file is played directly.
    let mut body = json!({"mediaPath": film, "audioStreamIndex": 1, "startPositionSeconds": 0,
        "profile": {"resolution": "1080p"}, "forceTranscode": false});
    let direct = start(&server, &body).await;
    assert_eq!((&direct["playbackMode"], &direct["subtitleUrl"]), (&json!("direct"), &Value::Null));

    // The plain request body.
    body["subtitleMode"] = json!("embedded");
    body["subtitleStreamIndex"] = json!(2);
    let session = start(&server, &body).await;
    assert_eq!((&session["playbackMode"], &session["decision"]["video"]), (&json!("transcode"), &json!("copy")));
    assert_eq!(session["decision"]["subtitle"], "webvtt");
    assert_eq!(session["decision"]["reasons"], json!(["SUBTITLE_SELECTED"]));
    let master = get_text(&server, session["playlistUrl"].as_str().unwrap()).await;
    assert!(master.contains("TYPE=SUBTITLES"), "{master}");
    let cue = get_text(&server, &format!("{}/s0-00000.vtt", session_path(&session))).await;
    assert!(cue.contains("Hello there"), "{cue}");

    // A client that sends a device profile can use a separate subtitle.
    body["deviceProfile"] = json!({});
    for (mode, id) in [("embedded", "e2"), ("external", "x0")] {
        body["subtitleMode"] = json!(mode);
        let answer = start(&server, &body).await;
        assert_eq!((&answer["playbackMode"], &answer["decision"]["subtitle"]), (&json!("direct"), &json!("webvtt")));
        assert_eq!(answer["decision"]["device"], json!({"name": null, "matchedBy": "profile"}));
        assert!(answer["subtitleUrl"].as_str().unwrap().ends_with(&format!("&id={id}&format=vtt")), "{answer}");
        let signed = format!("{}{}", server.base, answer["signedSubtitleUrl"].as_str().unwrap());
        let cue = server.client.get(signed).send().await.unwrap();
        assert_eq!(cue.status(), 200);
        assert!(cue.text().await.unwrap().contains("Hello there"));
    }
    // A subtitle file with an unrelated name has no URL of its own.
    let other = folder.path().join("other.srt");
    std::fs::copy(folder.path().join("film.de.srt"), &other).unwrap();
    body["subtitlePath"] = json!(other);
    assert_eq!(start(&server, &body).await["playbackMode"], "transcode");
}

#[tokio::test(flavor = "multi_thread")]
async fn known_players_get_direct_play_and_a_playlist_from_the_start_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 9, "-c:v libx264 -preset ultrafast -g 50 -c:a ac3 -b:a 192k");
    let server = kit::start_server(&[folder.path()]).await;
    let body = json!({"mediaPath": path, "startPositionSeconds": 5});
    let kodi = start_with_user_agent(&server, "Kodi/21.1 (X11; Linux x86_64)", &body).await;
    assert_eq!(kodi["playbackMode"], "direct", "{kodi}");
    assert_eq!(kodi["decision"]["device"], json!({"name": "kodi", "matchedBy": "userAgent"}));
    let info = format!("/api/stream/info/full?path={}", path.to_str().unwrap());
    let hints: Value = send_until_ready(server.get(&format!("{info}&player=Kodi"))).await.json().await.unwrap();
    assert_eq!(hints["playback"]["recommended"], "direct");
    assert_eq!(hints["playback"]["device"], json!({"name": "kodi", "matchedBy": "player"}));

    let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
    let session = start_with_user_agent(&server, firefox, &body).await;
    assert_eq!((&session["playbackMode"], &session["timelineStartSeconds"]), (&json!("transcode"), &json!(0.0)));
    assert_eq!(session["decision"]["device"], json!({"name": "firefox", "matchedBy": "userAgent"}));
    // Players based on ffmpeg lose the duration when the multivariant playlist has EXT-X-START.
    let url = session["playlistUrl"].as_str().unwrap();
    for (agent, has_start_tag) in [(firefox, true), ("Lavf/59.27.100", false)] {
        let answer = server.get(url).header("user-agent", agent).send().await.unwrap();
        assert_eq!(answer.headers()["vary"], "user-agent");
        let master = answer.text().await.unwrap();
        assert_eq!(master.contains("#EXT-X-START:TIME-OFFSET=5.000"), has_start_tag, "{agent}: {master}");
    }
    let status = status(&server, &session).await;
    assert_eq!(status["diagnostics"]["encoder"], "aac", "the audio encoder, because video is copied");

    // The playlist begins with the segment of the start position, at 4 s.
    let mut body = body.clone();
    body["startMode"] = json!("list");
    let session = start(&server, &body).await;
    assert_eq!(session["startPositionSeconds"], 5.0);
    let timeline_start = session["timelineStartSeconds"].as_f64().unwrap();
    assert!((timeline_start - 4.0).abs() < 0.01, "{timeline_start}");
    let list = get_text(&server, &format!("{}/v0.m3u8", session_path(&session))).await;
    let start = format!("#EXT-X-START:TIME-OFFSET={:.3}", 5.0 - timeline_start);
    assert!(list.contains(&start) && !list.contains("v0-00000.ts"), "{list}");
    let (warnings, seconds) =
        play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    assert_eq!(warnings, "");
    assert!((seconds - 5.0).abs() < 0.1, "{seconds} s of 9 s");
}
