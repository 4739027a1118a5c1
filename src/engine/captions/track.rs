//! The packets of a subtitle track in a Matroska file.

use std::io::Read as _;
use std::sync::Arc;

use super::{Decoder, Limit, MOST_BACK, MOST_BACK_BYTES, MOST_PACKET, Packet};
use crate::domain::bitmap_subtitles::{PgsDecoder, VobSubDecoder};
use crate::domain::media::Media;
use crate::engine::RunError;
use crate::engine::source::Source;
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{Disk, ReadAt, Short};
use crate::engine::tables::matroska::{Block, Cue, Film, Layout, Packing, Place, frames};

/// How much later in the file a subtitle's packet may be than its time: muxers interleave to within this.
const INTERLEAVED_MS: i64 = 1_000;

/// How far back every block is read: if the cues list subtitles (not every muxer lists all of them), and if they do not.
const LISTED_MS: i64 = 10_000;
const UNLISTED_MS: i64 = 30_000;

/// Largest number of elements read in one call; an hour of a film with a dozen tracks has two million.
const MOST_STEPS: usize = 4_000_000;

/// Largest number of elements read in a cluster to find a cue's block.
const MOST_CLUSTER: usize = 4_000;

#[derive(Debug)]
pub(super) struct Track {
    source: Arc<Source>,
    layout: Layout,
    number: u64,
    packing: Packing,
    /// Cues of the subtitles, if listed, and of the video; sorted by time.
    cues: Vec<Cue>,
    keyframes: Vec<Cue>,
    place: Place,
    /// File offset of the last packet returned.
    given: u64,
}

impl Track {
    pub(super) fn open(source: Arc<Source>, media: &Media, stream: u32) -> Result<(Self, Decoder), RunError> {
        let unread = |cause: Refusal| RunError::Decode(format!("bitmap subtitles: {}", cause.why()));
        let disk = Disk::of(&source.file);
        let film = Film::read(&disk).map_err(unread)?;
        let (track, packing) = film.packed_track(stream).map_err(unread)?;
        let decoder = match track.codec.as_slice() {
            b"S_HDMV/PGS" => Decoder::Graphics(PgsDecoder::default()),
            b"S_VOBSUB" => {
                let read = VobSubDecoder::parse_private_data(&track.private);
                Decoder::SubPictures(read.map_err(|cause| RunError::Decode(format!("VobSub: {}", cause.0)))?)
            }
            _ => {
                return Err(RunError::Decode(
                    "bitmap subtitles of an unsupported format; supported are PGS and VobSub".into(),
                ));
            }
        };
        // Without cues the search merely takes longer.
        let sorted = |number| {
            let mut cues = film.cues(number).unwrap_or_default();
            cues.sort_by_key(|cue| cue.time);
            cues
        };
        let video = media.video_streams().next().and_then(|(stream, _)| film.packed_track(stream.index).ok());
        let keyframes = video.map(|(video, _)| sorted(video.number)).unwrap_or_default();
        let (layout, cues) = (film.layout, sorted(track.number));
        let place = layout.place(layout.first).map_err(|short| unread(short.into()))?;
        let number = track.number;
        Ok((Self { source, layout, number, packing, cues, keyframes, place, given: 0 }, decoder))
    }

