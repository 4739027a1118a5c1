//! Formats of media segments (RFC 8216 section 3.1, draft-pantos-hls-rfc8216bis section 3.1).

named_values! {
    #[derive(Default)]
    pub enum SegmentFormat {
        #[default]
        MpegTs = "mpeg-ts",
        /// CMAF: fragmented MP4 of one track (`domain::cmaf`), which needs an init segment.
        Fmp4 = "fmp4",
        WebVtt = "web-vtt",
    }
}

impl SegmentFormat {
    pub fn is_mpeg_ts(&self) -> bool {
        *self == Self::MpegTs
    }

    pub fn extension(self) -> &'static str {
        match self {
            Self::MpegTs => "ts",
            Self::Fmp4 => "m4s",
            Self::WebVtt => "vtt",
        }
    }

    /// The content type of segments that contain video, or text.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::MpegTs => "video/mp2t",
            Self::Fmp4 => "video/mp4",
            Self::WebVtt => "text/vtt; charset=utf-8",
        }
    }

    /// The content type of segments that contain audio alone.
    pub fn audio_content_type(self) -> &'static str {
        if self == Self::Fmp4 { "audio/mp4" } else { self.content_type() }
    }
}
