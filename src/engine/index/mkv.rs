//! The cues of Matroska and WebM files (RFC 9559), read without trust.

use super::{Candidate, MOST_KEYFRAMES, Table};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{Cursor, ReadAt, Short};

/// Most bytes of Cues or Tracks; 160 keyframes take some 4 KiB.
const MOST_ELEMENT: u64 = 32 << 20;

/// Most elements walked over in the head of the file, or in a cluster to find a cue's block.
const MOST_STEPS: usize = 4_000;

/// Most elements walked over behind the last cue, to find the end.
const MOST_TAIL_STEPS: usize = 40_000;

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const CUES: u32 = 0x1c53_bb6b;
const CLUSTER: u32 = 0x1f43_b675;
const CLUSTER_TIME: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;

/// An element that lies in the file.
#[derive(Clone, Copy, Debug)]
struct Placed {
    id: u32,
    body: u64,
    /// None: unknown, to the end of what holds it.
    size: Option<u64>,
}

impl Placed {
    fn end(self) -> u64 {
        self.size.map_or(u64::MAX, |size| self.body.saturating_add(size))
    }
}

/// Reads the cues of the video that is stream `stream`.
pub(super) fn table(file: &(impl ReadAt + ?Sized), stream: u32) -> Result<Table, Refusal> {
    let head = element(file, 0)?;
    let segment = element(file, head.end())?;
    if head.id != EBML || segment.id != SEGMENT {
        return Err(Refusal::Unread("it does not begin as Matroska"));
    }
    let places = Places::find(file, segment)?;
    let scale = places.info.map_or(Ok(1_000_000), |info| timestamp_scale(file, info))?;
    let track = video(&body(file, places.tracks.ok_or(Refusal::Unread("there are no Tracks"))?)?, stream)?;
    let cues = body(file, places.cues.ok_or(Refusal::Unread("there are no Cues"))?)?;
    let mut blocks = Blocks { file, segment, scale, track: track.number };
    let mut candidates = Vec::new();
    let mut last = None;
    for cue in cue_points(&cues, track.number) {
        if candidates.len() > MOST_KEYFRAMES {
            return Err(Refusal::Final("it has too many keyframes".into()));
        }
        let cue = cue?;
        candidates.push(blocks.find(&cue)?.ok_or(Refusal::Unread("a cue points to no block"))?);
        last = Some(cue);
    }
    let first = blocks.first()?;
    let last = last.ok_or(Refusal::Unread("there are no cues for the video"))?;
    let (latest, step) = blocks.latest(&last)?;
    let end = latest + track.picture(scale).or(step).unwrap_or(3_600);
    let headless = candidates.first().is_none_or(|cue| cue.offset != first);
    Ok(Table { candidates, end, nal_length: track.nal_length, headless })
}

/// An element's id with its marker bits, as ids are written down.
fn id(cursor: &mut Cursor) -> Result<u32, Short> {
    let first = cursor.u8()?;
    let more = first.leading_zeros() as usize;
    if more > 3 {
        return Err(Short);
    }
    Ok(cursor.take(more)?.iter().fold(u32::from(first), |id, &byte| id << 8 | u32::from(byte)))
}

/// A size or number of variable length; None for "unknown".
fn vint(cursor: &mut Cursor) -> Result<Option<u64>, Short> {
    let first = cursor.u8()?;
    let more = first.leading_zeros() as usize;
    if more > 7 {
        return Err(Short);
    }
    let mask = (1u64 << (7 - more)) - 1;
    let value = cursor.take(more)?.iter().fold(u64::from(first) & mask, |sum, &byte| sum << 8 | u64::from(byte));
    let unknown = (1u64 << (7 * (more + 1))) - 1;
    Ok((value != unknown).then_some(value))
}

fn element(file: &(impl ReadAt + ?Sized), at: u64) -> Result<Placed, Short> {
    let mut head = [0; 12];
    let read = file.read_at(&mut head, at);
    let mut cursor = Cursor(&head[..read]);
    let id = id(&mut cursor)?;
    let size = vint(&mut cursor)?;
    let header = read - cursor.0.len();
    Ok(Placed { id, body: at + header as u64, size })
}

fn body(file: &(impl ReadAt + ?Sized), element: Placed) -> Result<Vec<u8>, Refusal> {
    let size = element.size.filter(|&size| size <= MOST_ELEMENT).ok_or(Refusal::Unread("an element is too large"))?;
    Ok(file.exact(element.body, size as usize)?)
}

