//! Golden argument vectors, one for each kind of run.

use super::super::amr_extraction;
use super::*;
use crate::domain::codec::TargetCodec;
use crate::domain::media::{Audio, Color, Hdr, Stream, StreamKind, Video};
use crate::domain::mpegts::clock_jumps::ClockSection;
use crate::domain::plan::{Corner, WatermarkOverlay};
use crate::domain::time::{FrameRate, Ticks};
use crate::engine::hardware_devices::vaapi_device;
use crate::engine::video_decoders::HARDWARE_DECODERS;
use crate::engine::video_encoders::VIDEO_ENCODERS;

fn media(container: Container, start_seconds: f64, color: Color) -> Media {
    let video = Video { frame_rate: FrameRate::new(25, 1), color, ..Video::new(1920, 1080) };
    let stream = Stream::new(0, "h264", StreamKind::Video(video));
    Media { duration_seconds: Some(60.0), start_seconds, ..Media::new(container, vec![stream]) }
}

fn encode(change: impl FnOnce(&mut EncodeVideo)) -> Option<VideoPlan> {
    let mut plan = EncodeVideo::sample(1280, 720, 4000);
    change(&mut plan);
    Some(VideoPlan::Encode(plan))
}

fn has_watermark(rendition: &Rendition) -> bool {
    matches!(&rendition.video, Some(VideoPlan::Encode(plan)) if plan.watermark.is_some())
}

fn plain_options<'a>(media: &'a Media, rendition: &'a Rendition, grid: &'a Grid) -> ArgumentOptions<'a> {
    ArgumentOptions {
        media,
        rendition,
        grid,
        first: 0,
        input: "/proc/self/fd/9".into(),
        pipe_input: None,
        subtitle_path: None,
        watermark: None,
        amr_path: None,
        features: Features::default(),
        decoder: None,
        decoder_threads: None,
    }
}

/// The arguments, one option with its values per line.
fn golden_lines(
    media: &Media,
    video: Option<VideoPlan>,
    audio: Option<AudioPlan>,
    grid: &Grid,
    first: usize,
) -> String {
    let rendition = Rendition { video, audio, ..Rendition::default() };
    let features = Features { has_tone_map: true, has_ass: true, has_zscale: true };
    let pipe_input =
        (!media.clock_pieces.is_empty()).then(|| PipeInput { address: "pipe:5".into(), offset_seconds: -991 });
    // Audio that has to be extracted from the item first, into memory.
    let amr_path = amr_extraction::amr_stream(media, &rendition).map(|_| "/proc/self/fd/7");
    let watermark = Some(("png_pipe", "file:/proc/self/fd/6".into())).filter(|_| has_watermark(&rendition));
    let options = ArgumentOptions {
        first,
        pipe_input: pipe_input.as_ref(),
        subtitle_path: Some("/proc/self/fd/8"),
        watermark,
        amr_path,
        features,
        decoder_threads: Some(4),
        ..plain_options(media, &rendition, grid)
    };
    let mut lines = String::new();
    for word in build_arguments(&options).unwrap() {
        let option = word.starts_with('-') && word.as_bytes().get(1).is_some_and(u8::is_ascii_lowercase);
        lines.push(if option { '\n' } else { ' ' });
        lines.push_str(&word);
    }
    lines.trim_start().to_owned()
}

const AAC: Option<AudioPlan> = Some(AudioPlan::Encode { stream: 1, channels: 2, kbps: 128, gain_tenths_db: None });

fn frames() -> Grid {
    Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, 60.0)
}

