//! The guide of many channels: XMLTV compared with quick-xml's event writer, JSON compared with serde_json alone, over the
//! same entries; memory, and the cost of an unchanged guide.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::domain::access::Role;
use hearthcast::domain::channel::{Channel, RequestedItem};
use hearthcast::domain::library::Root;
use hearthcast::domain::lineup::ChannelNaming;
use hearthcast::domain::schedule::ScheduleMode;
use hearthcast::domain::time::WallMs;
use hearthcast::domain::xmltv::{self, ProgrammeWriter, XmltvOptions, write_time};
use hearthcast::service::Service;
use hearthcast::service::channels::ChannelChange;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::service_config::service_config;

const CHANNELS: usize = 1000;
const ITEMS_PER_CHANNEL: usize = 100;
const DAYS: i64 = 14;
const ROUNDS: usize = 7;
const REPEATS: usize = 200;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Bytes buffered before they are sent, as in the server.
const CHUNK_BYTES: usize = 64 * 1024;

/// One XMLTV entry.
struct XmltvEntry {
    start_ms: i64,
    end_ms: i64,
    channel: String,
    title: String,
    subtitle: Option<String>,
    description: String,
    category: String,
    seconds: i64,
    episode: Option<(u32, u32)>,
}

/// An entry of the JSON guide, as sent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonEntry {
    id: String,
    channel_id: u32,
    title: String,
    description: String,
    start: String,
    end: String,
    icon_url: String,
    subtitle: Option<String>,
    season: Option<u32>,
    episode: Option<u32>,
    year: Option<u32>,
    categories: Vec<String>,
    rating: Option<String>,
    duration_seconds: f64,
    media_path: String,
    is_filler: bool,
    is_live: bool,
    catchup_url: Option<String>,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let service = add_channels(folder.path()).await;
        measure_xmltv(&service);
        measure_http(service).await;
    });
}

/// A thousand channels, each with a hundred titles of one audio file of 45 minutes.
async fn add_channels(folder: &Path) -> Arc<Service> {
    let path = folder.join("audio.mka");
    let status = std::process::Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "anullsrc=sample_rate=8000:channel_layout=mono", "-t", "2700"])
        .args(["-c:a", "libopus", "-b:a", "6k"])
        .arg(&path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
    let state = folder.join("state");
    let mut config = service_config(&state, &state.join("cache"));
    config.roots = vec![Root { id: "r".into(), path: folder.to_owned() }];
    let service = Service::open(config).expect("the service opens");
    let started = Instant::now();
    for n in 0..CHANNELS {
        let channel_item = |item: usize| RequestedItem {
            title: Some(
                format!("The Show of {n} S{:02}E{:02} What happened & why", 1 + item / 10, 1 + item % 10).into(),
            ),
            ..RequestedItem::from_path(path.to_str().expect("plain text"))
        };
        let change = ChannelChange {
            name: Some(format!("Channel {n}")),
            mode: Some(ScheduleMode::Shuffle),
            seed: Some(n as u64),
            category: Some("Series".to_owned()),
            description: Some("Made of the library, all day and all night".to_owned()),
            start_at: "2026-01-01T00:00:00Z".parse().ok(),
            requested_items: Some((0..ITEMS_PER_CHANNEL).map(channel_item).collect()),
            ..ChannelChange::default()
        };
        service.add_channel(change).await.expect("a channel can be made");
    }
    println!("{CHANNELS} channels of {ITEMS_PER_CHANNEL} items made in {:.1} s", started.elapsed().as_secs_f64());
    service
}

