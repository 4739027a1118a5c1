//! The probe result of a file. Serialisable, because it is cached by fingerprint.

use serde::{Deserialize, Serialize};

use super::mpegts::clock_jumps::ClockSection;
use super::time::{FrameRate, round_to_ms};

mod language;
mod track_language;

pub use language::{language_tag, terminology_code};
pub use track_language::TrackLanguage;

/// Raised whenever the meaning of a cached probe changes.
pub const PROBE_VERSION: u32 = 7;

/// Longest plausible duration, seconds. Playlists list every segment, so a longer one would exhaust the memory.
const MAX_DURATION_SECONDS: f64 = 7.0 * 86_400.0;

named_values! {
    /// Container family by the bytes of the file, never by its name.
    #[derive(Default)]
    pub enum Container {
        Mp4 = "mp4",
        Matroska = "matroska",
        Webm = "webm",
        MpegTs = "mpeg-ts",
        MpegPs = "mpeg-ps",
        Avi = "avi",
        Flv = "flv",
        Asf = "asf",
        Ogg = "ogg",
        Wav = "wav",
        Flac = "flac",
        Mp3 = "mp3",
        Adts = "adts",
        Ac3 = "ac3",
        Aiff = "aiff",
        WavPack = "wav-pack",
        #[default]
        Other = "other",
    }
}

/// One media file, as probed. Times are source times: 0 is the start of the file's programme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Media {
    pub container: Container,
    /// From the bytes, e.g. `video/mp4`, `audio/mp4`, `video/x-matroska`.
    pub mime_type: String,
    /// Seconds; None if it cannot be known.
    pub duration_seconds: Option<f64>,
    /// First timestamp of the file in its own clock, seconds; subtract it to get source time.
    pub start_seconds: f64,
    /// The continuous pieces of a transport stream whose clock jumps, or the links of a chained Ogg file. Empty if the clock
    /// is continuous from `start_seconds`.
    #[serde(rename = "clock", default, skip_serializing_if = "Vec::is_empty")]
    pub clock_pieces: Vec<ClockSection>,
    pub bitrate_kbps: Option<u32>,
    #[serde(rename = "seekable")]
    pub is_seekable: bool,
    /// Average keyframe interval of the first video stream, seconds; None if the file has no keyframe table.
    pub keyframe_interval_seconds: Option<f64>,
    pub streams: Vec<Stream>,
    pub chapters: Vec<Chapter>,
    pub attachments: Vec<Attachment>,
    pub tags: Tags,
    pub warnings: Vec<String>,
}

/// One elementary stream. `index` is ffmpeg's index (`-map 0:<index>`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    pub index: u32,
    /// Lower-case ffmpeg codec name (`h264`, `hevc`, `aac`, `ac3`, `subrip` …); `unknown` without one.
    pub codec: String,
    /// RFC 6381, for `MediaSource.isTypeSupported`.
    pub codec_string: Option<String>,
    pub profile: Option<String>,
    pub level: Option<String>,
    pub bitrate_kbps: Option<u32>,
    /// As in the file (often ISO 639-2).
    pub language: Option<String>,
    pub title: Option<String>,
    #[serde(rename = "default")]
    pub is_default: bool,
    #[serde(rename = "forced")]
    pub is_forced: bool,
    /// False if this server cannot decode it.
    #[serde(rename = "decodable")]
    pub is_decodable: bool,
    pub kind: StreamKind,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum StreamKind {
    Video(Video),
    Audio(Audio),
    Subtitle(Subtitle),
    /// Timed metadata, attached pictures and the like: never played, listed for completeness.
    #[default]
    Data,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Video {
    /// Coded size in pixels, before rotation and pixel aspect.
    pub width: u32,
    pub height: u32,
    /// Sample (pixel) aspect ratio; (1, 1) when unknown.
    pub sample_aspect: (u32, u32),
    /// Average frame rate; None when unknown.
    pub frame_rate: Option<FrameRate>,
    #[serde(rename = "variable_frame_rate")]
    pub has_variable_frame_rate: bool,
    /// Of a variable frame rate, the usual rate at which most frames follow each other: of a recording with frames missing, that
    /// of its camera. None if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_frame_rate: Option<FrameRate>,
    #[serde(rename = "interlaced")]
    pub is_interlaced: bool,
    pub bit_depth: u8,
    /// `4:2:0`, `4:2:2`, `4:4:4` or `4:0:0`; empty if no frame could be decoded.
    pub chroma: String,
    /// Clockwise rotation a player must apply, degrees: 0, 90, 180, 270.
    pub rotation: u16,
    /// Mirrored left to right, applied before the rotation.
    #[serde(rename = "mirrored")]
    pub is_mirrored: bool,
    pub hdr: Option<Hdr>,
    pub color: Color,
    /// The configuration of Dolby Vision that the container states, also over a base layer that other decoders show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dolby_vision: Option<DolbyVision>,
}

/// A configuration of Dolby Vision ("Dolby Vision Streams Within the ISO Base Media File Format" 2.4 section 3.2; the same
/// fields are in the descriptor of transport streams, "Dolby Vision Streams Within the MPEG-2 Transport Stream Format" 1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DolbyVision {
    pub profile: u8,
    pub level: u8,
    #[serde(rename = "rpu")]
    pub has_metadata: bool,
    #[serde(rename = "enhancement_layer")]
    pub has_enhancement_layer: bool,
    #[serde(rename = "base_layer")]
    pub has_base_layer: bool,
    /// `dv_bl_signal_compatibility_id`: what the base layer is to other decoders.
    pub compatibility: u8,
}

