//! Thumbnails of films, compared with ffmpeg's `thumbnail` filter, and images in other sizes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hearthcast::engine::artwork::{OutputFormat, choose_frame, resize};

use crate::probe::{open_film, percentile_millis};

const ROUNDS: usize = 9;

/// Black, a title on blue, then moving video.
const FILM: &str = "color=black:s=1920x1080:r=25:d=12[a];color=navy:s=1920x1080:r=25:d=12,\
    drawbox=x=600:y=500:w=700:h=60:color=white:t=fill[b];testsrc2=s=1920x1080:r=25:d=96[c];[a][b][c]concat=n=3";

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("| film | thumbnail filter, ms | frame, ms | frame / filter | 320 JPEG, ms | 320 WebP, ms |");
    println!("|---|---|---|---|---|---|");
    for name in ["film.mp4", "film.mkv", "film.ts"] {
        let path = folder.path().join(name);
        let encoder = ["-c:v", "libx264", "-preset", "veryfast", "-g", "100", "-pix_fmt", "yuv420p"];
        let made =
            Command::new("ffmpeg").args(["-v", "error", "-f", "lavfi", "-i", FILM]).args(encoder).arg(&path).status();
        assert!(made.expect("ffmpeg runs").success());
        let [filter, frame, jpeg, webp] = runtime.block_on(medians(folder.path(), &path));
        println!("| {name} | {filter:.0} | {frame:.0} | {:.2} | {jpeg:.0} | {webp:.0} |", frame / filter);
    }
}

/// Medians in ms: ffmpeg's filter over 100 frames from a tenth of the film on, our frame, and its two small forms.
async fn medians(folder: &Path, path: &Path) -> [f64; 4] {
    let (source, media) = open_film(folder, path).await;
    let ffmpeg = Path::new("ffmpeg");
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let filter = ["-vf", "thumbnail=100,scale=1280:-2", "-frames:v", "1", "-f", "mjpeg", "-"];
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-ss", "12", "-i"]).arg(path).args(filter).stdout(Stdio::null());
        assert!(command.status().expect("ffmpeg runs").success());
        times[0].push(started.elapsed());
        let started = Instant::now();
        let frame = choose_frame(ffmpeg, &source, &media).await.expect("ffmpeg runs").expect("a frame");
        times[1].push(started.elapsed());
        for (format, times) in [OutputFormat::Jpeg, OutputFormat::WebP].into_iter().zip(&mut times[2..]) {
            let started = Instant::now();
            resize(ffmpeg, &frame, 320, format).await.expect("ffmpeg runs").expect("an image");
            times.push(started.elapsed());
        }
    }
    times.map(|times| percentile_millis(times, 0.5))
}
