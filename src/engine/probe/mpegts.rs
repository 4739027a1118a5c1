//! Reads a plain MPEG transport stream (ISO/IEC 13818-1): one programme in packets of 188 bytes.
//!
//! The beginning tells streams, first times and picture rate, and what a decoder would see; the end tells the length,
//! as ffprobe takes it; three looks in between tell whether time runs through. Every look is bounded.

use super::outline::{Kind, Outline, Track, Unsure};
use super::seen::Seen;
use crate::domain::media::{Container, Tags};
use crate::domain::mpegts::WRAP;
use crate::domain::mpegts::packet::LEN;
use crate::domain::time::{TICKS_PER_SECOND, seconds, ticks};
use crate::engine::source::Source;

mod map;
mod picture;
mod rate;
mod sound;
mod units;

use map::{Listed, Map};
use units::Window;

/// Packets of the first and of the last look; each is made twice as large, and again, before the file is given up.
const HEAD: u64 = 5 * 1024;
const TAIL: u64 = 1024;
const LOOKS: u32 = 5;
/// Packets of a look between.
const BETWEEN: u64 = 512;

/// Pictures wanted for the rate, and the fewest of a short film.
const PICTURES: usize = 24;
const FEWEST: usize = 8;

/// A film may begin this long before the clock's 33 bits are used up; ffmpeg then counts from below zero.
const NEAR_WRAP: i64 = 60 * TICKS_PER_SECOND;

/// Below this many bits a second a length is not believed (as for ffprobe's).
const LEAST_PLAUSIBLE_BPS: f64 = 2_000.0;

/// Reads the file's outline, and what a decoder would see in its streams.
pub(super) fn read(source: &Source) -> Result<(Outline, Vec<Seen>), Unsure> {
    let packets = source.len / LEN as u64;
    let (map, head) = beginning(source, packets)?;
    let lanes = map.listed.iter().map(|listed| Lane::begun(&head, listed)).collect::<Result<Vec<_>, _>>()?;
    if !lanes.iter().any(|lane| lane.track.kind == Kind::Video) {
        return Err(Unsure("no picture"));
    }
    let start = lanes.iter().map(|lane| lane.first).min().ok_or(Unsure("no streams"))?;
    if start >= WRAP - NEAR_WRAP {
        return Err(Unsure("the clock wraps"));
    }
    let end = ending(source, packets, &lanes)?;
    for quarter in 1..4 {
        let at = packets * quarter / 4;
        let window = Window::read(source, at, BETWEEN.min(packets - at))?;
        let mut times = lanes.iter().flat_map(|lane| window.times(lane.pid)).flatten();
        if times.any(|(pts, _)| pts < start || pts > end) {
            return Err(Unsure("time jumps"));
        }
    }
    let duration_seconds = seconds(end - start);
    let plausible = duration_seconds < 60.0 || source.len as f64 * 8.0 / duration_seconds >= LEAST_PLAUSIBLE_BPS;
    if end <= start || !plausible {
        return Err(Unsure("no believable length"));
    }
    let (mut tracks, mut seen) = (Vec::new(), Vec::new());
    for lane in lanes {
        tracks.push(Track { index: tracks.len() as u32, ..lane.track });
        seen.push(lane.seen);
    }
    let outline = Outline {
        container: Container::MpegTs,
        duration_seconds,
        start_seconds: seconds(start),
        tracks,
        chapters: Vec::new(),
        attachments: Vec::new(),
        tags: Tags::default(),
    };
    Ok((outline, seen))
}

/// The map, and a window on the beginning that holds enough of each of its streams.
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
    Err(Unsure("too little at the beginning"))
}

/// Where the last picture and the last sound end, whichever is later, ticks.
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

/// One stream of the map, with what its length is counted from.
struct Lane {
    pid: u16,
    track: Track,
    seen: Seen,
    first: i64,
    /// How long a picture lasts, ticks; 0 for what is no picture.
    picture: i64,
}

impl Lane {
    fn begun(head: &Window, listed: &Listed) -> Result<Self, Unsure> {
        let times: Option<Vec<(i64, i64)>> = head.times(listed.pid).collect();
        let times = times.ok_or(Unsure("packets without times"))?;
        let (first, _) = *times.first().ok_or(Unsure("an empty stream"))?;
        let key = u64::from(listed.pid);
        let (kind, codec, language) = (listed.kind, listed.codec, listed.language.clone());
        let mut track = Track { key, kind, codec, language, ..Track::default() };
        let mut seen;
        let mut picture = 0;
        if kind == Kind::Video {
            if times.iter().any(|(pts, _)| *pts < first) {
                return Err(Unsure("pictures before the first"));
            }
            let nal = picture::parameters(head.payloads(listed.pid))?;
            let stated;
            (seen, stated) = picture::seen(&nal)?;
            track.config = [&[0, 0, 1], &nal[..]].concat();
            (track.frame_rate, picture) = rate::of(times.iter().map(|(_, dts)| *dts), stated)?;
        } else {
            let payload = head.payloads(listed.pid).next().unwrap_or_default();
            seen = sound::seen(listed.codec, &payload).ok_or(Unsure("sound of another kind"))?;
            track.codec = seen.codec.unwrap_or(listed.codec);
        }
        seen.key = key;
        Ok(Self { pid: listed.pid, track, seen, first, picture })
    }

    /// Where the stream ends by what this window shows of it; None when it shows nothing.
    fn end(&self, window: &Window) -> Result<Option<i64>, Unsure> {
        let times: Option<Vec<(i64, i64)>> = window.times(self.pid).collect();
        let times = times.ok_or(Unsure("packets without times"))?;
        let Some((last, _)) = times.iter().max() else { return Ok(None) };
        if self.track.kind == Kind::Video {
            return Ok(Some(last + self.picture));
        }
        let payload = window.payloads(self.pid).last().unwrap_or_default();
        let length = sound::seconds(self.track.codec, &payload).ok_or(Unsure("a last packet of another kind"))?;
        Ok(Some(last + ticks(length)))
    }
}
