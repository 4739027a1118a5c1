//! The audio renditions beside the video of a session: each track of the item that its client may choose.

use std::sync::Arc;

use super::converted_copy::{codec_string, is_convertible};
use super::{STEREO_KBPS, SURROUND_KBPS, StartRequest};
use crate::domain::media::{Audio, Stream, language_tag};
use crate::domain::plan::{AudioPlan, Rendition};
use crate::domain::playback::TrackAction;
use crate::domain::playback::capabilities::{EncodeReason, StreamDecision};
use crate::domain::playlist::AudioRendition;
use crate::domain::segment_format::SegmentFormat;
use crate::engine::RenditionSpec;
use crate::engine::packager::{CmafTrack, Package};
use crate::service::Service;

/// Most audio renditions of a session; discs have some ten.
const MAX_TRACKS: usize = 16;

/// Video may last this long after a copied track. hls.js played on over 4 s without samples, and stalled over 115 s.
const MAX_SILENT_SECONDS: f64 = 4.0;

/// Peak of a copied track over its average bit rate, if only that is known.
const PEAK_RATIO: f64 = 1.5;

/// Start of the codec strings of MPEG-4 audio (RFC 6381 section 3.3).
const AAC_CODECS: &str = "mp4a.40.";

/// A rendition of one audio track, with its attributes in the multivariant playlist.
#[derive(Clone, Debug)]
pub struct AudioTrack {
    pub spec: Arc<RenditionSpec>,
    /// Index of the stream in the file.
    pub stream: u32,
    pub description: AudioRendition,
    /// RFC 6381.
    pub codecs: String,
    /// For the attribute `CHANNELS`.
    pub channels: String,
    /// Peak and average, bit/s.
    pub bandwidth: u64,
    pub average_bandwidth: u64,
}

/// Plans the tracks of these decisions on the grid of `video`, the first as the default; returns each with its decision. A track
/// that can neither be packaged nor converted is encoded; one that cannot be decoded either is left out.
pub(super) async fn plan_audio_tracks(
    service: &Service,
    video: &RenditionSpec,
    decisions: Vec<StreamDecision>,
    request: &StartRequest,
) -> Vec<(StreamDecision, AudioTrack)> {
    let mut planned = Vec::new();
    for decision in decisions.into_iter().take(MAX_TRACKS) {
        let Some((stream, audio)) = video.media.audio_streams().find(|(it, _)| it.index == decision.stream) else {
            continue;
        };
        let (package, decision) = match decision.action {
            TrackAction::Copy => match open_package(service, video, stream).await {
                Ok(package) => (package, decision),
                Err(reason) => {
                    (None, StreamDecision { action: TrackAction::Encode, reasons: vec![reason], ..decision })
                }
            },
            TrackAction::Encode => (None, decision),
        };
        if decision.action == TrackAction::Copy || stream.is_decodable {
            let source = (stream, audio, decision.action);
            let track = plan_track(video, source, package, request, planned.is_empty());
            planned.push((decision, track));
        }
    }
    planned
}

/// Plans AAC beside each track that is copied in another codec; returns each with the position of its track. Empty if one of
/// these cannot be decoded, because groups have the same members.
pub(super) fn plan_aac_tracks(
    video: &RenditionSpec,
    tracks: &[AudioTrack],
    request: &StartRequest,
) -> Vec<(usize, AudioTrack)> {
    let others = tracks.iter().enumerate().filter(|(_, track)| !track.codecs.starts_with(AAC_CODECS));
    let planned = others.map(|(number, track)| {
        let (stream, audio) = video.media.audio_streams().find(|(stream, _)| stream.index == track.stream)?;
        let is_default = track.description.is_default;
        stream
            .is_decodable
            .then(|| (number, plan_track(video, (stream, audio, TrackAction::Encode), None, request, is_default)))
    });
    planned.collect::<Option<_>>().unwrap_or_default()
}

/// Whether browsers would stall at the end of the track.
fn ends_early(package: &Package, video: &RenditionSpec) -> bool {
    let end = package.cmaf_track().and_then(CmafTrack::end);
    end.is_some_and(|end| (video.grid.end() - end).as_seconds() > MAX_SILENT_SECONDS)
}

/// The package of a track, None if it is converted; the error is why it is encoded instead.
async fn open_package(
    service: &Service,
    video: &RenditionSpec,
    stream: &Stream,
) -> Result<Option<Arc<Package>>, EncodeReason> {
    match service.packages.open_cmaf(&video.source, &video.media, stream.index).await {
        Ok(package) if ends_early(&package, video) => Err(EncodeReason::EndsEarly),
        Ok(package) => Ok(Some(package)),
        Err(_) if is_convertible(&video.media, stream) => Ok(None),
        Err(why) => {
            let (path, index) = (&video.source.path, stream.index);
            tracing::info!(media.path = path, stream = index, why, "audio is encoded, because it cannot be packaged");
            Err(EncodeReason::SegmentFormat)
        }
    }
}

fn plan_track(
    video: &RenditionSpec,
    (stream, audio, action): (&Stream, &Audio, TrackAction),
    package: Option<Arc<Package>>,
    request: &StartRequest,
    is_default: bool,
) -> AudioTrack {
    let description = AudioRendition {
        name: track_name(stream, audio),
        language: stream.language.as_deref().and_then(language_tag),
        is_default,
        describes_video: false,
    };
    let track = package.as_ref().and_then(|package| package.cmaf_track());
    let entry = track.map(|track| track.entry().clone());
    let rates = track.and_then(|track| track.bit_rates(&video.grid));
    let stream_number = stream.index;
    let (plan, codecs, channel_text, average) = match action {
        TrackAction::Copy => {
            let average = stream.bitrate_kbps.map_or_else(|| guess_kbps(audio), f64::from) * 1000.0;
            let (codecs, channels) =
                entry.map_or_else(|| (codec_string(stream, audio), None), |entry| (entry.codecs, entry.channels));
            let channels = channels.unwrap_or_else(|| audio.channels.to_string());
            (AudioPlan::Copy { stream: stream_number }, codecs, channels, average)
        }
        TrackAction::Encode => {
            let (channels, kbps) = request.encoded_audio(audio.channels);
            let plan = AudioPlan::Encode { stream: stream_number, channels, kbps, gain_tenths_db: None };
            (plan, "mp4a.40.2".to_owned(), channels.to_string(), f64::from(kbps) * 1000.0)
        }
    };
    let rendition = Rendition { video: None, audio: Some(plan), format: SegmentFormat::Fmp4 };
    AudioTrack {
        spec: Arc::new(RenditionSpec {
            rendition: Arc::new(rendition),
            package,
            sidecar: None,
            watermark: None,
            ..RenditionSpec::clone(video)
        }),
        stream: stream_number,
        description,
        codecs,
        channels: channel_text,
        bandwidth: rates.map_or((average * PEAK_RATIO) as u64, |rates| rates.peak),
        average_bandwidth: rates.map_or(average as u64, |rates| rates.average),
    }
}

/// The bit rate of a track that does not state it.
fn guess_kbps(audio: &Audio) -> f64 {
    f64::from(if audio.channels > 2 { SURROUND_KBPS } else { STEREO_KBPS })
}

fn track_name(stream: &Stream, audio: &Audio) -> String {
    let name = stream.title.clone().or_else(|| stream.language.clone());
    name.unwrap_or_else(|| match audio.channels {
        1 => "Mono".to_owned(),
        2 => "Stereo".to_owned(),
        more => format!("{more} channels"),
    })
}
