//! Filler within programmes: where a programme is interrupted, and that none of it is lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearthcast::config::Config;
use hearthcast::domain::mpegts::unwrap_timestamp;
use hearthcast::domain::time::Ticks;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::play::fetch_segments;
use super::seams::{fetch_past_playlist, frame_numbers, make_numbered_film};
use super::{CHANNELS, add_channel, entry_times_ms, expect_refused_field, get, send_as_admin};
use crate::kit::response::expect_success;
use crate::kit::{self, Server, player};

/// Position of the chapter in both films, seconds, and the start of the nearest segment.
const CHAPTER_SECONDS: f64 = 660.7;
const BREAK_MS: i64 = 660_000;

/// One frame per second keeps long films small.
const FRAME_RATE: u32 = 1;
const FILM_MS: i64 = 1_320_000;

/// Makes two films of 22 minutes with a chapter in the middle, one to copy and one to encode, and two fillers to encode.
fn make_media(folder: &Path) -> [PathBuf; 4] {
    let chapters = folder.join("chapters.txt");
    let chapter = |from: f64, to: f64| {
        format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={}\nEND={}\ntitle=One\n", from * 1000.0, to * 1000.0)
    };
    let text = format!(";FFMETADATA1\n{}{}", chapter(0.0, CHAPTER_SECONDS), chapter(CHAPTER_SECONDS, 1320.0));
    std::fs::write(&chapters, text).unwrap();
    let map = format!("-f ffmetadata -i {} -map 0:v -map 1:a -map_chapters 2", chapters.display());
    let path = |name: &str| folder.join(name);
    let films = [path("Copied.mkv"), path("Encoded.mkv")];
    let audio_args = "-c:a pcm_s16le -ar 8000 -ac 1";
    let x264 = "-c:v libx264 -preset ultrafast -g 2 -keyint_min 2 -sc_threshold 0 -bf 0";
    make_numbered_film(&films[0], 1, (FRAME_RATE, 1320.0), &[&map, x264, audio_args]);
    make_numbered_film(&films[1], 2, (FRAME_RATE, 1320.0), &[&map, "-c:v mpeg4 -q:v 4 -g 2", audio_args]);
    let fillers = [path("ad 6.mkv"), path("ad 8.mkv")];
    for (n, filler) in fillers.iter().enumerate() {
        make_numbered_film(filler, 14 + n as u32, (25, 6.0 + 2.0 * n as f64), &["-c:v mpeg4 -q:v 4 -g 50 -c:a ac3"]);
    }
    let [copied, encoded] = films;
    let [six, eight] = fillers;
    [copied, encoded, six, eight]
}

/// The current programme: path, position in the file and remaining time, ms.
async fn current_item(server: &Server, id: &Value) -> (String, i64, i64) {
    let now = get(server, &format!("/api/livetv/now?channelId={id}")).await["current"].clone();
    let ms = |field: &str| (now[field].as_f64().unwrap() * 1000.0).round() as i64;
    (now["mediaPath"].as_str().unwrap().to_owned(), ms("offsetSeconds"), ms("remainingSeconds"))
}