impl DolbyVision {
    /// The DOVIDecoderConfigurationRecord of 24 bytes.
    pub fn record(&self) -> [u8; 24] {
        let mut record = [0; 24];
        record[..5].copy_from_slice(&[
            1,
            0,
            self.profile << 1 | self.level >> 5 & 1,
            self.level << 3
                | u8::from(self.has_metadata) << 2
                | u8::from(self.has_enhancement_layer) << 1
                | u8::from(self.has_base_layer),
            self.compatibility << 4,
        ]);
        record
    }
}

named_values! {
    pub enum Hdr {
        Hdr10 = "hdr10",
        Hlg = "hlg",
        DolbyVision = "dolby-vision",
    }
}

/// Names as ffmpeg gives them (`bt709`, `smpte2084` …).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Color {
    pub primaries: Option<String>,
    pub transfer: Option<String>,
    pub matrix: Option<String>,
    /// `limited` or `full`.
    pub range: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audio {
    pub channels: u32,
    pub channel_layout: Option<String>,
    pub sample_rate: u32,
    pub bit_depth: Option<u8>,
    #[serde(rename = "commentary")]
    pub is_commentary: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subtitle {
    #[serde(rename = "text")]
    pub is_text: bool,
    #[serde(rename = "hearing_impaired")]
    pub is_hearing_impaired: bool,
}

/// The codec of DVB teletext (ETSI EN 300 472). Listed with the subtitles, where viewers expect it.
pub const TELETEXT: &str = "dvb_teletext";

impl Stream {
    /// A decodable stream with nothing else known.
    pub fn new(index: u32, codec: &str, kind: StreamKind) -> Self {
        Self { index, codec: codec.to_owned(), is_decodable: true, kind, ..Self::default() }
    }
}

impl Video {
    /// Width and height as it is shown: square pixels, upright.
    pub fn display_size(&self) -> (f64, f64) {
        let (num, den) = self.sample_aspect;
        let aspect = f64::from(num.max(1)) / f64::from(den.max(1));
        let (width, height) = (f64::from(self.width.max(1)) * aspect, f64::from(self.height.max(1)));
        if matches!(self.rotation, 90 | 270) { (height, width) } else { (width, height) }
    }

    /// The common case: 8 bits, 4:2:0, square pixels, progressive, upright, unknown rate and colour.
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, sample_aspect: (1, 1), bit_depth: 8, chroma: "4:2:0".to_owned(), ..Self::default() }
    }

    /// Whether its colours, once in limited range, are those of BT.709: by its colour description; without one, by its
    /// height. RGB (`gbr`) is converted to BT.709.
    pub fn uses_bt709(&self) -> bool {
        match self.color.matrix.as_deref() {
            Some("bt709" | "gbr") => true,
            Some("bt470bg" | "smpte170m" | "bt601") => false,
            _ => self.height > 576,
        }
    }

    /// Whether it is RGB.
    pub fn is_rgb(&self) -> bool {
        self.color.matrix.as_deref() == Some("gbr")
    }
}

