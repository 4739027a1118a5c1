//! Makes media with ffmpeg, and inspects media with ffprobe and ffmpeg.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hearthcast::domain::library::Root;
use hearthcast::domain::media::{Audio, Color, Container, Media, Stream, StreamKind, Subtitle, Video};
use hearthcast::domain::time::FrameRate;
use hearthcast::engine::source::{Roots, SourceFile};

use super::media_cache;

/// Makes moving video, 320x180 at 25 fps, with 48 kHz stereo audio, `seconds` long. Every second starts with one white
/// frame and one beep. `encoder_args` are the encoder arguments.
pub fn flash_and_beep(path: &Path, seconds: u32, encoder_args: &str) {
    run_ffmpeg(
        path,
        &[
            "-f lavfi -i",
            &format!("testsrc2=s=320x180:r=25:d={seconds},drawbox=c=white:t=fill:enable='lt(mod(n\\,25)\\,1)'"),
            "-f lavfi -i",
            &format!(
                "aevalsrc='0.6*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1)|0.6*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1)':s=48000:d={seconds}"
            ),
            encoder_args,
        ],
    );
}

/// The step through a list of films: `usual`, or 1 with `HEARTHCAST_ALL_FILMS`.
pub fn film_step(usual: usize) -> usize {
    if std::env::var_os("HEARTHCAST_ALL_FILMS").is_some() { 1 } else { usual }
}

