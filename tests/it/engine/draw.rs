//! Text subtitles burned into the video.

use super::*;
use hearthcast::domain::plan::BurnedSubtitle;

const SRT: &str = "1\n00:00:00,500 --> 00:00:01,500\nMMMMMM\n\n2\n00:00:03,000 --> 00:00:03,900\n<i>MMMMMM</i>\n";

/// Steps of 100 ms in which a black film shows something bright.
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

/// A black film of 4 s with this text as an embedded or sidecar subtitle; returns the sidecar, if it is one.
fn drawing(text: &str, ending: &str, embedded: bool, more: &str) -> (Bench, Option<Arc<SourceFile>>) {
    let folder = tempfile::tempdir().unwrap();
    let (path, beside) = (folder.path().join("a.mkv"), folder.path().join("a").with_extension(ending));
    std::fs::write(&beside, text).unwrap();
    let subtitle = format!("-i {} -map 0:v -map 1:s -c:s copy {more}", beside.display());
    let encoder = "-c:v libx264 -preset ultrafast";
    film::make(&path, &["-f lavfi -i", "color=black:s=320x180:r=25:d=4", &subtitle, encoder]);
    let sidecar = film::open(&beside);
    let mut bench = Bench::over(folder, &path, Container::Matroska, FPS25, 4.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        plan.burn = Some(if embedded {
            BurnedSubtitle::Embedded { stream: 1, bitmap: false }
        } else {
            BurnedSubtitle::Sidecar { path: sidecar.path.clone(), bitmap: false }
        });
    }
    (bench, (!embedded).then_some(sidecar))
}

/// The first segment of a run that starts at `index`, with burned-in subtitles.
async fn drawn(bench: &Bench, sidecar: Option<&Arc<SourceFile>>, index: usize, name: &str) -> PathBuf {
    let job = Job { sidecar: sidecar.cloned(), ..bench.job(index) };
    let mut run = bench.producer.start(job, index).unwrap();
    let segment = Made::of(next(&mut run).await.unwrap().unwrap(), &bench.source).await;
    bench.write(name, [&segment])
}

#[tokio::test]
async fn text_is_drawn_when_it_is_spoken_from_the_file_and_from_beside_it() {
    for embedded in [true, false] {
        let (mut bench, sidecar) = drawing(SRT, "srt", embedded, "");
        for native in [false, true] {
            if native {
                bench = bench.natively();
            }
            // Segment 3 needs a run that starts within the film; segment 2 has no subtitles.
            for (index, steps) in [(0, 5..10), (3, 0..9), (2, 0..0)] {
                let shown = bright_steps(&drawn(&bench, sidecar.as_ref(), index, "one.ts").await);
                let steps: Vec<usize> = steps.collect();
                assert_eq!(shown, steps, "embedded {embedded}, native {native}, segment {index}");
            }
        }
    }
}

/// Styles, positions, simultaneous lines, a line over several segments, and a movement.
const ASS: &str = "[Script Info]\nScriptType: v4.00+\nPlayResX: 320\nPlayResY: 180\n\n[V4+ Styles]\n\
    Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BackColour, Bold, Italic, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV\n\
    Style: Default,DejaVu Sans,20,&H0000FFFF,&H00FF0000,&H80000000,0,0,1,2,1,2,10,10,10\n\
    Style: Own,FONT,24,&H00FFFFFF,&H00000000,&H80000000,0,0,1,1,0,5,10,10,10\n\n[Events]\n\
    Format: Layer, Start, End, Style, Text\n\
    Dialogue: 0,0:00:00.20,0:00:03.80,Default,below\n\
    Dialogue: 0,0:00:02.00,0:00:03.50,Default,above it\n\
    Dialogue: 1,0:00:00.00,0:00:04.00,Own,{\\move(60,40,260,40)}iiMMii\n";

#[tokio::test]
async fn text_drawn_here_looks_as_ffmpeg_draws_it() {
    let (bench, _) = drawing(&ASS.replace("FONT", "DejaVu Serif"), "ass", true, "");
    let theirs = [drawn(&bench, None, 0, "a0.ts").await, drawn(&bench, None, 2, "a2.ts").await];
    let bench = bench.natively();
    for (theirs, index) in theirs.iter().zip([0, 2]) {
        let ours = drawn(&bench, None, index, "b.ts").await;
        assert!(!bright_steps(&ours).is_empty());
        let psnr = film::psnr(theirs, &ours);
        assert!(psnr > 30.0, "segment {index}: {psnr} dB");
    }
}

#[tokio::test]
async fn fonts_attached_to_a_file_are_drawn_with() {
    let Ok(mut font) = std::fs::read("/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf") else {
        eprintln!("skipped: the font to attach is not installed");
        return;
    };
    // Rename the family to one that is not installed; its letters all have the same width.
    let wide = |text: &str| -> Vec<u8> { text.bytes().flat_map(|letter| [0, letter]).collect() };
    for (from, to) in [
        (b"DejaVu Sans Mono".to_vec(), b"Attached Of Mine".to_vec()),
        (wide("DejaVu Sans Mono"), wide("Attached Of Mine")),
    ] {
        for at in 0..font.len() - from.len() {
            if font[at..].starts_with(&from) {
                font[at..at + to.len()].copy_from_slice(&to);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.ttf");
    std::fs::write(&file, &font).unwrap();
    let attach = format!("-attach {} -metadata:s:t mimetype=application/x-truetype-font", file.display());
    let text = |family: &str| ASS.replace("FONT", family);
    // The expected result uses the installed font with the same letters.
    let (expected, _) = drawing(&text("DejaVu Sans Mono"), "ass", true, "");
    let expected = drawn(&expected, None, 1, "expected.ts").await;
    let (without, _) = drawing(&text("Attached Of Mine"), "ass", true, "");
    let without = drawn(&without, None, 1, "without.ts").await;
    let (mut bench, _) = drawing(&text("Attached Of Mine"), "ass", true, &attach);
    for native in [false, true] {
        if native {
            bench = bench.natively();
        }
        let made = drawn(&bench, None, 1, "made.ts").await;
        let (same, other) = (film::psnr(&expected, &made), film::psnr(&without, &made));
        assert!(same > 30.0 && other < 28.0, "in process {native}: {same} dB to the font, {other} dB to another");
    }
}
