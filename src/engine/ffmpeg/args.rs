//! The argument vector (argv) of an ffmpeg run: a pure function of plain data, without any text from outside.
//!
//! Other ffmpeg commands are built where they are used: `engine/encoders`, `engine/still`, `engine/loudness`,
//! `engine/subtitles`, `engine/ffmpeg/intake`, `engine/ffmpeg/unpack`, `engine/probe/ffprobe`.
//!
//! The shape, and why: `-copyts` keeps source time; `-itsoffset` moves the file's first timestamp to 0, and
//! `-output_ts_offset` to the timeline base. The input is sought a little before the first segment and nothing is cut
//! by ffmpeg itself (`-t` with `-copyts` counts from 0 and made empty output; `-noaccurate_seek`, because the frame on
//! air at the cut may have begun long before it): `fps` puts the pictures on the grid from the very first one,
//! `aresample` the samples, and the cutter drops what lies before. The AAC encoder gets four frames of preroll, so that a
//! seam sounds like the middle of a segment (measured).

mod video;

use crate::domain::grid::Grid;
use crate::domain::media::{Container, Media};
use crate::domain::mpegts::cut::AAC_FRAME;
use crate::domain::mpegts::{AUDIO_PID, PMT_PID, VIDEO_PID};
use crate::domain::plan::{AudioPlan, Burn, Rendition, VideoPlan};
use crate::domain::time::seconds;
use crate::engine::clock::Fed;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};

/// AAC frames encoded before the first one kept.
const PREROLL_FRAMES: i64 = 4;

/// A stream that begins later than this after the start of a run is taken for the continuation of one, seconds.
///
/// ffmpeg makes its filter graphs anew when the channels or the frame size change, and every filter then counts from its
/// beginning. So where that happens ([`may_change`]) no filter pads to a fixed time or counts from the start of the run:
/// the first frame of a graph is moved to the start of the run if it comes within this time after it, and keeps its own
/// time (audio: the AAC frame it lies in) otherwise.
const CHANGE_WINDOW_SECONDS: i64 = 10;

/// Containers of broadcasts, whose audio changes its channels and whose video its size on the air.
fn may_change(container: Container) -> bool {
    matches!(container, Container::MpegTs | Container::MpegPs)
}

/// Everything the arguments depend on.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub media: &'a Media,
    pub rendition: &'a Rendition,
    pub grid: &'a Grid,
    pub first: usize,
    /// `/proc/self/fd/…` of the item.
    pub input: &'a str,
    /// The pipe to read the item from instead, where its clock jumps: it begins where reading should.
    pub fed: Option<&'a Fed>,
    /// `/proc/self/fd/…` of the subtitle to draw: ASS text, or the bitmap sidecar.
    pub burn: Option<&'a str>,
    /// Demuxer and address of the picture to lay over.
    pub picture: Option<(&'static str, &'a str)>,
    /// `/proc/self/fd/…` of the sound as a bare AMR stream, where it had to be taken out of the item.
    pub sound: Option<&'a str>,
    pub abilities: Abilities,
    /// Pictures decoded at once; None leaves it to ffmpeg.
    pub decoders: Option<usize>,
}

/// What this build of ffmpeg can do beyond the everyday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Filters `zscale` and `tonemap`: HDR to SDR.
    pub tone_map: bool,
    /// Filter `ass`: text drawn into the picture.
    pub text: bool,
    /// Filter `zscale`: another size in less time.
    pub resize: bool,
}

