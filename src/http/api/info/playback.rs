//! The `playback` part of media info: how the file would be played.

use super::MediaLinks;
use crate::domain::media::Media;
use crate::domain::playback::{self, Decision, PlaybackRequest, RUNGS, RequestDevice, TrackAction};
use crate::domain::time::round_to_ms;
use crate::http::api::device::DeviceBody;
use crate::http::api::prelude::*;

/// The decision a start request would come to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Playback {
    /// `direct`, `transcode`, or null if nothing in the file can be played.
    recommended: Option<&'static str>,
    direct_play: bool,
    direct_url: Option<String>,
    /// `directUrl` with a grant, for players that cannot send headers.
    signed_direct_url: Option<String>,
    reasons: Vec<&'static str>,
    resolutions: Vec<&'static str>,
    can_copy_video: bool,
    can_copy_audio: bool,
    seekable: bool,
    /// Average interval; null if the tables of the file do not contain it.
    keyframe_interval_seconds: Option<f64>,
    transcoder_available: bool,
    /// The device the decision is for.
    device: DeviceBody,
}

impl Playback {
    pub fn new(media: &Media, device: &RequestDevice, links: &MediaLinks, transcoder_available: bool) -> Self {
        let device_body = DeviceBody::new(device);
        let device = &device.profile;
        let (decision, reasons) = playback::decide(media, device, &PlaybackRequest::default());
        let (forced_decision, _) =
            playback::decide(media, device, &PlaybackRequest { force_transcode: true, ..PlaybackRequest::default() });
        let can_copy = |pick: fn(&playback::SessionTracks) -> Option<(u32, TrackAction)>| match &forced_decision {
            Decision::Session(tracks) => matches!(pick(tracks), Some((_, TrackAction::Copy))),
            _ => false,
        };
        let is_direct = decision == Decision::Direct;
        let url = is_direct.then(|| links.file_url());
        let source_height = media.video_streams().map(|(_, video)| playback::display_height(video)).max();
        let lower_rungs = RUNGS.iter().filter(|(_, height, _)| source_height.is_some_and(|lines| *height < lines));
        Self {
            recommended: match decision {
                Decision::Direct => Some("direct"),
                Decision::Session(_) => Some("transcode"),
                Decision::Refuse => None,
            },
            direct_play: is_direct,
            signed_direct_url: url.as_deref().and_then(|url| links.with_grant(url)),
            direct_url: url,
            reasons: reasons.into_iter().map(playback::TranscodeReason::as_str).collect(),
            resolutions: std::iter::once("original").chain(lower_rungs.map(|(label, ..)| *label)).collect(),
            can_copy_video: can_copy(|tracks| tracks.video),
            can_copy_audio: can_copy(|tracks| tracks.audio),
            seekable: media.is_seekable,
            keyframe_interval_seconds: media.keyframe_interval_seconds.map(round_to_ms),
            transcoder_available,
            device: device_body,
        }
    }
}
