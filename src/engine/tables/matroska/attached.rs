//! Attachments of a Matroska file, such as the fonts of its subtitles.

use super::ebml::{Placed, body, element};
use super::{EBML, Places, SEGMENT};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::ReadAt;

const FILE: u32 = 0x61a7;
const NAME: u32 = 0x466e;
const KIND: u32 = 0x4660;
const DATA: u32 = 0x465c;

/// Maximum number of attachments read.
const MOST: usize = 256;

/// An attachment; its bytes stay in the file.
#[derive(Clone, Debug)]
pub struct Attached {
    pub name: String,
    /// The media type that the file states.
    pub kind: String,
    pub offset: u64,
    pub size: u64,
}

/// The attachments of a file, up to the first damaged element.
pub fn attached(file: &(impl ReadAt + ?Sized)) -> Result<Vec<Attached>, Refusal> {
    let head = element(file, 0)?;
    let segment = element(file, head.end())?;
    if head.id != EBML || segment.id != SEGMENT {
        return Err(Refusal::Unread("there is no EBML header with a segment"));
    }
    let Some(all) = Places::find(file, segment)?.attachments else { return Ok(Vec::new()) };
    let text = |found: Placed| body(file, found).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut out = Vec::new();
    for one in inside(file, all).filter(|found| found.id == FILE).take(MOST) {
        let (mut name, mut kind, mut data) = (String::new(), String::new(), None);
        for part in inside(file, one) {
            match part.id {
                NAME => name = text(part)?,
                KIND => kind = text(part)?,
                DATA => data = part.size.map(|size| (part.body, size)),
                _ => {}
            }
        }
        if let Some((offset, size)) = data.filter(|(offset, size)| offset.saturating_add(*size) <= file.len()) {
            out.push(Attached { name, kind, offset, size });
        }
    }
    Ok(out)
}

/// The children of an element that is too large to be read whole.
fn inside<F: ReadAt + ?Sized>(file: &F, whole: Placed) -> impl Iterator<Item = Placed> {
    let mut at = whole.body;
    std::iter::from_fn(move || {
        let found = (at < whole.end()).then(|| element(file, at).ok()).flatten()?;
        // No element in here may have an unknown size.
        found.size?;
        at = found.end();
        Some(found)
    })
    .take(4 * MOST)
}
