//! Viewers of converted films and of channels: players that buffer, and one that zaps.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::player_buffer::{PlayerBuffer, Totals};
use crate::program::ServerProcess;

const FULL: Duration = Duration::from_secs(20);
/// Time between two requests for a channel's playlist.
const POLL: Duration = Duration::from_secs(1);

/// A segment of a playlist.
struct ListedSegment {
    url: String,
    duration: Duration,
}

type Result<T> = std::result::Result<T, String>;

/// Watches a film that is encoded, in sessions one after the other. Before each one the film is marked as changed, so that its
/// segments are encoded again and none comes from the cache.
pub async fn watch_film(server: Arc<ServerProcess>, film: PathBuf, end: Instant, totals: Arc<Totals>) {
    while Instant::now() < end {
        let file = std::fs::File::options().append(true).open(&film).expect("the film exists");
        file.set_modified(SystemTime::now()).expect("its time can be set");
        if let Err(fault) = watch_once(&server, &film, end, &totals).await {
            totals.add_fault(format!("{}: {fault}", film.display()));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn watch_once(server: &ServerProcess, film: &PathBuf, end: Instant, totals: &Totals) -> Result<()> {
    let body = json!({"mediaPath": film, "forceTranscode": true});
    let request = server.client.post(format!("{}/api/stream/transcode/start", server.base)).bearer_auth(&server.token);
    let answer: Value =
        read(request.json(&body)).await.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string()))?;
    if answer["decision"]["video"] != "encode" {
        return Err(format!("not encoded: {answer}"));
    }
    let playlist = answer["playlistUrl"].as_str().ok_or("no playlist")?.to_owned();
    let multivariant = listed_lines(&get_text(server, &playlist).await?, &playlist);
    let media = multivariant.into_iter().next().ok_or("no rendition")?;
    let segments = listed_segments(&get_text(server, &media).await?, &media);
    let mut buffer = PlayerBuffer::new(Duration::from_secs(2));
    for segment in segments {
        if Instant::now() >= end {
            break;
        }
        fetch_segment(server, &segment, &mut buffer, totals).await?;
        if let Some(excess) = buffer.ahead().checked_sub(FULL) {
            tokio::time::sleep(excess).await;
        }
    }
    let session = playlist.rsplit_once('/').ok_or("no folder")?.0;
    read(server.client.delete(format!("{}{session}", server.base)).bearer_auth(&server.token)).await.map(drop)
}

/// Watches a channel without an end.
pub async fn watch_channel(server: Arc<ServerProcess>, channel: u64, end: Instant, totals: Arc<Totals>) {
    let playlist = format!("/api/livetv/watch/{channel}/live.m3u8");
    let mut buffer = PlayerBuffer::new(Duration::from_secs(4));
    let mut last: Option<String> = None;
    while Instant::now() < end {
        let text = match get_text(&server, &playlist).await {
            Ok(text) => text,
            Err(fault) => {
                totals.add_fault(format!("channel {channel}: {fault}"));
                tokio::time::sleep(POLL).await;
                continue;
            }
        };
        let segments = listed_segments(&text, &playlist);
        let known = last.as_ref().and_then(|last| segments.iter().position(|segment| segment.url == *last));
        let first = known.map_or(segments.len().saturating_sub(3), |known| known + 1);
        for segment in &segments[first..] {
            if let Err(fault) = fetch_segment(&server, segment, &mut buffer, &totals).await {
                totals.add_fault(format!("channel {channel}: {fault}"));
            }
            last = Some(segment.url.clone());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Changes to the next channel again and again.
pub async fn zap(server: Arc<ServerProcess>, channels: Vec<u64>, every: Duration, end: Instant, totals: Arc<Totals>) {
    for &channel in channels.iter().cycle() {
        if Instant::now() + every >= end {
            return;
        }
        tokio::time::sleep(every).await;
        let started = Instant::now();
        let playlist = format!("/api/livetv/watch/{channel}/live.m3u8");
        let zapped = async {
            let segments = listed_segments(&get_text(&server, &playlist).await?, &playlist);
            let segment = segments.get(segments.len().saturating_sub(3)).ok_or("an empty playlist")?;
            fetch_segment(&server, segment, &mut PlayerBuffer::new(Duration::MAX), &totals).await
        };
        match zapped.await {
            Ok(()) => {
                totals.zaps.fetch_add(1, Ordering::Relaxed);
                totals.slowest_zap_millis.fetch_max(started.elapsed().as_millis() as u64, Ordering::Relaxed);
            }
            Err(fault) => totals.add_fault(format!("zap to {channel}: {fault}")),
        }
    }
}

async fn fetch_segment(
    server: &ServerProcess,
    segment: &ListedSegment,
    buffer: &mut PlayerBuffer,
    totals: &Totals,
) -> Result<()> {
    let bytes = read(server.get(&segment.url)).await?;
    totals.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    buffer.receive(segment.duration, totals);
    Ok(())
}

async fn get_text(server: &ServerProcess, target: &str) -> Result<String> {
    read(server.get(target)).await.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The body of a successful answer.
async fn read(request: reqwest::RequestBuilder) -> Result<Vec<u8>> {
    let answer = request.send().await.map_err(|cause| cause.to_string())?;
    let (status, address) = (answer.status(), answer.url().path().to_owned());
    let bytes = answer.bytes().await.map_err(|cause| format!("{address}: {cause}"))?;
    match status.is_success() {
        true => Ok(bytes.to_vec()),
        false => Err(format!("{address}: {status} {}", String::from_utf8_lossy(&bytes))),
    }
}

fn listed_lines(playlist: &str, target: &str) -> Vec<String> {
    let lines = playlist.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|name| resolve(name, target)).collect()
}

fn listed_segments(playlist: &str, target: &str) -> Vec<ListedSegment> {
    let lengths = playlist.lines().filter_map(|line| line.strip_prefix("#EXTINF:")?.split(',').next()?.parse().ok());
    let segments = lengths.zip(listed_lines(playlist, target));
    segments.map(|(seconds, url)| ListedSegment { url, duration: Duration::from_secs_f64(seconds) }).collect()
}

/// An address in the playlist `target`.
fn resolve(name: &str, target: &str) -> String {
    let folder = target.rsplit_once('/').expect("a path").0;
    if name.starts_with('/') { name.to_owned() } else { format!("{folder}/{name}") }
}
