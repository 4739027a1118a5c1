//! Panics in every kind of callback: the run fails with an error, the process lives.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::domain::grid::Grid;
use crate::domain::library::Root;
use crate::domain::media::{Audio, Color, Stream, StreamKind, Tags, Video};
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
    let stream = |index, kind| Stream {
        index,
        codec: "h264".into(),
        codec_string: None,
        profile: None,
        level: None,
        bitrate_kbps: None,
        language: None,
        title: None,
        default: false,
        forced: false,
        decodable: true,
        kind,
    };
    let video = Video {
        width: 64,
        height: 36,
        sample_aspect: (1, 1),
        frame_rate: Some(RATE),
        variable_frame_rate: false,
        interlaced: false,
        bit_depth: 8,
        chroma: "4:2:0".into(),
        rotation: 0,
        mirrored: false,
        hdr: None,
        color: Color::default(),
    };
    let audio = Audio { channels: 1, channel_layout: None, sample_rate: 48_000, bit_depth: None, commentary: false };
    let media = Media {
        container: Container::Mp4,
        mime_type: String::new(),
        duration_seconds: Some(3.0),
        start_seconds: 0.0,
        bitrate_kbps: None,
        seekable: true,
        streams: vec![stream(0, StreamKind::Video(video)), stream(1, StreamKind::Audio(audio))],
        chapters: vec![],
        attachments: vec![],
        tags: Tags::default(),
        warnings: vec![],
    };
    let plan = EncodeVideo {
        stream: 0,
        width: 64,
        height: 36,
        rate: RATE,
        deinterlace: false,
        tone_map: None,
        burn: None,
        max_kbps: 300,
        encoder: "libx264".into(),
    };
    Job {
        source: Arc::new(roots.open_file(path.to_str().unwrap()).unwrap()),
        sidecar: None,
        media: Arc::new(media),
        rendition: Arc::new(Rendition {
            video: Some(VideoPlan::Encode(plan)),
            audio: Some(AudioPlan::Encode { stream: 1, channels: 2, kbps: 96 }),
        }),
        grid: Arc::new(Grid::frames(RATE, 2.0, 3.0)),
        package: None,
        first: 1,
        mark: None,
    }
}

#[tokio::test]
async fn a_panic_in_any_callback_fails_the_run_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let job = job(folder.path());
    let kinds = ["bus", "sample", "preroll", "select-stream", "need-data", "frame", "fragment"];
    for kind in kinds {
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
        assert!(native.injected.lock().unwrap().is_none(), "{kind} was called");
        assert!(error.is_some(), "{kind}: the run fails");
    }
    let mut run = Native::find().unwrap().start(job, usize::MAX).unwrap();
    assert_eq!(run.next().await.unwrap().unwrap().index, 1, "the process lives");
}