#[test]
fn every_kind_of_run_has_its_golden_arguments() {
    let plain = |container| media(container, 0.0, Color::default());
    let keyframes = Grid::from_keyframes(&[0, 250_000, 500_000, 900_000].map(Ticks), 2.0, 12.0);
    let copy = Some(VideoPlan::Copy { stream: 0 });
    let copied = Some(AudioPlan::Copy { stream: 1 });
    let (mp4, mkv) = (plain(Container::Mp4), plain(Container::Matroska));
    insta::assert_snapshot!("encode", golden_lines(&mp4, encode(|_| ()), AAC, &frames(), 9));
    insta::assert_snapshot!("encode_from_the_start", golden_lines(&mp4, encode(|_| ()), AAC, &frames(), 0));
    for (codec, encoder) in [(TargetCodec::Hevc, "libx265"), (TargetCodec::Av1, "libsvtav1")] {
        let other = encode(|plan| (plan.codec, plan.encoder) = (codec, encoder.into()));
        insta::assert_snapshot!(format!("encode_{}", codec.as_str()), golden_lines(&mp4, other, None, &frames(), 0));
    }
    let ts = media(Container::MpegTs, 1.4, Color::default());
    let deinterlaced = encode(|plan| plan.deinterlace = true);
    insta::assert_snapshot!("encode_interlaced_ts", golden_lines(&ts, deinterlaced, AAC, &frames(), 9));
    let doubled = encode(|plan| (plan.deinterlace, plan.has_frame_per_field) = (true, true));
    let lines = golden_lines(&ts, doubled, AAC, &frames(), 9);
    assert!(lines.contains("bwdif=mode=send_field:deint=interlaced"), "{lines}");
    let mut jumping = ts;
    jumping.clock_pieces = vec![
        ClockSection { start_byte: 0, shift: Ticks(-126_000) },
        ClockSection { start_byte: 188_000, shift: Ticks::from_ms(1000) },
    ];
    insta::assert_snapshot!("encode_ts_whose_clock_jumps", golden_lines(&jumping, encode(|_| ()), AAC, &frames(), 9));
    insta::assert_snapshot!("copy_both", golden_lines(&mp4, copy.clone(), copied.clone(), &keyframes, 2));
    insta::assert_snapshot!("copy_video_encode_audio", golden_lines(&mkv, copy, AAC, &keyframes, 2));
    let steps = Grid::from_step(4.0, 60.0);
    insta::assert_snapshot!("audio_copied", golden_lines(&plain(Container::Mp3), None, copied, &steps, 3));
    let surround = Some(AudioPlan::Encode { stream: 0, channels: 6, kbps: 384, gain_tenths_db: None });
    let ac3 = plain(Container::Ac3);
    insta::assert_snapshot!("audio_encoded_5_1", golden_lines(&ac3, None, surround, &steps, 3));
    let pq = Color { transfer: Some("smpte2084".into()), ..Color::default() };
    let (hdr_film, tone_mapped) =
        (media(Container::Matroska, 0.0, pq), encode(|plan| plan.tone_map = Some(Hdr::Hdr10)));
    insta::assert_snapshot!("tone_mapped", golden_lines(&hdr_film, tone_mapped, None, &frames(), 0));
    let bitmap = encode(|plan| plan.burn = Some(BurnedSubtitle::Embedded { stream: 3, bitmap: true }));
    insta::assert_snapshot!("bitmap_burned_in", golden_lines(&plain(Container::Matroska), bitmap, AAC, &frames(), 9));
    let mut telephone = plain(Container::Mp4);
    let amr = Audio::new(1, 8000);
    let amr = Stream { index: 1, codec: "amr_nb".into(), kind: StreamKind::Audio(amr), ..telephone.streams[0].clone() };
    telephone.streams.push(amr);
    insta::assert_snapshot!("amr_unpacked", golden_lines(&telephone, encode(|_| ()), AAC, &frames(), 9));
    let text = encode(|plan| plan.burn = Some(BurnedSubtitle::Embedded { stream: 2, bitmap: false }));
    insta::assert_snapshot!("text_burned_in", golden_lines(&plain(Container::Matroska), text, AAC, &frames(), 9));
}