/// The whole argument vector, without the program's name.
///
/// # Errors
/// `RunError::Encoder` when the plan asks for what this build cannot do.
pub fn arguments(ask: &Ask) -> Result<Vec<String>, RunError> {
    let mut args = Args::default();
    // Errors only: broken files make thousands of warnings. A file may be damaged all through and still be worth playing.
    args.add("-nostdin -hide_banner -v error -max_error_rate 1 -copyts");
    input(&mut args, ask);
    if let (Some(path), Some(Burn::Sidecar { bitmap: true, .. })) = (ask.burn, burn(ask)) {
        args.add("-protocol_whitelist file -format_whitelist sup,dvbsub,matroska -i").push(format!("file:{path}"));
    }
    if let Some(path) = ask.sound {
        seek(&mut args, ask);
        args.add("-protocol_whitelist file -f amr -i").push(format!("file:{path}"));
    }
    if let Some((demuxer, path)) = ask.picture {
        args.add("-protocol_whitelist file -f").push(demuxer.to_owned()).pair("-i", path);
    }
    args.add("-map_metadata -1 -map_chapters -1 -sn -dn");
    video::add(&mut args, ask)?;
    audio(&mut args, ask);
    output(&mut args, ask);
    Ok(args.0)
}

/// The arguments that copy one video stream, whole, as a transport stream with its keyframes marked.
pub fn stream_pass(media: &Media, stream: u32, input: &str, fed: Option<&Fed>) -> Vec<String> {
    let mut args = Args::default();
    args.add("-nostdin -hide_banner -v error -copyts");
    file(&mut args, media, input, fed);
    args.pair("-map", format!("0:{stream}")).add("-c copy -map_metadata -1 -map_chapters -1");
    args.pair("-output_ts_offset", TIMELINE_BASE_SECONDS);
    args.add("-muxdelay 0 -muxpreload 0 -avoid_negative_ts disabled -mpegts_copyts 1");
    args.pair("-mpegts_pmt_start_pid", PMT_PID).pair("-streamid", format!("0:{VIDEO_PID}"));
    args.add("-f mpegts pipe:1");
    args.0
}

/// The arguments that copy one AMR track into a bare stream.
pub(super) fn bare_sound(media: &Media, stream: u32, input: &str) -> Vec<String> {
    let mut args = Args::default();
    args.add("-nostdin -hide_banner -v error");
    file(&mut args, media, input, None);
    args.pair("-map", format!("0:{stream}")).add("-c copy -map_metadata -1 -map_chapters -1 -f amr pipe:1");
    args.0
}

/// The frame on the 1,920-tick grid that is the first to begin at or after `ticks`.
fn aac_frame(ticks: i64) -> i64 {
    -(-ticks).div_euclid(AAC_FRAME)
}

#[derive(Default)]
struct Args(Vec<String>);

impl Args {
    /// Constant arguments, separated by spaces.
    fn add(&mut self, words: &str) -> &mut Self {
        self.0.extend(words.split(' ').map(str::to_owned));
        self
    }

    fn push(&mut self, word: String) -> &mut Self {
        self.0.push(word);
        self
    }

    fn pair(&mut self, option: &str, value: impl ToString) -> &mut Self {
        self.0.push(option.to_owned());
        self.push(value.to_string())
    }
}

fn burn<'a>(ask: &Ask<'a>) -> Option<&'a Burn> {
    match &ask.rendition.video {
        Some(VideoPlan::Encode(plan)) => plan.burn.as_ref(),
        _ => None,
    }
}

fn input(args: &mut Args, ask: &Ask) {
    if let (Some(decoders), Some(VideoPlan::Encode(_))) = (ask.decoders, &ask.rendition.video) {
        args.pair("-threads", decoders);
    }
    if ask.fed.is_none() {
        seek(args, ask);
    }
    file(args, ask.media, ask.input, ask.fed);
}

fn seek(args: &mut Args, ask: &Ask) {
    let at = reading_start(ask.media, ask.rendition, ask.grid, ask.first);
    if at > 0.0 {
        args.add("-noaccurate_seek -seek_timestamp 1");
        args.pair("-ss", format!("{:.6}", at + ask.media.start_seconds));
    }
}

/// Where a run that begins with segment `first` begins to read, seconds of source time; not above 0 is the start.
pub(super) fn reading_start(media: &Media, rendition: &Rendition, grid: &Grid, first: usize) -> f64 {
    if first == 0 { 0.0 } else { seconds(grid.start(first)) - margin(media, rendition) }
}

