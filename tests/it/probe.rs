use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::domain::media::{Container, Media, Video};
use hearthcast::domain::playback::{Decision, DeviceProfile, PlaybackRequest, TrackAction, decide};
use hearthcast::engine::probe::{self, ProbeTools};
use serde_json::{Value, json};

use crate::kit;
use crate::kit::player::{self, PlayerSession};
use crate::kit::response::{expect_error, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// A clip of two seconds made by ffmpeg; `args` follow a 320x180 test video (input 0) and a tone (input 1).
fn make_clip(folder: &Path, name: &str, args: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=2"])
        .args(["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=2"])
        .args(args)
        .arg(&path)
        .status()
        .expect("ffmpeg runs");
    assert!(status.success(), "{name}");
    path
}

const H264_AAC: [&str; 8] = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"];

fn info_url(path: &Path) -> String {
    let text = path.to_str().expect("UTF-8");
    format!("/api/stream/info/full?{}", serde_urlencoded::to_string([("path", text)]).expect("plain text"))
}

#[tokio::test]
async fn a_supported_file_is_described_and_recommended_for_direct_play() {
    let folder = tempfile::tempdir().unwrap();
    let path = make_clip(
        folder.path(),
        "film.mkv.mp4",
        &[&H264_AAC[..], &["-g", "10", "-metadata:s:a:0", "language=ger"]].concat(),
    );
    let server = kit::start_server(&[folder.path()]).await;
    let answer = send_until_ready(server.get(&info_url(&path))).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let info: Value = answer.json().await.unwrap();
    assert_eq!(info["fileName"], "film.mkv.mp4");
    assert_eq!(info["mimeType"], "video/mp4");
    assert_eq!(info["probe"]["container"], "mp4");
    let seconds = info["probe"]["durationSeconds"].as_f64().unwrap();
    assert!((1.9..2.2).contains(&seconds), "{seconds}");
    assert_eq!(info["tracks"], json!({"video": [0], "audio": [1], "subtitle": []}));
    let video = &info["streams"][0];
    assert_eq!((&video["codec"], &video["width"], &video["height"]), (&json!("h264"), &json!(320), &json!(180)));
    assert_eq!(video["frameRateFraction"], "25/1");
    assert!(video["codecString"].as_str().unwrap().starts_with("avc1."), "{video}");
    let audio = &info["streams"][1];
    assert_eq!((&audio["codecString"], &audio["languageTag"]), (&json!("mp4a.40.2"), &json!("de")));
    let playback = &info["playback"];
    assert_eq!(playback["recommended"], "direct");
    assert_eq!(playback["reasons"], json!([]));
    assert_eq!(playback["keyframeIntervalSeconds"], 0.4);
    let direct = playback["directUrl"].as_str().unwrap();
    assert!(direct.starts_with("/api/stream/file?path=/"), "{direct}");
    assert!(playback["signedDirectUrl"].as_str().unwrap().starts_with(&format!("{direct}&st=")), "{playback}");
}

#[tokio::test]
async fn formats_without_a_container_name_are_probed_and_played() {
    let folder = tempfile::tempdir().unwrap();
    let clips: [(&str, &[&str], &str); 6] = [
        ("a.y4m", &["-map", "0:v", "-pix_fmt", "yuv420p"], "rawvideo"),
        ("a.wtv", &["-c:v", "mpeg2video", "-c:a", "mp2"], "mpeg2video"),
        ("a.w64", &["-map", "1:a"], "pcm_s16le"),
        ("a.thd", &["-map", "1:a", "-c:a", "truehd", "-strict", "-2"], "truehd"),
        ("a.mlp", &["-map", "1:a", "-c:a", "mlp", "-strict", "-2"], "mlp"),
        (
            "a.h264",
            &["-map", "0:v", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-bsf:v", "h264_metadata=aud=insert"],
            "h264",
        ),
    ];
    let server = kit::start_server(&[folder.path()]).await;
    for (name, args, codec) in clips {
        let path = make_clip(folder.path(), name, args);
        let info: Value = send_until_ready(server.get(&info_url(&path))).await.json().await.unwrap();
        assert_eq!(
            (&info["streams"][0]["codec"], &info["probe"]["container"]),
            (&json!(codec), &json!("other")),
            "{info}"
        );
        // The others state no duration.
        if ["a.y4m", "a.wtv", "a.w64"].contains(&name) {
            let (status, started) = player::start(&server, &path, json!({})).await;
            assert_eq!(status, 200, "{name}: {started}");
            let session = PlayerSession::open(&server, &started).await.unwrap();
            assert!(!session.segment(0).await.unwrap().is_empty(), "{name}");
            player::stop(&server, &started).await;
        }
    }
}

#[tokio::test]
async fn dts_hd_with_a_header_is_probed() {
    let folder = tempfile::tempdir().unwrap();
    let core =
        std::fs::read(make_clip(folder.path(), "a.dts", &["-map", "1:a", "-c:a", "dca", "-strict", "-2"])).unwrap();
    let chunk = |name: &[u8; 8], content: &[u8]| [&name[..], &(content.len() as u64).to_be_bytes(), content].concat();
    // 48,000 Hz; 187 frames of 512 samples; one speaker.
    let audio_header = [&[0u8, 0, 0, 0, 0xbb, 0x80, 0, 0, 0, 187, 2, 0][..], &[0; 5], &[0, 1, 0, 0]].concat();
    let chunks = [chunk(b"DTSHDHDR", &[0; 16]), chunk(b"AUPR-HDR", &audio_header), chunk(b"STRMDATA", &core)];
    let path = folder.path().join("a.dtshd");
    std::fs::write(&path, chunks.concat()).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let info: Value = send_until_ready(server.get(&info_url(&path))).await.json().await.unwrap();
    assert_eq!(info["streams"][0]["codec"], "dts", "{info}");
    let seconds = info["probe"]["durationSeconds"].as_f64().unwrap();
    assert!((1.9..2.1).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn a_device_profile_in_the_body_changes_the_recommendation() {
    let folder = tempfile::tempdir().unwrap();
    let path = make_clip(folder.path(), "film.mkv", &[&H264_AAC[..], &["-g", "25"]].concat());
    let server = kit::start_server(&[folder.path()]).await;
    let info: Value = send_until_ready(server.get(&info_url(&path))).await.json().await.unwrap();
    assert_eq!(info["mimeType"], "video/x-matroska");
    assert_eq!(info["playback"]["recommended"], "transcode");
    assert_eq!(info["playback"]["reasons"], json!(["CONTAINER_NOT_SUPPORTED"]));
    assert_eq!(info["playback"]["canCopyVideo"], true);
    assert_eq!(info["playback"]["keyframeIntervalSeconds"], 1.0);
    let device = json!({"deviceProfile": {
        "containers": ["mkv"], "video": [{"codec": "h264"}], "audio": [{"codec": "aac"}]
    }});
    let info: Value = server.post(&info_url(&path), &device).send().await.unwrap().json().await.unwrap();
    assert_eq!(info["playback"]["recommended"], "direct", "{}", info["playback"]);
    let wrong = server.post(&info_url(&path), &json!({"deviceProfile": {"containers": 7}})).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
}

#[tokio::test]
async fn files_that_are_no_media_are_refused_with_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noise.mp4");
    let noise: Vec<u8> = (0..65536u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&path, noise).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let answer = send_until_ready(server.get(&info_url(&path))).await;
    assert!(matches!(answer.status().as_u16(), 415 | 422), "{}", answer.status());
    let body: Value = answer.json().await.unwrap();
    assert!(matches!(body["code"].as_str(), Some("UNPLAYABLE_MEDIA" | "UNSUPPORTED_MEDIA_TYPE")), "{body}");
    let outside = server.get("/api/stream/info/full?path=/etc/passwd").send().await.unwrap();
    assert_eq!(outside.status(), 403);
    let missing = server.get("/api/stream/info/full").send().await.unwrap();
    assert_eq!(missing.json::<Value>().await.unwrap()["code"], "INVALID_PATH");
}

#[tokio::test]
async fn embedded_and_sidecar_subtitles_are_listed_with_their_urls() {
    let folder = tempfile::tempdir().unwrap();
    let cues = folder.path().join("other.srt");
    std::fs::write(&cues, "1\n00:00:00,500 --> 00:00:01,500\nhello\n").unwrap();
    let path = folder.path().join("a film.mkv");
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=2", "-i"])
        .arg(&cues)
        .args(["-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:s", "srt", "-metadata:s:s:0", "language=fre"])
        .args(["-disposition:s:0", "forced"])
        .arg(&path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
    for name in ["a film.de.srt", "a film.eng.sdh.vtt", "another.srt"] {
        std::fs::copy(&cues, folder.path().join(name)).unwrap();
    }
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("a film.link.srt")).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let info: Value = send_until_ready(server.get(&info_url(&path))).await.json().await.unwrap();
    let list = info["subtitles"].as_array().unwrap();
    let listed: Vec<_> = list.iter().map(|s| (&s["id"], &s["source"], &s["languageTag"], &s["modes"])).collect();
    assert_eq!(
        listed,
        [
            (&json!("e1"), &json!("embedded"), &json!("fr"), &json!(["embedded", "burn"])),
            (&json!("x0"), &json!("external"), &json!("de"), &json!(["external", "burn"])),
            (&json!("x1"), &json!("external"), &json!("en"), &json!(["external", "burn"])),
        ]
    );
    assert_eq!((&list[0]["forced"], &list[0]["format"]), (&json!(true), &json!("subrip")));
    assert_eq!((&list[2]["hearingImpaired"], &list[2]["file"]), (&json!(true), &json!("a film.eng.sdh.vtt")));
    let address = list[1]["url"].as_str().unwrap();
    assert!(address.starts_with("/api/stream/subtitle?path=/") && address.ends_with("/a%20film.mkv&id=x0&format=vtt"));
}

#[tokio::test]
async fn a_release_with_attached_fonts_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let (cues, font) = (folder.path().join("a.ass"), folder.path().join("a.ttf"));
    let script = "[Script Info]\nScriptType: v4.00+\n\n[Events]\nFormat: Start, End, Text\nDialogue: 0:00:00.10,0:00:01.00,hello\n";
    std::fs::write(&cues, script).unwrap();
    std::fs::write(&font, vec![0x5a; 3 << 20]).unwrap();
    let (cues, font) = (cues.to_str().unwrap(), font.to_str().unwrap());
    let path = make_clip(
        folder.path(),
        "release.mkv",
        &[
            &["-i", cues, "-map", "0:v", "-map", "1:a", "-map", "2:s", "-c:v", "libx264", "-preset", "ultrafast"][..],
            &["-pix_fmt", "yuv420p10le", "-c:a", "aac", "-c:s", "ass"],
            &["-attach", font, "-metadata:s:t", "mimetype=font/ttf"],
        ]
        .concat(),
    );
    let server = kit::start_server(&[folder.path()]).await;
    let info = send_until_ready(server.get(&info_url(&path))).await;
    assert_eq!(info.status(), 200);
    let info: Value = info.json().await.unwrap();
    assert_eq!((&info["subtitles"][0]["format"], &info["streams"][0]["profile"]), (&json!("ass"), &json!("high-10")));
    let started = server.post("/api/stream/transcode/start", &json!({"mediaPath": path})).send().await.unwrap();
    assert_eq!(started.status(), 200);
}

#[tokio::test]
async fn a_slow_probe_is_reported_and_finished_for_a_later_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = make_clip(folder.path(), "a.avi", &["-c:v", "mpeg4", "-c:a", "mp3"]);
    // As on a busy machine, ffprobe takes longer than the deadline, except for its list of codecs.
    let tools = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\ncase \"$*\" in *-codecs*) ;; *) sleep 2 ;; esac\nexec ffprobe \"$@\"\n";
    std::fs::write(tools.path().join("ffprobe"), script).unwrap();
    std::fs::set_permissions(tools.path().join("ffprobe"), PermissionsExt::from_mode(0o755)).unwrap();
    let server = kit::start_server_with(&[folder.path()], |config| {
        config.ffmpeg = tools.path().join("ffmpeg");
        config.limits.probe_deadline = Duration::from_millis(300);
    })
    .await;
    let late = server.get(&info_url(&path)).send().await.unwrap();
    assert_eq!(late.headers()["retry-after"], "5");
    expect_error(late, 503, "PROBE_TIMED_OUT").await;
    let late = server.post("/api/stream/transcode/start", &json!({"mediaPath": path})).send().await.unwrap();
    assert!(late.headers().contains_key("retry-after"));
    expect_error(late, 503, "PROBE_TIMED_OUT").await;
    let deadline = Instant::now() + MAX_WAIT;
    let info = loop {
        let answer = server.get(&info_url(&path)).send().await.unwrap();
        match answer.status().as_u16() {
            503 => assert!(Instant::now() < deadline, "the probe does not end"),
            status => break (status, answer.json::<Value>().await.unwrap()),
        }
    };
    assert_eq!((info.0, &info.1["streams"][0]["codec"]), (200, &json!("mpeg4")));
}

/// The corpus's name of the decision: `direct`, `remux`, `transcode` or `refuse`.
fn possible_actions(media: &Media) -> &'static [&'static str] {
    match decide(media, &DeviceProfile::default(), &PlaybackRequest::default()).0 {
        Decision::Direct => &["direct"],
        Decision::Refuse => &["refuse"],
        Decision::Session(tracks) => match tracks.video {
            Some((_, TrackAction::Encode)) => &["transcode"],
            Some((_, TrackAction::Copy)) => &["remux"],
            None => &["remux", "transcode"],
        },
    }
}

