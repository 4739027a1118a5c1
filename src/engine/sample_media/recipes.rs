//! How each sample is made: arguments of ffmpeg.

/// A landscape of embers, rendered at 48x27 and smoothly enlarged. Every term has a period of ten seconds.
const EMBERS_VIDEO: &str = "nullsrc=s=48x27:r=24:d=10,geq=\
    r='60+170*exp(-pow((Y-19-2.5*sin(X/6+T*PI*0.4)-2*sin(X/11-T*PI*0.2))/4.5,2))+30*sin(X/13+T*PI*0.2)*(1-Y/40)':\
    g='40+95*exp(-pow((Y-20-2.5*sin(X/6+T*PI*0.4)-2*sin(X/11-T*PI*0.2))/3.2,2))':\
    b='92-2.4*Y+22*sin(X/9-T*PI*0.2)',\
    format=yuv420p,scale=960:540:flags=bicubic";

/// A slow chord, with different left and right channels.
const CHORD: &str = "aevalsrc='0.09*(sin(440*PI*t)+sin(554*PI*t)*(0.5+0.5*sin(0.4*PI*t))+sin(660*PI*t)*(0.5+0.5*sin(0.2*PI*t)))|\
    0.09*(sin(440*PI*t)+sin(554*PI*t)*(0.5+0.5*cos(0.4*PI*t))+sin(830*PI*t)*(0.5+0.5*cos(0.2*PI*t)))':s=48000:d=10,\
    aloop=loop=5:size=480000";

/// A lower chord: the second audio track and the audiobook.
const LOW_CHORD: &str =
    "aevalsrc='0.14*(sin(220*PI*t)+sin(330*PI*t)*(0.5+0.5*sin(0.4*PI*t)))':s=48000:d=10,aloop=loop=5:size=480000";

/// Thirty seconds of plucked notes of a pentatonic scale, repeated. The notes follow from `{SEED}`, the pitch is in Hz.
const STORY_MUSIC: &str = "aevalsrc='0.4*min(1,50*mod(t,0.5))*exp(-5*mod(t,0.5))*sin(2*PI*t*{PITCH}*\
    pow(2,(2*mod(floor(abs(sin(floor(2*t)*{SEED}))*43758),5)+gt(mod(floor(abs(sin(floor(2*t)*{SEED}))*43758),5),2))/12))':\
    s=24000:d=30,aloop=loop=-1:size=720000,aresample=48000";

/// Twenty seconds of the same instrument, twice as fast: the theme of the series.
const THEME_MUSIC: &str = "aevalsrc='0.4*min(1,50*mod(t,0.25))*exp(-6*mod(t,0.25))*sin(2*PI*t*262*\
    pow(2,(2*mod(floor(abs(sin(floor(4*t)*9.11))*43758),5)+gt(mod(floor(abs(sin(floor(4*t)*9.11))*43758),5),2))/12))':\
    s=24000:d=20,aresample=48000";

/// The backdrop of the series as video.
const STILL_VIDEO: &str = "scale=640:360:out_range=tv,format=yuv420p";

/// Repeats one frame, at 24 frames a second.
const TWENTY_SECONDS: &str = "loop=loop=479:size=1";

/// The video of an episode is joined from parts that were encoded alike.
macro_rules! encode_part {
    () => {
        " -c:v libx264 -preset ultrafast -crf 23 -g 48 -threads 1 -x264-params stitchable=1"
    };
}

/// An episode: its beginning, the theme, the rest and the theme again. The first argument names the list of its video parts, the second
/// its music, the last two the beginning and the end of the rest in that music, seconds.
macro_rules! episode {
    ($parts:literal, $music:literal, $from:literal, $until:literal) => {
        concat!(
            "-f concat -i ",
            $parts,
            " -f lavfi -i ",
            $music,
            " -f lavfi -i {THEME} -filter_complex ",
            "[1]asplit[a][b];[a]atrim=0:",
            $from,
            "[a];[b]atrim=",
            $from,
            ":",
            $until,
            ",asetpts=PTS-STARTPTS[b];",
            "[2]asplit[t][u];[a][t][b][u]concat=n=4:v=0:a=1[s] -map 0:v -map [s] -c:v copy -c:a libmp3lame -b:a 96k"
        )
    };
}

/// A piece of music of a minute.
macro_rules! track {
    ($music:literal, $number:literal, $title:literal) => {
        concat!(
            "-f lavfi -i ",
            $music,
            " -t 60 -c:a libmp3lame -b:a 96k -metadata artist=Hearthcast -metadata genre=Ambient ",
            "-metadata date=2026 -metadata album=Slow\u{a0}Evenings -metadata track=",
            $number,
            "/3 -metadata title=",
            $title
        )
    };
}

/// One file of the set.
pub(super) struct Sample {
    /// Relative to the sample folder.
    pub path: &'static str,
    /// The feature that the sample demonstrates, as printed by the command.
    pub demonstrates: &'static str,
    /// The parts of [`PARTS`] that it is made from.
    pub parts: &'static [&'static str],
    /// Arguments between `ffmpeg` and the output file. Names without a slash are files in the work folder; what
    /// stands in braces is replaced by [`lavfi_graph`].
    pub args: &'static str,
}

