//! The argument vector (argv) of an ffmpeg run: a pure function of plain data, without any text from outside.
//!
//! Other ffmpeg commands are built where they are used: `engine/ffmpeg_encoders`, `engine/still_image`, `engine/loudness`,
//! `engine/subtitle_extraction`, `engine/ffmpeg/ingest_input`, `engine/ffmpeg/amr_extraction`, `engine/probe/ffprobe`.
//!
//! - `-copyts` keeps source time; `-itsoffset` moves the file's first timestamp to 0, `-output_ts_offset` to the
//!   timeline base.
//! - The input is sought to a little before the first segment, and ffmpeg itself trims nothing: `-t` with `-copyts`
//!   counts from 0 and gave empty output. `-noaccurate_seek` is needed because the frame shown at the boundary may have
//!   started long before it.
//! - `fps` puts frames on the grid from the first one, `aresample` the samples; the segmenter drops output before the
//!   first segment.
//! - The AAC encoder gets four frames of preroll, so that audio at a run's start is as good as in the middle of one
//!   (measured).

mod video;

use super::argument_list::ArgumentList;
use crate::domain::grid::Grid;
use crate::domain::media::{Container, Media};
use crate::domain::mpegts::segmenter::AAC_FRAME;
use crate::domain::mpegts::{AUDIO_PID, PMT_PID, VIDEO_PID};
use crate::domain::plan::{AudioPlan, BurnedSubtitle, EncodeVideo, Rendition, VideoPlan};
use crate::engine::clock::PipeInput;
use crate::engine::video_decoders::HardwareDecoder;
use crate::engine::video_encoders::VideoEncoder;
use crate::engine::{RunError, TIMELINE_BASE};

/// AAC frames encoded before the first one kept.
const PREROLL_FRAMES: i64 = 4;

/// A filter graph whose first frame is later than this after the start of the run is taken for a continuation, seconds.
///
/// ffmpeg rebuilds its filter graphs when the channels or the frame size change, and every filter then counts from its
/// beginning. So for containers where that happens ([`may_change_format`]) no filter pads to a fixed time or counts from
/// the start of the run. The first frame of a graph is moved to the start of the run if it comes within this time after
/// it. Otherwise it keeps its own time (audio: that of the AAC frame it is in).
const CHANGE_WINDOW_SECONDS: i64 = 10;

/// Whether this is a container of broadcasts, where audio channels and frame size may change mid-stream.
fn may_change_format(container: Container) -> bool {
    matches!(container, Container::MpegTs | Container::MpegPs)
}

/// Everything the arguments depend on.
#[derive(Clone, Debug)]
pub struct ArgumentOptions<'a> {
    pub media: &'a Media,
    pub rendition: &'a Rendition,
    pub grid: &'a Grid,
    pub first: usize,
    /// `/proc/self/fd/…` of the item.
    pub input: String,
    /// For an item with clock jumps: the pipe to read it from instead. Its data starts where reading should.
    pub pipe_input: Option<&'a PipeInput>,
    /// `/proc/self/fd/…` of the subtitle to burn in: ASS text, or the bitmap sidecar.
    pub subtitle_path: Option<&'a str>,
    /// Demuxer and input URL of the watermark image.
    pub watermark: Option<(&'static str, String)>,
    /// `/proc/self/fd/…` of the audio as a raw AMR stream, if it had to be extracted from the item.
    pub amr_path: Option<&'a str>,
    pub features: Features,
    /// Number of decoder threads; None leaves it to ffmpeg.
    pub decoder_threads: Option<usize>,
    /// Hardware that decodes the video to encode; None for software.
    pub decoder: Option<&'a HardwareDecoder>,
}

/// Optional features of this build of ffmpeg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Filters `zscale` and `tonemap`: HDR to SDR.
    pub has_tone_map: bool,
    /// Filter `ass`: burned-in text.
    pub has_ass: bool,
    /// Filter `zscale`: faster scaling.
    pub has_zscale: bool,
}

/// The whole argument vector, without the program's name.
///
/// # Errors
/// `RunError::Encoder` when this build lacks a feature the plan needs.
pub fn build_arguments(options: &ArgumentOptions) -> Result<Vec<String>, RunError> {
    // Errors only: broken files cause thousands of warnings. With `-max_error_rate 1` badly damaged files still play.
    let mut args = ArgumentList::new("-nostdin -hide_banner -v error -max_error_rate 1 -copyts");
    if let Some(VideoPlan::Encode(plan)) = &options.rendition.video
        && let Some([option, device]) = VideoEncoder::of_name(&plan.encoder).and_then(VideoEncoder::device_args)
    {
        args.pair(&option, device);
    }
    add_input(&mut args, options);
    if let (Some(path), Some(BurnedSubtitle::Sidecar { bitmap: true, .. })) =
        (options.subtitle_path, burned_subtitle(options))
    {
        args.add("-protocol_whitelist file -format_whitelist sup,dvbsub,matroska").pair("-i", format!("file:{path}"));
    }
    if let Some(path) = options.amr_path {
        add_seek(&mut args, options);
        args.add("-protocol_whitelist file -f amr").pair("-i", format!("file:{path}"));
    }
    if let Some((demuxer, path)) = &options.watermark {
        args.add("-protocol_whitelist file").pair("-f", demuxer).pair("-i", path);
    }
    args.add("-map_metadata -1 -map_chapters -1 -sn -dn");
    video::add_video(&mut args, options)?;
    add_audio(&mut args, options);
    add_output(&mut args, options);
    Ok(args.0)
}

