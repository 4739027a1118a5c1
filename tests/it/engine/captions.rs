//! Bitmap subtitles: files that contain them, and burned-in subtitles.

use hearthcast::domain::plan::BurnedSubtitle;
use hearthcast::engine::gst;

use super::*;
use crate::kit::captions::{self, Caption};

const X264: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Files that contain bitmap subtitles: name, container, and whether they are VobSub.
const HOLDING: [(&str, Container, bool); 3] = [
    ("graphics.mkv", Container::Matroska, false),
    ("spu.mkv", Container::Matroska, true),
    ("spu.mp4", Container::Mp4, true),
];

/// A film of flashes and beeps with these subtitles, on a canvas with another aspect ratio than the video.
fn holding((name, container, dvd): (&str, Container, bool), seconds: u32, captions: &[Caption]) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    film::flash_and_beep(&path("bare.mkv"), seconds, X264);
    let subtitles = if dvd { path("a.idx") } else { path("a.sup") };
    match dvd {
        true => captions::write_vobsub(&subtitles, (640, 480), captions),
        false => captions::write_graphics(&subtitles, (640, 480), captions),
    }
    let inputs = format!("-copyts -i {} -i {}", path("bare.mkv").display(), subtitles.display());
    film::make(&path(name), &[&inputs, "-map 0 -map 1 -c copy"]);
    let whole = path(name);
    Bench::over(folder, &whole, container, FPS25, f64::from(seconds))
}

fn caption(start_ms: u32, end_ms: u32) -> Caption {
    Caption { start_ms, end_ms: Some(end_ms), place: (200, 360, 240, 60) }
}

#[tokio::test]
async fn files_that_merely_hold_subtitles_of_pictures_are_made_here() {
    for film in HOLDING {
        let name = film.0;
        let bench = holding(film, 7, &[caption(500, 1500), caption(3000, 5500)]).natively();
        assert!(bench.media.subtitle_streams().any(|(_, subtitle)| !subtitle.is_text), "{name}");
        assert_eq!(gst::refusal_reason(&bench.media, &bench.rendition), None, "{name}");
        encode::in_any_order(&bench).await;
        let bench = holding(film, 5, &[caption(500, 1500)]).natively();
        encode::together(&bench, 0.022).await;
    }
}

/// A film of each kind to start and stop over; subtitles are burned in where possible.
pub(super) fn started_and_stopped() -> impl Iterator<Item = Bench> {
    let of_pictures = HOLDING.into_iter().map(|film| {
        let mut bench = holding(film, 12, &[caption(500, 1500), caption(3000, 9000)]).natively();
        draw(&mut bench, (film.1 == Container::Matroska).then_some(2));
        bench
    });
    let of_text = [("text.mkv", Container::Matroska, "srt"), ("text.mp4", Container::Mp4, "mov_text")];
    of_pictures.chain(of_text.into_iter().map(|film| text(film).natively()))
}

/// A film of 12 s with text subtitles that are not burned in.
fn text((name, container, codec): (&str, Container, &str)) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    film::flash_and_beep(&path("bare.mkv"), 12, X264);
    let lines = "1\n00:00:00,500 --> 00:00:01,500\nOne\n\n2\n00:00:03,000 --> 00:00:09,000\nTwo\n";
    std::fs::write(path("a.srt"), lines).unwrap();
    let inputs = format!("-i {} -i {}", path("bare.mkv").display(), path("a.srt").display());
    film::make(&path(name), &[&inputs, "-map 0 -map 1 -c copy -c:s", codec]);
    let whole = path(name);
    Bench::over(folder, &whole, container, FPS25, 12.0)
}

/// Burns in the subtitles of a stream.
fn draw(bench: &mut Bench, stream: Option<u32>) {
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        plan.burn = stream.map(|stream| BurnedSubtitle::Embedded { stream, bitmap: true });
    }
}

#[tokio::test]
async fn starting_and_stopping_over_such_a_file_leaves_nothing() {
    for bench in started_and_stopped() {
        native::cycles(&bench, 4).await;
    }
}

