use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::corpus;
use crate::kit::response::send_until_ready;
use crate::kit::{self, media, player};

const SRT: &str = "1\n00:00:00,500 --> 00:00:01,500\nfirst <i>line</i>\n\n2\n00:00:01,600 --> 00:00:02,000\nsecond\n";
const ASS: &str = "[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize, PrimaryColour\n\
                   Style: Default,Arial,20,&H00FFFFFF\n\n[Events]\n\
                   Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n\
                   Dialogue: 0,0:00:00.50,0:00:01.50,Default,,0,0,0,,{\\i1}slanted{\\i0}\\Nstraight\n";

async fn media_info(server: &kit::Server, path: &Path) -> Value {
    let query = serde_urlencoded::to_string([("path", path.to_str().unwrap())]).unwrap();
    let answer = send_until_ready(server.get(&format!("/api/stream/info/full?{query}"))).await;
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

/// Starts a server that waits long for a probe, because these tests check texts, not time.
async fn start_patient_server(roots: &[&Path]) -> kit::Server {
    kit::start_server_with(roots, |config| config.limits.probe_deadline = Duration::from_secs(60)).await
}

/// Status, content type and text at a subtitle's URL.
async fn fetch_subtitle(server: &kit::Server, url: &str) -> (u16, String, String) {
    let answer = server.get(url).send().await.unwrap();
    let content_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), content_type, answer.text().await.unwrap())
}

fn folder_with_film() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("film.en.srt"), SRT).unwrap();
    std::fs::write(file("in.ass"), ASS).unwrap();
    let (srt, ass) = (file("film.en.srt"), file("in.ass"));
    let inputs = format!("-f lavfi -i color=s=64x64:r=25:d=2 -i {} -i {}", srt.display(), ass.display());
    let streams = "-map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:s:0 subrip -c:s:1 ass";
    media::run_ffmpeg(&file("film.mkv"), &[&inputs, streams]);
    std::fs::write(file("film.de.forced.srt"), b"1\n00:00:01,000 --> 00:00:02,000\nCaf\xe9\n").unwrap();
    let utf16 = SRT.replace("first", "wide").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    std::fs::write(file("film.fr.srt"), [b"\xff\xfe".to_vec(), utf16].concat()).unwrap();
    std::fs::write(file("film.sv.sup"), b"PG\0\0\x03\x84\0\0\0\0\x16\0\x13\x01\x02\0\x80\x10\0\0").unwrap();
    std::fs::write(file("film.xx.vtt"), b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41").unwrap();
    folder
}

#[tokio::test]
async fn every_listed_text_subtitle_is_available_as_webvtt() {
    let folder = folder_with_film();
    let server = start_patient_server(&[folder.path()]).await;
    let info = media_info(&server, &folder.path().join("film.mkv")).await;
    let mut results = Vec::new();
    for subtitle in info["subtitles"].as_array().unwrap() {
        let name = subtitle["file"].as_str().unwrap_or(subtitle["format"].as_str().unwrap()).to_owned();
        let Some(url) = subtitle["url"].as_str() else {
            results.push(format!("{name} can only be burned in"));
            continue;
        };
        let (status, kind, body) = fetch_subtitle(&server, url).await;
        if status == 200 {
            assert_eq!(kind, "text/vtt; charset=utf-8");
            assert!(body.starts_with("WEBVTT\n\n00:00:0"), "{name}: {body}");
        }
        results.push(format!("{name} {status} {}", body.lines().nth(3).unwrap_or_default()));
    }
    let expected = [
        "subrip 200 first <i>line</i>",
        "ass 200 <i>slanted</i>",
        "film.de.forced.srt 200 Café",
        "film.en.srt 200 first <i>line</i>",
        "film.fr.srt 200 wide <i>line</i>",
        "film.sv.sup can only be burned in",
        "film.xx.vtt 415 ",
    ];
    assert_eq!(results, expected, "{info:#}");
}

