//! PAT and PMT: parsed from a backend's or a source's stream, and written for our segments.

use super::packet::{PACKET_LEN, SYNC_BYTE};
use super::{AUDIO_PID, PMT_PID, VIDEO_PID};

/// The elementary stream that a PID carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    Video,
    Audio,
}

impl TrackKind {
    pub fn from_pid(pid: u16) -> Option<Self> {
        match pid {
            VIDEO_PID => Some(Self::Video),
            AUDIO_PID => Some(Self::Audio),
            _ => None,
        }
    }

    pub fn pid(self) -> u16 {
        match self {
            Self::Video => VIDEO_PID,
            Self::Audio => AUDIO_PID,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmtEntry {
    pub pid: u16,
    /// Stream type of ISO/IEC 13818-1 table 2-34, e.g. 0x1b for H.264, 0x0f for AAC in ADTS.
    pub stream_type: u8,
    pub descriptors: Vec<u8>,
}

/// A program as a PAT lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEntry {
    pub number: u16,
    pub pmt_pid: u16,
}

/// PIDs of the PMTs listed by the PAT that begins in this payload. None unless it is a valid PAT of one section that fits
/// in one packet.
pub fn parse_pat(payload: &[u8]) -> Option<Vec<u16>> {
    Some(parse_programs(payload)?.iter().map(|program| program.pmt_pid).collect())
}

/// Like [`parse_pat`], with the program numbers.
pub fn parse_programs(payload: &[u8]) -> Option<Vec<ProgramEntry>> {
    let section = find_section(payload, 0)?;
    if section.get(6..8)? != [0, 0] {
        return None;
    }
    let programs = section.get(8..section.len().checked_sub(4)?)?.as_chunks::<4>().0;
    // Program number 0 is the network information table.
    let programs = programs.iter().map(|&[a, b, c, d]| ProgramEntry {
        number: u16::from_be_bytes([a, b]),
        pmt_pid: u16::from_be_bytes([c & 0x1f, d]),
    });
    Some(programs.filter(|program| program.number != 0).collect())
}

/// The section with this table id that begins in this payload, including its CRC, which is checked.
fn find_section(payload: &[u8], table_id: u8) -> Option<&[u8]> {
    let section = payload.get(1 + usize::from(*payload.first()?)..)?;
    if *section.first()? != table_id {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([section.get(1)? & 0x0f, *section.get(2)?]));
    let section = section.get(..3 + length)?;
    (crc32_mpeg2(section) == 0).then_some(section)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmt {
    pub pcr_pid: u16,
    pub entries: Vec<PmtEntry>,
}

/// Entries of the PMT that begins in this payload. None unless it is a valid PMT that fits in one packet.
pub fn parse_pmt(payload: &[u8]) -> Option<Vec<PmtEntry>> {
    Some(parse_pmt_section(payload)?.entries)
}

/// Like [`parse_pmt`], with the PCR PID. A section of several packets must be joined first.
pub fn parse_pmt_section(payload: &[u8]) -> Option<Pmt> {
    let section = find_section(payload, 2)?;
    let mut rest = section.get(12..section.len().checked_sub(4)?)?;
    rest = rest.get(usize::from(u16::from_be_bytes([section[10] & 0x0f, section[11]]))..)?;
    let mut entries = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([head[3] & 0x0f, head[4]]));
        entries.push(PmtEntry {
            pid: u16::from_be_bytes([head[1] & 0x1f, head[2]]),
            stream_type: head[0],
            descriptors: after.get(..length)?.to_vec(),
        });
        rest = after.get(length..)?;
    }
    Some(Pmt { pcr_pid: u16::from_be_bytes([section[8] & 0x1f, section[9]]), entries })
}

/// A PAT with one program, whose PMT is on [`PMT_PID`]; continuity counter 0.
pub fn build_pat() -> [u8; PACKET_LEN] {
    pat_of(&[ProgramEntry { number: 1, pmt_pid: PMT_PID }])
}

/// A PAT of these programs, 40 at most; continuity counter 0.
pub fn pat_of(programs: &[ProgramEntry]) -> [u8; PACKET_LEN] {
    let mut section = vec![0x00, 0xb0, 0, 0, 1, 0xc1, 0, 0];
    for program in programs.iter().take(40) {
        let ([a, b], [c, d]) = (program.number.to_be_bytes(), program.pmt_pid.to_be_bytes());
        section.extend_from_slice(&[a, b, 0xe0 | c, d]);
    }
    section[2] = (section.len() - 3 + 4) as u8;
    section_packet(0, &section)
}

/// A PMT of these streams, with PIDs as given; continuity counter 0. Descriptors are dropped if the table would not fit
/// into one packet, because hls.js does not find a section split across packets.
pub fn build_pmt(entries: &[PmtEntry]) -> [u8; PACKET_LEN] {
    build_pmt_with_descriptors(&[], entries)
}

/// Like [`build_pmt`], with program descriptors of at most 32 bytes.
pub fn build_pmt_with_descriptors(program: &[u8], entries: &[PmtEntry]) -> [u8; PACKET_LEN] {
    let capacity = PACKET_LEN - 5 - 16 - program.len() - 5 * entries.len().min(8);
    let descriptors: usize = entries.iter().map(|entry| entry.descriptors.len()).sum();
    let pcr_pid = entries.iter().map(|entry| entry.pid).min().unwrap_or(0x1fff).to_be_bytes();
    let mut section = vec![0x02, 0xb0, 0, 0, 1, 0xc1, 0, 0, 0xe0 | pcr_pid[0], pcr_pid[1], 0xf0, program.len() as u8];
    section.extend_from_slice(program);
    for entry in entries.iter().take(8) {
        let pid = entry.pid.to_be_bytes();
        let extra: &[u8] = if descriptors <= capacity { &entry.descriptors } else { &[] };
        section.extend_from_slice(&[entry.stream_type, 0xe0 | pid[0], pid[1], 0xf0, extra.len() as u8]);
        section.extend_from_slice(extra);
    }
    section[2] = (section.len() - 3 + 4) as u8;
    section_packet(PMT_PID, &section)
}

/// One packet that contains a whole section. Appends the CRC.
fn section_packet(pid: u16, section: &[u8]) -> [u8; PACKET_LEN] {
    let mut bytes = [0xff; PACKET_LEN];
    let pid = pid.to_be_bytes();
    bytes[..5].copy_from_slice(&[SYNC_BYTE, 0x40 | pid[0], pid[1], 0x10, 0]);
    let end = 5 + section.len();
    bytes[5..end].copy_from_slice(section);
    bytes[end..end + 4].copy_from_slice(&crc32_mpeg2(section).to_be_bytes());
    bytes
}

/// CRC-32/MPEG-2 (ISO/IEC 13818-1 annex A); 0 over a section that ends with its own CRC.
fn crc32_mpeg2(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crc_has_the_published_check_value() {
        assert_eq!(crc32_mpeg2(b"123456789"), 0x0376_e6e7);
    }

    #[test]
    fn a_written_map_reads_back() {
        let entries = [
            PmtEntry { pid: VIDEO_PID, stream_type: 0x1b, descriptors: vec![] },
            PmtEntry { pid: AUDIO_PID, stream_type: 0x81, descriptors: b"\x05\x04AC-3".to_vec() },
        ];
        let packet = build_pmt(&entries);
        assert_eq!(parse_pmt(&packet[4..]).unwrap(), entries);
        assert_eq!(parse_pat(&build_pat()[4..]).unwrap(), [PMT_PID]);
    }

    proptest! {
        #[test]
        fn any_map_fits_one_packet_and_any_bytes_are_read(
            sizes in proptest::collection::vec(0usize..300, 0..12),
            bytes in proptest::collection::vec(any::<u8>(), 0..184),
        ) {
            let entries: Vec<_> = sizes
                .iter()
                .map(|&size| PmtEntry { pid: 65, stream_type: 15, descriptors: vec![0; size] })
                .collect();
            prop_assert_eq!(parse_pmt(&build_pmt(&entries)[4..]).unwrap().len(), entries.len().min(8));
            let _ = (parse_pmt(&bytes), parse_pat(&bytes));
        }
    }
}