#[tokio::test]
async fn every_corpus_file_gets_an_accepted_decision() {
    let Some(corpus) = std::env::var_os("HEARTHCAST_CORPUS").map(PathBuf::from) else { return };
    let manifest = std::fs::read_to_string(corpus.join("manifest.json")).expect("the corpus has a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let server = kit::start_server(&[&corpus]).await;
    let mut faults = Vec::new();
    for item in manifest["items"].as_array().expect("items") {
        let file = item["file"].as_str().expect("a name");
        let Some(accept) = item["expect"]["accept"].as_array() else { continue };
        if !["video/", "audio/", "broken/"].iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        let path = corpus.join(file);
        let source = server.service.library.roots().open_file(path.to_str().expect("UTF-8")).expect(file).into();
        let started = Instant::now();
        let probed = server.service.media.probe(&source).await.map(|probed| probed.media);
        if started.elapsed() > Duration::from_secs(6) {
            faults.push(format!("{file}: took {:?}", started.elapsed()));
        }
        let (actions, seconds): (&[&str], _) = match &probed {
            Ok(media) => (possible_actions(media), media.duration_seconds),
            Err(_) => (&["refuse"], None),
        };
        if !actions.iter().any(|action| accept.iter().any(|accepted| accepted == action)) {
            let reasons =
                probed.as_ref().map(|media| decide(media, &DeviceProfile::default(), &PlaybackRequest::default()).1);
            faults.push(format!("{file}: {actions:?}, accepted {accept:?}, {reasons:?}"));
        }
        if let (Some(seconds), Some(true_seconds)) = (seconds, item["duration_packets"].as_f64())
            && actions != ["refuse"]
            && (seconds - true_seconds).abs() > (true_seconds * 0.1).max(0.6)
            // The packets of these belong to video that is much shorter than the audio or the subtitles.
            && !["vobsub", "pgs"].iter().any(|name| file.contains(name))
        {
            faults.push(format!("{file}: {seconds} s, by its packets {true_seconds} s"));
        }
    }
    assert!(faults.is_empty(), "{} files:\n{}", faults.len(), faults.join("\n"));
}

/// Differences between the quick probe and ffprobe, ignoring bit rates and small roundings.
fn probe_differences(quick: &Media, thorough: &Media) -> Vec<String> {
    let mut faults = Vec::new();
    let mut hold = |name: &str, is_same: bool, a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| {
        if !is_same {
            faults.push(format!("{name}: {a:?}, ffprobe {b:?}"));
        }
    };
    macro_rules! same {
        ($name:expr, $a:expr, $b:expr) => {
            hold($name, $a == $b, &$a, &$b)
        };
    }
    let is_near = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance;
    same!("container", quick.container, thorough.container);
    same!("mime type", quick.mime_type, thorough.mime_type);
    let (a, b) = (quick.duration_seconds.unwrap_or(0.0), thorough.duration_seconds.unwrap_or(0.0));
    hold("duration", is_near(a, b, 0.1), &a, &b);
    hold(
        "start",
        is_near(quick.start_seconds, thorough.start_seconds, 0.02),
        &quick.start_seconds,
        &thorough.start_seconds,
    );
    same!("chapters", quick.chapters, thorough.chapters);
    same!("attachments", quick.attachments, thorough.attachments);
    same!("title", quick.tags.title, thorough.tags.title);
    let stream_kinds = |media: &Media| {
        media.streams.iter().map(|s| (s.index, s.codec.clone(), std::mem::discriminant(&s.kind))).collect::<Vec<_>>()
    };
    same!("streams", stream_kinds(quick), stream_kinds(thorough));
    for (q, t) in quick.streams.iter().zip(&thorough.streams) {
        same!("profile", q.profile, t.profile);
        same!("level", q.level, t.level);
        same!("codec string", q.codec_string, t.codec_string);
        same!("language", q.language, t.language);
        same!("title", q.title, t.title);
        same!("flags", (q.is_default, q.is_forced, q.is_decodable), (t.is_default, t.is_forced, t.is_decodable));
    }
    for ((_, q), (_, t)) in quick.video_streams().zip(thorough.video_streams()) {
        same!("size", (q.width, q.height), (t.width, t.height));
        let aspect = |v: &Video| f64::from(v.sample_aspect.0) / f64::from(v.sample_aspect.1);
        hold("aspect", is_near(aspect(q), aspect(t), 0.01), &q.sample_aspect, &t.sample_aspect);
        let (a, b) = (q.frame_rate.map_or(0.0, |r| r.as_f64()), t.frame_rate.map_or(0.0, |r| r.as_f64()));
        hold("frame rate", is_near(a, b, b * 0.01), &q.frame_rate, &t.frame_rate);
        // ffprobe compares two averages and misses some variable rates; the sample table is exact.
        hold("variable", q.has_variable_frame_rate || !t.has_variable_frame_rate, &q.has_variable_frame_rate, &true);
        same!(
            "video",
            (q.is_interlaced, q.bit_depth, &q.chroma, q.hdr),
            (t.is_interlaced, t.bit_depth, &t.chroma, t.hdr)
        );
        same!("rotation", (q.rotation, q.is_mirrored), (t.rotation, t.is_mirrored));
    }
    for ((_, q), (_, t)) in quick.audio_streams().zip(thorough.audio_streams()) {
        same!("audio", (q.channels, q.sample_rate, &q.channel_layout), (t.channels, t.sample_rate, &t.channel_layout));
    }
    faults
}

#[tokio::test]
async fn the_quick_probe_equals_ffprobe_over_the_corpus() {
    let Some(corpus) = std::env::var_os("HEARTHCAST_CORPUS").map(PathBuf::from) else { return };
    let tools = ProbeTools::for_ffmpeg(Path::new("ffmpeg"));
    let server = kit::start_server(&[&corpus]).await;
    let (mut faults, mut quick_count, mut transport_streams) = (Vec::new(), 0, 0);
    for folder in ["video", "audio", "broken"] {
        let mut files: Vec<_> = std::fs::read_dir(corpus.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for path in files {
            let source = Arc::new(server.service.library.roots().open_file(path.to_str().unwrap()).unwrap());
            let name = source.file_name();
            match probe::probe_with_readers(&tools, &source, &server.service.isolation).await {
                Err(reason) => eprintln!("{name}: {reason}"),
                Ok(quick) => {
                    quick_count += 1;
                    transport_streams += usize::from(quick.container == Container::MpegTs);
                    match probe::probe_with_ffprobe(&tools, &source).await {
                        Ok(thorough) => {
                            faults.extend(probe_differences(&quick, &thorough).iter().map(|f| format!("{name}: {f}")))
                        }
                        Err(fault) => faults.push(format!("{name}: ffprobe refuses it: {fault}")),
                    }
                }
            }
        }
    }
    eprintln!("{quick_count} files probed without a process");
    assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
    assert!(quick_count > 20, "{quick_count}");
    // Other transport streams of the corpus are unusual: several programmes, interlaced or HEVC video, a wrapping clock.
    assert!(transport_streams >= 3, "{transport_streams}");
}
