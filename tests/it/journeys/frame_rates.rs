//! Frame rates of encoded video: movement that the file has is kept.

use std::path::Path;

use serde_json::{Value, json};

use super::sessions::{play_to_end, start};
use crate::kit::{self, Server, media};

/// The frame rate that the playlist of a session states, after playing it to its end at 4 s.
async fn played_rate(server: &Server, film: &Path, options: Value) -> String {
    let mut body = json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true});
    body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let session = start(server, &body).await;
    assert_eq!(session["decision"]["streams"][0]["action"], "encode", "{session}");
    let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
    let text = server.client.get(&url).send().await.unwrap().text().await.unwrap();
    let (warnings, seconds) = play_to_end(url).await;
    assert_eq!(warnings, "");
    assert!((seconds - 4.0).abs() < 0.15, "{seconds}");
    let rate = text.split("FRAME-RATE=").nth(1).unwrap_or_else(|| panic!("{text}"));
    rate.split([',', '\n']).next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn interlaced_video_becomes_a_frame_per_field_where_the_client_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("broadcast.ts");
    let source = "testsrc2=s=320x180:r=50:d=4,tinterlace=interleave_top,fieldorder=tff";
    media::run_ffmpeg(&film, &["-f lavfi -i", source, "-c:v mpeg2video -q:v 2 -flags +ildct+ilme"]);
    let server = kit::start_server(&[folder.path()]).await;
    let page = json!({"capabilities": {"codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true}});
    assert_eq!(played_rate(&server, &film, page).await, "50.000");
    let video = json!([{"codec": "h264", "maxFps": 30}]);
    let television = json!({"containers": ["mp4"], "video": video, "audio": [{"codec": "aac"}]});
    assert_eq!(played_rate(&server, &film, json!({"deviceProfile": television})).await, "25.000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_frame_rate_is_encoded_at_the_rate_of_its_camera() {
    let folder = tempfile::tempdir().unwrap();
    // A telephone at 30000/1001 that leaves out every fifth frame.
    let source = "testsrc2=s=320x180:r=30000/1001:d=4,select='mod(n\\,5)'";
    let server = kit::start_server(&[folder.path()]).await;
    for name in ["telephone.mp4", "telephone.mkv"] {
        let film = folder.path().join(name);
        let encoder = "-vsync vfr -enc_time_base 1001:30000 -c:v mpeg4 -q:v 4";
        media::run_ffmpeg(&film, &["-f lavfi -i", source, encoder]);
        assert_eq!(played_rate(&server, &film, json!({})).await, "29.970", "{name}");
    }
}
