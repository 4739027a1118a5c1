//! A sheet of seek previews: some keyframes of a film as one JPEG.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::{output_of, tone_mapping};
use crate::domain::media::{Container, Media, Video};
use crate::domain::seek_previews::{PreviewLayout, keyframe_places};
use crate::engine::ffmpeg::argument_list::ArgumentList;
use crate::engine::ffmpeg::to_memory_file;
use crate::engine::packager::Package;
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError};

/// Largest sheet, bytes.
const MAX_SHEET_BYTES: usize = 4 << 20;

/// A sheet from the keyframes of packaged video alone: nothing between them is read or decoded. None if they cannot be decoded.
///
/// # Errors
/// `SourceRead`; `Stalled`; `Internal` when ffmpeg does not start.
pub async fn from_keyframes(
    ffmpeg: &Path,
    source: &Arc<SourceFile>,
    package: Arc<Package>,
    video: &Video,
    (layout, sheet): (PreviewLayout, usize),
) -> Result<Option<Vec<u8>>> {
    let own_source = source.clone();
    // Reads some MB, perhaps from a disk that is asleep.
    let read = tokio::task::spawn_blocking(move || read_keyframes(&own_source, &package, layout, sheet));
    let file = Arc::new(read.await.map_err(|cause| RunError::Internal(cause.to_string()))??);
    for filter in filters(video, layout) {
        let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error -threads 1 -skip_loop_filter all");
        args.add_item(Container::Mp4, &format!("/proc/self/fd/{}", file.as_raw_fd()), None).add("-map 0:v:0");
        add_output(&mut args, &filter);
        if let Some(made) = output_of(ffmpeg, args, file.clone(), MAX_SHEET_BYTES).await? {
            return Ok(Some(made));
        }
    }
    Ok(None)
}

/// The keyframes of a sheet as a film in memory.
fn read_keyframes(source: &SourceFile, package: &Package, layout: PreviewLayout, sheet: usize) -> Result<File> {
    let track = package.cmaf_track().and_then(|track| Some((track, track.index()?)));
    let (track, index) = track.ok_or_else(|| RunError::Internal("the video has no index".into()))?;
    let keyframes: Vec<f64> = index.keyframes.iter().map(|keyframe| keyframe.as_seconds()).collect();
    let film = track.keyframe_film(source, &keyframe_places(&keyframes, layout.times_of(sheet)))?;
    to_memory_file("keyframes", &film).map_err(|cause| RunError::Internal(format!("a film in memory: {cause}")))
}

/// A sheet from a file that is not packaged: read from the first image to the last one, and of it all keyframes are decoded. None if
/// none can be decoded.
///
/// # Errors
/// `Stalled`; `Internal` when ffmpeg does not start.
pub async fn from_file(
    ffmpeg: &Path,
    source: &Arc<SourceFile>,
    media: &Media,
    (stream, video): (u32, &Video),
    (layout, sheet): (PreviewLayout, usize),
) -> Result<Option<Vec<u8>>> {
    let times: Vec<f64> = layout.times_of(sheet).collect();
    let Some(start) = times.first() else { return Ok(None) };
    let length = times.len() as f64 * layout.interval_seconds;
    for filter in filters(video, layout) {
        let mut args = ArgumentList::new(
            "-nostdin -hide_banner -loglevel error -threads 1 -skip_loop_filter all -skip_frame nokey",
        );
        args.pair("-ss", format!("{start:.3}")).pair("-t", length);
        args.add_item(media.container, &source.proc_path(), None).pair("-map", format!("0:{stream}"));
        add_output(&mut args, &format!("fps=1/{}:start_time=0,{filter}", layout.interval_seconds));
        if let Some(made) = output_of(ffmpeg, args, source.clone(), MAX_SHEET_BYTES).await? {
            return Ok(Some(made));
        }
    }
    Ok(None)
}

/// The filters to try: HDR is mapped to SDR, if this ffmpeg can.
fn filters(video: &Video, layout: PreviewLayout) -> Vec<String> {
    let (width, height) = layout.size;
    let scale = format!("scale={width}:{height}:flags=bicubic");
    let columns = layout.columns;
    let tiles = format!("format=yuv420p,scale=out_range=full,setsar=1,tile={columns}x{columns}");
    let plain = format!("{scale},{tiles}");
    tone_mapping(video).map(|mapping| format!("{scale},{mapping},{tiles}")).into_iter().chain([plain]).collect()
}

fn add_output(args: &mut ArgumentList, filter: &str) {
    args.add("-frames:v 1 -fps_mode passthrough -threads 1").pair("-vf", filter);
    args.add("-c:v mjpeg -q:v 5 -pix_fmt yuvj420p -f image2pipe pipe:1");
}
