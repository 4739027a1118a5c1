//! The program map (ISO/IEC 13818-1 section 2.4.4), if it has nothing unusual.

use super::super::outline::{OutlineTrack, OutlineTrackKind, Result, refuse_if};
use super::packet_window::PacketWindow;
use crate::domain::mpegts::psi::{self, PmtEntry};

/// The reason if the window has no map, in which case a larger one may have one.
pub(super) const NO_MAP: &str = "no map";

/// Reads PAT and PMT from the beginning of a file: the streams of the single program, in the map's order, which is that of
/// ffmpeg's stream numbers. Their `container_id` is the PID.
pub(super) fn read_program_map(window: &PacketWindow) -> Result<Vec<OutlineTrack>> {
    let mut pmt_pid: Option<u16> = None;
    for packet in window.packets(0).filter(|packet| packet.starts_unit()) {
        let pmt_pids = psi::parse_pat(packet.payload()).ok_or("an unusual association table")?;
        let &[pid] = &pmt_pids[..] else { return Err("several programs") };
        refuse_if(pmt_pid.is_some_and(|known| known != pid), "another program")?;
        pmt_pid = Some(pid);
    }
    let mut entries: Option<Vec<PmtEntry>> = None;
    let pmt_packets = window.packets(pmt_pid.ok_or(NO_MAP)?);
    for packet in pmt_packets.filter(|packet| packet.starts_unit()) {
        let pmt_entries = psi::parse_pmt(packet.payload()).ok_or("an unusual map")?;
        refuse_if(entries.as_ref().is_some_and(|known| *known != pmt_entries), "the map changes")?;
        entries = Some(pmt_entries);
    }
    let entries = entries.ok_or(NO_MAP)?;
    let is_listed = |pid| entries.iter().any(|listed| listed.pid == pid);
    refuse_if(!window.pids().all(is_listed), "a stream that is not in the map")?;
    entries.iter().enumerate().map(|(index, entry)| parse_entry(index as u32, entry)).collect()
}

fn parse_entry(index: u32, entry: &PmtEntry) -> Result<OutlineTrack> {
    let (mut language, mut is_hearing_impaired, mut by_descriptor) = (None, false, None);
    for (tag, body) in parse_descriptors(&entry.descriptors)? {
        let (language_code, descriptor_codec) = match (tag, body) {
            // ISO 639 language: three letters, and audio type 0 or 1.
            (0x0a, [code @ .., 0..=1]) if code.len() == 3 => (Some(code.to_vec()), None),
            (0x26, _) if entry.stream_type == 0x15 && body.windows(4).any(|four| four == b"ID3 ") => {
                (None, Some((OutlineTrackKind::Data, "timed_id3")))
            }
            // Teletext pages (ETSI EN 300 468 section 6.2.43): language, type, number. ffmpeg joins the languages.
            (0x56, _) if !body.is_empty() && body.len().is_multiple_of(5) => {
                let codes: Vec<&[u8]> = body.chunks(5).map(|page| &page[..3]).collect();
                (Some(codes.join(&b","[..])), Some((OutlineTrackKind::Data, "dvb_teletext")))
            }
            // Subtitles in one language (section 6.2.41): language, type, two page ids.
            (0x59, [a, b, c, purpose, _, _, _, _]) => {
                is_hearing_impaired = matches!(purpose, 0x20..=0x25);
                (Some(vec![*a, *b, *c]), Some((OutlineTrackKind::BitmapSubtitle, "dvb_subtitle")))
            }
            (0x6a, _) => (None, Some((OutlineTrackKind::Audio, "ac3"))),
            (0x7a, _) => (None, Some((OutlineTrackKind::Audio, "eac3"))),
            // Registration, statistics and the like; AVC and HEVC video; stream identifier; audio stream.
            (0x02 | 0x03 | 0x05 | 0x06 | 0x0e | 0x10..=0x12 | 0x28 | 0x2a | 0x38 | 0x52 | 0x7c | 0x81, _) => continue,
            _ => return Err("an unusual descriptor"),
        };
        let has_two_codecs = by_descriptor.is_some() && descriptor_codec.is_some();
        refuse_if(has_two_codecs || language.is_some() && language_code.is_some(), "a stream described twice")?;
        (language, by_descriptor) = (language.or(language_code), by_descriptor.or(descriptor_codec));
    }
    let language = language.map(|code| String::from_utf8_lossy(&code).into_owned());
    let is_usual = |code: &String| code.bytes().all(|letter| matches!(letter, b'a'..=b'z' | b','));
    refuse_if(!language.as_ref().is_none_or(is_usual), "an unusual language")?;
    let (kind, codec) = match (entry.stream_type, by_descriptor) {
        (0x1b, None) => (OutlineTrackKind::Video, "h264"),
        (0x03 | 0x04, None) => (OutlineTrackKind::Audio, "mp3"),
        (0x0f, None) => (OutlineTrackKind::Audio, "aac"),
        (0x81, None | Some((_, "ac3"))) => (OutlineTrackKind::Audio, "ac3"),
        (0x87, None | Some((_, "eac3"))) => (OutlineTrackKind::Audio, "eac3"),
        (0x15, Some((kind, "timed_id3"))) => (kind, "timed_id3"),
        (0x06, Some(private)) => private,
        _ => return Err("an unusual stream"),
    };
    let language = language.filter(|code| code != "und");
    let container_id = u64::from(entry.pid);
    Ok(OutlineTrack { index, container_id, kind, codec, language, is_hearing_impaired, ..OutlineTrack::default() })
}