#[tokio::test]
async fn starting_and_stopping_over_a_real_file_of_them_leaves_nothing() {
    let Some(folder) = crate::corpus::folder() else { return };
    let path = folder.join("video/counting multi-audio multi-subs.mkv");
    for stream in [7, 8] {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::over(folder, &path, Container::Matroska, FPS25, 24.0).natively();
        draw(&mut bench, Some(stream));
        native::cycles(&bench, 4).await;
    }
}

/// Video of one colour, so that every difference is a subtitle.
const PLAIN: &str = "color=0x303030:s=320x180:r=25:d=20";

/// The source of burned-in subtitles.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Graphics,
    SubPictures,
    Beside,
}

/// A plain film of 20 s with these subtitles to burn in, and the sidecar file.
fn drawing(from: From, captions: &[Caption], more: &str) -> (Bench, Option<Arc<SourceFile>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let subtitles = if from == From::SubPictures { path("a.idx") } else { path("a.sup") };
    match from {
        From::SubPictures => captions::write_vobsub(&subtitles, (640, 480), captions),
        _ => captions::write_graphics(&subtitles, (640, 480), captions),
    }
    let input =
        format!("-copyts -i {} -map 0 {}", subtitles.display(), if from == From::Beside { "" } else { "-map 1" });
    let encoded = "-c:v libx264 -preset ultrafast -g 100 -c:s copy";
    let (name, container) = match from {
        From::Beside => ("a.mp4", Container::Mp4),
        _ => ("a.mkv", Container::Matroska),
    };
    film::make(&path(name), &["-f lavfi -i", PLAIN, &input, encoded, more]);
    let beside = (from == From::Beside).then(|| film::open(&subtitles));
    let whole = path(name);
    let mut bench = Bench::over(folder, &whole, container, FPS25, 20.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        plan.burn = Some(match &beside {
            Some(file) => BurnedSubtitle::Sidecar { path: file.path.clone(), bitmap: true },
            None => BurnedSubtitle::Embedded { stream: 1, bitmap: true },
        });
    }
    (bench, beside)
}

/// The decoded frames of a segment that begins a run.
struct Drawn {
    width: usize,
    height: usize,
    /// Frames as luma and chroma planes.
    pictures: Vec<Vec<u8>>,
}

impl Drawn {
    async fn by(bench: &Bench, beside: Option<&Arc<SourceFile>>, index: usize) -> Self {
        let job = Job { sidecar: beside.cloned(), ..bench.job(index) };
        let mut run = bench.producer.start(job, index).unwrap();
        let segment = Made::of(next(&mut run).await.unwrap().unwrap(), &bench.source).await;
        let path = bench.write("one.ts", [&segment]);
        let Some(VideoPlan::Encode(plan)) = &bench.rendition.video else { panic!("a video plan") };
        let (width, height) = (plan.width as usize, plan.height as usize);
        let mut command = std::process::Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
        let output = command.args(["-pix_fmt", "yuv420p", "-f", "rawvideo", "-"]).output().unwrap();
        let pictures = output.stdout.chunks_exact(width * height * 3 / 2).map(<[u8]>::to_vec).collect();
        Self { width, height, pictures }
    }

    /// The bounding box of what is burned into each frame of a plain film.
    fn boxes(&self) -> Vec<Option<[usize; 4]>> {
        self.pictures.iter().map(|picture| self.around(|at| picture[at].abs_diff(picture[0]) > 24)).collect()
    }

    /// The bounding box of the differences between two frames, where both are dark.
    fn apart(&self, a: &[u8], b: &[u8], dark: &[bool]) -> Option<[usize; 4]> {
        self.around(|at| dark[at] && a[at].abs_diff(b[at]) > 60)
    }

    /// The bounding box of pixels with this property: left, top, right, bottom.
    fn around(&self, seen: impl Fn(usize) -> bool) -> Option<[usize; 4]> {
        let places = (0..self.width * self.height).filter(|at| seen(*at)).map(|at| (at % self.width, at / self.width));
        places.fold(None, |around: Option<[usize; 4]>, (x, y)| {
            let [left, top, right, bottom] = around.unwrap_or([x, y, x, y]);
            Some([left.min(x), top.min(y), right.max(x), bottom.max(y)])
        })
    }
}