#[tokio::test]
async fn subtitle_formats_validators_grants_and_errors() {
    let folder = folder_with_film();
    let server = start_patient_server(&[folder.path()]).await;
    let path = folder.path().join("film.mkv");
    let info = media_info(&server, &path).await;
    let vtt = info["subtitles"][1]["url"].as_str().unwrap();
    let base = vtt.strip_suffix("&id=e2&format=vtt").expect("the second embedded subtitle");

    let (status, kind, body) = fetch_subtitle(&server, &format!("{base}&id=e2&format=srt")).await;
    assert_eq!((status, kind.as_str()), (200, "application/x-subrip; charset=utf-8"));
    assert_eq!(body, "1\n00:00:00,500 --> 00:00:01,500\n<i>slanted</i>\nstraight\n\n");
    let (status, kind, body) = fetch_subtitle(&server, &format!("{base}&id=e2&format=ass")).await;
    assert_eq!((status, kind.as_str()), (200, "text/x-ssa; charset=utf-8"));
    assert!(body.starts_with("[Script Info]") && body.contains("{\\i1}slanted"), "{body}");

    let first = server.get(vtt).send().await.unwrap();
    let etag = first.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(first.headers()["cache-control"], "private, no-cache");
    let revalidated = server.get(vtt).header("if-none-match", "\"other\"").header("if-none-match", &etag);
    let again = revalidated.send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.headers()["etag"].to_str().unwrap()), (304, etag.as_str()));

    let signed = info["subtitles"][1]["signedUrl"].as_str().unwrap();
    let get_without_token = |url: &str| server.client.get(format!("{}{url}", server.base)).send();
    assert_eq!(get_without_token(signed).await.unwrap().status(), 200);
    assert_eq!(get_without_token(vtt).await.unwrap().status(), 401);

    for (rest, status, code) in [
        ("", 400, "VALIDATION_ERROR"),
        ("&id=e2&format=pdf", 400, "VALIDATION_ERROR"),
        ("&id=e0", 404, "NOT_FOUND"),
        ("&id=e99", 404, "NOT_FOUND"),
        ("&id=e-1", 404, "NOT_FOUND"),
        ("&id=x99", 404, "NOT_FOUND"),
        ("&id=../film.en.srt", 404, "NOT_FOUND"),
        ("&id=e1&format=ass", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("&id=x3", 415, "UNSUPPORTED_MEDIA_TYPE"),
    ] {
        let (actual_status, _, body) = fetch_subtitle(&server, &format!("{base}{rest}")).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((actual_status, body["code"].as_str().unwrap()), (status, code), "{rest}: {body}");
    }
}

#[tokio::test]
async fn subtitles_of_a_film_repaired_in_place_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (film, srt) = (folder.path().join("film.mkv"), folder.path().join("in.txt"));
    std::fs::write(&srt, "1\n00:00:09,000 --> 00:00:10,000\ndamaged cue\n").unwrap();
    let (video, cues) = ("testsrc2=s=320x240:r=25:d=30", format!("-f srt -i {}", srt.display()));
    media::run_ffmpeg(&film, &["-f lavfi -i", video, &cues, "-map 0 -map 1 -c:v mpeg4 -c:s subrip"]);
    let mut bytes = std::fs::read(&film).unwrap();
    let at = bytes.windows(11).position(|text| text == b"damaged cue").unwrap();
    assert!(at > 64 << 10 && at < bytes.len() / 2 - (64 << 10), "the sampled parts are unchanged: {}", bytes.len());
    let server = start_patient_server(&[folder.path()]).await;
    let url = media_info(&server, &film).await["subtitles"][0]["url"].as_str().unwrap().to_owned();
    let before = fetch_subtitle(&server, &url).await;
    assert!(before.0 == 200 && before.2.contains("damaged cue"), "{before:?}");
    // Repaired in place, with the same length and modification time.
    let modified = std::fs::metadata(&film).unwrap().modified().unwrap();
    bytes[at..at + 11].copy_from_slice(b"written new");
    std::fs::write(&film, &bytes).unwrap();
    std::fs::File::options().write(true).open(&film).unwrap().set_modified(modified).unwrap();
    let after = fetch_subtitle(&server, &url).await;
    assert!(after.0 == 200 && after.2.contains("written new"), "{after:?}");
}

