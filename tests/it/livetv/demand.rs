//! On-demand channels, which air only while they are watched, and skipping on them.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::play::{fetch, list};
use super::{CHANNELS, add, get, refused_field, send, sounds, span};
use crate::kit::answer::{refused, success};
use crate::kit::{self, Server, film, play};

/// After restarts and with concurrent changes.
mod kept;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server whose clock only moves when the test advances it, with an on-demand channel.
async fn waiting(folder: &Path, items: &[std::path::PathBuf]) -> (Server, Value) {
    let server = kit::server(&[folder]).await;
    server.service.clock.advance(Duration::ZERO);
    let items: Vec<Value> = items.iter().map(|path| json!({"path": path})).collect();
    let body = json!({"name": "Mine", "scheduleMode": "sequential", "onDemand": true, "items": items,
        "guide": {"minProgrammeSeconds": 0}});
    let made = add(&server, &body).await;
    (server, made)
}

/// The current programme: title, seconds into it, whether the channel is paused.
async fn on(server: &Server, id: &Value) -> (String, f64, bool) {
    on_of(&get(server, &format!("/api/livetv/now?channelId={id}")).await)
}

fn on_of(now: &Value) -> (String, f64, bool) {
    let on = &now["current"];
    assert!(on["entry"]["isLive"].as_bool().unwrap(), "{now}");
    let title = on["entry"]["title"].as_str().unwrap().to_owned();
    (title, on["offsetSeconds"].as_f64().unwrap(), on["stands"].as_bool().unwrap())
}

fn of(title: &str, offset: f64, stands: bool) -> (String, f64, bool) {
    (title.to_owned(), offset, stands)
}

/// Watches for `long` seconds, reloading the playlist every 5 s as a player does.
async fn stay(server: &Server, id: &Value, long: u64) -> List {
    for _ in 0..long / 5 {
        server.service.clock.advance(seconds(5));
        list(server, &target(server, id)).await;
    }
    List::of(list(server, &target(server, id)).await)
}

fn target(server: &Server, id: &Value) -> String {
    let user = server.service.accounts.sign_grant(
        &server.service.accounts.authenticate(&server.token).unwrap(),
        &format!("livetv/watch/{id}"),
        server.service.clock.now().as_second() + 600,
    );
    format!("/api/livetv/watch/{id}/live.m3u8?watchSession=sofa&st={user}")
}

/// A viewer arrives: the channel clock runs before the first segment is listed.
async fn come(server: &Server, id: &Value) {
    let answer = server.get(&format!("/api/livetv/watch/{id}?watchSession=sofa")).send().await.unwrap();
    assert!([200, 202].contains(&answer.status().as_u16()), "{}", answer.status());
}

async fn leave(server: &Server, id: &Value) -> Value {
    let target = format!("/api/livetv/watch/{id}?watchSession=sofa");
    let left = server.ask(Method::DELETE, &target).bearer_auth(&server.token).send().await.unwrap();
    success(left, 200).await
}

async fn skip(server: &Server, id: &Value) -> Value {
    success(send(server, Method::POST, &format!("{CHANNELS}/{id}/skip"), &json!({})).await, 200).await
}

/// A parsed playlist.
#[derive(Debug)]
struct List {
    text: (String, String),
    sequence: u64,
    names: Vec<String>,
    dates: Vec<String>,
}

impl List {
    fn of(text: (String, String)) -> Self {
        let after = |tag: &'static str| text.0.lines().filter_map(move |line| line.strip_prefix(tag));
        let names = text.0.lines().filter(|line| !line.starts_with('#'));
        Self {
            sequence: after("#EXT-X-MEDIA-SEQUENCE:").next().unwrap().parse().unwrap(),
            names: names.map(|name| name.split('?').next().unwrap().to_owned()).collect(),
            dates: after("#EXT-X-PROGRAM-DATE-TIME:").map(str::to_owned).collect(),
            text,
        }
    }

