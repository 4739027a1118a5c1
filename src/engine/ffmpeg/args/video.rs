//! The video part of the arguments: one filter chain (scaling, tone mapping of HDR, deinterlacing), burned-in subtitles and
//! overlays, the encoder with its rate control and GOP.

use super::{ArgumentList, ArgumentOptions, CHANGE_WINDOW_SECONDS, may_change_format};
use crate::domain::grid::Grid;
use crate::domain::media::{Container, Media, StreamKind, Video};
use crate::domain::plan::{BurnedSubtitle, Corner, EncodeVideo, VideoPlan, WatermarkOverlay};
use crate::engine::RunError;
use crate::engine::ffmpeg::tone_map::tone_map_filters;
use crate::engine::video_encoders::{FfmpegEncoder, VideoEncoder};

pub(super) fn add_video(args: &mut ArgumentList, options: &ArgumentOptions) -> Result<(), RunError> {
    let plan = match &options.rendition.video {
        None => {
            args.add("-vn");
            return Ok(());
        }
        Some(VideoPlan::Copy { stream }) => {
            args.pair("-map", format!("0:{stream}")).add("-c:v copy");
            if let Some((num, den)) = container_only_aspect(options.media, *stream) {
                let is_hevc = options.media.stream(*stream).is_some_and(|stream| stream.codec == "hevc");
                let filter = if is_hevc { "hevc_metadata" } else { "h264_metadata" };
                args.pair("-bsf:v", format!("{filter}=sample_aspect_ratio={num}/{den}"));
            }
            return Ok(());
        }
        Some(VideoPlan::Encode(plan)) => plan,
    };
    let Grid::Frames(frames) = options.grid else {
        return Err(RunError::Internal("encoded video needs a grid of frames".into()));
    };
    let (filters_before, mut filters_after) = video_filters(options, plan)?;
    if let Some(watermark) = &plan.watermark {
        filters_after.insert(0, watermark_filter(options, plan, watermark));
    }
    match &plan.burn {
        Some(burn) if burn.is_bitmap() => {
            let subtitle = match burn {
                BurnedSubtitle::Embedded { stream, .. } => format!("0:{stream}"),
                BurnedSubtitle::Sidecar { .. } => "1:s:0".to_owned(),
            };
            let matrix = overlay_matrix(options, plan);
            let graph =
                bitmap_overlay_graph(plan, &subtitle, matrix, &filters_before.join(","), &filters_after.join(","));
            args.pair("-filter_complex", graph).add("-map [v]");
        }
        Some(_) => {
            let path =
                options.subtitle_path.ok_or_else(|| RunError::Internal("the subtitle to burn in is missing".into()))?;
            if !options.features.has_ass {
                return Err(RunError::Encoder("this ffmpeg cannot burn in text (no libass)".into()));
            }
            let chain = [filters_before, vec![format!("ass=filename={path}")], filters_after].concat();
            add_single_chain(args, plan, &chain.join(","));
        }
        None => {
            add_single_chain(args, plan, &[filters_before, filters_after].concat().join(","));
        }
    }
    args.pair("-r", format!("{}/{}", frames.rate.num, frames.rate.den));
    add_encoder(args, plan, frames.frames_per_segment)?;
    args.add("-color_range tv");
    if plan.tone_map.is_some() || is_rgb(options, plan) {
        args.add("-colorspace bt709 -color_primaries bt709 -color_trc bt709");
    }
    // 1 ms early because the encoder compares rounded times: it forces the first frame at or after the given time.
    let keyframe_times = frames
        .forced_keyframe_segments(options.first)
        .map(|segment| format!("{:.6}", options.grid.segment_start(segment).as_seconds() - 0.001));
    let forced_keyframes: Vec<String> = keyframe_times.collect();
    if !forced_keyframes.is_empty() {
        args.pair("-force_key_frames", forced_keyframes.join(","));
    }
    Ok(())
}

