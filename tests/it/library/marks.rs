//! Marks in media info: the parts of an episode that viewers may skip.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearthcast::service::catalogue::IdleTime;
use hearthcast::service::{catalogue, library_watcher, marks};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::kit;
use crate::kit::media::run_ffmpeg;
use crate::kit::response::{expect_success, send_until_ready};

const SAMPLE_RATE: u32 = 11_025;

/// Notes in an order that follows from `seed`.
fn music(seed: u32, seconds: u32) -> Vec<u8> {
    let (mut state, mut pitch) = (seed, 0.0);
    let sample = |n: u32| {
        if n.is_multiple_of(SAMPLE_RATE / 4) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            pitch = 220.0 * 2f64.powf(f64::from(state >> 28) / 12.0);
        }
        let turn = f64::from(n) / f64::from(SAMPLE_RATE) * pitch * std::f64::consts::TAU;
        ((6000.0 * (turn.sin() + 0.5 * (2.0 * turn).sin())) as i16).to_le_bytes()
    };
    (0..seconds * SAMPLE_RATE).flat_map(sample).collect()
}

/// An episode whose audio has these parts, seed and seconds; its video is text-free black in the last `dark_seconds`.
fn write_episode(path: &Path, audio: &[(u32, u32)], dark_seconds: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let seconds: u32 = audio.iter().map(|(_, seconds)| seconds).sum();
    // Without a space in its name.
    let audio_path = std::env::temp_dir().join(format!("episode-{}-{}.raw", std::process::id(), audio[0].0));
    std::fs::write(&audio_path, audio.iter().flat_map(|(seed, seconds)| music(*seed, *seconds)).collect::<Vec<_>>())
        .unwrap();
    let bright_until = seconds - dark_seconds;
    let video = format!("color=gray:s=64x36:r=2:d={seconds},drawbox=c=black:t=fill:enable='gte(t,{bright_until})'");
    let rate = SAMPLE_RATE.to_string();
    let audio_text = audio_path.to_str().unwrap();
    let inputs = ["-f", "lavfi", "-i", &video, "-f", "s16le", "-ar", &rate, "-ac", "1", "-i", audio_text];
    let encode = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "4", "-c:a", "copy"];
    run_ffmpeg(path, &[&inputs[..], &encode[..]].concat());
    std::fs::remove_file(audio_path).unwrap();
}

async fn marks_of(server: &kit::Server, path: &Path) -> Vec<(String, String, f64, f64)> {
    let path = utf8_percent_encode(path.to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    let request = server.get(&format!("/api/stream/info/full?path={path}"));
    let info = expect_success(send_until_ready(request).await, 200).await;
    let mark = |mark: &Value| {
        let text = |name: &str| mark[name].as_str().unwrap().to_owned();
        let seconds = |name: &str| mark[name].as_f64().unwrap();
        assert!((0.01..=1.0).contains(&seconds("confidence")), "{mark}");
        (text("kind"), text("source"), seconds("startSeconds"), seconds("endSeconds"))
    };
    info["marks"].as_array().unwrap().iter().map(mark).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_theme_of_a_season_and_dark_credits_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let episode = |number: u32| folder.path().join(format!("TV/Harbour/Season 1/Harbour S01E0{number}.mkv"));
    let theme = (7, 25);
    write_episode(&episode(1), &[(11, 30), theme, (12, 205)], 0);
    write_episode(&episode(2), &[(21, 8), theme, (22, 227)], 40);
    write_episode(&episode(3), &[(31, 260)], 0);
    let server = kit::start_server(&[folder.path()]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    while server.service.catalogue.newest_videos().len() < 3 {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(marks_of(&server, &episode(1)).await, [], "nothing is marked before the analysis");

    // An open file is one that is played.
    let opened = server.service.library.open(episode(1).to_str().unwrap()).await.unwrap();
    server.service.library.close(&opened);
    marks::analyse_library(&server.service, &mut IdleTime::passed()).await;
    let near = |value: f64, expected: f64| (value - expected).abs() < 2.5;
    let first = marks_of(&server, &episode(1)).await;
    let [(kind, source, start, end)] = &first[..] else { panic!("{first:?}") };
    assert_eq!((&**kind, &**source), ("intro", "commonAudio"));
    assert!(near(*start, 30.0) && near(*end, 55.0), "{first:?}");
    let second = marks_of(&server, &episode(2)).await;
    let [(_, _, start, _), (kind, source, credits_start, end)] = &second[..] else { panic!("{second:?}") };
    assert!(near(*start, 8.0), "{second:?}");
    assert_eq!((&**kind, &**source), ("credits", "darkVideo"));
    assert!(near(*credits_start, 220.0) && near(*end, 260.0), "{second:?}");
    assert_eq!(marks_of(&server, &episode(3)).await, [], "it has nothing in common with its neighbour");
}

/// Grey frames of soft shapes, two a second, for scenes of a seed and seconds.
fn scenes(scenes: &[(u32, u32)]) -> Vec<u8> {
    let frame = |seed: u32| -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 16) / 65_536.0
        };
        let waves: Vec<[f64; 3]> = (0..8).map(|_| [next() * 0.3, next() * 0.3, next() * 6.3]).collect();
        let level = |x: u32, y: u32| {
            let wave = |[a, b, phase]: &[f64; 3]| (a * f64::from(x) + b * f64::from(y) + phase).sin();
            (120.0 + 12.0 * waves.iter().map(wave).sum::<f64>()) as u8
        };
        (0..36).flat_map(|y| (0..64).map(move |x| (x, y))).map(|(x, y)| level(x, y)).collect()
    };
    scenes.iter().flat_map(|(seed, seconds)| frame(*seed).repeat(2 * *seconds as usize)).collect()
}

