//! Frames of the protocol `media-worker`: length of the body (`u32`, little-endian), kind (`u8`), job (`u32`), body. The body
//! of control frames is JSON, that of `Piece` raw bytes.

/// Largest body, bytes.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// Largest body of a `Piece`, bytes.
pub const MAX_PIECE_BYTES: usize = 256 << 10;

/// Length of a header, bytes.
pub const HEADER_BYTES: usize = 9;

/// Kinds from here on may be skipped by a receiver that does not know them.
const FIRST_OPTIONAL_KIND: u8 = 0x80;

/// A kind for each number, and the conversion from the number.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal,)+) => {
        /// The kind of a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum FrameKind { $($(#[$doc])* $kind = $number),+ }

        impl FrameKind {
            fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)+
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Both ways, first: name, version and build.
    Hello = 1,
    /// To the worker: work, with its descriptors beside the first byte.
    Job = 2,
    /// To the worker: the last segment that the run may make.
    Gate = 3,
    /// To the worker: end the job.
    Cancel = 4,
    /// To the worker: a question about its pipelines.
    Ask = 5,
    /// To the server, four times a second: progress and stage.
    Beat = 16,
    /// To the server: a segment begins, with its index and length.
    Segment = 17,
    /// To the server: bytes of the segment, or of the stream.
    Piece = 18,
    /// To the server: the result of a job that makes no segments.
    Report = 19,
    /// To the server: the answer to a question.
    Answer = 20,
    /// To the server: a line of the log.
    Log = 21,
    /// To the server: the job failed, with the error.
    Failed = 22,
    /// To the server: the job is complete.
    Done = 23,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the body, bytes.
    pub body_bytes: usize,
    /// None for an optional kind that this version does not know: the body is skipped.
    pub kind: Option<FrameKind>,
    /// Number of the job; 0 outside a job.
    pub job: u32,
}

/// Why a header is refused. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    #[error("frames of kind {0} are unknown")]
    UnknownKind(u8),
}

impl FrameHeader {
    pub fn new(kind: FrameKind, job: u32, body_bytes: usize) -> Self {
        Self { body_bytes, kind: Some(kind), job }
    }

    /// Parses a header, before anything is allocated for its body.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [l0, l1, l2, l3, kind, j0, j1, j2, j3] = bytes;
        let body_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if body_bytes > MAX_BODY_BYTES {
            return Err(FrameError::TooLong(body_bytes));
        }
        let known_kind = FrameKind::from_number(kind);
        if known_kind.is_none() && kind < FIRST_OPTIONAL_KIND {
            return Err(FrameError::UnknownKind(kind));
        }
        Ok(Self { body_bytes, kind: known_kind, job: u32::from_le_bytes([j0, j1, j2, j3]) })
    }

    /// The bytes of a header of a known kind.
    pub fn to_bytes(kind: FrameKind, job: u32, body_bytes: usize) -> [u8; HEADER_BYTES] {
        debug_assert!(body_bytes <= MAX_BODY_BYTES, "bodies are split before");
        let [l0, l1, l2, l3] = u32::try_from(body_bytes).unwrap_or(u32::MAX).to_le_bytes();
        let [j0, j1, j2, j3] = job.to_le_bytes();
        [l0, l1, l2, l3, kind as u8, j0, j1, j2, j3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        for (kind, job, length) in [
            (FrameKind::Hello, 0, 0),
            (FrameKind::Piece, 7, MAX_PIECE_BYTES),
            (FrameKind::Done, u32::MAX, MAX_BODY_BYTES),
        ] {
            let parsed = FrameHeader::parse(FrameHeader::to_bytes(kind, job, length)).unwrap();
            assert_eq!(parsed, FrameHeader::new(kind, job, length));
        }
    }

    #[test]
    fn hostile_headers_are_refused_before_their_body() {
        let mut too_long = FrameHeader::to_bytes(FrameKind::Piece, 1, 0);
        too_long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(FrameHeader::parse(too_long), Err(FrameError::TooLong(u32::MAX as usize)));
        let with_kind = |kind: u8| {
            let mut bytes = FrameHeader::to_bytes(FrameKind::Piece, 1, 3);
            bytes[4] = kind;
            FrameHeader::parse(bytes)
        };
        assert_eq!(with_kind(0), Err(FrameError::UnknownKind(0)));
        assert_eq!(with_kind(0x7f), Err(FrameError::UnknownKind(0x7f)));
        assert_eq!(with_kind(0x80).map(|header| header.kind), Ok(None), "optional kinds are skipped");
    }
}