/// Plays what was aired between two instants: film, frame number and time since 1970.
async fn play_past(
    server: &Server,
    id: &Value,
    (from_ms, to_ms): (i64, i64),
    folder: &Path,
) -> Vec<(usize, i64, Ticks)> {
    let instant = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let (text, base, url) = fetch_past_playlist(server, id, instant(from_ms), instant(to_ms)).await;
    let list = player::decode(Path::new(&url)).await;
    for pair in list.audio.windows(2) {
        let step = pair[1].start_seconds - pair[0].start_seconds;
        assert!((step - 1024.0 / 48_000.0).abs() < 0.0025, "audio steps by {step} at {}", pair[0].start_seconds);
    }
    let path = folder.join("aired.ts");
    std::fs::write(&path, fetch_segments(server, &(text, base)).await).unwrap();
    let times = player::decode(&path).await;
    let frame_numbers = frame_numbers(&path).await;
    assert_eq!((frame_numbers.len(), list.video.len()), (times.video.len(), times.video.len()));
    let on_air = |seconds: f64| unwrap_timestamp(Ticks::from_seconds(seconds).wrapped(), Ticks::from_ms(from_ms));
    frame_numbers
        .iter()
        .zip(&times.video)
        .map(|((film, frame), time)| (*film, *frame, on_air(time.start_seconds)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_is_interrupted_at_its_chapter_and_continues_there() {
    let folder = tempfile::tempdir().unwrap();
    let [copied, encoded, six, eight] = make_media(folder.path());
    let recorded = tempfile::tempdir().unwrap();
    let recordings = recorded.path().to_owned();
    // With one encode slot, the film must release it for the filler and take it back.
    let configure = |config: &mut Config| {
        (config.limits.concurrent_jobs, config.recordings) = (1, Some(recordings));
    };
    let server = kit::start_server_with(&[folder.path()], configure).await;
    let start = Timestamp::now() - Duration::from_secs(600);
    let body = |items: Value| {
        json!({"name": "Broken", "scheduleMode": "sequential", "startAt": start.to_string(), "items": items,
            "filler": {"mid": [{"path": six}, {"path": eight}]}})
    };
    let channel = add_channel(&server, &body(json!([{"path": copied}, {"path": encoded}]))).await;
    let later_deleted = add_channel(&server, &body(json!([{"path": encoded}]))).await;
    let id = &channel["id"];
    assert_eq!(channel["filler"]["mid"].as_array().unwrap().len(), 2);
    let start_ms = start.as_millisecond();
    let guide_entries = async |id: &Value| -> Vec<Value> {
        let to = start + Duration::from_secs(5400);
        get(&server, &format!("/api/livetv/epg?channelId={id}&from={start}&to={to}")).await["entries"]
            .as_array()
            .unwrap()
            .clone()
    };

    // One entry for the whole film. With its breaks shown, every part has an entry with its own id.
    let hidden = guide_entries(id).await;
    let (from, to) = entry_times_ms(&hidden[0]);
    let filler_ms = to - from - FILM_MS;
    assert_eq!((from, hidden[0]["title"].as_str()), (start_ms, Some("Copied")));
    assert!(filler_ms == 6000 || filler_ms == 8000, "{filler_ms}");
    assert_eq!(
        (hidden[1]["title"].as_str(), entry_times_ms(&hidden[1])),
        (Some("Encoded"), (to, to + FILM_MS + 14_000 - filler_ms))
    );
    let target = format!("{CHANNELS}/{id}");
    expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"guide": {"showFiller": true}})).await, 200)
        .await;
    let shown = guide_entries(id).await;
    let parts: Vec<_> = shown[..3].iter().map(|entry| (entry_times_ms(entry), entry["isFiller"] == true)).collect();
    let (break_start, break_end) = (from + BREAK_MS, from + BREAK_MS + filler_ms);
    assert_eq!(parts, [((from, break_start), false), ((break_start, break_end), true), ((break_end, to), false)]);
    assert_eq!((&shown[0]["id"], &shown[0]["title"]), (&hidden[0]["id"], &shown[2]["title"]));
    let ids: std::collections::BTreeSet<&str> = shown.iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), shown.len());

    // XMLTV agrees: both parts of the first showing are premieres.
    let xmltv = server.get(&format!("/api/livetv/xmltv?channelIds={id}")).send().await.unwrap().text().await.unwrap();
    let premieres = |title: &str| {
        let line = |line: &&str| line.contains(&format!("<title>{title}</title>"));
        xmltv.lines().filter(line).map(|line| line.contains("<premiere/>")).collect::<Vec<_>>()
    };
    assert_eq!(premieres("Copied")[..3], [true, true, false], "{xmltv}");
    // A recording of a part or a break records the whole programme.
    for entry in [&shown[4], &shown[5]] {
        let body = json!({"channelId": id, "entryId": entry["id"]});
        let created =
            expect_success(send_as_admin(&server, Method::POST, "/api/livetv/recordings", &body).await, 201).await;
        let recording = &created["recording"];
        assert_eq!(
            (&recording["title"], entry_times_ms(recording)),
            (&json!("Encoded"), (to, entry_times_ms(&shown[5]).1))
        );
        let target = format!("/api/livetv/recordings/{}", recording["id"].as_str().unwrap());
        expect_success(send_as_admin(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    }
    expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"guide": {"showFiller": false}})).await, 200)
        .await;

    // Position in the file of the current part. A change waits for the end of the programme, not of its part.
    let advance_to = |target_ms: i64| {
        let now_ms = server.service.clock.now().as_millisecond();
        server.service.clock.advance(Duration::from_millis((target_ms - now_ms).max(0).unsigned_abs()));
    };
    let is_near = |found: i64, expected: i64| (expected..expected + 4000).contains(&found);
    let (path, offset, remaining) = current_item(&server, id).await;
    assert!(path.ends_with("Copied.mkv") && offset + remaining == BREAK_MS, "{path} {offset} {remaining}");
    advance_to(break_start + 1000);
    let (path, offset, remaining) = current_item(&server, id).await;
    let filler = if filler_ms == 6000 { &six } else { &eight };
    assert!(Path::new(&path) == filler && is_near(offset, 1000) && offset + remaining == filler_ms, "{path} {offset}");
    advance_to(break_end + 20_000);
    let (path, offset, remaining) = current_item(&server, id).await;
    assert!(path.ends_with("Copied.mkv") && is_near(offset, BREAK_MS + 20_000), "{path} {offset}");
    assert_eq!(offset + remaining, FILM_MS);
    let mut reordered = body(json!([{"path": encoded}, {"path": copied}]));
    reordered["seed"] = json!(5);
    reordered.as_object_mut().unwrap().remove("startAt");
    expect_success(send_as_admin(&server, Method::PATCH, &target, &reordered).await, 200).await;
    let mut edited = guide_entries(id).await;
    // Only the guide has it.
    edited[0].as_object_mut().unwrap().remove("isNew");
    assert_eq!(
        (&edited[0], edited[1]["start"].as_str()),
        (
            &get(&server, &format!("/api/livetv/now?channelId={id}")).await["current"]["entry"],
            hidden[0]["end"].as_str()
        )
    );
    assert_eq!(entry_times_ms(&edited[0]), (from, to));

    // Over the break: every frame once, at its time, and continuous audio.
    for (film, start_ms) in [(1, from), (2, to)] {
        let entry = guide_entries(id).await.into_iter().find(|entry| entry_times_ms(entry).0 == start_ms).unwrap();
        let filler_ms = entry_times_ms(&entry).1 - start_ms - FILM_MS;
        let (break_start, break_end) = (start_ms + BREAK_MS, start_ms + BREAK_MS + filler_ms);
        advance_to(break_end + 30_000);
        let frames = play_past(&server, id, (break_start - 9000, break_end + 9000), folder.path()).await;
        let ad = if filler_ms == 6000 { 14 } else { 15 };
        let order: Vec<usize> = frames.chunk_by(|a, b| a.0 == b.0).map(|frames_of_film| frames_of_film[0].0).collect();
        assert_eq!(order, [film, ad, film]);
        let own_frames: Vec<i64> =
            frames.iter().filter(|(film_number, ..)| *film_number == film).map(|(_, number, _)| *number).collect();
        assert!(
            own_frames.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "no frame is lost or repeated: {own_frames:?}"
        );
        let frames_before_break = BREAK_MS * i64::from(FRAME_RATE) / 1000;
        assert!(
            own_frames[0] <= frames_before_break - 9 && own_frames[own_frames.len() - 1] >= frames_before_break + 8,
            "{own_frames:?}"
        );
        let filler_frames: Vec<i64> =
            frames.iter().filter(|(film_number, ..)| *film_number == ad).map(|(_, number, _)| *number).collect();
        assert_eq!(filler_frames, (0..filler_ms / 40).collect::<Vec<_>>());
        for (film_number, number, time) in &frames {
            let (origin, step) = match (*film_number == film, *number < frames_before_break) {
                (true, true) => (start_ms, 1000 / i64::from(FRAME_RATE)),
                (true, false) => (start_ms + filler_ms, 1000 / i64::from(FRAME_RATE)),
                (false, _) => (break_start, 40),
            };
            let offset = (*time - Ticks::from_ms(origin + number * step)).abs();
            assert!(offset <= Ticks::from_ms(40), "frame {number} of film {film_number} is off by {offset:?}");
        }
    }

    // From the start of the current programme, which is the film, although its second part is on.
    let answer = server.get(&format!("/api/livetv/watch/{id}/live.m3u8?fromStart=1")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.unwrap();
    let first = text.lines().find_map(|line| line.strip_prefix("#EXT-X-PROGRAM-DATE-TIME:")).unwrap();
    assert_eq!(first.parse::<Timestamp>().unwrap().as_millisecond(), to);

    // A deleted film becomes a slate; the filler in its break is still aired.
    std::fs::remove_file(&encoded).unwrap();
    let entry = guide_entries(&later_deleted["id"]).await.remove(0);
    let break_start = entry_times_ms(&entry).0 + BREAK_MS;
    let filler_ms = entry_times_ms(&entry).1 - entry_times_ms(&entry).0 - FILM_MS;
    let frames =
        play_past(&server, &later_deleted["id"], (break_start - 3000, break_start + filler_ms + 3000), folder.path())
            .await;
    let filler_frames =
        frames.iter().filter(|(film_number, ..)| *film_number == 14 || *film_number == 15).count() as i64;
    assert!(
        filler_frames == filler_ms / 40 && frames.iter().all(|(film_number, ..)| *film_number != 2),
        "{filler_frames} {filler_ms}"
    );
}