/// Runs `ffmpeg … path`. Source filters, which may contain spaces or quotes, must be separate arguments. Files made from source
/// filters alone are cached.
pub fn run_ffmpeg(path: &Path, args: &[&str]) {
    let mut words: Vec<String> = Vec::new();
    for arg in args {
        if arg.contains("testsrc") || arg.contains("src=") || arg.starts_with("color=") {
            words.push((*arg).to_owned());
        } else {
            words.extend(arg.split(' ').filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    media_cache::copy_or_make(path, &words, |path| {
        let mut command = Command::new("ffmpeg");
        let output = command.args(["-nostdin", "-v", "error", "-y"]).args(&words).arg(path).output();
        let output = output.expect("ffmpeg runs");
        assert!(output.status.success(), "ffmpeg: {}", String::from_utf8_lossy(&output.stderr));
    });
}

/// Opens a file as the library does.
pub fn open(path: &Path) -> Arc<SourceFile> {
    let folder = path.parent().expect("in a folder").to_owned();
    let roots = Roots::open(vec![Root { id: "films".into(), path: folder }]).expect("the folder opens");
    Arc::new(roots.open_file(path.to_str().expect("plain name")).expect("the file opens"))
}

/// The parts of ffprobe's report that a backend needs.
pub fn probe_media(path: &Path, container: Container) -> Media {
    let report = ffprobe(path, &["-show_streams", "-show_format"]);
    let number = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let streams = report["streams"].as_array().expect("streams").iter().map(|stream| {
        let kind = match stream["codec_type"].as_str() {
            Some("video") if stream["disposition"]["attached_pic"] == 1 => StreamKind::Data,
            Some("video") => StreamKind::Video(Video {
                frame_rate: stream["avg_frame_rate"].as_str().and_then(|rate| {
                    let (num, den) = rate.split_once('/')?;
                    FrameRate::new(num.parse().ok()?, den.parse().ok()?)
                }),
                color: Color {
                    primaries: text(&stream["color_primaries"]),
                    transfer: text(&stream["color_transfer"]),
                    matrix: text(&stream["color_space"]),
                    range: match stream["color_range"].as_str() {
                        Some("pc") => Some("full".to_owned()),
                        Some("tv") => Some("limited".to_owned()),
                        _ => None,
                    },
                },
                ..Video::new(stream["width"].as_u64().unwrap() as u32, stream["height"].as_u64().unwrap() as u32)
            }),
            Some("audio") => StreamKind::Audio(Audio::new(
                stream["channels"].as_u64().unwrap_or(2) as u32,
                stream["sample_rate"].as_str().and_then(|rate| rate.parse().ok()).unwrap_or(48_000),
            )),
            Some("subtitle") => {
                let text = !matches!(stream["codec_name"].as_str(), Some("hdmv_pgs_subtitle" | "dvd_subtitle"));
                StreamKind::Subtitle(Subtitle { is_text: text, is_hearing_impaired: false })
            }
            _ => StreamKind::Data,
        };
        let codec = stream["codec_name"].as_str().unwrap_or("unknown");
        Stream::new(stream["index"].as_u64().unwrap() as u32, codec, kind)
    });
    Media {
        duration_seconds: number(&report["format"]["duration"]),
        start_seconds: number(&report["format"]["start_time"]).unwrap_or(0.0),
        ..Media::new(container, streams.collect())
    }
}

/// One packet as listed by ffprobe; times in 90 kHz ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub stream: u64,
    pub pts: i64,
    pub dts: i64,
    pub is_keyframe: bool,
    pub size: u64,
}

/// All packets of a transport stream.
pub fn packets(path: &Path) -> Vec<Packet> {
    let report = ffprobe(path, &["-show_packets"]);
    let packets = report["packets"].as_array().expect("packets");
    let listed = packets.iter().map(|packet| Packet {
        stream: packet["stream_index"].as_u64().unwrap(),
        pts: packet["pts"].as_i64().unwrap(),
        dts: packet["dts"].as_i64().unwrap_or(-1),
        is_keyframe: packet["flags"].as_str().unwrap().starts_with('K'),
        size: packet["size"].as_str().unwrap().parse().unwrap(),
    });
    listed.collect()
}

/// The kind of each stream of a file, by index.
pub fn stream_kinds(path: &Path) -> BTreeMap<u64, String> {
    let report = ffprobe(path, &["-show_streams"]);
    let streams = report["streams"].as_array().expect("streams");
    streams
        .iter()
        .map(|stream| (stream["index"].as_u64().unwrap(), stream["codec_type"].as_str().unwrap_or("").to_owned()))
        .collect()
}

pub fn ffprobe(path: &Path, sections: &[&str]) -> serde_json::Value {
    let mut command = Command::new("ffprobe");
    let output = command.args(["-v", "error", "-of", "json"]).args(sections).arg(path).output().expect("ffprobe runs");
    serde_json::from_slice(&output.stdout).expect("ffprobe writes JSON")
}

/// Decodes the whole file; returns the decoder's warnings.
pub fn decoder_warnings(path: &Path) -> String {
    let mut command = Command::new("ffmpeg");
    let output = command.args(["-nostdin", "-v", "warning", "-i"]).arg(path).args(["-f", "null", "-"]).output();
    String::from_utf8_lossy(&output.expect("ffmpeg runs").stderr).into_owned()
}

/// Converts several files with one process of ffmpeg, because its start takes longer than a short file: what the arguments of each
/// output make of each file. In the arguments, `{n}` stands for the number of the file. Nothing for an output that fails.
pub fn convert<const N: usize>(paths: &[&Path], outputs: [&str; N]) -> Vec<[Vec<u8>; N]> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output_path = |file: usize, output: usize| folder.path().join(format!("{file}-{output}"));
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-copyts"]);
    for path in paths {
        command.arg("-i").arg(path);
    }
    for file in 0..paths.len() {
        for (output, args) in outputs.iter().enumerate() {
            command.args(args.replace("{n}", &file.to_string()).split(' ')).arg(output_path(file, output));
        }
    }
    command.status().expect("ffmpeg runs");
    let read = |file, output| std::fs::read(output_path(file, output)).unwrap_or_default();
    (0..paths.len()).map(|file| std::array::from_fn(|output| read(file, output))).collect()
}

/// Start times of flashes in the video and of beeps in the audio, seconds of the file's own clock.
pub fn flash_and_beep_times(path: &Path, frame_rate: f64) -> (Vec<f64>, Vec<f64>) {
    let report = ffprobe(path, &["-show_entries", "stream=codec_type,start_time"]);
    let streams = report["streams"].as_array().expect("streams");
    let stream = |kind: &str| streams.iter().find(|stream| stream["codec_type"] == kind);
    let start_of = |stream: &serde_json::Value| stream["start_time"].as_str().and_then(|text| text.parse::<f64>().ok());
    let decoded = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    // One process decodes both, because its start takes longer than that.
    let mut decode = |kind: &str, args: &str| {
        stream(kind).map(|stream| {
            let output = decoded.path().join(kind);
            command.args(args.split(' ')).arg(&output);
            (start_of(stream).unwrap_or(0.0), output)
        })
    };
    let video = decode("video", "-map 0:v:0 -vsync 0 -vf scale=16:16:flags=area,format=gray -f rawvideo");
    let audio = decode("audio", "-map 0:a:0 -ac 1 -ar 48000 -f s16le");
    command.status().expect("ffmpeg runs");
    let read = |decoded: Option<(f64, PathBuf)>| {
        decoded.map_or((0.0, Vec::new()), |(start, path)| (start, std::fs::read(path).unwrap_or_default()))
    };
    let ((video_start, frames), (audio_start, samples)) = (read(video), read(audio));
    let is_bright = |frame: &[u8]| frame.iter().map(|&pixel| u32::from(pixel)).sum::<u32>() / 256 > 225;
    let is_bright_frame: Vec<bool> = frames.chunks_exact(256).map(is_bright).collect();
    let flashes = (0..is_bright_frame.len()).filter(|&n| is_bright_frame[n] && (n == 0 || !is_bright_frame[n - 1]));
    let is_loud: Vec<bool> =
        samples.as_chunks::<2>().0.iter().map(|&pair| i16::from_le_bytes(pair).unsigned_abs() > 4000).collect();
    let mut beeps = Vec::new();
    let mut quiet_samples = 24_000;
    for (n, &is_loud) in is_loud.iter().enumerate() {
        if is_loud && quiet_samples >= 9_600 {
            beeps.push(audio_start + n as f64 / 48_000.0);
        }
        quiet_samples = if is_loud { 0 } else { quiet_samples + 1 };
    }
    (flashes.map(|n| video_start + n as f64 / frame_rate).collect(), beeps)
}

/// PSNR of the least similar pair of frames, decibels; under 25 the frames differ.
pub fn worst_psnr_decibels(first: &Path, second: &Path) -> f64 {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "info", "-i"]).arg(first).arg("-i").arg(second);
    let output = command.args(["-lavfi", "[0:v][1:v]psnr", "-f", "null", "-"]).output().expect("ffmpeg runs");
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    let min = report.split("min:").nth(1).and_then(|rest| rest.split_whitespace().next()).map(str::to_owned);
    match min.as_deref() {
        Some("inf") => f64::INFINITY,
        min => min.and_then(|min| min.parse().ok()).unwrap_or_else(|| panic!("no PSNR in {report}")),
    }
}

