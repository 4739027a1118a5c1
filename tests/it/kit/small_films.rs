//! Small films and audio files, one of each container that the server reads.

use std::path::{Path, PathBuf};

use super::media;

/// Names and encoder arguments. Video is 160x90, and all last 2 s.
const FILMS: [(&str, &str); 24] = [
    ("h264-aac.mp4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 10 -c:a aac"),
    (
        "fragmented.mp4",
        "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 10 -c:a aac -movflags frag_keyframe+empty_moov",
    ),
    ("faststart.mp4", "-c:v libx264 -pix_fmt yuv420p -g 20 -bf 2 -c:a aac -movflags +faststart"),
    ("hevc.mp4", "-c:v libx265 -preset ultrafast -x265-params log-level=none -tag:v hvc1 -c:a aac"),
    ("mpeg4.mov", "-c:v mpeg4 -c:a pcm_s16le"),
    ("h264-ac3.mkv", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 10 -c:a ac3"),
    ("mpeg2-flac.mkv", "-c:v mpeg2video -c:a flac"),
    ("vp8-vorbis.webm", "-c:v libvpx -deadline realtime -cpu-used 8 -c:a libvorbis"),
    ("vp9-opus.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -c:a libopus"),
    ("h264-aac.ts", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 10 -c:a aac"),
    ("mpeg2-mp2.ts", "-c:v mpeg2video -c:a mp2"),
    ("mpeg2-mp2.mpg", "-c:v mpeg2video -c:a mp2 -f vob"),
    ("mpeg4-mp3.avi", "-c:v mpeg4 -c:a libmp3lame"),
    ("h264-aac.flv", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac -ar 44100"),
    ("wmv2-wmav2.wmv", "-c:v wmv2 -c:a wmav2"),
    ("theora-vorbis.ogv", "-c:v libtheora -c:a libvorbis"),
    ("pcm.wav", "-vn -c:a pcm_s16le"),
    ("flac.flac", "-vn -c:a flac"),
    ("mp3.mp3", "-vn -c:a libmp3lame"),
    ("aac.aac", "-vn -c:a aac -f adts"),
    ("ac3.ac3", "-vn -c:a ac3"),
    ("pcm.aiff", "-vn -c:a pcm_s16be"),
    ("wavpack.wv", "-vn -c:a wavpack"),
    ("opus.ogg", "-vn -c:a libopus"),
];

/// Makes them in a folder. What ffmpeg has no encoder for is left out, except for the usual containers.
pub fn make(folder: &Path) -> Vec<PathBuf> {
    let encoders =
        std::process::Command::new("ffmpeg").args(["-v", "error", "-encoders"]).output().expect("ffmpeg runs");
    let encoders = String::from_utf8_lossy(&encoders.stdout).into_owned();
    let has_encoder = |name: &str| encoders.split_whitespace().any(|word| word == name);
    let mut films = Vec::new();
    for (name, arguments) in FILMS {
        let words: Vec<&str> = arguments.split(' ').collect();
        let mut chosen = words.windows(2).filter(|pair| pair[0].starts_with("-c:")).map(|pair| pair[1]);
        if !chosen.all(has_encoder) {
            eprintln!("skipped: {name}, because ffmpeg lacks an encoder");
            continue;
        }
        let path = folder.join(name);
        let inputs = ["-f lavfi -i", "testsrc2=s=160x90:r=10:d=2", "-f lavfi -i", "anoisesrc=r=48000:a=0.1:d=2:seed=1"];
        media::run_ffmpeg(&path, &[&inputs[..], &["-ac 2", arguments]].concat());
        films.push(path);
    }
    assert!(films.len() > 12, "{films:?}");
    films
}
