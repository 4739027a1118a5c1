//! Artwork of items and series: files beside the media, embedded covers and frames, resized and cached.

use std::path::Path;
use std::process::Command;

use hearthcast::domain::catalogue::frame_choice::{FrameScore, Luma};
use hearthcast::domain::image;
use hearthcast::service::artwork::make_frames_ahead;
use hearthcast::service::catalogue::IdleTime;
use reqwest::Response;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use serde_json::Value;

use super::catalogue::{get, start, wait_for, wait_for_all};
use super::mp4_bytes;
use crate::kit;
use crate::kit::media::run_ffmpeg;
use crate::kit::response::{expect_error, send_until_ready};

fn make(root: &Path, path: &str, args: &[&str]) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    run_ffmpeg(&path, args);
}

/// An image of this size.
fn make_image(root: &Path, path: &str, size: &str) {
    make(root, path, &["-f lavfi -i", &format!("testsrc2=s={size}:d=1"), "-frames:v 1"]);
}

/// A film of 20 s that is black for 12 s.
fn make_film(root: &Path, path: &str) {
    let parts = ["-f lavfi -i", "color=c=black:s=320x180:r=10:d=12", "-f lavfi -i", "testsrc2=s=320x180:r=10:d=8"];
    let encoder = "-filter_complex [0:v][1:v]concat -g 10 -c:v libx264 -preset ultrafast -pix_fmt yuv420p";
    make(root, path, &[&parts[..], &[encoder]].concat());
}

/// The answer to an address, as `<img>` requests it: without credentials of its own.
async fn show(server: &kit::Server, url: &str, accept: &str) -> Response {
    send_until_ready(server.client.get(format!("{}{url}", server.base)).header(ACCEPT, accept)).await
}

fn header(answer: &Response, name: reqwest::header::HeaderName) -> String {
    answer.headers()[name].to_str().unwrap().to_owned()
}

/// Content type, width and height of an image.
async fn describe(answer: Response) -> (String, u32, u32) {
    assert_eq!(answer.status(), 200);
    let content_type = header(&answer, CONTENT_TYPE);
    let (_, width, height) = image::detect(&answer.bytes().await.unwrap()).unwrap();
    (content_type, width, height)
}

fn artwork<'a>(owner: &'a Value, kind: &str) -> &'a str {
    owner["artwork"][kind].as_str().unwrap_or_else(|| panic!("no {kind}: {owner:#}"))
}

