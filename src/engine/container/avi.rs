//! AVI (Microsoft's AVI RIFF File Reference, OpenDML 1.02): whether a file has an index, and the video frames in it.

use super::bytes::ReadAt;
use super::{ContainerError, refuse_if};

/// Chunks searched at the top of the file; few files have more than `hdrl`, `INFO`, `JUNK`, `movi` and `idx1`.
const MAX_CHUNKS: usize = 64;

/// Largest part of the header list that is searched for an OpenDML index.
const MAX_HEADER_BYTES: u64 = 256 * 1024;

/// Largest index read, bytes: some ten hours of video and audio.
const MAX_INDEX_BYTES: u64 = 32 << 20;

/// `AVIIF_KEYFRAME`.
const KEYFRAME_FLAG: u32 = 0x10;

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

/// The frames of a video stream, as `idx1` lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoFrames {
    /// Duration of a frame: `scale` / `rate` seconds.
    pub scale: u32,
    pub rate: u32,
    /// In the order of decoding, one for each frame duration.
    pub frames: Vec<IndexedFrame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedFrame {
    /// Offset of its bytes in the file.
    pub offset: u64,
    /// 0 if the previous frame is shown again.
    pub len: u32,
    pub is_keyframe: bool,
}

/// Reads the index of the video stream at this position among the video streams.
///
/// # Errors
/// That the file has no complete `idx1` or several RIFF chunks (OpenDML), or that its headers are damaged.
pub fn read_video_frames(file: &(impl ReadAt + ?Sized), position: usize) -> Result<VideoFrames, ContainerError> {
    let (mut streams, mut movi, mut index) = (Vec::new(), None, None);
    let mut at = 12;
    for _ in 0..MAX_CHUNKS {
        let Ok(head) = file.read_exact(at, 12) else { break };
        let len = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        match (&head[..4], &head[8..]) {
            (b"RIFF", _) => return Err(ContainerError::Unsupported("an AVI file of several RIFF chunks")),
            (b"LIST", b"hdrl") => {
                streams =
                    stream_headers(&file.read_exact(at + 12, len.min(MAX_HEADER_BYTES).saturating_sub(4) as usize)?);
            }
            (b"LIST", b"movi") => movi = Some(at + 8),
            (b"idx1", _) => {
                let is_too_large = len > MAX_INDEX_BYTES;
                refuse_if(is_too_large, ContainerError::Unsupported("the AVI index is too large"))?;
                index = Some(file.read_exact(at + 8, len as usize)?);
            }
            _ => {}
        }
        at += 8 + len + (len & 1);
    }
    let (Some(movi), Some(index)) = (movi, index) else {
        return Err(ContainerError::Unsupported("the AVI file has no index"));
    };
    let mut videos = streams.iter().enumerate().filter(|(_, header)| header.is_video);
    let (number, header) =
        videos.nth(position).ok_or(ContainerError::Unsupported("the AVI file has no such stream"))?;
    let is_usable = header.scale > 0 && header.rate > 0 && header.start == 0 && number < 100;
    refuse_if(!is_usable, ContainerError::Unsupported("the frame rate of the AVI file is unusable"))?;
    let entries = index.as_chunks::<16>().0;
    let word =
        |entry: &[u8; 16], at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
    // Offsets count from the list's type, or from the beginning of the file.
    let is_relative = entries
        .first()
        .is_some_and(|first| file.read_exact(movi + u64::from(word(first, 8)), 4).is_ok_and(|id| id == first[..4]));
    let base = if is_relative { movi } else { 0 };
    let digits = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
    let own = entries.iter().filter(|entry| entry.starts_with(&digits) && matches!(&entry[2..4], b"dc" | b"db"));
    let frames = own.map(|entry| IndexedFrame {
        offset: base + u64::from(word(entry, 8)) + 8,
        len: word(entry, 12),
        is_keyframe: word(entry, 4) & KEYFRAME_FLAG != 0,
    });
    Ok(VideoFrames { scale: header.scale, rate: header.rate, frames: frames.collect() })
}

/// The fields of a stream header (`strh`).
#[derive(Clone, Copy, Debug, Default)]
struct StreamHeader {
    is_video: bool,
    scale: u32,
    rate: u32,
    start: u32,
}

