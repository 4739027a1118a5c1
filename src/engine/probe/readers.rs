//! The quick way: our readers report what the container states, the discoverer what the decoders see.
//!
//! Order, flags, languages, names, rotation, timing and chapters come from the container; size, sample aspect ratio, bit
//! depth, chroma, interlacing, profile, level and channels from the discoverer. Transport streams repeat all of that in
//! the headers of video and audio, where our reader finds it: the discoverer takes nearly half of ffprobe's time for them,
//! and got some wrong. Only plain 8-bit video is accepted, and only if both agree on every stream; other files are left to
//! ffprobe. A test compares the result with ffprobe over the corpus.

use std::collections::HashSet;
use std::sync::Arc;

use super::avc;
use super::coded;
use super::decoder_info::DecoderInfo;
use super::outline::{ContainerOutline, OutlineTrack, OutlineTrackKind, Result, refuse_if};
use super::{HEAD_BYTES, ProbeTools, container, ffprobe, matroska, mp4, mpegts, read_blocking, truncation};
use crate::domain::codec::{self, CodecInfo};
use crate::domain::media::{Audio, Container, Media, Stream, StreamKind, Subtitle, Video};
use crate::domain::sniff;
use crate::engine::clock;
use crate::engine::container::bytes::read_up_to;
use crate::engine::source::SourceFile;
use crate::engine::worker::Isolation;

/// Maximum frame size that the discoverer may decode, luma samples: slightly more than 8K UHD. Larger frames exceed the
/// memory of a worker. ffprobe, which decodes them, has limits of its own.
const MAX_FRAME_LUMA_SAMPLES: u64 = 8192 * 4320;

/// Describes a plain file with our readers and the discoverer. The error is the reason why ffprobe is needed.
pub async fn probe_with_readers(
    tools: &ProbeTools,
    source: &Arc<SourceFile>,
    isolation: &Isolation,
) -> Result<Media, String> {
    let decodable = ffprobe::decodable_codecs(tools).await.map_err(|_| "no list of decoders")?;
    let (head, outline, infos) = if source.format.is_some_and(|sniffed| sniffed.container == sniff::Container::MpegTs) {
        let read = |file: &Arc<SourceFile>| {
            refuse_if(clock::has_clock_jump(file).unwrap_or(false), "the clock jumps")?;
            mpegts::read_outline(file)
        };
        let (outline, infos) = read_blocking(source, read).await.ok_or("the reader failed")??;
        (Vec::new(), outline, infos)
    } else {
        let read = |file: &Arc<SourceFile>| {
            let head = read_up_to(file, 0, HEAD_BYTES).map_err(|_| "unreadable")?;
            let is_webm = container::doc_type(&head) == Some(b"webm");
            let outline = match (head.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]), head.get(4..8) == Some(b"ftyp")) {
                (true, _) => matroska::read_outline(file, is_webm)?,
                (_, true) => mp4::read_outline(file)?,
                _ => return Err("another container"),
            };
            Ok((head, outline))
        };
        let (head, outline) = read_blocking(source, read).await.ok_or("the reader failed")??;
        outline.tracks.iter().filter(|track| track.kind == OutlineTrackKind::Video).try_for_each(check_size)?;
        let infos = isolation.discover(source).await?;
        (head, outline, infos)
    };
    let media = merge(outline, &infos, &head, source.len, decodable)?;
    Ok(match media.container {
        Container::Matroska | Container::Webm => truncation::with_duration_by_cues(source, media).await,
        _ => media,
    })
}

/// Refuses video whose frames are too large for the discoverer, by the container or the video itself, or of unknown size.
fn check_size(track: &OutlineTrack) -> Result<()> {
    let stated_samples = u64::from(track.width) * u64::from(track.height);
    let coded_samples = coded::luma_samples(track).ok_or("the video does not state its frame size")?;
    let is_too_large = stated_samples.max(coded_samples) > MAX_FRAME_LUMA_SAMPLES;
    refuse_if(is_too_large, "frames too large for the discoverer")
}

fn merge(
    outline: ContainerOutline,
    infos: &[DecoderInfo],
    head: &[u8],
    len: u64,
    decodable: &HashSet<String>,
) -> Result<Media> {
    let ContainerOutline { media, duration_seconds, tracks } = outline;
    let streams = tracks.iter().map(|track| merge_stream(track, infos, decodable)).collect::<Result<Vec<_>, _>>()?;
    let has_video = streams.iter().any(|stream| matches!(stream.kind, StreamKind::Video(_)));
    Ok(Media {
        mime_type: container::mime_type(media.container, head, has_video, &streams).to_owned(),
        duration_seconds: Some(duration_seconds),
        bitrate_kbps: Some((len as f64 * 8.0 / duration_seconds / 1000.0).round() as u32),
        streams,
        ..media
    })
}

