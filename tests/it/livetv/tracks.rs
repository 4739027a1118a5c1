//! Channels in fMP4: every track has the same segments, of very different films, and each decodes without an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use m3u8_rs::{AlternativeMediaType, MediaPlaylist};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};

use super::add_channel;
use crate::kit::response::expect_error;
use crate::kit::{self, Server, media};

/// Length of each film, seconds.
const FILM_SECONDS: u32 = 6;

/// A film with a beep at each flash in German and half a second later in English, and one in another size without audio.
fn make_films(folder: &Path) {
    let languages = "-map 0:v -map 1:a -map 1:a -filter:a:1 adelay=500:all=1 -metadata:s:a:0 language=ger -metadata:s:a:1 language=eng -t 6";
    let codecs = "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac";
    media::flash_and_beep(&folder.join("0 two.mkv"), FILM_SECONDS, &format!("{languages} {codecs}"));
    media::flash_and_beep(
        &folder.join("1 silent.mp4"),
        FILM_SECONDS,
        "-s 480x270 -c:v libx264 -preset ultrafast -g 50 -an",
    );
    let cues = "1\n00:00:01,000 --> 00:00:02,500\nHallo\n\n2\n00:00:03,500 --> 00:00:05,000\nWelt\n";
    std::fs::write(folder.join("0 two.de.srt"), cues).unwrap();
}

async fn add_film_channel(server: &Server, folder: &Path) -> Value {
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let body =
        json!({"name": "Two Languages", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder}]});
    add_channel(server, &body).await
}

/// A track of a channel, read by its URL alone.
pub(super) struct Track {
    pub playlist: MediaPlaylist,
    pub url: Url,
}

pub(super) async fn fetch(url: &Url) -> (String, Vec<u8>) {
    let answer = reqwest::get(url.clone()).await.unwrap();
    let status = answer.status();
    let content_type = answer.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let bytes = answer.bytes().await.unwrap().to_vec();
    assert_eq!(status, 200, "{url}: {}", String::from_utf8_lossy(&bytes));
    (content_type.unwrap_or_default(), bytes)
}

impl Track {
    pub async fn read(index: &Url, uri: &str) -> Self {
        let url = index.join(uri).unwrap();
        let (content_type, text) = fetch(&url).await;
        assert_eq!(content_type, "application/vnd.apple.mpegurl");
        Self { playlist: m3u8_rs::parse_media_playlist_res(&text).unwrap(), url }
    }

    /// Number, length, time and discontinuity of each segment.
    pub fn timeline(&self) -> Vec<(f32, String, bool)> {
        let segments = self.playlist.segments.iter();
        segments
            .map(|segment| (segment.duration, segment.program_date_time.unwrap().to_rfc3339(), segment.discontinuity))
            .collect()
    }

    /// The segments of each programme, after their init segment if they need one, and where that is.
    pub async fn programmes(&self, content_type: &str) -> Vec<(Option<String>, Vec<u8>)> {
        let mut programmes: Vec<(Option<String>, Vec<u8>)> = Vec::new();
        let (mut map, mut programme) = (None, None);
        for segment in &self.playlist.segments {
            map = segment.map.as_ref().map(|map| map.uri.clone()).or(map);
            let name = segment.uri.split('?').next().unwrap();
            let start = name.rsplit('-').nth(1).unwrap().to_owned();
            if programme.replace(start.clone()) != Some(start) {
                let init = match &map {
                    Some(map) => fetch(&self.url.join(map).unwrap()).await.1,
                    None => Vec::new(),
                };
                programmes.push((map.clone(), init));
            }
            let (own_type, bytes) = fetch(&self.url.join(&segment.uri).unwrap()).await;
            assert_eq!(own_type, content_type);
            programmes.last_mut().unwrap().1.extend(bytes);
        }
        programmes
    }
}

/// Stores init and segments as a file that decodes without a warning.
pub(super) fn store_decodable(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(media::decoder_warnings(&path), "", "{name}");
    path
}

