//! The bytes of an imported guide, counted and limited.

use std::io::{self, BufRead};

/// Largest guide after decompression, bytes.
const MAX_DECOMPRESSED_BYTES: u64 = 256 << 20;

/// Largest piece of markup, or of text between markup, bytes.
const MAX_MARKUP_BYTES: usize = 1 << 20;

pub(super) struct LimitedReader<R> {
    inner: R,
    /// Bytes since the current piece of markup began.
    pub markup_bytes: usize,
    total_bytes: u64,
    /// The line that is read now, from 1.
    pub line: usize,
}

impl<R> LimitedReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, markup_bytes: 0, total_bytes: 0, line: 1 }
    }
}

impl<R: BufRead> BufRead for LimitedReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.markup_bytes > MAX_MARKUP_BYTES {
            return Err(io::Error::other("a tag or text is larger than 1 MiB"));
        }
        if self.total_bytes > MAX_DECOMPRESSED_BYTES {
            return Err(io::Error::other("it is larger than 256 MiB after decompression"));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Ok(bytes) = self.inner.fill_buf() {
            self.line += bytes[..amount.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count();
        }
        self.markup_bytes += amount;
        self.total_bytes += amount as u64;
        self.inner.consume(amount);
    }
}

impl<R: BufRead> io::Read for LimitedReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(to.len());
        to[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}
