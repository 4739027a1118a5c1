//! Sample media for `hearthcast demo` and the browser test: drawn and sung by ffmpeg, a minute each, the same bytes on
//! every run of the same ffmpeg.
//!
//! One ten-second picture is rendered per codec, made so that its end meets its beginning, and looped without encoding
//! it again; the sounds likewise. The whole set costs about seven seconds of one core.

use std::path::Path;
use std::process::Stdio;

use futures_util::future::join_all;
use tokio::process::Command;

/// Raised whenever a recipe changes: a folder made by an older one is made again.
const RECIPE: &str = "1";

/// A landscape of embers, 48 by 27 points drawn and smoothly enlarged. Every term returns after ten seconds.
const PICTURE: &str = "nullsrc=s=48x27:r=24:d=10,geq=\
    r='60+170*exp(-pow((Y-19-2.5*sin(X/6+T*PI*0.4)-2*sin(X/11-T*PI*0.2))/4.5,2))+30*sin(X/13+T*PI*0.2)*(1-Y/40)':\
    g='40+95*exp(-pow((Y-20-2.5*sin(X/6+T*PI*0.4)-2*sin(X/11-T*PI*0.2))/3.2,2))':\
    b='92-2.4*Y+22*sin(X/9-T*PI*0.2)',\
    format=yuv420p,scale=960:540:flags=bicubic";

/// A slow chord, left and right apart.
const CHORD: &str = "aevalsrc='0.09*(sin(440*PI*t)+sin(554*PI*t)*(0.5+0.5*sin(0.4*PI*t))+sin(660*PI*t)*(0.5+0.5*sin(0.2*PI*t)))|\
    0.09*(sin(440*PI*t)+sin(554*PI*t)*(0.5+0.5*cos(0.4*PI*t))+sin(830*PI*t)*(0.5+0.5*cos(0.2*PI*t)))':s=48000:d=10,\
    aloop=loop=5:size=480000";

/// A lower one, for the second sound track and the sound book.
const LOW_CHORD: &str =
    "aevalsrc='0.14*(sin(220*PI*t)+sin(330*PI*t)*(0.5+0.5*sin(0.4*PI*t)))':s=48000:d=10,aloop=loop=5:size=480000";

const CUES: [(&str, &str); 6] = [
    ("A fire, and nothing to hurry for.", "Ein Feuer, und nichts, das eilt."),
    ("The wood has been drying since spring.", "Das Holz trocknet seit dem Frühling."),
    ("Somebody has put the kettle on.", "Jemand hat Wasser aufgesetzt."),
    ("Outside, it may rain as it likes.", "Draußen mag es regnen, wie es will."),
    ("Stay as long as you want.", "Bleib, so lange du magst."),
    ("There is more wood by the door.", "An der Tür liegt noch mehr Holz."),
];

/// One file of the set. Arguments stand between `ffmpeg` and the output file, names without a slash lie in the workshop,
/// and `{PICTURE}`, `{CHORD}` and `{LOW_CHORD}` stand for the texts above.
struct Sample {
    /// Below the folder.
    path: &'static str,
    /// What it shows, for the person at the terminal.
    shows: &'static str,
    args: &'static str,
}

/// Files that are only parts of others.
const PARTS: [(&str, &str); 4] = [
    ("avc.mp4", "-f lavfi -i {PICTURE} -c:v libx264 -preset ultrafast -crf 18 -g 48 -threads 1"),
    (
        "hevc.mp4",
        "-f lavfi -i {PICTURE} -vf scale=640:360,hue=h=160 -c:v libx265 -preset ultrafast -crf 24 \
         -x265-params pools=none:frame-threads=1:keyint=48:info=0:log-level=error -tag:v hvc1",
    ),
    ("chord.m4a", "-f lavfi -i {CHORD} -c:a aac -b:a 128k"),
    ("low.m4a", "-f lavfi -i {LOW_CHORD} -c:a aac -b:a 64k"),
];

const SAMPLES: [Sample; 4] = [
    Sample {
        path: "Films/Ember (2026).mp4",
        shows: "plays as it is",
        args: "-stream_loop 5 -i avc.mp4 -i chord.m4a -map 0:v -map 1:a -c copy -t 60 -movflags +faststart",
    },
    Sample {
        path: "Films/Tides (2026).mkv",
        shows: "two sound tracks, subtitles; its picture is kept, its AC-3 sound converted",
        args: "-stream_loop 5 -i avc.mp4 -i chord.m4a -i low.m4a -i en.srt -i de.srt \
               -map 0:v -map 1:a -map 2:a -map 3 -map 4 -c:v copy -c:a:0 ac3 -b:a:0 192k -c:a:1 copy -c:s srt -t 60 \
               -metadata:s:a:0 language=eng -metadata:s:a:1 language=ger \
               -metadata:s:s:0 language=eng -metadata:s:s:1 language=ger",
    },
    Sample {
        path: "Films/Night Train (2026).mkv",
        shows: "HEVC, which most browsers do not play: converted",
        args: "-stream_loop 5 -i hevc.mp4 -i chord.m4a -map 0:v -map 1:a -c copy -t 60",
    },
    Sample {
        path: "Audiobooks/By the Fire.m4b",
        shows: "a sound book with chapters",
        args: "-i low.m4a -i chapters.txt -map 0:a -map_metadata 1 -map_chapters 1 -c copy -t 60 -f ipod",
    },
];

