//! Reads a plain MPEG transport stream (ISO/IEC 13818-1): a single program in packets of 188 bytes.
//!
//! The beginning gives streams, first timestamps and frame rate, and what a decoder would see. The end gives the duration,
//! computed as ffprobe does. Three windows in between check that timestamps are continuous. The size of every window is
//! limited.

use super::outline::{Kind, Outline, Track, Unsure};
use super::seen::Seen;
use crate::domain::media::{Container, Tags};
use crate::domain::mpegts::TIMESTAMP_WRAP;
use crate::domain::mpegts::packet::PACKET_LEN;
use crate::domain::time::{TICKS_PER_SECOND, to_seconds, to_ticks};
use crate::engine::source::Source;

mod map;
mod picture;
mod rate;
mod sound;
mod units;

use map::{Listed, Map};
use units::Window;

/// Packets of the first and the last window. If a window is too small, it is doubled, up to 4 times.
const HEAD: u64 = 5 * 1024;
const TAIL: u64 = 1024;
const LOOKS: u32 = 5;
/// Packets of a window in between.
const BETWEEN: u64 = 512;

/// Frames needed to measure the frame rate, and the minimum for a short film.
const PICTURES: usize = 24;
const FEWEST: usize = 8;

/// A file may begin this close to the wrap of the 33-bit clock; ffmpeg then uses negative timestamps.
const NEAR_WRAP: i64 = 60 * TICKS_PER_SECOND;

/// Minimum plausible bit rate over the measured duration (as for ffprobe reports).
const LEAST_PLAUSIBLE_BPS: f64 = 2_000.0;

/// Reads the file's outline, and what a decoder would see in its streams.
pub(super) fn read(source: &Source) -> Result<(Outline, Vec<Seen>), Unsure> {
    let packets = source.len / PACKET_LEN as u64;
    let (map, head) = beginning(source, packets)?;
    let (mut tracks, mut seen, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for (index, listed) in map.listed.iter().enumerate() {
        let mut track = listed.track(index as u32);
        if listed.is_played() {
            let (lane, saw) = Lane::begun(&head, listed, &mut track)?;
            lanes.push(lane);
            seen.push(saw);
        }
        tracks.push(track);
    }
    if !tracks.iter().any(|track| track.kind == Kind::Video) {
        return Err(Unsure("no video"));
    }
    let start = lanes.iter().map(|lane| lane.first).min().ok_or(Unsure("no streams"))?;
    if start >= TIMESTAMP_WRAP - NEAR_WRAP {
        return Err(Unsure("the clock wraps"));
    }
    let end = ending(source, packets, &lanes)?;
    for quarter in 1..4 {
        let at = packets * quarter / 4;
        let window = Window::read(source, at, BETWEEN.min(packets - at))?;
        let mut times = lanes.iter().flat_map(|lane| window.times(lane.pid)).flatten();
        if times.any(|(pts, _)| pts < start || pts > end) {
            return Err(Unsure("timestamps jump"));
        }
    }
    let duration_seconds = to_seconds(end - start);
    let plausible = duration_seconds < 60.0 || source.len as f64 * 8.0 / duration_seconds >= LEAST_PLAUSIBLE_BPS;
    if end <= start || !plausible {
        return Err(Unsure("no plausible duration"));
    }
    let outline = Outline {
        container: Container::MpegTs,
        duration_seconds,
        start_seconds: to_seconds(start),
        tracks,
        chapters: Vec::new(),
        attachments: Vec::new(),
        tags: Tags::default(),
    };
    Ok((outline, seen))
}

/// The program map, and a window at the beginning with enough of each of its streams.
fn beginning(source: &Source, packets: u64) -> Result<(Map, Window), Unsure> {
    for look in 0..LOOKS {
        let wanted = (HEAD << look).min(packets);
        let window = Window::read(source, 0, wanted)?;
        let map = match map::read(&window) {
            Err(Unsure(map::NONE)) if wanted < packets => continue,
            map => map?,
        };
        let fewest = if wanted == packets || look + 1 == LOOKS { FEWEST } else { PICTURES };
        if map.shown(&window, fewest) {
            return Ok((map, window));
        }
        if wanted == packets {
            break;
        }
    }
    Err(Unsure("too few packets at the beginning"))
}

/// The later end of the last video frame and the last audio, ticks.
fn ending(source: &Source, packets: u64, lanes: &[Lane]) -> Result<i64, Unsure> {
    for look in 0..LOOKS {
        let wanted = (TAIL << look).min(packets);
        let window = Window::read(source, packets - wanted, wanted)?;
        let ends = lanes.iter().map(|lane| lane.end(&window)).collect::<Result<Vec<_>, _>>()?;
        let ends: Option<Vec<i64>> = ends.into_iter().collect();
        if let Some(end) = ends.and_then(|ends| ends.into_iter().max()) {
            return Ok(end);
        }
        if wanted == packets {
            break;
        }
    }
    Err(Unsure("a stream ends early"))
}

/// A video or audio stream, which the duration is computed from.
struct Lane {
    pid: u16,
    codec: &'static str,
    first: i64,
    /// Frame duration, ticks; None for audio.
    picture: Option<i64>,
}

impl Lane {
    /// Reads the beginning of a stream, and completes its track.
    fn begun(head: &Window, listed: &Listed, track: &mut Track) -> Result<(Self, Seen), Unsure> {
        let pid = listed.pid;
        let times: Option<Vec<(i64, i64)>> = head.times(pid).collect();
        let times = times.ok_or(Unsure("packets without timestamps"))?;
        let (first, _) = *times.first().ok_or(Unsure("an empty stream"))?;
        let (mut seen, picture);
        if track.kind == Kind::Video {
            if times.iter().any(|(pts, _)| *pts < first) {
                return Err(Unsure("frames before the first"));
            }
            let nal = picture::parameters(head.payloads(pid))?;
            let (saw, stated) = picture::seen(&nal)?;
            let (rate, length) = rate::of(times.iter().map(|(_, dts)| *dts), stated)?;
            track.config = [&[0, 0, 1], &nal[..]].concat();
            track.frame_rate = Some(rate);
            (seen, picture) = (saw, Some(length));
        } else {
            let payload = head.payloads(pid).next().unwrap_or_default();
            seen = sound::seen(listed.codec, &payload).ok_or(Unsure("unusual audio"))?;
            track.codec = seen.codec.unwrap_or(listed.codec);
            picture = None;
        }
        seen.key = track.key;
        Ok((Self { pid, codec: track.codec, first, picture }, seen))
    }

    /// Where the stream ends by this window; None if the window has none of its packets.
    fn end(&self, window: &Window) -> Result<Option<i64>, Unsure> {
        let times: Option<Vec<(i64, i64)>> = window.times(self.pid).collect();
        let times = times.ok_or(Unsure("packets without timestamps"))?;
        let Some((last, _)) = times.iter().max() else { return Ok(None) };
        if let Some(picture) = self.picture {
            return Ok(Some(last + picture));
        }
        let payload = window.payloads(self.pid).last().unwrap_or_default();
        let length = sound::seconds(self.codec, &payload).ok_or(Unsure("an unusual last audio packet"))?;
        Ok(Some(last + to_ticks(length)))
    }
}
