//! One stream of a transport stream: its PES payloads with their times in source time, starting where decoding may start.
//!
//! No demuxer estimates anything here: each time is the timestamp in the file, on the one clock of its pieces.

use std::collections::VecDeque;
use std::io::{Error, Result};
use std::sync::Arc;

use super::{ClockStream, READ_BYTES};
use crate::domain::media::Media;
use crate::domain::mpegts::clock_jumps::{ClockSection, source_time};
use crate::domain::mpegts::packet::{PACKET_LEN, Packet};
use crate::domain::mpegts::pes::{self, PesHeader};
use crate::domain::mpegts::program::{Route, Router};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::mpegts::stream_codec::{SelectedEntry, select_entry, starts_with_parameters};
use crate::domain::time::Ticks;
use crate::engine::source::SourceFile;

/// How far before the start a keyframe is searched, step by step.
const LOOK_BACK: [Ticks; 4] =
    [Ticks::from_ms(1000), Ticks::from_ms(4000), Ticks::from_ms(16_000), Ticks::from_ms(64_000)];

/// How far before the start reading begins if there is no keyframe, as with ffmpeg.
const BLIND_LEAD: Ticks = Ticks::from_ms(5000);

/// How far before the start the audio of a film is searched: multiplexers send video up to a second or so ahead of it.
const AUDIO_LEAD: Ticks = Ticks::from_ms(3000);

/// Audio that ends up to this long before the start is returned too: its packets hold several frames.
const AUDIO_PACKET: Ticks = Ticks::from_ms(1000);

/// Largest PES packet kept, bytes; a keyframe of 4K video takes some 2 MiB.
const MAX_PES_BYTES: usize = 16 << 20;

/// The payload of one PES packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PesPayload {
    /// Times of the first frame that begins in it, in source time. None if the packet has no timestamp.
    pub pts: Option<Ticks>,
    pub dts: Option<Ticks>,
    pub bytes: Vec<u8>,
}

/// A stream being read. Its methods block on file I/O.
#[derive(Debug)]
pub struct ElementaryStream {
    clock_stream: ClockStream,
    pieces: Vec<ClockSection>,
    entry: SelectedEntry,
    /// For files of several pieces, whose PIDs may change.
    router: Option<Router>,
    /// Offset of the packet to read next.
    position: u64,
    /// Payloads before this time are dropped until the first one at or after it.
    earliest: Option<Ticks>,
    partial: Option<PartialPes>,
    payloads: VecDeque<PesPayload>,
}

/// A PES packet with its header, of which some bytes may be missing yet.
#[derive(Debug)]
struct PartialPes {
    header: PesHeader,
    /// Offset of its first packet in the file.
    offset: u64,
    bytes: Vec<u8>,
}

impl ElementaryStream {
    /// Opens stream `index` of the file and finds the last frame at or before `start` from which video can be decoded, or
    /// the audio before `start`.
    ///
    /// # Errors
    /// Those of reading the file, or that its program map does not list the stream as the probe did.
    pub fn open(source: &Arc<SourceFile>, media: &Media, index: u32, start: Ticks) -> Result<Self> {
        let not_found = || Error::other("not a transport stream with video or audio");
        let clock_stream = ClockStream::find_in(source)?.ok_or_else(not_found)?;
        let entry = clock_stream.program.as_ref().and_then(|program| select_entry(&program.pmt, media, index));
        let entry = entry.ok_or_else(|| Error::other("the program map lists other streams than the probe"))?;
        let mut pieces = media.clock_pieces.clone();
        if pieces.is_empty() {
            pieces.push(ClockSection { start_byte: 0, shift: -Ticks::from_seconds(media.start_seconds) });
        }
        let (partial, payloads) = (None, VecDeque::new());
        let mut stream =
            Self { clock_stream, pieces, entry, router: None, position: 0, earliest: None, partial, payloads };
        if start > Ticks::ZERO {
            stream.position = match entry.kind {
                TrackKind::Video => stream.find_keyframe(start)?,
                TrackKind::Audio => stream.clock_stream.find_offset(&stream.pieces, start - AUDIO_LEAD)?,
            };
            stream.earliest = (entry.kind == TrackKind::Audio).then_some(start - AUDIO_PACKET);
        }
        stream.router = stream.router_at(stream.position)?;
        Ok(stream)
    }

