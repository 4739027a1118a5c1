//! The packets of a subtitle track in a Matroska file.

use std::io::Read as _;
use std::sync::Arc;

use super::{BitmapDecoder, MAX_BACKWARD_BYTES, MAX_BACKWARD_PACKETS, MAX_PACKET_BYTES, SearchLimit, SubtitlePacket};
use crate::domain::bitmap_subtitles::{PgsDecoder, VobSubDecoder};
use crate::domain::media::Media;
use crate::engine::RunError;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::{ReadAt, Truncated};
use crate::engine::container::matroska::{
    Block, ClusterLayout, Compression, Cue, MatroskaFile, WalkPosition, split_lacing,
};
use crate::engine::source::SourceFile;

/// How much later in the file a subtitle's packet may be than its time: muxers interleave to within this.
const MAX_INTERLEAVE_MS: i64 = 1_000;

/// How far back every block is read: if the cues list subtitles (not every muxer lists all of them), and if they do not.
const BACKWARD_WITH_CUES_MS: i64 = 10_000;
const BACKWARD_WITHOUT_CUES_MS: i64 = 30_000;

/// Largest number of elements read in one call; an hour of a film with a dozen tracks has two million.
const MAX_ELEMENTS: usize = 4_000_000;

/// Largest number of elements read in a cluster to find a cue's block.
const MAX_CLUSTER_ELEMENTS: usize = 4_000;

#[derive(Debug)]
pub(super) struct MatroskaTrack {
    source: Arc<SourceFile>,
    layout: ClusterLayout,
    /// The item's 0 in times of the file, milliseconds.
    zero_ms: i64,
    track_number: u64,
    compression: Compression,
    /// Cues of the subtitles, if listed, and of the video; sorted by time.
    cues: Vec<Cue>,
    keyframes: Vec<Cue>,
    read_position: WalkPosition,
    /// File offset of the last packet returned.
    last_offset: u64,
}

impl MatroskaTrack {
    pub(super) fn open(source: Arc<SourceFile>, media: &Media, stream: u32) -> Result<(Self, BitmapDecoder), RunError> {
        let to_run_error = |cause: ContainerError| RunError::Decode(format!("bitmap subtitles: {}", cause.reason()));
        let film = MatroskaFile::read(&*source).map_err(to_run_error)?;
        let (track, compression) = film.read_compressed_track(stream).map_err(to_run_error)?;
        let decoder = match track.codec.as_slice() {
            b"S_HDMV/PGS" => BitmapDecoder::Pgs(PgsDecoder::default()),
            b"S_VOBSUB" => {
                let decoder = VobSubDecoder::parse_private_data(&track.codec_private);
                BitmapDecoder::VobSub(decoder.map_err(|cause| RunError::Decode(format!("VobSub: {}", cause.0)))?)
            }
            _ => {
                return Err(RunError::Decode(
                    "bitmap subtitles of an unsupported format; supported are PGS and VobSub".into(),
                ));
            }
        };
        // Without cues the search merely takes longer.
        let sorted_cues = |number| {
            let mut cues = film.read_cues(number).unwrap_or_default();
            cues.sort_by_key(|cue| cue.time);
            cues
        };
        let video = media.video_streams().next().and_then(|(stream, _)| film.read_compressed_track(stream.index).ok());
        let keyframes = video.map(|(video, _)| sorted_cues(video.number)).unwrap_or_default();
        let (layout, cues) = (film.layout, sorted_cues(track.number));
        let read_position = layout.cluster_start(layout.first_cluster).map_err(|short| to_run_error(short.into()))?;
        let (track_number, zero_ms) = (track.number, (media.start_seconds * 1000.0).round() as i64);
        let last_offset = 0;
        let track =
            Self { source, layout, zero_ms, track_number, compression, cues, keyframes, read_position, last_offset };
        Ok((track, decoder))
    }

