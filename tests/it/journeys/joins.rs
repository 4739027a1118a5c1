//! Joins at random positions, by container and family of codecs: flashes and beeps coincide, also after a change of the language.

use std::path::Path;

use hearthcast::engine::TIMELINE_BASE;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::sessions::{session_path, start};
use crate::kit::random::Random;
use crate::kit::{self, Server, media};

const FILM_SECONDS: u32 = 20;
const H264: &str = "-c:v libx264 -preset ultrafast -bf 2 -g 37 -pix_fmt yuv420p";
/// Cut at recovery points.
const OPEN_H264: &str =
    "-c:v libx264 -preset veryfast -bf 2 -x264-params keyint=37:scenecut=0:open-gop=1 -pix_fmt yuv420p";
const HEVC: &str =
    "-c:v libx265 -preset ultrafast -pix_fmt yuv420p10le -x265-params log-level=error:keyint=37:open-gop=0";

/// Name of the file, encoders of the video and of the two languages, expected actions for video and audio. Those after
/// [`QUICK_FILMS`] take long to make.
const FILMS: [(&str, &str, &str, &str); 9] = [
    ("aac.mp4", H264, "-c:a aac -movflags +faststart", "copy copy"),
    ("fragments.mp4", H264, "-c:a aac -movflags +frag_keyframe+empty_moov+delay_moov", "copy copy"),
    ("flac.mkv", OPEN_H264, "-c:a flac", "copy copy"),
    ("opus.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 37 -pix_fmt yuv420p", "-c:a libopus", "copy copy"),
    ("mpeg4.avi", "-c:v mpeg4 -g 37 -bf 0", "-c:a ac3", "encode encode"),
    ("eac3.mov", HEVC, "-tag:v hvc1 -c:a eac3", "copy copy"),
    ("ac3.mkv", HEVC, "-c:a ac3", "copy copy"),
    ("opus.mkv", "-c:v libsvtav1 -preset 12 -g 37 -pix_fmt yuv420p", "-c:a libopus", "copy copy"),
    ("dts.mkv", H264, "-c:a dca -strict -2", "copy encode"),
];

/// The films that are joined without `HEARTHCAST_JOINS`.
const QUICK_FILMS: usize = 5;

/// A player with all codecs but DTS.
fn capabilities() -> Value {
    json!({
        "codecs": [
            "avc1.640033", "hvc1.2.4.L153.B0", "av01.0.08M.08", "vp09.00.51.08", "mp4a.40.2", "ac-3", "ec-3", "opus", "fLaC",
        ],
        "audioRenditions": true,
    })
}

/// The films, and the number of joins of each.
fn films_and_joins() -> (&'static [(&'static str, &'static str, &'static str, &'static str)], usize) {
    match std::env::var("HEARTHCAST_JOINS") {
        Ok(text) => (&FILMS, text.parse().expect("HEARTHCAST_JOINS is a number")),
        Err(_) => (&FILMS[..QUICK_FILMS], 1),
    }
}

/// The same video, and its audio in two languages.
fn make_film(folder: &Path, (name, video, audio, _): (&str, &str, &str, &str)) -> std::path::PathBuf {
    let (plain, film) = (folder.join("plain.mkv"), folder.join(name));
    media::flash_and_beep(&plain, FILM_SECONDS, "-c:v libx264 -preset ultrafast -qp 10 -bf 0 -c:a pcm_s16le");
    let input = format!("-i {}", plain.display());
    media::run_ffmpeg(&film, &[&input, "-map 0:v -map 0:a -map 0:a", video, audio]);
    std::fs::remove_file(plain).unwrap();
    film
}

/// The init segment and the segments of one rendition, with their starts, seconds.
struct Track {
    init: Url,
    segments: Vec<(Url, f64)>,
    seconds: f64,
}

async fn get(server: &Server, url: &Url) -> Vec<u8> {
    let answer = server.client.get(url.clone()).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{url}");
    answer.bytes().await.unwrap().to_vec()
}

impl Track {
    async fn read(server: &Server, url: &Url) -> Self {
        let text = String::from_utf8(get(server, url).await).unwrap();
        let init = text.split("#EXT-X-MAP:URI=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let (mut seconds, mut segments) = (0.0, Vec::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(length) = line.strip_prefix("#EXTINF:") {
                segments.push((url.join(lines.next().unwrap()).unwrap(), seconds));
                seconds += length.trim_end_matches(',').parse::<f64>().unwrap();
            }
        }
        Self { init: url.join(init).unwrap(), segments, seconds }
    }

    /// Start of a segment, or of what follows the last one, seconds.
    fn start_of(&self, segment: usize) -> f64 {
        self.segments.get(segment).map_or(self.seconds, |(_, start)| *start)
    }

    async fn save(&self, server: &Server, segments: std::ops::Range<usize>, path: &Path) {
        let mut bytes = get(server, &self.init).await;
        for (url, _) in &self.segments[segments.start..segments.end.min(self.segments.len())] {
            bytes.extend(get(server, url).await);
        }
        std::fs::write(path, bytes).unwrap();
    }
}

