//! Matroska and WebM files (RFC 9559), read from untrusted bytes: tracks, cues, and the blocks in the clusters.
//!
//! Only the header and the cues are read up front. Blocks are found from a cue when they are needed.

mod attached;
mod blocks;
mod ebml;
mod lacing;
mod track;

use super::Refusal;
use super::bytes::ReadAt;
pub use attached::attached;
pub use blocks::{Block, Layout, Place};
use ebml::{Placed, body, children, element, number};
pub use lacing::frames;
pub use track::{Packing, Track};

/// Maximum number of elements visited in the head of the file.
const MOST_STEPS: usize = 4_000;

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const CUES: u32 = 0x1c53_bb6b;
const ATTACHMENTS: u32 = 0x1941_a469;
const CLUSTER: u32 = 0x1f43_b675;

/// The header of a Matroska file.
pub struct Film<'a, F: ?Sized> {
    file: &'a F,
    tracks: Vec<u8>,
    cues: Option<Placed>,
    pub layout: Layout,
}

/// The position of a keyframe, as the cues state it.
#[derive(Clone, Copy, Debug)]
pub struct Cue {
    /// Units of the timestamp scale.
    pub time: u64,
    /// Relative to the segment's body.
    pub cluster: u64,
}

impl<'a, F: ReadAt + ?Sized> Film<'a, F> {
    pub fn read(file: &'a F) -> Result<Self, Refusal> {
        let head = element(file, 0)?;
        let segment = element(file, head.end())?;
        if head.id != EBML || segment.id != SEGMENT {
            return Err(Refusal::Unread("there is no EBML header with a segment"));
        }
        let places = Places::find(file, segment)?;
        let scale = places.info.map_or(Ok(1_000_000), |info| timestamp_scale(file, info))?;
        let tracks = body(file, places.tracks.ok_or(Refusal::Unread("there are no Tracks"))?)?;
        let first = places.cluster.ok_or(Refusal::Unread("there are no clusters"))?;
        let layout = Layout { body: segment.body, end: segment.end(), scale, first };
        Ok(Self { file, tracks, cues: places.cues, layout })
    }

    /// The track with ffmpeg's number `stream`. Tracks with compressed frames are refused.
    pub fn track(&self, stream: u32) -> Result<Track, Refusal> {
        match self.packed_track(stream)? {
            (track, Packing::None) => Ok(track),
            _ => Err(Refusal::Unread("the track is compressed or encrypted")),
        }
    }

    /// The track with ffmpeg's number `stream`, and the compression of its frames.
    pub fn packed_track(&self, stream: u32) -> Result<(Track, Packing), Refusal> {
        Track::read(&self.tracks, stream)
    }

    /// The cues of a track.
    pub fn cues(&self, track: u64) -> Result<Vec<Cue>, Refusal> {
        let cues = body(self.file, self.cues.ok_or(Refusal::Unread("there are no Cues"))?)?;
        cue_points(&cues, track).collect()
    }
}

fn cue_points(cues: &[u8], track: u64) -> impl Iterator<Item = Result<Cue, Refusal>> {
    children(cues).filter(|(id, _)| *id == 0xbb).filter_map(move |(_, point)| {
        let time = number(children(point).find(|(id, _)| *id == 0xb3)?.1);
        let place = children(point)
            .filter(|(id, _)| *id == 0xb7)
            .find(|(_, place)| children(place).any(|(id, bytes)| id == 0xf7 && number(bytes) == track))?;
        let cluster = children(place.1).find(|(id, _)| *id == 0xf1).map(|(_, bytes)| number(bytes));
        Some(cluster.map(|cluster| Cue { time, cluster }).ok_or(Refusal::Unread("a cue has no cluster position")))
    })
}

/// Positions of the segment's top-level elements.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    info: Option<Placed>,
    tracks: Option<Placed>,
    cues: Option<Placed>,
    attachments: Option<Placed>,
    /// The first cluster, relative to the segment's body.
    cluster: Option<u64>,
}

impl Places {
    /// Walks up to the first cluster and follows the seek heads to elements after it.
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
                CLUSTER => {
                    places.cluster = Some(at - segment.body);
                    break;
                }
                SEEK_HEAD => heads.push(found),
                _ => {}
            }
            at = found.end();
        }
        // A seek head may point to another one.
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
            ATTACHMENTS => self.attachments.get_or_insert(found),
            _ => return,
        };
    }
}

/// Nanoseconds per unit of time.
fn timestamp_scale(file: &(impl ReadAt + ?Sized), info: Placed) -> Result<u64, Refusal> {
    let info = body(file, info)?;
    let scale = children(&info).find(|(id, _)| *id == 0x2a_d7b1).map_or(1_000_000, |(_, bytes)| number(bytes));
    if (1..=1_000_000_000).contains(&scale) {
        Ok(scale)
    } else {
        Err(Refusal::Unread("the timestamp scale is not between 1 ns and 1 s"))
    }
}
