//! The video part of the arguments: one filter chain (scaling, tone mapping of HDR, deinterlacing), burned-in subtitles and
//! overlays, the encoder with its rate control and GOP.

use super::{Args, Ask, CHANGE_WINDOW_SECONDS, may_change};
use crate::domain::grid::Grid;
use crate::domain::media::{Container, Hdr, Media, StreamKind};
use crate::domain::plan::{BurnedSubtitle, Corner, WatermarkOverlay, EncodeVideo, VideoPlan};
use crate::domain::time::to_seconds;
use crate::engine::RunError;

pub(super) fn add(args: &mut Args, ask: &Ask) -> Result<(), RunError> {
    let plan = match &ask.rendition.video {
        None => {
            args.add("-vn");
            return Ok(());
        }
        Some(VideoPlan::Copy { stream }) => {
            args.pair("-map", format!("0:{stream}")).add("-c:v copy");
            if let Some((num, den)) = container_aspect(ask.media, *stream) {
                args.pair("-bsf:v", format!("h264_metadata=sample_aspect_ratio={num}/{den}"));
            }
            return Ok(());
        }
        Some(VideoPlan::Encode(plan)) => plan,
    };
    let Grid::Frames(frames) = ask.grid else {
        return Err(RunError::Internal("encoded video needs a grid of frames".into()));
    };
    let (first_chain, last_chain) = picture(ask, plan)?;
    let join = |parts: &[String]| parts.join(",");
    let (first_chain, last_chain) = match &plan.watermark {
        Some(emblem) => (first_chain, [vec![laid_over(ask, plan, emblem)], last_chain].concat()),
        None => (first_chain, last_chain),
    };
    match &plan.burn {
        Some(BurnedSubtitle::Embedded { stream, bitmap: true }) => {
            let (base, last) = (join(&first_chain), join(&last_chain));
            args.pair("-filter_complex", overlay(plan, &format!("0:{stream}"), &base, &last)).add("-map [v]");
        }
        Some(BurnedSubtitle::Sidecar { bitmap: true, .. }) => {
            let (base, last) = (join(&first_chain), join(&last_chain));
            args.pair("-filter_complex", overlay(plan, "1:s:0", &base, &last)).add("-map [v]");
        }
        Some(_) => {
            let path = ask.burn.ok_or_else(|| RunError::Internal("the subtitle to burn in is missing".into()))?;
            if !ask.abilities.text {
                return Err(RunError::Encoder("this ffmpeg cannot burn in text (no libass)".into()));
            }
            simple(args, plan, &join(&[first_chain, vec![format!("ass=filename={path}")], last_chain].concat()));
        }
        None => {
            simple(args, plan, &join(&[first_chain, last_chain].concat()));
        }
    }
    args.pair("-r", format!("{}/{}", frames.rate.num, frames.rate.den));
    encoder(args, plan, frames.frames_per_segment)?;
    // 1 ms early because the encoder compares rounded times: it forces the first frame at or after the given time.
    let told = frames.forced_keyframe_segments(ask.first).map(|k| format!("{:.6}", to_seconds(ask.grid.segment_start(k)) - 0.001));
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        args.pair("-force_key_frames", told.join(","));
    }
    Ok(())
}

/// A pixel aspect ratio that may be in the container only, and would be lost in a transport stream.
fn container_aspect(media: &Media, stream: u32) -> Option<(u32, u32)> {
    let own = matches!(media.container, Container::Mp4 | Container::Matroska);
    let (_, video) = media.video_streams().find(|(found, _)| own && found.index == stream)?;
    let (num, den) = video.sample_aspect;
    // The sequence parameter set has sixteen bits for each (ITU-T H.264 section E.1.1).
    (num != den && (1..=0xffff).contains(&num) && (1..=0xffff).contains(&den)).then_some((num, den))
}

