//! Matroska and WebM files (RFC 9559), read from untrusted bytes: tracks, cues, and the blocks in the clusters.
//!
//! Only the header and the cues are read up front (without cues `scan` visits all blocks). Blocks are found from a cue when they
//! are needed.

mod attachments;
mod blocks;
pub mod ebml;
mod lacing;
mod scan;
mod tags;
mod track;
mod track_format;

use super::bytes::ReadAt;
use super::{ContainerError, refuse_if};
pub use blocks::{Block, ClusterLayout, WalkPosition};
use ebml::{Element, child, children, parse_uint, read_body, read_element};
pub use lacing::split_lacing;
pub use scan::SharedScan;
pub use track::{Compression, TrackEntry};

/// Maximum size of an element that is read whole; the Cues of 160 keyframes take some 4 KiB.
const MAX_ELEMENT_BYTES: u64 = 32 << 20;

/// Maximum number of elements visited in the head of the file.
const MAX_ELEMENTS: usize = 4_000;

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const CUES: u32 = 0x1c53_bb6b;
const CUE_POINT: u32 = 0xbb;
const CUE_TIME: u32 = 0xb3;
const CUE_TRACK_POSITIONS: u32 = 0xb7;
const CUE_CLUSTER_POSITION: u32 = 0xf1;
const CHAPTERS: u32 = 0x1043_a770;
const ATTACHMENTS: u32 = 0x1941_a469;
const TAGS: u32 = 0x1254_c367;
const CLUSTER: u32 = 0x1f43_b675;

/// The header of a Matroska file.
pub struct MatroskaFile<'a, F: ?Sized> {
    file: &'a F,
    tracks: Vec<u8>,
    cues: Option<Element>,
    tags: Option<Element>,
    pub layout: ClusterLayout,
}

/// The position of a keyframe, as the cues state it.
#[derive(Clone, Copy, Debug)]
pub struct Cue {
    /// Units of the timestamp scale.
    pub time: u64,
    /// Relative to the segment's body.
    pub cluster: u64,
}

impl<'a, F: ReadAt + ?Sized> MatroskaFile<'a, F> {
    pub fn read(file: &'a F) -> Result<Self, ContainerError> {
        let elements = TopLevelElements::locate(file)?;
        let timestamp_scale = elements.info.map_or(Ok(1_000_000), |info| read_timestamp_scale(file, info))?;
        let tracks = elements.tracks.ok_or(ContainerError::Unsupported("there are no Tracks"))?;
        let tracks = read_body(file, tracks, MAX_ELEMENT_BYTES)?;
        let layout = elements.cluster_layout(timestamp_scale)?;
        Ok(Self { file, tracks, cues: elements.cues, tags: elements.tags, layout })
    }

    /// The track with ffmpeg's number `stream`. Tracks with compressed frames are refused.
    pub fn read_track(&self, stream: u32) -> Result<TrackEntry, ContainerError> {
        match self.read_compressed_track(stream)? {
            (track, Compression::None) => Ok(track),
            _ => Err(ContainerError::Unsupported("the track is compressed or encrypted")),
        }
    }

    /// The track with ffmpeg's number `stream`. Tracks whose frames are more than header-stripped are refused.
    pub fn read_stripped_track(&self, stream: u32) -> Result<TrackEntry, ContainerError> {
        match self.read_compressed_track(stream)? {
            (track, Compression::None | Compression::HeaderStripped(_)) => Ok(track),
            (_, Compression::Zlib) => Err(ContainerError::Unsupported("the track is compressed or encrypted")),
        }
    }

    /// The track with ffmpeg's number `stream`, and the compression of its frames.
    pub fn read_compressed_track(&self, stream: u32) -> Result<(TrackEntry, Compression), ContainerError> {
        TrackEntry::parse(&self.tracks, stream)
    }

    /// The cues of a track.
    pub fn read_cues(&self, track: u64) -> Result<Vec<Cue>, ContainerError> {
        let cues = self.cues.ok_or(ContainerError::Unsupported("there are no Cues"))?;
        let cues = read_body(self.file, cues, MAX_ELEMENT_BYTES)?;
        parse_cue_points(&cues, track).collect()
    }

    /// The first cluster of every cue of any track: where reading may start for streams without cues of their own.
    pub fn read_all_cues(&self) -> Result<Vec<Cue>, ContainerError> {
        let cues = self.cues.ok_or(ContainerError::Unsupported("there are no Cues"))?;
        let cues = read_body(self.file, cues, MAX_ELEMENT_BYTES)?;
        let points = children(&cues).filter(|(id, _)| *id == CUE_POINT);
        let cue = |(_, point)| {
            let time = parse_uint(child(point, CUE_TIME)?);
            let cluster = parse_uint(child(child(point, CUE_TRACK_POSITIONS)?, CUE_CLUSTER_POSITION)?);
            Some(Cue { time, cluster })
        };
        Ok(points.filter_map(cue).collect())
    }
}