/// The headers of the streams in a header list.
fn stream_headers(list: &[u8]) -> Vec<StreamHeader> {
    let stream_lists = chunks(list).filter_map(|(id, body)| body.strip_prefix(b"strl").filter(|_| id == b"LIST"));
    let header = |list| {
        let (_, body) = chunks(list).find(|(id, _)| *id == b"strh")?;
        let word = |at: usize| body.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let is_video = body.starts_with(b"vids");
        Some(StreamHeader { is_video, scale: word(20)?, rate: word(24)?, start: word(28)? })
    };
    stream_lists.map(|list| header(list).unwrap_or_default()).collect()
}

/// The chunks in these bytes, up to the first truncated one.
fn chunks(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (id, rest) = bytes.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        bytes = rest.get(body.len() % 2..).unwrap_or_default();
        Some((id, body))
    })
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

    /// A file of an audio stream and a video stream of 25 fps, with these index entries: id, flags, offset, length.
    fn indexed_file(entries: &[(&[u8; 4], u32, u32, u32)]) -> Vec<u8> {
        let header = |kind: &[u8; 4], scale: u32, rate: u32| {
            let words = [0, 0, 0, 0, scale, rate, 0].map(u32::to_le_bytes).concat();
            chunk(b"LIST", &[b"strl", &chunk(b"strh", &[kind, &words[..]].concat())[..]].concat())
        };
        let headers = [header(b"auds", 1, 8000), header(b"vids", 1, 25)].concat();
        let headers = chunk(b"LIST", &[b"hdrl", &headers[..]].concat());
        let frames = chunk(b"LIST", &[&b"movi"[..], &chunk(b"01dc", b"first"), &chunk(b"01dc", b"second")].concat());
        let entry = |(id, flags, offset, len): &(&[u8; 4], u32, u32, u32)| {
            [&id[..], &flags.to_le_bytes(), &offset.to_le_bytes(), &len.to_le_bytes()].concat()
        };
        file(&[headers, frames, chunk(b"idx1", &entries.iter().flat_map(entry).collect::<Vec<u8>>())])
    }

    #[test]
    fn the_frames_of_a_video_stream_are_listed() {
        let listed = |file: &[u8]| {
            let video = read_video_frames(file, 0).unwrap();
            assert_eq!((video.scale, video.rate), (1, 25));
            let bytes = |frame: &IndexedFrame| file[frame.offset as usize..][..frame.len as usize].to_vec();
            video.frames.iter().map(|frame| (bytes(frame), frame.is_keyframe)).collect::<Vec<_>>()
        };
        let expected = [(b"first".to_vec(), true), (Vec::new(), false), (b"second".to_vec(), false)];
        let relative =
            indexed_file(&[(b"01dc", 0x10, 4, 5), (b"00wb", 0x10, 4, 5), (b"01dc", 0, 4, 0), (b"01dc", 0, 18, 6)]);
        assert_eq!(listed(&relative), expected);
        let movi = relative.windows(4).position(|name| name == b"movi").unwrap() as u32;
        let absolute =
            indexed_file(&[(b"01dc", 0x10, movi + 4, 5), (b"01dc", 0, movi + 4, 0), (b"01dc", 0, movi + 18, 6)]);
        assert_eq!(listed(&absolute), expected);
        assert!(read_video_frames(&relative[..], 1).is_err(), "one video stream");
        assert!(read_video_frames(&relative[..relative.len() - 1], 0).is_err(), "a truncated index");
        let joined = [&relative[..], b"RIFF\x04\0\0\0AVIX"].concat();
        assert!(read_video_frames(&joined[..], 0).is_err(), "OpenDML");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            has_index(&bytes[..]);
            let _ = read_video_frames(&bytes[..], 0);
        }

        #[test]
        fn a_damaged_header_is_read_without_panic(at in 0usize..300, byte in any::<u8>()) {
            let mut file = indexed_file(&[(b"01dc", 0x10, 4, 5), (b"01dc", 0, 18, 6)]);
            let at = at % file.len();
            file[at] = byte;
            let _ = read_video_frames(&file[..], 0);
        }
    }
}