/// An episode of 250 s: an opening of 40 s with these scenes, the theme of its season, and a scene of its own every 5 s.
fn write_episode_with_opening(folder: &Path, number: u32, opening: &[(u32, u32)]) -> PathBuf {
    let path = folder.join(format!("TV/Beacon/Season 1/Beacon S01E0{number}.mkv"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let own = (0..42).map(|scene| (number * 1000 + scene, 5));
    let video = scenes(&opening.iter().copied().chain(own).collect::<Vec<_>>());
    let audio = [(10 * number + 1, 40), (7, 25), (10 * number + 2, 185)].map(|(seed, seconds)| music(seed, seconds));
    let inputs =
        ["video", "audio"].map(|kind| std::env::temp_dir().join(format!("{kind}-{}-{number}.raw", std::process::id())));
    std::fs::write(&inputs[0], video).unwrap();
    std::fs::write(&inputs[1], audio.concat()).unwrap();
    let rate = SAMPLE_RATE.to_string();
    let [video, audio] = inputs.each_ref().map(|path| path.to_str().unwrap());
    let video = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", "64x36", "-r", "2", "-i", video];
    let audio = ["-f", "s16le", "-ar", &rate, "-ac", "1", "-i", audio];
    let encode = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "4", "-c:a", "copy"];
    run_ffmpeg(&path, &[&video[..], &audio[..], &encode[..]].concat());
    inputs.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_of_moments_from_earlier_episodes_is_a_recap() {
    let folder = tempfile::tempdir().unwrap();
    let own = |number: u32| (0..8).map(|scene| (number * 100 + scene, 5)).collect::<Vec<_>>();
    let with_one_known_view = [&[(1020, 5)], &own(2)[1..]].concat();
    let moments = [1030, 2012, 1010, 2035, 2020, 1018, 2028].map(|scene| (scene, 4));
    let with_recap = [&moments[..], &[(301, 6), (302, 6)]].concat();
    let openings = [own(1), with_one_known_view, with_recap];
    let episodes: Vec<PathBuf> = (1..)
        .zip(&openings)
        .map(|(number, opening)| write_episode_with_opening(folder.path(), number, opening))
        .collect();
    let server = kit::start_server(&[folder.path()]).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    while server.service.catalogue.newest_videos().len() < episodes.len() {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    marks::analyse_library(&server.service, &mut IdleTime::passed()).await;
    for (episode, has_recap) in episodes.iter().zip([false, false, true]) {
        let marks = marks_of(&server, episode).await;
        let intro = marks.iter().find(|(kind, ..)| kind == "intro").unwrap_or_else(|| panic!("{episode:?}: {marks:?}"));
        // Notes before the theme may be like its own.
        assert!((intro.2 - 40.0).abs() < 5.0, "{episode:?}: {marks:?}");
        let recap = marks.iter().find(|(kind, ..)| kind == "recap");
        assert_eq!(recap.is_some(), has_recap, "{episode:?}: {marks:?}");
        let Some((_, source, start, end)) = recap else { continue };
        assert_eq!((&**source, *start), ("commonVideo", 0.0));
        assert!((26.0..=30.0).contains(end), "{marks:?}");
    }
}