/// The segment, which follows the EBML header.
pub fn read_segment(file: &(impl ReadAt + ?Sized)) -> Result<Element, ContainerError> {
    let ebml_header = read_element(file, 0)?;
    let segment = read_element(file, ebml_header.end())?;
    let missing = ContainerError::Unsupported("there is no EBML header with a segment");
    refuse_if(ebml_header.id != EBML || segment.id != SEGMENT, missing)?;
    Ok(segment)
}

fn parse_cue_points(cues: &[u8], track: u64) -> impl Iterator<Item = Result<Cue, ContainerError>> {
    children(cues).filter(|(id, _)| *id == CUE_POINT).filter_map(move |(_, point)| {
        let time = parse_uint(child(point, CUE_TIME)?);
        let track_positions = children(point)
            .filter(|(id, _)| *id == CUE_TRACK_POSITIONS)
            .find(|(_, positions)| children(positions).any(|(id, bytes)| id == 0xf7 && parse_uint(bytes) == track))?;
        let cluster = child(track_positions.1, CUE_CLUSTER_POSITION).map(parse_uint);
        let missing = ContainerError::Unsupported("a cue has no cluster position");
        Some(cluster.map(|cluster| Cue { time, cluster }).ok_or(missing))
    })
}

/// Positions of the segment and its top-level elements.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopLevelElements {
    pub segment: Element,
    pub info: Option<Element>,
    pub tracks: Option<Element>,
    pub chapters: Option<Element>,
    pub attachments: Option<Element>,
    cues: Option<Element>,
    tags: Option<Element>,
    /// The first cluster, relative to the segment's body.
    first_cluster: Option<u64>,
}

impl TopLevelElements {
    /// Walks up to the first cluster and follows the seek heads to elements after it.
    pub fn locate(file: &(impl ReadAt + ?Sized)) -> Result<Self, ContainerError> {
        let segment = read_segment(file)?;
        let mut elements = Self { segment, ..Self::default() };
        let mut seek_heads = Vec::new();
        let mut position = segment.body;
        for _ in 0..MAX_ELEMENTS {
            if position >= segment.end().min(file.len()) {
                break;
            }
            let element = read_element(file, position)?;
            elements.record(element);
            match element.id {
                CLUSTER => {
                    elements.first_cluster = Some(position - segment.body);
                    break;
                }
                SEEK_HEAD => seek_heads.push(element),
                _ => {}
            }
            position = element.end();
        }
        // A seek head may point to another one.
        for _ in 0..4 {
            let Some(seek_head) = seek_heads.pop() else { break };
            let body = read_body(file, seek_head, MAX_ELEMENT_BYTES)?;
            for (_, seek) in children(&body).filter(|(id, _)| *id == 0x4dbb).take(64) {
                let position = child(seek, 0x53ac).map(parse_uint);
                let Some(target) = position.and_then(|position| segment.body.checked_add(position)) else { continue };
                let Ok(target_element) = read_element(file, target) else { continue };
                elements.record(target_element);
                if target_element.id == SEEK_HEAD && seek_heads.is_empty() && target_element.body != seek_head.body {
                    seek_heads.push(target_element);
                }
            }
        }
        Ok(elements)
    }

    /// The clusters, with a `timestamp_scale` in nanoseconds per unit.
    pub fn cluster_layout(&self, timestamp_scale: u64) -> Result<ClusterLayout, ContainerError> {
        let first_cluster = self.first_cluster.ok_or(ContainerError::Unsupported("there are no clusters"))?;
        let (segment_body, segment_end) = (self.segment.body, self.segment.end());
        Ok(ClusterLayout { segment_body, segment_end, timestamp_scale, first_cluster })
    }

    fn record(&mut self, element: Element) {
        let field = match element.id {
            INFO => &mut self.info,
            TRACKS => &mut self.tracks,
            CUES => &mut self.cues,
            CHAPTERS => &mut self.chapters,
            ATTACHMENTS => &mut self.attachments,
            TAGS => &mut self.tags,
            _ => return,
        };
        field.get_or_insert(element);
    }
}

/// Nanoseconds per unit of time.
fn read_timestamp_scale(file: &(impl ReadAt + ?Sized), info: Element) -> Result<u64, ContainerError> {
    let info = read_body(file, info, MAX_ELEMENT_BYTES)?;
    let nanos = child(&info, 0x2a_d7b1).map_or(1_000_000, parse_uint);
    let unusual = ContainerError::Unsupported("the timestamp scale is not between 1 ns and 1 s");
    refuse_if(!(1..=1_000_000_000).contains(&nanos), unusual)?;
    Ok(nanos)
}
