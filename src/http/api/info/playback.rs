//! The `playback` part of media info: how the file would be played.

use super::{InfoClient, MediaLinks};
use crate::domain::media::Media;
use crate::domain::playback::capabilities::expect_session;
use crate::domain::playback::{self, Decision, PlaybackRequest, RUNGS, TrackAction};
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
    /// Whether a session of this client copies the first video and audio track. Video is encoded all the same if its keyframes
    /// turn out to be too far apart.
    can_copy_video: bool,
    can_copy_audio: bool,
    /// Format of a session's segments, `mpeg-ts` or `fmp4`, as in the decision of a start request; null if nothing can be played.
    format: Option<&'static str>,
    seekable: bool,
    /// Average interval; null if the tables of the file do not contain it.
    keyframe_interval_seconds: Option<f64>,
    transcoder_available: bool,
    /// The device the decision is for.
    device: DeviceBody,
}

impl Playback {
    pub fn new(media: &Media, client: &InfoClient, links: &MediaLinks, transcoder_available: bool) -> Self {
        let device_body = DeviceBody::new(&client.device);
        let device = &client.device.profile;
        let (decision, reasons) = playback::decide(media, device, &PlaybackRequest::default());
        let forced = PlaybackRequest {
            force_transcode: true,
            max_bitrate_kbps: device.max_bitrate_kbps,
            ..PlaybackRequest::default()
        };
        let session = match playback::decide(media, device, &forced).0 {
            Decision::Session(tracks) => Some(expect_session(tracks, media, &client.capabilities, device, &forced)),
            _ => None,
        };
        let can_copy = |pick: fn(&playback::SessionTracks) -> Option<(u32, TrackAction)>| {
            session.as_ref().is_some_and(|(_, tracks)| matches!(pick(tracks), Some((_, TrackAction::Copy))))
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
            format: session.as_ref().map(|(format, _)| format.as_str()),
            seekable: media.is_seekable,
            keyframe_interval_seconds: media.keyframe_interval_seconds.map(round_to_ms),
            transcoder_available,
            device: device_body,
        }
    }
}
