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

/// A stream of pictures or sound: what the length is counted from.
struct Lane {
    pid: u16,
    codec: &'static str,
    first: i64,
    /// How long a picture lasts, ticks; None for sound.
    picture: Option<i64>,
}

impl Lane {
    /// Looks at the beginning of a stream, and completes its track.
    fn begun(head: &Window, listed: &Listed, track: &mut Track) -> Result<(Self, Seen), Unsure> {
        let pid = listed.pid;
        let times: Option<Vec<(i64, i64)>> = head.times(pid).collect();
        let times = times.ok_or(Unsure("packets without times"))?;
        let (first, _) = *times.first().ok_or(Unsure("an empty stream"))?;
        let (mut seen, picture);
        if track.kind == Kind::Video {
            if times.iter().any(|(pts, _)| *pts < first) {
                return Err(Unsure("pictures before the first"));
            }
            let nal = picture::parameters(head.payloads(pid))?;
            let (saw, stated) = picture::seen(&nal)?;
            let (rate, length) = rate::of(times.iter().map(|(_, dts)| *dts), stated)?;
            track.config = [&[0, 0, 1], &nal[..]].concat();
            track.frame_rate = Some(rate);
            (seen, picture) = (saw, Some(length));
        } else {
            let payload = head.payloads(pid).next().unwrap_or_default();
            seen = sound::seen(listed.codec, &payload).ok_or(Unsure("sound of another kind"))?;
            track.codec = seen.codec.unwrap_or(listed.codec);
            picture = None;
        }
        seen.key = track.key;
        Ok((Self { pid, codec: track.codec, first, picture }, seen))
    }

    /// Where the stream ends by what this window shows of it; None when it shows nothing.
    fn end(&self, window: &Window) -> Result<Option<i64>, Unsure> {
        let times: Option<Vec<(i64, i64)>> = window.times(self.pid).collect();
        let times = times.ok_or(Unsure("packets without times"))?;
        let Some((last, _)) = times.iter().max() else { return Ok(None) };
        if let Some(picture) = self.picture {
            return Ok(Some(last + picture));
        }
        let payload = window.payloads(self.pid).last().unwrap_or_default();
        let length = sound::seconds(self.codec, &payload).ok_or(Unsure("a last packet of another kind"))?;
        Ok(Some(last + ticks(length)))
    }
}
