//! The request body of `POST /api/stream/transcode/start`.

use crate::domain::playback::capabilities::{ClientCapabilities, ProbedCapabilities};
use crate::domain::playback::{DeviceProfile, PlaybackRequest, RUNGS, RequestDevice};
use crate::domain::time::round_to_ms;
use crate::http::api::prelude::*;
use crate::http::api::stream_index::deserialize_stream_index;
use crate::service::renditions::planner::{StartMode, StartRequest, SubtitleRequest};

/// A start request. Only `mediaPath` is required. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartBody {
    #[schema(value_type = String, required = true, example = "/library/movies/Example (2020).mkv")]
    media_path: Option<String>,
    /// Index of an audio stream; absent, null or -1: the default stream.
    #[serde(default, deserialize_with = "deserialize_stream_index")]
    #[schema(value_type = Option<i64>, minimum = -1)]
    audio_stream_index: Option<Option<u32>>,
    /// A position at or after the end means the start of the last segment.
    #[schema(minimum = 0, default = 0)]
    start_position_seconds: Option<f64>,
    profile: Option<ProfileBody>,
    /// `none`, `embedded`, `external` or `burn`; default `embedded` with a `subtitleStreamIndex`, otherwise `none`.
    subtitle_mode: Option<String>,
    /// Index of a subtitle stream; absent, null or -1: none.
    #[serde(default, deserialize_with = "deserialize_stream_index")]
    #[schema(value_type = Option<i64>, minimum = -1)]
    subtitle_stream_index: Option<Option<u32>>,
    /// Path of a text subtitle file in the library, for `external` and `burn`. Absent with `external`: the default sidecar
    /// of the item, or the first that is neither forced nor for the hearing impaired.
    subtitle_path: Option<String>,
    force_transcode: Option<bool>,
    /// `tag`: the playlists list the whole item and mark the start with `EXT-X-START`. `list`: they begin with the segment
    /// at the start position, for players that ignore the tag; the player's 0 is then `timelineStartSeconds` of the item.
    #[schema(default = "tag")]
    start_mode: Option<String>,
    /// Name of the player: `kodi`, `vlc`, `exoplayer` … Selects a built-in profile if there is no `deviceProfile`. Absent or
    /// unknown: the profile is selected by the User-Agent.
    player: Option<String>,
    /// The formats the device plays directly. A client that sends one is assumed to support `subtitleUrl`.
    #[schema(value_type = Option<Object>)]
    device_profile: Option<DeviceProfile>,
    /// The codecs that a page has found its browser to decode in segments (`MediaSource.isTypeSupported`). Absent: those of
    /// the `deviceProfile`, the `player` or the User-Agent.
    #[schema(value_type = Option<CapabilitiesBody>)]
    capabilities: Option<ProbedCapabilities>,
}

/// The schema of [`ProbedCapabilities`]. Everything may be missing; unknown codecs are ignored.
#[derive(ToSchema)]
#[schema(as = Capabilities)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub struct CapabilitiesBody {
    /// RFC 6381 codec strings that are supported in `video/mp4` or `audio/mp4`, each tested alone. At most 64.
    #[schema(required = false)]
    codecs: Vec<String>,
    /// The codecs in which encoded video is preferred, the best first: `hevc`, `av1` or `h264`. One that `codecs` does not
    /// cover, or in which the server does not encode (`optionalCodecs` of `GET /api/stream/v2-workers`), is passed over.
    /// Absent: H.264.
    #[schema(required = false)]
    encode: Vec<String>,
    /// `hdr10`, `hlg`: what the screen shows in its range.
    #[schema(required = false)]
    hdr: Vec<String>,
    /// Pixels of the largest video worth sending.
    max_width: Option<u32>,
    max_height: Option<u32>,
    max_audio_channels: Option<u32>,
    /// Channels of the audio output (`AudioContext.destination.maxChannelCount`). With six or more, surround that must be
    /// encoded becomes 5.1 AAC. Absent: stereo.
    aac_channels: Option<u32>,
    /// The page offers a choice of languages within a session.
    #[schema(required = false)]
    audio_renditions: bool,
    /// The page shows WebVTT renditions.
    #[schema(required = false)]
    text_renditions: bool,
    /// The page shows pictures of an I-frame playlist while the viewer seeks: list it (`EXT-X-I-FRAME-STREAM-INF`).
    #[schema(required = false)]
    iframe_playlists: bool,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ProfileBody {
    /// `original`, `2160p`, `1440p`, `1080p`, `720p`, `480p`, `360p` or `240p`. Other spellings are accepted: `auto`, `4k`,
    /// `1080`, `720P`, `1920x1080`. A height between two of these selects the lower one.
    #[schema(default = "original")]
    resolution: Option<String>,
    max_bitrate_kbps: Option<u32>,
    /// Audio with more channels is encoded. Absent: surround that must be encoded becomes 5.1 AAC for players that are known to
    /// play it, otherwise stereo. 6 or more: 5.1 AAC, if the device plays it.
    max_audio_channels: Option<u32>,
    /// Adaptive bitrate: list every rung up to the requested resolution, so that the player can switch between them.
    #[schema(default = false)]
    abr: Option<bool>,
}