/// The item itself, its times moved so that source time 0 is 0.
fn file(args: &mut Args, media: &Media, input: &str, fed: Option<&Fed>) {
    if let Some(Fed { address, offset_seconds }) = fed {
        args.pair("-itsoffset", format!("{:.6}", *offset_seconds as f64 + 2e-6));
        args.add("-protocol_whitelist pipe -f mpegts").pair("-i", address);
        return;
    }
    if media.start_seconds != 0.0 {
        // Not the very start: when the two are equal ffmpeg takes the liberty to move it to the first stream in use
        // ("Correcting start time by"), so that sound or picture alone would begin at 0.
        args.pair("-itsoffset", format!("{:.6}", 2e-6 - media.start_seconds));
    }
    args.add("-protocol_whitelist file");
    match demuxer(media.container) {
        Some(name) => args.pair("-f", name),
        None => args.pair("-format_whitelist", OTHER_DEMUXERS),
    };
    args.pair("-i", format!("file:{input}"));
}

/// Seconds before the first segment at which reading begins.
fn margin(media: &Media, rendition: &Rendition) -> f64 {
    let indexed = media.container == Container::Mp4;
    let encodes_audio = matches!(rendition.audio, Some(AudioPlan::Encode { .. }));
    let margin = match (&rendition.video, media.container) {
        // A bitmap subtitle on air at the cut was sent before it.
        (Some(VideoPlan::Encode(plan)), _) if matches!(plan.burn, Some(Burn::Embedded { bitmap: true, .. })) => 10.0,
        // Exactly at the keyframe; the millisecond is for rounding.
        (Some(VideoPlan::Copy { .. }), _) if indexed && !encodes_audio => -0.001,
        _ if indexed => 0.2,
        // These seek to any picture, not to a keyframe: wide enough for a usual group of pictures.
        (Some(VideoPlan::Encode(_)), Container::MpegTs | Container::MpegPs | Container::Other) => 5.0,
        // Packets of the other stream may lie before the keyframe in the file.
        (Some(_), _) => 1.0,
        (None, _) => 0.3,
    };
    // The clock may have gaps or begin anywhere, so that seeking in it stays a guess: no harm in being early.
    if indexed { margin } else { margin.max(0.3) }
}

/// The demuxer by name, so that no probing can take the file for something that names other files.
pub fn demuxer(container: Container) -> Option<&'static str> {
    Some(match container {
        Container::Mp4 => "mov",
        Container::Matroska | Container::Webm => "matroska",
        Container::MpegTs => "mpegts",
        Container::MpegPs => "mpeg",
        Container::Avi => "avi",
        Container::Flv => "flv",
        Container::Asf => "asf",
        Container::Ogg => "ogg",
        Container::Wav => "wav",
        Container::Flac => "flac",
        Container::Mp3 => "mp3",
        Container::Adts => "aac",
        Container::Aiff => "aiff",
        Container::WavPack => "wv",
        // One signature, two demuxers (AC-3, E-AC-3).
        Container::Ac3 | Container::Other => return None,
    })
}

/// Demuxers that read one file and open nothing else.
pub const OTHER_DEMUXERS: &str = "ac3,eac3,dts,dtshd,truehd,mlp,amr,ape,au,caf,dsf,gsm,iff,ivf,m4v,mpegvideo,h264,hevc,mxf,nsv,nut,obu,rm,\
    tak,tta,vc1,voc,w64,wtv,y4m,yuv4mpegpipe,mpc,mpc8,oma,dv,gif,apng,bink,smk,roq,wve,xwma,aac,mp3,flac,wav,ogg,aiff,wv,\
    asf,flv,avi,mpeg,mpegts,matroska,mov";

