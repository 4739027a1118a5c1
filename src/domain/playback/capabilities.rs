//! The formats that a client plays in a session, by format of segments. A [`DeviceProfile`] holds what it plays directly.
//!
//! A codec may be playable in one format only: Apple plays HEVC in fMP4, browsers play MP3 in MPEG-TS, Kodi takes Opus in
//! fMP4 for AAC.

mod delivery;
mod known_clients;
mod probed;
#[cfg(test)]
mod tests;

pub use delivery::{
    EncodeReason, SessionDelivery, StreamDecision, copy_for_client, decide_delivery, expect_session, explain_tracks,
};
pub use probed::ProbedCapabilities;
use serde::{Deserialize, Serialize};

use super::clients::{DeviceSource, RequestDevice};
use super::device::{AudioSupport, DeviceProfile, VideoSupport, supports_webvtt, video_reasons};
use crate::domain::codec::{TargetCodec, format_level};
use crate::domain::media::{Stream, StreamKind, Video};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::FrameRate;
use crate::domain::video_class::{VideoClass, VideoClasses};

/// The formats of segments that a client plays, and how it takes what is encoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCapabilities {
    /// The preferred one first.
    pub formats: Vec<FormatCapabilities>,
    /// Channels of AAC that the client decodes, and plays on its speakers or mixes down itself: 2 unless more is known.
    /// Only for encoded audio; the entries of `formats` decide what is copied.
    pub aac_channels: u32,
    /// The codecs other than H.264 in which the client prefers encoded video, the best first.
    pub preferred_encoders: Vec<TargetCodec>,
}

/// Channels of encoded audio that every client plays.
const STEREO: u32 = 2;

/// Channels of 5.1.
const SURROUND: u32 = 6;

/// The codecs and renditions that a client plays in segments of one format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormatCapabilities {
    pub format: SegmentFormat,
    pub video: Vec<VideoSupport>,
    pub audio: Vec<AudioSupport>,
    pub audio_renditions: AudioRenditions,
    /// Only some devices of this client decode the codecs of `audio` other than AAC: AAC is offered beside a copy in one of them.
    pub has_aac_group: bool,
    /// WebVTT renditions are shown.
    pub has_text_renditions: bool,
    /// Playback continues where the init segment changes (`EXT-X-MAP`), as on a channel whose items differ.
    pub allows_init_changes: bool,
    /// It knows the codec name `avc3` of encoded video. Playlists for others say `avc1`.
    pub knows_avc3: bool,
    /// I-frame playlists are used to show pictures while the viewer seeks. They are listed for no other client.
    pub has_iframe_playlists: bool,
}

impl FormatCapabilities {
    /// The classes of video of which the client decodes every stream.
    pub fn decoded_classes(&self) -> VideoClasses {
        let is_decoded = |(stream, video): (Stream, Video)| video_reasons(&stream, &video, &self.video).is_empty();
        VideoClass::all().filter(|class| class.hardest_streams().all(is_decoded)).collect()
    }
}

/// How a client takes audio beside video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AudioRenditions {
    /// In the segments of the video.
    Muxed,
    /// As one rendition. Players that stall where the viewer changes the language get no choice.
    Single,
    /// As renditions between which the viewer changes.
    Several,
}

impl Default for ClientCapabilities {
    /// Those of an unknown client.
    fn default() -> Self {
        known_clients::by_name("")
    }
}

impl ClientCapabilities {
    /// The capabilities of a request's client: those that its page probed; otherwise those of its `player`, if that is more
    /// exact than the device; otherwise those of its device.
    pub fn resolve(probed: Option<&ProbedCapabilities>, player: Option<&str>, device: &RequestDevice) -> Self {
        if let Some(probed) = probed {
            return probed.to_capabilities();
        }
        if device.source == DeviceSource::Profile {
            return Self::from_profile(&device.profile);
        }
        player
            .and_then(known_clients::by_player)
            .unwrap_or_else(|| known_clients::by_name(device.name.unwrap_or_default()))
    }