/// The multivariant playlist of the channel's first airings of so many films, with this query.
async fn open_past(
    server: &Server,
    channel: &Value,
    films: u32,
    query: &str,
) -> (Url, m3u8_rs::MasterPlaylist, String) {
    let epoch = channel["epoch"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let end = epoch + Duration::from_secs(u64::from(films * FILM_SECONDS));
    let target = format!("/api/livetv/watch/{}?at={epoch}&end={end}&wait=15&{query}", channel["id"]);
    let answer = server.get(&target).send().await.unwrap();
    assert_eq!(answer.status(), 200, "the redirect leads to a playlist");
    let url = answer.url().clone();
    let text = answer.text().await.unwrap();
    (url, m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tracks_of_a_channel_are_in_step() {
    let folder = tempfile::tempdir().unwrap();
    make_films(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    let channel = add_film_channel(&server, folder.path()).await;
    let (index, master, text) = open_past(&server, &channel, 4, "format=fmp4").await;
    assert_eq!(master.variants.len(), 1, "{text}");
    assert_eq!(master.variants[0].codecs.as_deref(), Some("avc3.64001F,mp4a.40.2"), "{text}");
    let uris_of = |media_type: AlternativeMediaType| -> Vec<(Option<String>, String)> {
        let renditions = master.alternatives.iter().filter(|rendition| rendition.media_type == media_type);
        renditions.map(|rendition| (rendition.language.clone(), rendition.uri.clone().unwrap())).collect()
    };
    let (audio, subtitles) = (uris_of(AlternativeMediaType::Audio), uris_of(AlternativeMediaType::Subtitles));
    let languages: Vec<&str> = audio.iter().chain(&subtitles).filter_map(|(language, _)| language.as_deref()).collect();
    assert_eq!(languages, ["de", "en", "de"], "{text}");

    let video = Track::read(&index, &master.variants[0].uri).await;
    let (german, english) = (Track::read(&index, &audio[0].1).await, Track::read(&index, &audio[1].1).await);
    let text_track = Track::read(&index, &subtitles[0].1).await;
    assert!(video.playlist.end_list && video.playlist.segments.len() >= 8, "{:?}", video.playlist);
    for track in [&german, &english, &text_track] {
        assert_eq!(track.timeline(), video.timeline(), "{}", track.url);
        assert_eq!(track.playlist.media_sequence, video.playlist.media_sequence);
        assert_eq!(track.playlist.discontinuity_sequence, video.playlist.discontinuity_sequence);
    }
    assert_eq!(video.timeline().iter().filter(|(.., discontinuity)| *discontinuity).count(), 3);

    let video = video.programmes("video/mp4").await;
    let maps: Vec<_> = video.iter().map(|(map, _)| map.clone().unwrap()).collect();
    assert!(maps.len() == 4 && maps[0] == maps[2] && maps[1] == maps[3] && maps[0] != maps[1], "{maps:?}");
    let (german, english) = (german.programmes("audio/mp4").await, english.programmes("audio/mp4").await);
    assert!(german.iter().chain(&english).all(|(map, _)| *map == german[0].0), "audio has one init segment");

    // English begins half a second after each flash, and silence takes its place in the film without audio.
    for (name, programmes, delay) in [("german.mp4", &german, 0.0), ("english.mp4", &english, 0.5)] {
        for (n, ((_, video), (_, audio))) in video.iter().zip(programmes).enumerate() {
            let (flashes, _) = media::flash_and_beep_times(&store_decodable(folder.path(), "video.mp4", video), 25.0);
            let (_, beeps) = media::flash_and_beep_times(&store_decodable(folder.path(), name, audio), 25.0);
            assert_eq!(
                (flashes.len(), beeps.len()),
                (6, if n % 2 == 0 { 6 } else { 0 }),
                "{name} {n}: {flashes:?} {beeps:?}"
            );
            // The first beep begins with the item, before its first whole frame of audio.
            for (flash, beep) in flashes.iter().zip(&beeps).skip(1) {
                let offset = beep - flash - delay;
                assert!(offset.abs() < 0.02, "{name}, item {n}: a beep is {offset} from its flash");
            }
        }
        let init_len = get_init_len(&programmes[0].1);
        let all =
            programmes.iter().enumerate().map(|(n, (_, bytes))| if n == 0 { &bytes[..] } else { &bytes[init_len..] });
        let path = store_decodable(folder.path(), name, &all.collect::<Vec<_>>().concat());
        let packets = media::packets(&path);
        assert!(packets.windows(2).all(|pair| pair[1].pts - pair[0].pts == 1024), "audio is continuous");
        let seconds = packets.len() as f64 * 1024.0 / 48_000.0;
        assert!((seconds - f64::from(4 * FILM_SECONDS)).abs() < 0.05, "{seconds}");
    }

    let text_track = text_track.programmes("text/vtt; charset=utf-8").await;
    let texts: Vec<String> = text_track.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
    assert!([0, 2].iter().all(|&n| texts[n].contains("\n00:00:01.000 --> 00:00:02.500\nHallo\n")), "{texts:?}");
    assert!([1, 3].iter().all(|&n| texts[n].starts_with("WEBVTT\n") && !texts[n].contains("-->")), "{texts:?}");
    assert_ne!(texts[0], texts[2], "each airing has its own X-TIMESTAMP-MAP");
}

/// The loudest sample of each channel of a file.
fn peaks(path: &Path) -> Vec<f32> {
    let channels = media::ffprobe(path, &["-show_entries", "stream=channels"])["streams"][0]["channels"].clone();
    let [samples] = &media::convert(&[path], ["-map {n}:a:0 -f f32le"])[0];
    let samples: Vec<f32> = samples.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    let count = channels.as_u64().unwrap() as usize;
    (0..count).map(|n| samples.iter().skip(n).step_by(count).fold(0.0, |peak: f32, it| peak.max(it.abs()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn surround_is_kept_beside_stereo_and_silent_where_an_item_has_less() {
    let folder = tempfile::tempdir().unwrap();
    let video = "-t 6 -c:v libx264 -preset ultrafast -g 50";
    let surround = format!("{video} -af pan=5.1|BL=c0 -c:a ac3 -metadata:s:a:0 language=ger");
    for (name, args) in [
        ("0 surround.mkv", surround),
        ("1 stereo.mp4", format!("{video} -c:a aac")),
        ("2 silent.mp4", format!("{video} -an")),
    ] {
        media::flash_and_beep(&folder.path().join(name), FILM_SECONDS, &args);
    }
    let server = kit::start_server(&[folder.path()]).await;
    let channel = add_film_channel(&server, folder.path()).await;
    let (index, both, text) = open_past(&server, &channel, 3, "format=fmp4").await;
    let groups: Vec<_> = both.variants.iter().map(|variant| variant.audio.clone().unwrap_or_default()).collect();
    assert_eq!(groups, ["audio", "surround"], "{text}");
    let stereo = Track::read(&index, both.alternatives[0].uri.as_deref().unwrap()).await;
    let (index, master, text) = open_past(&server, &channel, 3, "format=auto&maxAudioChannels=6").await;
    let [audio] = &master.alternatives[..] else { panic!("{text}") };
    assert_eq!((audio.channels.as_deref(), audio.language.as_deref()), (Some("6"), Some("de")), "{text}");
    let surround = Track::read(&index, audio.uri.as_deref().unwrap()).await;
    assert_eq!(surround.timeline(), stereo.timeline());

    let init = fetch(&surround.url.join(&surround.playlist.segments[0].map.as_ref().unwrap().uri).unwrap()).await.1;
    let mut all = init.clone();
    // ffmpeg's order: FL, FR, FC, LFE, BL, BR.
    let is_loud = [[4].as_slice(), &[0, 1], &[]];
    for ((map, programme), loud) in surround.programmes("audio/mp4").await.iter().zip(is_loud) {
        let path = store_decodable(folder.path(), "programme.mp4", programme);
        let peaks = peaks(&path);
        let found: Vec<usize> = (0..peaks.len()).filter(|&n| peaks[n] > 0.1).collect();
        assert!(peaks.len() == 6 && found == loud, "{map:?}: {peaks:?}");
        assert!(programme.starts_with(&init), "audio has one init segment");
        all.extend(&programme[init.len()..]);
    }
    let packets = media::packets(&store_decodable(folder.path(), "all.mp4", &all));
    assert!(packets.windows(2).all(|pair| pair[1].pts - pair[0].pts == 1024), "audio is continuous");
    let seconds = packets.len() as f64 * 1024.0 / 48_000.0;
    assert!((seconds - f64::from(3 * FILM_SECONDS)).abs() < 0.05, "{seconds}");
    // Without a statement of the channels, MPEG-TS is enough.
    let stereo_target = format!("/api/livetv/watch/{}?wait=15&format=auto&maxAudioChannels=2", channel["id"]);
    let answer = server.get(&stereo_target).send().await.unwrap();
    assert!(answer.url().path().ends_with("/live.m3u8"), "{}", answer.url());
    let refused =
        server.get(&format!("/api/livetv/watch/{}/index.m3u8?maxAudioChannels=0", channel["id"])).send().await.unwrap();
    expect_error(refused, 400, "VALIDATION_ERROR").await;
}

/// Length of the init segment at the start of a file: `ftyp` and `moov`.
fn get_init_len(file: &[u8]) -> usize {
    let size = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    size(0) + size(size(0))
}

#[tokio::test]
async fn the_live_list_in_fmp4_slides_and_foreign_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    make_films(folder.path());
    let server = kit::start_server(&[folder.path()]).await;
    let channel = add_film_channel(&server, folder.path()).await;
    let id = &channel["id"];
    let answer = server.get(&format!("/api/livetv/watch/{id}?wait=15&format=fmp4")).send().await.unwrap();
    let index = answer.url().clone();
    assert!(index.path().ends_with("/index.m3u8"), "{index}");
    let live = Track::read(&index, &index.as_str().replace("index.m3u8", "audio-en.m3u8")).await;
    assert!(!live.playlist.end_list && live.playlist.segments.len() >= 6);
    assert!(live.playlist.segments[0].map.is_some(), "a window begins with its init segment");
    // A language that no item has is the default audio of each.
    let other = Track::read(&index, &index.as_str().replace("index.m3u8", "audio-fr.m3u8")).await;
    assert_eq!(fetch(&other.url.join(&other.playlist.segments[0].uri).unwrap()).await.0, "audio/mp4");

    let started =
        Track::read(&index, &format!("{}&fromStart=1", index.as_str().replace("index.m3u8", "video.m3u8"))).await;
    assert_eq!(started.playlist.playlist_type, Some(m3u8_rs::MediaPlaylistType::Event));
    for name in ["video-0000000000000000.mp4", "audio-0000000000000000.mp4", "audio.m3u8", "video-1-00000.m4s"] {
        let refused = server.get(&format!("/api/livetv/watch/{id}/{name}")).send().await.unwrap();
        expect_error(refused, 404, "ASSET_NOT_FOUND").await;
    }
    let refused = server.get(&format!("/api/livetv/watch/{id}?format=mp4")).send().await.unwrap();
    expect_error(refused, 400, "VALIDATION_ERROR").await;
    let refused = reqwest::get(format!("{}/api/livetv/watch/{id}/video.m3u8", server.base)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}