/// A pixel aspect ratio that may be in the container only, and would be lost in a transport stream.
fn container_only_aspect(media: &Media, stream: u32) -> Option<(u32, u32)> {
    let is_mp4_or_matroska = matches!(media.container, Container::Mp4 | Container::Matroska);
    let (_, video) = media.video_streams().find(|(found, _)| is_mp4_or_matroska && found.index == stream)?;
    let (num, den) = video.sample_aspect;
    // The sequence parameter set has sixteen bits for each (ITU-T H.264 section E.1.1).
    (num != den && (1..=0xffff).contains(&num) && (1..=0xffff).contains(&den)).then_some((num, den))
}

/// The filters before and after the burned-in subtitle.
fn video_filters(options: &ArgumentOptions, plan: &EncodeVideo) -> Result<(Vec<String>, Vec<String>), RunError> {
    let rate = format!("{}/{}", plan.frame_rate.num, plan.frame_rate.den);
    let start = options.grid.segment_start(options.first).as_seconds();
    let mut filters = Vec::new();
    if plan.deinterlace {
        let mode = if plan.has_frame_per_field { "send_field" } else { "send_frame" };
        filters.push(format!("bwdif=mode={mode}:deint=interlaced"));
    }
    // Frames are put on the grid before any costly filter, so that those before the first segment are never scaled. The
    // last one is repeated until the planned end; `-frames:v` would end the audio with the video.
    let frames = match options.grid {
        Grid::Frames(frames) => frames.total_frames - frames.first_frame(options.first),
        _ => 0,
    };
    if may_change_format(options.media.container) {
        // A quarter of a frame early: `trim` rounds to frames.
        let early_seconds = 0.25 / plan.frame_rate.as_f64();
        let (begin_seconds, end) = (start - early_seconds, options.grid.end().as_seconds() - early_seconds);
        let window_end = start + CHANGE_WINDOW_SECONDS as f64;
        filters.push(format!("setpts='if(N,PTS,if(between(T,{start:.6},{window_end:.6}),{start:.6}/TB,PTS))'"));
        filters.push(format!("fps=fps={rate}"));
        filters.push(format!("tpad=stop=-1:stop_mode=clone,trim=start={begin_seconds:.6}:end={:.6}", end.max(start)));
    } else {
        filters.push(format!("fps=fps={rate}:start_time={start:.6}"));
        filters.push(format!("tpad=stop=-1:stop_mode=clone,trim=end_frame={}", frames.max(1)));
    }
    let (width, height) = (plan.width, plan.height);
    let color = source_video(options, plan).map(|video| &video.color);
    if let Some(hdr) = plan.tone_map {
        if !options.features.has_tone_map {
            return Err(RunError::Encoder("this ffmpeg cannot map HDR to SDR (no zscale)".into()));
        }
        filters.push(tone_map_filters(hdr, color, Some((width, height))));
    } else {
        // Bilinear takes half the time of `bicubic`, and is GStreamer's method: SSIM 0.989 and 0.990 to the source at
        // 720 lines. zscale takes 2.6 ms of processor time instead of 4.5 ms from 1080 to 720 lines, and its output,
        // encoded and scaled back, is as close to the source (SSIM within 0.0001, two films).
        filters.push(match options.features.has_zscale && can_use_zscale(options.media, plan.stream) {
            true => format!("zscale=w={width}:h={height}:f=bilinear:r=limited"),
            // Without a matrix, swscale converts RGB to BT.601 and states none, which players take for BT.709 in HD.
            false if is_rgb(options, plan) => {
                format!("scale=w={width}:h={height}:flags=bilinear:out_range=tv:out_color_matrix=bt709")
            }
            false => format!("scale=w={width}:h={height}:flags=bilinear:out_range=tv"),
        });
    }
    Ok((filters, vec!["setsar=1".to_owned(), ffmpeg_encoder(plan)?.filter.to_owned()]))
}

/// Whether zscale can scale this stream. It refuses odd sizes, and RGB, which 4:2:0 H.264 and HEVC cannot contain. Of more
/// than 8 bits it would truncate where `scale` dithers.
fn can_use_zscale(media: &Media, stream: u32) -> bool {
    let video_stream = media.video_streams().find(|(found, _)| found.index == stream);
    video_stream.is_some_and(|(stream, video)| {
        let is_even = video.width % 2 == 0 && video.height % 2 == 0;
        is_even && matches!(stream.codec.as_str(), "h264" | "hevc") && (video.bit_depth, &*video.chroma) == (8, "4:2:0")
    })
}

