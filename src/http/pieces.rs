//! Streamed response bodies, optionally compressed with gzip: a long text is never in memory as a whole.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{ACCEPT_ENCODING, HeaderMap};
use warp::Reply;
use warp::reply::Response;

/// Approximate size of one piece, bytes.
pub const PIECE_BYTES: usize = 64 * 1024;

/// A response that streams the pieces.
pub fn stream(pieces: impl Iterator<Item = Bytes> + Send + Sync + 'static) -> Response {
    warp::reply::stream(stream::iter(pieces.map(Ok::<_, std::io::Error>))).into_response()
}

/// Compresses pieces with gzip (RFC 1952).
pub struct Gzip<I> {
    pieces: Option<I>,
    encoder: GzEncoder<Vec<u8>>,
}

impl<I: Iterator<Item = Bytes>> Gzip<I> {
    pub fn new(pieces: I) -> Self {
        // The fastest level: guides are so repetitive that a higher level gains little.
        Self { pieces: Some(pieces), encoder: GzEncoder::new(Vec::new(), Compression::fast()) }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Gzip<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while let Some(piece) = self.pieces.as_mut()?.next() {
            self.encoder.write_all(&piece).expect("writing to memory does not fail");
            if self.encoder.get_ref().len() >= PIECE_BYTES / 4 {
                return Some(std::mem::take(self.encoder.get_mut()).into());
            }
        }
        self.pieces = None;
        self.encoder.try_finish().expect("writing to memory does not fail");
        Some(std::mem::take(self.encoder.get_mut()).into())
    }
}

/// Whether a client accepts gzip (RFC 9110 section 12.5.3).
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let weight = |wanted: &str| {
        let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).find_map(|one| {
            let mut parts = one.split(';').map(str::trim);
            parts.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
            let q = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            Some(q.map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0)))
        })
    };
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_compressed_comes_out_again() {
        let pieces: Vec<Bytes> = (0..3000).map(|n| Bytes::from(format!("<programme {n}>").repeat(9))).collect();
        let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
        let packed: Vec<Bytes> = Gzip::new(pieces.into_iter()).collect();
        assert!(packed.len() > 1 && packed.iter().all(|piece| piece.len() < PIECE_BYTES));
        let packed: Vec<u8> = packed.concat();
        let mut seen = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut seen).unwrap();
        assert_eq!(seen, whole);
    }

    #[test]
    fn gzip_is_taken_when_it_is_listed_and_not_refused() {
        let takes = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            takes_gzip(&headers)
        };
        for yes in ["gzip", "deflate, GZIP;q=0.5", "*", "br;q=1.0, *;q=0.1", "identity, gzip; q=1"] {
            assert!(takes(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip;q=0.0, *", "*;q=0", "x-gzipped", "gzip;q=x"] {
            assert!(!takes(no), "{no}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
