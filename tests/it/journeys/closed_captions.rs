//! Closed captions in copied video: they are listed, and reach the player.

use std::path::Path;

use serde_json::json;
use tokio::process::Command;

use super::sessions::start;
use crate::kit::{self, media};

/// Resume caption loading and the position row 15, each twice (CEA-608 section 6.4).
const LOAD: [[u8; 2]; 4] = [[0x14, 0x20], [0x14, 0x20], [0x14, 0x70], [0x14, 0x70]];
const TEXT: [[u8; 2]; 3] = [*b"HE", *b"LL", [b'O', 0]];
/// End of caption: shows the text.
const SHOW: [[u8; 2]; 2] = [[0x14, 0x2f], [0x14, 0x2f]];

/// A byte of CEA-608, with odd parity in bit 7.
fn with_parity(byte: u8) -> u8 {
    if byte.count_ones().is_multiple_of(2) { byte | 0x80 } else { byte }
}

/// A NAL unit with the captions of a picture, with its start code. `header` is that of the unit.
fn caption_unit(header: &[u8], pair: [u8; 2]) -> Vec<u8> {
    let [first, second] = pair.map(with_parity);
    let message = [&[4, 14, 0xb5, 0, 0x31][..], b"GA94\x03", &[0xc1, 0xff, 0xfc, first, second, 0xff, 0x80]].concat();
    [&[0, 0, 1], header, &message].concat()
}

/// Adds a caption to a byte stream in which every picture has one slice: a pair of bytes for each picture.
fn add_captions(stream: &[u8], header: &[u8], is_slice: fn(u8) -> bool) -> Vec<u8> {
    let mut pairs = LOAD.into_iter().chain(TEXT).chain(SHOW);
    let mut captioned = Vec::new();
    let mut rest = stream;
    while let Some(at) = rest.windows(3).position(|window| window == [0, 0, 1]) {
        captioned.extend(&rest[..at]);
        if is_slice(rest[at + 3]) {
            captioned.extend(caption_unit(header, pairs.next().unwrap_or_default()));
        }
        captioned.extend(&rest[at..at + 3]);
        rest = &rest[at + 3..];
    }
    captioned.extend(rest);
    captioned
}

/// Makes films of 8 s with the same captioned video.
fn make_films(folder: &Path, encoder: &str, format: &str, header: &[u8], is_slice: fn(u8) -> bool, names: &[&str]) {
    let [plain, captioned] = ["plain", "captioned"].map(|name| folder.join(format!("{name}.{format}")));
    let video = "testsrc2=s=320x180:r=25:d=8";
    media::run_ffmpeg(&plain, &["-f lavfi -i", video, encoder, "-g 50 -pix_fmt yuv420p -f", format]);
    std::fs::write(&captioned, add_captions(&std::fs::read(&plain).unwrap(), header, is_slice)).unwrap();
    for name in names {
        let mut command = std::process::Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-fflags", "+genpts", "-r", "25", "-f", format, "-i"]).arg(&captioned);
        let output = command.args(["-c", "copy", "-y"]).arg(folder.join(name)).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The captions that ffmpeg finds in a playlist or file, as SubRip.
async fn read_captions(url: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.mkv");
    let run = async |command: &mut Command| {
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut command = Command::new("ffmpeg");
    run(command.args(["-nostdin", "-v", "error", "-i", url, "-map", "0:v", "-c", "copy"]).arg(&copy)).await;
    let mut command = Command::new("ffmpeg");
    let source = format!("movie={}[out0+subcc]", copy.display());
    run(command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", &source, "-map", "0:s", "-f", "srt", "-"])).await
}

async fn check_film(film: &Path, codecs: &[&str]) {
    let server = kit::start_server(&[film.parent().unwrap()]).await;
    let capabilities = json!({"codecs": codecs, "audioRenditions": true});
    let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities, "forceTranscode": true});
    let session = start(&server, &options).await;
    assert_eq!(session["decision"]["streams"][0]["action"], "copy", "{session}");
    let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
    let text = server.client.get(&url).send().await.unwrap().text().await.unwrap();
    let playlist = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let [captions] = &playlist.alternatives[..] else { panic!("{text}") };
    assert_eq!(captions.media_type, m3u8_rs::AlternativeMediaType::ClosedCaptions, "{text}");
    assert_eq!(captions.instream_id, Some(m3u8_rs::InstreamId::CC(1)), "{text}");
    assert!(text.contains("CLOSED-CAPTIONS=\"cc\""), "{text}");
    assert!(read_captions(&url).await.contains("HELLO"), "{}", film.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn captions_of_copied_h264_are_listed_and_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let encoder = "-c:v libx264 -preset ultrafast -bf 0 -x264-params slices=1:sliced-threads=0";
    make_films(folder.path(), encoder, "h264", &[6], |byte| matches!(byte & 0x1f, 1 | 5), &["film.mp4", "film.mkv"]);
    for name in ["film.mp4", "film.mkv"] {
        check_film(&folder.path().join(name), &["avc1.640033", "mp4a.40.2"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn captions_of_copied_hevc_are_listed_and_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let encoder = "-c:v libx265 -preset ultrafast -x265-params log-level=error:bframes=0:slices=1";
    make_films(folder.path(), encoder, "hevc", &[0x4e, 1], |byte| byte >> 1 & 0x3f < 32, &["film.mp4"]);
    check_film(&folder.path().join("film.mp4"), &["hvc1.1.6.L123.B0", "avc1.640033", "mp4a.40.2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_without_captions_lists_none() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    media::flash_and_beep(&film, 6, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let capabilities = json!({"codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true});
    let options = json!({"mediaPath": film.to_str().unwrap(), "capabilities": capabilities, "forceTranscode": true});
    let session = start(&server, &options).await;
    let answer = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap();
    let text = answer.text().await.unwrap();
    assert!(text.contains("#EXT-X-MEDIA:TYPE=AUDIO") && !text.contains("CAPTIONS"), "{text}");
}
