//! Subtitles of pictures: files that hold some, and some drawn into the picture.

use hearthcast::engine::gst;

use super::*;
use crate::kit::captions::{self, Caption};

const X264: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Files that hold subtitles of pictures: name, container, and whether they are those of DVDs.
const HOLDING: [(&str, Container, bool); 3] = [
    ("graphics.mkv", Container::Matroska, false),
    ("spu.mkv", Container::Matroska, true),
    ("spu.mp4", Container::Mp4, true),
];

/// A film of flashes and beeps with these captions in it, on a canvas of another shape than the picture.
fn holding((name, container, dvd): (&str, Container, bool), seconds: u32, captions: &[Caption]) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    film::flash_and_beep(&path("bare.mkv"), seconds, X264);
    let subtitles = if dvd { path("a.idx") } else { path("a.sup") };
    match dvd {
        true => captions::write_vobsub(&subtitles, (640, 480), captions),
        false => captions::write_graphics(&subtitles, (640, 480), captions),
    }
    let inputs = format!("-copyts -i {} -i {}", path("bare.mkv").display(), subtitles.display());
    film::make(&path(name), &[&inputs, "-map 0 -map 1 -c copy"]);
    let whole = path(name);
    Bench::over(folder, &whole, container, FPS25, f64::from(seconds))
}

fn caption(start_ms: u32, end_ms: u32) -> Caption {
    Caption { start_ms, end_ms: Some(end_ms), place: (200, 360, 240, 60) }
}

#[tokio::test]
async fn files_that_merely_hold_subtitles_of_pictures_are_made_here() {
    for film in HOLDING {
        let name = film.0;
        let bench = holding(film, 7, &[caption(500, 1500), caption(3000, 5500)]).natively();
        assert!(bench.media.subtitles().any(|(_, subtitle)| !subtitle.text), "{name}");
        assert_eq!(gst::refusal(&bench.media, &bench.rendition), None, "{name}");
        encode::in_any_order(&bench).await;
        let bench = holding(film, 5, &[caption(500, 1500)]).natively();
        encode::together(&bench, 0.022).await;
    }
}

/// A few by default; `HEARTHCAST_CYCLES` sets how many.
#[tokio::test]
async fn starting_and_stopping_over_such_a_file_leaves_nothing() {
    let cycles = std::env::var("HEARTHCAST_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(4u64);
    for film in HOLDING {
        let bench = holding(film, 12, &[caption(500, 1500)]).natively();
        for number in 0..cycles {
            native::cycle(&bench, number).await;
        }
        native::until_closed(&bench).await;
    }
}