/// Plays two segments of the video with one language, as after a join there.
async fn assert_in_sync(server: &Server, video: &Track, audio: &Track, first: usize, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (video_path, audio_path) = (folder.path().join("video.mp4"), folder.path().join("audio.mp4"));
    video.save(server, first..first + 2, &video_path).await;
    audio.save(server, first..first + 2, &audio_path).await;
    let in_film =
        |times: Vec<f64>| times.into_iter().map(|time| time - TIMELINE_BASE.as_seconds()).collect::<Vec<f64>>();
    let (flashes, _) = media::flash_and_beep_times(&video_path, 25.0);
    let (_, beeps) = media::flash_and_beep_times(&audio_path, 25.0);
    let (flashes, beeps) = (in_film(flashes), in_film(beeps));
    // ffmpeg discards the pre-skip of Opus (312 samples) at the first packet of any file, also where a join is.
    let discarded = if what.starts_with("opus") { 312.0 / 48_000.0 } else { 0.0 };
    let beeps: Vec<f64> = beeps.into_iter().map(|beep| beep + discarded).collect();
    // The first frames of audio after a join fade in, and a beep may begin before the join.
    let window = video.start_of(first) + 0.2..video.start_of(first + 2) - 0.2;
    let flashes: Vec<f64> = flashes.into_iter().filter(|time| window.contains(&time.round())).collect();
    let seconds = (window.start.ceil() as u32..).take_while(|second| f64::from(*second) < window.end).count();
    assert_eq!(flashes.len(), seconds, "{what}: {window:?} has the flashes {flashes:?}");
    for flash in flashes {
        assert!((flash - flash.round()).abs() <= 0.05, "{what}: a flash at {flash}");
        assert!(
            beeps.iter().any(|beep| (beep - flash).abs() <= 0.02),
            "{what}: a flash at {flash}, beeps at {beeps:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn picture_and_audio_match_after_a_join_and_after_a_change_of_the_language() {
    let folder = tempfile::tempdir().unwrap();
    let (films, joins) = films_and_joins();
    let films: Vec<_> = films.iter().map(|film| (make_film(folder.path(), *film), film.3)).collect();
    let server = kit::start_server(&[folder.path()]).await;
    let mut random = Random(7);
    for (film, actions) in films {
        let name = film.file_name().unwrap().to_str().unwrap();
        for _ in 0..joins {
            let position = random.below(FILM_SECONDS as usize - 1);
            let what = format!("{name} from {position} s");
            let options = json!({
                "mediaPath": film, "capabilities": capabilities(), "forceTranscode": true, "startPositionSeconds": position,
            });
            let session = start(&server, &options).await;
            let decision = &session["decision"];
            let found = ["video", "audio"].map(|kind| decision[kind].as_str().unwrap()).join(" ");
            assert_eq!((&decision["format"], &*found), (&json!("fmp4"), actions), "{what}: {decision}");
            let url = format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap());
            let url = Url::parse(&url).unwrap();
            let text = String::from_utf8(get(&server, &url).await).unwrap();
            let m3u8_rs::Playlist::MasterPlaylist(list) = m3u8_rs::parse_playlist_res(text.as_bytes()).unwrap() else {
                panic!("{text}");
            };
            let video = Track::read(&server, &url.join(&list.variants[0].uri).unwrap()).await;
            let mut languages = Vec::new();
            for rendition in &list.alternatives {
                languages.push(Track::read(&server, &url.join(rendition.uri.as_deref().unwrap()).unwrap()).await);
            }
            assert_eq!(languages.len(), 2, "{text}");
            let first = video.segments.iter().rposition(|(_, start)| *start <= position as f64).unwrap();
            let first = first.min(video.segments.len().saturating_sub(2));
            assert_in_sync(&server, &video, &languages[0], first, &what).await;
            let next = (first + 1).min(video.segments.len() - 2);
            assert_in_sync(&server, &video, &languages[1], next, &format!("{what}, other language")).await;
            let stop = server.request(Method::DELETE, &session_path(&session)).bearer_auth(&server.token);
            assert_eq!(stop.send().await.unwrap().status(), 200);
        }
    }
}
