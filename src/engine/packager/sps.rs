//! How many pictures a decoder must hold back to show them in order, by the sequence parameter set (ITU-T H.264 sections
//! 7.3.2.1.1 and E.1.1).

/// None where the set does not say, or cannot be read.
pub(super) fn reorder_depth(sps: &[u8]) -> Option<usize> {
    let bytes = unescaped(sps);
    let mut bits = Bits { bytes: bytes.get(1..)?, at: 0 };
    let profile = bits.take(8)?;
    bits.take(16)?;
    bits.golomb()?;
    if [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].contains(&profile) {
        bits.chroma_and_scaling()?;
    }
    bits.golomb()?;
    let order = bits.golomb()?;
    match order {
        0 => drop(bits.golomb()?),
        1 => {
            bits.take(1)?;
            bits.golomb()?;
            bits.golomb()?;
            for _ in 0..bits.golomb().filter(|&count| count < 256)? {
                bits.golomb()?;
            }
        }
        _ => {}
    }
    bits.golomb()?;
    bits.take(1)?;
    bits.golomb()?;
    bits.golomb()?;
    // Fields may come in packets of their own.
    if bits.take(1)? == 0 {
        return None;
    }
    bits.take(1)?;
    if bits.take(1)? == 1 {
        for _ in 0..4 {
            bits.golomb()?;
        }
    }
    let stated = if bits.take(1)? == 1 { bits.usability()? } else { None };
    // Order type 2 is the order of decoding.
    stated.or((order == 2).then_some(0)).filter(|&depth| depth <= 16)
}

/// Without the bytes that keep start codes out.
fn unescaped(unit: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(unit.len());
    let mut zeros = 0;
    for &byte in unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
    bytes
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }

    /// An unsigned exponential Golomb code; a signed one is as long.
    fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1u32 << zeros) - 1 + self.take(zeros)?)
    }

    fn signed(&mut self) -> Option<i64> {
        let code = i64::from(self.golomb()?);
        Some(if code % 2 == 1 { code / 2 + 1 } else { -(code / 2) })
    }

    fn chroma_and_scaling(&mut self) -> Option<()> {
        let chroma = self.golomb()?;
        if chroma == 3 {
            self.take(1)?;
        }
        self.golomb()?;
        self.golomb()?;
        self.take(1)?;
        if self.take(1)? == 1 {
            for list in 0..if chroma == 3 { 12 } else { 8 } {
                if self.take(1)? == 1 {
                    self.scaling(if list < 6 { 16 } else { 64 })?;
                }
            }
        }
        Some(())
    }

    fn scaling(&mut self, size: usize) -> Option<()> {
        let (mut last, mut next) = (8i64, 8i64);
        for _ in 0..size {
            if next != 0 {
                next = (last + self.signed()?).rem_euclid(256);
            }
            last = if next == 0 { last } else { next };
        }
        Some(())
    }

    /// Video usability information: its reordering depth, where it is restricted. The outer None: it is cut short.
    fn usability(&mut self) -> Option<Option<usize>> {
        if self.take(1)? == 1 && self.take(8)? == 255 {
            self.take(32)?;
        }
        if self.take(1)? == 1 {
            self.take(1)?;
        }
        if self.take(1)? == 1 {
            self.take(4)?;
            if self.take(1)? == 1 {
                self.take(24)?;
            }
        }
        if self.take(1)? == 1 {
            self.golomb()?;
            self.golomb()?;
        }
        if self.take(1)? == 1 {
            self.take(32)?;
            self.take(32)?;
            self.take(1)?;
        }
        let mut buffered = false;
        for _ in 0..2 {
            if self.take(1)? == 1 {
                self.buffering()?;
                buffered = true;
            }
        }
        if buffered {
            self.take(1)?;
        }
        self.take(1)?;
        if self.take(1)? == 0 {
            return Some(None);
        }
        self.take(1)?;
        for _ in 0..4 {
            self.golomb()?;
        }
        Some(Some(self.golomb()? as usize))
    }

    fn buffering(&mut self) -> Option<()> {
        let count = self.golomb().filter(|&count| count < 32)?;
        self.take(8)?;
        for _ in 0..=count {
            self.golomb()?;
            self.golomb()?;
            self.take(1)?;
        }
        self.take(20)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_depth_is_what_the_encoder_wrote() {
        // x264, High, 3 reordered pictures' worth of B-frames with a pyramid: two; Baseline with order type 2: none.
        let high = "6764001eacd940a02ff9610000030001000003003c0f162d96";
        let baseline = "6742c01ed901e0089f97011000000300100000030320f162e48080";
        let bytes = |text: &str| data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
        assert_eq!(reorder_depth(&bytes(high)), Some(2));
        assert_eq!(reorder_depth(&bytes(baseline)), Some(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(reorder_depth(&bytes).is_none_or(|depth| depth <= 16));
        }
    }
}
