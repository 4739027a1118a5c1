//! The body of a start, read and checked.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::playback::{DeviceProfile, RUNGS};
use crate::domain::time::round_ms;
use crate::error::{Error, Result};
use crate::service::planner::{StartRequest, SubtitleRequest};

/// Body of a start. Only `mediaPath` is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartBody {
    #[schema(example = "/library/movies/Example (2020).mkv")]
    media_path: Option<String>,
    /// Index of an audio stream; absent or null = the default track.
    audio_stream_index: Option<u32>,
    #[schema(minimum = 0, default = 0)]
    start_position_seconds: Option<f64>,
    profile: Option<ProfileBody>,
    /// `none`, `embedded`, `external` or `burn`; default `embedded` with a `subtitleStreamIndex`, else `none`.
    subtitle_mode: Option<String>,
    subtitle_stream_index: Option<u32>,
    /// A text subtitle file of the library, for `external` and `burn`; absent with `external` = the default one of those
    /// beside the item, else the first that is neither forced nor for the hearing impaired.
    subtitle_path: Option<String>,
    force_transcode: Option<bool>,
    #[schema(value_type = Option<Object>)]
    device_profile: Option<DeviceProfile>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ProfileBody {
    /// `original`, `2160p`, `1440p`, `1080p`, `720p`, `480p`, `360p` or `240p`.
    #[schema(default = "original")]
    resolution: Option<String>,
    max_bitrate_kbps: Option<u32>,
    max_audio_channels: Option<u32>,
    /// List every rung up to the resolution asked for, for a player that changes between them.
    #[schema(default = false)]
    abr: Option<bool>,
}

impl StartBody {
    /// # Errors
    /// `VALIDATION_ERROR` with the first field that cannot be meant.
    pub(super) fn into_request(self) -> Result<StartRequest> {
        let media_path = self.media_path.ok_or_else(|| Error::field("mediaPath", "is required"))?;
        let start_seconds = self.start_position_seconds.unwrap_or(0.0);
        if !start_seconds.is_finite() || start_seconds < 0.0 {
            return Err(Error::field("startPositionSeconds", "must be a number of at least 0"));
        }
        let profile = self.profile.unwrap_or_default();
        let max_height = match profile.resolution.as_deref() {
            None | Some("original") => None,
            Some(label) => {
                let rung = RUNGS.iter().find(|(known, ..)| *known == label);
                let known = || Error::field("profile.resolution", format!("{:?} is no known label", clipped(label)));
                Some(rung.ok_or_else(known)?.1)
            }
        };
        if profile.max_bitrate_kbps == Some(0) {
            return Err(Error::field("profile.maxBitrateKbps", "must be at least 1"));
        }
        if profile.max_audio_channels == Some(0) {
            return Err(Error::field("profile.maxAudioChannels", "must be at least 1"));
        }
        let subtitle = match self.subtitle_mode.as_deref() {
            None if self.subtitle_stream_index.is_some() => SubtitleRequest::Embedded,
            None | Some("none") => SubtitleRequest::None,
            Some("embedded") => SubtitleRequest::Embedded,
            Some("external") => SubtitleRequest::External,
            Some("burn") => SubtitleRequest::Burn,
            Some(other) => {
                return Err(Error::field("subtitleMode", format!("{:?} is no known mode", clipped(other))));
            }
        };
        Ok(StartRequest {
            media_path,
            audio_stream: self.audio_stream_index,
            subtitle,
            subtitle_stream: self.subtitle_stream_index,
            subtitle_path: self.subtitle_path,
            start_seconds: round_ms(start_seconds),
            max_height,
            max_bitrate_kbps: profile.max_bitrate_kbps,
            max_audio_channels: profile.max_audio_channels,
            device: self.device_profile.unwrap_or_default(),
            force_transcode: self.force_transcode.unwrap_or(false),
            abr: profile.abr.unwrap_or(false),
        })
    }
}

/// What came in, short enough to send back.
fn clipped(text: &str) -> String {
    text.chars().take(40).collect()
}
