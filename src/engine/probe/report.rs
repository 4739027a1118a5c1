//! Converts an ffprobe report to [`Media`]: the file as a whole; single streams in `stream`.

use std::collections::{HashMap, HashSet};

use super::ffprobe::{Program, Report, Stream as Raw};
use super::{ProbeError, container};
use crate::domain::media::{Attachment, Chapter, Container, Media, Stream, StreamKind, Tags};
use crate::domain::time::FrameRate;

mod stream;

pub(super) use stream::orientation;
use stream::{is_picture, stream};

/// Minimum plausible bit rate over the stated duration of a file with video, bits per second.
const LEAST_PLAUSIBLE_BPS: f64 = 2_000.0;
/// Minimum plausible bit rate of audio alone, bits per second; digital silence takes 1.2 kbit/s in FLAC.
const LEAST_PLAUSIBLE_SOUND_BPS: f64 = 500.0;

/// Converts a report. `head` is the beginning of the file, `len` its size in bytes.
pub(super) fn media(report: &Report, decodable: &HashSet<String>, head: &[u8], len: u64) -> Result<Media, ProbeError> {
    let container = container::by_name(&report.format.format_name, head, &report.streams);
    let mut warnings: Vec<String> = Vec::new();
    let raw = service_streams(report, &mut warnings);
    let empty = |raw: &Raw| container == Container::Mp4 && is_empty_track(raw);
    if raw.iter().any(|raw| empty(raw)) {
        warnings.push("a track without samples was ignored".into());
    }
    let attachments = attachments(&report.streams);
    let streams: Vec<Stream> = raw
        .iter()
        .filter(|raw| raw.codec_type.as_deref() != Some("attachment") && !empty(raw))
        .map(|raw| stream(raw, decodable))
        .collect();
    if streams.is_empty() {
        return Err(ProbeError::Unreadable("the file has no streams".into()));
    }
    let moving = streams.iter().any(|stream| matches!(stream.kind, StreamKind::Video(_)));
    let (start_seconds, mut duration_seconds) = extent(report, &raw, moving, len, &mut warnings);
    if container == Container::Mp3 {
        // ffmpeg counts every frame, including those before the start (encoder delay).
        duration_seconds = duration_seconds.map(|seconds| seconds - start_seconds).filter(|seconds| *seconds > 0.0);
    }
    let bitrate_kbps = duration_seconds
        .filter(|duration| *duration > 0.0)
        .map(|duration| (len as f64 * 8.0 / duration / 1000.0).round() as u32)
        .or_else(|| Some((number(&report.format.bit_rate)? / 1000.0).round() as u32));
    Ok(Media {
        mime_type: container::mime_type(container, head, moving, &streams).into(),
        container,
        duration_seconds,
        start_seconds,
        clock_pieces: Vec::new(),
        bitrate_kbps,
        is_seekable: duration_seconds.is_some(),
        keyframe_interval_seconds: None,
        chapters: chapters(report),
        attachments,
        tags: tags(&report.format.tags, &raw),
        streams,
        warnings,
    })
}

/// The streams that are played: all of them, but of a multiplex only those of the first complete program.
fn service_streams<'a>(report: &'a Report, warnings: &mut Vec<String>) -> Vec<&'a Raw> {
    let all = || report.streams.iter().collect::<Vec<_>>();
    if report.programs.len() < 2 {
        return all();
    }
    let members = |program: &Program| -> Vec<&'a Raw> {
        let wanted: HashSet<u32> = program.streams.iter().map(|member| member.index).collect();
        report.streams.iter().filter(|raw| wanted.contains(&raw.index)).collect()
    };
    let has = |streams: &[&Raw], test: fn(&Raw) -> bool| streams.iter().any(|raw| test(raw));
    let picture = |raw: &Raw| raw.codec_type.as_deref() == Some("video") && raw.width > 0;
    let sound = |raw: &Raw| raw.codec_type.as_deref() == Some("audio") && raw.channels > 0;
    let chosen = report
        .programs
        .iter()
        .find(|program| has(&members(program), picture) && has(&members(program), sound))
        .or_else(|| report.programs.iter().find(|program| has(&members(program), picture)))
        .or_else(|| report.programs.iter().find(|program| has(&members(program), sound)));
    let Some(chosen) = chosen else { return all() };
    warnings.push(format!("the file has {} programs; program {} is played", report.programs.len(), chosen.program_id));
    members(chosen)
}

