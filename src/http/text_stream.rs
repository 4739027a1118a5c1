//! Streamed response bodies, optionally compressed with gzip: a long text is never in memory as a whole.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{ACCEPT_ENCODING, HeaderMap};
use warp::Reply;
use warp::reply::Response;

/// Approximate size of one chunk, bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks of a text. `write_next` appends its next piece, such as a programme, and returns false after the last one.
pub fn chunks(
    mut write_next: impl FnMut(&mut Vec<u8>) -> bool + Send + Sync + 'static,
) -> impl Iterator<Item = Bytes> + Send + Sync + 'static {
    let mut has_more = true;
    std::iter::from_fn(move || {
        let mut text = Vec::with_capacity(CHUNK_BYTES + 8 * 1024);
        while has_more && text.len() < CHUNK_BYTES {
            has_more = write_next(&mut text);
        }
        Some(Bytes::from(text)).filter(|text| !text.is_empty())
    })
}

pub fn streamed_response(chunks: impl Iterator<Item = Bytes> + Send + Sync + 'static) -> Response {
    warp::reply::stream(stream::iter(chunks.map(Ok::<_, std::io::Error>))).into_response()
}

/// Compresses chunks with gzip (RFC 1952).
pub struct GzipChunks<I> {
    chunks: Option<I>,
    encoder: GzEncoder<Vec<u8>>,
}

impl<I: Iterator<Item = Bytes>> GzipChunks<I> {
    pub fn new(chunks: I) -> Self {
        // The fastest level: guides are so repetitive that a higher level gains little.
        Self { chunks: Some(chunks), encoder: GzEncoder::new(Vec::new(), Compression::fast()) }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for GzipChunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while let Some(chunk) = self.chunks.as_mut()?.next() {
            self.encoder.write_all(&chunk).expect("writing to memory does not fail");
            if self.encoder.get_ref().len() >= CHUNK_BYTES / 4 {
                return Some(std::mem::take(self.encoder.get_mut()).into());
            }
        }
        self.chunks = None;
        self.encoder.try_finish().expect("writing to memory does not fail");
        Some(std::mem::take(self.encoder.get_mut()).into())
    }
}

/// Whether a client accepts a content coding, such as gzip (RFC 9110 section 12.5.3).
pub fn accepts_encoding(headers: &HeaderMap, name: &str) -> bool {
    let weight = |coding: &str| {
        let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).find_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            parts.next().filter(|name| name.eq_ignore_ascii_case(coding))?;
            let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            Some(quality.map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0)))
        })
    };
    weight(name).or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn gzip_chunks_decompress_to_the_original() {
        let chunks: Vec<Bytes> = (0..3000).map(|n| Bytes::from(format!("<programme {n}>").repeat(9))).collect();
        let original: Vec<u8> = chunks.iter().flatten().copied().collect();
        let compressed_chunks: Vec<Bytes> = GzipChunks::new(chunks.into_iter()).collect();
        assert!(compressed_chunks.len() > 1 && compressed_chunks.iter().all(|chunk| chunk.len() < CHUNK_BYTES));
        let compressed: Vec<u8> = compressed_chunks.concat();
        let mut decompressed = Vec::new();
        flate2::read::GzDecoder::new(compressed.as_slice()).read_to_end(&mut decompressed).unwrap();
        assert_eq!(decompressed, original);
    }

    #[test]
    fn gzip_is_accepted_if_listed_and_not_refused() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            accepts_encoding(&headers, "gzip")
        };
        for accepted in ["gzip", "deflate, GZIP;q=0.5", "*", "br;q=1.0, *;q=0.1", "identity, gzip; q=1"] {
            assert!(accepts(accepted), "{accepted}");
        }
        for refused in ["", "br", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "x-gzipped", "gzip;q=x"] {
            assert!(!accepts(refused), "{refused}");
        }
        assert!(!accepts_encoding(&HeaderMap::new(), "gzip"));
    }
}
