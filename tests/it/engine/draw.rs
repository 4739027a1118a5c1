//! Subtitles drawn into the picture.

use super::*;
use hearthcast::domain::plan::Burn;

const SRT: &str = "1\n00:00:00,500 --> 00:00:01,500\nMMMMMM\n\n2\n00:00:03,000 --> 00:00:03,900\n<i>MMMMMM</i>\n";

/// How many of 100 ms steps of a black film show something bright, by step.
fn bright_steps(path: &Path) -> Vec<usize> {
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    let output = command.args(["-vf", "fps=10,format=gray", "-f", "rawvideo", "-"]).output().unwrap();
    let pictures = output.stdout.chunks_exact(320 * 180).enumerate();
    pictures
        .filter(|(_, picture)| picture.iter().filter(|&&pixel| pixel > 120).count() > 15)
        .map(|(step, _)| step)
        .collect()
}

#[tokio::test]
async fn text_is_drawn_when_it_is_spoken_from_the_file_and_from_beside_it() {
    for embedded in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("a.mkv"), folder.path().join("a.srt"));
        std::fs::write(&beside, SRT).unwrap();
        let subtitle = format!("-i {} -map 0:v -map 1:s -c:s subrip", beside.display());
        let encoder = "-c:v libx264 -preset ultrafast";
        film::make(&path, &["-f lavfi -i", "color=black:s=320x180:r=25:d=4", &subtitle, encoder]);
        let sidecar = film::open(&beside);
        let mut bench = Bench::over(folder, &path, Container::Matroska, FPS25, 4.0);
        let mut rendition = (*bench.rendition).clone();
        let Some(VideoPlan::Encode(plan)) = &mut rendition.video else { panic!("a picture") };
        plan.burn = Some(if embedded {
            Burn::Embedded { stream: 1, bitmap: false }
        } else {
            Burn::Sidecar { path: sidecar.path.clone(), bitmap: false }
        });
        bench.rendition = Arc::new(rendition);
        let job = |first| Job { sidecar: (!embedded).then(|| sidecar.clone()), ..bench.job(first) };
        // The second one from a run that starts in the middle.
        for (index, steps) in [(0, 5..10), (3, 0..9)] {
            let mut run = bench.ffmpeg.start(job(index), index).unwrap();
            let segment = next(&mut run).await.unwrap().unwrap();
            let shown = bright_steps(&bench.write("one.ts", [&segment]));
            assert_eq!(shown, steps.collect::<Vec<_>>(), "embedded {embedded}, segment {index}");
        }
    }
}
