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

/// A sample: bytes that the container removed from its start (header stripping of Matroska), and a range of the file.
#[derive(Clone, Copy, Debug)]
pub struct SampleBytes<'a, F: ?Sized> {
    pub file: &'a F,
    pub prefix: &'a [u8],
    pub offset: u64,
    pub size: u64,
}

impl<F: ReadAt + ?Sized> ReadAt for SampleBytes<'_, F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let from_prefix = self.prefix.read_at(buffer, offset);
        let position = (offset + from_prefix as u64).saturating_sub(self.prefix.len() as u64);
        let count = (buffer.len() - from_prefix).min(usize::try_from(self.size.saturating_sub(position)).unwrap_or(0));
        let Some(file_offset) = self.offset.checked_add(position) else { return from_prefix };
        from_prefix + self.file.read_at(&mut buffer[from_prefix..from_prefix + count], file_offset)
    }

    fn len(&self) -> u64 {
        self.size.saturating_add(self.prefix.len() as u64)
    }
}

/// The bytes from `offset`, at most `max_bytes`.
pub fn read_up_to(source: &SourceFile, offset: u64, max_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; max_bytes];
    let filled = source.read_blocking(&mut bytes, offset)?;
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_begins_with_its_stripped_bytes_and_ends_with_its_range() {
        let sample = SampleBytes { file: &b"0123456789"[..], prefix: b"ab", offset: 3, size: 4 };
        assert_eq!(sample.read_exact(0, 6).unwrap(), b"ab3456");
        assert_eq!(sample.read_exact(1, 3).unwrap(), b"b34");
        assert_eq!(sample.read_exact(3, 3).unwrap(), b"456");
        assert!(sample.read_exact(3, 4).is_err());
        assert_eq!(sample.read_at(&mut [0; 9], u64::MAX - 9), 0);
        let truncated = SampleBytes { size: u64::MAX, ..sample };
        assert_eq!(truncated.read_at(&mut [0; 20], 1), 8);
    }
}
