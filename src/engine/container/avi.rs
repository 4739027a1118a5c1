//! AVI (Microsoft's AVI RIFF File Reference, OpenDML 1.02): whether a file has an index.

use super::bytes::ReadAt;

/// Chunks searched at the top of the file; few files have more than `hdrl`, `INFO`, `JUNK`, `movi` and `idx1`.
const MAX_CHUNKS: usize = 64;

/// Largest part of the header list that is searched for an OpenDML index.
const MAX_HEADER_BYTES: u64 = 256 * 1024;

/// Whether the file has an index: `idx1` after its frames, or `indx` of OpenDML in the header of a stream.
pub fn has_index(file: &(impl ReadAt + ?Sized)) -> bool {
    let mut position = 12;
    for _ in 0..MAX_CHUNKS {
        let Ok(head) = file.read_exact(position, 12) else { return false };
        let len = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        match (&head[..4], &head[8..]) {
            (b"idx1", _) => return len > 0,
            (b"LIST", b"hdrl") => {
                let headers = file.read_exact(position + 8, len.min(MAX_HEADER_BYTES) as usize).unwrap_or_default();
                if headers.windows(4).any(|name| name == b"indx") {
                    return true;
                }
            }
            _ => {}
        }
        position += 8 + len + (len & 1);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let padding = vec![0; body.len() % 2];
        [name, &(body.len() as u32).to_le_bytes()[..], body, &padding].concat()
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        [b"RIFF\0\0\0\0AVI ", &chunks.concat()[..]].concat()
    }

    #[test]
    fn both_kinds_of_index_are_found() {
        let header = chunk(b"LIST", b"hdrlavih");
        let frames = chunk(b"LIST", b"movi00dc\x01\0\0\0x");
        let index = chunk(b"idx1", &[0; 16]);
        assert!(has_index(&file(&[header.clone(), frames.clone(), index])[..]));
        assert!(has_index(&file(&[chunk(b"LIST", b"hdrlindx\0\0"), frames.clone()])[..]));
        assert!(!has_index(&file(&[header, frames])[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            has_index(&bytes[..]);
        }
    }
}