    /// The next payload; None at the end of the file.
    pub fn next_payload(&mut self) -> Result<Option<PesPayload>> {
        loop {
            while let Some(payload) = self.payloads.pop_front() {
                if self.earliest.is_some_and(|earliest| payload.pts.is_none_or(|pts| pts < earliest)) {
                    continue;
                }
                self.earliest = None;
                return Ok(Some(payload));
            }
            if self.position < self.clock_stream.source.len {
                self.read_packets()?;
            } else if self.partial.is_some() {
                self.finish_packet();
            } else {
                return Ok(None);
            }
        }
    }

    fn router_at(&self, position: u64) -> Result<Option<Router>> {
        if self.pieces.len() < 2 {
            return Ok(None);
        }
        self.clock_stream.router_at(&self.pieces, position)
    }

    /// Offset of the last keyframe shown at or before `start`, or of a frame some seconds earlier without one.
    fn find_keyframe(&self, start: Ticks) -> Result<u64> {
        let last = self.clock_stream.find_offset(&self.pieces, start)?;
        for look_back in LOOK_BACK {
            let from = self.clock_stream.find_offset(&self.pieces, start - look_back)?;
            let mut keyframe = None;
            let mut router = self.router_at(from)?;
            self.clock_stream.for_each_packet(from, last + 1, |offset, bytes| {
                let mut bytes = *bytes;
                let Some(packet) = self.entry.routed(router.as_mut(), &mut bytes).filter(|packet| packet.starts_unit())
                else {
                    return;
                };
                let Some(header) = pes::parse(packet.payload()) else { return };
                let pts = header.pts.map(|pts| source_time(&self.pieces, offset, pts));
                let payload = packet.payload().get(header.header_len..).unwrap_or_default();
                let is_keyframe =
                    packet.is_random_access_point() || starts_with_parameters(self.entry.stream_type, payload);
                if is_keyframe && pts.is_some_and(|pts| pts <= start) {
                    keyframe = Some(offset);
                }
            })?;
            if keyframe.is_some() || from == 0 {
                return Ok(keyframe.unwrap_or(0));
            }
        }
        self.clock_stream.find_offset(&self.pieces, start - BLIND_LEAD)
    }

    /// Reads some packets of the file.
    fn read_packets(&mut self) -> Result<()> {
        let end = self.position + READ_BYTES as u64;
        let (mut next, mut own_packets) = (end, Vec::new());
        self.clock_stream.for_each_packet(self.position, end, |offset, bytes| {
            next = next.max(offset + self.clock_stream.packet_stride as u64);
            let mut bytes = *bytes;
            if self.entry.routed(self.router.as_mut(), &mut bytes).is_some() {
                own_packets.push((offset, bytes));
            }
        })?;
        self.position = next;
        for (offset, bytes) in own_packets {
            if let Some(packet) = Packet::new(&bytes) {
                self.push_packet(packet, offset);
            }
        }
        Ok(())
    }

    fn push_packet(&mut self, packet: Packet, offset: u64) {
        if packet.starts_unit() {
            self.finish_packet();
            let bytes = packet.payload().to_vec();
            self.partial = pes::parse(&bytes).map(|header| PartialPes { header, offset, bytes });
        } else if let Some(partial) = &mut self.partial {
            partial.bytes.extend_from_slice(packet.payload());
        }
        let Some(PartialPes { header, bytes, .. }) = &self.partial else { return };
        if bytes.len() > MAX_PES_BYTES {
            self.partial = None;
        } else if header.total_len.is_some_and(|len| bytes.len() >= len) {
            self.finish_packet();
        }
    }

    fn finish_packet(&mut self) {
        let Some(PartialPes { header, offset, mut bytes }) = self.partial.take() else { return };
        bytes.truncate(header.total_len.unwrap_or(usize::MAX));
        if bytes.len() > header.header_len {
            bytes.drain(..header.header_len);
            let in_source_time = |time: Ticks| source_time(&self.pieces, offset, time);
            let (pts, dts) = (header.pts.map(in_source_time), header.dts.map(in_source_time));
            self.payloads.push_back(PesPayload { pts, dts, bytes });
        }
    }
}

impl SelectedEntry {
    /// The packet if it belongs to this stream and is not damaged. The packets of a file must be passed in order.
    fn routed<'a>(&self, router: Option<&mut Router>, bytes: &'a mut [u8; PACKET_LEN]) -> Option<Packet<'a>> {
        if router.is_some_and(|router| router.route(bytes) != Route::Keep) {
            return None;
        }
        let packet = Packet::new(bytes)?;
        let is_own = packet.pid() == self.pid && !packet.has_transport_error() && !packet.is_scrambled();
        is_own.then_some(packet)
    }
}