/// There is no such hardware where these are made: the arguments are by the documentation of ffmpeg 5.1.
#[test]
fn each_piece_of_hardware_has_its_golden_arguments() {
    let (film, frames) = (media(Container::Matroska, 0.0, Color::default()), frames());
    let arguments = |encoder: &str, decoder: Option<&HardwareDecoder>| {
        let video = encode(|plan| encoder.clone_into(&mut plan.encoder));
        let rendition = Rendition { video, audio: None, ..Rendition::default() };
        let options = ArgumentOptions { decoder, ..plain_options(&film, &rendition, &frames) };
        let arguments = build_arguments(&options).unwrap().join(" ").replace(&vaapi_device(), "/dev/dri/renderD128");
        let (input, _) = arguments.split_once(" -map_metadata").unwrap();
        let (_, video) = arguments.split_once("-filter:v ").unwrap();
        let (video, _) = video.split_once(" -color_range").unwrap();
        format!("{encoder}, decoder {}\n  {input}\n  {video}", decoder.map_or("software", |decoder| decoder.name))
    };
    let hardware = VIDEO_ENCODERS.iter().filter(|encoder| encoder.is_hardware && encoder.ffmpeg.is_some());
    let of_encoder = |encoder: &VideoEncoder| {
        let decoders = HARDWARE_DECODERS.iter().filter(|decoder| decoder.is_beside(encoder)).map(Some);
        std::iter::once(None).chain(decoders).map(|decoder| arguments(encoder.name, decoder)).collect::<Vec<_>>()
    };
    insta::assert_snapshot!("hardware", hardware.flat_map(of_encoder).collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_watermark_is_overlaid_before_the_encoder_with_any_subtitle() {
    let mp4 = media(Container::Mp4, 0.0, Color::default());
    let watermark = || {
        Some(WatermarkOverlay { digest: "d".into(), corner: Corner::TopRight, opacity_percent: 70, width_percent: 8 })
    };
    let overlay_graph = "[under];[1:v]scale=w=102:h=-1:flags=bicubic,format=rgba,colorchannelmixer=aa=0.70,\
                scale=out_color_matrix=bt709:out_range=tv,format=yuva420p[watermark];\
                [under][watermark]overlay=x=W-w-W*0.03:y=H*0.03:eof_action=repeat,setsar=1,format=yuv420p[v]";
    for burn in [
        None,
        Some(BurnedSubtitle::Embedded { stream: 2, bitmap: false }),
        Some(BurnedSubtitle::Embedded { stream: 2, bitmap: true }),
    ] {
        let video = encode(|plan| (plan.watermark, plan.burn) = (watermark(), burn));
        let text = golden_lines(&mp4, video, AAC, &frames(), 9);
        assert!(text.contains("-f png_pipe\n-i file:/proc/self/fd/6"), "{text}");
        assert!(text.contains(overlay_graph) && text.contains("[0:0]") && text.contains("-map [v]"), "{text}");
    }
}

#[test]
fn missing_ffmpeg_features_are_refused_with_a_reason() {
    let refused = |change: fn(&mut EncodeVideo)| {
        let media = media(Container::Mp4, 0.0, Color::default());
        let rendition = Rendition { video: encode(change), ..Rendition::default() };
        let grid = frames();
        let options = ArgumentOptions { subtitle_path: Some(""), ..plain_options(&media, &rendition, &grid) };
        build_arguments(&options).unwrap_err().to_string()
    };
    assert!(refused(|plan| plan.tone_map = Some(Hdr::Hlg)).contains("zscale"));
    assert!(refused(|plan| plan.encoder = "h263".into()).contains("no settings for encoder h263"));
    assert!(refused(|plan| plan.burn = Some(BurnedSubtitle::Embedded { stream: 2, bitmap: false })).contains("libass"));
}

#[test]
fn zscale_is_used_only_for_formats_it_supports() {
    let film = media(Container::Matroska, 0.0, Color::default());
    let size = |media: &Media, resize| {
        let rendition = Rendition { video: encode(|_| ()), ..Rendition::default() };
        let grid = frames();
        let features = Features { has_zscale: resize, ..Features::default() };
        let options = ArgumentOptions { first: 1, features, ..plain_options(media, &rendition, &grid) };
        let words = build_arguments(&options).unwrap().join(" ");
        assert!(!words.contains("-threads"), "{words}");
        [words.contains(",zscale=w=1280:h=720:f=bilinear:r=limited,"), words.contains(",scale=w=1280:h=720:")]
    };
    let (with_zscale, with_scale) = ([true, false], [false, true]);
    assert_eq!([size(&film, true), size(&film, false)], [with_zscale, with_scale]);
    let size_of_changed = |change: fn(&mut Stream, &mut Video)| {
        let mut stream = film.streams[0].clone();
        let StreamKind::Video(mut video) = stream.kind.clone() else { panic!("a video") };
        change(&mut stream, &mut video);
        size(&Media { streams: vec![Stream { kind: StreamKind::Video(video), ..stream }], ..film.clone() }, true)
    };
    assert_eq!(size_of_changed(|stream, _| stream.codec = "hevc".into()), with_zscale);
    assert_eq!(size_of_changed(|stream, _| stream.codec = "vp9".into()), with_scale);
    assert_eq!(size_of_changed(|_, video| video.width = 1919), with_scale);
    assert_eq!(size_of_changed(|_, video| video.bit_depth = 10), with_scale);
    assert_eq!(size_of_changed(|_, video| video.chroma = "4:4:4".into()), with_scale);
}

#[test]
fn rgb_is_converted_to_bt709_and_described_as_such() {
    let words_for = |matrix: &str| {
        let film = media(Container::Matroska, 0.0, Color { matrix: Some(matrix.into()), ..Color::default() });
        let rendition = Rendition { video: encode(|_| ()), ..Rendition::default() };
        build_arguments(&plain_options(&film, &rendition, &frames())).unwrap().join(" ")
    };
    let is_converted = |words: &str| {
        [words.contains(":out_range=tv:out_color_matrix=bt709,"), words.contains("-colorspace bt709 -color_primaries")]
    };
    assert_eq!(is_converted(&words_for("gbr")), [true, true]);
    assert_eq!(is_converted(&words_for("smpte170m")), [false, false]);
}
