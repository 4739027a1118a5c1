//! What a channel's pictures and sound are to be, as asked for.

use serde::Deserialize;
use utoipa::ToSchema;

use super::rights::told;
use crate::domain::channel::Watermark;
use crate::domain::plan::Corner;
use crate::domain::playback::RUNGS;
use crate::domain::time::FrameRate;
use crate::error::{Error, Result};
use crate::service::channels::OutputChange;

/// Languages of one kind at most, and the longest name of one.
const MAX_LANGUAGES: usize = 16;
const MAX_LANGUAGE_BYTES: usize = 35;

/// Pictures and sound.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputRequest {
    /// `original`, or a size label at most (`720p` when absent); nothing is made larger.
    resolution: Option<String>,
    /// Of encoded pictures, 100 at least; null (when absent) for the usual rate of their size.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<u32>)]
    video_bitrate_kbps: Option<Option<u32>>,
    /// Whether pictures that every player takes are copied. True when absent.
    copy_when_possible: Option<bool>,
    /// 2, the only one: sound is the same on all of a channel.
    audio_channels: Option<u32>,
    /// One rate for all pictures, such as 25 or 29.97; null (when absent) leaves each its own.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<f64>)]
    frame_rate: Option<Option<f64>>,
    /// How loud all sound is to be (EBU R 128), -40 to -5, whole; null (when absent) leaves it as loud as it is.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<i16>)]
    loudness_lufs: Option<Option<i16>>,
}

/// Languages, the best first, as files name them (`ger`) or as tags (`de`).
#[derive(Deserialize, ToSchema)]
pub struct LanguagesRequest {
    /// Of sound; what the file prefers when none of them is there.
    audio: Option<Vec<String>>,
    /// Of subtitles in a file, or beside it with a language in their name, drawn into the picture; else there are none.
    subtitles: Option<Vec<String>>,
}

/// A picture laid over a corner of all that is shown. Whatever is shown is encoded for it.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatermarkRequest {
    /// The path of a PNG or JPEG inside a library root, 4 MiB and 4096 pixels a side at most; null for none.
    image_url: Option<String>,
    /// `top-left`, `top-right`, `bottom-left` or `bottom-right` (when absent).
    position: Option<String>,
    /// 1 to 100 percent; 70 when absent.
    #[schema(minimum = 1, maximum = 100)]
    opacity: Option<u8>,
    /// 1 to 50 percent of the picture's width; 8 when absent.
    #[schema(minimum = 1, maximum = 50)]
    width_percent: Option<u8>,
}

impl WatermarkRequest {
    /// None for none.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` with the first field that cannot be meant.
    pub fn mark(self) -> Result<Option<Watermark>> {
        let position = self.position.as_deref().unwrap_or("bottom-right");
        let corner = match position {
            "top-left" => Corner::TopLeft,
            "top-right" => Corner::TopRight,
            "bottom-left" => Corner::BottomLeft,
            "bottom-right" => Corner::BottomRight,
            _ => {
                let names = "must be top-left, top-right, bottom-left or bottom-right";
                return Err(Error::field("watermark.position", names));
            }
        };
        let (opacity, width) = (self.opacity.unwrap_or(70), self.width_percent.unwrap_or(8));
        if !(1..=100).contains(&opacity) {
            return Err(Error::field("watermark.opacity", "must be an integer from 1 to 100"));
        }
        if !(1..=50).contains(&width) {
            return Err(Error::field("watermark.widthPercent", "must be an integer from 1 to 50"));
        }
        Ok(self.image_url.map(|path| Watermark { path, corner, opacity, width }))
    }
}

/// What of it is a change.
///
/// # Errors
/// `VALIDATION_ERROR` with the first field that cannot be meant.
pub fn change(output: Option<OutputRequest>, languages: Option<LanguagesRequest>) -> Result<OutputChange> {
    let mut change = OutputChange::default();
    if let Some(output) = output {
        change.max_height = match output.resolution.as_deref() {
            None => None,
            Some("original") => Some(None),
            Some(label) => {
                let rung = RUNGS.iter().find(|(known, ..)| *known == label);
                let names = || Error::field("output.resolution", "must be original, or a label such as 720p");
                Some(Some(rung.ok_or_else(names)?.1))
            }
        };
        if output.video_bitrate_kbps.flatten().is_some_and(|kbps| !(100..=200_000).contains(&kbps)) {
            return Err(Error::field("output.videoBitrateKbps", "must be an integer from 100 to 200000"));
        }
        if output.audio_channels.is_some_and(|channels| channels != 2) {
            return Err(Error::field("output.audioChannels", "must be 2 in this version"));
        }
        if output.loudness_lufs.flatten().is_some_and(|level| !(-40..=-5).contains(&level)) {
            return Err(Error::field("output.loudnessLufs", "must be an integer from -40 to -5"));
        }
        let rate = |wanted: f64| {
            let names = || Error::field("output.frameRate", "must be 23.976, 24, 25, 29.97, 30, 50, 59.94 or 60");
            FrameRate::standard(wanted).ok_or_else(names)
        };
        change.rate = output.frame_rate.map(|wanted| wanted.map(rate).transpose()).transpose()?;
        change.level = output.loudness_lufs;
        change.max_kbps = output.video_bitrate_kbps;
        change.copy = output.copy_when_possible;
    }
    if let Some(languages) = languages {
        for (field, list) in [("languages.audio", &languages.audio), ("languages.subtitles", &languages.subtitles)] {
            let wrong = |language: &String| language.is_empty() || language.len() > MAX_LANGUAGE_BYTES;
            if list.as_ref().is_some_and(|list| list.len() > MAX_LANGUAGES || list.iter().any(wrong)) {
                return Err(Error::field(field, format!("must be at most {MAX_LANGUAGES} language codes")));
            }
        }
        change.audio_languages = languages.audio;
        change.subtitle_languages = languages.subtitles;
    }
    Ok(change)
}
