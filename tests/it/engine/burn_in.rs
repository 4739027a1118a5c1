//! Text subtitles burned into the video.

use super::*;
use hearthcast::domain::plan::BurnedSubtitle;

const SRT: &str = "1\n00:00:00,500 --> 00:00:01,500\nMMMMMM\n\n2\n00:00:03,000 --> 00:00:03,900\n<i>MMMMMM</i>\n";

/// Steps of 100 ms in which a black film shows something bright.
fn bright_steps(path: &Path) -> Vec<usize> {
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    let output = command.args(["-vf", "fps=10,format=gray", "-f", "rawvideo", "-"]).output().unwrap();
    let frames = output.stdout.chunks_exact(320 * 180).enumerate();
    frames.filter(|(_, frame)| frame.iter().filter(|&&pixel| pixel > 120).count() > 15).map(|(step, _)| step).collect()
}

/// A black film of 4 s with this text as an embedded or sidecar subtitle; returns the sidecar, if it is one.
fn bench_with_text(
    text: &str,
    extension: &str,
    is_embedded: bool,
    muxer_args: &str,
) -> (Bench, Option<Arc<SourceFile>>) {
    let folder = tempfile::tempdir().unwrap();
    let (path, subtitle_file) = (folder.path().join("a.mkv"), folder.path().join("a").with_extension(extension));
    std::fs::write(&subtitle_file, text).unwrap();
    let subtitle = format!("-i {} -map 0:v -map 1:s -c:s copy {muxer_args}", subtitle_file.display());
    let encoder = "-c:v libx264 -preset ultrafast";
    media::run_ffmpeg(&path, &["-f lavfi -i", "color=black:s=320x180:r=25:d=4", &subtitle, encoder]);
    let sidecar = media::open(&subtitle_file);
    let mut bench = Bench::of_file(folder, &path, Container::Matroska, FPS25, 4.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        plan.burn = Some(if is_embedded {
            BurnedSubtitle::Embedded { stream: 1, bitmap: false }
        } else {
            BurnedSubtitle::Sidecar { path: sidecar.path.clone(), bitmap: false }
        });
    }
    (bench, (!is_embedded).then_some(sidecar))
}

/// The first segment of a run that starts at `index`, with burned-in subtitles.
async fn burn_segment(bench: &Bench, sidecar: Option<&Arc<SourceFile>>, index: usize, name: &str) -> PathBuf {
    let job = bench.job_with_sidecar(sidecar, index);
    let mut run = bench.backend.start(job, index).unwrap();
    let segment = SegmentBytes::read(next_segment(&mut run).await.unwrap().unwrap(), &bench.source).await;
    bench.write_joined(name, [&segment])
}

#[tokio::test]
async fn embedded_and_sidecar_text_is_burned_in_at_its_time() {
    for is_embedded in [true, false] {
        let (mut bench, sidecar) = bench_with_text(SRT, "srt", is_embedded, "");
        for in_process in [false, true] {
            if in_process {
                bench = bench.with_gstreamer();
            }
            // Segment 3 needs a run that starts within the film; segment 2 has no subtitles.
            for (index, steps) in [(0, 5..10), (3, 0..9), (2, 0..0)] {
                let bright = bright_steps(&burn_segment(&bench, sidecar.as_ref(), index, "one.ts").await);
                let steps: Vec<usize> = steps.collect();
                assert_eq!(bright, steps, "embedded {is_embedded}, in process {in_process}, segment {index}");
            }
        }
    }
}

/// Styles, positions, simultaneous lines, a line over several segments, and a movement.
const ASS_SCRIPT: &str = "[Script Info]\nScriptType: v4.00+\nPlayResX: 320\nPlayResY: 180\n\n[V4+ Styles]\n\
    Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BackColour, Bold, Italic, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV\n\
    Style: Default,DejaVu Sans,20,&H0000FFFF,&H00FF0000,&H80000000,0,0,1,2,1,2,10,10,10\n\
    Style: Own,FONT,24,&H00FFFFFF,&H00000000,&H80000000,0,0,1,1,0,5,10,10,10\n\n[Events]\n\
    Format: Layer, Start, End, Style, Text\n\
    Dialogue: 0,0:00:00.20,0:00:03.80,Default,below\n\
    Dialogue: 0,0:00:02.00,0:00:03.50,Default,above it\n\
    Dialogue: 1,0:00:00.00,0:00:04.00,Own,{\\move(60,40,260,40)}iiMMii\n";

#[tokio::test]
async fn text_burned_in_in_process_looks_like_ffmpegs() {
    let (bench, _) = bench_with_text(&ASS_SCRIPT.replace("FONT", "DejaVu Serif"), "ass", true, "");
    let theirs = [burn_segment(&bench, None, 0, "a0.ts").await, burn_segment(&bench, None, 2, "a2.ts").await];
    let bench = bench.with_gstreamer();
    for (theirs, index) in theirs.iter().zip([0, 2]) {
        let ours = burn_segment(&bench, None, index, "b.ts").await;
        assert!(!bright_steps(&ours).is_empty());
        let psnr = media::worst_psnr_decibels(theirs, &ours);
        assert!(psnr > 30.0, "segment {index}: {psnr} dB");
    }
}

#[tokio::test]
async fn attached_fonts_are_used() {
    let Ok(mut font) = std::fs::read("/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf") else {
        eprintln!("skipped: the font to attach is not installed");
        return;
    };
    // Rename the family to one that is not installed; its letters all have the same width.
    let utf16 = |text: &str| -> Vec<u8> { text.bytes().flat_map(|letter| [0, letter]).collect() };
    for (from, to) in [
        (b"DejaVu Sans Mono".to_vec(), b"Attached Of Mine".to_vec()),
        (utf16("DejaVu Sans Mono"), utf16("Attached Of Mine")),
    ] {
        for offset in 0..font.len() - from.len() {
            if font[offset..].starts_with(&from) {
                font[offset..offset + to.len()].copy_from_slice(&to);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.ttf");
    std::fs::write(&file, &font).unwrap();
    let attach = format!("-attach {} -metadata:s:t mimetype=application/x-truetype-font", file.display());
    let text = |family: &str| ASS_SCRIPT.replace("FONT", family);
    // The expected result uses the installed font with the same letters.
    let (expected, _) = bench_with_text(&text("DejaVu Sans Mono"), "ass", true, "");
    let expected = burn_segment(&expected, None, 1, "expected.ts").await;
    let (without_font, _) = bench_with_text(&text("Attached Of Mine"), "ass", true, "");
    let without_font = burn_segment(&without_font, None, 1, "without.ts").await;
    let (mut bench, _) = bench_with_text(&text("Attached Of Mine"), "ass", true, &attach);
    for in_process in [false, true] {
        if in_process {
            bench = bench.with_gstreamer();
        }
        let output = burn_segment(&bench, None, 1, "made.ts").await;
        let (psnr_to_expected, psnr_to_other_font) =
            (media::worst_psnr_decibels(&expected, &output), media::worst_psnr_decibels(&without_font, &output));
        assert!(
            psnr_to_expected > 30.0 && psnr_to_other_font < 28.0,
            "in process {in_process}: {psnr_to_expected} dB to the font, {psnr_to_other_font} dB to another"
        );
    }
}
