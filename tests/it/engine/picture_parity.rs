//! Both backends make the same pictures: values, colour descriptions, and watermarks.

use hearthcast::domain::plan::{BurnedSubtitle, Corner, WatermarkOverlay};

use super::bitmap_subtitles::frame_psnr_decibels;
use super::*;
use crate::kit::bitmap_subtitles::{BitmapSubtitle, write_pgs};

/// A luma ramp from left to right and opposite chroma ramps from top to bottom, in full range (`yuvj444p`).
const FULL_RANGE_RAMP: &str = "color=black:s=512x128:r=25:d=0.04,format=yuvj444p,\
    geq=lum='X*255/511':cb='128+40*(Y/64-1)':cr='128-40*(Y/64-1)',loop=loop=49:size=1,setpts=N/25/TB";

/// The same in limited range.
const LIMITED_RAMP: &str = "color=black:s=512x128:r=25:d=0.04,format=yuv444p,\
    geq=lum='16+X*219/511':cb='128+36*(Y/64-1)':cr='128-36*(Y/64-1)',loop=loop=49:size=1,setpts=N/25/TB";

const FINE: &str = "-c:v libx264 -preset ultrafast -crf 1";
const BT709: &str = "-colorspace bt709 -color_primaries bt709 -color_trc bt709";
const BT601: &str = "-colorspace smpte170m -color_primaries smpte170m -color_trc smpte170m";
const PAL: &str = "-colorspace bt470bg -color_primaries bt470bg -color_trc smpte170m";

/// A film: its name, the ramp, the arguments of its encoder, and its chroma sampling if that is not 4:2:0.
type RampFilm = (&'static str, &'static str, String, &'static str);

fn ramp_films() -> Vec<RampFilm> {
    let h264 =
        |format: &str, range: &str, colors: &str| format!("{FINE} -pix_fmt {format} -color_range {range} {colors}");
    let mjpeg = |format: &str| format!("-c:v mjpeg -q:v 1 -qmin 1 -pix_fmt {format}");
    vec![
        ("full-709.mkv", FULL_RANGE_RAMP, h264("yuvj420p", "pc", BT709), ""),
        ("full-709.mp4", FULL_RANGE_RAMP, h264("yuvj420p", "pc", BT709), ""),
        ("full-601.mkv", FULL_RANGE_RAMP, h264("yuvj420p", "pc", BT601), ""),
        ("full-pal.mkv", FULL_RANGE_RAMP, h264("yuvj420p", "pc", PAL), ""),
        ("full-unspecified.mkv", FULL_RANGE_RAMP, h264("yuvj420p", "pc", ""), ""),
        ("limited-709.mkv", LIMITED_RAMP, h264("yuv420p", "tv", BT709), ""),
        ("limited-601.mkv", LIMITED_RAMP, h264("yuv420p", "tv", BT601), ""),
        ("limited-pal.mkv", LIMITED_RAMP, h264("yuv420p", "tv", PAL), ""),
        ("limited-unspecified.mkv", LIMITED_RAMP, h264("yuv420p", "tv", ""), ""),
        ("limited-10-bit.mkv", LIMITED_RAMP, h264("yuv420p10le", "tv", BT709), "4:2:0 10"),
        ("full-10-bit.mkv", FULL_RANGE_RAMP, h264("yuv420p10le", "pc", BT709), "4:2:0 10"),
        ("full-422.mkv", FULL_RANGE_RAMP, h264("yuvj422p", "pc", BT709), "4:2:2"),
        ("limited-444.mkv", LIMITED_RAMP, h264("yuv444p", "tv", BT709), "4:4:4"),
        ("mjpeg-420.mov", FULL_RANGE_RAMP, mjpeg("yuvj420p"), ""),
        ("mjpeg-422.mkv", FULL_RANGE_RAMP, mjpeg("yuvj422p"), "4:2:2"),
        ("mjpeg-444.mkv", FULL_RANGE_RAMP, mjpeg("yuvj444p"), "4:4:4"),
        ("grey.mkv", FULL_RANGE_RAMP, "-c:v ffv1 -pix_fmt gray".into(), "4:0:0"),
        ("rgb.mkv", LIMITED_RAMP, "-c:v libx264rgb -preset ultrafast -crf 1 -pix_fmt gbrp".into(), "4:4:4 rgb"),
        ("screen.mov", LIMITED_RAMP, "-c:v qtrle -pix_fmt rgb24".into(), "4:4:4 rgb"),
    ]
}

fn ramp_bench((name, ramp, encoder_args, sampling): &RampFilm) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    media::run_ffmpeg(&path, &["-f lavfi -i", ramp, encoder_args]);
    let container = if name.ends_with("mkv") { Container::Matroska } else { Container::Mp4 };
    let mut bench = Bench::of_file(folder, &path, container, FPS25, 2.0);
    for stream in &mut Arc::make_mut(&mut bench.media).streams {
        if let StreamKind::Video(video) = &mut stream.kind {
            let mut words = sampling.split(' ').filter(|word| !word.is_empty());
            video.chroma = words.next().unwrap_or("4:2:0").to_owned();
            match words.next() {
                Some("10") => video.bit_depth = 10,
                // As the probe states it by the pixel format.
                Some(_) => video.color.matrix = Some("gbr".into()),
                None => {}
            }
        }
    }
    bench
}

