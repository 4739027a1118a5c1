//! Reads numbers from untrusted bytes.

use super::refuse_if;
use crate::engine::source::SourceFile;

/// Fewer bytes are available than a field states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

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

/// The records of a slice, each read by `take`, up to the first damaged one. Fewer than `min_bytes` at the end are none.
pub fn records<'a, T>(
    bytes: &'a [u8],
    min_bytes: usize,
    take: impl Fn(&mut ByteCursor<'a>) -> Result<T, Truncated>,
) -> impl Iterator<Item = Result<T, Truncated>> {
    let mut rest = ByteCursor(bytes);
    std::iter::from_fn(move || {
        let found = (rest.0.len() >= min_bytes).then(|| take(&mut rest))?;
        if found.is_err() {
            rest.0 = &[];
        }
        Some(found)
    })
}

/// A reader of big-endian numbers over a slice.
#[derive(Clone, Copy, Debug)]
pub struct ByteCursor<'a>(pub &'a [u8]);

impl<'a> ByteCursor<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// A big-endian `u64` if `is_wide`, otherwise a `u32`.
    pub fn u32_or_u64(&mut self, is_wide: bool) -> Result<u64, Truncated> {
        if is_wide { self.u64() } else { self.u32().map(u64::from) }
    }
}
