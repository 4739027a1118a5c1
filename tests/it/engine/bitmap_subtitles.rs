//! Bitmap subtitles: files that contain them, and burned-in subtitles.

use hearthcast::domain::plan::BurnedSubtitle;
use hearthcast::domain::time::Ticks;

use super::*;
use crate::kit::bitmap_subtitles::{self, BitmapSubtitle};

const ENCODER_ARGS: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Files that contain bitmap subtitles: name, container, and whether they are VobSub.
const FILES_WITH_SUBTITLES: [(&str, Container, bool); 3] = [
    ("graphics.mkv", Container::Matroska, false),
    ("spu.mkv", Container::Matroska, true),
    ("spu.mp4", Container::Mp4, true),
];

/// A film of flashes and beeps with these subtitles, on a canvas with another aspect ratio than the video.
fn bench_with_subtitles(
    (name, container, is_vobsub): (&str, Container, bool),
    seconds: u32,
    subtitles: &[BitmapSubtitle],
) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    media::flash_and_beep(&file("bare.mkv"), seconds, ENCODER_ARGS);
    let subtitle_file = if is_vobsub { file("a.idx") } else { file("a.sup") };
    match is_vobsub {
        true => bitmap_subtitles::write_vobsub(&subtitle_file, (640, 480), subtitles),
        false => bitmap_subtitles::write_pgs(&subtitle_file, (640, 480), subtitles),
    }
    let inputs = format!("-copyts -i {} -i {}", file("bare.mkv").display(), subtitle_file.display());
    media::run_ffmpeg(&file(name), &[&inputs, "-map 0 -map 1 -c copy"]);
    let path = file(name);
    Bench::of_file(folder, &path, container, FPS25, f64::from(seconds))
}

fn subtitle(start_ms: u32, end_ms: u32) -> BitmapSubtitle {
    BitmapSubtitle { start_ms, end_ms: Some(end_ms), area: (200, 360, 240, 60) }
}

#[tokio::test]
async fn files_with_unused_bitmap_subtitles_are_encoded_in_process() {
    for film in FILES_WITH_SUBTITLES {
        let name = film.0;
        let bench = bench_with_subtitles(film, 7, &[subtitle(500, 1500), subtitle(3000, 5500)]).with_gstreamer();
        assert!(bench.media.subtitle_streams().any(|(_, subtitle)| !subtitle.is_text), "{name}");
        assert_eq!(gst::refusal_reason(&bench.media, &bench.rendition, engine_report()), None, "{name}");
        encode::check_any_order(&bench).await;
        let bench = bench_with_subtitles(film, 5, &[subtitle(500, 1500)]).with_gstreamer();
        encode::check_sync(&bench, 0.022).await;
    }
}

/// A film of each kind to start and stop over, with its bitmap subtitles burned in.
pub(super) fn benches_to_cycle() -> impl Iterator<Item = Bench> {
    let with_bitmap_subtitles = FILES_WITH_SUBTITLES.into_iter().map(|film| {
        let mut bench = bench_with_subtitles(film, 12, &[subtitle(500, 1500), subtitle(3000, 9000)]).with_gstreamer();
        set_burn(&mut bench, Some(2));
        bench
    });
    let with_text_subtitles = [("text.mkv", Container::Matroska, "srt"), ("text.mp4", Container::Mp4, "mov_text")];
    with_bitmap_subtitles
        .chain(with_text_subtitles.into_iter().map(|film| bench_with_text_subtitles(film).with_gstreamer()))
}

/// A film of 12 s with text subtitles that are not burned in.
fn bench_with_text_subtitles((name, container, codec): (&str, Container, &str)) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    media::flash_and_beep(&file("bare.mkv"), 12, ENCODER_ARGS);
    let lines = "1\n00:00:00,500 --> 00:00:01,500\nOne\n\n2\n00:00:03,000 --> 00:00:09,000\nTwo\n";
    std::fs::write(file("a.srt"), lines).unwrap();
    let inputs = format!("-i {} -i {}", file("bare.mkv").display(), file("a.srt").display());
    media::run_ffmpeg(&file(name), &[&inputs, "-map 0 -map 1 -c copy -c:s", codec]);
    let path = file(name);
    Bench::of_file(folder, &path, container, FPS25, 12.0)
}