/// XMLTV of two weeks without a server, and the same document by quick-xml, in turns.
fn measure_xmltv(service: &Service) {
    let now = service.clock.now_ms();
    let midnight = now - now.0.rem_euclid(DAY_MS);
    let (from, to) = (midnight, midnight + DAYS * DAY_MS);
    let style = XmltvOptions {
        base_url: "http://tv:8470".to_owned(),
        naming: ChannelNaming::Stable,
        local_times: false,
        include_lcn: false,
        icons: xmltv::ItemIcons::default(),
    };
    let (mut ours, mut quick_xml, mut bytes, mut count) = (Vec::new(), Vec::new(), (0, 0), 0);
    for _ in 0..ROUNDS {
        // Copies do not have the cached orders of earlier rounds.
        let channels: Vec<Arc<Channel>> =
            service.channels.all().iter().map(|channel| Arc::new((**channel).clone())).collect();
        let started = Instant::now();
        bytes.0 = write_all(&channels, from, to, &style);
        ours.push(started.elapsed());
        let entries = xmltv_entries(&channels, from, to);
        count = entries.len();
        let started = Instant::now();
        bytes.1 = write_by_events(&entries);
        quick_xml.push(started.elapsed());
    }
    let (ours, quick_xml) = (median_millis(ours), median_millis(quick_xml));
    println!("| XMLTV, {CHANNELS} channels, {DAYS} days | ms | MiB | / quick-xml |\n|---|---|---|---|");
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    println!("| ours, cold, schedule included | {ours:.0} | {:.0} | {:.2} |", mib(bytes.0), ours / quick_xml);
    println!("| quick-xml events, {count} entries given | {quick_xml:.0} | {:.0} | 1 |", mib(bytes.1));
}

/// Writes all channels; returns the number of bytes. A full buffer is discarded, as if it had been sent.
fn write_all(channels: &[Arc<Channel>], from: WallMs, to: WallMs, style: &XmltvOptions) -> usize {
    let (mut out, mut bytes) = (Vec::with_capacity(2 * CHUNK_BYTES), 0);
    xmltv::write_header(&mut out);
    channels.iter().for_each(|channel| xmltv::write_channel(&mut out, channel, style));
    for channel in channels {
        let mut programmes = ProgrammeWriter::new(channel.clone(), from, to, from, style);
        while programmes.write_next(&mut out) {
            if out.len() >= CHUNK_BYTES {
                bytes += out.len();
                out.clear();
            }
        }
    }
    bytes + out.len()
}

fn xmltv_entries(channels: &[Arc<Channel>], from: WallMs, to: WallMs) -> Vec<XmltvEntry> {
    let entries_of = |channel: &Arc<Channel>| -> Vec<XmltvEntry> {
        let airings = channel.guide_entries(from, to, from);
        let entries =
            airings.map(|airing| (airing, channel.entry_of(airing.programme))).map(|(airing, entry)| XmltvEntry {
                start_ms: airing.start_ms.0,
                end_ms: airing.end_ms.0,
                channel: channel.tvg_id.to_string(),
                title: entry.name.title.to_owned(),
                subtitle: entry.name.subtitle.map(str::to_owned),
                description: channel.settings.description.to_string(),
                category: channel.settings.category.to_string(),
                seconds: (entry.item.map_or(0, |item| item.duration_ms) + 500) / 1000,
                episode: entry.name.season.zip(entry.name.episode),
            });
        entries.collect()
    };
    channels.iter().flat_map(entries_of).collect()
}

/// The same document by quick-xml's event writer, with our time format.
fn write_by_events(entries: &[XmltvEntry]) -> usize {
    let mut writer = quick_xml::Writer::new(Vec::with_capacity(CHUNK_BYTES));
    let time = |ms: i64| {
        let mut text = Vec::with_capacity(20);
        write_time(&mut text, ms, None);
        String::from_utf8(text).expect("digits")
    };
    for entry in entries {
        let mut programme = BytesStart::new("programme");
        programme.push_attribute(("start", time(entry.start_ms).as_str()));
        programme.push_attribute(("stop", time(entry.end_ms).as_str()));
        programme.push_attribute(("channel", entry.channel.as_str()));
        let mut put = |event: Event<'_>| writer.write_event(event).expect("memory takes it");
        put(Event::Start(programme));
        let mut write_element = |start: BytesStart<'_>, text: &str| {
            let name = String::from_utf8(start.name().as_ref().to_vec()).expect("a name");
            put(Event::Start(start));
            put(Event::Text(BytesText::new(text)));
            put(Event::End(BytesEnd::new(name)));
        };
        write_element(BytesStart::new("title"), &entry.title);
        if let Some(subtitle) = &entry.subtitle {
            write_element(BytesStart::new("sub-title"), subtitle);
        }
        write_element(BytesStart::new("desc"), &entry.description);
        write_element(BytesStart::new("category"), &entry.category);
        let length = BytesStart::new("length").with_attributes([("units", "seconds")]);
        write_element(length, &entry.seconds.to_string());
        if let Some((season, episode)) = entry.episode {
            let system = |name| BytesStart::new("episode-num").with_attributes([("system", name)]);
            write_element(system("onscreen"), &format!("S{season:02}E{episode:02}"));
            write_element(system("xmltv_ns"), &format!("{}.{}.", season - 1, episode - 1));
        }
        put(Event::Empty(BytesStart::new("previously-shown")));
        put(Event::End(BytesEnd::new("programme")));
    }
    writer.into_inner().len()
}

