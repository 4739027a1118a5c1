//! PES packets in a window of the file.

use std::collections::BTreeMap;

use super::super::outline::{Result, refuse_if};
use crate::domain::mpegts::packet::{PACKET_LEN, Packet};
use crate::domain::mpegts::pes;
use crate::domain::time::Ticks;
use crate::engine::source::SourceFile;

/// Maximum size of a PES header, which is all that is assembled to read timestamps.
const MAX_PES_HEADER_BYTES: usize = 9 + 255;

/// A window of consecutive transport packets, all in sync.
pub(super) struct PacketWindow {
    bytes: Vec<u8>,
    /// Per PID, the indexes of its packets with payload.
    packets_by_pid: BTreeMap<u16, Vec<u32>>,
}

impl PacketWindow {
    /// `first` and `count` in packets.
    pub(super) fn read(source: &SourceFile, first: u64, count: u64) -> Result<Self> {
        let mut bytes = vec![0; count as usize * PACKET_LEN];
        let filled = source.read_blocking(&mut bytes, first * PACKET_LEN as u64).map_err(|_| "unreadable")?;
        refuse_if(filled < bytes.len(), "the file has shrunk")?;
        let mut packets_by_pid: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for (number, packet) in bytes.as_chunks::<PACKET_LEN>().0.iter().enumerate() {
            let packet = Packet::new(packet).ok_or("packets of another size")?;
            refuse_if(packet.has_transport_error() || packet.is_scrambled(), "damaged or scrambled packets")?;
            if packet.payload_offset().is_some() {
                packets_by_pid.entry(packet.pid()).or_default().push(number as u32);
            }
        }
        Ok(Self { bytes, packets_by_pid })
    }

    /// The packets of a PID with payload.
    pub(super) fn packets(&self, pid: u16) -> impl Iterator<Item = Packet<'_>> + Clone {
        let packets = self.bytes.as_chunks::<PACKET_LEN>().0;
        let indexes = self.packets_by_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        indexes.iter().filter_map(|number| Packet::new(packets.get(*number as usize)?))
    }

    /// The PES packets of a PID that begin in the window, each up to `max_bytes` with its header. A last one without a
    /// complete header is left out.
    fn pes_packets(&self, pid: u16, max_bytes: usize) -> impl Iterator<Item = (pes::PesHeader, Vec<u8>)> {
        let mut packets = self.packets(pid).skip_while(|packet| !packet.starts_unit()).peekable();
        std::iter::from_fn(move || {
            let mut bytes = packets.next()?.payload().to_vec();
            while let Some(packet) = packets.next_if(|packet| !packet.starts_unit()) {
                if bytes.len() < max_bytes {
                    bytes.extend_from_slice(packet.payload());
                }
            }
            Some(bytes)
        })
        .filter_map(|bytes| Some((pes::parse(&bytes)?, bytes)))
    }

    /// Presentation and decode timestamps (33 bits); None for a packet without them.
    pub(super) fn timestamps(&self, pid: u16) -> impl Iterator<Item = Option<(Ticks, Ticks)>> {
        self.pes_packets(pid, MAX_PES_HEADER_BYTES).map(|(header, _)| header.pts.zip(header.dts))
    }

    /// The payloads; the window may truncate the last one.
    pub(super) fn payloads(&self, pid: u16) -> impl Iterator<Item = Vec<u8>> {
        self.pes_packets(pid, usize::MAX).map(|(header, bytes)| {
            let end = header.total_len.unwrap_or(bytes.len()).min(bytes.len());
            bytes.get(header.header_len..end).unwrap_or_default().to_vec()
        })
    }

    /// PIDs on which a PES packet begins.
    pub(super) fn pids(&self) -> impl Iterator<Item = u16> {
        let starts_pes = |packet: Packet| packet.starts_unit() && packet.payload().starts_with(&[0, 0, 1]);
        self.packets_by_pid.keys().copied().filter(move |pid| self.packets(*pid).any(starts_pes))
    }
}
