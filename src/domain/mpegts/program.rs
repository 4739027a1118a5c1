//! One program of a transport stream, under the PIDs that its streams have at the beginning of the file.
//!
//! A demuxer is set up for the streams at the beginning and ignores those that come later. In joined recordings each part
//! may have its own PIDs, and a recorded multiplex carries several programs with a clock each. So the packets of one
//! program are remapped to its first PIDs, and the tables at the beginning replace those that differ.

use std::collections::BTreeMap;

use super::packet::{PACKET_LEN, Packet};
use super::psi::{Pmt, PmtEntry, ProgramEntry, parse_pmt_section, parse_programs};

/// Maximum size of a PMT section with its pointer field, bytes (ISO/IEC 13818-1 section 2.4.4.9).
const MAX_SECTION_BYTES: usize = 1 + 1024;

/// The PID of null packets. As PCR PID it means that the program has no PCR.
const NULL_PID: u16 = 0x1fff;

/// A program as described at the beginning of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub entry: ProgramEntry,
    pub pmt: Pmt,
    /// The PAT lists other programs too: only this one is kept.
    pub selected: bool,
}

/// Joins the packets of a PMT that takes more than one.
#[derive(Clone, Debug, Default)]
pub struct PmtSection(Vec<u8>);

impl PmtSection {
    /// Returns the PMT once its last packet has arrived.
    pub fn push(&mut self, packet: Packet) -> Option<Pmt> {
        let payload = packet.payload();
        if packet.starts_unit() {
            self.0.clear();
            self.0.push(0);
            self.0.extend_from_slice(payload.get(1 + usize::from(*payload.first()?)..)?);
        } else if self.0.is_empty() || self.0.len() >= MAX_SECTION_BYTES {
            return None;
        } else {
            self.0.extend_from_slice(payload);
        }
        let pmt = parse_pmt_section(&self.0);
        if pmt.is_some() {
            self.0.clear();
        }
        pmt
    }
}

/// Result of routing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// It is kept; its PID may have changed.
    Keep,
    Drop,
    /// The tables at the beginning replace it.
    Tables,
}

/// Remaps the packets of a file. They must be passed in order.
#[derive(Clone, Debug)]
pub struct Router {
    program: Program,
    /// The program's present PAT entry.
    current: ProgramEntry,
    section: PmtSection,
    /// The PMT that `routes` is made of. None until one arrives.
    pmt: Option<Pmt>,
    /// Present PIDs and the first PIDs they are remapped to. None while the tables equal those at the beginning.
    routes: Option<BTreeMap<u16, u16>>,
}

impl Router {
    pub fn new(program: Program) -> Self {
        let routes = program.selected.then(|| routes(&program.pmt, &program.pmt));
        Self { current: program.entry, section: PmtSection::default(), pmt: None, routes, program }
    }

    /// The first PID that this PID is remapped to. None if it is dropped.
    pub fn first_pid(&self, pid: u16) -> Option<u16> {
        self.routes.as_ref().map_or(Some(pid), |routes| routes.get(&pid).copied())
    }

    /// Rewrites the packet's PID.
    pub fn route(&mut self, bytes: &mut [u8; PACKET_LEN]) -> Route {
        let Some(packet) = Packet::new(bytes) else { return Route::Drop };
        let pid = packet.pid();
        if pid == 0 {
            return self.pat(packet);
        }
        if pid == self.current.pmt_pid {
            if let Some(pmt) = self.section.push(packet).filter(|pmt| self.pmt.as_ref() != Some(pmt)) {
                let first = &self.program;
                let is_first = !first.selected && self.current == first.entry && pmt == first.pmt;
                self.routes = (!is_first).then(|| routes(&first.pmt, &pmt));
                self.pmt = Some(pmt);
            }
            return if self.routes.is_none() { Route::Keep } else { Route::Drop };
        }
        match self.first_pid(pid) {
            Some(first) => {
                bytes[1] = bytes[1] & 0xe0 | (first >> 8) as u8;
                bytes[2] = first as u8;
                Route::Keep
            }
            None => Route::Drop,
        }
    }

    fn pat(&mut self, packet: Packet) -> Route {
        let Program { entry: first, selected, .. } = self.program;
        if let Some(found) = parse_programs(packet.payload()).filter(|_| packet.starts_unit()) {
            let same = found.iter().find(|entry| **entry == first);
            let same = same.or_else(|| found.iter().find(|entry| entry.number == first.number));
            // A joined part may have another program number. In a multiplex that is another program.
            let same = same.or(found.first().filter(|_| !selected));
            if let Some(entry) = same.filter(|entry| **entry != self.current) {
                self.current = *entry;
                self.section = PmtSection::default();
                self.pmt = None;
                // Its streams are unknown until its PMT arrives.
                self.routes = Some(BTreeMap::new());
            }
        }
        match self.routes {
            None => Route::Keep,
            Some(_) if packet.starts_unit() => Route::Tables,
            Some(_) => Route::Drop,
        }
    }
}

