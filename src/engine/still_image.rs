//! The frame of a slate, encoded once: one IDR picture, and pictures that repeat it.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::RunError;
use super::ass;
use super::ffmpeg::argument_list::ArgumentList;
use super::ffmpeg::run_to_end;
use super::image::Image;
use super::process::{ChildLimits, InheritedFile};
use super::video_encoders::VideoEncoder;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::subtitles::TextStyle;

/// Frames of one still: 1.5 s at 25 a second; then it starts over.
const FRAMES: u32 = 38;

/// Time limit of the encode.
const DEADLINE: Duration = Duration::from_secs(20);

const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Encodes a slate of this size, with an optional line of text over `image` or a built-in image. `encoder` must be an H.264
/// encoder that is known to work.
///
/// # Errors
/// `Encoder` with ffmpeg's last message; `Stalled`; `Internal` when ffmpeg does not start.
pub async fn encode(
    ffmpeg: &Path,
    encoder: &VideoEncoder,
    (width, height): (u32, u32),
    text_line: Option<(&str, &TextStyle)>,
    image: Option<&Image>,
) -> Result<StillImage, RunError> {
    let script = text_line.map(|(text, style)| ass::single_line_script(text, style, (width, height))).transpose();
    let script = script
        .map_err(|cause| RunError::Internal(format!("the slate's text could not be prepared: {cause}")))?
        .map(Arc::new);
    let script_path = script.as_ref().map(|script| format!("/proc/self/fd/{}", script.as_raw_fd()));
    let image_input = image.map(Image::ffmpeg_input);
    let args = arguments(encoder, (width, height), script_path.as_deref(), image_input);
    let inherit =
        script.into_iter().chain(image.map(|image| image.file.clone())).map(|file| file as InheritedFile).collect();
    let work = run_to_end(ffmpeg, args, inherit, ChildLimits::PROBE, MAX_OUTPUT_BYTES);
    let output = tokio::time::timeout(DEADLINE, work).await;
    let (stream, exit) = output.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))??;
    let still = StillImage::from_annex_b(&stream);
    if still.frames.is_empty() {
        return Err(RunError::Encoder(exit.last_error("ffmpeg encoded no slate")));
    }
    Ok(still)
}

/// The built-in image is a dark room with a fire, drawn in boxes, so that no file has to be read. An image file is
/// scaled to fit.
fn arguments(
    encoder: &VideoEncoder,
    (width, height): (u32, u32),
    script_path: Option<&str>,
    image_input: Option<(&'static str, String)>,
) -> Vec<String> {
    let fireplace_graph = format!(
        "color=c=0x17120f:s={width}x{height}:r=25,\
         drawbox=x=iw*0.36:y=ih*0.30:w=iw*0.28:h=ih*0.44:color=0x3a2a20:t=fill,\
         drawbox=x=iw*0.39:y=ih*0.36:w=iw*0.22:h=ih*0.38:color=0x0c0908:t=fill,\
         drawbox=x=iw*0.455:y=ih*0.52:w=iw*0.09:h=ih*0.19:color=0xb4471a:t=fill,\
         drawbox=x=iw*0.475:y=ih*0.58:w=iw*0.05:h=ih*0.13:color=0xf2a63b:t=fill,\
         drawbox=x=iw*0.42:y=ih*0.70:w=iw*0.16:h=ih*0.025:color=0x5a3c28:t=fill"
    );
    let text_filter = script_path.map_or_else(String::new, |path| format!(",ass=filename={path}"));
    let mut args = ArgumentList::new("-nostdin -hide_banner -v error");
    match image_input {
        None => args.add("-f lavfi").pair("-i", fireplace_graph + &text_filter),
        Some((demuxer, address)) => {
            let scaled_graph = format!(
                "scale=w={width}:h={height}:force_original_aspect_ratio=decrease:flags=bicubic:out_range=tv,format=yuv420p,\
                 pad={width}:{height}:-1:-1:color=black,setsar=1,loop=loop=-1:size=1,setpts=N/25/TB,fps=25{text_filter}"
            );
            args.add("-protocol_whitelist file").pair("-f", demuxer).pair("-i", address).pair("-vf", scaled_graph)
        }
    };
    args.add(&format!(
        "-frames:v {FRAMES} -pix_fmt yuv420p {} -g {FRAMES} -bf 0 -b:v 600k -maxrate 1200k -bufsize 2400k \
         -color_range tv -bsf:v h264_metadata=aud=insert -f h264 pipe:1",
        encoder.bitrate_args()
    ));
    args.0
}
