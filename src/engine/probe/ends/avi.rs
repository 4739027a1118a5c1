//! AVI (Microsoft's AVI RIFF File Reference, OpenDML 1.02): its chunks have no timestamps, so video frames are counted.

use std::time::{Duration, Instant};

use super::{little, read};
use crate::engine::source::Source;

/// Time limit for counting; the rest of the file is extrapolated.
const PATIENCE: Duration = Duration::from_secs(1);
const MOST_CHUNKS: usize = 4 << 20;
/// Audio headers are close together, video headers far apart; one read covers several of the former.
const PIECE: usize = 16 * 1024;
const MOST_STREAMS: usize = 32;

/// Stream number, and frame duration in seconds, of the first video stream.
type Picture = (usize, f64);

/// Total duration of the frames in the file, seconds; None if the file is complete.
pub(super) fn end(source: &Source) -> Option<f64> {
    let head = read(source, 0, 12)?;
    if !head.starts_with(b"RIFF") || head.get(8..12)? != b"AVI " || !is_short(source) {
        return None;
    }
    let begun = Instant::now();
    let mut window = Window { source, at: 0, bytes: Vec::new() };
    let (mut at, mut streams, mut picture, mut frames, mut media) = (12, 0, None::<Picture>, 0u64, None);
    for _ in 0..MOST_CHUNKS {
        if at + 8 > source.len || begun.elapsed() > PATIENCE {
            break;
        }
        let head = window.at(at, 12)?;
        let kind = [head[0], head[1], head[2], head[3]];
        let len = little::<4>(head, 4)?;
        match &kind {
            b"RIFF" | b"LIST" => {
                if head.get(8..12) == Some(b"movi") {
                    media.get_or_insert(at);
                }
                // The children follow.
                at += 12;
                continue;
            }
            b"strh" if streams < MOST_STREAMS => {
                let header = window.at(at, 8 + 28)?;
                let (scale, rate) = (little::<4>(header, 28)?, little::<4>(header, 32)?);
                if picture.is_none() && &header[8..12] == b"vids" && scale > 0 && rate > 0 {
                    picture = Some((streams, scale as f64 / rate as f64));
                }
                streams += 1;
            }
            [tens @ b'0'..=b'9', units @ b'0'..=b'9', b'd', b'c' | b'b'] => {
                let stream = usize::from(tens - b'0') * 10 + usize::from(units - b'0');
                if picture.is_some_and(|(wanted, _)| wanted == stream) && at + 8 + len <= source.len {
                    frames += 1;
                }
            }
            _ => {}
        }
        at += 8 + len + (len & 1);
    }
    let (_, seconds) = picture?;
    let (read, all) = (at.min(source.len) - media?, source.len - media?);
    Some(frames as f64 * seconds * all as f64 / read.max(1) as f64)
}

/// Whether a RIFF chunk reaches beyond the end of the file.
fn is_short(source: &Source) -> bool {
    let mut at = 0;
    // OpenDML chunks have a gigabyte each.
    for _ in 0..4096 {
        let Some(head) = read(source, at, 12).filter(|head| head.starts_with(b"RIFF")) else { return false };
        let Some(len) = little::<4>(&head, 4) else { return false };
        at += 8 + len + (len & 1);
        if at > source.len + 1 {
            return true;
        }
    }
    false
}

/// A buffered part of the file.
struct Window<'a> {
    source: &'a Source,
    at: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn at(&mut self, at: u64, len: usize) -> Option<&[u8]> {
        if at < self.at || at + len as u64 > self.at + self.bytes.len() as u64 {
            (self.at, self.bytes) = (at, read(self.source, at, PIECE)?);
            self.bytes.resize(self.bytes.len().max(len), 0);
        }
        let from = (at - self.at) as usize;
        self.bytes.get(from..from + len)
    }
}
