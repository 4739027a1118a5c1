//! Seek previews of a film, compared with ffmpeg's `fps` filter over its keyframes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use hearthcast::domain::seek_previews::PreviewLayout;
use hearthcast::engine::artwork::preview_sheet;
use hearthcast::engine::packager::{Package, open_cmaf_track};

use crate::package::{children_seconds, processor_seconds, run_command};
use crate::probe::open_film;

/// Films of half an hour, a minute that repeats, with a keyframe every two seconds: their pictures and bit rate. The keyframes of
/// the second are decoded cheaply.
const FILMS: [(&str, &str, &str); 2] = [
    ("1080p with noise", "testsrc2=s=1920x1080:r=24:d=60,noise=alls=12:allf=t", "8M"),
    ("720p", "testsrc2=s=1280x720:r=24:d=60", "2M"),
];
const MINUTES: &str = "30";

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("| film | first sheet, ms | all sheets, CPU s per hour of film | fps filter, CPU s per hour | ratio |");
    println!("|---|---|---|---|---|");
    for (title, pictures, bit_rate) in FILMS {
        let minute = folder.path().join("minute.mp4");
        let rate = ["-b:v", bit_rate, "-maxrate", bit_rate, "-bufsize", bit_rate, "-g", "48", "-pix_fmt", "yuv420p"];
        let encoder = ["-c:v", "libx264", "-preset", "ultrafast"];
        run_command(ffmpeg().args(["-f", "lavfi", "-i", pictures]).args(encoder).args(rate).arg(&minute));
        for name in ["film.mp4", "film.mkv"] {
            let path = folder.path().join(name);
            let repeat = ["-stream_loop", MINUTES, "-i"];
            run_command(ffmpeg().args(repeat).arg(&minute).args(["-c", "copy", "-t", "1800"]).arg(&path));
            let (first_ms, ours) = runtime.block_on(make_all(folder.path(), &path));
            let filters = fps_filter(&path);
            println!("| {title}, {name} | {first_ms:.0} | {ours:.2} | {filters:.2} | {:.2} |", ours / filters);
        }
    }
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y"]);
    command
}

/// Time to the first sheet of an opened film, ms, and the processor time of all, of ffmpeg and this process, per hour of film.
async fn make_all(folder: &Path, path: &Path) -> (f64, f64) {
    let (source, media) = open_film(folder, path).await;
    let (stream, video) = media.video_streams().next().expect("video");
    let duration = media.duration_seconds.expect("a duration");
    let layout = PreviewLayout::new(duration, video.display_size(), true).expect("a layout");
    let (started, begun) = (Instant::now(), processor_seconds());
    let track = open_cmaf_track(&source, &media, stream.index).await.expect("the film is packaged");
    let package: Arc<Package> = Arc::new(track.into());
    let mut first_ms = 0.0;
    for sheet in 0..layout.sheets() {
        let made =
            preview_sheet::from_keyframes(Path::new("ffmpeg"), &source, package.clone(), video, (layout, sheet)).await;
        made.expect("ffmpeg runs").expect("a sheet");
        if sheet == 0 {
            first_ms = started.elapsed().as_secs_f64() * 1000.0;
        }
    }
    (first_ms, (processor_seconds() - begun) * 3600.0 / duration)
}

/// Processor time of ffmpeg's own way to the same images, seconds per hour of film.
fn fps_filter(path: &Path) -> f64 {
    let begun = children_seconds();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-threads", "1", "-skip_frame", "nokey", "-i"]).arg(path);
    command.args(["-vf", "fps=1/10,scale=240:136,tile=6x6", "-f", "image2pipe", "-c:v", "mjpeg", "-"]);
    assert!(command.stdout(Stdio::null()).status().expect("ffmpeg runs").success());
    (children_seconds() - begun) * 2.0
}