impl StartBody {
    pub(super) fn into_request(self, user_agent: Option<&str>) -> Result<StartRequest> {
        let media_path = self.media_path.ok_or_else(|| Error::invalid_field("mediaPath", "is required"))?;
        let start_seconds = self.start_position_seconds.unwrap_or(0.0);
        if !start_seconds.is_finite() || start_seconds < 0.0 {
            return Err(Error::invalid_field("startPositionSeconds", "must be a number of at least 0"));
        }
        let profile = self.profile.unwrap_or_default();
        let max_height = match profile.resolution.as_deref() {
            None => None,
            Some(label) => {
                let message = || format!("{:?} must be a label such as 1080p", shorten(label));
                parse_max_height(label).ok_or_else(|| Error::invalid_field("profile.resolution", message()))?
            }
        };
        if profile.max_bitrate_kbps == Some(0) {
            return Err(Error::invalid_field("profile.maxBitrateKbps", "must be at least 1"));
        }
        if profile.max_audio_channels == Some(0) {
            return Err(Error::invalid_field("profile.maxAudioChannels", "must be at least 1"));
        }
        let subtitle_stream = self.subtitle_stream_index.flatten();
        let is_off = self.subtitle_stream_index == Some(None) && self.subtitle_path.is_none();
        let mode = self.subtitle_mode.map(|mode| mode.to_ascii_lowercase());
        let subtitle = match mode.as_deref() {
            // Null and -1 switch the subtitles of the file off.
            Some("embedded" | "burn") if is_off => SubtitleRequest::None,
            None if subtitle_stream.is_some() => SubtitleRequest::Embedded,
            None | Some("none") => SubtitleRequest::None,
            Some("embedded") => SubtitleRequest::Embedded,
            Some("external") => SubtitleRequest::External,
            Some("burn") => SubtitleRequest::Burn,
            Some(other) => {
                let message = format!("{:?} must be none, embedded, external or burn", shorten(other));
                return Err(Error::invalid_field("subtitleMode", message));
            }
        };
        let start_mode = match self.start_mode.as_deref() {
            None | Some("tag") => StartMode::Tag,
            Some("list") => StartMode::List,
            Some(other) => {
                return Err(Error::invalid_field("startMode", format!("{:?} must be tag or list", shorten(other))));
            }
        };
        let device = RequestDevice::resolve(self.device_profile, self.player.as_deref(), user_agent);
        let capabilities = ClientCapabilities::resolve(self.capabilities.as_ref(), self.player.as_deref(), &device);
        Ok(StartRequest {
            media_path,
            subtitle,
            subtitle_stream,
            subtitle_path: self.subtitle_path,
            start_seconds: round_to_ms(start_seconds),
            device,
            capabilities,
            start_mode,
            playback: PlaybackRequest {
                audio_stream: self.audio_stream_index.flatten(),
                max_height,
                max_bitrate_kbps: profile.max_bitrate_kbps,
                max_audio_channels: profile.max_audio_channels,
                force_transcode: self.force_transcode.unwrap_or(false),
                is_adaptive: profile.abr.unwrap_or(false),
                ..PlaybackRequest::default()
            },
            earlier_choice: None,
        })
    }
}

/// The maximum height that a label allows: `Some(None)` for the original one, None for an unknown label.
fn parse_max_height(label: &str) -> Option<Option<u32>> {
    let label = label.trim().to_ascii_lowercase();
    let lines = match label.as_str() {
        "" | "original" | "source" | "auto" | "max" => return Some(None),
        "8k" => 4320,
        "4k" | "uhd" => 2160,
        "2k" | "qhd" => 1440,
        "fhd" | "fullhd" => 1080,
        "hd" => 720,
        "sd" => 480,
        label => {
            let lines = label.split_once('x').map_or(label, |(_, height)| height);
            lines.strip_suffix(['p', 'i']).unwrap_or(lines).parse::<u32>().ok().filter(|lines| *lines >= 100)?
        }
    };
    // Heights are rounded down to a rung, so that viewers share segments; below the lowest rung, the lowest is used.
    let rung = RUNGS.iter().find(|(_, height, _)| *height <= lines).or(RUNGS.last());
    rung.map(|(_, height, _)| Some(*height))
}

/// The value shortened for an error message.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_understood_in_many_spellings() {
        for (labels, lines) in [
            (&["original", "auto", "Auto ", ""][..], Some(None)),
            (&["1080p", "1080P", "1080i", "1920x1080"], Some(Some(1080))),
            (&["720", "900p"], Some(Some(720))),
            (&["4k", "4K", "2160", "8k"], Some(Some(2160))),
            (&["144p"], Some(Some(240))),
            (&["p", "-720", "72", "99999999999p", "best"], None),
        ] {
            for label in labels {
                assert_eq!(parse_max_height(label), lines, "{label:?}");
            }
        }
    }

    #[test]
    fn subtitles_off_has_several_spellings() {
        let request = |body: serde_json::Value| {
            let mut body = body;
            body["mediaPath"] = "/a.mkv".into();
            serde_json::from_value::<StartBody>(body).unwrap().into_request(None).unwrap()
        };
        let plain = StartRequest { media_path: "/a.mkv".into(), ..StartRequest::default() };
        for body in [
            serde_json::json!({"audioStreamIndex": -1, "subtitleStreamIndex": -1}),
            serde_json::json!({"audioStreamIndex": null, "subtitleMode": "none"}),
            serde_json::json!({"subtitleMode": "embedded", "subtitleStreamIndex": -1}),
            serde_json::json!({"subtitleMode": "burn", "subtitleStreamIndex": -1}),
            serde_json::json!({"subtitleMode": "burn", "subtitleStreamIndex": null}),
            serde_json::json!({"subtitleMode": "embedded", "subtitleStreamIndex": null}),
            serde_json::json!({"subtitleMode": "None"}),
        ] {
            assert_eq!(request(body.clone()), plain, "{body}");
        }
        let embedded = StartRequest { subtitle_stream: Some(2), subtitle: SubtitleRequest::Embedded, ..plain };
        assert_eq!(request(serde_json::json!({"subtitleMode": "Embedded", "subtitleStreamIndex": 2})), embedded);
    }
}