fn merge_stream(track: &OutlineTrack, decoder_infos: &[DecoderInfo], decodable: &HashSet<String>) -> Result<Stream> {
    let info_of_track = decoder_infos.iter().find(|info| info.container_id == track.container_id);
    let required_info = || {
        let info = info_of_track.ok_or("the discoverer misses a stream")?;
        if info.codec == Some(track.codec) { Ok(info) } else { Err("the readers disagree on a codec") }
    };
    let (mut profile, mut level) = (None, None);
    let mut size = (0, 0);
    let kind = match track.kind {
        OutlineTrackKind::Video => {
            let info = required_info()?;
            profile = info.profile.clone();
            level = match (track.codec, &track.config[..]) {
                ("av1", [_, second, ..]) => codec::format_level("av1", i64::from(second & 0x1f)),
                _ => info.level.clone(),
            };
            size = (info.width, info.height);
            StreamKind::Video(merge_video(track, info)?)
        }
        OutlineTrackKind::Audio => {
            let info = required_info()?;
            profile = info.profile.clone().filter(|_| track.codec == "aac");
            StreamKind::Audio(merge_audio(track, info)?)
        }
        OutlineTrackKind::TextSubtitle | OutlineTrackKind::BitmapSubtitle => StreamKind::Subtitle(Subtitle {
            is_text: track.kind == OutlineTrackKind::TextSubtitle,
            is_hearing_impaired: track.is_hearing_impaired,
        }),
        OutlineTrackKind::Data => StreamKind::Data,
    };
    let codec_info = CodecInfo {
        codec: track.codec,
        profile: profile.as_deref(),
        level: None,
        bit_depth: 8,
        width: size.0,
        height: size.1,
        config: &track.config,
    };
    Ok(Stream {
        index: track.index,
        codec: track.codec.to_owned(),
        codec_string: codec::codec_string(&codec_info),
        profile,
        level,
        bitrate_kbps: track.bitrate_kbps,
        language: track.language.clone(),
        title: track.title.clone(),
        is_default: track.is_default,
        is_forced: track.is_forced,
        is_decodable: decodable.contains(track.codec),
        kind,
    })
}

fn merge_video(track: &OutlineTrack, info: &DecoderInfo) -> Result<Video> {
    let bit_depth = info.bit_depth.unwrap_or(if track.codec == "vp8" { 8 } else { 0 });
    refuse_if(bit_depth != 8, "not 8-bit video")?;
    refuse_if(info.is_interlaced, "interlaced")?;
    refuse_if(info.width == 0 || info.height == 0, "no size")?;
    let chroma = info.chroma.as_deref().unwrap_or(if track.codec == "vp8" { "4:2:0" } else { "" });
    refuse_if(!matches!(chroma, "4:2:0" | "4:2:2" | "4:4:4" | "4:0:0"), "unusual chroma")?;
    let mut color = info.color.clone();
    if let Some(is_full) = stated_full_range(track) {
        color.range = Some(if is_full { "full" } else { "limited" }.to_owned());
    }
    Ok(Video {
        sample_aspect: info.sample_aspect.unwrap_or((1, 1)),
        frame_rate: track.frame_rate,
        has_variable_frame_rate: track.has_variable_frame_rate,
        base_frame_rate: track.base_frame_rate,
        chroma: chroma.to_owned(),
        rotation: track.rotation,
        is_mirrored: track.is_mirrored,
        color,
        ..Video::new(info.width, info.height)
    })
}

/// Parameter sets take precedence over the container, as in ffmpeg. GStreamer reports limited range for full-range files.
fn stated_full_range(track: &OutlineTrack) -> Option<bool> {
    let coded_range = match track.codec {
        "h264" => avc::parse_sps_info(&track.config).and_then(|stated| stated.full_range),
        _ => None,
    };
    coded_range.or(track.full_range)
}

fn merge_audio(track: &OutlineTrack, info: &DecoderInfo) -> Result<Audio> {
    refuse_if(info.channels == 0 || info.sample_rate == 0, "audio without channels")?;
    // Spectral band replication may be implicit, with half the sample rate in the headers; ffprobe decodes it.
    refuse_if(track.codec == "aac" && info.sample_rate <= 24_000, "AAC that may be HE-AAC")?;
    let layout = match info.channels {
        1 => Some("mono"),
        2 => Some("stereo"),
        // The surround channels of Dolby and DTS are side channels.
        6 if matches!(track.codec, "ac3" | "eac3") => Some("5.1(side)"),
        6 => Some("5.1"),
        // FLAC may state other positions in a tag, which ffprobe reads.
        8 if track.codec != "flac" => Some("7.1"),
        _ => return Err("an unusual number of channels"),
    };
    let has_commentary_title =
        track.title.as_deref().is_some_and(|title| title.to_ascii_lowercase().contains("commentary"));
    Ok(Audio {
        channels: info.channels,
        channel_layout: layout.map(str::to_owned),
        sample_rate: info.sample_rate,
        bit_depth: None,
        is_commentary: track.is_commentary || has_commentary_title,
    })
}