/// Arguments that copy one whole video stream to a transport stream, with its keyframes marked.
pub fn video_copy_arguments(media: &Media, stream: u32, input: &str, pipe_input: Option<&PipeInput>) -> Vec<String> {
    let mut args = ArgumentList::new("-nostdin -hide_banner -v error -copyts");
    add_item_input(&mut args, media, input, pipe_input);
    args.pair("-map", format!("0:{stream}")).add("-c copy -map_metadata -1 -map_chapters -1");
    args.pair("-output_ts_offset", TIMELINE_BASE.as_seconds());
    args.add("-muxdelay 0 -muxpreload 0 -avoid_negative_ts disabled -mpegts_copyts 1");
    args.pair("-mpegts_pmt_start_pid", PMT_PID).pair("-streamid", format!("0:{VIDEO_PID}"));
    args.add("-f mpegts pipe:1");
    args.0
}

/// Arguments that copy one AMR track to a raw stream.
pub(super) fn amr_copy_arguments(media: &Media, stream: u32, input: &str) -> Vec<String> {
    let mut args = ArgumentList::new("-nostdin -hide_banner -v error");
    add_item_input(&mut args, media, input, None);
    args.pair("-map", format!("0:{stream}")).add("-c copy -map_metadata -1 -map_chapters -1 -f amr pipe:1");
    args.0
}

fn burned_subtitle<'a>(options: &ArgumentOptions<'a>) -> Option<&'a BurnedSubtitle> {
    match &options.rendition.video {
        Some(VideoPlan::Encode(plan)) => plan.burn.as_ref(),
        _ => None,
    }
}

fn add_input(args: &mut ArgumentList, options: &ArgumentOptions) {
    if let (Some(decoder), Some(VideoPlan::Encode(plan))) = (options.decoder, &options.rendition.video)
        && let Some(stream) = options.media.stream(plan.stream)
    {
        args.add(&decoder.input_args(&stream.codec));
    }
    if let (Some(threads), Some(VideoPlan::Encode(_))) = (options.decoder_threads, &options.rendition.video) {
        args.pair("-threads", threads);
    }
    if options.pipe_input.is_none() {
        add_seek(args, options);
    }
    add_item_input(args, options.media, &options.input, options.pipe_input);
}

fn add_seek(args: &mut ArgumentList, options: &ArgumentOptions) {
    let start_seconds = reading_start_seconds(options.media, options.rendition, options.grid, options.first);
    if start_seconds > 0.0 {
        args.add("-noaccurate_seek -seek_timestamp 1");
        args.pair("-ss", format!("{:.6}", start_seconds + options.media.start_seconds));
    }
}

/// Where a run that starts with segment `first` starts to read, seconds of source time; 0 or less is the start of the file.
pub(super) fn reading_start_seconds(media: &Media, rendition: &Rendition, grid: &Grid, first: usize) -> f64 {
    if first == 0 { 0.0 } else { grid.segment_start(first).as_seconds() - reading_margin_seconds(media, rendition) }
}

/// Adds the item itself as an input, its timestamps moved so that source time starts at 0.
fn add_item_input(args: &mut ArgumentList, media: &Media, input: &str, pipe_input: Option<&PipeInput>) {
    if let Some(PipeInput { offset_seconds, .. }) = pipe_input {
        args.pair("-itsoffset", format!("{:.6}", *offset_seconds as f64 + 2e-6));
    } else if media.start_seconds != 0.0 {
        // Not exactly the start: if the two are equal, ffmpeg moves the start to that of the first stream in use
        // ("Correcting start time by"), so that audio or video alone would start at 0.
        args.pair("-itsoffset", format!("{:.6}", 2e-6 - media.start_seconds));
    }
    args.add_item(media.container, input, pipe_input);
}

/// How much before the first segment reading starts, seconds.
fn reading_margin_seconds(media: &Media, rendition: &Rendition) -> f64 {
    let has_index = media.container == Container::Mp4;
    let encodes_audio = matches!(rendition.audio, Some(AudioPlan::Encode { .. }));
    let margin = match (&rendition.video, media.container) {
        // The packet of a bitmap subtitle shown at the boundary is before it.
        (Some(VideoPlan::Encode(EncodeVideo { burn: Some(BurnedSubtitle::Embedded { bitmap: true, .. }), .. })), _) => {
            10.0
        }
        // Exactly at the keyframe; the millisecond allows for rounding.
        (Some(VideoPlan::Copy { .. }), _) if has_index && !encodes_audio => -0.001,
        _ if has_index => 0.2,
        // These seek to any frame, not to a keyframe: wide enough for a usual GOP.
        (Some(VideoPlan::Encode(_)), Container::MpegTs | Container::MpegPs | Container::Other) => 5.0,
        // Packets of the other stream may be before the keyframe in the file.
        (Some(_), _) => 1.0,
        // Multiplexers send audio up to a second before or after the video of the same time, by which ffmpeg seeks.
        (None, Container::MpegTs | Container::MpegPs) if !encodes_audio => 2.0,
        (None, _) => 0.3,
    };
    // The clock may have gaps or start anywhere, so that a seek is a guess: being early does no harm.
    if has_index { margin } else { margin.max(0.3) }
}