/// Burns in the subtitles of a stream.
fn set_burn(bench: &mut Bench, stream: Option<u32>) {
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        plan.burn = stream.map(|stream| BurnedSubtitle::Embedded { stream, bitmap: true });
    }
}

#[tokio::test]
async fn cycles_over_files_with_subtitles_leave_nothing() {
    for bench in benches_to_cycle() {
        gstreamer_backend::run_cycles(&bench, 4).await;
    }
}

#[tokio::test]
async fn cycles_over_a_real_file_with_subtitles_leave_nothing() {
    let Some(folder) = crate::corpus::corpus_folder() else { return };
    let path = folder.join("video/counting multi-audio multi-subs.mkv");
    for stream in [7, 8] {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::of_file(folder, &path, Container::Matroska, FPS25, 24.0).with_gstreamer();
        set_burn(&mut bench, Some(stream));
        gstreamer_backend::run_cycles(&bench, 4).await;
    }
}

/// Video of one colour, so that every difference is a subtitle.
const PLAIN_VIDEO: &str = "color=0x303030:s=320x180:r=25:d=20";

/// The source of burned-in subtitles.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SubtitleSource {
    Pgs,
    VobSub,
    VobSubInMp4,
    Sidecar,
}

/// A plain film of 20 s with these subtitles to burn in, and the sidecar file.
fn bench_with_burn(
    from: SubtitleSource,
    subtitles: &[BitmapSubtitle],
    muxer_args: &str,
) -> (Bench, Option<Arc<SourceFile>>) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let is_vobsub = matches!(from, SubtitleSource::VobSub | SubtitleSource::VobSubInMp4);
    let subtitle_file = if is_vobsub { file("a.idx") } else { file("a.sup") };
    match is_vobsub {
        true => bitmap_subtitles::write_vobsub(&subtitle_file, (640, 480), subtitles),
        false => bitmap_subtitles::write_pgs(&subtitle_file, (640, 480), subtitles),
    }
    let input = format!(
        "-copyts -i {} -map 0 {}",
        subtitle_file.display(),
        if from == SubtitleSource::Sidecar { "" } else { "-map 1" }
    );
    let encoded = "-c:v libx264 -preset ultrafast -g 100 -c:s copy";
    let (name, container) = match from {
        SubtitleSource::Sidecar | SubtitleSource::VobSubInMp4 => ("a.mp4", Container::Mp4),
        _ => ("a.mkv", Container::Matroska),
    };
    media::run_ffmpeg(&file(name), &["-f lavfi -i", PLAIN_VIDEO, &input, encoded, muxer_args]);
    let sidecar = (from == SubtitleSource::Sidecar).then(|| media::open(&subtitle_file));
    let path = file(name);
    let mut bench = Bench::of_file(folder, &path, container, FPS25, 20.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        plan.burn = Some(match &sidecar {
            Some(file) => BurnedSubtitle::Sidecar { path: file.path.clone(), bitmap: true },
            None => BurnedSubtitle::Embedded { stream: 1, bitmap: true },
        });
    }
    (bench, sidecar)
}

/// The decoded frames of a segment that begins a run.
struct DecodedSegment {
    width: usize,
    height: usize,
    /// Frames as luma and chroma planes.
    frames: Vec<Vec<u8>>,
}