    /// A device profile is about files, so little is taken from it: H.264, AAC and MP3 in MPEG-TS, as in every session. A
    /// profile that names the container `ts` adds the other codecs of broadcasts, and one that names `fmp4` has fMP4 with all
    /// of its codecs.
    pub fn from_profile(profile: &DeviceProfile) -> Self {
        let has_container =
            |name: &str| profile.containers.iter().any(|container| container.eq_ignore_ascii_case(name));
        let entries_of = |format, codecs: Option<&[&str]>| FormatCapabilities {
            format,
            video: profile.video.iter().filter(|entry| is_one_of(&entry.codec, codecs)).cloned().collect(),
            audio: profile.audio.iter().filter(|entry| is_one_of(&entry.codec, codecs)).cloned().collect(),
            audio_renditions: AudioRenditions::Muxed,
            has_aac_group: false,
            has_text_renditions: supports_webvtt(profile),
            allows_init_changes: false,
            knows_avc3: true,
            has_iframe_playlists: false,
        };
        let broadcast = ["h264", "hevc", "aac", "mp3", "ac3", "eac3", "dts"];
        let mpegts_codecs = if has_container("ts") { &broadcast[..] } else { &["h264", "aac", "mp3"] };
        let mpegts = entries_of(SegmentFormat::MpegTs, Some(mpegts_codecs));
        let fmp4 =
            FormatCapabilities { audio_renditions: AudioRenditions::Single, ..entries_of(SegmentFormat::Fmp4, None) };
        let formats = if has_container("fmp4") { vec![fmp4, mpegts] } else { vec![mpegts] };
        // The profile states what is decoded, not the speakers.
        Self::of_formats(formats, STEREO)
    }

    /// Those of a client that takes encoded video as H.264.
    fn of_formats(formats: Vec<FormatCapabilities>, aac_channels: u32) -> Self {
        Self { formats, aac_channels, preferred_encoders: Vec::new() }
    }

    /// Channels of the AAC that a track is encoded to: 5.1 if the track is surround and the client takes 5.1, otherwise stereo.
    /// `limit` is the viewer's. One of six or more requests 5.1, also of a client whose speakers are unknown, if its device
    /// decodes 5.1.
    pub fn encoded_channels(&self, source_channels: u32, limit: Option<u32>, device: &DeviceProfile) -> u32 {
        let takes_surround = match limit {
            None => self.aac_channels >= SURROUND,
            Some(limit) => limit >= SURROUND && self.aac_channels.max(aac_channels_of(device)) >= SURROUND,
        };
        if takes_surround && source_channels >= SURROUND { SURROUND } else { STEREO }
    }

    /// The preferred codecs that the client also decodes in fMP4 at this size, pixels, and rate. MPEG-TS is not considered,
    /// because it contains no AV1, and HEVC of few clients.
    pub fn encoders_for(&self, size: (u32, u32), rate: FrameRate) -> impl Iterator<Item = TargetCodec> {
        let supported = self.format(SegmentFormat::Fmp4).map_or(&[][..], |format| &format.video);
        let preferred = self.preferred_encoders.iter().copied();
        preferred.filter(move |codec| decodes_encoded(supported, *codec, size, rate))
    }

    /// Whether the client decodes H.264 of this size, pixels, and rate in each of its formats.
    pub fn decodes_h264(&self, size: (u32, u32), rate: FrameRate) -> bool {
        self.formats.iter().all(|format| decodes_encoded(&format.video, TargetCodec::H264, size, rate))
    }

    pub fn format(&self, format: SegmentFormat) -> Option<&FormatCapabilities> {
        self.formats.iter().find(|capabilities| capabilities.format == format)
    }
}

/// Channels of AAC that a device decodes; a profile may leave the limit out.
fn aac_channels_of(device: &DeviceProfile) -> u32 {
    let aac = device.audio.iter().find(|support| support.codec.eq_ignore_ascii_case("aac"));
    aac.map_or(STEREO, |support| support.max_channels.unwrap_or(SURROUND))
}

fn is_one_of(codec: &str, codecs: Option<&[&str]>) -> bool {
    codecs.is_none_or(|codecs| codecs.iter().any(|name| name.eq_ignore_ascii_case(codec)))
}

/// Whether these entries include video that this server encodes in a codec, at a size, pixels, and rate.
fn decodes_encoded(
    supported: &[VideoSupport],
    codec: TargetCodec,
    (width, height): (u32, u32),
    rate: FrameRate,
) -> bool {
    let level = format_level(codec.as_str(), codec.level(width, height, rate).into());
    let video = Video { frame_rate: Some(rate), ..Video::new(width, height) };
    let stream = Stream::new(0, codec.as_str(), StreamKind::Video(video.clone()));
    let profile = if codec == TargetCodec::H264 { "high" } else { "main" };
    let stream = Stream { profile: Some(profile.to_owned()), level, ..stream };
    video_reasons(&stream, &video, supported).is_empty()
}