/// Remaps each PID of the PMT `now` to a PID of the PMT `first`: that of a stream of the same kind, with the same PID if
/// there is one, otherwise in the order of the PMTs.
fn routes(first: &Pmt, now: &Pmt) -> BTreeMap<u16, u16> {
    let mut routes = BTreeMap::new();
    for same_pid in [true, false] {
        for entry in &first.entries {
            if routes.values().any(|taken| *taken == entry.pid) {
                continue;
            }
            let fits = |candidate: &&PmtEntry| {
                kind(candidate) == kind(entry)
                    && !routes.contains_key(&candidate.pid)
                    && (!same_pid || candidate.pid == entry.pid)
            };
            if let Some(found) = now.entries.iter().find(fits) {
                routes.insert(found.pid, entry.pid);
            }
        }
    }
    // A PID that carries only the PCR.
    if now.pcr_pid != NULL_PID && now.entries.iter().all(|entry| entry.pid != now.pcr_pid) {
        routes.entry(now.pcr_pid).or_insert(first.pcr_pid);
    }
    routes
}

/// Stream type and, of private streams, the descriptor that states their content (ETSI EN 300 468 table 12: teletext,
/// subtitles, AC-3, E-AC-3, DTS; registration).
fn kind(entry: &PmtEntry) -> (u8, Option<u8>) {
    let private = || {
        let mut rest = &entry.descriptors[..];
        while let [tag, length, body @ ..] = rest {
            if matches!(tag, 0x05 | 0x56 | 0x59 | 0x6a | 0x7a | 0x7b) {
                return Some(*tag);
            }
            rest = body.get(usize::from(*length)..)?;
        }
        None
    };
    match entry.stream_type {
        // MPEG-1 and MPEG-2 audio have one decoder.
        0x03 | 0x04 => (0x03, None),
        0x06 => (0x06, private()),
        other => (other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::psi::{build_pmt, pat_of};
    use proptest::prelude::*;

    fn pmt_of(streams: &[(u16, u8)]) -> Pmt {
        let entry = |&(pid, stream_type): &(u16, u8)| PmtEntry { pid, stream_type, descriptors: Vec::new() };
        Pmt { pcr_pid: streams[0].0, entries: streams.iter().map(entry).collect() }
    }

    /// A PMT of these streams on a PID.
    fn table(pid: u16, streams: &[(u16, u8)]) -> [u8; PACKET_LEN] {
        let mut packet = build_pmt(&pmt_of(streams).entries);
        [packet[1], packet[2]] = [0x40 | (pid >> 8) as u8, pid as u8];
        packet
    }

    fn payload(pid: u16) -> [u8; PACKET_LEN] {
        let mut packet = [0x47; PACKET_LEN];
        packet[1..4].copy_from_slice(&[(pid >> 8) as u8, pid as u8, 0x10]);
        packet
    }

    fn first(selected: bool) -> Router {
        let entry = ProgramEntry { number: 1, pmt_pid: 0x1000 };
        Router::new(Program { entry, pmt: pmt_of(&[(0x100, 0x1b), (0x101, 0x03)]), selected })
    }

    fn pid_of(router: &mut Router, pid: u16) -> Option<u16> {
        let mut packet = payload(pid);
        (router.route(&mut packet) == Route::Keep).then(|| Packet::new(&packet).unwrap().pid())
    }

    #[test]
    fn a_later_part_is_remapped_to_the_first_pids() {
        let mut router = first(false);
        let mut same =
            [pat_of(&[ProgramEntry { number: 1, pmt_pid: 0x1000 }]), table(0x1000, &[(0x100, 0x1b), (0x101, 0x03)])];
        assert!(same.iter_mut().all(|packet| router.route(packet) == Route::Keep));
        assert_eq!([0x100, 0x101, 0x11].map(|pid| pid_of(&mut router, pid)), [Some(0x100), Some(0x101), Some(0x11)]);
        let mut later = pat_of(&[ProgramEntry { number: 7, pmt_pid: 0x1100 }]);
        assert_eq!(router.route(&mut later), Route::Tables);
        let mut later = table(0x1100, &[(0x301, 0x04), (0x300, 0x1b), (0x302, 0x1b), (0x303, 0x0f)]);
        assert_eq!(router.route(&mut later), Route::Drop);
        let pids = [0x300, 0x301, 0x302, 0x303, 0x11].map(|pid| pid_of(&mut router, pid));
        assert_eq!(pids, [Some(0x100), Some(0x101), None, None, None]);
        // And back.
        assert_eq!(router.route(&mut same[0]), Route::Tables);
        assert_eq!(router.route(&mut same[1]), Route::Keep);
        assert_eq!(pid_of(&mut router, 0x101), Some(0x101));
    }

    #[test]
    fn of_several_programs_one_is_kept() {
        let mut router = first(true);
        assert_eq!([0x100, 0x200].map(|pid| pid_of(&mut router, pid)), [Some(0x100), None]);
        assert_eq!(router.route(&mut pat_of(&[ProgramEntry { number: 1, pmt_pid: 0x1000 }])), Route::Tables);
        assert_eq!(router.route(&mut table(0x1000, &[(0x100, 0x1b), (0x101, 0x03)])), Route::Drop);
        assert_eq!([0x101, 0x1001].map(|pid| pid_of(&mut router, pid)), [Some(0x101), None]);
        // A PAT that does not list the program changes nothing.
        assert_eq!(router.route(&mut pat_of(&[ProgramEntry { number: 2, pmt_pid: 0x1001 }])), Route::Tables);
        assert_eq!(router.route(&mut table(0x1001, &[(0x200, 0x1b), (0x201, 0x03)])), Route::Drop);
        assert_eq!([0x101, 0x200].map(|pid| pid_of(&mut router, pid)), [Some(0x101), None]);
    }

    #[test]
    fn a_stream_of_another_kind_is_dropped() {
        let mut router = first(false);
        router.route(&mut pat_of(&[ProgramEntry { number: 1, pmt_pid: 0x1000 }]));
        router.route(&mut table(0x1000, &[(0x100, 0x02), (0x101, 0x03)]));
        assert_eq!([0x100, 0x101].map(|pid| router.first_pid(pid)), [None, Some(0x101)]);
        let ac3 = PmtEntry { pid: 1, stream_type: 6, descriptors: b"\x0a\x04deu\x00\x6a\x01\x00".to_vec() };
        let teletext = PmtEntry { pid: 1, stream_type: 6, descriptors: b"\x56\x05deu\x09\x00".to_vec() };
        assert_ne!(kind(&ac3), kind(&teletext));
    }

    #[test]
    fn a_pmt_of_several_packets_is_joined() {
        let whole = table(0x1000, &[(0x100, 0x1b), (0x101, 0x03)]);
        // 20 bytes of payload after an adaptation field, the rest in a packet of its own.
        let (mut begin, mut rest) = (payload(0x1000), payload(0x1000));
        begin[1] |= 0x40;
        begin[3..6].copy_from_slice(&[0x30, (PACKET_LEN - 5 - 20) as u8, 0]);
        begin[PACKET_LEN - 20..].copy_from_slice(&whole[4..24]);
        rest[4..PACKET_LEN - 20].copy_from_slice(&whole[24..]);
        let mut section = PmtSection::default();
        assert_eq!(section.push(Packet::new(&rest).unwrap()), None);
        assert_eq!(section.push(Packet::new(&begin).unwrap()), None);
        assert_eq!(section.push(Packet::new(&rest).unwrap()), Some(pmt_of(&[(0x100, 0x1b), (0x101, 0x03)])));
        assert_eq!(section.push(Packet::new(&rest).unwrap()), None, "a section is returned once");
    }

    #[test]
    fn null_packets_are_not_a_clock() {
        let first = Pmt { pcr_pid: 0x90, ..pmt_of(&[(0x100, 0x1b)]) };
        let now = |pcr_pid| Pmt { pcr_pid, ..pmt_of(&[(0x200, 0x1b)]) };
        assert_eq!(routes(&first, &now(0x91)), BTreeMap::from([(0x91, 0x90), (0x200, 0x100)]));
        assert_eq!(routes(&first, &now(NULL_PID)), BTreeMap::from([(0x200, 0x100)]));
    }

    proptest! {
        #[test]
        fn any_packets_are_routed_without_panic(bytes in proptest::collection::vec(any::<u8>(), PACKET_LEN * 4)) {
            let mut router = first(false);
            for (n, packet) in bytes.clone().as_chunks_mut::<PACKET_LEN>().0.iter_mut().enumerate() {
                packet[..2].copy_from_slice(&[0x47, 0x50 * (n as u8 % 2)]);
                packet[2] = 0;
                router.route(packet);
            }
        }
    }
}
