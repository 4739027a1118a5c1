//! On-demand channels, which air only while they are watched, and skipping on them.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::play::{fetch_playlist, fetch_segments};
use super::{CHANNELS, add_channel, entry_times_ms, expect_refused_field, get, make_audio_files, send_as_admin};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server, media, player};

/// After restarts and with concurrent changes.
mod durability;

fn from_seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server whose clock only moves when the test advances it, with an on-demand channel.
async fn start_on_demand(folder: &Path, items: &[std::path::PathBuf]) -> (Server, Value) {
    let server = kit::start_server(&[folder]).await;
    server.service.clock.advance(Duration::ZERO);
    let items: Vec<Value> = items.iter().map(|path| json!({"path": path})).collect();
    let body = json!({"name": "Mine", "scheduleMode": "sequential", "onDemand": true, "items": items,
        "guide": {"minProgrammeSeconds": 0}});
    let channel = add_channel(&server, &body).await;
    (server, channel)
}

/// The current programme: title, seconds into it, whether the channel is paused.
async fn current_programme(server: &Server, id: &Value) -> (String, f64, bool) {
    programme_in(&get(server, &format!("/api/livetv/now?channelId={id}")).await)
}

fn programme_in(now: &Value) -> (String, f64, bool) {
    let current = &now["current"];
    assert!(current["entry"]["isLive"].as_bool().unwrap(), "{now}");
    let title = current["entry"]["title"].as_str().unwrap().to_owned();
    (title, current["offsetSeconds"].as_f64().unwrap(), current["stands"].as_bool().unwrap())
}

fn programme(title: &str, offset: f64, is_paused: bool) -> (String, f64, bool) {
    (title.to_owned(), offset, is_paused)
}

/// Watches for `duration_seconds` seconds, reloading the playlist every 5 s as a player does.
async fn watch_for(server: &Server, id: &Value, duration_seconds: u64) -> ParsedPlaylist {
    for _ in 0..duration_seconds / 5 {
        server.service.clock.advance(from_seconds(5));
        fetch_playlist(server, &playlist_target(server, id)).await;
    }
    ParsedPlaylist::parse(fetch_playlist(server, &playlist_target(server, id)).await)
}

fn playlist_target(server: &Server, id: &Value) -> String {
    let grant = server.service.accounts.sign_grant(
        &server.service.accounts.authenticate(&server.token).unwrap(),
        &format!("livetv/watch/{id}"),
        server.service.clock.now().as_second() + 600,
    );
    format!("/api/livetv/watch/{id}/live.m3u8?watchSession=sofa&st={grant}")
}

/// A viewer arrives: the channel clock runs before the first segment is listed.
async fn start_watching(server: &Server, id: &Value) {
    let answer = server.get(&format!("/api/livetv/watch/{id}?watchSession=sofa")).send().await.unwrap();
    assert!([200, 202].contains(&answer.status().as_u16()), "{}", answer.status());
}

async fn stop_watching(server: &Server, id: &Value) -> Value {
    let target = format!("/api/livetv/watch/{id}?watchSession=sofa");
    let answer = server.request(Method::DELETE, &target).bearer_auth(&server.token).send().await.unwrap();
    expect_success(answer, 200).await
}

async fn skip(server: &Server, id: &Value) -> Value {
    expect_success(send_as_admin(server, Method::POST, &format!("{CHANNELS}/{id}/skip"), &json!({})).await, 200).await
}

/// A parsed playlist.
#[derive(Debug)]
struct ParsedPlaylist {
    text: (String, String),
    sequence: u64,
    names: Vec<String>,
    dates: Vec<String>,
}

impl ParsedPlaylist {
    fn parse(text: (String, String)) -> Self {
        let tag_values = |tag: &'static str| text.0.lines().filter_map(move |line| line.strip_prefix(tag));
        let names = text.0.lines().filter(|line| !line.starts_with('#'));
        Self {
            sequence: tag_values("#EXT-X-MEDIA-SEQUENCE:").next().unwrap().parse().unwrap(),
            names: names.map(|name| name.split('?').next().unwrap().to_owned()).collect(),
            dates: tag_values("#EXT-X-PROGRAM-DATE-TIME:").map(str::to_owned).collect(),
            text,
        }
    }

    fn numbered_segments(&self) -> Vec<(u64, &str)> {
        (self.sequence..).zip(self.names.iter().map(String::as_str)).collect()
    }

