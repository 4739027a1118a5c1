//! The ABR ladder: the rungs of an adaptive session. Each is the same item on the same grid in a smaller size.

use std::sync::Arc;

use super::video_encode::{self, CodecChoice, EncodeLimits, FieldRate, plan_encode};
use super::{STEREO_KBPS, SessionPlan};
use crate::domain::cmaf::Color;
use crate::domain::cmaf::entry::dolby_vision::Signalling;
use crate::domain::cmaf::segment_sizes::BitRates;
use crate::domain::codec::TargetCodec;
use crate::domain::grid::Grid;
use crate::domain::media::{Hdr, Media};
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};
use crate::domain::playback::RUNGS;
use crate::domain::playlist::{PlaylistTrack, Variant};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::FrameRate;
use crate::engine::RenditionSpec;
use crate::engine::source::SourceFile;
use crate::error::Result;
use crate::service::Service;

/// No ladder for longer copied segments: a player notices a slow connection only after a segment has arrived.
const MAX_SEGMENT_SECONDS: f64 = 6.0;

/// Minimum ratio between the bit rate of a copy and that of the encoded rung of the same height, for that rung to be listed.
const MIN_COPY_RATIO: f64 = 1.5;

/// A rung, with its attributes in the multivariant playlist.
#[derive(Clone, Debug)]
pub struct Rung {
    pub spec: Arc<RenditionSpec>,
    /// Display size, frame rate and rates in bit/s.
    pub size: Option<(u32, u32)>,
    pub frame_rate: Option<FrameRate>,
    pub bandwidth: u64,
    pub average_bandwidth: u64,
    /// Of its I-frame playlist, bit/s; None if it has none. Only the tables of mp4 state where keyframes end.
    pub iframe_bandwidth: Option<u64>,
    /// RFC 6381 codec string of the audio that is muxed with it.
    pub audio_codec: Option<String>,
    /// The attributes of copied video that its file states; those of other video are read from its first segment.
    pub copied_video: Option<CopiedVideoAttributes>,
}

/// The attributes of copied video: a packaged track, or one that ffmpeg copies.
#[derive(Clone, Debug)]
pub struct CopiedVideoAttributes {
    /// RFC 6381; None if it is read from the first segment, or unknown.
    pub codecs: Option<String>,
    pub supplemental_codecs: Option<String>,
    /// `SDR`, `PQ` or `HLG`.
    pub video_range: &'static str,
    /// Every segment can be decoded without another one.
    pub is_independent: bool,
}

impl CopiedVideoAttributes {
    /// None for encoded video, and for H.264 that ffmpeg copies into a transport stream.
    fn of(spec: &RenditionSpec) -> Option<Self> {
        // The bitstream may state what the container does not.
        let hdr = spec.media.video_streams().find_map(|(_, video)| video.hdr);
        let range_of_stream = match hdr {
            None => "SDR",
            Some(Hdr::Hlg) => "HLG",
            Some(_) => "PQ",
        };
        let Some(track) = spec.package.as_ref().and_then(|package| package.cmaf_track()) else {
            let Some(VideoPlan::Copy { stream }) = spec.rendition.video else { return None };
            let stream = spec.media.stream(stream)?;
            let (is_hevc, is_transport_stream) = (stream.codec == "hevc", spec.rendition.format.is_mpeg_ts());
            // In a transport stream, H.264 is cut at IDR pictures only.
            return (is_hevc || !is_transport_stream).then(|| Self {
                // The init segment states profile and level exactly.
                codecs: stream.codec_string.clone().filter(|_| is_transport_stream),
                supplemental_codecs: supplemental_codecs(&spec.media, stream.index).filter(|_| !is_transport_stream),
                video_range: range_of_stream,
                // Encoders of HEVC and broadcasts use open groups of pictures.
                is_independent: false,
            });
        };
        let (entry, color) = (track.entry(), track.video_format()?.color);
        let range_of_container = color.map_or("SDR", Color::video_range);
        Some(Self {
            codecs: Some(entry.codecs.clone()),
            supplemental_codecs: entry.supplemental_codecs.clone(),
            video_range: if range_of_container == "SDR" { range_of_stream } else { range_of_container },
            is_independent: track.index().is_some_and(|index| index.has_closed_groups),
        })
    }
}

/// Dolby Vision over a base layer that other decoders show, in a file that is converted.
fn supplemental_codecs(media: &Media, stream: u32) -> Option<String> {
    let (_, video) = media.video_streams().find(|(found, _)| found.index == stream)?;
    // ITU-T H.273: 14 is the transfer of SDR, with which HLG may be signalled.
    let transfer = (video.color.transfer.as_deref() == Some("bt2020-10")).then_some(14);
    match Signalling::parse(&video.dolby_vision?.record(), transfer) {
        Ok(Some(Signalling::Supplemental { codecs, .. })) => Some(codecs),
        _ => None,
    }
}

