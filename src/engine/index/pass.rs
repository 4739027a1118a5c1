//! One bounded pass over a whole stream, for containers without tables: ffmpeg remuxes it to a transport stream, and this
//! module collects the keyframes.

use std::sync::Arc;

use tokio::io::AsyncReadExt;

use super::{Index, MOST_KEYFRAMES, cannot, nal};
use crate::domain::media::Media;
use crate::domain::mpegts::packet::{PACKET_LEN, Packet, PacketReader};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::mpegts::{pes, unwrap_timestamp};
use crate::domain::time::{TICKS_PER_SECOND, to_ticks};
use crate::engine::clock::Feed;
use crate::engine::ffmpeg::args;
use crate::engine::ffmpeg::spawn::{InheritedFile, ChildLimits, spawn};
use crate::engine::source::Source;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS, ffmpeg};

/// Maximum bytes of a keyframe that are buffered until its first slice.
const HEAD: usize = 64 * 1024;

/// Reads the stream to its end. The caller sets the deadline; dropping the future ends the child.
pub(super) async fn index(source: &Arc<Source>, media: &Media, stream: u32) -> Result<Index, RunError> {
    let program = ffmpeg::find_program().ok_or_else(|| cannot("ffmpeg is not installed".into()))?;
    let feed = match media.clock_pieces.is_empty() {
        true => None,
        false => Some(Feed::open(source, &media.clock_pieces, 0.0).await.map_err(|cause| cannot(cause.to_string()))?),
    };
    let fed = feed.as_ref().map(Feed::fed);
    let arguments = args::video_copy_arguments(media, stream, &source.proc_path(), fed.as_ref());
    let input = feed.map_or_else(|| source.clone() as InheritedFile, |feed| feed.inherited());
    let child = spawn(&program, arguments, vec![input], ChildLimits::PROBE).await;
    let mut child = child.map_err(|cause| RunError::Internal(format!("ffmpeg could not be started: {cause}")))?;
    let (mut packets, mut marks) = (PacketReader::default(), Marks::new(media));
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = child.stdout.read(&mut bytes).await.map_err(|cause| RunError::Internal(cause.to_string()))?;
        if read == 0 {
            break;
        }
        packets.push(&bytes[..read], |packet| marks.take(packet));
        if marks.keyframes.len() > MOST_KEYFRAMES {
            return Err(cannot("the video has too many keyframes".into()));
        }
    }
    let exit = child.wait().await;
    if !exit.is_success() {
        return Err(cannot(exit.error_lines.last().cloned().unwrap_or_else(|| "ffmpeg could not read it".into())));
    }
    marks.finish()
}

/// Collects the keyframes of a transport stream.
struct Marks {
    keyframes: Vec<i64>,
    /// A keyframe whose first slice has not arrived yet: its time and its bytes so far.
    open: Option<(i64, Vec<u8>)>,
    /// Whether the first picture of the stream was a keyframe.
    first_is_key: Option<bool>,
    clock: i64,
    latest: i64,
    /// Frame duration, ticks.
    picture: i64,
}

impl Marks {
    fn new(media: &Media) -> Self {
        let rate = media.video_streams().find_map(|(_, video)| video.frame_rate);
        let picture = rate.map_or(TICKS_PER_SECOND / 25, |rate| rate.frame_start_ticks(1));
        Self { keyframes: Vec::new(), open: None, first_is_key: None, clock: 0, latest: 0, picture }
    }

    fn take(&mut self, bytes: &[u8; PACKET_LEN]) {
        let Some(packet) = Packet::new(bytes).filter(|packet| TrackKind::from_pid(packet.pid()) == Some(TrackKind::Video)) else {
            return;
        };
        let mut payload = packet.payload();
        if packet.starts_unit() {
            self.open = None;
            let Some(header) = pes::parse(payload) else { return };
            let Some(pts) = header.pts else { return };
            let base = to_ticks(TIMELINE_BASE_SECONDS as f64);
            let at = unwrap_timestamp(pts - base, self.clock);
            self.clock = unwrap_timestamp(header.dts.unwrap_or(pts) - base, self.clock);
            self.latest = self.latest.max(at);
            self.first_is_key.get_or_insert(packet.is_random_access_point());
            if packet.is_random_access_point() {
                self.open = Some((at, Vec::new()));
            }
            payload = payload.get(header.header_len..).unwrap_or(&[]);
        }
        let Some((at, head)) = &mut self.open else { return };
        head.extend_from_slice(payload);
        match nal::annex_b(head) {
            Some(idr) => {
                if idr {
                    self.keyframes.push(*at);
                }
                self.open = None;
            }
            None if head.len() > HEAD => self.open = None,
            None => {}
        }
    }

    fn finish(mut self) -> Result<Index, RunError> {
        if self.first_is_key != Some(true) || self.keyframes.is_empty() {
            return Err(cannot("the video does not begin with an IDR picture".into()));
        }
        self.keyframes.sort_unstable();
        self.keyframes.dedup();
        Ok(Index { keyframes: self.keyframes, end: self.latest + self.picture })
    }
}
