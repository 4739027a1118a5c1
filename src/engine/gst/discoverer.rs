//! GStreamer's Discoverer: what the decoders see in a file whose outline is known.

use std::cell::RefCell;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_pbutils as pbutils;
use gstreamer_pbutils::prelude::*;

use super::descriptor_source;
use crate::domain::media::Color;
use crate::engine::probe::{DecoderInfo, color_name};
use crate::engine::source::SourceFile;

/// Twenty times as long as any file of the corpus took.
pub(super) const DISCOVERER_TIMEOUT: gst::ClockTime = gst::ClockTime::from_mseconds(1500);

/// A result, or the reason why ffprobe is needed.
type Result<T> = std::result::Result<T, &'static str>;

thread_local! {
    /// The discoverer of this thread. It is kept between files.
    static DISCOVERER: RefCell<Option<pbutils::Discoverer>> = const { RefCell::new(None) };
}

/// The streams of a file as the decoders see them, containers excluded. Blocks for up to 1.5 s, and longer if GStreamer
/// does not return.
///
/// # Errors
/// The reason why ffprobe is needed.
pub fn discover(source: &Arc<SourceFile>) -> std::result::Result<Vec<DecoderInfo>, String> {
    prepare_discoverer()?;
    DISCOVERER.with_borrow(|discoverer| {
        let discoverer = discoverer.as_ref().ok_or("GStreamer has no discoverer")?;
        Ok(discover_streams(discoverer, source)?)
    })
}

/// Makes the discoverer of this thread unless it exists, so that the first file does not wait for it.
///
/// # Errors
/// Why GStreamer has none.
pub(super) fn prepare_discoverer() -> std::result::Result<(), String> {
    super::initialize()?;
    DISCOVERER.with_borrow_mut(|discoverer| {
        if discoverer.is_none() {
            let made = pbutils::Discoverer::new(DISCOVERER_TIMEOUT);
            *discoverer = Some(made.map_err(|cause| format!("GStreamer has no discoverer: {cause}"))?);
        }
        Ok(())
    })
}

fn discover_streams(discoverer: &pbutils::Discoverer, source: &SourceFile) -> Result<Vec<DecoderInfo>> {
    // The URI refers to the open descriptor of this process, never to a path.
    let info = discoverer.discover_uri(&descriptor_source::uri(source)).map_err(|_| "the discoverer failed")?;
    if info.result() != pbutils::DiscovererResult::Ok {
        return Err("the discoverer's result is incomplete");
    }
    info.stream_list()
        .iter()
        .filter(|stream| !stream.is::<pbutils::DiscovererContainerInfo>())
        .map(parse_stream_info)
        .collect()
}

fn parse_stream_info(stream: &pbutils::DiscovererStreamInfo) -> Result<DecoderInfo> {
    let id = stream.stream_id().ok_or("a stream without an id")?;
    // `<hash>/<track>` in mp4, `<hash>/<track>:<uid>` in Matroska.
    let container_id = id.rsplit('/').next().and_then(|tail| tail.split(':').next()?.parse().ok());
    let mut info =
        DecoderInfo { container_id: container_id.ok_or("a stream id of another form")?, ..DecoderInfo::default() };
    let caps = stream.caps().ok_or("a stream without caps")?;
    let fields = caps.structure(0).ok_or("a stream without caps")?;
    let text = |name: &str| fields.get::<String>(name).ok();
    (info.level, info.chroma) = (text("level"), text("chroma-format"));
    info.codec = codec_name(fields.name(), fields.get::<i32>("layer").ok());
    info.profile = text("profile").map(|name| profile_name(info.codec.unwrap_or_default(), &name));
    info.color = parse_colorimetry(text("colorimetry").as_deref())?;
    info.bit_depth = fields.get::<u32>("bit-depth-luma").ok();
    info.is_interlaced = text("interlace-mode").is_some_and(|mode| mode != "progressive");
    if let Some(video) = stream.downcast_ref::<pbutils::DiscovererVideoInfo>() {
        (info.width, info.height) = (video.width(), video.height());
        info.is_interlaced |= video.is_interlaced();
        let aspect = video.par();
        let pair = (u32::try_from(aspect.numer()), u32::try_from(aspect.denom()));
        info.sample_aspect = match pair {
            (Ok(num), Ok(den)) if num > 0 && den > 0 => Some((num, den)),
            _ => None,
        };
    }
    if let Some(audio) = stream.downcast_ref::<pbutils::DiscovererAudioInfo>() {
        (info.channels, info.sample_rate) = (audio.channels(), audio.sample_rate());
    }
    Ok(info)
}