/// The filters before and after the burned-in subtitle.
fn picture(ask: &Ask, plan: &EncodeVideo) -> Result<(Vec<String>, Vec<String>), RunError> {
    let rate = format!("{}/{}", plan.frame_rate.num, plan.frame_rate.den);
    let start = to_seconds(ask.grid.segment_start(ask.first));
    let mut chain = Vec::new();
    if plan.deinterlace {
        chain.push("bwdif=mode=send_frame:deint=interlaced".to_owned());
    }
    // Frames are put on the grid before any costly filter, so that those before the first segment are never scaled. The
    // last one is repeated until the planned end; `-frames:v` would end the audio with the video.
    let frames = match ask.grid {
        Grid::Frames(frames) => frames.total_frames - frames.first_frame(ask.first),
        _ => 0,
    };
    if may_change(ask.media.container) {
        // A quarter of a frame early: `trim` rounds to frames.
        let early = 0.25 / plan.frame_rate.as_f64();
        let (begin, end) = (start - early, to_seconds(ask.grid.end_ticks()) - early);
        let window = start + CHANGE_WINDOW_SECONDS as f64;
        chain.push(format!("setpts='if(N,PTS,if(between(T,{start:.6},{window:.6}),{start:.6}/TB,PTS))'"));
        chain.push(format!("fps=fps={rate}"));
        chain.push(format!("tpad=stop=-1:stop_mode=clone,trim=start={begin:.6}:end={:.6}", end.max(start)));
    } else {
        chain.push(format!("fps=fps={rate}:start_time={start:.6}"));
        chain.push(format!("tpad=stop=-1:stop_mode=clone,trim=end_frame={}", frames.max(1)));
    }
    let (width, height) = (plan.width, plan.height);
    let color = ask.media.stream(plan.stream).and_then(|stream| match &stream.kind {
        StreamKind::Video(video) => Some(&video.color),
        _ => None,
    });
    if let Some(hdr) = plan.tone_map {
        if !ask.abilities.tone_map {
            return Err(RunError::Encoder("this ffmpeg cannot map HDR to SDR (no zscale)".into()));
        }
        // As the container says, because the frames themselves may carry no description.
        let pq = color.and_then(|color| color.transfer.as_deref()).map_or(hdr != Hdr::Hlg, |name| name == "smpte2084");
        let transfer = if pq { "smpte2084" } else { "arib-std-b67" };
        let range = if color.and_then(|color| color.range.as_deref()) == Some("full") { "full" } else { "limited" };
        chain.push(format!(
            "zscale=w={width}:h={height}:tin={transfer}:min=bt2020nc:pin=bt2020:rin={range}:t=linear:npl=100"
        ));
        chain.push("format=gbrpf32le,zscale=p=bt709,tonemap=tonemap=hable:desat=0".to_owned());
        chain.push("zscale=t=bt709:m=bt709:r=limited".to_owned());
    } else {
        // Bilinear takes half the time of `bicubic`, and is GStreamer's method: SSIM 0.989 and 0.990 to the source at
        // 720 lines. zscale takes 2.6 ms of processor time instead of 4.5 ms from 1080 to 720 lines, and its output,
        // encoded and scaled back, is as close to the source (SSIM within 0.0001, two films).
        chain.push(match ask.abilities.resize && even(ask.media, plan.stream) {
            true => format!("zscale=w={width}:h={height}:f=bilinear:r=limited"),
            false => format!("scale=w={width}:h={height}:flags=bilinear:out_range=tv"),
        });
    }
    let format = match plan.encoder.as_str() {
        "h264_vaapi" => "format=nv12,hwupload",
        "h264_qsv" | "h264_nvenc" | "h264_amf" => "format=nv12",
        _ => "format=yuv420p",
    };
    Ok((chain, vec!["setsar=1".to_owned(), format.to_owned()]))
}

/// Whether zscale can scale this stream. It refuses odd sizes, and RGB, which 4:2:0 H.264 and HEVC cannot contain. Of more
/// than 8 bits it would truncate where `scale` dithers.
fn even(media: &Media, stream: u32) -> bool {
    let found = media.video_streams().find(|(found, _)| found.index == stream);
    found.is_some_and(|(stream, video)| {
        let size = video.width % 2 == 0 && video.height % 2 == 0;
        size && matches!(stream.codec.as_str(), "h264" | "hevc") && (video.bit_depth, &*video.chroma) == (8, "4:2:0")
    })
}

