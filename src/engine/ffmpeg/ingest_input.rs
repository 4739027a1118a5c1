//! Normalises an external stream to the format of channels: H.264 and AAC on the fixed PIDs.
//!
//! The child gets bytes through a pipe and cannot open anything: `pipe` is its only protocol. Video is copied if every
//! player supports it; audio is always encoded, so that its format never changes.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Sender;

use super::argument_list::ArgumentList;
use crate::domain::ingest::stream_info::{StreamContainer, StreamInfo};
use crate::domain::mpegts::{AUDIO_PID, PMT_PID, VIDEO_PID};
use crate::engine::process::{Child, ChildLimits, spawn};
use crate::engine::video_encoders::VideoEncoder;

const READ_BYTES: usize = 64 << 10;

/// How the video is handled.
#[derive(Clone, Debug, PartialEq)]
pub enum VideoMode {
    Copy,
    Encode {
        /// An H.264 encoder.
        encoder: &'static VideoEncoder,
        /// Keyframe interval, seconds.
        keyframe_seconds: f64,
        /// Largest height, lines.
        max_height: u32,
    },
}

/// The input of the child.
#[derive(Debug)]
pub struct ChildInput(Sender);

/// The output of the child: a transport stream.
#[derive(Debug)]
pub struct ChildOutput {
    child: Child,
    bytes: BytesMut,
}

/// Starts a child for such a stream. Dropping the [`ChildOutput`] ends it.
pub async fn start(ffmpeg: &Path, info: StreamInfo, video: &VideoMode) -> Result<(ChildInput, ChildOutput)> {
    let (reader, writer) = std::io::pipe()?;
    let input = format!("pipe:{}", reader.as_raw_fd());
    let child = spawn(ffmpeg, ingest_args(&input, info, video), vec![Arc::new(reader)], ChildLimits::TRANSCODE).await?;
    let sender = Sender::from_owned_fd(OwnedFd::from(writer))?;
    Ok((ChildInput(sender), ChildOutput { child, bytes: BytesMut::with_capacity(READ_BYTES) }))
}

impl ChildInput {
    /// Writes bytes to the child; waits while the pipe is full.
    ///
    /// # Errors
    /// When the child has ended.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).await
    }
}

impl ChildOutput {
    /// The next bytes of the stream.
    ///
    /// # Errors
    /// When the child has ended, with its last error message.
    pub async fn next(&mut self) -> Result<&[u8]> {
        self.bytes.clear();
        if self.child.stdout.read_buf(&mut self.bytes).await? > 0 {
            return Ok(&self.bytes);
        }
        let exit = self.child.wait().await;
        Err(Error::other(format!("ffmpeg ended: {}", exit.last_error("no error message"))))
    }
}

fn ingest_args(input: &str, stream_info: StreamInfo, video: &VideoMode) -> Vec<String> {
    let mut args = ArgumentList::new("-nostdin -hide_banner -v error -max_error_rate 1 -fflags +genpts+discardcorrupt");
    // The streams are known, so probing can be short. With `nobuffer` all probed data would be lost, and ffmpeg would
    // wait for the next keyframe (measured: 11 s of a slow stream, then 9 more).
    args.add("-probesize 1000000 -analyzeduration 1500000 -protocol_whitelist pipe");
    let demuxer = if stream_info.container == StreamContainer::Mp4 { "mov" } else { "mpegts" };
    args.pair("-f", demuxer).pair("-i", input);
    if stream_info.video.is_some() {
        args.add("-map 0:v:0");
        match video {
            VideoMode::Copy => args.add("-c:v copy"),
            VideoMode::Encode { encoder, keyframe_seconds, max_height } => args
                .add("-pix_fmt yuv420p")
                .add(&encoder.bitrate_args())
                .add("-b:v 4000k -maxrate 6000k -bufsize 8000k")
                .pair("-vf", format!("yadif=deint=interlaced,scale=-2:'min({max_height},trunc(ih/2)*2)'"))
                .pair("-force_key_frames", format!("expr:gte(t,n_forced*{keyframe_seconds})")),
        };
    }
    if stream_info.audio {
        // Gaps are filled and overlaps dropped, so that audio stays in sync with video.
        args.add("-map 0:a:0? -c:a aac -ac 2 -ar 48000 -b:a 160k -af aresample=async=1000");
    }
    args.add("-sn -dn -map_metadata -1 -max_muxing_queue_size 4096 -muxdelay 0 -muxpreload 0");
    args.add("-pes_payload_size 0 -flush_packets 1").pair("-mpegts_pmt_start_pid", PMT_PID);
    let pids = [stream_info.video.map(|_| VIDEO_PID), Some(AUDIO_PID)];
    for (n, pid) in pids.into_iter().flatten().enumerate() {
        args.pair("-streamid", format!("{n}:{pid}"));
    }
    args.add("-f mpegts pipe:1");
    args.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ingest::stream_info::VideoCodec;
    use crate::engine::video_encoders::VIDEO_ENCODERS;

    #[test]
    fn nothing_but_the_pipe_can_be_opened() {
        let stream_info = StreamInfo { container: StreamContainer::MpegTs, video: Some(VideoCodec::H264), audio: true };
        let args = ingest_args("pipe:7", stream_info, &VideoMode::Copy).join(" ");
        assert!(
            args.contains("-protocol_whitelist pipe -f mpegts -i pipe:7 -map 0:v:0 -c:v copy -map 0:a:0?"),
            "{args}"
        );
        assert!(args.contains("-streamid 0:65 -streamid 1:66") && args.ends_with("-f mpegts pipe:1"), "{args}");
        let audio_only = ingest_args("pipe:7", StreamInfo { video: None, ..stream_info }, &VideoMode::Copy).join(" ");
        assert!(!audio_only.contains("0:v") && audio_only.contains("-streamid 0:66"), "{audio_only}");
        let encoder = VIDEO_ENCODERS.iter().find(|encoder| encoder.name == "libx264").unwrap();
        let encode = VideoMode::Encode { encoder, keyframe_seconds: 2.0, max_height: 720 };
        let encoded = ingest_args("pipe:7", stream_info, &encode).join(" ");
        assert!(encoded.contains("expr:gte(t,n_forced*2)") && encoded.contains("min(720,"), "{encoded}");
    }
}