/// ffmpeg's name of a media type.
fn codec_name(caps: &str, mpeg_layer: Option<i32>) -> Option<&'static str> {
    Some(match caps {
        "video/x-h264" => "h264",
        "video/x-h265" => "hevc",
        "video/x-vp8" => "vp8",
        "video/x-vp9" => "vp9",
        "video/x-av1" => "av1",
        "audio/mpeg" if mpeg_layer == Some(3) => "mp3",
        "audio/mpeg" if mpeg_layer.is_none() => "aac",
        "audio/x-ac3" => "ac3",
        "audio/x-eac3" => "eac3",
        "audio/x-opus" => "opus",
        "audio/x-vorbis" => "vorbis",
        "audio/x-flac" => "flac",
        _ => return None,
    })
}

/// GStreamer's profile names as ffmpeg writes them.
fn profile_name(codec: &str, name: &str) -> String {
    match (codec, name) {
        ("h264", "high-4:4:4") => "high-4:4:4-predictive".into(),
        ("vp9", number) if number.len() == 1 => format!("profile-{number}"),
        ("aac", "he-aac-v1") => "he-aac".into(),
        ("aac", "he-aac-v2") => "he-aacv2".into(),
        _ => name.to_owned(),
    }
}

/// Parses a colorimetry string, a name or `range:matrix:transfer:primaries`. Wide gamuts are left to ffprobe.
fn parse_colorimetry(text: Option<&str>) -> Result<Color> {
    let color_of = |primaries: &str, transfer: &str, matrix: &str, range: &str| Color {
        primaries: Some(primaries.into()),
        transfer: Some(transfer.into()),
        matrix: Some(matrix.into()),
        range: Some(range.into()),
    };
    match text {
        None => Ok(Color::default()),
        Some("bt709") => Ok(color_of("bt709", "bt709", "bt709", "limited")),
        Some("bt601") => Ok(color_of("smpte170m", "smpte170m", "smpte170m", "limited")),
        Some(text) => {
            let numbers: Vec<u8> = text.split(':').filter_map(|part| part.parse().ok()).collect();
            let [range, matrix, transfer, primaries] = numbers[..] else { return Err("unusual colours") };
            // Numbers of GstVideoColorRange, -Matrix, -TransferFunction and -Primaries.
            Ok(Color {
                range: color_name(range, 0, &[(1, "full"), (2, "limited")])?,
                matrix: color_name(matrix, 0, &[(3, "bt709"), (4, "smpte170m")])?,
                transfer: color_name(transfer, 0, &[(5, "bt709"), (16, "smpte170m")])?,
                primaries: color_name(primaries, 0, &[(1, "bt709"), (3, "bt470bg"), (4, "smpte170m")])?,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::damaged_films::make_film;
    use crate::engine::source::open_in_test;

    #[test]
    fn streams_are_discovered_by_descriptor_and_damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mkv");
        let film = make_film("a.mkv", "-f lavfi -i sine=r=48000:d=3", "-pix_fmt yuv420p -c:a aac");
        std::fs::write(&path, &film).unwrap();
        let source = Arc::new(open_in_test(&path));
        // Twice on this thread: the discoverer is kept.
        for _ in 0..2 {
            let mut streams = discover(&source).unwrap();
            streams.sort_by_key(|stream| stream.container_id);
            let [video, audio] = &streams[..] else { panic!("{streams:?}") };
            assert_eq!((video.container_id, video.codec, video.width, video.height), (1, Some("h264"), 64, 48));
            assert_eq!((audio.container_id, audio.codec, audio.sample_rate), (2, Some("aac"), 48_000));
            let damaged = folder.path().join("b.mkv");
            std::fs::write(&damaged, &film[..300]).unwrap();
            discover(&Arc::new(open_in_test(&damaged))).unwrap_err();
        }
    }
}