    fn numbered(&self) -> Vec<(u64, &str)> {
        (self.sequence..).zip(self.names.iter().map(String::as_str)).collect()
    }

    /// Asserts that common segments have the same numbers in both playlists, and that this one is not older.
    fn follows(&self, before: &Self) {
        for (number, name) in before.numbered() {
            let known = self.numbered().iter().find(|(_, other)| *other == name).map(|(number, _)| *number);
            assert!(known.is_none_or(|known| known == number), "{name}: {before:?} {self:?}");
        }
        assert!(self.sequence >= before.sequence && self.names.len() >= before.names.len().min(6));
        assert!(self.dates.is_sorted(), "{self:?}");
    }
}

async fn epg(server: &Server, query: &str) -> (String, Vec<Value>) {
    let answer = server.get(&format!("/api/livetv/epg{query}")).send().await.unwrap();
    let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let entries = success(answer, 200).await["entries"].as_array().unwrap().clone();
    let spans: Vec<(i64, i64)> = entries.iter().map(span).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap, no overlap: {spans:?}");
    (etag, entries)
}

#[tokio::test]
async fn it_airs_while_somebody_watches_and_is_found_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[90, 200, 300]);
    let (server, made) = waiting(folder.path(), &files).await;
    let id = &made["id"];
    assert_eq!((made["onDemand"].as_bool(), made["alwaysOn"].as_bool()), (Some(true), Some(false)));
    server.service.clock.advance(seconds(7200));
    assert_eq!(on(&server, id).await, of("0", 6.0, true), "no viewer came");
    let (etag, entries) = epg(&server, "").await;
    let live = entries.iter().find(|entry| entry["isLive"] == true).unwrap();
    let left_ms = span(live).1 - server.service.clock.now().as_millisecond();
    assert!((84_000..=144_000).contains(&left_ms), "as if a viewer came within a minute: {left_ms}");
    let again = server.get("/api/livetv/epg").header("if-none-match", etag.clone());
    assert!([200, 304].contains(&again.send().await.unwrap().status().as_u16()));
    // Warming the channel does not resume it.
    let warm = send(&server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id]})).await;
    success(warm, 202).await;
    server.service.clock.advance(seconds(60));
    assert_eq!(on(&server, id).await, of("0", 6.0, true));

    come(&server, id).await;
    server.service.clock.advance(seconds(15));
    let first = stay(&server, id, 25).await;
    assert_eq!(on(&server, id).await, of("0", 46.0, false));
    assert_ne!(epg(&server, "").await.0, etag);
    assert_eq!(get(&server, &format!("{CHANNELS}/{id}")).await["channel"]["viewers"], 1);
    server.service.clock.advance(seconds(2));
    assert_eq!(leave(&server, id).await, json!({"ended": true}));
    server.service.clock.advance(seconds(86_400));
    assert_eq!(on(&server, id).await, of("0", 48.0, true));
    assert_eq!(
        get(&server, &format!("{CHANNELS}/{id}")).await["channel"]["state"],
        "starting",
        "the channel is kept ready"
    );

    // A day later. The last playlist is still valid and continues from there.
    let second = stay(&server, id, 10).await;
    second.follows(&first);
    assert_eq!(on(&server, id).await, of("0", 53.0, false), "running since the first playlist");
    let third = stay(&server, id, 60).await;
    third.follows(&second);
    assert_eq!(on(&server, id).await, of("1", 23.0, false));
    // A viewer that disappears without leaving counts for a while.
    server.service.clock.advance(seconds(3600));
    assert_eq!(on(&server, id).await, of("1", 48.0, true));

    // Past programmes stay in the guide: each once, including the time it was paused.
    let now = server.service.clock.now();
    let (_, entries) = epg(&server, &format!("?from={}&to={}", now - seconds(30 * 3600), now + seconds(60))).await;
    let told: Vec<&str> = entries.iter().map(|entry| entry["title"].as_str().unwrap()).collect();
    assert_eq!(told, ["0", "1"]);
    let zero = &entries[0];
    assert_eq!(zero["id"], format!("{id}-0"));
    assert_eq!(span(zero).1, now.as_millisecond() - (3600 + 23) * 1000, "{zero}");
    let past = list(&server, &format!("{}&{}", target(&server, id), past(zero))).await.0;
    assert!(past.contains("#EXT-X-ENDLIST") && past.matches("#EXTINF").count() > 80 / 6, "{past}");
    assert_eq!(on(&server, id).await, of("1", 48.0, true), "catch-up does not move the channel clock");
    let begun = List::of(list(&server, &format!("{}&fromStart=1", target(&server, id))).await);
    assert!(begun.names[0].ends_with("-00000.ts") && begun.text.0.contains("EXT-X-START"), "{begun:?}");
    let stood = server.service.clock.now() - seconds(3600 * 10);
    let none = server.get(&format!("/api/livetv/watch/{id}/live.m3u8?at={stood}&duration=600")).send().await.unwrap();
    refused(none, 404, "NOT_FOUND").await;
}

