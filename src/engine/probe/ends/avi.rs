//! AVI (Microsoft's AVI RIFF File Reference, OpenDML 1.02): its chunks have no timestamps, so video frames are counted.

use std::time::{Duration, Instant};

use super::{parse_le, read_at};
use crate::engine::source::SourceFile;

/// Time limit for counting; the rest of the file is extrapolated.
const TIME_LIMIT: Duration = Duration::from_secs(1);
const MAX_CHUNKS: usize = 4 << 20;
/// Audio headers are close together, video headers far apart; one read covers several of the former.
const READ_BYTES: usize = 16 * 1024;
const MAX_STREAMS: usize = 32;

/// Stream number, and frame duration in seconds, of the first video stream.
type VideoStream = (usize, f64);

/// Total duration of the frames in the file, seconds; None if the file is complete.
pub(super) fn end_seconds(source: &SourceFile) -> Option<f64> {
    let head = read_at(source, 0, 12)?;
    if !head.starts_with(b"RIFF") || head.get(8..12)? != b"AVI " || !is_truncated(source) {
        return None;
    }
    let started = Instant::now();
    let mut reader = BufferedReader { source, start: 0, bytes: Vec::new() };
    let (mut position, mut stream_count, mut video_stream, mut frame_count, mut movi_start) =
        (12, 0, None::<VideoStream>, 0u64, None);
    for _ in 0..MAX_CHUNKS {
        if position + 8 > source.len || started.elapsed() > TIME_LIMIT {
            break;
        }
        let head = reader.bytes_at(position, 12)?;
        let chunk_id = [head[0], head[1], head[2], head[3]];
        let len = parse_le::<4>(head, 4)?;
        match &chunk_id {
            b"RIFF" | b"LIST" => {
                if head.get(8..12) == Some(b"movi") {
                    movi_start.get_or_insert(position);
                }
                // The children follow.
                position += 12;
                continue;
            }
            b"strh" if stream_count < MAX_STREAMS => {
                let header = reader.bytes_at(position, 8 + 28)?;
                let (scale, rate) = (parse_le::<4>(header, 28)?, parse_le::<4>(header, 32)?);
                if video_stream.is_none() && &header[8..12] == b"vids" && scale > 0 && rate > 0 {
                    video_stream = Some((stream_count, scale as f64 / rate as f64));
                }
                stream_count += 1;
            }
            [tens @ b'0'..=b'9', units @ b'0'..=b'9', b'd', b'c' | b'b'] => {
                let stream = usize::from(tens - b'0') * 10 + usize::from(units - b'0');
                if video_stream.is_some_and(|(number, _)| number == stream) && position + 8 + len <= source.len {
                    frame_count += 1;
                }
            }
            _ => {}
        }
        position += 8 + len + (len & 1);
    }
    let (_, frame_seconds) = video_stream?;
    let (counted_bytes, media_bytes) = (position.min(source.len) - movi_start?, source.len - movi_start?);
    Some(frame_count as f64 * frame_seconds * media_bytes as f64 / counted_bytes.max(1) as f64)
}

/// Whether a RIFF chunk reaches beyond the end of the file.
fn is_truncated(source: &SourceFile) -> bool {
    let mut position = 0;
    // OpenDML chunks have a gigabyte each.
    for _ in 0..4096 {
        let Some(head) = read_at(source, position, 12).filter(|head| head.starts_with(b"RIFF")) else { return false };
        let Some(len) = parse_le::<4>(&head, 4) else { return false };
        position += 8 + len + (len & 1);
        if position > source.len + 1 {
            return true;
        }
    }
    false
}

/// A buffered part of the file.
struct BufferedReader<'a> {
    source: &'a SourceFile,
    start: u64,
    bytes: Vec<u8>,
}

impl BufferedReader<'_> {
    fn bytes_at(&mut self, position: u64, len: usize) -> Option<&[u8]> {
        if position < self.start || position + len as u64 > self.start + self.bytes.len() as u64 {
            (self.start, self.bytes) = (position, read_at(self.source, position, READ_BYTES)?);
            self.bytes.resize(self.bytes.len().max(len), 0);
        }
        let offset = (position - self.start) as usize;
        self.bytes.get(offset..offset + len)
    }
}
