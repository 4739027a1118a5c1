//! The frame of a slate, encoded once: one IDR picture, and pictures that repeat it.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::RunError;
use super::ffmpeg::spawn::{Inherited, Limits, spawn};
use super::picture::Picture;
use super::script;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::subtitles::TextStyle;

/// Frames of one still: 1.5 s at 25 a second; then it starts over.
const PICTURES: u32 = 38;

/// Time limit of the encode.
const DEADLINE: Duration = Duration::from_secs(20);

const MOST_BYTES: u64 = 16 << 20;

/// Encodes a slate of this size, with an optional line of text over `picture` or a built-in image. `encoder` must be
/// known to work.
///
/// # Errors
/// `Encoder` with ffmpeg's last message; `Stalled`; `Internal` when ffmpeg does not start.
pub async fn make(
    ffmpeg: &Path,
    encoder: &str,
    (width, height): (u32, u32),
    line: Option<(&str, &TextStyle)>,
    picture: Option<&Picture>,
) -> Result<StillImage, RunError> {
    let script = line.map(|(line, style)| script::standing(line, style, (width, height))).transpose();
    let script = script
        .map_err(|cause| RunError::Internal(format!("the slate's text could not be prepared: {cause}")))?
        .map(Arc::new);
    let path = script.as_ref().map(|script| format!("/proc/self/fd/{}", script.as_raw_fd()));
    let input = picture.map(Picture::input);
    let args = arguments(encoder, (width, height), path.as_deref(), input);
    let inherit =
        script.into_iter().chain(picture.map(|picture| picture.file.clone())).map(|file| file as Inherited).collect();
    let started = spawn(ffmpeg, args, inherit, Limits::PROBE).await;
    let mut child = started.map_err(|cause| RunError::Internal(format!("ffmpeg does not start: {cause}")))?;
    let mut stream = Vec::new();
    let work = async {
        let read = (&mut child.stdout).take(MOST_BYTES).read_to_end(&mut stream).await;
        (read, child.wait().await)
    };
    let (read, exit) = tokio::time::timeout(DEADLINE, work).await.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))?;
    read.map_err(|cause| RunError::Internal(format!("ffmpeg's output: {cause}")))?;
    let still = StillImage::from_annex_b(&stream);
    if still.frames.is_empty() {
        return Err(RunError::Encoder(exit.stderr.last().cloned().unwrap_or_else(|| "ffmpeg encoded no slate".into())));
    }
    Ok(still)
}

/// The built-in image is a dark room with a fire, drawn in boxes, so that no file has to be read. An image file is
/// scaled to fit.
fn arguments(
    encoder: &str,
    (width, height): (u32, u32),
    script: Option<&str>,
    input: Option<(&'static str, String)>,
) -> Vec<String> {
    let room = format!(
        "color=c=0x17120f:s={width}x{height}:r=25,\
         drawbox=x=iw*0.36:y=ih*0.30:w=iw*0.28:h=ih*0.44:color=0x3a2a20:t=fill,\
         drawbox=x=iw*0.39:y=ih*0.36:w=iw*0.22:h=ih*0.38:color=0x0c0908:t=fill,\
         drawbox=x=iw*0.455:y=ih*0.52:w=iw*0.09:h=ih*0.19:color=0xb4471a:t=fill,\
         drawbox=x=iw*0.475:y=ih*0.58:w=iw*0.05:h=ih*0.13:color=0xf2a63b:t=fill,\
         drawbox=x=iw*0.42:y=ih*0.70:w=iw*0.16:h=ih*0.025:color=0x5a3c28:t=fill"
    );
    let script = script.map_or_else(String::new, |script| format!(",ass=filename={script}"));
    let mut args = "-nostdin -hide_banner -v error".split(' ').map(str::to_owned).collect::<Vec<_>>();
    match input {
        None => args.extend(["-f".into(), "lavfi".into(), "-i".into(), room + &script]),
        Some((demuxer, address)) => {
            let words = ["-protocol_whitelist", "file", "-f", demuxer, "-i", &address, "-vf"];
            args.extend(words.map(str::to_owned));
            args.push(format!(
                "scale=w={width}:h={height}:force_original_aspect_ratio=decrease:flags=bicubic:out_range=tv,format=yuv420p,\
                 pad={width}:{height}:-1:-1:color=black,setsar=1,loop=loop=-1:size=1,setpts=N/25/TB,fps=25{script}"
            ));
        }
    }
    let last = format!(
        "-frames:v {PICTURES} -pix_fmt yuv420p -c:v {encoder} -g {PICTURES} -bf 0 -b:v 600k -maxrate 1200k -bufsize 2400k \
         -color_range tv -bsf:v h264_metadata=aud=insert -f h264 pipe:1"
    );
    args.extend(last.split(' ').filter(|word| !word.is_empty()).map(str::to_owned));
    if encoder == "libx264" {
        let at = args.len() - 3;
        args.splice(at..at, ["-preset", "veryfast", "-profile:v", "high", "-sc_threshold", "0"].map(str::to_owned));
    }
    args
}