fn kinds(owner: &Value) -> Vec<&str> {
    owner["artwork"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn files_beside_a_film_are_its_artwork_and_broken_ones_are_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let folder = "Movies/Alien (1979)";
    make_film(root.path(), &format!("{folder}/Alien (1979).mp4"));
    make_image(root.path(), &format!("{folder}/poster.jpg"), "600x900");
    let logo = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 100\"><circle cx=\"50\" cy=\"50\" r=\"40\"/></svg>";
    std::fs::write(root.path().join(folder).join("clearlogo.svg"), logo).unwrap();
    let whole = std::fs::read(root.path().join(folder).join("poster.jpg")).unwrap();
    let scan = whole.windows(2).position(|marker| marker == [0xff, 0xda]).unwrap();
    std::fs::write(root.path().join(folder).join("Alien (1979)-poster.jpg"), &whole[..scan]).unwrap();
    let huge = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60, 8, 6, 0, 0, 0]].concat();
    std::fs::write(root.path().join(folder).join("landscape.png"), huge).unwrap();
    std::fs::write(root.path().join(folder).join("fanart.jpg"), b"<svg/>").unwrap();
    let server = start(root.path()).await;
    let all = wait_for_all(&server).await;
    let film = &all["items"][0];
    assert_eq!(kinds(film), ["backdrop", "logo", "poster", "thumbnail"]);

    let poster = artwork(film, "poster");
    let answer = show(&server, &format!("{poster}&width=300"), "*/*").await;
    assert_eq!(header(&answer, CACHE_CONTROL), "private, max-age=31536000, immutable");
    let etag = header(&answer, ETAG);
    assert_eq!(describe(answer).await, ("image/jpeg".into(), 320, 480), "the second poster, at the next width");
    let answer = show(&server, &format!("{poster}&width=1920"), "*/*").await;
    assert_eq!(describe(answer).await, ("image/jpeg".into(), 600, 900), "never enlarged");
    let answer = show(&server, &format!("{poster}&width=320"), "image/webp,*/*").await;
    assert_eq!(header(&answer, CONTENT_TYPE), "image/webp");
    assert!(answer.bytes().await.unwrap().starts_with(b"RIFF"));
    let logo = show(&server, &format!("{}&width=160", artwork(film, "logo")), "image/webp").await;
    assert_eq!(describe(logo).await, ("image/png".into(), 160, 40));

    let id = film["id"].as_str().unwrap();
    let plain = format!("/api/library/items/{id}/artwork/poster?width=320");
    let answer = server.get(&plain).header(IF_NONE_MATCH, &etag).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), header(&answer, CACHE_CONTROL)), (304, "private, no-cache".into()));
    expect_error(show(&server, &plain, "*/*").await, 401, "UNAUTHORIZED").await;
    expect_error(show(&server, artwork(film, "backdrop"), "*/*").await, 404, "NOT_FOUND").await;
    for width in ["0", "1921", "x"] {
        let answer = server.get(&format!("/api/library/items/{id}/artwork/poster?width={width}")).send().await;
        expect_error(answer.unwrap(), 400, "VALIDATION_ERROR").await;
    }
    for missing in
        [format!("items/{id}/artwork/x"), "items/f_0/artwork/poster".into(), "series/s_0/artwork/logo".into()]
    {
        let answer = server.get(&format!("/api/library/{missing}")).send().await.unwrap();
        expect_error(answer, 404, "NOT_FOUND").await;
    }

    // The huge landscape.png is passed over, and so are the black frames.
    let frame = show(&server, artwork(film, "thumbnail"), "*/*").await;
    assert_eq!(frame.status(), 200);
    let jpeg = frame.bytes().await.unwrap();
    assert_eq!(image::detect(&jpeg).map(|(_, width, height)| (width, height)), Some((320, 180)));
    let path = root.path().join("frame.jpg");
    std::fs::write(&path, &jpeg).unwrap();
    let decode =
        Command::new("ffmpeg").args(["-v", "error", "-i"]).arg(&path).args(["-f", "yuv4mpegpipe", "-"]).output();
    let decoded = decode.unwrap().stdout;
    assert!(FrameScore::of(&Luma::from_y4m(&decoded).unwrap()).is_representative, "the frame is not black");

    std::fs::remove_file(root.path().join(folder).join("Alien (1979)-poster.jpg")).unwrap();
    make_image(root.path(), &format!("{folder}/poster.jpg"), "500x750");
    let is_changed = |answer: &Value| artwork(&answer["items"][0], "poster") != poster;
    let changed = wait_for(&server, "/api/library/items", is_changed).await;
    let answer = show(&server, artwork(&changed["items"][0], "poster"), "*/*").await;
    assert_eq!(describe(answer).await.1, 500);
    let former = show(&server, &format!("{poster}&width=320"), "*/*").await;
    assert_eq!(header(&former, CACHE_CONTROL), "private, no-cache", "another version");
}

#[tokio::test]
async fn music_has_its_cover() {
    let root = tempfile::tempdir().unwrap();
    make_image(root.path(), "cover.png", "300x300");
    let (album, cover) = (root.path().join("Music/ABBA/Gold"), root.path().join("cover.png"));
    std::fs::create_dir_all(&album).unwrap();
    for (name, encoder) in [("01 - One.mp3", "libmp3lame"), ("02 - Two.m4a", "aac")] {
        let made = Command::new("ffmpeg")
            .args(["-v", "error", "-f", "lavfi", "-i", "sine=d=1", "-i"])
            .arg(&cover)
            .args(["-map", "0", "-map", "1", "-c:a", encoder, "-c:v", "copy", "-disposition:v:0", "attached_pic"])
            .arg(album.join(name))
            .status();
        assert!(made.unwrap().success());
    }
    make(root.path(), "Music/ABBA/Gold/03 - Three.mp3", &["-f lavfi -i", "sine=f=500:d=1", "-c:a libmp3lame"]);
    let server = start(root.path()).await;
    let all = wait_for_all(&server).await;
    let track = |answer: &Value, at: usize| answer["items"][at].clone();
    for at in [0, 1] {
        let answer = show(&server, artwork(&track(&all, at), "poster"), "*/*").await;
        assert_eq!(describe(answer).await, ("image/jpeg".into(), 300, 300), "{at}");
    }
    expect_error(show(&server, artwork(&track(&all, 2), "poster"), "*/*").await, 404, "NOT_FOUND").await;

    make_image(root.path(), "Music/ABBA/Gold/folder.jpg", "200x200");
    let former = artwork(&track(&all, 2), "poster").to_owned();
    let is_changed = |answer: &Value| artwork(&answer["items"][2], "poster") != former;
    let all = wait_for(&server, "/api/library/items?limit=200", is_changed).await;
    let answer = show(&server, artwork(&track(&all, 2), "poster"), "*/*").await;
    assert_eq!(describe(answer).await.1, 200);
}