    /// Asserts that common segments have the same numbers in both playlists, and that this one is not older.
    fn assert_follows(&self, before: &Self) {
        for (number, name) in before.numbered_segments() {
            let number_here =
                self.numbered_segments().iter().find(|(_, other)| *other == name).map(|(number, _)| *number);
            assert!(number_here.is_none_or(|known| known == number), "{name}: {before:?} {self:?}");
        }
        assert!(self.sequence >= before.sequence && self.names.len() >= before.names.len().min(6));
        assert!(self.dates.is_sorted(), "{self:?}");
    }
}

async fn guide(server: &Server, query: &str) -> (String, Vec<Value>) {
    let answer = server.get(&format!("/api/livetv/epg{query}")).send().await.unwrap();
    let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let entries = expect_success(answer, 200).await["entries"].as_array().unwrap().clone();
    let spans: Vec<(i64, i64)> = entries.iter().map(entry_times_ms).collect();
    assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap, no overlap: {spans:?}");
    (etag, entries)
}

#[tokio::test]
async fn an_on_demand_channel_airs_only_while_watched() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[90, 200, 300]);
    let (server, channel) = start_on_demand(folder.path(), &files).await;
    let id = &channel["id"];
    assert_eq!((channel["onDemand"].as_bool(), channel["alwaysOn"].as_bool()), (Some(true), Some(false)));
    server.service.clock.advance(from_seconds(7200));
    assert_eq!(current_programme(&server, id).await, programme("0", 6.0, true), "no viewer came");
    let (etag, entries) = guide(&server, "").await;
    let live = entries.iter().find(|entry| entry["isLive"] == true).unwrap();
    let remaining_ms = entry_times_ms(live).1 - server.service.clock.now().as_millisecond();
    assert!((84_000..=144_000).contains(&remaining_ms), "as if a viewer came within a minute: {remaining_ms}");
    let revalidation = server.get("/api/livetv/epg").header("if-none-match", etag.clone());
    assert!([200, 304].contains(&revalidation.send().await.unwrap().status().as_u16()));
    // Warming the channel does not resume it.
    let warm = send_as_admin(&server, Method::POST, "/api/livetv/warm", &json!({"channelIds": [id]})).await;
    expect_success(warm, 202).await;
    server.service.clock.advance(from_seconds(60));
    assert_eq!(current_programme(&server, id).await, programme("0", 6.0, true));

    start_watching(&server, id).await;
    server.service.clock.advance(from_seconds(15));
    let first = watch_for(&server, id, 25).await;
    assert_eq!(current_programme(&server, id).await, programme("0", 46.0, false));
    assert_ne!(guide(&server, "").await.0, etag);
    assert_eq!(get(&server, &format!("{CHANNELS}/{id}")).await["channel"]["viewers"], 1);
    server.service.clock.advance(from_seconds(2));
    assert_eq!(stop_watching(&server, id).await, json!({"ended": true}));
    server.service.clock.advance(from_seconds(86_400));
    assert_eq!(current_programme(&server, id).await, programme("0", 48.0, true));
    assert_eq!(
        get(&server, &format!("{CHANNELS}/{id}")).await["channel"]["state"],
        "starting",
        "the channel is kept ready"
    );

    // A day later. The last playlist is still valid and continues from there.
    let second = watch_for(&server, id, 10).await;
    second.assert_follows(&first);
    assert_eq!(current_programme(&server, id).await, programme("0", 53.0, false), "running since the first playlist");
    let third = watch_for(&server, id, 60).await;
    third.assert_follows(&second);
    assert_eq!(current_programme(&server, id).await, programme("1", 23.0, false));
    // A viewer that disappears without leaving counts for a while.
    server.service.clock.advance(from_seconds(3600));
    assert_eq!(current_programme(&server, id).await, programme("1", 48.0, true));

    // Past programmes stay in the guide: each once, including the time it was paused.
    let now = server.service.clock.now();
    let (_, entries) =
        guide(&server, &format!("?from={}&to={}", now - from_seconds(30 * 3600), now + from_seconds(60))).await;
    let titles: Vec<&str> = entries.iter().map(|entry| entry["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["0", "1"]);
    let first_entry = &entries[0];
    assert_eq!(first_entry["id"], format!("{id}-0"));
    assert_eq!(entry_times_ms(first_entry).1, now.as_millisecond() - (3600 + 23) * 1000, "{first_entry}");
    let past =
        fetch_playlist(&server, &format!("{}&{}", playlist_target(&server, id), catchup_query(first_entry))).await.0;
    assert!(past.contains("#EXT-X-ENDLIST") && past.matches("#EXTINF").count() > 80 / 6, "{past}");
    assert_eq!(
        current_programme(&server, id).await,
        programme("1", 48.0, true),
        "catch-up does not move the channel clock"
    );
    let from_start =
        ParsedPlaylist::parse(fetch_playlist(&server, &format!("{}&fromStart=1", playlist_target(&server, id))).await);
    assert!(from_start.names[0].ends_with("-00000.ts") && from_start.text.0.contains("EXT-X-START"), "{from_start:?}");
    let paused_instant = server.service.clock.now() - from_seconds(3600 * 10);
    let answer =
        server.get(&format!("/api/livetv/watch/{id}/live.m3u8?at={paused_instant}&duration=600")).send().await.unwrap();
    expect_error(answer, 404, "NOT_FOUND").await;
}

/// The query of an entry's catch-up URL.
fn catchup_query(entry: &Value) -> String {
    entry["catchupUrl"].as_str().unwrap().split_once('?').unwrap().1.to_owned()
}

#[tokio::test]
async fn skipping_leaves_no_gap_for_players() {
    let folder = tempfile::tempdir().unwrap();
    let make_film = |name: &str, encoder_args: &str| {
        let path = folder.path().join(name);
        media::flash_and_beep(&path, 40, encoder_args);
        path
    };
    let copyable = "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac -s 320x180";
    let films = [
        make_film("a.mp4", copyable),
        make_film("b.mp4", copyable),
        make_film("c.mkv", "-r 30 -s 160x90 -c:v mpeg4 -c:a ac3"),
    ];
    let (server, channel) = start_on_demand(folder.path(), &films).await;
    let id = &channel["id"];
    start_watching(&server, id).await;
    server.service.clock.advance(from_seconds(20));
    let first = watch_for(&server, id, 5).await;
    let mut bytes = fetch_segments(&server, &first.text).await;
    let mut next_sequence = first.sequence + first.names.len() as u64;
    let mut last_playlist = first;
    let mut titles = vec![current_programme(&server, id).await.0];
    for _ in 0..3 {
        server.service.clock.advance(Duration::from_millis(700));
        let skipped = programme_in(&skip(&server, id).await);
        assert_eq!((skipped.1, skipped.2), (0.0, false));
        titles.push(skipped.0);
        let after_skip = ParsedPlaylist::parse(fetch_playlist(&server, &playlist_target(&server, id)).await);
        // On a busy machine, more segments may have aired before the skip.
        assert!(
            after_skip.names.contains(last_playlist.names.last().unwrap()),
            "listed segments stay: {last_playlist:?} {after_skip:?}"
        );
        after_skip.assert_follows(&last_playlist);
        for _ in 0..3 {
            let reloaded = watch_for(&server, id, 5).await;
            reloaded.assert_follows(&last_playlist);
            let new_lines: String = reloaded.text.0.lines().filter(|line| !line.starts_with('#')).enumerate().fold(
                String::new(),
                |fresh, (n, line)| {
                    if reloaded.sequence + n as u64 >= next_sequence { fresh + line + "\n" } else { fresh }
                },
            );
            assert!(reloaded.sequence <= next_sequence, "no segment was missed");
            next_sequence = reloaded.sequence + reloaded.names.len() as u64;
            bytes.extend(fetch_segments(&server, &(new_lines, reloaded.text.1.clone())).await);
            last_playlist = reloaded;
        }
    }
    assert_eq!(titles, ["a", "b", "c", "a"]);

    // All segments together are one continuous stream.
    let path = folder.path().join("aired.ts");
    std::fs::write(&path, bytes).unwrap();
    let mut warnings = player::decode(&path).await.warnings;
    warnings.retain(|warning| !warning.contains("non monotonically increasing"));
    assert_eq!(warnings, Vec::<String>::new());
    let stream_kinds = media::stream_kinds(&path);
    let packets = media::packets(&path);
    let packets_of =
        |kind: &str| packets.iter().filter(|packet| stream_kinds[&packet.stream] == kind).collect::<Vec<_>>();
    let (video_packets, audio_packets) = (packets_of("video"), packets_of("audio"));
    assert!(
        video_packets.windows(2).all(|pair| (1..2 * 3600).contains(&(pair[1].dts - pair[0].dts))),
        "video has no gap"
    );
    assert!(
        audio_packets.windows(2).all(|pair| (0..=2 * 1920).contains(&(pair[1].pts - pair[0].pts))),
        "audio has no gap"
    );

    // Past guide entries end where the programmes were skipped.
    let (_, entries) = guide(&server, "").await;
    let past_entries: Vec<&Value> = entries.iter().take(4).collect();
    let lengths: Vec<i64> =
        past_entries.iter().map(|entry| entry_times_ms(entry).1 - entry_times_ms(entry).0).collect();
    assert!(lengths[1..3].iter().all(|ms| *ms < 30_000) && lengths[3] >= 40_000, "{lengths:?}");
    let skipped_playlist =
        fetch_playlist(&server, &format!("{}&{}", playlist_target(&server, id), catchup_query(past_entries[1]))).await;
    assert!(
        skipped_playlist.0.contains("#EXT-X-ENDLIST"),
        "the playlist of a skipped programme is complete: {}",
        skipped_playlist.0
    );

    // Without viewers, a skip goes to the start of the next programme and pauses there, every time.
    stop_watching(&server, id).await;
    server.service.clock.advance(from_seconds(100));
    assert_eq!(programme_in(&skip(&server, id).await), programme("b", 0.0, true));
    assert_eq!(programme_in(&skip(&server, id).await), programme("c", 0.0, true));
    server.service.clock.advance(from_seconds(100));
    let idle_playlist = ParsedPlaylist::parse(fetch_playlist(&server, &playlist_target(&server, id)).await);
    idle_playlist.assert_follows(&last_playlist);
    let resumed_playlist = watch_for(&server, id, 20).await;
    resumed_playlist.assert_follows(&idle_playlist);
    assert!(resumed_playlist.sequence + resumed_playlist.names.len() as u64 > next_sequence, "{resumed_playlist:?}");

    let request = server.request(Method::POST, &format!("{CHANNELS}/{id}/skip")).bearer_auth(&server.token);
    expect_error(request.send().await.unwrap(), 403, "FORBIDDEN").await;
}

#[tokio::test]
async fn block_and_always_on_channels_cannot_be_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[90, 200]);
    let recordings_folder = recorded.path().to_owned();
    let server = kit::start_server_with(&[folder.path()], |config| config.recordings = Some(recordings_folder)).await;
    server.service.clock.advance(Duration::ZERO);
    let body = |changes: Value| {
        let mut body =
            json!({"name": "A", "scheduleMode": "sequential", "items": [{"path": files[0]}, {"path": files[1]}]});
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    let blocks = json!({"dayStart": "05:00", "layers": [{"blocks": [{"at": "05:00", "slots": [{"source": "s"}]}]}],
        "sources": {"s": [{"path": files[0]}]}});
    for (changes, field) in [
        (json!({"onDemand": true, "alwaysOn": true}), "onDemand"),
        (json!({"onDemand": true, "scheduleMode": "blocks", "items": null, "schedule": blocks}), "onDemand"),
    ] {
        expect_refused_field(&server, Method::POST, CHANNELS, &body(changes), field).await;
    }
    let answer = send_as_admin(&server, Method::POST, CHANNELS, &body(json!({"onDemand": "yes"}))).await;
    expect_error(answer, 400, "VALIDATION_ERROR").await;

    // An ordinary channel that is changed to on demand.
    let added = add_channel(&server, &body(json!({"onDemand": false}))).await;
    let (id, channel) = (&added["id"], format!("{CHANNELS}/{}", added["id"]));
    let skip = format!("{channel}/skip");
    expect_error(send_as_admin(&server, Method::POST, &skip, &json!({})).await, 409, "CONFLICT").await;
    expect_error(
        send_as_admin(&server, Method::POST, &format!("{CHANNELS}/9999/skip"), &json!({})).await,
        404,
        "CHANNEL_NOT_FOUND",
    )
    .await;
    server.service.clock.advance(from_seconds(100));
    let before = current_programme(&server, id).await;
    let changed =
        expect_success(send_as_admin(&server, Method::PATCH, &channel, &json!({"onDemand": true})).await, 200).await;
    assert_eq!(changed["channel"]["onDemand"], true);
    server.service.clock.advance(from_seconds(3600));
    assert_eq!(
        current_programme(&server, id).await,
        programme(&before.0, before.1, true),
        "the channel is paused where it was"
    );
    expect_refused_field(&server, Method::PATCH, &channel, &json!({"alwaysOn": true}), "onDemand").await;
    let span = json!({"channelId": id, "start": server.service.clock.now().to_string(),
        "end": (server.service.clock.now() + from_seconds(60)).to_string()});
    expect_error(send_as_admin(&server, Method::POST, "/api/livetv/recordings", &span).await, 409, "CONFLICT").await;

    // A change takes effect at the end of the current programme, whenever that is reached.
    let other = json!({"items": [{"path": files[1], "title": "other"}]});
    expect_success(send_as_admin(&server, Method::PATCH, &channel, &other).await, 200).await;
    assert_eq!(current_programme(&server, id).await, programme(&before.0, before.1, true));
    assert_eq!(
        programme_in(&expect_success(send_as_admin(&server, Method::POST, &skip, &json!({})).await, 200).await),
        programme("other", 0.0, true)
    );

    // Switching `onDemand` off resumes the channel; past programmes keep their times.
    let (_, entries) = guide(&server, "").await;
    let resumed =
        expect_success(send_as_admin(&server, Method::PATCH, &channel, &json!({"onDemand": false})).await, 200).await;
    assert_eq!(
        (resumed["channel"]["onDemand"].as_bool(), resumed["channel"]["now"]["title"].as_str()),
        (Some(false), Some("other"))
    );
    server.service.clock.advance(from_seconds(30));
    let continued = current_programme(&server, id).await;
    assert!(continued.0 == "other" && (29.9..=30.1).contains(&continued.1) && !continued.2, "{continued:?}");
    let (_, later) = guide(&server, &format!("?from={}", server.service.clock.now() - from_seconds(3630))).await;
    assert_eq!(later[0]["start"], entries[0]["start"]);
    expect_error(send_as_admin(&server, Method::POST, &skip, &json!({})).await, 409, "CONFLICT").await;
    let block_schedule = json!({"scheduleMode": "blocks", "schedule": blocks});
    expect_refused_field(&server, Method::PATCH, &channel, &block_schedule, "scheduleMode").await;
}

