//! Burned-in text looks the same for every source, backend and set of system fonts.

use std::path::Path;

use serde_json::{Value, json};

use crate::kit::program::ServerProcess;
use crate::kit::response::send_until_ready;
use crate::kit::{self, media};

/// Font configuration with another `sans` family than on this machine.
const FONT_CONFIG: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>/usr/share/fonts</dir>
<cachedir>CACHE</cachedir>
<alias binding="same"><family>sans</family><prefer><family>DejaVu Serif</family></prefer></alias>
<alias binding="same"><family>sans-serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
<alias binding="same"><family>Arial</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"#;

/// Stores the first segment of a session with this text burned in.
async fn fetch_first_segment(client: &reqwest::Client, base: &str, token: &str, body: &Value, into: &Path) {
    let start = client.post(format!("{base}/api/stream/transcode/start")).bearer_auth(token).json(body);
    let session: Value = send_until_ready(start).await.json().await.unwrap();
    assert_eq!(session["decision"]["subtitle"], "burn", "{session}");
    let id = session["sessionId"].as_str().unwrap();
    let segment = client.get(format!("{base}/api/stream/transcode/{id}/v0-00000.ts")).bearer_auth(token);
    let segment = segment.send().await.unwrap();
    assert_eq!(segment.status(), 200);
    std::fs::write(into, segment.bytes().await.unwrap()).unwrap();
    // The next session needs its encode slot.
    let stop = client.delete(format!("{base}/api/stream/transcode/{id}")).bearer_auth(token);
    assert_eq!(stop.send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_is_burned_in_with_one_font_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (path, sidecar) = (file("a.mkv"), file("a.srt"));
    std::fs::write(&sidecar, "1\n00:00:00,000 --> 00:00:04,000\nWMWM iiii <i>WMWM</i>\n").unwrap();
    let subtitle = format!("-i {} -map 0:v -map 1:s -c:s copy -c:v libx264 -preset ultrafast", sidecar.display());
    media::run_ffmpeg(&path, &["-f lavfi -i", "color=black:s=640x360:r=25:d=4", &subtitle]);
    let fonts = file("fonts.conf");
    std::fs::write(&fonts, FONT_CONFIG.replace("CACHE", file("cache").to_str().unwrap())).unwrap();
    let embedded = json!({"mediaPath": path, "subtitleMode": "burn", "subtitleStreamIndex": 1});
    let external = json!({"mediaPath": path, "subtitleMode": "burn", "subtitlePath": sidecar});

    let server = kit::start_server(&[folder.path()]).await;
    let expected = file("expected.ts");
    fetch_first_segment(&server.client, &server.base, &server.token, &embedded, &expected).await;
    for backend in ["ffmpeg", "gstreamer"] {
        let settings = [("FONTCONFIG_FILE", fonts.to_str().unwrap()), ("HEARTHCAST_BACKEND", backend)];
        let program = ServerProcess::start(&[folder.path()], &settings).await;
        for (name, body) in [("inside", &embedded), ("external", &external)] {
            let output = file("burned-in.ts");
            fetch_first_segment(&program.client, &program.base, &program.token, body, &output).await;
            let psnr = media::worst_psnr_decibels(&expected, &output);
            assert!(psnr > 32.0, "{name} by {backend}: {psnr} dB");
        }
    }
}
