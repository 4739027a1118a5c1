//! The frame of a slate, encoded once: one IDR picture, and pictures that repeat it. GStreamer makes it
//! ([`super::worker::Isolation::encode_still`]); where it cannot, ffmpeg does.

use std::fs::File;
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
use crate::domain::slate_canvas::{FIREPLACE, WALL_COLOR};
use crate::domain::subtitles::TextStyle;

/// Frames of one still: 1.5 s at 25 a second; then it starts over.
pub const FRAMES: u32 = 38;

/// Maximum bit rate, kbit/s.
pub const MAX_KBPS: u32 = 1200;

/// Largest still, bytes.
pub const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Time limit of ffmpeg's encode.
const DEADLINE: Duration = Duration::from_secs(20);

/// A slate to encode.
#[derive(Clone, Debug)]
pub struct StillJob {
    /// Width and height, even numbers of 16 to 4096 pixels.
    pub size: (u32, u32),
    /// Scaled to fit between black bars, and its path for messages; None for the built-in drawing.
    pub image: Option<(Arc<Image>, String)>,
    /// A line of text, as an ASS script in memory.
    pub script: Option<Arc<File>>,
}

impl StillJob {
    /// A slate of this size with the built-in drawing.
    pub fn new(size: (u32, u32)) -> Self {
        Self { size, image: None, script: None }
    }

    /// Shows an image of the library instead of the drawing.
    #[must_use]
    pub fn with_image(mut self, image: Arc<Image>, path: &str) -> Self {
        self.image = Some((image, path.to_owned()));
        self
    }

    /// Adds a line of text.
    ///
    /// # Errors
    /// `Internal` when there is no memory for its script.
    pub fn with_text(mut self, line: &str, style: &TextStyle) -> Result<Self, RunError> {
        let script = ass::single_line_script(line, style, self.size);
        let failed =
            |cause: std::io::Error| RunError::Internal(format!("the slate's text could not be prepared: {cause}"));
        self.script = Some(Arc::new(script.map_err(failed)?));
        Ok(self)
    }

    /// Encodes it with ffmpeg. `encoder` must be an H.264 encoder that is known to work.
    ///
    /// # Errors
    /// `Encoder` with ffmpeg's last message; `Stalled`; `Internal` when ffmpeg does not start.
    pub async fn encode_with_ffmpeg(&self, ffmpeg: &Path, encoder: &VideoEncoder) -> Result<StillImage, RunError> {
        let script = self.script.iter().map(|file| file.clone() as InheritedFile);
        let image = self.image.iter().map(|(image, _)| image.file.clone() as InheritedFile);
        let inherit = script.chain(image).collect();
        let work = run_to_end(ffmpeg, self.ffmpeg_arguments(encoder), inherit, ChildLimits::PROBE, MAX_OUTPUT_BYTES);
        let output = tokio::time::timeout(DEADLINE, work).await;
        let (stream, exit) = output.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))??;
        let still = StillImage::from_annex_b(&stream);
        if still.frames.is_empty() {
            return Err(RunError::Encoder(exit.last_error("ffmpeg encoded no slate")));
        }
        Ok(still)
    }

    /// One frame is drawn and converted, and then repeated. RGB becomes BT.709.
    fn ffmpeg_arguments(&self, encoder: &VideoEncoder) -> Vec<String> {
        let (width, height) = self.size;
        let text_filter = self
            .script
            .as_ref()
            .map_or_else(String::new, |script| format!(",ass=filename=/proc/self/fd/{}", script.as_raw_fd()));
        let repeated = format!("loop=loop=-1:size=1,setpts=N/25/TB,fps=25{text_filter}");
        let mut args = ArgumentList::new("-nostdin -hide_banner -v error");
        match &self.image {
            None => {
                let boxes = FIREPLACE.map(|part| {
                    format!(
                        "drawbox=x=iw*{}/1000:y=ih*{}/1000:w=iw*{}/1000:h=ih*{}/1000:color=0x{:06x}:t=fill",
                        part.x, part.y, part.width, part.height, part.color
                    )
                });
                let graph = format!(
                    "color=c=0x{WALL_COLOR:06x}:s={width}x{height}:r=25,format=gbrp,{},\
                     scale=out_color_matrix=bt709:out_range=tv,format=yuv420p,{repeated}",
                    boxes.join(",")
                );
                args.add("-f lavfi").pair("-i", graph)
            }
            Some((image, _)) => {
                let graph = format!(
                    "scale=w={width}:h={height}:force_original_aspect_ratio=decrease:flags=bicubic:out_range=tv:\
                     out_color_matrix=bt709,format=yuv420p,pad={width}:{height}:-1:-1:color=black,setsar=1,{repeated}"
                );
                let (demuxer, address) = image.ffmpeg_input();
                args.add("-protocol_whitelist file").pair("-f", demuxer).pair("-i", address).pair("-vf", graph)
            }
        };
        args.add(&format!(
            "-frames:v {FRAMES} -pix_fmt yuv420p {} -g {FRAMES} -bf 0 -b:v 600k -maxrate {MAX_KBPS}k -bufsize 2400k \
             -color_range tv -colorspace bt709 -color_primaries bt709 -color_trc bt709 -bsf:v h264_metadata=aud=insert \
             -f h264 pipe:1",
            encoder.bitrate_args()
        ));
        args.0
    }
}
