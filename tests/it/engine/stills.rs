//! Slates: GStreamer, in a worker and in this process, makes what ffmpeg makes.

use std::time::Instant;

use hearthcast::domain::mpegts::channel_timeline::StillImage;
use hearthcast::domain::subtitles::TextStyle;
use hearthcast::engine::still_image::StillJob;
use hearthcast::engine::video_encoders::{VIDEO_ENCODERS, VideoEncoder};
use hearthcast::engine::worker::{FaultRecorder, FileFault, Isolation};
use rustix::process::Signal;

use super::workers::Workers;
use super::*;
use crate::kit::worker_processes::signal_workers;

const SIZE: (u32, u32) = (640, 360);

fn x264() -> &'static VideoEncoder {
    VIDEO_ENCODERS.iter().find(|encoder| encoder.name == "libx264").unwrap()
}

async fn by_ffmpeg(job: &StillJob) -> Result<StillImage, RunError> {
    job.encode_with_ffmpeg(Path::new("ffmpeg"), x264()).await
}

/// An image of coloured areas, larger than the slate.
fn make_image(folder: &Path, name: &str, args: &[&str]) -> Arc<Image> {
    let path = folder.join(name);
    media::run_ffmpeg(&path, &[&["-f lavfi -i", "testsrc2=s=800x800", "-frames:v 1"], args].concat());
    Arc::new(Image::from_bytes(&std::fs::read(path).unwrap()).unwrap().unwrap())
}

/// The first and the last decoded frame, 4:2:0.
fn decoded(folder: &Path, still: &StillImage) -> Vec<u8> {
    let path = folder.join("still.h264");
    std::fs::write(&path, still.frames.concat()).unwrap();
    assert_eq!(media::decoder_warnings(&path), "");
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path).args("-pix_fmt yuv420p -f rawvideo -".split(' '));
    let frames = command.output().unwrap().stdout;
    let frame_bytes = frames.len() / still.frames.len();
    [&frames[..frame_bytes], &frames[frames.len() - frame_bytes..]].concat()
}

