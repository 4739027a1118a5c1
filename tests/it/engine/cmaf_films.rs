//! Sixty films of every combination of codec, frame structure, rate and container in CMAF: packets and times of the source.

use super::cmaf::CmafFilm;
use super::*;

/// Seconds of each film: several segments of the shortest group of pictures.
const FILM_SECONDS: u32 = 3;

const H264: &str = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25";
const HEVC: &str =
    "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -tag:v hvc1 -x265-params log-level=none:bframes=3:keyint=25";
const VP9: &str = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 30";
const AV1: &str = "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 30";

/// Name and arguments of a video encoder.
type VideoKind = (&'static str, &'static str, &'static str);

const MP4_VIDEO: [VideoKind; 14] = [
    ("h264", H264, "-bf 0"),
    ("h264-b", H264, "-bf 3 -x264-params b-pyramid=2"),
    ("h264-scenecut", H264, "-bf 2 -sc_threshold 40 -refs 4"),
    ("h264-10bit", H264, "-pix_fmt yuv420p10le -bf 2"),
    ("h264-422", H264, "-pix_fmt yuv422p -bf 2"),
    ("h264-interlaced", H264, "-flags +ildct+ilme -x264-params tff=1 -bf 2"),
    ("h264-film-rate", H264, "-r 24000/1001 -bf 2"),
    ("h264-double-rate", H264, "-r 60000/1001 -bf 2"),
    ("h264-variable", H264, "-vf select='not(eq(mod(n\\,7)\\,3))' -fps_mode vfr -bf 2"),
    ("h264-recovery-points", H264, "-bf 2 -x264-params open-gop=1"),
    ("hevc-closed", HEVC, ":open-gop=0"),
    ("hevc-open", HEVC, ":open-gop=1:min-keyint=25"),
    ("vp9", VP9, "-lag-in-frames 10 -auto-alt-ref 1"),
    ("av1", AV1, ""),
];

/// Audio encoders, in turn.
const AUDIO: [&str; 8] = [
    "-c:a aac",
    "-c:a aac -ac 6",
    "-c:a ac3 -ac 6",
    "-c:a eac3",
    "-c:a libopus",
    "-c:a flac -strict -2",
    "-c:a aac -ar 44100 -ac 1",
    "-c:a libmp3lame",
];

/// Suffix, and arguments of the muxer.
const CONTAINERS: [(&str, &str); 4] = [
    ("mp4", ""),
    ("mkv", ""),
    ("fragmented.mp4", "-movflags +frag_keyframe+empty_moov+default_base_moof+delay_moov"),
    ("mkv", "-cluster_time_limit 500 -output_ts_offset 1.5"),
];

/// Films of 14 encoders in four containers, and four more.
fn films() -> Vec<(String, String)> {
    let mut films = Vec::new();
    for (n, (name, encoder, options)) in MP4_VIDEO.into_iter().enumerate() {
        for (m, (suffix, muxer)) in CONTAINERS.into_iter().enumerate() {
            let joint = if options.starts_with(':') { "" } else { " " };
            let audio = AUDIO[(n * 3 + m) % AUDIO.len()];
            films.push((format!("{name}-{m}.{suffix}"), format!("{encoder}{joint}{options} {audio} {muxer}")));
        }
    }
    films.push(("webm-vp9.webm".to_owned(), format!("{VP9} -pix_fmt yuv420p10le -profile:v 2 -c:a libopus")));
    films.push(("webm-av1.webm".to_owned(), format!("{AV1} -c:a libopus -ac 6")));
    films.push(("quicktime.mov".to_owned(), format!("{H264} -bf 2 -c:a alac")));
    films.push(("two-languages.mkv".to_owned(), format!("{H264} -map 0:v -map 1:a -map 1:a -c:a:0 aac -c:a:1 ac3")));
    films
}

/// All films take a minute: without `HEARTHCAST_ALL_FILMS` every third one is packaged.
#[tokio::test]
async fn sixty_films_are_packaged_as_their_own_packets() {
    let (mut failures, mut equal) = (Vec::new(), 0);
    let films = films();
    assert_eq!(films.len(), 60);
    for (name, encoder_args) in films.into_iter().step_by(media::film_step(3)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(&name);
        media::flash_and_beep(&path, FILM_SECONDS, &encoder_args);
        let mut film = CmafFilm::open(folder, &path).await;
        failures.extend(film.refusals.iter().map(|refusal| format!("{name}: refused, {refusal:?}")));
        if film.tracks.is_empty() {
            continue;
        }
        for (track, difference) in film.differences_from_source(&path).await {
            match difference {
                Some(difference) => failures.push(format!("{name}: {}: {difference}", film.tracks[track].codec)),
                None => equal += 1,
            }
        }
    }
    let share = f64::from(equal) / f64::from(equal + u32::try_from(failures.len()).unwrap());
    assert!(share >= 0.98, "{equal} tracks are equal; {failures:#?}");
    println!("{equal} tracks are equal; {failures:#?}");
}