/// The video to encode; None if the stream is not video.
fn source_video<'a>(options: &ArgumentOptions<'a>, plan: &EncodeVideo) -> Option<&'a Video> {
    match &options.media.stream(plan.stream)?.kind {
        StreamKind::Video(video) => Some(video),
        _ => None,
    }
}

fn is_rgb(options: &ArgumentOptions, plan: &EncodeVideo) -> bool {
    source_video(options, plan).is_some_and(Video::is_rgb)
}

/// The matrix by which overlays become YUV: that of the video. Without it, swscale takes BT.601 for any video.
fn overlay_matrix(options: &ArgumentOptions, plan: &EncodeVideo) -> &'static str {
    let is_bt709 = plan.tone_map.is_some() || source_video(options, plan).is_some_and(Video::uses_bt709);
    if is_bt709 { "bt709" } else { "bt601" }
}

fn bitmap_overlay_graph(plan: &EncodeVideo, subtitle: &str, matrix: &str, base: &str, last: &str) -> String {
    let (stream, width, height) = (plan.stream, plan.width, plan.height);
    format!(
        "[0:{stream}]{base}[base];[{subtitle}]scale=w={width}:h={height}:flags=bilinear:out_color_matrix={matrix}[sub];\
         [base][sub]overlay=eof_action=pass,{last}[v]"
    )
}

/// Adds one stream through one chain; as a filter graph if a watermark is a second input.
fn add_single_chain(args: &mut ArgumentList, plan: &EncodeVideo, chain: &str) {
    let stream = plan.stream;
    if plan.watermark.is_some() {
        args.pair("-filter_complex", format!("[0:{stream}]{chain}[v]")).add("-map [v]");
    } else {
        args.pair("-map", format!("0:{stream}")).pair("-filter:v", chain);
    }
}

/// The part of a chain that overlays the watermark. It reads the image as an input of its own, so
/// it fits into any chain of a filter graph.
fn watermark_filter(options: &ArgumentOptions, plan: &EncodeVideo, watermark: &WatermarkOverlay) -> String {
    let input = 1
        + usize::from(matches!(plan.burn, Some(BurnedSubtitle::Sidecar { bitmap: true, .. })))
        + usize::from(options.amr_path.is_some());
    let (width, matrix) = (watermark.width_pixels(plan.width), overlay_matrix(options, plan));
    let opacity = f64::from(watermark.opacity_percent) / 100.0;
    let margin = WatermarkOverlay::MARGIN;
    let (left, right) = (format!("W*{margin}"), format!("W-w-W*{margin}"));
    let (top, bottom) = (format!("H*{margin}"), format!("H-h-H*{margin}"));
    let (x, y) = match watermark.corner {
        Corner::TopLeft => (left, top),
        Corner::TopRight => (right, top),
        Corner::BottomLeft => (left, bottom),
        Corner::BottomRight => (right, bottom),
    };
    format!(
        "null[under];[{input}:v]scale=w={width}:h=-1:flags=bicubic,format=rgba,colorchannelmixer=aa={opacity:.2},\
         scale=out_color_matrix={matrix}:out_range=tv,format=yuva420p[watermark];\
         [under][watermark]overlay=x={x}:y={y}:eof_action=repeat"
    )
}

fn add_encoder(args: &mut ArgumentList, plan: &EncodeVideo, per_segment: u32) -> Result<(), RunError> {
    let max_kbps = plan.max_kbps.max(100);
    args.pair("-c:v", &plan.encoder).add(&ffmpeg_encoder(plan)?.run_args(per_segment, max_kbps));
    args.pair("-maxrate", format!("{max_kbps}k")).pair("-bufsize", format!("{}k", max_kbps * 2));
    Ok(())
}

fn ffmpeg_encoder(plan: &EncodeVideo) -> Result<&'static FfmpegEncoder, RunError> {
    let settings = VideoEncoder::of_name(&plan.encoder).and_then(|encoder| encoder.ffmpeg.as_ref());
    settings.ok_or_else(|| RunError::Encoder(format!("no settings for encoder {}", plan.encoder)))
}