/// The query of an entry's catch-up URL.
fn past(entry: &Value) -> String {
    entry["catchupUrl"].as_str().unwrap().split_once('?').unwrap().1.to_owned()
}

#[tokio::test]
async fn what_is_skipped_is_no_hole_for_players() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, more: &str| {
        let path = folder.path().join(name);
        film::flash_and_beep(&path, 40, more);
        path
    };
    let copied = "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -s 320x180";
    let films = [make("a.mp4", copied), make("b.mp4", copied), make("c.mkv", "-r 30 -s 160x90 -c:v mpeg4 -c:a ac3")];
    let (server, made) = waiting(folder.path(), &films).await;
    let id = &made["id"];
    come(&server, id).await;
    server.service.clock.advance(seconds(20));
    let first = stay(&server, id, 5).await;
    let mut bytes = fetch(&server, &first.text).await;
    let mut fetched = first.sequence + first.names.len() as u64;
    let mut before = first;
    let mut titles = vec![on(&server, id).await.0];
    for _ in 0..3 {
        server.service.clock.advance(Duration::from_millis(700));
        let skipped = on_of(&skip(&server, id).await);
        assert_eq!((skipped.1, skipped.2), (0.0, false));
        titles.push(skipped.0);
        let at = List::of(list(&server, &target(&server, id)).await);
        // On a busy machine, more segments may have aired before the skip.
        assert!(at.names.contains(before.names.last().unwrap()), "listed segments stay: {before:?} {at:?}");
        at.follows(&before);
        for _ in 0..3 {
            let after = stay(&server, id, 5).await;
            after.follows(&before);
            let fresh: String = after.text.0.lines().filter(|line| !line.starts_with('#')).enumerate().fold(
                String::new(),
                |fresh, (n, line)| {
                    if after.sequence + n as u64 >= fetched { fresh + line + "\n" } else { fresh }
                },
            );
            assert!(after.sequence <= fetched, "no segment was missed");
            fetched = after.sequence + after.names.len() as u64;
            bytes.extend(fetch(&server, &(fresh, after.text.1.clone())).await);
            before = after;
        }
    }
    assert_eq!(titles, ["a", "b", "c", "a"]);

    // All segments together are one continuous stream.
    let path = folder.path().join("aired.ts");
    std::fs::write(&path, bytes).unwrap();
    let mut warnings = play::decode(&path).await.warnings;
    warnings.retain(|warning| !warning.contains("non monotonically increasing"));
    assert_eq!(warnings, Vec::<String>::new());
    let kinds = film::kinds(&path);
    let packets = film::packets(&path);
    let of = |kind: &str| packets.iter().filter(|packet| kinds[&packet.stream] == kind).collect::<Vec<_>>();
    let (pictures, sounds) = (of("video"), of("audio"));
    assert!(pictures.windows(2).all(|pair| (1..2 * 3600).contains(&(pair[1].dts - pair[0].dts))), "video has no gap");
    assert!(sounds.windows(2).all(|pair| (0..=2 * 1920).contains(&(pair[1].pts - pair[0].pts))), "audio has no gap");

    // Past guide entries end where the programmes were skipped.
    let (_, entries) = epg(&server, "").await;
    let past: Vec<&Value> = entries.iter().take(4).collect();
    let lengths: Vec<i64> = past.iter().map(|entry| span(entry).1 - span(entry).0).collect();
    assert!(lengths[1..3].iter().all(|ms| *ms < 30_000) && lengths[3] >= 40_000, "{lengths:?}");
    let b = list(&server, &format!("{}&{}", target(&server, id), self::past(past[1]))).await;
    assert!(b.0.contains("#EXT-X-ENDLIST"), "the playlist of a skipped programme is complete: {}", b.0);

    // Without viewers, a skip goes to the start of the next programme and pauses there, every time.
    leave(&server, id).await;
    server.service.clock.advance(seconds(100));
    assert_eq!(on_of(&skip(&server, id).await), self::of("b", 0.0, true));
    assert_eq!(on_of(&skip(&server, id).await), self::of("c", 0.0, true));
    server.service.clock.advance(seconds(100));
    let last = List::of(list(&server, &target(&server, id)).await);
    last.follows(&before);
    let next = stay(&server, id, 20).await;
    next.follows(&last);
    assert!(next.sequence + next.names.len() as u64 > fetched, "{next:?}");

    let asked = server.ask(Method::POST, &format!("{CHANNELS}/{id}/skip")).bearer_auth(&server.token);
    refused(asked.send().await.unwrap(), 403, "FORBIDDEN").await;
}

