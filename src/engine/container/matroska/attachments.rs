//! Attachments of a Matroska file, such as the fonts of its subtitles.

use super::TopLevelElements;
use super::ebml::{Element, parse_text, read_body, read_element};
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::ReadAt;

const ATTACHED_FILE: u32 = 0x61a7;
const FILE_NAME: u32 = 0x466e;
const FILE_MEDIA_TYPE: u32 = 0x4660;
const FILE_DATA: u32 = 0x465c;

/// Maximum size of a name or media type, bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Maximum number of attachments read.
const MAX_ATTACHMENTS: usize = 256;

/// An attachment; its bytes stay in the file.
#[derive(Clone, Debug)]
pub struct Attachment {
    pub name: Option<String>,
    /// The media type that the file states.
    pub media_type: Option<String>,
    pub offset: u64,
    pub size: u64,
}

impl TopLevelElements {
    /// The attachments, up to the first damaged element.
    pub fn read_attachments(&self, file: &(impl ReadAt + ?Sized)) -> Result<Vec<Attachment>, ContainerError> {
        let Some(attachments) = self.attachments else { return Ok(Vec::new()) };
        let read_text = |child: Element| read_body(file, child, MAX_TEXT_BYTES).map(|bytes| parse_text(&bytes));
        let mut out = Vec::new();
        for entry in child_elements(file, attachments).filter(|child| child.id == ATTACHED_FILE).take(MAX_ATTACHMENTS) {
            let (mut name, mut media_type, mut data) = (None, None, None);
            for child in child_elements(file, entry) {
                match child.id {
                    FILE_NAME => name = read_text(child)?,
                    FILE_MEDIA_TYPE => media_type = read_text(child)?,
                    FILE_DATA => data = child.size.map(|size| (child.body, size)),
                    _ => {}
                }
            }
            if let Some((offset, size)) = data.filter(|(offset, size)| offset.saturating_add(*size) <= file.len()) {
                out.push(Attachment { name, media_type, offset, size });
            }
        }
        Ok(out)
    }
}

/// The children of an element that is too large to be read whole.
fn child_elements<F: ReadAt + ?Sized>(file: &F, parent: Element) -> impl Iterator<Item = Element> {
    let mut position = parent.body;
    std::iter::from_fn(move || {
        let child = (position < parent.end()).then(|| read_element(file, position).ok()).flatten()?;
        // No element in here may have an unknown size.
        child.size?;
        position = child.end();
        Some(child)
    })
    .take(4 * MAX_ATTACHMENTS)
}