    /// The packets before `at_ms` that are needed to show what is on screen then; reading continues from there.
    pub(super) fn before(&mut self, at_ms: i64, decoder: &Decoder, limit: &Limit) -> Result<Vec<Packet>, RunError> {
        let at = self.units(at_ms);
        let listed = self.cues.partition_point(|cue| i64::try_from(cue.time).is_ok_and(|time| time <= at));
        let (mut packets, mut bytes) = (Vec::new(), 0);
        for cue in self.cues[..listed].iter().rev().take(MOST_BACK) {
            limit.check()?;
            let Some(block) = self.find(cue)? else { continue };
            let Some(packet) = self.packet(&block)? else { continue };
            self.given = self.given.max(block.offset);
            bytes += packet.bytes.len();
            let alone = decoder.stands_alone(&packet.bytes);
            packets.push(packet);
            if alone || bytes > MOST_BACK_BYTES {
                break;
            }
        }
        packets.reverse();
        let back = match packets.last() {
            Some(last) => (at_ms - last.at_ms).min(LISTED_MS),
            None if listed > 0 || !self.cues.is_empty() => LISTED_MS,
            None => UNLISTED_MS,
        };
        let from = self.units(at_ms - back.max(INTERLEAVED_MS));
        let before = self.keyframes.partition_point(|cue| i64::try_from(cue.time).is_ok_and(|time| time <= from));
        let cluster = before.checked_sub(1).and_then(|last| self.keyframes.get(last)).map(|cue| cue.cluster);
        self.place = self.layout.place(cluster.unwrap_or(self.layout.first)).map_err(cut_short)?;
        Ok(packets)
    }

    /// The following packets, up to a time of the item.
    pub(super) fn until(&mut self, to_ms: i64, limit: &Limit) -> Result<Vec<Packet>, RunError> {
        let behind = self.units(to_ms.saturating_add(INTERLEAVED_MS));
        let (number, given) = (self.number, self.given);
        let mut found = Vec::new();
        let disk = Disk::of(&self.source.file);
        let within = self.layout.walk_on(&disk, &mut self.place, MOST_STEPS, |block| {
            if block.track == number && block.offset > given {
                found.push(block);
            }
            block.time < behind && !limit.reached()
        });
        limit.check()?;
        if !within.map_err(cut_short)? {
            return Err(RunError::SourceRead("reading its bitmap subtitles takes too long".into()));
        }
        let mut packets = Vec::new();
        for block in found {
            self.given = block.offset;
            packets.extend(self.packet(&block)?);
        }
        Ok(packets)
    }

    /// A time in units of the file's timestamp scale.
    fn units(&self, ms: i64) -> i64 {
        (i128::from(ms) * 1_000_000 / i128::from(self.layout.scale.max(1))) as i64
    }

    /// The block a cue points to.
    fn find(&self, cue: &Cue) -> Result<Option<Block>, RunError> {
        let wanted = i64::try_from(cue.time).map_err(|_| cut_short(Short))?;
        let mut found = None;
        let disk = Disk::of(&self.source.file);
        let walked = self.layout.walk(&disk, cue.cluster, MOST_CLUSTER, |block| {
            if block.track == self.number && block.time == wanted {
                found = Some(block);
            }
            found.is_none()
        });
        walked.map_err(cut_short)?;
        Ok(found)
    }

    /// A block's bytes, decompressed; None if that fails.
    fn packet(&self, block: &Block) -> Result<Option<Packet>, RunError> {
        if block.size > MOST_PACKET {
            return Ok(None);
        }
        let disk = Disk::of(&self.source.file);
        let Some(&(offset, size)) = frames(&disk, block).map_err(cut_short)?.first() else { return Ok(None) };
        let bytes = disk.exact(offset, size as usize).map_err(cut_short)?;
        let bytes = match &self.packing {
            Packing::None => bytes,
            Packing::Stripped(head) => [&head[..], &bytes].concat(),
            Packing::Zlib => {
                let mut out = Vec::new();
                let mut unpacking = flate2::read::ZlibDecoder::new(&bytes[..]).take(MOST_PACKET);
                if unpacking.read_to_end(&mut out).is_err() {
                    return Ok(None);
                }
                out
            }
        };
        let at_ms = (i128::from(block.time) * i128::from(self.layout.scale) / 1_000_000) as i64;
        Ok(Some(Packet { at_ms, bytes }))
    }
}

fn cut_short(_: Short) -> RunError {
    RunError::SourceRead("the clusters with its bitmap subtitles cannot be read".into())
}
