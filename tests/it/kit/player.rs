//! A test player: reads playlists as RFC 8216 says, fetches segments in any order without extra headers, and decodes them.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use bytes::Bytes;
use m3u8_rs::Playlist;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::process::Command;

use super::response::send_until_ready;
use super::wait::MAX_WAIT;
use super::{Server, media};

/// The checked video (or audio) playlist of a session.
pub struct PlayerSession {
    client: reqwest::Client,
    pub index_url: Url,
    /// URL of every segment and its length, seconds.
    pub segments: Vec<(Url, f64)>,
    /// The first subtitle rendition's segments.
    pub subtitles: Vec<(Url, f64)>,
    pub index_text: String,
    pub media_text: String,
}

/// The decoder's output for one file.
#[derive(Debug, Default)]
pub struct Decoded {
    pub video: Vec<Frame>,
    pub audio: Vec<Frame>,
    /// Warnings of the decoder, without addresses and counts.
    pub warnings: Vec<String>,
}

/// One decoded video frame or block of audio samples; times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub start_seconds: f64,
    pub length_seconds: f64,
    pub checksum: String,
}

/// Starts playback with these options; returns status and body.
pub async fn start(server: &Server, path: &Path, options: Value) -> (u16, Value) {
    let mut body = json!({"mediaPath": path});
    let extra = options.as_object().expect("the options are an object").clone();
    body.as_object_mut().expect("an object").extend(extra);
    let answer = send_until_ready(server.post("/api/stream/transcode/start", &body)).await;
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("JSON"))
}

/// Ends a session.
pub async fn stop(server: &Server, started: &Value) {
    if let Some(id) = started["sessionId"].as_str() {
        let url = format!("{}/api/stream/transcode/{id}", server.base);
        let answer = server.client.delete(url).bearer_auth(&server.token).send().await.expect("the server answers");
        assert_eq!(answer.status(), 200, "stopping {id}");
    }
}

impl PlayerSession {
    /// Reads the playlists of a started session, using only the signed URL.
    ///
    /// # Errors
    /// Anything that would break a player.
    pub async fn open(server: &Server, started: &Value) -> Result<Self, String> {
        let signed = started["signedPlaylistUrl"].as_str().ok_or("no signedPlaylistUrl")?;
        let index = Url::parse(&format!("{}{signed}", server.base)).map_err(|cause| cause.to_string())?;
        let client = reqwest::Client::new();
        let index_text = fetch_playlist(&client, &index).await?;
        let Playlist::MasterPlaylist(master) = parse(&index_text)? else {
            return Err("index.m3u8 is not a multivariant playlist".into());
        };
        let variant = master.variants.first().ok_or("no variant")?;
        if variant.bandwidth == 0 {
            return Err("BANDWIDTH is 0".into());
        }
        let media = index.join(&variant.uri).map_err(|cause| cause.to_string())?;
        let media_text = fetch_playlist(&client, &media).await?;
        let segments = media_segments(&media, &media_text)?;
        let mut subtitles = Vec::new();
        let rendition = master.alternatives.iter().find(|a| a.media_type == m3u8_rs::AlternativeMediaType::Subtitles);
        if let Some(uri) = rendition.and_then(|rendition| rendition.uri.as_deref()) {
            let subtitles_url = index.join(uri).map_err(|cause| cause.to_string())?;
            subtitles = media_segments(&subtitles_url, &fetch_playlist(&client, &subtitles_url).await?)?;
        }
        Ok(Self { client, index_url: index, segments, subtitles, index_text, media_text })
    }

    /// Sum of all segments' lengths, seconds.
    pub fn duration(&self) -> f64 {
        self.segments.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Start and end of a segment, seconds from the item's start.
    pub fn segment_seconds(&self, index: usize) -> (f64, f64) {
        let begin = self.segments[..index].iter().map(|(_, seconds)| seconds).sum();
        (begin, begin + self.segments[index].1)
    }

    /// One segment's bytes.
    ///
    /// # Errors
    /// Any response except a 200 with whole transport stream packets.
    pub async fn segment(&self, index: usize) -> Result<Bytes, String> {
        let answer = self.client.get(self.segments[index].0.clone()).send().await.map_err(|c| c.to_string())?;
        let status = answer.status();
        if status != 200 {
            return Err(format!("segment {index}: {status} {}", answer.text().await.unwrap_or_default()));
        }
        let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap_or("").to_owned());
        if kind.as_deref() != Some("video/mp2t") {
            return Err(format!("segment {index}: content type {kind:?}"));
        }
        let length: Option<u64> = answer.content_length();
        let bytes = answer.bytes().await.map_err(|cause| format!("segment {index}: {cause}"))?;
        if length != Some(bytes.len() as u64) || bytes.len() % 188 != 0 || bytes.first() != Some(&0x47) {
            return Err(format!("segment {index}: {} bytes are not a transport stream", bytes.len()));
        }
        Ok(bytes)
    }