#[tokio::test]
async fn what_goes_by_the_clock_cannot_wait() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[90, 200]);
    let shelf = recorded.path().to_owned();
    let server = kit::server_with(&[folder.path()], |config| config.recordings = Some(shelf)).await;
    server.service.clock.advance(Duration::ZERO);
    let body = |more: Value| {
        let mut body =
            json!({"name": "A", "scheduleMode": "sequential", "items": [{"path": files[0]}, {"path": files[1]}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let blocks = json!({"dayStart": "05:00", "layers": [{"blocks": [{"at": "05:00", "slots": [{"source": "s"}]}]}],
        "sources": {"s": [{"path": files[0]}]}});
    for (more, field) in [
        (json!({"onDemand": true, "alwaysOn": true}), "onDemand"),
        (json!({"onDemand": true, "scheduleMode": "blocks", "items": null, "schedule": blocks}), "onDemand"),
    ] {
        refused_field(&server, Method::POST, CHANNELS, &body(more), field).await;
    }
    let wrong = send(&server, Method::POST, CHANNELS, &body(json!({"onDemand": "yes"}))).await;
    refused(wrong, 400, "VALIDATION_ERROR").await;

    // An ordinary channel that is changed to on demand.
    let made = add(&server, &body(json!({"onDemand": false}))).await;
    let (id, channel) = (&made["id"], format!("{CHANNELS}/{}", made["id"]));
    let skip = format!("{channel}/skip");
    refused(send(&server, Method::POST, &skip, &json!({})).await, 409, "CONFLICT").await;
    refused(send(&server, Method::POST, &format!("{CHANNELS}/9999/skip"), &json!({})).await, 404, "CHANNEL_NOT_FOUND")
        .await;
    server.service.clock.advance(seconds(100));
    let before = on(&server, id).await;
    let waits = success(send(&server, Method::PATCH, &channel, &json!({"onDemand": true})).await, 200).await;
    assert_eq!(waits["channel"]["onDemand"], true);
    server.service.clock.advance(seconds(3600));
    assert_eq!(on(&server, id).await, of(&before.0, before.1, true), "the channel is paused where it was");
    refused_field(&server, Method::PATCH, &channel, &json!({"alwaysOn": true}), "onDemand").await;
    let span = json!({"channelId": id, "start": server.service.clock.now().to_string(),
        "end": (server.service.clock.now() + seconds(60)).to_string()});
    refused(send(&server, Method::POST, "/api/livetv/recordings", &span).await, 409, "CONFLICT").await;

    // A change takes effect at the end of the current programme, whenever that is reached.
    let other = json!({"items": [{"path": files[1], "title": "other"}]});
    success(send(&server, Method::PATCH, &channel, &other).await, 200).await;
    assert_eq!(on(&server, id).await, of(&before.0, before.1, true));
    assert_eq!(
        on_of(&success(send(&server, Method::POST, &skip, &json!({})).await, 200).await),
        of("other", 0.0, true)
    );

    // Switching `onDemand` off resumes the channel; past programmes keep their times.
    let (_, entries) = epg(&server, "").await;
    let free = success(send(&server, Method::PATCH, &channel, &json!({"onDemand": false})).await, 200).await;
    assert_eq!(
        (free["channel"]["onDemand"].as_bool(), free["channel"]["now"]["title"].as_str()),
        (Some(false), Some("other"))
    );
    server.service.clock.advance(seconds(30));
    let gone_on = on(&server, id).await;
    assert!(gone_on.0 == "other" && (29.9..=30.1).contains(&gone_on.1) && !gone_on.2, "{gone_on:?}");
    let (_, later) = epg(&server, &format!("?from={}", server.service.clock.now() - seconds(3630))).await;
    assert_eq!(later[0]["start"], entries[0]["start"]);
    refused(send(&server, Method::POST, &skip, &json!({})).await, 409, "CONFLICT").await;
    let by_clock = json!({"scheduleMode": "blocks", "schedule": blocks});
    refused_field(&server, Method::PATCH, &channel, &by_clock, "scheduleMode").await;
}

#[tokio::test]
async fn exports_follow_the_clock_of_a_channel() {
    let folder = tempfile::tempdir().unwrap();
    let files = sounds(folder.path(), &[600, 900]);
    let (server, made) = waiting(folder.path(), &files).await;
    let id = &made["id"];
    // Half a second into a minute, so that the next minute does not begin during the test.
    let into = server.service.clock.now().as_millisecond().rem_euclid(60_000);
    server.service.clock.advance(Duration::from_millis((60_500 - into) as u64));
    let xmltv = async |known: Option<&str>| {
        let mut asked = server.get("/api/livetv/xmltv");
        if let Some(known) = known {
            asked = asked.header("if-none-match", known);
        }
        let answer = asked.send().await.unwrap();
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        (answer.status().as_u16(), etag, answer.text().await.unwrap())
    };
    let (_, etag, text) = xmltv(None).await;
    let guide = kit::xmltv::read(&text);
    let programmes: Vec<_> = guide.all("programme").collect();
    assert!(programmes.len() > 100);
    for pair in programmes.windows(2) {
        assert_eq!(pair[0].attributes["stop"], pair[1].attributes["start"], "no gap, no overlap");
    }
    server.service.clock.advance(seconds(50));
    assert_eq!(xmltv(Some(&etag)).await.0, 304, "the channel is paused, and the guide of this minute is unchanged");
    server.service.clock.advance(seconds(20));
    let (status, next, _) = xmltv(Some(&etag)).await;
    assert!(status == 200 && next != etag, "future programmes move to later times");
    let said = skip(&server, id).await;
    assert_eq!(said["current"]["entry"]["title"], "1");
    let (status, skipped, _) = xmltv(Some(&next)).await;
    assert!(status == 200 && skipped != next);
    come(&server, id).await;
    let (_, running, _) = xmltv(None).await;
    for _ in 0..20 {
        server.service.clock.advance(seconds(5));
        come(&server, id).await;
    }
    assert_eq!(xmltv(Some(&running)).await.0, 304, "a running channel follows its guide");
    let lineup = server.get("/api/livetv/m3u").send().await.unwrap().text().await.unwrap();
    assert!(lineup.contains("tvg-name=\"Mine\""), "{lineup}");
}