/// Mean and worst difference of the values of two decodings; the worst one of areas of 64 values.
fn differences(first: &[u8], second: &[u8]) -> (f64, f64) {
    assert_eq!(first.len(), second.len());
    let areas = first.chunks(64).zip(second.chunks(64)).map(|(first, second)| {
        let sum: u32 = first.iter().zip(second).map(|(first, second)| u32::from(first.abs_diff(*second))).sum();
        f64::from(sum) / first.len() as f64
    });
    let areas: Vec<f64> = areas.collect();
    (areas.iter().sum::<f64>() / areas.len() as f64, areas.into_iter().fold(0.0, f64::max))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slate_by_gstreamer_looks_like_the_one_by_ffmpeg() {
    let (workers, folder) = (Workers::start().await, tempfile::tempdir().unwrap());
    let folder = folder.path();
    let (png, jpeg) = (make_image(folder, "a.png", &[]), make_image(folder, "a.jpg", &["-q:v 2"]));
    let with_text = |job: StillJob| job.with_text("Back soon: Jörg & <Ana>", &TextStyle::default()).unwrap();
    let plain = StillJob::new(SIZE);
    for (name, job) in [
        ("the drawing", plain.clone()),
        ("the drawing at 720p", StillJob::new((1280, 720))),
        ("text", with_text(plain.clone())),
        ("a PNG", plain.clone().with_image(png.clone(), "a.png")),
        ("a JPEG with text", with_text(plain.clone().with_image(jpeg, "a.jpg"))),
        ("a PNG on an upright screen", StillJob::new((202, 358)).with_image(png, "a.png")),
    ] {
        let reference = decoded(folder, &by_ffmpeg(&job).await.unwrap());
        for isolation in [workers.isolation(), Isolation::None] {
            let still = isolation.encode_still(&job).await.unwrap();
            let (mean, worst) = differences(&decoded(folder, &still), &reference);
            println!("{name}: mean difference {mean:.3}, worst area {worst:.1}");
            assert!(mean < 1.5 && worst < 40.0, "{name}: {mean} {worst}");
        }
    }
    let status = workers.isolation().status();
    assert_eq!((status.busy, status.restarted), (0, 0), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slate_describes_its_colours_its_range_and_square_pixels() {
    let folder = tempfile::tempdir().unwrap();
    let job = StillJob::new(SIZE);
    let described = |still: &StillImage| {
        let path = folder.path().join("still.h264");
        std::fs::write(&path, still.frames.concat()).unwrap();
        let found = media::ffprobe(&path, &["-show_streams"])["streams"][0].clone();
        [
            "color_range",
            "color_space",
            "color_primaries",
            "color_transfer",
            "width",
            "height",
            "profile",
            "has_b_frames",
        ]
        .map(|field| found[field].clone())
        .to_vec()
    };
    let by_ffmpeg = described(&by_ffmpeg(&job).await.unwrap());
    assert_eq!(by_ffmpeg[..2], ["tv", "bt709"]);
    assert_eq!(described(&Isolation::None.encode_still(&job).await.unwrap()), by_ffmpeg);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_image_is_refused_without_a_death() {
    let (workers, folder) = (Workers::start().await, tempfile::tempdir().unwrap());
    let intact = make_image(folder.path(), "a.png", &[]);
    let bytes = std::fs::read(folder.path().join("a.png")).unwrap();
    let broken = Arc::new(Image::from_bytes(&bytes[..bytes.len() / 2]).unwrap().unwrap());
    // GStreamer misreads these, ffmpeg does not.
    let deep = make_image(folder.path(), "deep.png", &["-pix_fmt rgb48be"]);
    for isolation in [workers.isolation(), Isolation::None] {
        assert_eq!(isolation.check_image(&intact, "a.png").await, Ok(()));
        let fault = isolation.check_image(&broken, "a.png").await.unwrap_err();
        assert!(matches!(fault, FileFault::Broken(_)), "{fault:?}");
        let fault = isolation.check_image(&deep, "deep.png").await.unwrap_err();
        assert!(matches!(fault, FileFault::Unchecked(_)), "{fault:?}");
        let slate = isolation.encode_still(&StillJob::new(SIZE).with_image(broken.clone(), "a.png")).await;
        assert!(slate.as_ref().is_err_and(|cause| cause.contains("decoding failed")), "{slate:?}");
    }
    let status = workers.isolation().status();
    assert_eq!((status.busy, status.restarted), (0, 0), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_stopped_is_no_fault_of_its_image() {
    let (workers, folder) = (Workers::start().await, tempfile::tempdir().unwrap());
    let image = make_image(folder.path(), "a.png", &[]);
    let isolation = workers.isolation();
    isolation.examine().await.unwrap();
    for n in 1..=2 {
        workers.wait_until_ready().await;
        // A stopped worker is noticed after a second, so these jobs get one.
        signal_workers(workers.cache(), Signal::STOP);
        if n == 1 {
            let fault = isolation.check_image(&image, "a.png").await.unwrap_err();
            assert!(matches!(fault, FileFault::Unchecked(_)), "{fault:?}");
        } else {
            let slate = isolation.encode_still(&StillJob::new(SIZE).with_image(image.clone(), "a.png")).await;
            assert!(slate.as_ref().is_err_and(|cause| cause.contains("stopped")), "{slate:?}");
        }
        assert!(isolation.status().causes["stopped"] >= n, "{:?}", isolation.status());
    }
    assert_eq!(workers.recorder.count(), 0);
}

/// Times of both backends, to print: `cargo test --test it stills::times -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn times_of_both_backends() {
    let (workers, folder) = (Workers::start().await, tempfile::tempdir().unwrap());
    let image = make_image(folder.path(), "a.png", &[]);
    workers.pool.examine().await.unwrap();
    let text = StillJob::new((1280, 720)).with_text("Back soon", &TextStyle::default()).unwrap();
    let jobs = [
        ("drawing", StillJob::new((1280, 720))),
        ("text", text.clone()),
        ("image and text", text.with_image(image, "a.png")),
    ];
    for (name, job) in jobs {
        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..9 {
            let start = Instant::now();
            by_ffmpeg(&job).await.unwrap();
            times[0].push(start.elapsed());
            // A spare is ready by then.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            for (isolation, times) in [workers.isolation(), Isolation::None].into_iter().zip(&mut times[1..]) {
                let start = Instant::now();
                isolation.encode_still(&job).await.unwrap();
                times.push(start.elapsed());
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let [ffmpeg, worker, in_process] = times.each_mut().map(median);
        println!("{name}: ffmpeg {ffmpeg:.0?}, worker {worker:.0?}, in this process {in_process:.0?}");
    }
}