fn add_audio(args: &mut ArgumentList, options: &ArgumentOptions) {
    let (stream, channels, kbps, gain) = match options.rendition.audio {
        None => {
            args.add("-an");
            return;
        }
        Some(AudioPlan::Copy { stream }) => {
            args.pair("-map", format!("0:{stream}")).add("-c:a copy");
            return;
        }
        Some(AudioPlan::Encode { stream, channels, kbps, gain_tenths_db: gain }) => (stream, channels, kbps, gain),
    };
    let first_frame = options.grid.segment_start(options.first).div_ceil(AAC_FRAME) - PREROLL_FRAMES;
    let start_sample = first_frame * 1024;
    let sample_count = (options.grid.end().div_ceil(AAC_FRAME) - first_frame) * 1024;
    let layout = match channels {
        1 => "mono",
        6 => "5.1",
        8 => "7.1",
        _ => "stereo",
    };
    // The rate is converted first and alone: `first_pts` counts input samples (measured), so that audio at another rate
    // than 48 kHz came late by as much as the preroll is longer in it. Gaps over 30 ms are filled with silence and
    // overlaps dropped, so that audio stays in sync with video; the first sample is put exactly on the grid.
    // Down-mixing takes surround at -6 dB and never exceeds full scale. The sample count is then the clock, so that
    // silence after the end of the track has timestamps too. One gain applies to the whole item, so that a run may
    // start anywhere; peaks are limited to -1 dB.
    let gain_filter = gain.map_or_else(String::new, |gain| {
        format!("volume={:.1}dB,alimiter=level=0:limit=0.89:attack=1:release=50,", f64::from(gain) / 10.0)
    });
    let mix = "surround_mix_level=0.5:rematrix_maxval=1";
    let format = format!("aformat=sample_fmts=fltp:channel_layouts={layout},{gain_filter}");
    let chain = if may_change_format(options.media.container) {
        let (begin_sample, end_sample) = (start_sample.max(0), start_sample + sample_count);
        let window_end = begin_sample + CHANGE_WINDOW_SECONDS * 48_000;
        format!(
            "aresample=osr=48000,\
             asetpts='if(N,PTS,if(between(STARTPTS,{begin_sample},{begin_sample}+48),{begin_sample},\
             if(between(STARTPTS,{begin_sample},{window_end}),{begin_sample}-NB_SAMPLES,\
             if(gt(STARTPTS,{begin_sample}),floor(STARTPTS/1024)*1024,PTS))))',\
             aresample=async=1:min_hard_comp=0.015:{mix},\
             {format}apad,atrim=start_pts={begin_sample}:end_pts={end_sample},asetpts=N+STARTPTS"
        )
    } else {
        format!(
            "aresample=osr=48000,\
             aresample=async=1:min_hard_comp=0.03:first_pts={start_sample}:{mix},\
             {format}apad=whole_len={sample_count},asetpts=N+({start_sample})"
        )
    };
    let sidecar = matches!(burned_subtitle(options), Some(BurnedSubtitle::Sidecar { bitmap: true, .. }));
    let has_own_input = options.amr_path.is_some();
    args.pair("-map", if has_own_input { format!("{}:0", 1 + usize::from(sidecar)) } else { format!("0:{stream}") });
    args.pair("-filter:a", chain);
    args.add("-c:a aac").pair("-b:a", format!("{}k", kbps.max(32)));
}

fn add_output(args: &mut ArgumentList, options: &ArgumentOptions) {
    args.pair("-output_ts_offset", TIMELINE_BASE.as_seconds());
    args.add("-muxdelay 0 -muxpreload 0 -avoid_negative_ts disabled -max_interleave_delta 5000000 -flush_packets 1");
    args.pair("-mpegts_copyts", 1).pair("-mpegts_pmt_start_pid", PMT_PID);
    let tracks = [(options.rendition.video.is_some(), VIDEO_PID), (options.rendition.audio.is_some(), AUDIO_PID)];
    for (index, (_, pid)) in tracks.into_iter().filter(|(present, _)| *present).enumerate() {
        args.pair("-streamid", format!("{index}:{pid}"));
    }
    // One audio frame per PES packet makes segment boundaries exact; a known PES length lets the last frame go out at once.
    args.add("-pes_payload_size 0 -omit_video_pes_length 0 -f mpegts pipe:1");
}

#[cfg(test)]
mod tests;
