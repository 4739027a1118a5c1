//! ISO base media and QuickTime files (ISO/IEC 14496-12): brand, and whether there is video.

use super::{ByteSource, Container, FileFormat, MediaKind};

/// Top-level boxes read before giving up: a hostile file could chain them endlessly.
const MAX_BOXES: usize = 256;
/// Most boxes read in `moov`. A movie with more is refused, because a reference to other files could hide after them.
const MAX_MOVIE_BOXES: usize = 4096;

struct BoxHeader {
    kind: [u8; 4],
    /// Offset of the content.
    content: u64,
    /// Offset of the next box; u64::MAX if this box extends to the end of the file.
    end: u64,
}

fn parse_header(head: &[u8], offset: u64) -> Option<BoxHeader> {
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
    Some(BoxHeader { kind, content, end })
}

/// Recognises a file of boxes. None if it is something else, an image, or a movie that only refers to other files.
pub(super) fn detect_format<B: ByteSource>(bytes: &mut B, head: &[u8]) -> Result<Option<FileFormat>, B::Error> {
    let mut container = None;
    let mut audio_brand = false;
    let mut offset = 0;
    let mut box_count = 0;
    let mut movie = MovieInfo::default();
    let mut has_movie = false;
    for _ in 0..MAX_BOXES {
        let bytes_at_box =
            if offset == 0 { head[..head.len().min(16)].to_vec() } else { bytes.read_at(offset, 16)?.into_owned() };
        let Some(box_header) = parse_header(&bytes_at_box, offset) else { break };
        match &box_header.kind {
            b"ftyp" => {
                let brand = bytes.read_at(box_header.content, 4)?.into_owned();
                match container_of_brand(&brand) {
                    Some((family, audio)) => (container, audio_brand) = (Some(family), audio),
                    None => return Ok(None),
                }
            }
            b"moov" => {
                container = container.or(Some(Container::QuickTime));
                movie = scan_movie(bytes, &box_header)?;
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
        box_count += 1;
        if box_header.end == u64::MAX {
            break;
        }
        offset = box_header.end;
    }
    if movie.may_reference_files || (has_movie && !movie.has_mvhd) {
        return Ok(None);
    }
    let Some(container) = container.filter(|_| box_count > 0) else { return Ok(None) };
    let is_audio_only = audio_brand || (movie.has_audio && !movie.has_video);
    Ok(Some(FileFormat { container, kind: if is_audio_only { MediaKind::Audio } else { MediaKind::Video } }))
}

/// Container of a major brand, and whether the brand is for audio; None for images.
fn container_of_brand(brand: &[u8]) -> Option<(Container, bool)> {
    Some(match brand {
        b"qt  " => (Container::QuickTime, false),
        b"M4A " | b"M4B " | b"M4P " | b"F4A " | b"F4B " => (Container::Mp4, true),
        b"heic" | b"heix" | b"heim" | b"heis" | b"mif1" | b"msf1" | b"avif" | b"crx " | b"jp2 " => return None,
        [b'3', b'g', ..] => (Container::ThreeGp, false),
        _ => (Container::Mp4, false),
    })
}

#[derive(Default)]
struct MovieInfo {
    has_video: bool,
    has_audio: bool,
    /// The movie refers to other files (`rmra`), or may hide such a box: it is compressed (`cmov`) or has too many boxes.
    may_reference_files: bool,
    /// The movie has an `mvhd`, which ISO/IEC 14496-12 section 8.2.2 makes mandatory. qtdemux follows `rmra` even without
    /// it.
    has_mvhd: bool,
}

/// Reads the track types of a movie: `moov/trak/mdia/hdlr`.
fn scan_movie<B: ByteSource>(bytes: &mut B, moov: &BoxHeader) -> Result<MovieInfo, B::Error> {
    let mut movie = MovieInfo::default();
    let mut remaining_boxes = MAX_MOVIE_BOXES;
    let mut offset = moov.content;
    while offset < moov.end {
        if remaining_boxes == 0 {
            movie.may_reference_files = true;
            break;
        }
        remaining_boxes -= 1;
        let Some(child) = parse_header(&bytes.read_at(offset, 16)?, offset) else { break };
        match &child.kind {
            b"mvhd" => movie.has_mvhd = true,
            b"rmra" | b"cmov" => movie.may_reference_files = true,
            // A few tracks are enough to distinguish audio from video; the rest are skipped.
            b"trak" if remaining_boxes > MAX_MOVIE_BOXES - MAX_BOXES => {
                if let Some(mdia) = find_child(bytes, &child, *b"mdia", &mut remaining_boxes)?
                    && let Some(hdlr) = find_child(bytes, &mdia, *b"hdlr", &mut remaining_boxes)?
                {
                    match bytes.read_at(hdlr.content + 8, 4)?.as_ref() {
                        b"vide" => movie.has_video = true,
                        b"soun" => movie.has_audio = true,
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
    Ok(movie)
}

fn find_child<B: ByteSource>(
    bytes: &mut B,
    parent: &BoxHeader,
    kind: [u8; 4],
    remaining_boxes: &mut usize,
) -> Result<Option<BoxHeader>, B::Error> {
    let mut offset = parent.content;
    while *remaining_boxes > 0 && offset < parent.end {
        *remaining_boxes -= 1;
        let Some(child) = parse_header(&bytes.read_at(offset, 16)?, offset) else { break };
        if child.kind == kind {
            return Ok(Some(child));
        }
        offset = child.end;
    }
    Ok(None)
}
