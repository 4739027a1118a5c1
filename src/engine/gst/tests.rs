//! Panics in every kind of callback: the run fails with an error, the process lives.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::domain::grid::Grid;
use crate::domain::library::Root;
use crate::domain::media::{Audio, Hdr, Stream, StreamKind, Subtitle, Video};
use crate::domain::time::FrameRate;
use crate::engine::source::Roots;

const RATE: FrameRate = FrameRate { num: 25, den: 1 };

fn film(path: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args("-nostdin -v error -y -f lavfi -i testsrc2=s=64x36:r=25:d=3 -f lavfi -i sine=d=3:r=48000".split(' '));
    command.args("-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac".split(' ')).arg(path);
    assert!(command.status().unwrap().success());
}

fn job(folder: &Path) -> Job {
    let path = folder.join("a.mp4");
    film(&path);
    let roots = Roots::open(vec![Root { id: "r".into(), path: folder.into() }]).unwrap();
    let video = StreamKind::Video(Video { frame_rate: Some(RATE), ..Video::new(64, 36) });
    let streams = vec![Stream::new(0, "h264", video), Stream::new(1, "aac", StreamKind::Audio(Audio::new(1, 48_000)))];
    let media = Media { duration_seconds: Some(3.0), ..Media::new(Container::Mp4, streams) };
    let plan = EncodeVideo {
        stream: 0,
        width: 64,
        height: 36,
        rate: RATE,
        deinterlace: false,
        tone_map: None,
        burn: None,
        emblem: None,
        max_kbps: 300,
        encoder: "libx264".into(),
    };
    Job {
        source: Arc::new(roots.open_file(path.to_str().unwrap()).unwrap()),
        sidecar: None,
        picture: None,
        media: Arc::new(media),
        rendition: Arc::new(Rendition {
            video: Some(VideoPlan::Encode(plan)),
            audio: Some(AudioPlan::Encode { stream: 1, channels: 2, kbps: 96, gain: None }),
        }),
        grid: Arc::new(Grid::frames(RATE, 2.0, 3.0)),
        package: None,
        first: 1,
        mark: None,
    }
}

/// The same with subtitles of pictures, so that it is opened without decodebin3.
fn holding(media: &Media) -> Media {
    let mut media = media.clone();
    let kind = StreamKind::Subtitle(Subtitle { text: false, hearing_impaired: false });
    media.streams.push(Stream::new(2, "dvd_subtitle", kind));
    media
}

#[tokio::test]
async fn a_panic_in_any_callback_fails_the_run_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let kinds = [
        "bus",
        "sample",
        "preroll",
        "select-stream",
        "seek",
        "need-data",
        "taken",
        "end",
        "frame",
        "fragment",
        "playlist",
    ];
    let holding = Job { media: Arc::new(holding(&job.media)), ..job.clone() };
    let ways = kinds.map(|kind| (kind, &job)).into_iter().chain([("no-more-pads", &holding)]);
    let mut newest = 0;
    for (kind, job) in ways {
        let native = Native::find().unwrap();
        *native.injected.lock().unwrap() = Some(kind);
        let mut run = native.start(job.clone(), usize::MAX).unwrap();
        let error = loop {
            let next = tokio::time::timeout(Duration::from_secs(60), run.next()).await.expect(kind);
            match next {
                Some(Ok(_)) => {}
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        assert!(native.injected.lock().unwrap().is_none(), "{kind} was called: {error:?}");
        assert!(error.is_some(), "{kind}: the run fails");
        let kept = board::failed().into_iter().filter(|failed| failed.error.contains("panicked"));
        let kept = kept.max_by_key(|failed| failed.number).expect(kind);
        assert!(kept.number > newest, "{kind}: its pipeline is kept as it stood");
        assert!(kept.graph.text().lines().count() > 1, "{kind}: {kept:?}");
        newest = kept.number;
    }
    let mut run = Native::find().unwrap().start(job, usize::MAX).unwrap();
    assert_eq!(run.next().await.unwrap().unwrap().index, 1, "the process lives");
}

#[tokio::test]
async fn a_decoder_that_brings_nothing_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let holding = Job { media: Arc::new(holding(&job.media)), ..job.clone() };
    for (fault, job) in [("standing", &job), ("lost", &job), ("standing", &holding), ("lost", &holding)] {
        let native = Native::find().unwrap();
        *native.injected.lock().unwrap() = Some(fault);
        let mut run = native.start(job.clone(), usize::MAX).unwrap();
        assert_eq!(run.next().await.unwrap().unwrap().index, 1);
        assert!(native.injected.lock().unwrap().is_none(), "the first stood still, or its seek never came back");
    }
}

#[test]
fn what_is_left_to_ffmpeg_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let refused = |change: fn(&mut EncodeVideo), container: Container, start_seconds: f64| {
        let mut rendition = Rendition::clone(&job.rendition);
        let Some(VideoPlan::Encode(plan)) = &mut rendition.video else { panic!("a picture") };
        change(plan);
        refusal(&Media { container, start_seconds, ..Media::clone(&job.media) }, &rendition).unwrap_or("made here")
    };
    let stream = |bitmap| Some(Burn::Embedded { stream: 2, bitmap });
    assert!(refused(|plan| plan.tone_map = Some(Hdr::Hdr10), Container::Mp4, 0.0).contains("HDR"));
    assert_eq!(refused(|_| (), Container::MpegTs, 0.0), "a stream's times do not begin with its first picture");
    assert_eq!(refused(|_| (), Container::Mp4, 1.4), "its clock does not begin at 0");
    assert_eq!(refused(|_| (), Container::Matroska, 0.0), "made here");
    assert_eq!(refused(|_| (), Container::Avi, 0.0), "seeking in this container is not exact");
    let mut rendition = Rendition::clone(&job.rendition);
    for (bitmap, why) in [(true, Some("subtitles of pictures are drawn by ffmpeg")), (false, None)] {
        if let Some(VideoPlan::Encode(plan)) = &mut rendition.video {
            plan.burn = stream(bitmap);
        }
        assert_eq!(refusal(&job.media, &rendition), why);
    }
}
