//! Formats of media segments (RFC 8216 section 3.1, draft-pantos-hls-rfc8216bis section 3.1).

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentFormat {
    MpegTs,
    /// A fragment of CMAF, which needs an init segment.
    Fmp4,
    WebVtt,
}

impl SegmentFormat {
    pub fn extension(self) -> &'static str {
        match self {
            Self::MpegTs => "ts",
            Self::Fmp4 => "m4s",
            Self::WebVtt => "vtt",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::MpegTs => "video/mp2t",
            Self::Fmp4 => "video/iso.segment",
            Self::WebVtt => "text/vtt; charset=utf-8",
        }
    }
}
