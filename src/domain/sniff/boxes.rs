//! ISO base media and QuickTime files (ISO/IEC 14496-12): brand, and whether there is video.

use super::{Bytes, Container, Kind, Sniffed};

/// Top-level boxes read before giving up: a hostile file could chain them endlessly.
const MAX_BOXES: usize = 256;
/// Most boxes read in `moov`. A movie with more is refused, because a reference to other files could hide after them.
const MAX_MOVIE_BOXES: usize = 4096;

struct Header {
    kind: [u8; 4],
    /// Offset of the content.
    content: u64,
    /// Offset of the next box; u64::MAX if this box extends to the end of the file.
    end: u64,
}

fn header(head: &[u8], offset: u64) -> Option<Header> {
    let size = u32::from_be_bytes(head.get(..4)?.try_into().ok()?);
    let kind: [u8; 4] = head.get(4..8)?.try_into().ok()?;
    let (content, end) = match size {
        0 => (offset.checked_add(8)?, u64::MAX),
        1 => {
            let size = u64::from_be_bytes(head.get(8..16)?.try_into().ok()?);
            (offset.checked_add(16)?, offset.checked_add(size.max(16))?)
        }
        size => (offset.checked_add(8)?, offset.checked_add(u64::from(size.max(8)))?),
    };
    Some(Header { kind, content, end })
}

/// Recognises a file of boxes. None if it is something else, an image, or a movie that only refers to other files.
pub(super) fn sniff<B: Bytes>(bytes: &mut B, head: &[u8]) -> Result<Option<Sniffed>, B::Error> {
    let mut container = None;
    let mut audio_brand = false;
    let mut offset = 0;
    let mut seen = 0;
    let mut kinds = Tracks::default();
    let mut has_movie = false;
    for _ in 0..MAX_BOXES {
        let piece = if offset == 0 { head[..head.len().min(16)].to_vec() } else { bytes.at(offset, 16)?.into_owned() };
        let Some(found) = header(&piece, offset) else { break };
        match &found.kind {
            b"ftyp" => {
                let brand = bytes.at(found.content, 4)?.into_owned();
                match family(&brand) {
                    Some((family, audio)) => (container, audio_brand) = (Some(family), audio),
                    None => return Ok(None),
                }
            }
            b"moov" => {
                container = container.or(Some(Container::QuickTime));
                kinds = tracks(bytes, &found)?;
                has_movie = true;
                break;
            }
            b"moof" | b"styp" | b"sidx" => container = container.or(Some(Container::Mp4)),
            b"mdat" => container = container.or(Some(Container::QuickTime)),
            b"free" | b"skip" | b"wide" | b"pnot" | b"PICT" | b"pict" | b"uuid" | b"udta" | b"meta" | b"prft"
            | b"emsg" | b"junk" => {}
            // After a brand any box may follow. Before one, an unknown box means that this is not such a file.
            _ if container.is_some() => {}
            _ => return Ok(None),
        }
        seen += 1;
        if found.end == u64::MAX {
            break;
        }
        offset = found.end;
    }
    if kinds.refers || (has_movie && !kinds.header) {
        return Ok(None);
    }
    let Some(container) = container.filter(|_| seen > 0) else { return Ok(None) };
    let only_sound = audio_brand || (kinds.sound && !kinds.picture);
    Ok(Some(Sniffed { container, kind: if only_sound { Kind::Audio } else { Kind::Video } }))
}

/// Container of a major brand, and whether the brand is for audio; None for images.
fn family(brand: &[u8]) -> Option<(Container, bool)> {
    Some(match brand {
        b"qt  " => (Container::QuickTime, false),
        b"M4A " | b"M4B " | b"M4P " | b"F4A " | b"F4B " => (Container::Mp4, true),
        b"heic" | b"heix" | b"heim" | b"heis" | b"mif1" | b"msf1" | b"avif" | b"crx " | b"jp2 " => return None,
        [b'3', b'g', ..] => (Container::ThreeGp, false),
        _ => (Container::Mp4, false),
    })
}

#[derive(Default)]
struct Tracks {
    picture: bool,
    sound: bool,
    /// The movie refers to other files (`rmra`), or may hide such a box: it is compressed (`cmov`) or has too many boxes.
    refers: bool,
    /// The movie has an `mvhd`, which ISO/IEC 14496-12 section 8.2.2 makes mandatory. qtdemux follows `rmra` even without
    /// it.
    header: bool,
}

/// Reads the track types of a movie: `moov/trak/mdia/hdlr`.
fn tracks<B: Bytes>(bytes: &mut B, moov: &Header) -> Result<Tracks, B::Error> {
    let mut found = Tracks::default();
    let mut budget = MAX_MOVIE_BOXES;
    let mut offset = moov.content;
    while offset < moov.end {
        if budget == 0 {
            found.refers = true;
            break;
        }
        budget -= 1;
        let Some(child) = header(&bytes.at(offset, 16)?, offset) else { break };
        match &child.kind {
            b"mvhd" => found.header = true,
            b"rmra" | b"cmov" => found.refers = true,
            // A few tracks are enough to distinguish audio from video; the rest are skipped.
            b"trak" if budget > MAX_MOVIE_BOXES - MAX_BOXES => {
                if let Some(mdia) = child_of(bytes, &child, *b"mdia", &mut budget)?
                    && let Some(hdlr) = child_of(bytes, &mdia, *b"hdlr", &mut budget)?
                {
                    match bytes.at(hdlr.content + 8, 4)?.as_ref() {
                        b"vide" => found.picture = true,
                        b"soun" => found.sound = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if child.end == u64::MAX {
            break;
        }
        offset = child.end;
    }
    Ok(found)
}

fn child_of<B: Bytes>(
    bytes: &mut B,
    parent: &Header,
    kind: [u8; 4],
    budget: &mut usize,
) -> Result<Option<Header>, B::Error> {
    let mut offset = parent.content;
    while *budget > 0 && offset < parent.end {
        *budget -= 1;
        let Some(child) = header(&bytes.at(offset, 16)?, offset) else { break };
        if child.kind == kind {
            return Ok(Some(child));
        }
        offset = child.end;
    }
    Ok(None)
}
