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
use super::discover::discover;
use super::outline::{Kind, Outline, Track, Unsure};
use super::seen::Seen;
use super::{Held, container, matroska, mp4, mpegts};
use crate::domain::codec::{self, CodecInfo};
use crate::domain::media::{Audio, Media, Stream, StreamKind, Subtitle, Video};
use crate::domain::sniff;
use crate::engine::clock;
use crate::engine::source::Source;

/// Maximum frame size that the discoverer may decode in this process, luma samples: slightly more than 8K UHD. ffprobe,
/// which decodes larger ones, has its own limits (`ffmpeg::spawn::Limits`).
const LARGEST_FRAME: u64 = 8192 * 4320;

/// Describes a plain file without starting a process.
pub(super) async fn media(
    source: &Arc<Source>,
    head: &[u8],
    decodable: &HashSet<String>,
    held: Held,
) -> Result<Media, Unsure> {
    let (outline, seen) = if source.sniffed.is_some_and(|sniffed| sniffed.container == sniff::Container::MpegTs) {
        let source = source.clone();
        let reading = move || {
            let _held = held;
            if clock::has_jump(&source).unwrap_or(false) {
                return Err(Unsure("the clock jumps"));
            }
            mpegts::read(&source)
        };
        tokio::task::spawn_blocking(reading).await.map_err(|_| Unsure("the reader failed"))??
    } else {
        let outline = outline(source, head).await?;
        outline.tracks.iter().filter(|track| track.kind == Kind::Video).try_for_each(check_size)?;
        let seen = discover(source, held).await?;
        (outline, seen)
    };
    merge(outline, &seen, head, source.len, decodable)
}

async fn outline(source: &Arc<Source>, head: &[u8]) -> Result<Outline, Unsure> {
    let matroska = head.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]);
    let mp4 = head.get(4..8) == Some(b"ftyp");
    if !matroska && !mp4 {
        return Err(Unsure("another container"));
    }
    let webm = container::doc_type(head) == Some(b"webm");
    let source = source.clone();
    let reading =
        tokio::task::spawn_blocking(move || if mp4 { mp4::read(&source) } else { matroska::read(&source, webm) });
    reading.await.map_err(|_| Unsure("the reader failed"))?
}

/// Refuses video whose frames are too large for this process, by the container or the video itself, or of unknown size.
fn check_size(track: &Track) -> Result<(), Unsure> {
    let stated = u64::from(track.width) * u64::from(track.height);
    let coded = coded::luma_samples(track).ok_or(Unsure("the video does not state its frame size"))?;
    if stated.max(coded) > LARGEST_FRAME {
        return Err(Unsure("frames too large to be decoded in this process"));
    }
    Ok(())
}

fn merge(outline: Outline, seen: &[Seen], head: &[u8], len: u64, decodable: &HashSet<String>) -> Result<Media, Unsure> {
    let streams = outline.tracks.iter().map(|track| stream(track, seen, decodable)).collect::<Result<Vec<_>, _>>()?;
    let moving = streams.iter().any(|stream| matches!(stream.kind, StreamKind::Video(_)));
    Ok(Media {
        container: outline.container,
        mime_type: container::mime_type(outline.container, head, moving, &streams).to_owned(),
        duration_seconds: Some(outline.duration_seconds),
        start_seconds: outline.start_seconds,
        clock_pieces: Vec::new(),
        bitrate_kbps: Some((len as f64 * 8.0 / outline.duration_seconds / 1000.0).round() as u32),
        is_seekable: true,
        keyframe_interval_seconds: None,
        streams,
        chapters: outline.chapters,
        attachments: outline.attachments,
        tags: outline.tags,
        warnings: Vec::new(),
    })
}