/// Over HTTP: the complete guides and their memory use, and unchanged guides.
async fn measure_http(service: Arc<Service>) {
    let token = service.accounts.issue_token("bench", Role::User).await.expect("a user can be made");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = format!("http://{}/api/livetv", listener.local_addr().expect("bound"));
    let server = tokio::spawn(hearthcast::http::serve(service, listener, std::future::pending()));
    let client = reqwest::Client::new();
    let get = |target: &str| client.get(format!("{base}{target}")).bearer_auth(&token);
    println!("| over HTTP, client in the same process | ms | MiB | memory above idle, MiB |\n|---|---|---|---|");
    for (name, target, is_compressed) in [
        ("XMLTV", "/xmltv?days=13&prevDays=0", false),
        ("XMLTV, gzip", "/xmltv?days=13&prevDays=0", true),
        ("M3U", "/m3u", false),
        ("EPG JSON, 24 h", "/epg", false),
    ] {
        let (mut times, mut bytes, mut memory_above_idle) = (Vec::new(), 0, 0.0f64);
        for _ in 0..3 {
            let idle = reset_peak_memory();
            let started = Instant::now();
            let request = if is_compressed { get(target).header("accept-encoding", "gzip") } else { get(target) };
            let mut answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            bytes = 0;
            while let Some(chunk) = answer.chunk().await.expect("a body") {
                bytes += chunk.len();
            }
            times.push(started.elapsed());
            memory_above_idle = memory_above_idle.max(memory_mib("VmHWM:") - idle);
        }
        let mib = bytes as f64 / f64::from(1 << 20);
        println!("| {name} | {:.0} | {mib:.1} | {memory_above_idle:.1} |", median_millis(times));
    }
    for target in ["/xmltv?days=13&prevDays=0", "/epg?from=2026-02-01&to=2026-02-02"] {
        let etag = get(target).send().await.expect("an answer").headers()["etag"].clone();
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let started = Instant::now();
            let answer = get(target).header("if-none-match", &etag).send().await.expect("an answer");
            assert_eq!(answer.status(), 304);
            times.push(started.elapsed());
        }
        println!("| {target} unchanged, 304 | {:.2} | | |", median_millis(times));
    }
    let guide: serde_json::Value = get("/epg").send().await.expect("an answer").json().await.expect("JSON");
    let entries: Vec<JsonEntry> = serde_json::from_value(guide["entries"].clone()).expect("entries as they are sent");
    let mut out = Vec::new();
    let times = (0..ROUNDS).map(|_| {
        out.clear();
        let started = Instant::now();
        serde_json::to_writer(&mut out, &entries).expect("memory takes it");
        out.flush().expect("memory takes it");
        started.elapsed()
    });
    println!("| serde_json alone, the same {} entries | {:.1} | | |", entries.len(), median_millis(times.collect()));
    server.abort();
}

/// Resets the peak of resident memory; returns the current value, MiB.
fn reset_peak_memory() -> f64 {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    memory_mib("VmRSS:")
}

fn memory_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of every process");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}

fn median_millis(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