/// The elements inside a body, as far as they are sound.
fn children(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut cursor = Cursor(bytes);
    std::iter::from_fn(move || {
        let id = id(&mut cursor).ok()?;
        let size = vint(&mut cursor).ok()??;
        Some((id, cursor.take(usize::try_from(size).ok()?).ok()?))
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// Where the parts of the segment are.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    info: Option<Placed>,
    tracks: Option<Placed>,
    cues: Option<Placed>,
}

impl Places {
    /// Walks up to the first cluster, and follows the seek heads for what lies behind it.
    fn find(file: &(impl ReadAt + ?Sized), segment: Placed) -> Result<Self, Refusal> {
        let mut places = Self::default();
        let mut heads = Vec::new();
        let mut at = segment.body;
        for _ in 0..MOST_STEPS {
            if at >= segment.end().min(file.len()) {
                break;
            }
            let found = element(file, at)?;
            places.note(found);
            match found.id {
                CLUSTER => break,
                SEEK_HEAD => heads.push(found),
                _ => {}
            }
            at = found.end();
        }
        // A seek head may point to one more.
        for _ in 0..4 {
            let Some(head) = heads.pop() else { break };
            for (_, seek) in children(&body(file, head)?).filter(|(id, _)| *id == 0x4dbb).take(64) {
                let position = children(seek).find(|(id, _)| *id == 0x53ac).map(|(_, bytes)| number(bytes));
                let Some(at) = position.and_then(|position| segment.body.checked_add(position)) else { continue };
                let Ok(found) = element(file, at) else { continue };
                places.note(found);
                if found.id == SEEK_HEAD && heads.is_empty() && found.body != head.body {
                    heads.push(found);
                }
            }
        }
        Ok(places)
    }

    fn note(&mut self, found: Placed) {
        match found.id {
            INFO => self.info.get_or_insert(found),
            TRACKS => self.tracks.get_or_insert(found),
            CUES => self.cues.get_or_insert(found),
            _ => return,
        };
    }
}

/// Nanoseconds a unit of time.
fn timestamp_scale(file: &(impl ReadAt + ?Sized), info: Placed) -> Result<u64, Refusal> {
    let info = body(file, info)?;
    let scale = children(&info).find(|(id, _)| *id == 0x2a_d7b1).map_or(1_000_000, |(_, bytes)| number(bytes));
    if (1..=1_000_000_000).contains(&scale) { Ok(scale) } else { Err(Refusal::Unread("the timestamp scale is absurd")) }
}

#[derive(Debug, PartialEq, Eq)]
struct Video {
    number: u64,
    nal_length: u8,
    /// Nanoseconds of one picture.
    picture: Option<u64>,
}

impl Video {
    fn picture(&self, _scale: u64) -> Option<i64> {
        self.picture.map(|nanoseconds| (u128::from(nanoseconds) * 90_000 / 1_000_000_000) as i64)
    }
}

/// The track that ffmpeg numbers `stream`: it counts video, audio, subtitle and metadata tracks in order.
fn video(tracks: &[u8], stream: u32) -> Result<Video, Refusal> {
    let entries = children(tracks).filter(|(id, _)| *id == 0xae).map(|(_, entry)| entry);
    let counted = |entry: &&[u8]| {
        let kind = children(entry).find(|(id, _)| *id == 0x83).map_or(0, |(_, bytes)| number(bytes));
        [1, 2, 0x11, 0x21].contains(&kind)
    };
    let entry = entries.filter(counted).nth(stream as usize).ok_or(Refusal::Unread("there is no such track"))?;
    let part = |wanted: u32| children(entry).find(|(id, _)| *id == wanted).map(|(_, bytes)| bytes);
    if part(0x86) != Some(b"V_MPEG4/ISO/AVC".as_slice()) {
        return Err(Refusal::Unread("the track is not H.264 in its usual form"));
    }
    if part(0x6d80).is_some() {
        return Err(Refusal::Unread("the track is packed or encrypted"));
    }
    let private = part(0x63a2).unwrap_or_default();
    // Without a configuration record the stream has start codes (seen in the wild).
    let nal_length = if private.first() == Some(&1) { (private.get(4).ok_or(Short)? & 3) + 1 } else { 0 };
    let number =
        part(0xd7).map(number).filter(|&number| number > 0).ok_or(Refusal::Unread("the track has no number"))?;
    Ok(Video { number, nal_length, picture: part(0x23_e383).map(self::number).filter(|&ns| ns > 0) })
}

#[derive(Clone, Copy, Debug)]
struct Cue {
    /// Units of the timestamp scale.
    time: u64,
    /// From the segment's body.
    cluster: u64,
}

fn cue_points(cues: &[u8], track: u64) -> impl Iterator<Item = Result<Cue, Refusal>> {
    children(cues).filter(|(id, _)| *id == 0xbb).filter_map(move |(_, point)| {
        let time = number(children(point).find(|(id, _)| *id == 0xb3)?.1);
        let place = children(point)
            .filter(|(id, _)| *id == 0xb7)
            .find(|(_, place)| children(place).any(|(id, bytes)| id == 0xf7 && number(bytes) == track))?;
        let cluster = children(place.1).find(|(id, _)| *id == 0xf1).map(|(_, bytes)| number(bytes));
        Some(cluster.map(|cluster| Cue { time, cluster }).ok_or(Refusal::Unread("a cue has no place")))
    })
}

/// Finds blocks of the video in clusters.
struct Blocks<'a, F: ?Sized> {
    file: &'a F,
    segment: Placed,
    scale: u64,
    track: u64,
}

impl<F: ReadAt + ?Sized> Blocks<'_, F> {
    fn ticks(&self, time: i64) -> i64 {
        let numerator = i128::from(time) * i128::from(self.scale) * 90_000;
        let ticks = (numerator * 2 + 1_000_000_000).div_euclid(2_000_000_000);
        ticks.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
    }

    /// The block a cue points to.
    fn find(&mut self, cue: &Cue) -> Result<Option<Candidate>, Refusal> {
        let wanted = i64::try_from(cue.time).map_err(|_| Short)?;
        let mut found = None;
        self.walk(cue.cluster, MOST_STEPS, |time, offset, size| {
            if time == wanted {
                found = Some(Candidate { at: self.ticks(time), number: 0, offset, size });
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Where the first block of the video is.
    fn first(&self) -> Result<u64, Refusal> {
        let mut at = self.segment.body;
        let mut first = None;
        for _ in 0..MOST_STEPS {
            let found = element(self.file, at)?;
            if found.id == CLUSTER {
                break;
            }
            at = found.end();
        }
        self.walk(at - self.segment.body, MOST_STEPS, |_, offset, _| {
            first = Some(offset);
            false
        })?;
        first.ok_or(Refusal::Unread("there is no first block"))
    }

    /// The latest picture behind a cue, and the shortest step between two; in ticks.
    fn latest(&self, cue: &Cue) -> Result<(i64, Option<i64>), Refusal> {
        let mut times = Vec::new();
        self.walk(cue.cluster, MOST_TAIL_STEPS, |time, offset, size| {
            // A block that the file does not hold ends the stream.
            let whole = offset.checked_add(size).is_some_and(|end| end <= self.file.len());
            if whole {
                times.push(time);
            }
            whole
        })?;
        times.sort_unstable();
        let latest = *times.last().ok_or(Refusal::Unread("there are no blocks behind the last cue"))?;
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0).min();
        Ok((self.ticks(latest), step.map(|step| self.ticks(step))))
    }

    /// Calls `each` with time, offset and size of every block of the video from a cluster on, until it says no.
    fn walk(&self, cluster: u64, steps: usize, mut each: impl FnMut(i64, u64, u64) -> bool) -> Result<(), Refusal> {
        let mut at = self.segment.body.checked_add(cluster).ok_or(Short)?;
        let end = self.segment.end().min(self.file.len());
        let mut time = 0i64;
        for _ in 0..steps {
            if at >= end {
                return Ok(());
            }
            let found = element(self.file, at)?;
            at = match found.id {
                // Goes into clusters and groups; unknown sizes need no special case then.
                CLUSTER | BLOCK_GROUP => found.body,
                CLUSTER_TIME => {
                    time = i64::try_from(number(&body(self.file, found)?)).map_err(|_| Short)?;
                    found.end()
                }
                SIMPLE_BLOCK | BLOCK => {
                    let mut head = [0; 12];
                    let read = self.file.read_at(&mut head, found.body);
                    let mut cursor = Cursor(&head[..read]);
                    let track = vint(&mut cursor)?;
                    let offset = i64::from(cursor.u16()? as i16);
                    let laced = cursor.u8()? & 0x06 != 0;
                    if track == Some(self.track) {
                        if laced {
                            return Err(Refusal::Unread("its pictures are laced"));
                        }
                        let header = (read - cursor.0.len()) as u64;
                        let size = found.size.ok_or(Short)?.saturating_sub(header);
                        if !each(time.saturating_add(offset), found.body + header, size) {
                            return Ok(());
                        }
                    }
                    found.end()
                }
                _ => found.end(),
            };
        }
        Ok(())
    }
}
