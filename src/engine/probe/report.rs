//! Converts an ffprobe report to [`Media`]: the file as a whole; single streams in `stream`.

use std::collections::{HashMap, HashSet};

use super::ffprobe::{FfprobeReport, ReportedProgram, ReportedStream as Raw};
use super::{ProbeError, container};
use crate::domain::media::{Attachment, Chapter, Container, Media, Stream, StreamKind, Tags};
use crate::domain::time::FrameRate;

mod stream;

pub(super) use stream::orientation;
use stream::{is_image, to_stream};

/// Minimum plausible bit rate over the stated duration of a file with video, bits per second.
const MIN_PLAUSIBLE_BPS: f64 = 2_000.0;
/// Minimum plausible bit rate of audio alone, bits per second; digital silence takes 1.2 kbit/s in FLAC.
const MIN_PLAUSIBLE_AUDIO_BPS: f64 = 500.0;

/// Converts a report. `head` is the beginning of the file, `len` its size in bytes.
pub(super) fn to_media(
    report: &FfprobeReport,
    decodable: &HashSet<String>,
    head: &[u8],
    len: u64,
) -> Result<Media, ProbeError> {
    let container = container::from_format_name(&report.format.format_name, head, &report.streams);
    let mut warnings: Vec<String> = Vec::new();
    let played = select_streams(report, &mut warnings);
    let is_empty = |raw: &Raw| container == Container::Mp4 && is_empty_track(raw);
    if played.iter().any(|raw| is_empty(raw)) {
        warnings.push("a track without samples was ignored".into());
    }
    let attachments = to_attachments(&report.streams);
    let streams: Vec<Stream> = played
        .iter()
        .filter(|raw| raw.codec_type.as_deref() != Some("attachment") && !is_empty(raw))
        .map(|raw| to_stream(raw, decodable))
        .collect();
    if streams.is_empty() {
        return Err(ProbeError::Unreadable("the file has no streams".into()));
    }
    let has_video = streams.iter().any(|stream| matches!(stream.kind, StreamKind::Video(_)));
    let (start_seconds, mut duration_seconds) = start_and_duration(report, &played, has_video, len, &mut warnings);
    if container == Container::Mp3 {
        // ffmpeg counts every frame, including those before the start (encoder delay).
        duration_seconds = duration_seconds.map(|seconds| seconds - start_seconds).filter(|seconds| *seconds > 0.0);
    }
    let bitrate_kbps = duration_seconds
        .filter(|duration| *duration > 0.0)
        .map(|duration| (len as f64 * 8.0 / duration / 1000.0).round() as u32)
        .or_else(|| Some((parse_number(&report.format.bit_rate)? / 1000.0).round() as u32));
    Ok(Media {
        mime_type: container::mime_type(container, head, has_video, &streams).into(),
        duration_seconds,
        start_seconds,
        bitrate_kbps,
        is_seekable: duration_seconds.is_some(),
        chapters: to_chapters(report),
        attachments,
        tags: to_tags(&report.format.tags, &played),
        warnings,
        ..Media::new(container, streams)
    })
}

/// The streams that are played: all of them, but of a multiplex only those of the first complete program.
fn select_streams<'a>(report: &'a FfprobeReport, warnings: &mut Vec<String>) -> Vec<&'a Raw> {
    let all_streams = || report.streams.iter().collect::<Vec<_>>();
    if report.programs.len() < 2 {
        return all_streams();
    }
    let members = |program: &ReportedProgram| -> Vec<&'a Raw> {
        let indices: HashSet<u32> = program.streams.iter().map(|member| member.index).collect();
        report.streams.iter().filter(|raw| indices.contains(&raw.index)).collect()
    };
    let has_stream = |streams: &[&Raw], test: fn(&Raw) -> bool| streams.iter().any(|raw| test(raw));
    let is_video = |raw: &Raw| raw.codec_type.as_deref() == Some("video") && raw.width > 0;
    let is_audio = |raw: &Raw| raw.codec_type.as_deref() == Some("audio") && raw.channels > 0;
    let program = report
        .programs
        .iter()
        .find(|program| has_stream(&members(program), is_video) && has_stream(&members(program), is_audio))
        .or_else(|| report.programs.iter().find(|program| has_stream(&members(program), is_video)))
        .or_else(|| report.programs.iter().find(|program| has_stream(&members(program), is_audio)));
    let Some(program) = program else { return all_streams() };
    warnings.push(format!("the file has {} programs; program {} is played", report.programs.len(), program.program_id));
    members(program)
}