/// Makes every sample that `folder` lacks, the directly playable one first; `told` hears of each as it is ready. A file
/// appears under its name only when it is whole. Dropping the future ends the work and its children.
///
/// # Errors
/// When the folder cannot be written, or when this ffmpeg could make none of the films.
pub async fn make(folder: &Path, ffmpeg: &Path, told: impl Fn(&str)) -> std::io::Result<()> {
    let workshop = folder.join(".workshop");
    let stamp = folder.join(format!(".made-by-recipe-{RECIPE}"));
    if stamp.exists() && SAMPLES.iter().all(|sample| folder.join(sample.path).exists()) {
        return Ok(());
    }
    std::fs::create_dir_all(&workshop)?;
    write_texts(folder, &workshop)?;
    let mut failed = Vec::new();
    for sample in &SAMPLES {
        match make_one(folder, &workshop, ffmpeg, sample).await {
            Ok(()) => told(&format!("{} ({})", sample.path, sample.shows)),
            Err(cause) => failed.push(format!("{}: {cause}", sample.path)),
        }
    }
    std::fs::remove_dir_all(&workshop)?;
    if failed.len() == SAMPLES.len() {
        return Err(std::io::Error::other(failed.join("\n")));
    }
    for fault in &failed {
        told(&format!("left out: {fault}"));
    }
    if failed.is_empty() { std::fs::write(stamp, "") } else { Ok(()) }
}

async fn make_one(folder: &Path, workshop: &Path, ffmpeg: &Path, sample: &Sample) -> std::io::Result<()> {
    let needed: Vec<&str> = sample.args.split_whitespace().collect();
    let parts = PARTS.iter().filter(|(name, _)| needed.contains(name) && !workshop.join(name).exists());
    // A part that fails is named by the sample that misses it.
    join_all(parts.map(|(name, args)| run(ffmpeg, workshop, args, name))).await;
    let name = sample.path.rsplit('/').next().expect("splitting gives at least one part");
    run(ffmpeg, workshop, sample.args, name).await?;
    let wanted = folder.join(sample.path);
    std::fs::create_dir_all(wanted.parent().unwrap_or(folder))?;
    std::fs::rename(workshop.join(name), wanted)
}

/// Runs ffmpeg in the workshop; the output appears under `name` only when it is whole.
async fn run(ffmpeg: &Path, workshop: &Path, args: &str, name: &str) -> std::io::Result<()> {
    let unfinished = format!("unfinished-{name}");
    let args = args.split_whitespace().map(|arg| match arg {
        "{PICTURE}" => PICTURE,
        "{CHORD}" => CHORD,
        "{LOW_CHORD}" => LOW_CHORD,
        plain => plain,
    });
    let output = Command::new(ffmpeg)
        .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"])
        .args(args)
        .args(["-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", &unfinished])
        .current_dir(workshop)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("no reason given");
        return Err(std::io::Error::other(format!("ffmpeg: {last}")));
    }
    std::fs::rename(workshop.join(unfinished), workshop.join(name))
}

fn write_texts(folder: &Path, workshop: &Path) -> std::io::Result<()> {
    let english = srt(CUES.iter().map(|(english, _)| *english));
    std::fs::write(workshop.join("en.srt"), &english)?;
    std::fs::write(workshop.join("de.srt"), srt(CUES.iter().map(|(_, german)| *german)))?;
    std::fs::create_dir_all(folder.join("Films"))?;
    std::fs::write(folder.join("Films/Ember (2026).en.srt"), english)?;
    let mut chapters = ";FFMETADATA1\ntitle=By the Fire\nartist=Hearthcast\n".to_owned();
    for (n, title) in ["Kindling", "The long evening", "Embers"].iter().enumerate() {
        let start = n * 20_000;
        let end = start + 20_000;
        chapters.push_str(&format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={title}\n"));
    }
    std::fs::write(workshop.join("chapters.txt"), chapters)
}

/// Cues of eight seconds, ten seconds apart, beginning at one second.
fn srt<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let cues = lines.enumerate().map(|(n, line)| {
        let (start, end) = (n * 10 + 1, n * 10 + 9);
        format!("{}\n00:00:{start:02},000 --> 00:00:{end:02},000\n{line}\n\n", n + 1)
    });
    cues.collect()
}