#[tokio::test]
async fn filler_between_programmes_needs_a_block_schedule_and_filler_within_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = super::make_audio_files(folder.path(), &[3, 1]);
    let server = kit::start_server(&[folder.path()]).await;
    let body = |filler: Value| json!({"name": "A", "items": [{"path": files[0]}], "filler": filler});
    let ad = json!([{"path": files[1]}]);
    expect_refused_field(&server, Method::POST, CHANNELS, &body(json!({"mid": ad, "post": ad})), "filler").await;
    let channel = add_channel(&server, &body(json!({"mid": ad}))).await;
    assert_eq!((&channel["filler"]["mid"][0]["path"], &channel["itemCount"]), (&json!(files[1]), &json!(2)));
    // A file without chapters is not interrupted. Renaming keeps the filler; an empty object removes it.
    let target = format!("{CHANNELS}/{}", channel["id"]);
    let (from, to) = (Timestamp::now(), Timestamp::now() + Duration::from_secs(60));
    let guide = get(&server, &format!("/api/livetv/epg?channelId={}&from={from}&to={to}", channel["id"])).await;
    assert!(guide["entries"].as_array().unwrap().iter().all(|entry| entry["durationSeconds"] == 3.0));
    let renamed =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"name": "B"})).await, 200).await;
    assert_eq!(
        (&renamed["channel"]["filler"], &renamed["channel"]["revision"]),
        (&channel["filler"], &channel["revision"])
    );
    let without_filler =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"filler": {}})).await, 200).await;
    assert_eq!((without_filler["channel"].get("filler"), &without_filler["channel"]["itemCount"]), (None, &json!(1)));
    // The stored channel equals the one in memory.
    let with_filler =
        expect_success(send_as_admin(&server, Method::PATCH, &target, &json!({"filler": {"mid": ad}})).await, 200)
            .await;
    assert_eq!(with_filler["channel"]["itemCount"], 2);
    let (store, clock) = (server.service.store.clone(), server.service.clock.clone());
    let stored = hearthcast::service::channels::Channels::open(store, clock).unwrap().all();
    let in_memory = server.service.channels.all();
    assert_eq!(
        (&in_memory[0].definition, &in_memory[0].requested_filler),
        (&stored[0].definition, &stored[0].requested_filler)
    );
}