/// A video track without samples: no count (fragmented files have none either), no pixel format, no rate.
fn is_empty_track(raw: &Raw) -> bool {
    raw.codec_type.as_deref() == Some("video")
        && raw.nb_frames.is_none()
        && raw.pix_fmt.is_none()
        && raw.bit_rate.is_none()
        && parse_frame_rate(&raw.avg_frame_rate).is_none()
}

/// First timestamp and duration, seconds.
fn start_and_duration(
    report: &FfprobeReport,
    raw: &[&Raw],
    has_video: bool,
    len: u64,
    warnings: &mut Vec<String>,
) -> (f64, Option<f64>) {
    let played: Vec<&&Raw> = raw
        .iter()
        .filter(|raw| matches!(raw.codec_type.as_deref(), Some("video" | "audio")) && !is_image(raw))
        .collect();
    let is_subset = raw.len() < report.streams.len() && report.programs.len() > 1;
    let stream_starts = played.iter().filter_map(|raw| parse_number(&raw.start_time));
    let first_start = stream_starts.fold(f64::INFINITY, f64::min);
    let start = match parse_number(&report.format.start_time) {
        Some(start) if !is_subset => start,
        _ if first_start.is_finite() => first_start,
        _ => 0.0,
    };
    let last_end = played
        .iter()
        .filter_map(|raw| Some(parse_number(&raw.start_time)? + parse_number(&raw.duration)?))
        .filter(|end| *end > start)
        .fold(f64::NEG_INFINITY, f64::max);
    let streams_duration = last_end.is_finite().then_some(last_end - start);
    let stated = if is_subset { streams_duration } else { parse_number(&report.format.duration).or(streams_duration) };
    let min_bps = if has_video { MIN_PLAUSIBLE_BPS } else { MIN_PLAUSIBLE_AUDIO_BPS };
    let is_plausible = |seconds: f64| seconds > 0.0 && (seconds < 60.0 || len as f64 * 8.0 / seconds >= min_bps);
    let duration =
        stated.filter(|seconds| is_plausible(*seconds)).or(streams_duration.filter(|seconds| is_plausible(*seconds)));
    if duration.is_none() {
        warnings.push(super::truncation::UNKNOWN_DURATION.into());
    }
    (start, duration)
}

fn to_chapters(report: &FfprobeReport) -> Vec<Chapter> {
    report
        .chapters
        .iter()
        .filter_map(|chapter| {
            let (start, end) = (parse_number(&chapter.start_time)?, parse_number(&chapter.end_time)?);
            let title = find_tag(&chapter.tags, "title").map(str::to_owned);
            Some(Chapter { title, start_seconds: start.max(0.0), end_seconds: end.max(start) })
        })
        .take(10_000)
        .collect()
}

fn to_attachments(streams: &[Raw]) -> Vec<Attachment> {
    streams
        .iter()
        .filter(|raw| raw.codec_type.as_deref() == Some("attachment"))
        .map(|raw| Attachment {
            file_name: find_tag(&raw.tags, "filename").map(str::to_owned),
            mime_type: find_tag(&raw.tags, "mimetype").map(str::to_owned),
        })
        .collect()
}

fn to_tags(format: &HashMap<String, String>, streams: &[&Raw]) -> Tags {
    // Ogg stores its tags in the stream.
    let find = |name: &str| {
        let on_stream = || streams.iter().find_map(|raw| find_tag(&raw.tags, name));
        let ogg = matches!(name, "artist" | "album" | "date").then(on_stream).flatten();
        find_tag(format, name).or(ogg).map(|text| text.chars().take(512).collect::<String>())
    };
    Tags { title: find("title"), artist: find("artist"), album: find("album"), date: find("date") }
}

fn find_tag<'a>(tags: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    let found = tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

fn parse_number(text: &Option<String>) -> Option<f64> {
    text.as_deref()?.parse::<f64>().ok().filter(|value| value.is_finite())
}

fn parse_pair(text: &str, separator: char) -> Option<(u32, u32)> {
    let (a, b) = text.split_once(separator)?;
    let (a, b) = (a.parse().ok()?, b.parse().ok()?);
    (a > 0 && b > 0).then_some((a, b))
}

/// A plausible frame rate. Containers without a frame rate state their clock instead (90,000 per second).
fn parse_frame_rate(text: &Option<String>) -> Option<FrameRate> {
    let (num, den) = parse_pair(text.as_deref()?, '/')?;
    FrameRate::new(num, den).filter(|rate| (0.01..=500.0).contains(&rate.as_f64()))
}