    /// Fetches segments in the given order and joins them in time order.
    ///
    /// # Errors
    /// The first segment that cannot be fetched.
    pub async fn fetch(&self, order: impl IntoIterator<Item = usize>) -> Result<Vec<u8>, String> {
        let mut segments = std::collections::BTreeMap::new();
        for index in order {
            segments.insert(index, self.segment(index).await?);
        }
        Ok(segments.into_values().fold(Vec::new(), |mut joined, segment| {
            joined.extend_from_slice(&segment);
            joined
        }))
    }

    /// Fetches every segment in order.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn fetch_all(&self) -> Result<Vec<u8>, String> {
        self.fetch(0..self.segments.len()).await
    }

    /// One segment of the subtitle rendition.
    ///
    /// # Errors
    /// Any response except a 200 with WebVTT.
    pub async fn subtitle(&self, index: usize) -> Result<String, String> {
        fetch_text(&self.client, &self.subtitles[index].0, "text/vtt; charset=utf-8").await
    }
}

/// Fetches a playlist; repeats the request while the server answers that it is preparing the session.
async fn fetch_playlist(client: &reqwest::Client, url: &Url) -> Result<String, String> {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match fetch_text(client, url, "application/vnd.apple.mpegurl").await {
            Err(text) if text.contains("\"status\":\"preparing\"") && Instant::now() < deadline => {}
            answer => return answer,
        }
    }
}