/// A video track without samples: no count (fragmented files have none either), no pixel format, no rate.
fn is_empty_track(raw: &Raw) -> bool {
    raw.codec_type.as_deref() == Some("video")
        && raw.nb_frames.is_none()
        && raw.pix_fmt.is_none()
        && raw.bit_rate.is_none()
        && rate(&raw.avg_frame_rate).is_none()
}

/// First timestamp and duration, seconds.
fn extent(report: &Report, raw: &[&Raw], moving: bool, len: u64, warnings: &mut Vec<String>) -> (f64, Option<f64>) {
    let played: Vec<&&Raw> = raw
        .iter()
        .filter(|raw| matches!(raw.codec_type.as_deref(), Some("video" | "audio")) && !is_picture(raw))
        .collect();
    let partial = raw.len() < report.streams.len() && report.programs.len() > 1;
    let starts = played.iter().filter_map(|raw| number(&raw.start_time));
    let own_start = starts.fold(f64::INFINITY, f64::min);
    let start = match number(&report.format.start_time) {
        Some(start) if !partial => start,
        _ if own_start.is_finite() => own_start,
        _ => 0.0,
    };
    let own_end = played
        .iter()
        .filter_map(|raw| Some(number(&raw.start_time)? + number(&raw.duration)?))
        .filter(|end| *end > start)
        .fold(f64::NEG_INFINITY, f64::max);
    let own = own_end.is_finite().then_some(own_end - start);
    let stated = if partial { own } else { number(&report.format.duration).or(own) };
    let least = if moving { LEAST_PLAUSIBLE_BPS } else { LEAST_PLAUSIBLE_SOUND_BPS };
    let plausible = |seconds: f64| seconds > 0.0 && (seconds < 60.0 || len as f64 * 8.0 / seconds >= least);
    let duration = stated.filter(|seconds| plausible(*seconds)).or(own.filter(|seconds| plausible(*seconds)));
    if duration.is_none() {
        warnings.push(super::cut::UNKNOWN.into());
    }
    (start, duration)
}

fn chapters(report: &Report) -> Vec<Chapter> {
    report
        .chapters
        .iter()
        .filter_map(|chapter| {
            let (start, end) = (number(&chapter.start_time)?, number(&chapter.end_time)?);
            let title = tag(&chapter.tags, "title").map(str::to_owned);
            Some(Chapter { title, start_seconds: start.max(0.0), end_seconds: end.max(start) })
        })
        .take(10_000)
        .collect()
}

fn attachments(streams: &[Raw]) -> Vec<Attachment> {
    streams
        .iter()
        .filter(|raw| raw.codec_type.as_deref() == Some("attachment"))
        .map(|raw| Attachment {
            file_name: tag(&raw.tags, "filename").map(str::to_owned),
            mime_type: tag(&raw.tags, "mimetype").map(str::to_owned),
        })
        .collect()
}

fn tags(format: &HashMap<String, String>, streams: &[&Raw]) -> Tags {
    // Ogg stores its tags in the stream.
    let find = |name: &str| {
        let on_stream = || streams.iter().find_map(|raw| tag(&raw.tags, name));
        let ogg = matches!(name, "artist" | "album" | "date").then(on_stream).flatten();
        tag(format, name).or(ogg).map(|text| text.chars().take(512).collect::<String>())
    };
    Tags { title: find("title"), artist: find("artist"), album: find("album"), date: find("date") }
}

fn tag<'a>(tags: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    tags.iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

fn number(text: &Option<String>) -> Option<f64> {
    text.as_deref()?.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn pair(text: &str, separator: char) -> Option<(u32, u32)> {
    let (a, b) = text.split_once(separator)?;
    let (a, b) = (a.parse().ok()?, b.parse().ok()?);
    (a > 0 && b > 0).then_some((a, b))
}

/// A plausible frame rate. Containers without a frame rate state their clock instead (90,000 per second).
fn rate(text: &Option<String>) -> Option<FrameRate> {
    let (num, den) = pair(text.as_deref()?, '/')?;
    FrameRate::new(num, den).filter(|rate| (0.01..=500.0).contains(&rate.as_f64()))
}
