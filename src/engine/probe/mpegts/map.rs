//! The program map (ISO/IEC 13818-1 section 2.4.4), if it has nothing unusual.

use super::super::outline::{Kind, Track, Unsure};
use super::units::Window;
use crate::domain::mpegts::psi::{self, PmtEntry};

/// The streams of the single program, in the map's order, which is that of ffmpeg's stream numbers.
pub(super) struct Map {
    pub listed: Vec<Listed>,
}

pub(super) struct Listed {
    pub pid: u16,
    pub kind: Kind,
    pub codec: &'static str,
    language: Option<String>,
    hearing_impaired: bool,
}

impl Listed {
    /// Video and audio; other streams do not count for the duration.
    pub(super) fn is_played(&self) -> bool {
        matches!(self.kind, Kind::Video | Kind::Audio)
    }

    pub(super) fn track(&self, index: u32) -> Track {
        Track {
            index,
            key: u64::from(self.pid),
            kind: self.kind,
            codec: self.codec,
            language: self.language.clone(),
            hearing_impaired: self.hearing_impaired,
            ..Track::default()
        }
    }
}

/// The reason if the window has no map, in which case a larger one may have one.
pub(super) const NONE: &str = "no map";

/// Reads PAT and PMT from the beginning of a file.
pub(super) fn read(window: &Window) -> Result<Map, Unsure> {
    let mut map: Option<u16> = None;
    for packet in window.packets(0).filter(|packet| packet.starts_unit()) {
        let programmes = psi::parse_pat(packet.payload()).ok_or(Unsure("an unusual association table"))?;
        let &[pid] = &programmes[..] else { return Err(Unsure("several programs")) };
        if map.is_some_and(|known| known != pid) {
            return Err(Unsure("another program"));
        }
        map = Some(pid);
    }
    let mut entries: Option<Vec<PmtEntry>> = None;
    let maps = window.packets(map.ok_or(Unsure(NONE))?);
    for packet in maps.filter(|packet| packet.starts_unit()) {
        let found = psi::parse_pmt(packet.payload()).ok_or(Unsure("an unusual map"))?;
        if entries.as_ref().is_some_and(|known| *known != found) {
            return Err(Unsure("the map changes"));
        }
        entries = Some(found);
    }
    let listed = entries.ok_or(Unsure(NONE))?.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    if window.pids().any(|pid| !listed.iter().any(|listed| listed.pid == pid)) {
        return Err(Unsure("a stream that is not in the map"));
    }
    Ok(Map { listed })
}

impl Map {
    /// Whether a window has `pictures` frames of video, and one complete packet of audio.
    pub(super) fn shown(&self, window: &Window, pictures: usize) -> bool {
        self.listed.iter().filter(|listed| listed.is_played()).all(|listed| {
            let wanted = if listed.kind == Kind::Video { pictures } else { 2 };
            window.times(listed.pid).take(wanted).count() == wanted
        })
    }
}

