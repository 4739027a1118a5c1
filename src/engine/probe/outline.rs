//! Reads the headers of containers with our own small readers.
//!
//! They handle the usual case only. When in doubt they give up, and ffprobe runs.

use crate::domain::media::Media;
use crate::domain::time::FrameRate;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::Truncated;
pub(super) use crate::engine::container::refuse_if;

/// A file as its container describes it.
#[derive(Debug)]
pub(super) struct ContainerOutline {
    /// Without streams, MIME type and bit rate.
    pub media: Media,
    pub duration_seconds: f64,
    pub tracks: Vec<OutlineTrack>,
}

/// One track, in the order of ffmpeg's stream numbers.
#[derive(Debug, Default)]
pub(super) struct OutlineTrack {
    pub index: u32,
    /// The container's track number, which the discoverer's stream ids contain.
    pub container_id: u64,
    pub kind: OutlineTrackKind,
    /// ffmpeg's name.
    pub codec: &'static str,
    /// The decoder's configuration record.
    pub config: Vec<u8>,
    /// The first bytes of the first frame; empty if the reader reads no frames.
    pub first_frame: Vec<u8>,
    pub language: Option<String>,
    pub title: Option<String>,
    pub is_default: bool,
    pub is_forced: bool,
    pub is_commentary: bool,
    pub is_hearing_impaired: bool,
    pub bitrate_kbps: Option<u32>,
    pub frame_rate: Option<FrameRate>,
    pub has_variable_frame_rate: bool,
    pub base_frame_rate: Option<FrameRate>,
    pub rotation: u16,
    pub is_mirrored: bool,
    /// Frame size that the container states, pixels; 0 if it does not.
    pub width: u32,
    pub height: u32,
    /// Codec delay of Matroska: audio that is decoded and dropped at the start, milliseconds.
    pub delay_ms: f64,
    /// Whether sample values use the full range; None if the container does not state it.
    pub full_range: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OutlineTrackKind {
    Video,
    Audio,
    TextSubtitle,
    BitmapSubtitle,
    #[default]
    Data,
}

impl OutlineTrackKind {
    /// Video and audio; other streams do not count for start and duration.
    pub fn is_played(self) -> bool {
        matches!(self, Self::Video | Self::Audio)
    }
}

/// A result of our readers. The error is the reason why one gave up, so that ffprobe has to run.
pub(super) type Result<T, E = &'static str> = std::result::Result<T, E>;

impl From<Truncated> for &'static str {
    fn from(_: Truncated) -> Self {
        "a field is truncated"
    }
}

impl From<ContainerError> for &'static str {
    fn from(error: ContainerError) -> Self {
        error.reason()
    }
}

/// A big-endian number of up to eight bytes.
pub(super) fn parse_uint(bytes: &[u8], offset: usize, size: usize) -> Result<u64> {
    let bytes = offset.checked_add(size).and_then(|end| bytes.get(offset..end)).ok_or(Truncated)?;
    Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The usual frame rate within 0.05 % of the measured rate, if there is one.
pub(super) fn nearest_usual_rate(measured: f64) -> Option<FrameRate> {
    let whole_rates = [15, 24, 25, 30, 48, 50, 60, 120].map(|rate| (rate, 1));
    let ntsc_rates = [24_000, 30_000, 60_000].map(|rate| (rate, 1001));
    whole_rates
        .into_iter()
        .chain(ntsc_rates)
        .filter_map(|(num, den)| FrameRate::new(num, den))
        .min_by(|a, b| (a.as_f64() - measured).abs().total_cmp(&(b.as_f64() - measured).abs()))
        .filter(|rate| (rate.as_f64() / measured - 1.0).abs() < 0.0005)
}