impl Audio {
    /// Audio with nothing else known; the rate in Hz.
    pub fn new(channels: u32, sample_rate: u32) -> Self {
        Self { channels, channel_layout: None, sample_rate, bit_depth: None, is_commentary: false }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chapter {
    pub title: Option<String>,
    pub start_seconds: f64,
    pub end_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    pub file_name: Option<String>,
    pub mime_type: Option<String>,
}

impl Attachment {
    /// Whether it is declared to be a font. Programs used many types before `font/…` (RFC 8081).
    pub fn is_font(&self) -> bool {
        let kind = self.mime_type.as_deref().unwrap_or_default().to_ascii_lowercase();
        let name = self.file_name.as_deref().unwrap_or_default().to_ascii_lowercase();
        kind.starts_with("font/")
            || ["truetype", "opentype", "x-font", "font-sfnt"].iter().any(|word| kind.contains(word))
            || (kind == "application/octet-stream" && [".ttf", ".otf", ".ttc"].iter().any(|end| name.ends_with(end)))
    }
}

/// The type of a font by its first four bytes (RFC 8081); None if it is not a font.
pub fn font_type(magic: [u8; 4]) -> Option<&'static str> {
    match &magic {
        [0, 1, 0, 0] | b"true" => Some("font/ttf"),
        b"OTTO" => Some("font/otf"),
        b"ttcf" => Some("font/collection"),
        b"wOFF" => Some("font/woff"),
        b"wOF2" => Some("font/woff2"),
        _ => None,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tags {
    pub title: Option<String>,
    pub artist: Option<String>,
    pub album: Option<String>,
    pub date: Option<String>,
}

impl Media {
    /// A seekable file with nothing known but its streams.
    pub fn new(container: Container, streams: Vec<Stream>) -> Self {
        Self { container, is_seekable: true, streams, ..Self::default() }
    }

    /// Treats an implausible duration as unknown.
    pub fn limit_duration(&mut self) {
        let Some(seconds) = self.duration_seconds.filter(|seconds| !(0.0..=MAX_DURATION_SECONDS).contains(seconds))
        else {
            return;
        };
        self.warnings.push(format!("the duration is unknown: {} s are implausible", round_to_ms(seconds)));
        // The bit rate was computed from the duration.
        (self.duration_seconds, self.bitrate_kbps, self.is_seekable) = (None, None, false);
    }

    pub fn stream(&self, index: u32) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.index == index)
    }

    pub fn video_streams(&self) -> impl Iterator<Item = (&Stream, &Video)> {
        self.streams.iter().filter_map(|stream| match &stream.kind {
            StreamKind::Video(video) => Some((stream, video)),
            _ => None,
        })
    }

    /// ffmpeg's index of the embedded cover: an attached image.
    pub fn cover_stream(&self) -> Option<u32> {
        let is_image = |stream: &&Stream| {
            matches!(stream.kind, StreamKind::Data) && matches!(stream.codec.as_str(), "mjpeg" | "png")
        };
        self.streams.iter().find(is_image).map(|stream| stream.index)
    }

    pub fn audio_streams(&self) -> impl Iterator<Item = (&Stream, &Audio)> {
        self.streams.iter().filter_map(|stream| match &stream.kind {
            StreamKind::Audio(audio) => Some((stream, audio)),
            _ => None,
        })
    }

    pub fn subtitle_streams(&self) -> impl Iterator<Item = (&Stream, &Subtitle)> {
        self.streams.iter().filter_map(|stream| match &stream.kind {
            StreamKind::Subtitle(subtitle) => Some((stream, subtitle)),
            _ => None,
        })
    }
}