/// Decoded 4:2:0 frames of one size.
struct Frames {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

impl Frames {
    /// The frames of two segments, not converted.
    fn decode(paths: [&Path; 2], (width, height): (usize, usize)) -> [Self; 2] {
        let decoded = media::convert(&paths, ["-map {n}:v -pix_fmt yuv420p -f rawvideo"]);
        let [first, second] = decoded.try_into().expect("two files");
        [first, second].map(|[bytes]| {
            assert!(bytes.len() >= width * height * 3 / 2);
            Self { width, height, bytes }
        })
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.width * self.height * 3 / 2)
    }

    /// Mean of a plane (0 luma, 1 and 2 chroma) over all frames in `area`: left, top, width and height, in luma pixels.
    fn mean(&self, plane: usize, (left, top, width, height): (usize, usize, usize, usize)) -> f64 {
        let step = if plane == 0 { 1 } else { 2 };
        let luma = self.width * self.height;
        let plane_start = [0, luma, luma + luma / 4][plane];
        let (mut sum, mut count) = (0usize, 0usize);
        for frame in self.iter() {
            for y in top / step..(top + height) / step {
                for x in left / step..(left + width) / step {
                    sum += usize::from(frame[plane_start + y * (self.width / step) + x]);
                    count += 1;
                }
            }
        }
        sum as f64 / count.max(1) as f64
    }

    /// Bounding box of the pixels whose luma differs from that of `other`: left, top, right, bottom.
    fn difference_box(&self, other: &Self) -> Option<[usize; 4]> {
        let (first, second) = (self.iter().next()?, other.iter().next()?);
        let is_different = |at: &usize| first[*at].abs_diff(second[*at]) > 12;
        let points = (0..self.width * self.height).filter(is_different).map(|at| (at % self.width, at / self.width));
        points.fold(None, |around, (x, y)| {
            let [left, top, right, bottom] = around.unwrap_or([x, y, x, y]);
            Some([left.min(x), top.min(y), right.max(x), bottom.max(y)])
        })
    }
}

/// The colour description in a segment's parameter sets.
fn color_description(path: &Path) -> Vec<serde_json::Value> {
    let stream = &media::ffprobe(path, &["-show_streams"])["streams"][0];
    let names = ["pix_fmt", "color_range", "color_space", "color_transfer", "color_primaries", "chroma_location"];
    names.map(|name| stream[name].clone()).to_vec()
}

/// A colour description as [`color_description`] gives it, with BT.601 under one name, and with the limited range and a matrix
/// also where none is stated.
fn with_stated_matrix(mut description: Vec<serde_json::Value>) -> Vec<serde_json::Value> {
    if description[1].is_null() {
        description[1] = "tv".into();
    }
    if description[2].is_null() || description[2] == "bt470bg" {
        description[2] = "smpte170m".into();
    }
    description
}

fn plan_of(bench: &mut Bench) -> &mut EncodeVideo {
    let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video else { panic!("a video plan") };
    plan
}