/// Decodes a file's video to raw frames, in `convert`.
pub const RAW_FRAMES: &str = "-map {n}:v:0 -fps_mode passthrough -f rawvideo";

/// The numbers encoded in the colours of a file's frames, as [`parse_frame_numbers`] reads them.
pub fn frame_numbers(path: &Path, side_pixels: usize) -> Vec<usize> {
    parse_frame_numbers(&convert(&[path], [RAW_FRAMES])[0][0], side_pixels)
}

/// The numbers encoded in the colours of raw 4:2:0 frames (steps of 10 in luma, 20 of 10 in blue, 400 of 5 in red). The frames are
/// `side_pixels` pixels high and wide.
pub fn parse_frame_numbers(frames: &[u8], side_pixels: usize) -> Vec<usize> {
    let steps = |mean: usize, step: usize| (mean - 20 + step / 2) / step;
    let mean =
        |plane: &[u8]| plane.iter().map(|&value| usize::from(value)).sum::<usize>().div_ceil(plane.len()).max(20);
    let (luma, quarter) = (side_pixels * side_pixels, side_pixels * side_pixels / 4);
    let number = |frame: &[u8]| {
        let (chroma, red) = (&frame[luma..luma + quarter], &frame[luma + quarter..]);
        steps(mean(&frame[..luma]), 10) + 20 * steps(mean(chroma), 10) + 400 * steps(mean(red), 5)
    };
    frames.chunks_exact(luma + 2 * quarter).map(number).collect()
}