/// Intermediate files that samples are made from.
pub(super) const PARTS: [(&str, &str); 9] = [
    ("avc.mp4", "-f lavfi -i {PICTURE} -c:v libx264 -preset ultrafast -crf 18 -g 48 -threads 1"),
    (
        "hevc.mp4",
        "-f lavfi -i {PICTURE} -vf scale=640:360,hue=h=160 -c:v libx265 -preset ultrafast -crf 24 \
         -x265-params pools=none:frame-threads=1:keyint=48:info=0:log-level=error -tag:v hvc1",
    ),
    ("chord.m4a", "-f lavfi -i {CHORD} -c:a aac -b:a 128k"),
    ("theme.mp4", concat!("-framerate 24 -i lighthouse.jpg -vf {TITLES}", encode_part!())),
    ("credits.mp4", concat!("-framerate 24 -i lighthouse.jpg -vf {CREDITS}", encode_part!())),
    ("story-1.mp4", concat!("-f lavfi -i {PICTURE} -vf scale=640:360,hue=h=200:s=0.7", encode_part!())),
    ("story-2.mp4", concat!("-f lavfi -i {PICTURE} -vf scale=640:360,hue=h=150:s=0.6", encode_part!())),
    ("story-3.mp4", concat!("-f lavfi -i {PICTURE} -vf scale=640:360,hue=h=300:s=0.6", encode_part!())),
    ("low.m4a", "-f lavfi -i {LOW_CHORD} -c:a aac -b:a 64k"),
];

pub(super) const SAMPLES: [Sample; 10] = [
    Sample {
        path: "Films/Ember (2026).mp4",
        demonstrates: "direct play",
        parts: &["avc.mp4", "chord.m4a"],
        args: "-stream_loop 5 -i avc.mp4 -i chord.m4a -map 0:v -map 1:a -c copy -t 60 -movflags +faststart",
    },
    Sample {
        path: "Films/Tides (2026).mkv",
        demonstrates: "two audio tracks, subtitles; video copied, AC-3 audio converted",
        parts: &["avc.mp4", "chord.m4a", "low.m4a"],
        args: "-stream_loop 5 -i avc.mp4 -i chord.m4a -i low.m4a -i en.srt -i de.srt \
               -map 0:v -map 1:a -map 2:a -map 3 -map 4 -c:v copy -c:a:0 ac3 -b:a:0 192k -c:a:1 copy -c:s srt -t 60 \
               -metadata:s:a:0 language=eng -metadata:s:a:1 language=ger \
               -metadata:s:s:0 language=eng -metadata:s:s:1 language=ger",
    },
    Sample {
        path: "Films/Night Train (2026).mkv",
        demonstrates: "HEVC, which most browsers do not play: converted",
        parts: &["hevc.mp4", "chord.m4a"],
        args: "-stream_loop 5 -i hevc.mp4 -i chord.m4a -map 0:v -map 1:a -c copy -t 60",
    },
    Sample {
        path: "Audiobooks/By the Fire.m4b",
        demonstrates: "an audiobook with chapters",
        parts: &["low.m4a"],
        args: "-i low.m4a -i chapters.txt -i cover.jpg -map 0:a -map 2:v -disposition:v attached_pic -map_metadata 1 \
               -map_chapters 1 -c copy -t 60 -f ipod",
    },
    Sample {
        path: "Series/The Lighthouse/Season 01/The Lighthouse S01E01 Landfall.mkv",
        demonstrates: "an episode; the intro is found by its music",
        parts: &["theme.mp4", "story-1.mp4", "credits.mp4"],
        args: episode!("episode-1.txt", "{STORY_1}", "20", "220"),
    },
    Sample {
        path: "Series/The Lighthouse/Season 01/The Lighthouse S01E02 The Long Swell.mkv",
        demonstrates: "the next episode",
        parts: &["theme.mp4", "story-2.mp4", "credits.mp4"],
        args: episode!("episode-2.txt", "{STORY_2}", "10", "210"),
    },
    Sample {
        path: "Series/The Lighthouse/Season 01/The Lighthouse S01E03 Lights Out.mkv",
        demonstrates: "the last episode",
        parts: &["theme.mp4", "story-3.mp4", "credits.mp4"],
        args: episode!("episode-3.txt", "{STORY_3}", "30", "230"),
    },
    Sample {
        path: "Music/Hearthcast/Slow Evenings/01 Kindling.mp3",
        demonstrates: "an album",
        parts: &[],
        args: track!("{STORY_1}", "1", "Kindling"),
    },
    Sample {
        path: "Music/Hearthcast/Slow Evenings/02 The Kettle.mp3",
        demonstrates: "its second track",
        parts: &[],
        args: track!("{STORY_2}", "2", "The\u{a0}Kettle"),
    },
    Sample {
        path: "Music/Hearthcast/Slow Evenings/03 Embers.mp3",
        demonstrates: "its last track",
        parts: &["avc.mp4", "chord.m4a"],
        args: track!("{STORY_3}", "3", "Embers"),
    },
];

/// The filter graph that a word of an argument list stands for; any other word is returned as it is.
pub(super) fn lavfi_graph(word: &str) -> String {
    let story = |seed: &str, pitch: &str| STORY_MUSIC.replace("{SEED}", seed).replace("{PITCH}", pitch);
    match word {
        "{PICTURE}" => EMBERS_VIDEO.to_owned(),
        "{CHORD}" => CHORD.to_owned(),
        "{LOW_CHORD}" => LOW_CHORD.to_owned(),
        "{THEME}" => THEME_MUSIC.to_owned(),
        "{STORY_1}" => story("12.9898", "196"),
        "{STORY_2}" => story("7.233", "165"),
        "{STORY_3}" => story("3.371", "220"),
        "{TITLES}" => format!("{STILL_VIDEO},{TWENTY_SECONDS}"),
        "{CREDITS}" => format!("{STILL_VIDEO},eq=brightness=-0.25:saturation=0.4,{TWENTY_SECONDS}"),
        plain => plain.replace('\u{a0}', " "),
    }
}