    /// The packets before `at_ms` that are needed to show what is on screen then; reading continues from there.
    pub(super) fn packets_before(
        &mut self,
        at_ms: i64,
        decoder: &BitmapDecoder,
        limit: &SearchLimit,
    ) -> Result<Vec<SubtitlePacket>, RunError> {
        let start = self.to_timestamp_units(at_ms);
        let listed_count = self.cues.partition_point(|cue| i64::try_from(cue.time).is_ok_and(|time| time <= start));
        let (mut packets, mut bytes) = (Vec::new(), 0);
        for cue in self.cues[..listed_count].iter().rev().take(MAX_BACKWARD_PACKETS) {
            limit.check()?;
            let Some(block) = self.find_cue_block(cue)? else { continue };
            let Some(packet) = self.read_packet(&block)? else { continue };
            self.last_offset = self.last_offset.max(block.offset);
            bytes += packet.bytes.len();
            let is_self_contained = decoder.is_self_contained(&packet.bytes);
            packets.push(packet);
            if is_self_contained || bytes > MAX_BACKWARD_BYTES {
                break;
            }
        }
        packets.reverse();
        let backward_ms = match packets.last() {
            Some(last) => (at_ms - last.time_ms).min(BACKWARD_WITH_CUES_MS),
            None if listed_count > 0 || !self.cues.is_empty() => BACKWARD_WITH_CUES_MS,
            None => BACKWARD_WITHOUT_CUES_MS,
        };
        let from = self.to_timestamp_units(at_ms - backward_ms.max(MAX_INTERLEAVE_MS));
        let count = self.keyframes.partition_point(|cue| i64::try_from(cue.time).is_ok_and(|time| time <= from));
        let cluster = count.checked_sub(1).and_then(|last| self.keyframes.get(last)).map(|cue| cue.cluster);
        self.read_position =
            self.layout.cluster_start(cluster.unwrap_or(self.layout.first_cluster)).map_err(unreadable_clusters)?;
        Ok(packets)
    }

    /// The following packets, up to a time of the item.
    pub(super) fn packets_until(&mut self, to_ms: i64, limit: &SearchLimit) -> Result<Vec<SubtitlePacket>, RunError> {
        let end = self.to_timestamp_units(to_ms.saturating_add(MAX_INTERLEAVE_MS));
        let (number, last_offset) = (self.track_number, self.last_offset);
        let mut blocks = Vec::new();
        let walk_result = self.layout.resume_walk(&*self.source, &mut self.read_position, MAX_ELEMENTS, |block| {
            if block.track == number && block.offset > last_offset {
                blocks.push(block);
            }
            block.time < end && !limit.is_reached()
        });
        limit.check()?;
        if !walk_result.map_err(unreadable_clusters)? {
            return Err(RunError::SourceRead("reading its bitmap subtitles takes too long".into()));
        }
        let mut packets = Vec::new();
        for block in blocks {
            self.last_offset = block.offset;
            packets.extend(self.read_packet(&block)?);
        }
        Ok(packets)
    }

    /// A time of the item in units of the file's timestamp scale.
    fn to_timestamp_units(&self, ms: i64) -> i64 {
        (i128::from(ms.saturating_add(self.zero_ms)) * 1_000_000 / i128::from(self.layout.timestamp_scale.max(1)))
            as i64
    }

    /// The block a cue points to.
    fn find_cue_block(&self, cue: &Cue) -> Result<Option<Block>, RunError> {
        let cue_time = i64::try_from(cue.time).map_err(|_| unreadable_clusters(Truncated))?;
        let mut matching_block = None;
        let walk_result = self.layout.walk_blocks(&*self.source, cue.cluster, MAX_CLUSTER_ELEMENTS, |block| {
            if block.track == self.track_number && block.time == cue_time {
                matching_block = Some(block);
            }
            matching_block.is_none()
        });
        walk_result.map_err(unreadable_clusters)?;
        Ok(matching_block)
    }

    /// A block's bytes, decompressed; None if that fails.
    fn read_packet(&self, block: &Block) -> Result<Option<SubtitlePacket>, RunError> {
        if block.size > MAX_PACKET_BYTES {
            return Ok(None);
        }
        let Some(&(offset, size)) = split_lacing(&*self.source, block).map_err(unreadable_clusters)?.first() else {
            return Ok(None);
        };
        let bytes = self.source.read_exact(offset, size as usize).map_err(unreadable_clusters)?;
        let bytes = match &self.compression {
            Compression::None => bytes,
            Compression::HeaderStripped(head) => [&head[..], &bytes].concat(),
            Compression::Zlib => {
                let mut out = Vec::new();
                let mut inflater = flate2::read::ZlibDecoder::new(&bytes[..]).take(MAX_PACKET_BYTES);
                if inflater.read_to_end(&mut out).is_err() {
                    return Ok(None);
                }
                out
            }
        };
        let time_ms = (i128::from(block.time) * i128::from(self.layout.timestamp_scale) / 1_000_000) as i64;
        let time_ms = time_ms.saturating_sub(self.zero_ms);
        Ok(Some(SubtitlePacket { time_ms, bytes }))
    }
}

fn unreadable_clusters(_: Truncated) -> RunError {
    RunError::SourceRead("the clusters with its bitmap subtitles cannot be read".into())
}