impl DecodedSegment {
    async fn decode(bench: &Bench, sidecar: Option<&Arc<SourceFile>>, index: usize) -> Self {
        let job = bench.job_with_sidecar(sidecar, index);
        let mut run = bench.backend.start(job, index).unwrap();
        let segment = SegmentBytes::read(next_segment(&mut run).await.unwrap().unwrap(), &bench.source).await;
        let path = bench.write_joined("one.ts", [&segment]);
        let Some(VideoPlan::Encode(plan)) = &bench.rendition.video else { panic!("a video plan") };
        let (width, height) = (plan.width as usize, plan.height as usize);
        let mut command = std::process::Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
        let output = command.args(["-pix_fmt", "yuv420p", "-f", "rawvideo", "-"]).output().unwrap();
        let frames = output.stdout.chunks_exact(width * height * 3 / 2).map(<[u8]>::to_vec).collect();
        Self { width, height, frames }
    }

    /// The bounding box of what is burned into each frame of a plain film.
    fn burned_boxes(&self) -> Vec<Option<[usize; 4]>> {
        self.frames.iter().map(|frame| self.bounding_box(|index| frame[index].abs_diff(frame[0]) > 24)).collect()
    }

    /// The bounding box of the differences between two frames, where both are dark.
    fn difference_box(&self, first: &[u8], second: &[u8], is_dark: &[bool]) -> Option<[usize; 4]> {
        self.bounding_box(|index| is_dark[index] && first[index].abs_diff(second[index]) > 60)
    }

    /// The bounding box of pixels with this property: left, top, right, bottom.
    fn bounding_box(&self, is_inside: impl Fn(usize) -> bool) -> Option<[usize; 4]> {
        let points = (0..self.width * self.height)
            .filter(|index| is_inside(*index))
            .map(|at| (at % self.width, at / self.width));
        points.fold(None, |around: Option<[usize; 4]>, (x, y)| {
            let [left, top, right, bottom] = around.unwrap_or([x, y, x, y]);
            Some([left.min(x), top.min(y), right.max(x), bottom.max(y)])
        })
    }
}

/// Pixels that are dark in both frames, so that subtitles can be seen on them.
fn dark_in_both(first: &[u8], second: &[u8]) -> Vec<bool> {
    first.iter().zip(second).map(|(a, b)| *a.max(b) < 150).collect()
}

/// PSNR of two frames, decibels.
pub(super) fn frame_psnr_decibels(first: &[u8], second: &[u8]) -> f64 {
    let error: f64 = first.iter().zip(second).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * first.len() as f64 / error.max(1.0)).log10()
}

/// Whether two boxes are equal within a tolerance of some pixels.
fn are_boxes_equal(ours: Option<[usize; 4]>, theirs: Option<[usize; 4]>, tolerance: usize) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.iter().zip(&theirs).all(|(a, b)| a.abs_diff(*b) <= tolerance),
        (ours, theirs) => ours == theirs,
    }
}

