//! Formats of media segments (RFC 8216 section 3.1).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFormat {
    MpegTs,
    WebVtt,
}

impl SegmentFormat {
    pub fn extension(self) -> &'static str {
        match self {
            Self::MpegTs => "ts",
            Self::WebVtt => "vtt",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::MpegTs => "video/mp2t",
            Self::WebVtt => "text/vtt; charset=utf-8",
        }
    }
}
