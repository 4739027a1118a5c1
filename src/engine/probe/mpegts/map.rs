//! The programme map (ISO/IEC 13818-1 section 2.4.4), as far as it holds nothing unusual.

use super::super::outline::{Kind, Unsure};
use super::units::Window;
use crate::domain::mpegts::tables::{self, Entry};

/// The streams of the one programme, in the map's order: ffmpeg numbers them by it.
pub(super) struct Map {
    pub listed: Vec<Listed>,
}

pub(super) struct Listed {
    pub pid: u16,
    pub kind: Kind,
    pub codec: &'static str,
    pub language: Option<String>,
}

/// Why there is none, where more of the file may have one.
pub(super) const NONE: &str = "no map";

/// Reads association and map out of the beginning of a file.
pub(super) fn read(window: &Window) -> Result<Map, Unsure> {
    let mut map: Option<u16> = None;
    for packet in window.packets(0).filter(|packet| packet.starts_unit()) {
        let programmes = tables::parse_pat(packet.payload()).ok_or(Unsure("an unusual association table"))?;
        let &[pid] = &programmes[..] else { return Err(Unsure("several programmes")) };
        if map.is_some_and(|known| known != pid) {
            return Err(Unsure("another programme"));
        }
        map = Some(pid);
    }
    let mut entries: Option<Vec<Entry>> = None;
    let maps = window.packets(map.ok_or(Unsure(NONE))?);
    for packet in maps.filter(|packet| packet.starts_unit()) {
        let found = tables::parse_pmt(packet.payload()).ok_or(Unsure("an unusual map"))?;
        if entries.as_ref().is_some_and(|known| *known != found) {
            return Err(Unsure("the map changes"));
        }
        entries = Some(found);
    }
    let listed = entries.ok_or(Unsure(NONE))?.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    if window.pids().any(|pid| !listed.iter().any(|listed| listed.pid == pid)) {
        return Err(Unsure("a stream that the map does not name"));
    }
    Ok(Map { listed })
}

impl Map {
    /// Whether a window shows this many pictures, and of sound one packet that is whole.
    pub(super) fn shown(&self, window: &Window, pictures: usize) -> bool {
        self.listed.iter().all(|listed| {
            let wanted = if listed.kind == Kind::Video { pictures } else { 2 };
            window.times(listed.pid).take(wanted).count() == wanted
        })
    }
}

fn listed(entry: &Entry) -> Result<Listed, Unsure> {
    let mut language = None;
    let (mut ac3, mut eac3) = (false, false);
    for (tag, body) in descriptors(&entry.descriptors)? {
        match tag {
            // ISO 639 language: three letters and what the sound is for.
            0x0a => match body {
                [a, b, c, 0..=1] if [a, b, c].iter().all(|letter| letter.is_ascii_lowercase()) => {
                    language = Some(String::from_utf8_lossy(&body[..3]).into_owned());
                }
                _ => return Err(Unsure("an unusual language")),
            },
            0x6a => ac3 = true,
            0x7a => eac3 = true,
            // Registration, statistics and the like; AVC and HEVC video; stream identifier; audio stream.
            0x02 | 0x03 | 0x05 | 0x06 | 0x0e | 0x10..=0x12 | 0x28 | 0x2a | 0x38 | 0x52 | 0x7c | 0x81 => {}
            _ => return Err(Unsure("an unusual descriptor")),
        }
    }
    let (kind, codec) = match entry.stream_type {
        0x1b => (Kind::Video, "h264"),
        0x03 | 0x04 => (Kind::Audio, "mp3"),
        0x0f => (Kind::Audio, "aac"),
        0x81 => (Kind::Audio, "ac3"),
        0x87 => (Kind::Audio, "eac3"),
        0x06 if ac3 && !eac3 => (Kind::Audio, "ac3"),
        0x06 if eac3 && !ac3 => (Kind::Audio, "eac3"),
        _ => return Err(Unsure("an unusual stream")),
    };
    let language = language.filter(|language| language != "und");
    Ok(Listed { pid: entry.pid, kind, codec, language })
}

/// Tags and bodies of a list of descriptors.
fn descriptors(mut bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, Unsure> {
    let mut list = Vec::new();
    while let [tag, length, rest @ ..] = bytes {
        let cut = rest.split_at_checked(usize::from(*length)).ok_or(Unsure("a descriptor is cut short"))?;
        list.push((*tag, cut.0));
        bytes = cut.1;
    }
    Ok(list)
}