#[tokio::test]
async fn burned_subtitles_have_the_position_and_time_of_ffmpegs() {
    let subtitles = [
        BitmapSubtitle { start_ms: 480, end_ms: Some(1720), area: (200, 380, 240, 60) },
        BitmapSubtitle { start_ms: 2210, end_ms: Some(2600), area: (40, 20, 120, 41) },
        BitmapSubtitle { start_ms: 3000, end_ms: Some(7000), area: (401, 33, 201, 120) },
        BitmapSubtitle { start_ms: 7000, end_ms: Some(9015), area: (100, 400, 240, 70) },
    ];
    for (from, size) in [
        (SubtitleSource::Pgs, (640, 360)),
        (SubtitleSource::VobSub, (320, 180)),
        (SubtitleSource::VobSubInMp4, (320, 180)),
        (SubtitleSource::Sidecar, (160, 90)),
    ] {
        let (mut bench, sidecar) = bench_with_burn(from, &subtitles, "");
        if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
            (plan.width, plan.height) = size;
        }
        // A subtitle that begins, one that began before the run, and two in succession.
        let indices = if from == SubtitleSource::Pgs { vec![0, 2, 3, 4] } else { vec![2, 4] };
        let mut theirs = Vec::new();
        for &index in &indices {
            theirs.push(DecodedSegment::decode(&bench, sidecar.as_ref(), index).await);
        }
        let bench = bench.with_gstreamer();
        assert_eq!(gst::refusal_reason(&bench.media, &bench.rendition, engine_report()), None, "{from:?}");
        for (index, theirs) in indices.into_iter().zip(theirs) {
            let ours = DecodedSegment::decode(&bench, sidecar.as_ref(), index).await;
            let (our_boxes, their_boxes) = (ours.burned_boxes(), theirs.burned_boxes());
            assert_eq!(our_boxes.len(), their_boxes.len(), "{from:?} {size:?}, segment {index}");
            let mut psnrs = Vec::new();
            for (number, around) in our_boxes.iter().enumerate() {
                // ffmpeg rounds times to a frame, up or down.
                let neighbours = number.saturating_sub(1)..(number + 2).min(their_boxes.len());
                let is_found = neighbours.clone().any(|neighbour| are_boxes_equal(*around, their_boxes[neighbour], 2));
                assert!(
                    is_found,
                    "{from:?} {size:?}, frame {number} of segment {index}: {around:?} is not in {:?}",
                    &their_boxes[neighbours]
                );
                if are_boxes_equal(*around, their_boxes[number], 2) {
                    psnrs.push(frame_psnr_decibels(&ours.frames[number], &theirs.frames[number]));
                }
            }
            assert!(psnrs.len() + 4 >= our_boxes.len(), "{from:?} {size:?}, segment {index}: {} alike", psnrs.len());
            let worst_psnr = psnrs.into_iter().fold(f64::INFINITY, f64::min);
            assert!(worst_psnr > 34.0, "{from:?} {size:?}, segment {index}: {worst_psnr} dB");
        }
    }
}

/// A file of the corpus with bitmap subtitles: path, stream to burn in, output size, and segments to compare.
type CorpusFile = (&'static str, u32, (u32, u32), &'static [usize]);

const CORPUS_FILES: [CorpusFile; 5] = [
    ("video/sample_with_pgs_subtitles.mkv", 2, (540, 360), &[0]),
    ("video/sample_with_vobsub.mkv", 2, (540, 360), &[0]),
    ("video/counting multi-audio multi-subs.mkv", 7, (640, 480), &[1, 3, 5]),
    ("video/counting multi-audio multi-subs.mkv", 8, (320, 240), &[1, 3]),
    ("video/counting multi-audio multi-subs.mkv", 8, (640, 480), &[5, 7]),
];

