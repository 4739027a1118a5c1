//! Bytes of an open file, read at offsets that are not trusted.

use super::refuse_if;
pub use crate::domain::bytes::{ByteCursor, Truncated, records};
use crate::engine::source::SourceFile;

/// Bytes at an offset: of an open file, or of a slice in tests.
pub trait ReadAt {
    /// Fills `buffer` from `offset`; returns how many bytes were read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize;

    fn len(&self) -> u64;

    /// Reads exactly `count` bytes.
    fn read_exact(&self, offset: u64, count: usize) -> Result<Vec<u8>, Truncated> {
        // Checked before allocating: a length beyond the file costs nothing.
        refuse_if(offset.checked_add(count as u64).is_none_or(|end| end > self.len()), Truncated)?;
        let mut bytes = vec![0; count];
        if self.read_at(&mut bytes, offset) == count { Ok(bytes) } else { Err(Truncated) }
    }
}

/// The length is that at opening. Querying it for every sample took most of the planning of a film.
impl ReadAt for SourceFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(available);
        self.read_blocking(&mut buffer[..count], offset).unwrap_or(0)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(<[u8]>::len(self));
        let count = buffer.len().min(<[u8]>::len(self) - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        count
    }

    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
}

/// The bytes from `offset`, at most `max_bytes`.
pub fn read_up_to(source: &SourceFile, offset: u64, max_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; max_bytes];
    let filled = source.read_blocking(&mut bytes, offset)?;
    bytes.truncate(filled);
    Ok(bytes)
}