impl Rung {
    pub(super) fn new(spec: Arc<RenditionSpec>, duration: f64) -> Self {
        let packaged = spec.package.as_ref().and_then(|package| package.cmaf_track());
        let packaged_rates = packaged.and_then(|track| track.bit_rates(&spec.grid));
        let rates = packaged_rates.unwrap_or_else(|| bandwidth(&spec.source, &spec.media, &spec.rendition, duration));
        let video_format = video_size_and_rate(&spec.media, &spec.rendition);
        Self {
            size: video_format.map(|(size, _)| size),
            frame_rate: video_format.and_then(|(_, rate)| rate),
            bandwidth: rates.peak,
            average_bandwidth: rates.average,
            // Without sizes, I-frames are at most as large as the segments that begin with them.
            iframe_bandwidth: rates.iframe_peak.or(packaged.and_then(|track| track.index()).map(|_| rates.peak)),
            audio_codec: audio_codec(&spec.media, &spec.rendition),
            copied_video: CopiedVideoAttributes::of(&spec),
            spec,
        }
    }

    /// Its entry in the multivariant playlist; `video` is the RFC 6381 codec string of its video.
    fn variant(&self, track: PlaylistTrack, video: Option<String>) -> Variant {
        let copied = self.copied_video.as_ref();
        let video = copied.and_then(|copied| copied.codecs.clone()).or(video);
        let has_codecs = video.is_some() || self.spec.rendition.video.is_none();
        let has_codecs = has_codecs && (self.audio_codec.is_some() || self.spec.rendition.audio.is_none());
        let codecs = [video, self.audio_codec.clone()].into_iter().flatten().collect::<Vec<_>>().join(",");
        Variant {
            track,
            codecs: has_codecs.then_some(codecs),
            supplemental_codecs: copied.and_then(|copied| copied.supplemental_codecs.clone()),
            size: self.size,
            frame_rate: self.frame_rate,
            video_range: copied.map(|copied| copied.video_range),
            bandwidth: self.bandwidth,
            average_bandwidth: self.average_bandwidth,
            iframe_bandwidth: self.iframe_bandwidth,
        }
    }
}

impl SessionPlan {
    /// The entries of the multivariant playlist. `video_codec` is the RFC 6381 codec string of the best rung's video, once a
    /// segment was made. Encoded rungs below it get its profile if they have its codec, and a sufficient level, so that none
    /// of them has to be made for the list.
    pub fn variants(&self, video_codec: Option<&str>) -> Vec<Variant> {
        let Some(video) = &self.spec().rendition.video else {
            return vec![self.top().variant(PlaylistTrack::Audio(0), None)];
        };
        let is_encoded = matches!(video, VideoPlan::Encode(_));
        let default_codec = (self.format() == SegmentFormat::MpegTs).then_some("avc1.6400");
        let known_codec = video_codec.filter(|_| is_encoded).or(default_codec);
        let client = self.request.capabilities.format(self.format());
        let knows_avc3 = client.is_none_or(|client| client.knows_avc3);
        let lists_iframes = client.is_some_and(|client| client.has_iframe_playlists);
        let to_variant = |(number, rung): (usize, &Rung)| {
            let codec = match (number, &rung.spec.rendition.video) {
                (1.., Some(VideoPlan::Encode(plan))) if video_codec.is_some() => {
                    Some(plan.codec.string_of_encode(known_codec, (plan.width, plan.height), plan.frame_rate))
                }
                _ => video_codec.map(str::to_owned),
            };
            let named = codec.map(|codec| if knows_avc3 { codec } else { codec.replacen("avc3", "avc1", 1) });
            let variant = rung.variant(PlaylistTrack::Video(number), named);
            Variant { iframe_bandwidth: variant.iframe_bandwidth.filter(|_| lists_iframes), ..variant }
        };
        self.rungs.iter().enumerate().map(to_variant).collect()
    }
}

/// The grid of the encoded rungs below copied video with this grid.
///
/// # Errors
/// The reason why it does not exist; the ladder then has no copy.
pub(super) fn encoded_grid(copied_grid: &Grid, media: &Media, stream: u32) -> std::result::Result<Grid, &'static str> {
    const UNEVEN: &str = "its keyframes do not match the even grid of the other rungs";
    let (_, video) = media.video_streams().find(|(found, _)| found.index == stream).ok_or(UNEVEN)?;
    let longest = (0..copied_grid.len()).map(|segment| copied_grid.segment_length(segment)).max().unwrap_or_default();
    if longest.as_seconds() > MAX_SEGMENT_SECONDS {
        return Err("its keyframes are too far apart");
    }
    copied_grid.to_frame_grid(video_encode::target_rate(video)).ok_or(UNEVEN)
}