/// Pixels that are dark in both frames, so that subtitles can be seen on them.
fn dark(a: &[u8], b: &[u8]) -> Vec<bool> {
    a.iter().zip(b).map(|(a, b)| *a.max(b) < 150).collect()
}

/// PSNR of two frames, decibels.
fn psnr(a: &[u8], b: &[u8]) -> f64 {
    let error: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.len() as f64 / error.max(1.0)).log10()
}

/// Whether two boxes are equal within a tolerance of some pixels.
fn same(ours: Option<[usize; 4]>, theirs: Option<[usize; 4]>, apart: usize) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.iter().zip(&theirs).all(|(a, b)| a.abs_diff(*b) <= apart),
        (ours, theirs) => ours == theirs,
    }
}

#[tokio::test]
async fn what_is_laid_over_a_picture_lies_where_and_when_ffmpeg_lays_it() {
    let shown = [
        Caption { start_ms: 480, end_ms: Some(1720), place: (200, 380, 240, 60) },
        Caption { start_ms: 2210, end_ms: Some(2600), place: (40, 20, 120, 41) },
        Caption { start_ms: 3000, end_ms: Some(7000), place: (401, 33, 201, 120) },
        Caption { start_ms: 7000, end_ms: Some(9015), place: (100, 400, 240, 70) },
    ];
    for (from, size) in [(From::Graphics, (640, 360)), (From::SubPictures, (320, 180)), (From::Beside, (160, 90))] {
        let (mut bench, beside) = drawing(from, &shown, "");
        if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
            (plan.width, plan.height) = size;
        }
        // A subtitle that begins, one that began before the run, and two in succession.
        let indices = if from == From::Graphics { vec![0, 2, 3, 4] } else { vec![2, 4] };
        let mut theirs = Vec::new();
        for &index in &indices {
            theirs.push(Drawn::by(&bench, beside.as_ref(), index).await);
        }
        let bench = bench.natively();
        assert_eq!(gst::refusal_reason(&bench.media, &bench.rendition), None, "{from:?}");
        for (index, theirs) in indices.into_iter().zip(theirs) {
            let ours = Drawn::by(&bench, beside.as_ref(), index).await;
            let (here, there) = (ours.boxes(), theirs.boxes());
            assert_eq!(here.len(), there.len(), "{from:?} {size:?}, segment {index}");
            let mut alike = Vec::new();
            for (number, around) in here.iter().enumerate() {
                // ffmpeg rounds times to a frame, up or down.
                let near = number.saturating_sub(1)..(number + 2).min(there.len());
                let found = near.clone().any(|near| same(*around, there[near], 2));
                assert!(
                    found,
                    "{from:?} {size:?}, frame {number} of segment {index}: {around:?} is not in {:?}",
                    &there[near]
                );
                if same(*around, there[number], 2) {
                    alike.push(psnr(&ours.pictures[number], &theirs.pictures[number]));
                }
            }
            assert!(alike.len() + 4 >= here.len(), "{from:?} {size:?}, segment {index}: {} alike", alike.len());
            let worst = alike.into_iter().fold(f64::INFINITY, f64::min);
            assert!(worst > 34.0, "{from:?} {size:?}, segment {index}: {worst} dB");
        }
    }
}

/// A file of the corpus with bitmap subtitles: path, stream to burn in, output size, and segments to compare.
type Real = (&'static str, u32, (u32, u32), &'static [usize]);

const CORPUS: [Real; 5] = [
    ("video/sample_with_pgs_subtitles.mkv", 2, (540, 360), &[0]),
    ("video/sample_with_vobsub.mkv", 2, (540, 360), &[0]),
    ("video/counting multi-audio multi-subs.mkv", 7, (640, 480), &[1, 3, 5]),
    ("video/counting multi-audio multi-subs.mkv", 8, (320, 240), &[1, 3]),
    ("video/counting multi-audio multi-subs.mkv", 8, (640, 480), &[5, 7]),
];