#[tokio::test]
async fn a_series_its_seasons_and_its_episodes_have_artwork() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, [mp4_bytes(2000), path.to_str().unwrap().into()].concat()).unwrap();
    };
    for path in [
        "TV/Lost/Season 1/Lost S01E01.mp4",
        "TV/Lost/Season 2/Lost S02E01.mp4",
        "TV/Rome S01E01.mp4",
        "TV/Oz S01E01.mp4",
    ] {
        write(path);
    }
    make_film(root.path(), "TV/Dark/Season 1/Dark S01E01.mp4");
    for (path, size) in [
        ("TV/Lost/poster.jpg", "100x150"),
        ("TV/Lost/season01-poster.webp", "120x180"),
        ("TV/Lost/Season 1/Lost S01E01-thumb.jpg", "160x90"),
        ("TV/poster.jpg", "90x90"),
    ] {
        make_image(root.path(), path, size);
    }
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    let list = get(&server, "/api/library/series").await;
    let series = |title: &str| {
        let mut all = list["series"].as_array().unwrap().iter();
        all.find(|series| series["title"] == title).unwrap().clone()
    };
    let size_of = async |url: &str| describe(show(&server, url, "*/*").await).await.1;
    let lost = get(&server, &format!("/api/library/series/{}", series("Lost")["id"].as_str().unwrap())).await;
    assert_eq!(size_of(artwork(&lost["series"], "poster")).await, 100);
    assert_eq!(size_of(artwork(&lost["series"], "thumbnail")).await, 160, "that of the first episode");
    assert_eq!(size_of(artwork(&lost["seasons"][0], "poster")).await, 120);
    assert_eq!(kinds(&lost["seasons"][1]), [""; 0]);
    let episodes = [0, 1].map(|season| &lost["seasons"][season]["episodes"][0]);
    assert_eq!(size_of(artwork(episodes[0], "poster")).await, 120);
    assert_eq!(size_of(artwork(episodes[0], "thumbnail")).await, 160);
    assert_eq!(size_of(artwork(episodes[1], "poster")).await, 100);
    expect_error(show(&server, artwork(episodes[1], "thumbnail"), "*/*").await, 404, "NOT_FOUND").await;

    assert_eq!(kinds(&series("Rome")), ["thumbnail"], "an image of the whole library is not that of one series");
    assert_eq!(kinds(&series("Dark")), ["thumbnail"]);
    let url = format!("{}&width=160", artwork(&series("Dark"), "thumbnail"));
    let answers = futures_util::future::join_all((0..6).map(|_| show(&server, &url, "*/*"))).await;
    for answer in answers {
        assert_eq!(describe(answer).await.1, 160);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programmes_of_the_guide_have_posters_that_players_load_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    make_film(folder.path(), "Films/Harbour (2020)/Harbour (2020).mp4");
    make_image(folder.path(), "Films/Harbour (2020)/poster.jpg", "400x600");
    let server = start(folder.path()).await;
    let films = wait_for_all(&server).await;
    assert_eq!(kinds(&films["items"][0]), ["poster", "thumbnail"]);
    let path = folder.path().join("Films/Harbour (2020)/Harbour (2020).mp4");
    crate::livetv::add_channel(&server, &serde_json::json!({"name": "A", "items": [{"path": path}]})).await;
    let answer = server.get("/api/livetv/xmltv").send().await.unwrap();
    let guide = answer.text().await.unwrap();
    let programme = guide.split("<programme").nth(1).unwrap();
    let (_, icon) = programme.split_once("</length><icon src=\"").expect("an icon after the length");
    let address = icon.split('"').next().unwrap().replace("&amp;", "&");
    let answer = server.client.get(&address).send().await.unwrap();
    assert_eq!(describe(answer).await, ("image/jpeg".into(), 400, 600));
    for other in [address.replace("/poster?", "/thumbnail?"), address.replace("scope=image&", "")] {
        expect_error(server.client.get(other).send().await.unwrap(), 403, "SIGNATURE_INVALID").await;
    }
}

#[tokio::test]
async fn frames_are_made_ahead_for_videos_without_an_image() {
    let root = tempfile::tempdir().unwrap();
    make_film(root.path(), "Movies/Alien (1979).mp4");
    make_film(root.path(), "Movies/Brazil (1985).mp4");
    // Another content, and an image.
    let brazil = root.path().join("Movies/Brazil (1985).mp4");
    std::fs::write(&brazil, [std::fs::read(&brazil).unwrap(), b"\0\0\0\x0cfree\0\0\0\0".to_vec()].concat()).unwrap();
    make_image(root.path(), "Movies/Brazil (1985)-thumb.jpg", "160x90");
    let server = start(root.path()).await;
    let all = wait_for_all(&server).await;
    let make = async || make_frames_ahead(&server.service, &mut IdleTime::passed()).await;
    assert_eq!((make().await, make().await), (1, 0), "each once, and none for an item with an image");
    let thumbnail = format!("{}&width=160", artwork(&all["items"][0], "thumbnail"));
    assert_eq!(describe(show(&server, &thumbnail, "*/*").await).await.1, 160);
}
