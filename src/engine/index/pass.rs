//! One bounded pass over a whole stream, for containers without tables: ffmpeg remuxes it to a transport stream, and this
//! module collects the keyframes.

use std::sync::Arc;

use tokio::io::AsyncReadExt;

use super::frame_kind::FrameKind;
use super::nal;
use super::{KeyframeIndex, MAX_KEYFRAMES, RecoveryPoints, cannot_copy};
use crate::domain::cmaf::from_ts::VideoCodec;
use crate::domain::media::Media;
use crate::domain::mpegts::packet::{PACKET_LEN, Packet, PacketReader};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::mpegts::{pes, unwrap_timestamp};
use crate::domain::time::Ticks;
use crate::engine::clock::ItemInput;
use crate::engine::ffmpeg::args;
use crate::engine::process::{ChildLimits, spawn};
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError, TIMELINE_BASE, ffmpeg};

/// Maximum bytes of a keyframe that are buffered until its first slice.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Reads the stream to its end. The caller sets the deadline; dropping the future ends the child.
pub(super) async fn scan_keyframes(
    source: &Arc<SourceFile>,
    media: &Media,
    stream: u32,
    codec: VideoCodec,
    recovery_points: RecoveryPoints,
) -> Result<KeyframeIndex> {
    let program = ffmpeg::find_program().ok_or_else(|| cannot_copy("ffmpeg is not installed".into()))?;
    let input = ItemInput::open(source, &media.clock_pieces, 0.0).await;
    let input = input.map_err(|error| cannot_copy(error.to_string()))?;
    let arguments = args::video_copy_arguments(media, stream, &source.proc_path(), input.pipe.as_ref());
    let child = spawn(&program, arguments, vec![input.file], ChildLimits::PROBE).await;
    let mut child = child.map_err(|cause| RunError::Internal(format!("ffmpeg could not be started: {cause}")))?;
    let (mut packets, mut scanner) = (PacketReader::default(), KeyframeScanner::new(media, codec, recovery_points));
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = child.stdout.read(&mut bytes).await.map_err(|cause| RunError::Internal(cause.to_string()))?;
        if count == 0 {
            break;
        }
        packets.push(&bytes[..count], |packet| scanner.push_packet(packet));
        if scanner.keyframes.len() > MAX_KEYFRAMES {
            return Err(cannot_copy("the video has too many keyframes".into()));
        }
    }
    let exit = child.wait().await;
    if !exit.is_success() {
        return Err(cannot_copy(exit.last_error("ffmpeg could not read it")));
    }
    scanner.into_index()
}

/// Collects the keyframes of a transport stream.
struct KeyframeScanner {
    codec: VideoCodec,
    recovery_points: RecoveryPoints,
    keyframes: Vec<Ticks>,
    /// A keyframe whose first slice has not arrived yet: its time and its bytes so far.
    pending: Option<(Ticks, Vec<u8>)>,
    /// Whether the first picture of the stream was a keyframe.
    starts_with_keyframe: Option<bool>,
    last_dts: Ticks,
    latest_pts: Ticks,
    frame_duration: Ticks,
    has_closed_groups: bool,
    /// Those of HEVC in the first keyframe that has any.
    parameter_sets: Vec<Vec<u8>>,
    has_one_description: bool,
}

impl KeyframeScanner {
    fn new(media: &Media, codec: VideoCodec, recovery_points: RecoveryPoints) -> Self {
        let rate = media.video_streams().find_map(|(_, video)| video.frame_rate);
        let frame_duration = rate.map_or(Ticks::from_ms(40), |rate| rate.frame_start(1));
        Self {
            codec,
            recovery_points,
            keyframes: Vec::new(),
            pending: None,
            starts_with_keyframe: None,
            last_dts: Ticks::ZERO,
            latest_pts: Ticks::ZERO,
            frame_duration,
            has_closed_groups: true,
            parameter_sets: Vec::new(),
            has_one_description: true,
        }
    }

    /// Compares the parameter sets of a keyframe with those of the first.
    fn check_description(&mut self, keyframe: &[u8]) {
        match self.codec.parameter_sets(keyframe) {
            Ok(sets) if self.parameter_sets.is_empty() => self.parameter_sets = sets,
            Ok(sets) => self.has_one_description &= sets.iter().all(|set| self.parameter_sets.contains(set)),
            Err(_) => self.has_one_description = false,
        }
    }

    fn push_packet(&mut self, bytes: &[u8; PACKET_LEN]) {
        let Some(packet) = Packet::new(bytes) else { return };
        if TrackKind::from_pid(packet.pid()) != Some(TrackKind::Video) {
            return;
        }
        let mut payload = packet.payload();
        if packet.starts_unit() {
            self.pending = None;
            let Some(header) = pes::parse(payload) else { return };
            let Some(pts) = header.pts else { return };
            let time = unwrap_timestamp(pts - TIMELINE_BASE, self.last_dts);
            self.last_dts = unwrap_timestamp(header.dts.unwrap_or(pts) - TIMELINE_BASE, self.last_dts);
            self.latest_pts = self.latest_pts.max(time);
            self.starts_with_keyframe.get_or_insert(packet.is_random_access_point());
            if packet.is_random_access_point() {
                self.pending = Some((time, Vec::new()));
            }
            payload = payload.get(header.header_len..).unwrap_or(&[]);
        }
        let Some((time, head)) = &mut self.pending else { return };
        head.extend_from_slice(payload);
        let mut units = nal::AvcUnits::new(self.recovery_points);
        let kind = nal::picture_kind_in_stream(head, |unit| match self.codec {
            VideoCodec::H264 => units.picture_kind(unit),
            VideoCodec::Hevc => nal::hevc_picture_kind(unit),
        });
        match kind {
            Some(kind) => {
                if kind != FrameKind::Dependent {
                    self.keyframes.push(*time);
                }
                self.has_closed_groups &= kind != FrameKind::OpenKeyframe;
                if let Some((_, head)) = self.pending.take().filter(|_| self.codec == VideoCodec::Hevc) {
                    self.check_description(&head);
                }
            }
            None if head.len() > MAX_HEAD_BYTES => self.pending = None,
            None => {}
        }
    }

    fn into_index(mut self) -> Result<KeyframeIndex> {
        if self.starts_with_keyframe != Some(true) || self.keyframes.is_empty() {
            return Err(cannot_copy("the video does not begin with a keyframe".into()));
        }
        self.keyframes.sort_unstable();
        self.keyframes.dedup();
        Ok(KeyframeIndex {
            keyframes: self.keyframes,
            end: self.latest_pts + self.frame_duration,
            has_closed_groups: self.has_closed_groups,
            has_one_description: self.has_one_description,
        })
    }
}