#[tokio::test]
async fn captions_of_real_files_lie_where_ffmpeg_lays_them() {
    let Some(folder) = crate::corpus::folder() else { return };
    for (name, stream, (width, height), indices) in CORPUS {
        let path = folder.join(name);
        let container = Container::Matroska;
        let media = film::media(&path, container);
        let seconds = media.duration_seconds.unwrap();
        let mut bench = Bench::over(tempfile::tempdir().unwrap(), &path, container, FPS25, seconds);
        let set = |bench: &mut Bench, burn| {
            if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
                (plan.width, plan.height, plan.burn, plan.max_kbps) = (width, height, burn, 8000);
            }
        };
        set(&mut bench, None);
        let ffmpeg = bench.producer.clone();
        let native: Arc<dyn Backend> = Arc::new(GstBackend::detect().unwrap());
        for &index in indices {
            let mut made = Vec::new();
            for producer in [&native, &ffmpeg] {
                bench.producer = producer.clone();
                for burn in [None, Some(BurnedSubtitle::Embedded { stream, bitmap: true })] {
                    set(&mut bench, burn);
                    assert_eq!(gst::refusal_reason(&bench.media, &bench.rendition), None, "{name}");
                    made.push(Drawn::by(&bench, None, index).await);
                }
            }
            let [bare, ours, their_bare, theirs] = &made[..] else { panic!("four segments") };
            // White letters differ from a bright wall by about the threshold: one encode may lie above it, the other below. So
            // only pixels that are dark in both are compared.
            let dark: Vec<Vec<bool>> =
                bare.pictures.iter().zip(&their_bare.pictures).map(|(a, b)| dark(a, b)).collect();
            let apart = |drawn: &Drawn, bare: &Drawn| -> Vec<_> {
                let pictures = drawn.pictures.iter().zip(&bare.pictures).zip(&dark);
                pictures.map(|((drawn, bare), dark)| ours.apart(drawn, bare, dark)).collect()
            };
            let (here, there) = (apart(ours, bare), apart(theirs, their_bare));
            let (mut shown, mut worst) = (0, f64::INFINITY);
            for (number, around) in here.iter().enumerate() {
                let near = number.saturating_sub(1)..(number + 2).min(there.len());
                // When scaling down soft edges, ffmpeg mixes them with black, so that less of them is visible.
                let found = near.clone().any(|near| same(*around, there[near], 3));
                assert!(found, "{name} {stream}, frame {number} of {index}: {around:?} is not in {:?}", &there[near]);
                if around.is_some() && same(*around, there[number], 3) {
                    shown += 1;
                    worst = worst.min(psnr(&ours.pictures[number], &theirs.pictures[number]));
                }
            }
            eprintln!("{name} {stream}, segment {index}: shown in {shown} of {} frames, {worst:.1} dB", here.len());
            assert!(shown > 0 && worst > 28.0, "{name} {stream}, segment {index}: {shown} frames, {worst} dB");
        }
    }
}

/// The subtitle began longer ago than the backward search by frames; also in a file whose cues list no subtitles.
#[tokio::test]
async fn a_caption_that_stands_is_drawn_from_the_first_picture_of_a_run() {
    let standing = [Caption { start_ms: 1000, end_ms: None, place: (200, 380, 240, 60) }];
    for (from, more) in [(From::Graphics, ""), (From::SubPictures, ""), (From::Graphics, "-f matroska -live 1")] {
        let (bench, _) = drawing(from, &standing, more);
        let bench = bench.natively();
        let index = bench.grid.segment_at(16 * 90_000);
        let seen = Drawn::by(&bench, None, index).await.boxes();
        assert_eq!(seen.len(), 50, "{from:?}");
        assert!(seen.iter().all(Option::is_some), "{from:?} {more}: {seen:?}");
        assert_eq!(Drawn::by(&bench, None, 0).await.boxes(), [None; 25], "{from:?}: no subtitle before its start");
    }
}

#[tokio::test]
async fn captions_are_drawn_the_same_wherever_a_run_begins() {
    let shown: Vec<Caption> = (0..9).map(|n| caption(400 + 2000 * n, 1900 + 2000 * n)).collect();
    let (bench, _) = drawing(From::Graphics, &shown, "");
    let bench = bench.natively();
    let through = bench.all().await;
    for index in [1, 4, 8] {
        let jumped = bench.one(index).await;
        let psnr = film::psnr(&bench.write("a.ts", [&through[index]]), &bench.write("b.ts", [&jumped]));
        assert!(psnr > 40.0, "segment {index}: {psnr} dB");
    }
}