fn stream(track: &Track, seen: &[Seen], decodable: &HashSet<String>) -> Result<Stream, Unsure> {
    let of_track = seen.iter().find(|seen| seen.key == track.key);
    let needed = || {
        let seen = of_track.ok_or(Unsure("the discoverer misses a stream"))?;
        if seen.codec == Some(track.codec) { Ok(seen) } else { Err(Unsure("the readers disagree on a codec")) }
    };
    let (mut profile, mut level) = (None, None);
    let mut size = (0, 0);
    let kind = match track.kind {
        Kind::Video => {
            let seen = needed()?;
            profile = seen.profile.clone();
            level = match (track.codec, &track.config[..]) {
                ("av1", [_, second, ..]) => codec::format_level("av1", i64::from(second & 0x1f)),
                _ => seen.level.clone(),
            };
            size = (seen.width, seen.height);
            StreamKind::Video(video(track, seen)?)
        }
        Kind::Audio => {
            let seen = needed()?;
            profile = seen.profile.clone().filter(|_| track.codec == "aac");
            StreamKind::Audio(audio(track, seen)?)
        }
        Kind::TextSubtitle => StreamKind::Subtitle(Subtitle { is_text: true, is_hearing_impaired: track.hearing_impaired }),
        Kind::BitmapSubtitle => {
            StreamKind::Subtitle(Subtitle { is_text: false, is_hearing_impaired: track.hearing_impaired })
        }
        Kind::Data => StreamKind::Data,
    };
    let facts = CodecInfo {
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
        codec_string: codec::codec_string(&facts),
        profile,
        level,
        bitrate_kbps: track.bitrate_kbps,
        language: track.language.clone(),
        title: track.title.clone(),
        is_default: track.default,
        is_forced: track.forced,
        is_decodable: decodable.contains(track.codec),
        kind,
    })
}

fn video(track: &Track, seen: &Seen) -> Result<Video, Unsure> {
    let depth = seen.bit_depth.unwrap_or(if track.codec == "vp8" { 8 } else { 0 });
    if depth != 8 {
        return Err(Unsure("not 8-bit video"));
    }
    if seen.interlaced {
        return Err(Unsure("interlaced"));
    }
    if seen.width == 0 || seen.height == 0 {
        return Err(Unsure("no size"));
    }
    let chroma = seen.chroma.as_deref().unwrap_or(if track.codec == "vp8" { "4:2:0" } else { "" });
    if !matches!(chroma, "4:2:0" | "4:2:2" | "4:4:4" | "4:0:0") {
        return Err(Unsure("unusual chroma"));
    }
    let mut color = seen.color.clone();
    if let Some(full) = full_range(track) {
        color.range = Some(if full { "full" } else { "limited" }.to_owned());
    }
    Ok(Video {
        sample_aspect: seen.sample_aspect.unwrap_or((1, 1)),
        frame_rate: track.frame_rate,
        has_variable_frame_rate: track.variable_frame_rate,
        chroma: chroma.to_owned(),
        rotation: track.rotation,
        is_mirrored: track.mirrored,
        color,
        ..Video::new(seen.width, seen.height)
    })
}

/// Parameter sets take precedence over the container, as in ffmpeg. GStreamer reports limited range for full-range files.
fn full_range(track: &Track) -> Option<bool> {
    let coded = match track.codec {
        "h264" => avc::stated(&track.config).and_then(|stated| stated.full_range),
        _ => None,
    };
    coded.or(track.full_range)
}

fn audio(track: &Track, seen: &Seen) -> Result<Audio, Unsure> {
    if seen.channels == 0 || seen.sample_rate == 0 {
        return Err(Unsure("audio without channels"));
    }
    // Spectral band replication may be implicit, with half the sample rate in the headers; ffprobe decodes it.
    if track.codec == "aac" && seen.sample_rate <= 24_000 {
        return Err(Unsure("AAC that may be HE-AAC"));
    }
    let layout = match seen.channels {
        1 => Some("mono"),
        2 => Some("stereo"),
        // The surround channels of Dolby and DTS are side channels.
        6 if matches!(track.codec, "ac3" | "eac3") => Some("5.1(side)"),
        6 => Some("5.1"),
        8 => Some("7.1"),
        _ => return Err(Unsure("an unusual number of channels")),
    };
    let titled = track.title.as_deref().is_some_and(|title| title.to_ascii_lowercase().contains("commentary"));
    Ok(Audio {
        channels: seen.channels,
        channel_layout: layout.map(str::to_owned),
        sample_rate: seen.sample_rate,
        bit_depth: None,
        is_commentary: track.commentary || titled,
    })
}