fn audio(args: &mut Args, ask: &Ask) {
    let (stream, channels, kbps, gain) = match ask.rendition.audio {
        None => {
            args.add("-an");
            return;
        }
        Some(AudioPlan::Copy { stream }) => {
            args.pair("-map", format!("0:{stream}")).add("-c:a copy");
            return;
        }
        Some(AudioPlan::Encode { stream, channels, kbps, gain }) => (stream, channels, kbps, gain),
    };
    let first = aac_frame(ask.grid.start(ask.first)) - PREROLL_FRAMES;
    let start = first * 1024;
    let length = (aac_frame(ask.grid.end()) - first) * 1024;
    let layout = match channels {
        1 => "mono",
        6 => "5.1",
        8 => "7.1",
        _ => "stereo",
    };
    // The rate first and alone: `first_pts` counts in samples of what goes in (measured), so that sound of another rate
    // than 48 kHz came late by as much as the preroll is longer in it. Gaps over 30 ms are filled with silence (or overlaps cut) so that sound stays with the picture; at the start the
    // first sample is put exactly on the grid. Fewer channels: surround at -6 dB, and never above full scale. The sample
    // count then is the clock, so that silence behind the end of the track has times too.
    // One gain for the whole item, so that a run may begin anywhere; peaks are held below -1 dB.
    let level = gain.map_or_else(String::new, |gain| {
        format!("volume={:.1}dB,alimiter=level=0:limit=0.89:attack=1:release=50,", f64::from(gain) / 10.0)
    });
    let mix = "surround_mix_level=0.5:rematrix_maxval=1";
    let format = format!("aformat=sample_fmts=fltp:channel_layouts={layout},{level}");
    let chain = if may_change(ask.media.container) {
        let (begin, end) = (start.max(0), start + length);
        let window = begin + CHANGE_WINDOW_SECONDS * 48_000;
        format!(
            "aresample=osr=48000,\
             asetpts='if(N,PTS,if(between(STARTPTS,{begin},{begin}+48),{begin},\
             if(between(STARTPTS,{begin},{window}),{begin}-NB_SAMPLES,\
             if(gt(STARTPTS,{begin}),floor(STARTPTS/1024)*1024,PTS))))',\
             aresample=async=1:min_hard_comp=0.015:{mix},\
             {format}apad,atrim=start_pts={begin}:end_pts={end},asetpts=N+STARTPTS"
        )
    } else {
        format!(
            "aresample=osr=48000,\
             aresample=async=1:min_hard_comp=0.03:first_pts={start}:{mix},\
             {format}apad=whole_len={length},asetpts=N+({start})"
        )
    };
    let sidecar = matches!(burn(ask), Some(Burn::Sidecar { bitmap: true, .. }));
    args.pair(
        "-map",
        if ask.sound.is_some() { format!("{}:0", 1 + usize::from(sidecar)) } else { format!("0:{stream}") },
    );
    args.pair("-filter:a", chain);
    args.add("-c:a aac").pair("-b:a", format!("{}k", kbps.max(32)));
}

fn output(args: &mut Args, ask: &Ask) {
    args.pair("-output_ts_offset", TIMELINE_BASE_SECONDS);
    args.add("-muxdelay 0 -muxpreload 0 -avoid_negative_ts disabled -max_interleave_delta 5000000 -flush_packets 1");
    args.pair("-mpegts_copyts", 1).pair("-mpegts_pmt_start_pid", PMT_PID);
    let tracks = [(ask.rendition.video.is_some(), VIDEO_PID), (ask.rendition.audio.is_some(), AUDIO_PID)];
    for (index, (_, pid)) in tracks.into_iter().filter(|(present, _)| *present).enumerate() {
        args.pair("-streamid", format!("{index}:{pid}"));
    }
    // One audio frame per PES makes cuts exact; a known PES length lets the last frame go out without waiting.
    args.add("-pes_payload_size 0 -omit_video_pes_length 0 -f mpegts pipe:1");
}

#[cfg(test)]
mod tests;
