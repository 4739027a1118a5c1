//! Filler within programmes: where a programme is interrupted, and that none of it is lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearthcast::config::Config;
use hearthcast::domain::mpegts::{TIMESTAMP_WRAP, unwrap_timestamp};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::play::fetch;
use super::seams::{marked, marks, stretch};
use super::{CHANNELS, add, get, refused_field, send, span};
use crate::kit::answer::success;
use crate::kit::{self, Server, play};

/// Position of the chapter in both films, seconds, and the start of the nearest segment.
const CHAPTER: f64 = 660.7;
const BREAK_MS: i64 = 660_000;

/// One frame per second keeps long films small.
const RATE: u32 = 1;
const FILM_MS: i64 = 1_320_000;

/// Makes two films of 22 minutes with a chapter in the middle, one to copy and one to encode, and two fillers to encode.
fn media(folder: &Path) -> [PathBuf; 4] {
    let chapters = folder.join("chapters.txt");
    let chapter = |from: f64, to: f64| {
        format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={}\nEND={}\ntitle=One\n", from * 1000.0, to * 1000.0)
    };
    let text = format!(";FFMETADATA1\n{}{}", chapter(0.0, CHAPTER), chapter(CHAPTER, 1320.0));
    std::fs::write(&chapters, text).unwrap();
    let map = format!("-f ffmetadata -i {} -map 0:v -map 1:a -map_chapters 2", chapters.display());
    let path = |name: &str| folder.join(name);
    let films = [path("Copied.mkv"), path("Encoded.mkv")];
    let sound = "-c:a pcm_s16le -ar 8000 -ac 1";
    let x264 = "-c:v libx264 -preset ultrafast -g 2 -keyint_min 2 -sc_threshold 0 -bf 0";
    marked(&films[0], 1, (RATE, 1320.0), &[&map, x264, sound]);
    marked(&films[1], 2, (RATE, 1320.0), &[&map, "-c:v mpeg4 -q:v 4 -g 2", sound]);
    let fillers = [path("ad 6.mkv"), path("ad 8.mkv")];
    for (n, filler) in fillers.iter().enumerate() {
        marked(filler, 14 + n as u32, (25, 6.0 + 2.0 * n as f64), &["-c:v mpeg4 -q:v 4 -g 50 -c:a ac3"]);
    }
    let [copied, encoded] = films;
    let [six, eight] = fillers;
    [copied, encoded, six, eight]
}

/// The current programme: path, position in the file and remaining time, ms.
async fn now(server: &Server, id: &Value) -> (String, i64, i64) {
    let now = get(server, &format!("/api/livetv/now?channelId={id}")).await["current"].clone();
    let ms = |field: &str| (now[field].as_f64().unwrap() * 1000.0).round() as i64;
    (now["mediaPath"].as_str().unwrap().to_owned(), ms("offsetSeconds"), ms("remainingSeconds"))
}