#[tokio::test]
async fn burned_subtitles_of_real_files_have_the_position_of_ffmpegs() {
    let Some(folder) = crate::corpus::corpus_folder() else { return };
    for (name, stream, (width, height), indices) in CORPUS_FILES {
        let path = folder.join(name);
        let container = Container::Matroska;
        let media = media::probe_media(&path, container);
        let seconds = media.duration_seconds.unwrap();
        let mut bench = Bench::of_file(tempfile::tempdir().unwrap(), &path, container, FPS25, seconds);
        let set_burn = |bench: &mut Bench, burn| {
            if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
                (plan.width, plan.height, plan.burn, plan.max_kbps) = (width, height, burn, 8000);
            }
        };
        set_burn(&mut bench, None);
        let ffmpeg = bench.backend.clone();
        let gstreamer: Arc<dyn Backend> = Arc::new(GstBackend::new(engine_report().clone()));
        for &index in indices {
            let mut segments = Vec::new();
            for backend in [&gstreamer, &ffmpeg] {
                bench.backend = backend.clone();
                for burn in [None, Some(BurnedSubtitle::Embedded { stream, bitmap: true })] {
                    set_burn(&mut bench, burn);
                    assert_eq!(gst::refusal_reason(&bench.media, &bench.rendition, engine_report()), None, "{name}");
                    segments.push(DecodedSegment::decode(&bench, None, index).await);
                }
            }
            let [our_bare, ours, their_bare, theirs] = &segments[..] else { panic!("four segments") };
            // White letters differ from a bright wall by about the threshold: one encode may lie above it, the other below. So
            // only pixels that are dark in both are compared.
            let dark_pixels: Vec<Vec<bool>> =
                our_bare.frames.iter().zip(&their_bare.frames).map(|(a, b)| dark_in_both(a, b)).collect();
            let difference_boxes = |burned: &DecodedSegment, without_subtitles: &DecodedSegment| -> Vec<_> {
                let frames = burned.frames.iter().zip(&without_subtitles.frames).zip(&dark_pixels);
                frames
                    .map(|((burned, without_subtitles), is_dark)| {
                        ours.difference_box(burned, without_subtitles, is_dark)
                    })
                    .collect()
            };
            let (our_boxes, their_boxes) = (difference_boxes(ours, our_bare), difference_boxes(theirs, their_bare));
            let (mut frames_with_subtitles, mut worst_psnr) = (0, f64::INFINITY);
            for (number, around) in our_boxes.iter().enumerate() {
                let neighbours = number.saturating_sub(1)..(number + 2).min(their_boxes.len());
                // When scaling down soft edges, ffmpeg mixes them with black, so that less of them is visible.
                let is_found = neighbours.clone().any(|neighbour| are_boxes_equal(*around, their_boxes[neighbour], 3));
                assert!(
                    is_found,
                    "{name} {stream}, frame {number} of {index}: {around:?} is not in {:?}",
                    &their_boxes[neighbours]
                );
                if around.is_some() && are_boxes_equal(*around, their_boxes[number], 3) {
                    frames_with_subtitles += 1;
                    worst_psnr = worst_psnr.min(frame_psnr_decibels(&ours.frames[number], &theirs.frames[number]));
                }
            }
            eprintln!(
                "{name} {stream}, segment {index}: shown in {frames_with_subtitles} of {} frames, {worst_psnr:.1} dB",
                our_boxes.len()
            );
            assert!(
                frames_with_subtitles > 0 && worst_psnr > 28.0,
                "{name} {stream}, segment {index}: {frames_with_subtitles} frames, {worst_psnr} dB"
            );
        }
    }
}

/// The subtitle began longer ago than the backward search by frames; also in a file whose cues list no subtitles.
#[tokio::test]
async fn a_subtitle_in_progress_is_burned_in_from_the_first_frame_of_a_run() {
    let in_progress = [BitmapSubtitle { start_ms: 1000, end_ms: None, area: (200, 380, 240, 60) }];
    for (from, muxer_args) in [
        (SubtitleSource::Pgs, ""),
        (SubtitleSource::VobSub, ""),
        (SubtitleSource::VobSubInMp4, ""),
        (SubtitleSource::Pgs, "-f matroska -live 1"),
    ] {
        let (bench, _) = bench_with_burn(from, &in_progress, muxer_args);
        let bench = bench.with_gstreamer();
        let index = bench.grid.segment_at(Ticks::from_ms(16_000));
        let boxes = DecodedSegment::decode(&bench, None, index).await.burned_boxes();
        assert_eq!(boxes.len(), 50, "{from:?}");
        assert!(boxes.iter().all(Option::is_some), "{from:?} {muxer_args}: {boxes:?}");
        assert_eq!(
            DecodedSegment::decode(&bench, None, 0).await.burned_boxes(),
            [None; 25],
            "{from:?}: no subtitle before its start"
        );
    }
}

#[tokio::test]
async fn subtitles_are_burned_in_alike_in_every_run() {
    let subtitles: Vec<BitmapSubtitle> = (0..9).map(|n| subtitle(400 + 2000 * n, 1900 + 2000 * n)).collect();
    let (bench, _) = bench_with_burn(SubtitleSource::Pgs, &subtitles, "");
    let bench = bench.with_gstreamer();
    let all_segments = bench.all_segments().await;
    for index in [1, 4, 8] {
        let single = bench.single_segment(index).await;
        let psnr_decibels = media::worst_psnr_decibels(
            &bench.write_joined("a.ts", [&all_segments[index]]),
            &bench.write_joined("b.ts", [&single]),
        );
        assert!(psnr_decibels > 40.0, "segment {index}: {psnr_decibels} dB");
    }
}
