//! Output settings of a channel in requests: video, audio, languages, watermark.

use super::rights::deserialize_nullable;
use crate::domain::channel::WatermarkSettings;
use crate::domain::plan::Corner;
use crate::domain::playback::RUNGS;
use crate::domain::time::FrameRate;
use crate::http::api::prelude::*;
use crate::service::channels::OutputChange;

/// Most languages of one list, and the longest name of a language.
const MAX_LANGUAGES: usize = 16;
const MAX_LANGUAGE_BYTES: usize = 35;

/// Video and audio of a channel.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputRequest {
    /// Maximum resolution: `original`, or a label such as `1080p`; default `720p`. Video is never scaled up. Copies for clients that
    /// decode HEVC, AV1 or VP9 (`videoCodecs` of a watch request) keep their size.
    resolution: Option<String>,
    /// Bitrate of encoded video, at least 100; null (default) for the usual bitrate of its resolution. Files in HEVC, AV1 or VP9 with
    /// more are not copied.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    video_bitrate_kbps: Option<Option<u32>>,
    /// Whether video that every player supports is copied instead of encoded. Default true.
    copy_when_possible: Option<bool>,
    /// 2, the only supported value: the audio format is the same throughout a channel.
    audio_channels: Option<u32>,
    /// One frame rate for all video, such as 25 or 29.97; null (default) keeps the rate of each file.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    frame_rate: Option<Option<f64>>,
    /// Target loudness (EBU R 128), an integer from -40 to -5; null (default) keeps the loudness of each file.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    loudness_lufs: Option<Option<i16>>,
}

/// Preferred languages, best first, as in files (`ger`) or as BCP 47 tags (`de`).
#[derive(Deserialize, ToSchema)]
pub struct LanguagesRequest {
    /// Audio languages; if a file has none of them, its default audio stream is used.
    audio: Option<Vec<String>>,
    /// Languages of subtitles to burn in, from the file or from a sidecar with the language in its name; default: none.
    subtitles: Option<Vec<String>>,
}

/// An image overlaid in a corner of the video. All video of the channel is then encoded.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatermarkRequest {
    /// Path of a PNG or JPEG inside a library root, at most 4 MiB and 4096x4096; null for no watermark.
    image_url: Option<String>,
    /// `top-left`, `top-right`, `bottom-left` or `bottom-right` (default).
    position: Option<String>,
    /// 1 to 100 percent; default 70.
    #[schema(minimum = 1, maximum = 100)]
    opacity: Option<u8>,
    /// 1 to 50 percent of the video width; default 8.
    #[schema(minimum = 1, maximum = 50)]
    width_percent: Option<u8>,
}

impl WatermarkRequest {
    pub fn from_settings(settings: &WatermarkSettings) -> Self {
        Self {
            image_url: Some(settings.path.clone()),
            position: Some(settings.corner.as_str().to_owned()),
            opacity: Some(settings.opacity_percent),
            width_percent: Some(settings.width_percent),
        }
    }

    /// The watermark settings; None without an image.
    pub fn into_settings(self) -> Result<Option<WatermarkSettings>> {
        let position = self.position.as_deref().unwrap_or("bottom-right");
        let Some(corner) = Corner::parse(position) else {
            let message = "must be top-left, top-right, bottom-left or bottom-right";
            return Err(Error::invalid_field("watermark.position", message));
        };
        check_integer("watermark.opacity", self.opacity, 1..=100)?;
        check_integer("watermark.widthPercent", self.width_percent, 1..=50)?;
        Ok(self.image_url.map(|path| WatermarkSettings {
            path,
            corner,
            opacity_percent: self.opacity.unwrap_or(70),
            width_percent: self.width_percent.unwrap_or(8),
        }))
    }
}

/// The output settings that a request changes.
pub fn output_change(output: Option<OutputRequest>, languages: Option<LanguagesRequest>) -> Result<OutputChange> {
    let mut change = OutputChange::default();
    if let Some(output) = output {
        change.max_height = match output.resolution.as_deref() {
            None => None,
            Some("original") => Some(None),
            Some(label) => {
                let rung = RUNGS.iter().find(|(name, ..)| *name == label);
                let invalid = || Error::invalid_field("output.resolution", "must be original, or a label such as 720p");
                Some(Some(rung.ok_or_else(invalid)?.1))
            }
        };
        check_integer("output.videoBitrateKbps", output.video_bitrate_kbps.flatten(), 100..=200_000)?;
        if output.audio_channels.is_some_and(|channels| channels != 2) {
            return Err(Error::invalid_field("output.audioChannels", "must be 2, the only supported value"));
        }
        check_integer("output.loudnessLufs", output.loudness_lufs.flatten(), -40..=-5)?;
        let parse_rate = |fps: f64| {
            let invalid =
                || Error::invalid_field("output.frameRate", "must be 23.976, 24, 25, 29.97, 30, 50, 59.94 or 60");
            FrameRate::nearest_standard(fps).ok_or_else(invalid)
        };
        change.frame_rate = output.frame_rate.map(|fps| fps.map(parse_rate).transpose()).transpose()?;
        change.loudness_lufs = output.loudness_lufs;
        change.max_kbps = output.video_bitrate_kbps;
        change.copy_video = output.copy_when_possible;
    }
    if let Some(languages) = languages {
        for (field, list) in [("languages.audio", &languages.audio), ("languages.subtitles", &languages.subtitles)] {
            let is_invalid = |language: &String| language.is_empty() || language.len() > MAX_LANGUAGE_BYTES;
            if list.as_ref().is_some_and(|list| list.len() > MAX_LANGUAGES || list.iter().any(is_invalid)) {
                return Err(Error::invalid_field(field, format!("must be at most {MAX_LANGUAGES} language codes")));
            }
        }
        change.audio_languages = languages.audio;
        change.subtitle_languages = languages.subtitles;
    }
    Ok(change)
}