#[tokio::test]
async fn exports_follow_the_channel_clock() {
    let folder = tempfile::tempdir().unwrap();
    let files = make_audio_files(folder.path(), &[600, 900]);
    let (server, channel) = start_on_demand(folder.path(), &files).await;
    let id = &channel["id"];
    // Half a second into a minute, so that the next minute does not begin during the test.
    let ms_into_minute = server.service.clock.now().as_millisecond().rem_euclid(60_000);
    server.service.clock.advance(Duration::from_millis((60_500 - ms_into_minute) as u64));
    let fetch_xmltv = async |etag: Option<&str>| {
        let mut request = server.get("/api/livetv/xmltv");
        if let Some(known) = etag {
            request = request.header("if-none-match", known);
        }
        let answer = request.send().await.unwrap();
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        (answer.status().as_u16(), etag, answer.text().await.unwrap())
    };
    let (_, first_etag, text) = fetch_xmltv(None).await;
    let guide = kit::xmltv::parse_checked(&text);
    let programmes: Vec<_> = guide.children_named("programme").collect();
    assert!(programmes.len() > 100);
    for pair in programmes.windows(2) {
        assert_eq!(pair[0].attributes["stop"], pair[1].attributes["start"], "no gap, no overlap");
    }
    server.service.clock.advance(from_seconds(50));
    assert_eq!(
        fetch_xmltv(Some(&first_etag)).await.0,
        304,
        "the channel is paused, and the guide of this minute is unchanged"
    );
    server.service.clock.advance(from_seconds(20));
    let (status, later_etag, _) = fetch_xmltv(Some(&first_etag)).await;
    assert!(status == 200 && later_etag != first_etag, "future programmes move to later times");
    let now = skip(&server, id).await;
    assert_eq!(now["current"]["entry"]["title"], "1");
    let (status, skipped_etag, _) = fetch_xmltv(Some(&later_etag)).await;
    assert!(status == 200 && skipped_etag != later_etag);
    start_watching(&server, id).await;
    let (_, running_etag, _) = fetch_xmltv(None).await;
    for _ in 0..20 {
        server.service.clock.advance(from_seconds(5));
        start_watching(&server, id).await;
    }
    assert_eq!(fetch_xmltv(Some(&running_etag)).await.0, 304, "a running channel follows its guide");
    let lineup = server.get("/api/livetv/m3u").send().await.unwrap().text().await.unwrap();
    assert!(lineup.contains("tvg-name=\"Mine\""), "{lineup}");
}
