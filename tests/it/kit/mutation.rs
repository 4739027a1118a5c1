//! Repeatable damage to media files: flipped bytes, sizes of boxes and elements, cuts, blocks of other files.

use super::random::Random;

/// Values at which sizes and counts overflow, wrap or end a loop early.
const EXTREME_VALUES: [u32; 12] =
    [0, 1, 7, 8, 16, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff];

/// Identifiers of EBML elements whose size follows: header, segment, index, tags, tracks, cluster, groups and blocks.
const EBML_IDS: [&[u8]; 10] = [
    b"\x1a\x45\xdf\xa3",
    b"\x18\x53\x80\x67",
    b"\x11\x4d\x9b\x74",
    b"\x15\x49\xa9\x66",
    b"\x16\x54\xae\x6b",
    b"\x1f\x43\xb6\x75",
    b"\x1c\x53\xbb\x6b",
    b"\x63\xa2",
    b"\xa0",
    b"\xa3",
];

/// Bytes at both ends of a file that usually contain its headers and indexes.
const HEADER_BYTES: usize = 4096;

/// Kinds of damage, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    Flips,
    HeaderFlips,
    Sizes,
    Truncation,
    Splice,
    Fill,
}

const ALL: [Damage; 6] =
    [Damage::Flips, Damage::HeaderFlips, Damage::Sizes, Damage::Truncation, Damage::Splice, Damage::Fill];

/// Damages a file in the way of this number; the same number gives the same bytes. `other` is the file that blocks come from.
pub fn mutate(original: &[u8], other: &[u8], number: u64) -> (Damage, Vec<u8>) {
    let mut random = Random(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let damage = random.choose(&ALL);
    let mut bytes = original.to_vec();
    if bytes.is_empty() {
        return (damage, bytes);
    }
    match damage {
        Damage::Flips => {
            for _ in 0..=random.below(40) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
        Damage::HeaderFlips => {
            for _ in 0..=random.below(12) {
                let at = random.below(bytes.len().min(HEADER_BYTES));
                let at = if random.below(3) == 0 { bytes.len() - 1 - at } else { at };
                bytes[at] = random.choose(&[0, 1, 0x7f, 0x80, 0xff, bytes[at].wrapping_add(1)]);
            }
        }
        Damage::Sizes => {
            let places = size_fields(&bytes);
            for _ in 0..=random.below(3) {
                let at = if places.is_empty() { random.below(bytes.len()) } else { random.choose(&places) };
                set_size(&mut bytes, at, &mut random);
            }
        }
        Damage::Truncation => {
            let at = random.below(bytes.len());
            // The beginning, or in one case of four the end.
            if random.below(4) == 0 {
                bytes.drain(..at);
            } else {
                bytes.truncate(at);
            }
        }
        Damage::Splice => {
            for _ in 0..=random.below(3) {
                let source = if random.below(2) == 0 || other.is_empty() { original } else { other };
                let block = source[random.block(source.len(), 16 << 10)].to_vec();
                let at = random.below(bytes.len());
                // Inserted, or in place of as many bytes.
                let end = if random.below(2) == 0 { at } else { bytes.len().min(at + block.len()) };
                bytes.splice(at..end, block);
            }
        }
        Damage::Fill => {
            let block = random.block(bytes.len(), 8 << 10);
            let value = random.choose(&[0, 0xff, b'A']);
            bytes[block].fill(value);
        }
    }
    (damage, bytes)
}

/// Positions of sizes: before the name of a box, after an EBML identifier or the name of a RIFF chunk.
fn size_fields(bytes: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let is_name = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_alphanumeric() || b" -\xa9".contains(byte));
    for at in 0..bytes.len().saturating_sub(8) {
        if is_name(&bytes[at + 4..at + 8]) && bytes[at] < 8 {
            places.push(at);
        }
        if is_name(&bytes[at..at + 4]) && bytes[at + 7] < 8 {
            places.push(at + 4);
        }
        if let Some(id) = EBML_IDS.iter().find(|id| bytes[at..].starts_with(id)) {
            places.push(at + id.len());
        }
    }
    places
}

/// Overwrites a size by an extreme value, or by one that is wrong by a few.
fn set_size(bytes: &mut [u8], at: usize, random: &mut Random) {
    let end = bytes.len().min(at + 4);
    let Some(field) = bytes.get_mut(at..end).and_then(|field| field.first_chunk_mut::<4>()) else { return };
    let old = u32::from_be_bytes(*field);
    let value = match random.below(3) {
        0 => old.wrapping_add(random.choose(&[1, 4, u32::MAX, u32::MAX - 3])),
        _ => random.choose(&EXTREME_VALUES),
    };
    *field = if random.below(4) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
}

#[test]
fn a_number_always_gives_the_same_damage_and_all_kinds_occur() {
    let (original, other) = (vec![7; 5000], vec![9; 300]);
    let mut kinds = std::collections::BTreeSet::new();
    for number in 0..100 {
        let (damage, bytes) = mutate(&original, &other, number);
        assert_eq!(mutate(&original, &other, number), (damage, bytes.clone()));
        assert!(bytes != original || damage == Damage::Splice, "{damage:?} {number} changes nothing");
        kinds.insert(damage);
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ALL);
    for tiny in [&[][..], &[1], &[1, 2, 3]] {
        (0..100).for_each(|number| drop(mutate(tiny, tiny, number)));
    }
}
