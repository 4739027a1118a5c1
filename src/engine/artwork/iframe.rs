//! A frame of an I-frame playlist for video that is encoded: the source's nearest keyframe, encoded alone and small.

use std::path::Path;
use std::sync::Arc;

use super::{output_of, tone_mapping};
use crate::domain::cmaf::from_ts::{CmafSegment, SegmentPosition, convert_segment};
use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::mpegts::{PMT_PID, VIDEO_PID};
use crate::engine::ffmpeg::argument_list::ArgumentList;
use crate::engine::source::SourceFile;
use crate::engine::video_encoders::VideoEncoder;
use crate::engine::{Result, RunError, TIMELINE_BASE};

/// Largest frame, kbit: the encoder keeps to it.
pub const MAX_FRAME_KBITS: u32 = 400;

/// Largest output of ffmpeg, bytes: the frame in a transport stream.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// How far before a position a keyframe is looked for if none follows it, seconds: containers without an index are searched
/// forwards.
const EARLIER_SECONDS: f64 = 15.0;

/// A frame to encode.
#[derive(Clone, Copy, Debug)]
pub struct IFrameJob<'a> {
    pub ffmpeg: &'a Path,
    /// An H.264 encoder that is known to work.
    pub encoder: &'a VideoEncoder,
    pub source: &'a Arc<SourceFile>,
    pub media: &'a Media,
    /// ffmpeg's index of the video.
    pub stream: u32,
    /// Pixels, even numbers.
    pub size: (u32, u32),
    pub grid: &'a Grid,
    /// The segment of `grid` at whose start the frame is shown.
    pub segment: usize,
}

impl IFrameJob<'_> {
    /// Encodes it, as one IDR picture in a transport stream with the time of its segment. None if no keyframe can be decoded
    /// there.
    ///
    /// # Errors
    /// `Stalled`; `Internal` when ffmpeg does not start.
    pub async fn encode(&self) -> Result<Option<Vec<u8>>> {
        let streams = || self.media.video_streams();
        let Some((_, video)) = streams().find(|(found, _)| found.index == self.stream) else { return Ok(None) };
        let seconds = self.grid.segment_start(self.segment).as_seconds();
        let earlier = (seconds > 0.0).then_some((seconds - EARLIER_SECONDS).max(0.0));
        for position in [seconds].into_iter().chain(earlier) {
            // This ffmpeg may be unable to map HDR.
            for mapping in tone_mapping(video).map(Some).into_iter().chain([None]) {
                let args = self.arguments(position, mapping.as_deref());
                if let Some(frame) = output_of(self.ffmpeg, args, self.source.clone(), MAX_OUTPUT_BYTES).await? {
                    return Ok(Some(frame));
                }
            }
        }
        Ok(None)
    }

    fn arguments(&self, position: f64, tone_mapping: Option<&str>) -> ArgumentList {
        let (width, height) = self.size;
        let scaling = format!("scale=w={width}:h={height}:flags=bicubic:out_range=tv");
        let filter = [Some(&*scaling), tone_mapping, Some("format=yuv420p,setsar=1,setpts=0")];
        let filter = filter.into_iter().flatten().collect::<Vec<_>>().join(",");
        let time = TIMELINE_BASE + self.grid.segment_start(self.segment);
        // Seeks by the keyframe index of the container, and decodes keyframes only.
        let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error -threads 1 -skip_frame nokey");
        args.add("-noaccurate_seek").pair("-ss", format!("{position:.3}"));
        args.add_item(self.media.container, &self.source.proc_path(), None);
        args.pair("-map", format!("0:{}", self.stream)).add("-frames:v 1 -fps_mode passthrough -threads 1");
        args.pair("-vf", filter).add(&self.encoder.bitrate_args()).add("-crf 26 -level 3 -g 1 -bf 0");
        args.add(&format!("-maxrate {MAX_FRAME_KBITS}k -bufsize {MAX_FRAME_KBITS}k -color_range tv"));
        args.pair("-output_ts_offset", format!("{:.6}", time.as_seconds()));
        args.pair("-mpegts_pmt_start_pid", PMT_PID).pair("-streamid", format!("0:{VIDEO_PID}"));
        args.add("-muxdelay 0 -muxpreload 0 -f mpegts pipe:1");
        args
    }

    /// Converts what [`Self::encode`] made to CMAF: a fragment that lasts until the next segment, and its init segment.
    ///
    /// # Errors
    /// `Internal` if it is no H.264 in a transport stream.
    pub fn convert(&self, encoded: &[u8]) -> Result<(CmafSegment, Vec<u8>)> {
        let end = TIMELINE_BASE + self.grid.segment_start(self.segment + 1);
        let sequence_number = u32::try_from(self.segment).unwrap_or(u32::MAX).saturating_add(1);
        let position = SegmentPosition { sequence_number, end };
        let converted = convert_segment(encoded, position, None);
        let converted = converted.map_err(|cause| RunError::Internal(format!("an I-frame: {cause}")))?;
        let init = converted.config.init_segment(None, None);
        let init = init.map_err(|cause| RunError::Internal(format!("the init segment of an I-frame: {cause}")))?;
        Ok((converted, init))
    }
}