fn overlay(plan: &EncodeVideo, subtitle: &str, base: &str, last: &str) -> String {
    let (stream, width, height) = (plan.stream, plan.width, plan.height);
    format!(
        "[0:{stream}]{base}[base];[{subtitle}]scale=w={width}:h={height}:flags=bilinear[sub];\
         [base][sub]overlay=eof_action=pass,{last}[v]"
    )
}

/// Adds one stream through one chain; as a filter graph if a watermark is a second input.
fn simple(args: &mut Args, plan: &EncodeVideo, chain: &str) {
    let stream = plan.stream;
    if plan.watermark.is_some() {
        args.pair("-filter_complex", format!("[0:{stream}]{chain}[v]")).add("-map [v]");
    } else {
        args.pair("-map", format!("0:{stream}")).pair("-filter:v", chain);
    }
}

/// The part of a chain that overlays the watermark, 3 % from the edges. It reads the image as an input of its own, so
/// it fits into any chain of a filter graph.
fn laid_over(ask: &Ask, plan: &EncodeVideo, emblem: &WatermarkOverlay) -> String {
    let input = 1
        + usize::from(matches!(plan.burn, Some(BurnedSubtitle::Sidecar { bitmap: true, .. })))
        + usize::from(ask.sound.is_some());
    let width = (plan.width * u32::from(emblem.width_percent) / 100).max(2);
    let opacity = f64::from(emblem.opacity_percent) / 100.0;
    let (left, right) = ("W*0.03", "W-w-W*0.03");
    let (top, bottom) = ("H*0.03", "H-h-H*0.03");
    let (x, y) = match emblem.corner {
        Corner::TopLeft => (left, top),
        Corner::TopRight => (right, top),
        Corner::BottomLeft => (left, bottom),
        Corner::BottomRight => (right, bottom),
    };
    format!(
        "null[under];[{input}:v]scale=w={width}:h=-1:flags=bicubic,format=rgba,colorchannelmixer=aa={opacity:.2}[emblem];\
         [under][emblem]overlay=x={x}:y={y}:eof_action=repeat"
    )
}

fn encoder(args: &mut Args, plan: &EncodeVideo, per_segment: u32) -> Result<(), RunError> {
    let ceiling = plan.max_kbps.max(100);
    let cut = format!("-g {per_segment} -keyint_min {per_segment}");
    match plan.encoder.as_str() {
        // A short lookahead, because each frame of it delays the first segment by a frame; motion search as in other
        // servers. Processor time to the first 2 s of 1080p, measured: 2.25 s; with a lookahead of ten 2.4 s. Without
        // partitions in P pictures an eighth less, for 1 to 7 % more bytes at the same SSIM (three films).
        "libx264" => args
            .add("-c:v libx264 -preset veryfast -crf 23 -profile:v high -sc_threshold 0")
            .add(&cut)
            .add("-x264-params rc-lookahead=5:subme=0:open-gop=0:partitions=i4x4,i8x8"),
        "libopenh264" => args.add("-c:v libopenh264 -rc_mode bitrate").add(&cut).pair("-b:v", format!("{ceiling}k")),
        "h264_nvenc" => {
            args.add("-c:v h264_nvenc -preset p4 -rc vbr -cq 23 -no-scenecut 1 -forced-idr 1 -bf 0").add(&cut)
        }
        "h264_qsv" => {
            args.add("-c:v h264_qsv -preset veryfast -global_quality 23 -idr_interval 0 -forced_idr 1 -bf 0").add(&cut)
        }
        "h264_vaapi" => args.add("-c:v h264_vaapi -rc_mode VBR -bf 0").add(&cut).pair("-b:v", format!("{ceiling}k")),
        "h264_amf" => args.add("-c:v h264_amf -quality speed -bf 0").add(&cut).pair("-b:v", format!("{ceiling}k")),
        other => return Err(RunError::Encoder(format!("no settings for encoder {other}"))),
    };
    args.pair("-maxrate", format!("{ceiling}k")).pair("-bufsize", format!("{}k", ceiling * 2));
    args.add("-color_range tv");
    if plan.tone_map.is_some() {
        args.add("-colorspace bt709 -color_primaries bt709 -color_trc bt709");
    }
    Ok(())
}
