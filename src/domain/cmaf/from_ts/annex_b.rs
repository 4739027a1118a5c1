//! NAL units of a byte stream (ITU-T H.264 and H.265 annex B).

/// The NAL units of an access unit, without start codes and trailing zeros. Bytes before the first start code are ignored.
pub fn nal_units(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = after_start_code(bytes);
    std::iter::from_fn(move || {
        let unit_and_rest = rest?;
        rest = after_start_code(unit_and_rest);
        let start_code_len = if rest.is_some() { 3 } else { 0 };
        let end = unit_and_rest.len() - rest.map_or(0, <[u8]>::len) - start_code_len;
        // A NAL unit never ends with a zero: that zero belongs to the next start code, or is `trailing_zero_8bits`.
        let unit = &unit_and_rest[..end];
        Some(&unit[..unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)])
    })
    .filter(|unit| !unit.is_empty())
}

/// The bytes after the first start code; None without one.
fn after_start_code(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    // The last byte of a start code is 1, and a byte above 1 is in none: most positions are skipped.
    while let Some(&third) = bytes.get(at + 2) {
        match third {
            0 => at += 1,
            1 if bytes[at] == 0 && bytes[at + 1] == 0 => return bytes.get(at + 3..),
            _ => at += 3,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn start_codes_of_both_lengths_are_removed() {
        let bytes = [7, 0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 0, 0, 3, 1, 0, 0, 0, 0, 1, 0x65, 1, 0, 0];
        assert_eq!(nal_units(&bytes).collect::<Vec<_>>(), [&[9, 0xf0][..], &[0x67, 0, 0, 3, 1], &[0x65, 1]]);
        assert_eq!(nal_units(&[0, 0, 1, 0, 0, 1]).count(), 0);
        assert_eq!(nal_units(&[0, 0, 2, 1]).count(), 0);
    }

    proptest! {
        #[test]
        fn units_read_back(
            units in proptest::collection::vec((any::<bool>(), proptest::collection::vec(2u8..9, 1..9)), 0..9), zeros in 0usize..3,
        ) {
            let mut bytes = vec![0; zeros];
            for (is_long, unit) in &units {
                bytes.extend(if *is_long { &[0, 0, 0, 1][..] } else { &[0, 0, 1] });
                bytes.extend(unit);
            }
            bytes.extend(vec![0; zeros]);
            prop_assert_eq!(nal_units(&bytes).collect::<Vec<_>>(), units.iter().map(|(_, unit)| &unit[..]).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(0u8..4, 0..60)) {
            for unit in nal_units(&bytes) {
                prop_assert!(!unit.is_empty() && !unit.ends_with(&[0]) && !unit.windows(3).any(|three| three == [0, 0, 1]));
            }
        }
    }
}