/// The rungs below the best one of `plan`, all on `grid`.
pub(super) async fn lower_rungs(service: &Service, plan: &SessionPlan, grid: &Arc<Grid>) -> Result<Vec<Rung>> {
    let top = plan.top();
    let (Some(video), Some((_, height))) = (&top.spec.rendition.video, top.size) else { return Ok(Vec::new()) };
    let (stream, is_copied) = match video {
        VideoPlan::Copy { stream } => (*stream, true),
        VideoPlan::Encode(plan) => (plan.stream, false),
    };
    let is_costly = |kbps: u32| top.average_bandwidth as f64 > f64::from(kbps) * 1000.0 * MIN_COPY_RATIO;
    let own_height =
        RUNGS.iter().rev().find(|(_, lines, _)| *lines >= height).filter(|(.., kbps)| is_copied && is_costly(*kbps));
    let lower_heights = RUNGS.iter().filter(|(_, lines, _)| lines * 10 <= height * 9).map(|(_, lines, _)| *lines);
    let heights: Vec<u32> = own_height.map(|_| height).into_iter().chain(lower_heights).collect();
    let mut rungs: Vec<Rung> = Vec::new();
    // All encoded rungs have one codec, because not every player changes it within a session.
    let mut codec = match video {
        VideoPlan::Encode(plan) => CodecChoice::Fixed(plan.codec),
        VideoPlan::Copy { .. } if plan.format() == SegmentFormat::Fmp4 => plan.request.codec_choice(),
        VideoPlan::Copy { .. } => CodecChoice::Fixed(TargetCodec::H264),
    };
    let subtitle = &plan.request.playback.subtitle;
    // All rungs have one grid, so one frame rate.
    let has_frame_per_field = matches!(video, VideoPlan::Encode(plan) if plan.has_frame_per_field);
    for rung_height in heights {
        let limits = plan.request.encode_limits();
        let field_rate = if has_frame_per_field { limits.field_rate } else { FieldRate::FramePerPair };
        let limits = EncodeLimits { max_height: Some(rung_height), field_rate, ..limits };
        let video = plan_encode(service, &top.spec.media, stream, limits, subtitle, codec).await?;
        codec = CodecChoice::Fixed(video.codec);
        let rendition = Rendition {
            video: Some(VideoPlan::Encode(video)),
            audio: top.spec.rendition.audio.clone(),
            format: top.spec.rendition.format,
        };
        let spec = RenditionSpec {
            rendition: Arc::new(rendition),
            grid: grid.clone(),
            package: None,
            ..RenditionSpec::clone(&top.spec)
        };
        let rung = Rung::new(Arc::new(spec), plan.duration_seconds);
        // Players choose by bit rate, so a rung that needs more and shows less is never useful.
        let best = rungs.last().unwrap_or(top);
        if rung.bandwidth < best.bandwidth {
            rungs.push(rung);
        }
    }
    Ok(rungs)
}

/// Display size and frame rate of the video that is served.
fn video_size_and_rate(media: &Media, rendition: &Rendition) -> Option<((u32, u32), Option<FrameRate>)> {
    match rendition.video.as_ref()? {
        VideoPlan::Encode(plan) => Some(((plan.width, plan.height), Some(plan.frame_rate))),
        VideoPlan::Copy { stream } => {
            let (_, video) = media.video_streams().find(|(found, _)| found.index == *stream)?;
            let (width, height) = video.display_size();
            Some(((width.round() as u32, height.round() as u32), video.frame_rate))
        }
    }
}

fn audio_codec(media: &Media, rendition: &Rendition) -> Option<String> {
    match rendition.audio.as_ref()? {
        AudioPlan::Encode { .. } => Some("mp4a.40.2".into()),
        AudioPlan::Copy { stream } => media.stream(*stream)?.codec_string.clone(),
    }
}

/// Peak and average bit rate of the rendition, bit/s, including the overhead of the transport stream.
fn bandwidth(source: &SourceFile, media: &Media, rendition: &Rendition, duration: f64) -> BitRates {
    let stream_kbps = |index: u32| media.stream(index).and_then(|stream| stream.bitrate_kbps).map(f64::from);
    let file_kbps = source.len as f64 * 8.0 / duration.max(0.001) / 1000.0;
    let (mut peak, mut average) = match &rendition.video {
        None => (0.0, 0.0),
        Some(VideoPlan::Copy { stream }) => {
            let kbps = stream_kbps(*stream).unwrap_or(file_kbps);
            (kbps * 2.0, kbps)
        }
        // The limit applies over two seconds; most video needs less.
        Some(VideoPlan::Encode(plan)) => (f64::from(plan.max_kbps) * 1.5, f64::from(plan.max_kbps) * 0.7),
    };
    let audio_kbps = match &rendition.audio {
        None => 0.0,
        Some(AudioPlan::Copy { stream }) => stream_kbps(*stream).unwrap_or(f64::from(STEREO_KBPS)),
        Some(AudioPlan::Encode { kbps, .. }) => f64::from(*kbps),
    };
    peak += audio_kbps;
    average += audio_kbps;
    const CONTAINER: f64 = 1.05;
    let rate = |kbps: f64| (kbps * CONTAINER * 1000.0) as u64;
    BitRates { peak: rate(peak), average: rate(average), iframe_peak: None }
}