fn listed(entry: &PmtEntry) -> Result<Listed, Unsure> {
    let (mut language, mut hearing_impaired, mut private) = (None, false, None);
    for (tag, body) in descriptors(&entry.descriptors)? {
        let (code, found) = match (tag, body) {
            // ISO 639 language: three letters, and audio type 0 or 1.
            (0x0a, [code @ .., 0..=1]) if code.len() == 3 => (Some(code.to_vec()), None),
            (0x26, _) if entry.stream_type == 0x15 && body.windows(4).any(|four| four == b"ID3 ") => {
                (None, Some((Kind::Data, "timed_id3")))
            }
            // Teletext pages (ETSI EN 300 468 section 6.2.43): language, type, number. ffmpeg joins the languages.
            (0x56, _) if !body.is_empty() && body.len().is_multiple_of(5) => {
                let codes: Vec<&[u8]> = body.chunks(5).map(|page| &page[..3]).collect();
                (Some(codes.join(&b","[..])), Some((Kind::Data, "dvb_teletext")))
            }
            // Subtitles in one language (section 6.2.41): language, type, two page ids.
            (0x59, [a, b, c, purpose, _, _, _, _]) => {
                hearing_impaired = matches!(purpose, 0x20..=0x25);
                (Some(vec![*a, *b, *c]), Some((Kind::BitmapSubtitle, "dvb_subtitle")))
            }
            (0x6a, _) => (None, Some((Kind::Audio, "ac3"))),
            (0x7a, _) => (None, Some((Kind::Audio, "eac3"))),
            // Registration, statistics and the like; AVC and HEVC video; stream identifier; audio stream.
            (0x02 | 0x03 | 0x05 | 0x06 | 0x0e | 0x10..=0x12 | 0x28 | 0x2a | 0x38 | 0x52 | 0x7c | 0x81, _) => continue,
            _ => return Err(Unsure("an unusual descriptor")),
        };
        if language.is_some() && code.is_some() || private.is_some() && found.is_some() {
            return Err(Unsure("a stream described twice"));
        }
        (language, private) = (language.or(code), private.or(found));
    }
    let language = language.map(|code| String::from_utf8_lossy(&code).into_owned());
    if language.as_ref().is_some_and(|code| !code.bytes().all(|letter| matches!(letter, b'a'..=b'z' | b','))) {
        return Err(Unsure("an unusual language"));
    }
    let (kind, codec) = match (entry.stream_type, private) {
        (0x1b, None) => (Kind::Video, "h264"),
        (0x03 | 0x04, None) => (Kind::Audio, "mp3"),
        (0x0f, None) => (Kind::Audio, "aac"),
        (0x81, None | Some((_, "ac3"))) => (Kind::Audio, "ac3"),
        (0x87, None | Some((_, "eac3"))) => (Kind::Audio, "eac3"),
        (0x15, Some((kind, "timed_id3"))) => (kind, "timed_id3"),
        (0x06, Some(private)) => private,
        _ => return Err(Unsure("an unusual stream")),
    };
    let language = language.filter(|code| code != "und");
    Ok(Listed { pid: entry.pid, kind, codec, language, hearing_impaired })
}

/// Tags and bodies of a list of descriptors.
fn descriptors(mut bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, Unsure> {
    let mut list = Vec::new();
    while let [tag, length, rest @ ..] = bytes {
        let cut = rest.split_at_checked(usize::from(*length)).ok_or(Unsure("a descriptor is truncated"))?;
        list.push((*tag, cut.0));
        bytes = cut.1;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(stream_type: u8, descriptors: &[u8]) -> Result<(Kind, &'static str, Option<String>, bool), Unsure> {
        let listed = listed(&PmtEntry { pid: 256, stream_type, descriptors: descriptors.to_vec() })?;
        Ok((listed.kind, listed.codec, listed.language, listed.hearing_impaired))
    }

    #[test]
    fn streams_are_told_by_type_and_descriptors() {
        let plain = |kind, codec| Ok((kind, codec, None, false));
        let spoken = |kind, codec, code: &str| Ok((kind, codec, Some(code.to_owned()), false));
        assert_eq!(read(0x1b, b"\x05\x04HDMV"), plain(Kind::Video, "h264"));
        assert_eq!(read(0x0f, b"\x0a\x04und\x00"), plain(Kind::Audio, "aac"));
        assert_eq!(read(0x06, b"\x0a\x04fre\x00\x7a\x02\x80\xc2"), spoken(Kind::Audio, "eac3", "fre"));
        let teletext = b"\x56\x0aita\x09\x00eng\x11\x77";
        assert_eq!(read(0x06, teletext), spoken(Kind::Data, "dvb_teletext", "ita,eng"));
        assert_eq!(read(0x15, b"\x26\x0d\xff\xffID3 \xffID3 \x00\x0f"), plain(Kind::Data, "timed_id3"));
        let subtitle = Ok((Kind::BitmapSubtitle, "dvb_subtitle", Some("fra".into()), true));
        assert_eq!(read(0x06, b"\x59\x08fra\x24\x00\x01\x00\x01"), subtitle);
    }

    #[test]
    fn what_is_unusual_is_left_alone() {
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
            assert!(read(stream_type, descriptors).is_err(), "{stream_type:#x} {descriptors:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(stream_type in 0u8..0x20, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(stream_type, &bytes);
        }
    }
}