async fn fetch_text(client: &reqwest::Client, url: &Url, content_type: &str) -> Result<String, String> {
    let answer = client.get(url.clone()).send().await.map_err(|cause| cause.to_string())?;
    let (status, kind) = (answer.status(), answer.headers().get("content-type").cloned());
    let text = answer.text().await.map_err(|cause| cause.to_string())?;
    if status != 200 || kind.as_ref().is_none_or(|kind| kind != content_type) {
        return Err(format!("{}: {status} {kind:?} {:.200}", url.path(), text));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<Playlist, String> {
    m3u8_rs::parse_playlist_res(text.as_bytes()).map_err(|cause| format!("not a playlist: {cause}"))
}

/// Checks the rules of RFC 8216 section 4.3.3 for a finished VOD playlist.
fn media_segments(playlist_url: &Url, text: &str) -> Result<Vec<(Url, f64)>, String> {
    let Playlist::MediaPlaylist(list) = parse(text)? else { return Err("a media playlist was expected".into()) };
    if !list.end_list || list.playlist_type != Some(m3u8_rs::MediaPlaylistType::Vod) || list.media_sequence != 0 {
        return Err("not a complete VOD playlist that begins with the first segment".into());
    }
    // m3u8-rs parses lengths as f32, too coarse for a sum over two hours.
    let lengths = text.lines().filter_map(|line| line.strip_prefix("#EXTINF:")?.split(',').next()?.parse::<f64>().ok());
    let lengths: Vec<f64> = lengths.collect();
    if lengths.len() != list.segments.len() || lengths.is_empty() {
        return Err(format!("{} lengths for {} segments", lengths.len(), list.segments.len()));
    }
    if let Some(too_long) = lengths.iter().find(|&&s| s <= 0.0 || s.round() as u64 > list.target_duration) {
        return Err(format!("a segment of {too_long} s exceeds the target duration of {}", list.target_duration));
    }
    let addresses =
        list.segments.iter().map(|segment| playlist_url.join(&segment.uri).map_err(|cause| cause.to_string()));
    addresses.zip(lengths).map(|(address, length)| Ok((address?, length))).collect()
}

impl Decoded {
    /// From the start of the first frame to the end of the last one, seconds.
    pub fn video_seconds(&self) -> f64 {
        duration_seconds(&self.video)
    }

    pub fn audio_seconds(&self) -> f64 {
        duration_seconds(&self.audio)
    }

    /// From the start of the first frame or sample to the end of the last one, seconds.
    pub fn total_seconds(&self) -> f64 {
        let nonempty = || [&self.video, &self.audio].into_iter().filter(|frames| !frames.is_empty());
        let first = nonempty().map(|frames| frames[0].start_seconds).fold(f64::INFINITY, f64::min);
        let last = nonempty()
            .map(|frames| frames[0].start_seconds + duration_seconds(frames))
            .fold(f64::NEG_INFINITY, f64::max);
        (last - first).max(0.0)
    }

    /// Positions where time does not advance by about one frame: video frames that go back or repeat a time, audio with a gap
    /// or an overlap of more than 2 ms.
    pub fn timing_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for pair in self.video.windows(2).filter(|pair| pair[1].start_seconds <= pair[0].start_seconds) {
            faults.push(format!("frame at {:.3} after {:.3}", pair[1].start_seconds, pair[0].start_seconds));
        }
        for pair in self.audio.windows(2) {
            let gap = pair[1].start_seconds - (pair[0].start_seconds + pair[0].length_seconds);
            if gap.abs() > 0.002 {
                faults.push(format!("audio jumps by {:.1} ms at {:.3}", gap * 1000.0, pair[1].start_seconds));
            }
        }
        faults
    }
}

fn duration_seconds(frames: &[Frame]) -> f64 {
    match (frames.first(), frames.last()) {
        (Some(first), Some(last)) => last.start_seconds + last.length_seconds - first.start_seconds,
        _ => 0.0,
    }
}

/// Decodes a file with the system's ffmpeg: every frame with its time, and every warning.
pub async fn decode(path: &Path) -> Decoded {
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-hide_banner", "-v", "warning", "-copyts", "-i"])
        .arg(path)
        .args(["-map", "0:v:0?", "-map", "0:a:0?", "-fps_mode", "passthrough", "-enc_time_base", "-1"])
        .args(["-f", "framecrc", "-"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("ffmpeg starts");
    let mut decoded =
        Decoded { warnings: warning_kinds(&String::from_utf8_lossy(&output.stderr)), ..Decoded::default() };
    let (mut bases, mut kinds) = (Vec::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(base) = line.strip_prefix("#tb ").and_then(|rest| rest.split_once(": ")) {
            let (num, den) = base.1.split_once('/').expect("a fraction");
            bases.push(num.parse::<f64>().expect("a number") / den.parse::<f64>().expect("a number"));
        } else if let Some(kind) = line.strip_prefix("#media_type ").and_then(|rest| rest.split_once(": ")) {
            kinds.push(kind.1 == "video");
        } else if !line.starts_with('#') {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let number = |index: usize| fields[index].parse::<f64>().expect("a number");
            let stream = number(0) as usize;
            let frame = Frame {
                start_seconds: number(2) * bases[stream],
                length_seconds: number(3) * bases[stream],
                checksum: fields[5].to_owned(),
            };
            if kinds[stream] { decoded.video.push(frame) } else { decoded.audio.push(frame) }
        }
    }
    decoded
}

/// Decodes a file to its end: no warning, increasing decoding times, and no gap of `max_gap_ticks` 90 kHz ticks or more between
/// two frames. Returns the start of its first frame and the time to the last one, seconds.
pub async fn check_decodes_through(path: &Path, max_gap_ticks: i64) -> (f64, f64) {
    let mut warnings = decode(path).await.warnings;
    warnings.retain(|warning| !warning.contains("non monotonically increasing"));
    assert_eq!(warnings, Vec::<String>::new());
    let (kinds, packets) = (media::stream_kinds(path), media::packets(path));
    let frames: Vec<_> = packets.iter().filter(|packet| kinds[&packet.stream] == "video").collect();
    assert!(frames.windows(2).all(|pair| pair[0].dts < pair[1].dts), "decoding times increase");
    let worst_gap = frames.windows(2).map(|pair| pair[1].dts - pair[0].dts).max().expect("there are frames");
    assert!(worst_gap < max_gap_ticks, "a frame is missing: gap of {worst_gap} ticks");
    let (first, last) = (frames[0].pts, frames[frames.len() - 1].pts);
    (first as f64 / 90_000.0, (last - first) as f64 / 90_000.0)
}

/// Error output without the parts that differ between runs, and without harmless notes about formats.
fn warning_kinds(text: &str) -> Vec<String> {
    const HARMLESS: [&str; 4] =
        ["deprecated pixel format", "Guessed Channel Layout", "Last message repeated", "Stream map"];
    let mut kinds: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !HARMLESS.iter().any(|harmless| line.contains(harmless))) {
        let mut kind = String::new();
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            if word.starts_with('[') && !word.ends_with(']') {
                kind.push_str(word.trim_start_matches('['));
                let _ = words.by_ref().find(|word| word.ends_with(']'));
                kind.push(':');
            } else if !word.contains(|c: char| c.is_ascii_digit()) {
                kind.push(' ');
                kind.push_str(word);
            }
        }
        let kind = kind.trim().to_owned();
        if !kind.is_empty() && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}