/// Without `HEARTHCAST_ALL_FILMS` every other film is encoded.
#[tokio::test]
async fn ramps_have_the_values_and_the_description_of_ffmpegs() {
    let mut faults = Vec::new();
    for film in ramp_films().into_iter().step_by(media::film_step(2)) {
        let name = film.0;
        let mut bench = ramp_bench(&film);
        // Once scaled; not scaled with one file of each range.
        let sizes: &[(u32, u32)] = if name.ends_with("-709.mkv") { &[(256, 64), (512, 128)] } else { &[(256, 64)] };
        for &(width, height) in sizes {
            let plan = plan_of(&mut bench);
            (plan.width, plan.height, plan.max_kbps) = (width, height, 20_000);
            let size = (width as usize, height as usize);
            let [theirs, ours] = segments_of_both(&mut bench).await;
            // x264enc always states a matrix, and has one name for both matrices of BT.601, which are equal.
            let (our_colors, their_colors) = (color_description(&ours), with_stated_matrix(color_description(&theirs)));
            if our_colors != their_colors {
                faults.push(format!("{name}: described as {our_colors:?} instead of {their_colors:?}"));
            }
            let [theirs, ours] = Frames::decode([&theirs, &ours], size);
            // Columns of the luma ramp, rows of the chroma ramps. The borders are left out, where resampling differs.
            let columns = (1..15).map(|step| (0, (size.0 * step / 16, 0, size.0 / 16, size.1)));
            let rows = (1..7)
                .flat_map(|step| [1, 2].map(|plane| (plane, (size.0 / 4, size.1 * step / 8, size.0 / 2, size.1 / 8))));
            for (plane, area) in columns.chain(rows) {
                let (ours, theirs) = (ours.mean(plane, area), theirs.mean(plane, area));
                // At this rate the encoder quantises chroma in steps of about one.
                if (ours - theirs).abs() > if plane == 0 { 1.0 } else { 1.5 } {
                    faults.push(format!("{name} at {width}: plane {plane} {area:?}: {ours:.2} instead of {theirs:.2}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn full_range_becomes_limited() {
    let mut bench = ramp_bench(&ramp_films()[0]);
    (plan_of(&mut bench).width, plan_of(&mut bench).height) = (512, 128);
    let [by_ffmpeg, by_gstreamer] = decoded_by_both(&mut bench, (512, 128)).await;
    for (in_process, frames) in [(false, by_ffmpeg), (true, by_gstreamer)] {
        // The first and the last four columns of 512, whose values are 0 to 1.5 and 253.5 to 255.
        let (black, white) = (frames.mean(0, (0, 0, 4, 128)), frames.mean(0, (508, 0, 4, 128)));
        assert!((15.0..19.0).contains(&black) && (232.0..236.0).contains(&white), "{in_process}: {black} to {white}");
    }
}

/// A dark film of two seconds, 320x180.
const DARK_FILM: &str = "color=0x303030:s=320x180:r=25:d=2";

/// An image with a red and a green half.
fn make_image(folder: &Path, name: &str) -> Arc<Image> {
    let path = folder.join(name);
    let halves = "color=0xf07070:s=100x60,drawbox=x=50:w=50:c=0x50e070:t=fill,format=rgb24";
    media::run_ffmpeg(&path, &["-f lavfi -i", halves, "-frames:v 1 -q:v 1"]);
    Arc::new(Image::from_bytes(&std::fs::read(path).unwrap()).unwrap().unwrap())
}

fn dark_bench(colors: &str) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mkv");
    media::run_ffmpeg(&path, &["-f lavfi -i", DARK_FILM, &format!("{FINE} -pix_fmt yuv420p {colors}")]);
    Bench::of_file(folder, &path, Container::Matroska, FPS25, 2.0)
}

/// The first segment of both backends, ffmpeg's first.
async fn segments_of_both(bench: &mut Bench) -> [PathBuf; 2] {
    bench.backend = Arc::new(ffmpeg_backend().clone());
    let theirs = bench.write_joined("ffmpeg.ts", [&bench.single_segment(0).await]);
    bench.backend = Arc::new(GstBackend::new(engine_report().clone()));
    [theirs, bench.write_joined("gstreamer.ts", [&bench.single_segment(0).await])]
}

async fn decoded_by_both(bench: &mut Bench, size: (usize, usize)) -> [Frames; 2] {
    let [theirs, ours] = segments_of_both(bench).await;
    Frames::decode([&theirs, &ours], size)
}

#[tokio::test]
async fn watermarks_have_the_position_and_colour_of_ffmpegs() {
    for (colors, image_name) in [(BT709, "a.png"), (BT601, "a.jpg"), ("", "b.png")] {
        let mut bench = dark_bench(colors);
        let image = make_image(bench.folder.path(), image_name);
        let digest = image.digest.clone();
        bench.watermark = Some(image);
        let bare = decoded_by_both(&mut bench, (320, 180)).await;
        for (corner, opacity_percent, width_percent) in [
            (Corner::TopLeft, 100, 20),
            (Corner::TopRight, 60, 25),
            (Corner::BottomLeft, 80, 30),
            (Corner::BottomRight, 100, 33),
        ] {
            let overlay = WatermarkOverlay { digest: digest.clone(), corner, opacity_percent, width_percent };
            plan_of(&mut bench).watermark = Some(overlay);
            let overlaid = decoded_by_both(&mut bench, (320, 180)).await;
            let boxes = [0, 1].map(|backend| overlaid[backend].difference_box(&bare[backend]).expect("a watermark"));
            let case = format!("{colors} {image_name} {corner:?}: {boxes:?}");
            assert!(boxes[0].iter().zip(boxes[1]).all(|(theirs, ours)| theirs.abs_diff(ours) <= 2), "{case}");
            let [left, top, right, bottom] = boxes[0];
            let half = (right - left) / 2;
            for plane in 0..3 {
                for start in [left, left + half] {
                    let area = (start + 4, top + 4, half - 8, bottom - top - 8);
                    let [theirs, ours] = [0, 1].map(|backend| overlaid[backend].mean(plane, area));
                    assert!((ours - theirs).abs() <= 2.5, "{case}, plane {plane} {area:?}: {ours} not {theirs}");
                }
            }
        }
        plan_of(&mut bench).watermark = None;
    }
}

#[tokio::test]
async fn watermarks_lie_above_text_and_bitmap_subtitles() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("a.srt"), "1\n00:00:00,500 --> 00:00:01,500\nMMMMMM\n").unwrap();
    // Under the watermark and beyond it.
    let subtitle = BitmapSubtitle { start_ms: 480, end_ms: Some(1480), area: (60, 10, 160, 60) };
    write_pgs(&file("a.sup"), (320, 180), &[subtitle]);
    for (subtitles, is_bitmap) in [("a.srt", false), ("a.sup", true)] {
        let film_folder = tempfile::tempdir().unwrap();
        let path = film_folder.path().join("a.mkv");
        let subtitle_input = format!("-copyts -i {} -map 0:v -map 1:s -c:s copy", file(subtitles).display());
        media::run_ffmpeg(&path, &["-f lavfi -i", DARK_FILM, &subtitle_input, FINE, "-pix_fmt yuv420p"]);
        let mut bench = Bench::of_file(film_folder, &path, Container::Matroska, FPS25, 2.0);
        let image = make_image(bench.folder.path(), "a.png");
        let (digest, corner) = (image.digest.clone(), Corner::TopLeft);
        bench.watermark = Some(image);
        let plan = plan_of(&mut bench);
        plan.watermark = Some(WatermarkOverlay { digest, corner, opacity_percent: 100, width_percent: 30 });
        let [_, alone] = decoded_by_both(&mut bench, (320, 180)).await;
        plan_of(&mut bench).burn = Some(BurnedSubtitle::Embedded { stream: 1, bitmap: is_bitmap });
        let [theirs, above] = decoded_by_both(&mut bench, (320, 180)).await;
        // In the middle of the subtitle's time: ffmpeg rounds its ends to a frame, up or down.
        let middle = |frames: &Frames| frames.iter().nth(24).expect("a second of frames").to_vec();
        let psnr = frame_psnr_decibels(&middle(&theirs), &middle(&above));
        assert!(psnr > 30.0, "{subtitles}: {psnr} dB");
        let psnr = frame_psnr_decibels(&middle(&alone), &middle(&above));
        assert!(psnr < 40.0, "{subtitles} are burned in: {psnr} dB");
        // The watermark covers what is below it in every frame.
        for plane in 0..3 {
            let area = (16, 12, 80, 40);
            let (above, alone) = (above.mean(plane, area), alone.mean(plane, area));
            assert!((above - alone).abs() <= 2.0, "{subtitles}, plane {plane}: {above} not {alone}");
        }
    }
}
