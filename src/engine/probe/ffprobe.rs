//! ffprobe as a child process: one file in, one JSON report out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::sync::OnceCell;

use super::{ProbeError, ProbeTools};
use crate::engine::clock::RepairedFeed;
use crate::engine::ffmpeg::argument_list::ArgumentList;
use crate::engine::ffmpeg::demuxers::format_whitelist;
use crate::engine::process::{ChildExit, ChildLimits, InheritedFile, spawn};
use crate::engine::source::SourceFile;

/// Maximum size of a report; the largest of 156 real files was 70 KiB.
const MAX_REPORT_BYTES: u64 = 4 << 20;

/// Codecs whose RFC 6381 string is read from the configuration record (`domain::codec`).
const CODECS_WITH_RECORDS: [&str; 4] = ["h264", "hevc", "vp9", "av1"];

/// The full report.
const FULL_REPORT: &str = "-show_format -show_streams -show_chapters -show_programs";
/// The full report without sections that a file can repeat without bound.
const REDUCED_REPORT: &str = "-show_format -show_streams";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FfprobeReport {
    pub format: ReportedFormat,
    pub streams: Vec<ReportedStream>,
    pub chapters: Vec<ReportedChapter>,
    pub programs: Vec<ReportedProgram>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedFormat {
    pub format_name: String,
    pub start_time: Option<String>,
    pub duration: Option<String>,
    pub bit_rate: Option<String>,
    pub tags: HashMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedStream {
    pub index: u32,
    pub codec_name: Option<String>,
    pub codec_type: Option<String>,
    pub profile: Option<String>,
    pub level: Option<i64>,
    pub width: u32,
    pub height: u32,
    pub sample_aspect_ratio: Option<String>,
    pub pix_fmt: Option<String>,
    pub bits_per_raw_sample: Option<String>,
    pub bits_per_sample: u32,
    pub color_range: Option<String>,
    pub color_space: Option<String>,
    pub color_transfer: Option<String>,
    pub color_primaries: Option<String>,
    pub field_order: Option<String>,
    pub r_frame_rate: Option<String>,
    pub avg_frame_rate: Option<String>,
    pub sample_rate: Option<String>,
    pub channels: u32,
    pub channel_layout: Option<String>,
    pub start_time: Option<String>,
    pub duration: Option<String>,
    pub bit_rate: Option<String>,
    pub nb_frames: Option<String>,
    pub extradata: Option<String>,
    pub disposition: HashMap<String, u32>,
    pub tags: HashMap<String, String>,
    pub side_data_list: Vec<SideData>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SideData {
    pub side_data_type: String,
    pub displaymatrix: Option<String>,
    pub dv_profile: Option<u8>,
    pub dv_level: Option<u8>,
    pub rpu_present_flag: u8,
    pub el_present_flag: u8,
    pub bl_present_flag: u8,
    pub dv_bl_signal_compatibility_id: Option<u8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedChapter {
    pub start_time: Option<String>,
    pub end_time: Option<String>,
    pub tags: HashMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedProgram {
    pub program_id: u32,
    pub streams: Vec<ReportedStream>,
}

/// Runs ffprobe on an open file. Dropping the future kills it.
pub(super) async fn run_ffprobe(tools: &ProbeTools, source: &Arc<SourceFile>) -> Result<FfprobeReport, ProbeError> {
    let (report, exit) = match run_and_read(tools, build_arguments(source, FULL_REPORT), vec![source.clone()]).await {
        Err(ProbeError::ReportTooLarge) => {
            run_and_read(tools, build_arguments(source, REDUCED_REPORT), vec![source.clone()]).await?
        }
        other => other?,
    };
    let mut report = parse_report(&report, &exit, &input_url(source))?;
    let mut codecs = report.streams.iter().filter_map(|stream| stream.codec_name.as_deref());
    if codecs.any(|name| CODECS_WITH_RECORDS.contains(&name)) {
        add_codec_records(tools, source, &mut report).await;
    }
    Ok(report)
}

/// Runs ffprobe on a transport stream through a pipe; it reads as much as it needs.
pub(super) async fn run_on_feed(tools: &ProbeTools, feed: RepairedFeed) -> Result<FfprobeReport, ProbeError> {
    let pipe_input = feed.pipe_input();
    let mut args =
        ArgumentList::new("-v error -print_format json -show_format -show_streams -show_programs -show_data");
    args.add("-protocol_whitelist pipe -f mpegts").pair("-i", &pipe_input.address);
    let (report, exit) = run_and_read(tools, args.0, vec![feed.reader]).await?;
    parse_report(&report, &exit, &pipe_input.address)
}

/// Parses a report; ffprobe's messages begin with the address of its input.
fn parse_report(json: &[u8], exit: &ChildExit, address: &str) -> Result<FfprobeReport, ProbeError> {
    let report: FfprobeReport = serde_json::from_slice(json).unwrap_or_default();
    if report.streams.is_empty() {
        let message = exit.last_error("no streams");
        let message = message.trim_start_matches(address).trim_start_matches(": ");
        return Err(ProbeError::Unreadable(message.to_owned()));
    }
    Ok(report)
}

/// Adds the configuration records of the video streams. This is a separate run, because `-show_data` also dumps attached
/// fonts, 4.3 characters per byte; `V` selects neither those nor attached pictures. Without the records the codec strings
/// are less exact, so an error here is ignored.
async fn add_codec_records(tools: &ProbeTools, source: &Arc<SourceFile>, report: &mut FfprobeReport) {
    let args = build_arguments(source, "-select_streams V -show_data -show_entries stream=index,extradata");
    let Ok((records, _)) = run_and_read(tools, args, vec![source.clone()]).await else { return };
    let records: FfprobeReport = serde_json::from_slice(&records).unwrap_or_default();
    for record in records.streams {
        if let Some(stream) = report.streams.iter_mut().find(|stream| stream.index == record.index) {
            stream.extradata = record.extradata;
        }
    }
}

/// The open file by its descriptor number, so that no name is resolved again.
fn input_url(source: &SourceFile) -> String {
    format!("file:{}", source.proc_path())
}

fn build_arguments(source: &SourceFile, show: &str) -> Vec<String> {
    let mut args = ArgumentList::new("-v error -print_format json");
    args.add(show).add("-protocol_whitelist file").pair("-format_whitelist", format_whitelist());
    args.pair("-i", input_url(source));
    args.0
}

/// Standard output and exit of one call.
async fn run_and_read(
    tools: &ProbeTools,
    args: Vec<String>,
    inherit: Vec<InheritedFile>,
) -> Result<(Vec<u8>, ChildExit), ProbeError> {
    let unavailable = |cause: std::io::Error| ProbeError::Unavailable(format!("ffprobe: {cause}"));
    let mut child = spawn(&tools.ffprobe, args, inherit, ChildLimits::PROBE).await.map_err(unavailable)?;
    let mut stdout = Vec::new();
    (&mut child.stdout).take(MAX_REPORT_BYTES).read_to_end(&mut stdout).await.map_err(unavailable)?;
    if stdout.len() as u64 == MAX_REPORT_BYTES {
        return Err(ProbeError::ReportTooLarge);
    }
    let exit = child.wait().await;
    Ok((stdout, exit))
}

/// The codecs that the installed ffmpeg can decode, queried once.
pub(super) async fn decodable_codecs(tools: &ProbeTools) -> Result<&'static HashSet<String>, ProbeError> {
    static CODECS: OnceCell<HashSet<String>> = OnceCell::const_new();
    CODECS
        .get_or_try_init(|| async {
            let (listing, _) = run_and_read(tools, ArgumentList::new("-v quiet -codecs").0, vec![]).await?;
            let codecs: HashSet<String> = String::from_utf8_lossy(&listing)
                .lines()
                .filter_map(|line| {
                    let mut words = line.split_whitespace();
                    words.next().filter(|flags| flags.len() == 6 && flags.starts_with('D'))?;
                    words.next().map(str::to_owned)
                })
                .collect();
            if codecs.is_empty() {
                return Err(ProbeError::Unavailable("ffprobe lists no decodable codecs".into()));
            }
            Ok(codecs)
        })
        .await
}