#[tokio::test]
async fn sidecar_subtitles_work_without_ffmpeg() {
    let folder = folder_with_film();
    let server = kit::start_server_with(&[folder.path()], |config| config.ffmpeg = "/nonexistent/ffmpeg".into()).await;
    let query = serde_urlencoded::to_string([("path", folder.path().join("film.mkv").to_str().unwrap())]).unwrap();
    let (status, _, body) = fetch_subtitle(&server, &format!("/api/stream/subtitle?{query}&id=x0")).await;
    assert_eq!((status, body.lines().nth(3)), (200, Some("Café")));
}

#[tokio::test]
async fn corpus_subtitles_are_converted_to_utf8_webvtt() {
    let Some(corpus) = corpus::corpus_folder() else { return };
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    std::fs::copy(corpus.join("video/h264-aac-edit-list.mp4"), &film).unwrap();
    for entry in std::fs::read_dir(corpus.join("subs")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        std::fs::copy(entry.path(), folder.path().join(format!("film.{name}"))).unwrap();
    }
    let server = start_patient_server(&[folder.path(), &corpus]).await;
    let mut results = Vec::new();
    for subtitle in media_info(&server, &film).await["subtitles"].as_array().unwrap() {
        let file = subtitle["file"].as_str().unwrap();
        let Some(url) = subtitle["url"].as_str() else {
            results.push((file.to_owned(), 0, "no text".to_owned()));
            continue;
        };
        let (status, _, body) = fetch_subtitle(&server, url).await;
        assert_eq!(status, 200, "{file}: {body}");
        results.push((file.to_owned(), body.matches(" --> ").count(), body.lines().nth(3).unwrap().to_owned()));
    }
    let expected = [
        ("film.bom-crlf.srt", 1, "BOM and CRLF"),
        ("film.elephants-dream.de.vtt", 77, "<v Proog>Auf der linken Seite sehen wir...</v>"),
        ("film.example.ass", 1, "Like an Angel with pity on nobody"),
        ("film.example.ssa", 1, "Like an angel with pity on nobody"),
        ("film.h264-aac-1080p-smpte.en.srt", 600, "Cue 	1	Start Time	00:00,000"),
        ("film.latin1.srt", 1, "Café latin-1 bytes"),
        ("film.long-duration.vtt", 10953, "This is cue #0"),
        ("film.test.sup", 0, "no text"),
        ("film.unicode.srt", 1, "ÁÉíöÙ"),
        ("film.utf16.srt", 1, "UTF-16"),
    ];
    let expected = expected.map(|(file, cues, first)| (file.to_owned(), cues, first.to_owned()));
    assert_eq!(results, expected);

    // Embedded subtitles of real files.
    for entry in std::fs::read_dir(corpus.join("video")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !["sub", "srt", "vtt", "ass"].iter().any(|word| name.contains(word)) {
            continue;
        }
        for subtitle in media_info(&server, &entry.path()).await["subtitles"].as_array().unwrap() {
            let Some(url) = subtitle["url"].as_str() else { continue };
            let (status, _, body) = fetch_subtitle(&server, url).await;
            assert_eq!(status, 200, "{name}: {body}");
            assert!(body.starts_with("WEBVTT\n\n") && body.contains(" --> "), "{name} {url}: {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_subtitle_is_a_rendition_on_the_same_timeline() {
    let folder = folder_with_film();
    let server = start_patient_server(&[folder.path()]).await;
    let film = folder.path().join("film.mkv");
    for (options, first) in [
        (json!({"subtitleStreamIndex": 2}), "<i>slanted</i>"),
        (json!({"subtitleMode": "external", "subtitlePath": folder.path().join("film.fr.srt")}), "wide"),
    ] {
        let (status, started) = player::start(&server, &film, options).await;
        assert_eq!((status, &started["decision"]["subtitle"]), (200, &json!("webvtt")), "{started}");
        let player = player::PlayerSession::open(&server, &started).await.unwrap();
        assert!((player.subtitles.iter().map(|(_, length)| length).sum::<f64>() - player.duration()).abs() < 0.01);
        let segment = player.subtitle(0).await.unwrap();
        // Video and text share a timeline: source time 0 is this MPEG-TS time in the segments.
        assert!(segment.starts_with("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:324000000,LOCAL:00:00:00.000\n"), "{segment}");
        assert!(segment.contains("\n00:00:00.500 --> 00:00:01.500\n") && segment.contains(first), "{segment}");
        let segment_path = folder.path().join("first.ts");
        std::fs::write(&segment_path, player.segment(0).await.unwrap()).unwrap();
        let decoded = player::decode(&segment_path).await;
        assert!((decoded.video[0].start_seconds - 3600.0).abs() < 0.001, "{:?}", decoded.video[0]);
        player::stop(&server, &started).await;
    }
    let text = film.with_file_name("in.ass");
    std::fs::rename(&text, text.with_extension("txt")).unwrap();
    let options = json!({"subtitleMode": "external", "subtitlePath": text.with_extension("txt")});
    let (status, error) = player::start(&server, &film, options).await;
    assert_eq!((status, &error["code"]), (415, &json!("UNSUPPORTED_MEDIA_TYPE")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unnamed_external_subtitle_is_the_default_one() {
    let folder = folder_with_film();
    let file = |name: &str| folder.path().join(name);
    // First by name, but a bitmap subtitle.
    std::fs::copy(file("film.sv.sup"), file("film.aa.sup")).unwrap();
    let server = start_patient_server(&[folder.path()]).await;
    let options = json!({"subtitleMode": "external"});
    let (status, started) = player::start(&server, &file("film.mkv"), options.clone()).await;
    assert_eq!((status, &started["decision"]["subtitle"]), (200, &json!("webvtt")), "{started}");
    let player = player::PlayerSession::open(&server, &started).await.unwrap();
    let subtitle_rendition = |stream: &player::PlayerSession| {
        let line = stream.index_text.lines().find(|line| line.contains("TYPE=SUBTITLES")).unwrap().to_owned();
        line.split_once("NAME=").unwrap().1.split(",URI").next().unwrap().to_owned()
    };
    // Not the forced one, although it is first by name.
    let en = "\"film.en.srt\",DEFAULT=YES,AUTOSELECT=YES,FORCED=NO,LANGUAGE=\"en\"";
    assert_eq!(subtitle_rendition(&player), en);
    player::stop(&server, &started).await;

    std::fs::rename(file("film.de.forced.srt"), file("film.ger.default.forced.srt")).unwrap();
    let (_, started) = player::start(&server, &file("film.mkv"), options.clone()).await;
    let player = player::PlayerSession::open(&server, &started).await.unwrap();
    let de = "\"film.ger.default.forced.srt\",DEFAULT=YES,AUTOSELECT=YES,FORCED=YES,LANGUAGE=\"de\"";
    assert_eq!(subtitle_rendition(&player), de);
    let segment = player.subtitle(0).await.unwrap();
    assert!(segment.contains("\n00:00:01.000 --> 00:00:02.000\nCafé\n"), "{segment}");
    player::stop(&server, &started).await;
    std::fs::rename(file("film.ger.default.forced.srt"), file("film.de.forced.srt")).unwrap();

    for name in ["film.de.forced.srt", "film.en.srt", "film.fr.srt", "film.xx.vtt"] {
        std::fs::remove_file(file(name)).unwrap();
    }
    let (status, error) = player::start(&server, &file("film.mkv"), options).await;
    assert_eq!((status, &error["code"]), (400, &json!("VALIDATION_ERROR")), "{error}");
    assert_eq!(error["details"]["fields"][0]["field"], "subtitlePath", "{error}");
}

#[tokio::test]
async fn attached_fonts_are_served_and_other_attachments_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let font = [b"\0\x01\0\0".as_slice(), &[7; 70_000]].concat();
    let film = file("film.mkv");
    let mut args = "-f lavfi -i color=s=64x64:r=25:d=2 -c:v libx264 -preset ultrafast -pix_fmt yuv420p".to_owned();
    let attached: [(&str, &[u8], &str); 4] = [
        ("Sign & Board.ttf", &font, "application/x-truetype-font"),
        ("liar.otf", b"#!/bin/sh\n", "font/otf"),
        ("notes.txt", b"some notes", "text/plain"),
        ("tiny.ttf", b"\0\x01", "font/ttf"),
    ];
    for (place, (name, bytes, kind)) in attached.iter().enumerate() {
        // Arguments are split at spaces, so the metadata sets the file name.
        let file = file(&format!("attached{place}"));
        std::fs::write(&file, bytes).unwrap();
        args += &format!(" -attach {} -metadata:s:t:{place} mimetype={kind}", file.display());
        args += &format!(" -metadata:s:t:{place} filename={}", name.replace(' ', "_"));
    }
    media::run_ffmpeg(&film, &[&args]);
    let server = start_patient_server(&[folder.path()]).await;
    let info = media_info(&server, &film).await;
    let listed = info["attachments"].as_array().unwrap();
    let names: Vec<_> = listed.iter().map(|one| (one["fileName"].as_str().unwrap(), one["url"].is_string())).collect();
    assert_eq!(names, [("Sign_&_Board.ttf", true), ("liar.otf", true), ("notes.txt", false), ("tiny.ttf", true)]);

    let url = listed[0]["url"].as_str().unwrap();
    let answer = server.get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let header = |answer: &reqwest::Response, name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header(&answer, "content-type"), "font/ttf");
    assert_eq!(header(&answer, "content-length"), font.len().to_string());
    assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
    let etag = header(&answer, "etag");
    assert_eq!(answer.bytes().await.unwrap(), font);
    let revalidated = server.get(url).header("if-none-match", "\"other\"").header("if-none-match", &etag);
    let again = revalidated.send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.bytes().await.unwrap().len()), (304, 0));

    let get_without_token = |url: String| server.client.get(format!("{}{url}", server.base)).send();
    let signed = listed[0]["signedUrl"].as_str().unwrap();
    assert_eq!(get_without_token(signed.to_owned()).await.unwrap().bytes().await.unwrap(), font);
    let head = server.client.head(format!("{}{signed}", server.base)).send().await.unwrap();
    assert_eq!((head.status().as_u16(), header(&head, "content-length")), (200, font.len().to_string()));
    assert_eq!(get_without_token(url.to_owned()).await.unwrap().status(), 401);
    let other = signed.replace("film.mkv", "attached0");
    assert_eq!(get_without_token(other).await.unwrap().status(), 403, "a grant is valid for one film");

    let url_of_index = |index: &str| url.replace("index=0", &format!("index={index}"));
    for (index, status, code) in [
        ("1", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("2", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("3", 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("4", 404, "NOT_FOUND"),
        ("-1", 400, "VALIDATION_ERROR"),
    ] {
        kit::response::expect_error(server.get(&url_of_index(index)).send().await.unwrap(), status, code).await;
    }
    let plain = server.get(&url.replace("film.mkv", "attached2")).send().await.unwrap();
    assert_eq!(plain.status(), 415, "no media");
}