/// Plays what was aired between two instants: film, frame number and time (ticks since 1970).
async fn played(server: &Server, id: &Value, (from_ms, to_ms): (i64, i64), folder: &Path) -> Vec<(usize, i64, i64)> {
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let (text, base, url) = stretch(server, id, at(from_ms), at(to_ms)).await;
    let list = play::decode(Path::new(&url)).await;
    for pair in list.audio.windows(2) {
        let step = pair[1].at - pair[0].at;
        assert!((step - 1024.0 / 48_000.0).abs() < 0.0025, "audio steps by {step} at {}", pair[0].at);
    }
    let path = folder.join("aired.ts");
    std::fs::write(&path, fetch(server, &(text, base)).await).unwrap();
    let times = play::decode(&path).await;
    let marks = marks(&path).await;
    assert_eq!((marks.len(), list.video.len()), (times.video.len(), times.video.len()));
    let ticks = |seconds: f64| unwrap_timestamp(((seconds * 90_000.0).round() as i64).rem_euclid(TIMESTAMP_WRAP), from_ms * 90);
    marks.iter().zip(&times.video).map(|((film, picture), time)| (*film, *picture, ticks(time.at))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_is_broken_at_its_chapter_and_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let [copied, encoded, six, eight] = media(folder.path());
    let recorded = tempfile::tempdir().unwrap();
    let recordings = recorded.path().to_owned();
    // With one encode slot, the film must release it for the filler and take it back.
    let change = |config: &mut Config| {
        (config.limits.concurrent_jobs, config.recordings) = (1, Some(recordings));
    };
    let server = kit::server_with(&[folder.path()], change).await;
    let start = Timestamp::now() - Duration::from_secs(600);
    let body = |items: Value| {
        json!({"name": "Broken", "scheduleMode": "sequential", "startAt": start.to_string(), "items": items,
            "filler": {"mid": [{"path": six}, {"path": eight}]}})
    };
    let made = add(&server, &body(json!([{"path": copied}, {"path": encoded}]))).await;
    let gone = add(&server, &body(json!([{"path": encoded}]))).await;
    let id = &made["id"];
    assert_eq!(made["filler"]["mid"].as_array().unwrap().len(), 2);
    let start_ms = start.as_millisecond();
    let epg = async |id: &Value| -> Vec<Value> {
        let to = start + Duration::from_secs(5400);
        get(&server, &format!("/api/livetv/epg?channelId={id}&from={start}&to={to}")).await["entries"]
            .as_array()
            .unwrap()
            .clone()
    };

    // One entry for the whole film. With its breaks shown, every part has an entry with its own id.
    let hidden = epg(id).await;
    let (from, to) = span(&hidden[0]);
    let filler_ms = to - from - FILM_MS;
    assert_eq!((from, hidden[0]["title"].as_str()), (start_ms, Some("Copied")));
    assert!(filler_ms == 6000 || filler_ms == 8000, "{filler_ms}");
    assert_eq!(
        (hidden[1]["title"].as_str(), span(&hidden[1])),
        (Some("Encoded"), (to, to + FILM_MS + 14_000 - filler_ms))
    );
    let target = format!("{CHANNELS}/{id}");
    success(send(&server, Method::PATCH, &target, &json!({"guide": {"showFiller": true}})).await, 200).await;
    let shown = epg(id).await;
    let parts: Vec<_> = shown[..3].iter().map(|entry| (span(entry), entry["isFiller"] == true)).collect();
    let (breaks, goes_on) = (from + BREAK_MS, from + BREAK_MS + filler_ms);
    assert_eq!(parts, [((from, breaks), false), ((breaks, goes_on), true), ((goes_on, to), false)]);
    assert_eq!((&shown[0]["id"], &shown[0]["title"]), (&hidden[0]["id"], &shown[2]["title"]));
    let ids: std::collections::BTreeSet<&str> = shown.iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), shown.len());

    // XMLTV agrees: both parts of the first showing are premieres.
    let xmltv = server.get(&format!("/api/livetv/xmltv?channelIds={id}")).send().await.unwrap().text().await.unwrap();
    let first = |title: &str| {
        let line = |line: &&str| line.contains(&format!("<title>{title}</title>"));
        xmltv.lines().filter(line).map(|line| line.contains("<premiere/>")).collect::<Vec<_>>()
    };
    assert_eq!(first("Copied")[..3], [true, true, false], "{xmltv}");
    // A recording of a part or a break records the whole programme.
    for entry in [&shown[4], &shown[5]] {
        let body = json!({"channelId": id, "entryId": entry["id"]});
        let made = success(send(&server, Method::POST, "/api/livetv/recordings", &body).await, 201).await;
        let made = &made["recording"];
        assert_eq!((&made["title"], span(made)), (&json!("Encoded"), (to, span(&shown[5]).1)));
        let target = format!("/api/livetv/recordings/{}", made["id"].as_str().unwrap());
        success(send(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    }
    success(send(&server, Method::PATCH, &target, &json!({"guide": {"showFiller": false}})).await, 200).await;

    // Position in the file of the current part. A change waits for the end of the programme, not of its part.
    let at = |wanted_ms: i64| {
        let now_ms = server.service.clock.now().as_millisecond();
        server.service.clock.advance(Duration::from_millis((wanted_ms - now_ms).max(0).unsigned_abs()));
    };
    let near = |found: i64, wanted: i64| (wanted..wanted + 4000).contains(&found);
    let (path, offset, remaining) = now(&server, id).await;
    assert!(path.ends_with("Copied.mkv") && offset + remaining == BREAK_MS, "{path} {offset} {remaining}");
    at(breaks + 1000);
    let (path, offset, remaining) = now(&server, id).await;
    let filler = if filler_ms == 6000 { &six } else { &eight };
    assert!(Path::new(&path) == filler && near(offset, 1000) && offset + remaining == filler_ms, "{path} {offset}");
    at(goes_on + 20_000);
    let (path, offset, remaining) = now(&server, id).await;
    assert!(path.ends_with("Copied.mkv") && near(offset, BREAK_MS + 20_000), "{path} {offset}");
    assert_eq!(offset + remaining, FILM_MS);
    let mut seeded = body(json!([{"path": encoded}, {"path": copied}]));
    seeded["seed"] = json!(5);
    seeded.as_object_mut().unwrap().remove("startAt");
    success(send(&server, Method::PATCH, &target, &seeded).await, 200).await;
    let edited = epg(id).await;
    assert_eq!(
        (&edited[0], edited[1]["start"].as_str()),
        (
            &get(&server, &format!("/api/livetv/now?channelId={id}")).await["current"]["entry"],
            hidden[0]["end"].as_str()
        )
    );
    assert_eq!(span(&edited[0]), (from, to));

    // Over the break: every frame once, at its time, and continuous audio.
    for (film, begins) in [(1, from), (2, to)] {
        let entry = epg(id).await.into_iter().find(|entry| span(entry).0 == begins).unwrap();
        let filler_ms = span(&entry).1 - begins - FILM_MS;
        let (breaks, goes_on) = (begins + BREAK_MS, begins + BREAK_MS + filler_ms);
        at(goes_on + 30_000);
        let seen = played(&server, id, (breaks - 9000, goes_on + 9000), folder.path()).await;
        let ad = if filler_ms == 6000 { 14 } else { 15 };
        let order: Vec<usize> = seen.chunk_by(|a, b| a.0 == b.0).map(|run| run[0].0).collect();
        assert_eq!(order, [film, ad, film]);
        let own: Vec<i64> = seen.iter().filter(|(of, ..)| *of == film).map(|(_, picture, _)| *picture).collect();
        assert!(own.windows(2).all(|pair| pair[1] == pair[0] + 1), "no frame is lost or repeated: {own:?}");
        let left = BREAK_MS * i64::from(RATE) / 1000;
        assert!(own[0] <= left - 9 && own[own.len() - 1] >= left + 8, "{own:?}");
        let filler: Vec<i64> = seen.iter().filter(|(of, ..)| *of == ad).map(|(_, picture, _)| *picture).collect();
        assert_eq!(filler, (0..filler_ms / 40).collect::<Vec<_>>());
        for (of, picture, ticks) in &seen {
            let (zero, step) = match (*of == film, *picture < left) {
                (true, true) => (begins, 1000 / i64::from(RATE)),
                (true, false) => (begins + filler_ms, 1000 / i64::from(RATE)),
                (false, _) => (breaks, 40),
            };
            let off = (ticks - (zero + picture * step) * 90).abs();
            assert!(off <= 40 * 90, "frame {picture} of film {of} is {off} ticks off");
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
    let entry = epg(&gone["id"]).await.remove(0);
    let breaks = span(&entry).0 + BREAK_MS;
    let filler_ms = span(&entry).1 - span(&entry).0 - FILM_MS;
    let seen = played(&server, &gone["id"], (breaks - 3000, breaks + filler_ms + 3000), folder.path()).await;
    let ads = seen.iter().filter(|(of, ..)| *of == 14 || *of == 15).count() as i64;
    assert!(ads == filler_ms / 40 && seen.iter().all(|(of, ..)| *of != 2), "{ads} {filler_ms}");
}

#[tokio::test]
async fn what_is_aired_between_programmes_needs_a_clock_and_what_is_within_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = super::sounds(folder.path(), &[3, 1]);
    let server = kit::server(&[folder.path()]).await;
    let body = |filler: Value| json!({"name": "A", "items": [{"path": files[0]}], "filler": filler});
    let ad = json!([{"path": files[1]}]);
    refused_field(&server, Method::POST, CHANNELS, &body(json!({"mid": ad, "post": ad})), "filler").await;
    let made = add(&server, &body(json!({"mid": ad}))).await;
    assert_eq!((&made["filler"]["mid"][0]["path"], &made["itemCount"]), (&json!(files[1]), &json!(2)));
    // A file without chapters is not interrupted. Renaming keeps the filler; an empty object removes it.
    let target = format!("{CHANNELS}/{}", made["id"]);
    let (from, to) = (Timestamp::now(), Timestamp::now() + Duration::from_secs(60));
    let epg = get(&server, &format!("/api/livetv/epg?channelId={}&from={from}&to={to}", made["id"])).await;
    assert!(epg["entries"].as_array().unwrap().iter().all(|entry| entry["durationSeconds"] == 3.0));
    let named = success(send(&server, Method::PATCH, &target, &json!({"name": "B"})).await, 200).await;
    assert_eq!((&named["channel"]["filler"], &named["channel"]["revision"]), (&made["filler"], &made["revision"]));
    let none = success(send(&server, Method::PATCH, &target, &json!({"filler": {}})).await, 200).await;
    assert_eq!((none["channel"].get("filler"), &none["channel"]["itemCount"]), (None, &json!(1)));
    // The stored channel equals the one in memory.
    let back = success(send(&server, Method::PATCH, &target, &json!({"filler": {"mid": ad}})).await, 200).await;
    assert_eq!(back["channel"]["itemCount"], 2);
    let (store, clock) = (server.service.store.clone(), server.service.clock.clone());
    let read = hearthcast::service::channels::Channels::open(store, clock).unwrap().all();
    let held = server.service.channels.all();
    assert_eq!((&held[0].definition, &held[0].requested_filler), (&read[0].definition, &read[0].requested_filler));
}
