//! Runs of GStreamer in this process, held to what the ffmpeg runs are held to.

use super::*;

const X264: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Kinds of files that are made natively.
const FILMS: [(&str, Container, &str); 5] = [
    ("a.mp4", Container::Mp4, X264),
    ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -bf 3 -c:a ac3"),
    ("a.webm", Container::Webm, "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M -c:a libvorbis"),
    ("cd.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 44100 -c:a flac"),
    ("telephone.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 300 -ar 8000 -ac 1 -c:a flac"),
];

#[tokio::test]
async fn every_frame_lies_on_the_grid_and_joined_segments_decode_without_a_word() {
    encode::on_the_grid(Bench::encoding("a.mp4", Container::Mp4, 7, X264).natively()).await;
}

#[tokio::test]
async fn flash_and_beep_stay_together() {
    for (name, container, made_by) in FILMS {
        encode::together(&Bench::encoding(name, container, 5, made_by).natively(), 0.022).await;
    }
}

#[tokio::test]
async fn segments_are_the_same_in_any_order() {
    for (name, container, made_by) in FILMS {
        encode::in_any_order(&Bench::encoding(name, container, 7, made_by).natively()).await;
    }
}
