//! Reads numbers from untrusted bytes.

/// Fewer bytes are available than a field states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// The records of a slice, each read by `take`, up to the first damaged one. A rest of fewer than `min_bytes` is ignored.
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