/// Tags and bodies of a list of descriptors.
fn parse_descriptors(mut bytes: &[u8]) -> Result<Vec<(u8, &[u8])>> {
    let mut list = Vec::new();
    while let [tag, len, rest @ ..] = bytes {
        let (body, rest) = rest.split_at_checked(usize::from(*len)).ok_or("a descriptor is truncated")?;
        list.push((*tag, body));
        bytes = rest;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(stream_type: u8, descriptors: &[u8]) -> Result<(OutlineTrackKind, &'static str, Option<String>, bool)> {
        let listed = parse_entry(0, &PmtEntry { pid: 256, stream_type, descriptors: descriptors.to_vec() })?;
        Ok((listed.kind, listed.codec, listed.language, listed.is_hearing_impaired))
    }

    #[test]
    fn streams_are_identified_by_type_and_descriptors() {
        let without_language = |kind, codec| Ok((kind, codec, None, false));
        let with_language = |kind, codec, code: &str| Ok((kind, codec, Some(code.to_owned()), false));
        assert_eq!(parse(0x1b, b"\x05\x04HDMV"), without_language(OutlineTrackKind::Video, "h264"));
        assert_eq!(parse(0x0f, b"\x0a\x04und\x00"), without_language(OutlineTrackKind::Audio, "aac"));
        assert_eq!(
            parse(0x06, b"\x0a\x04fre\x00\x7a\x02\x80\xc2"),
            with_language(OutlineTrackKind::Audio, "eac3", "fre")
        );
        let teletext = b"\x56\x0aita\x09\x00eng\x11\x77";
        assert_eq!(parse(0x06, teletext), with_language(OutlineTrackKind::Data, "dvb_teletext", "ita,eng"));
        assert_eq!(
            parse(0x15, b"\x26\x0d\xff\xffID3 \xffID3 \x00\x0f"),
            without_language(OutlineTrackKind::Data, "timed_id3")
        );
        let subtitle = Ok((OutlineTrackKind::BitmapSubtitle, "dvb_subtitle", Some("fra".into()), true));
        assert_eq!(parse(0x06, b"\x59\x08fra\x24\x00\x01\x00\x01"), subtitle);
    }

    #[test]
    fn unusual_streams_are_refused() {
        for (stream_type, descriptors) in [
            (0x02, &b""[..]),
            (0x06, b""),
            (0x06, b"\x6a\x01\x00\x7a\x01\x00"),
            (0x0f, b"\x0a\x08engafra\x00"),
            (0x0f, b"\x0a\x04eng\x03"),
            (0x0f, b"\x0a\x04EN \x00"),
            (0x0f, b"\x0a\x09eng"),
            (0x1b, b"\x09\x04\x01\x00\xe1\x00"),
        ] {
            assert!(parse(stream_type, descriptors).is_err(), "{stream_type:#x} {descriptors:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(stream_type in 0u8..0x20, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(stream_type, &bytes);
        }
    }
}
