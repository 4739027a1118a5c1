//! A rendition of a sample file, for tests.

use std::path::Path;
use std::sync::Arc;

use crate::domain::grid::Grid;
use crate::domain::library::Root;
use crate::domain::media::{Container, Media};
use crate::domain::plan::{EncodeVideo, Rendition, VideoPlan};
use crate::domain::time::FrameRate;
use crate::engine::RenditionSpec;
use crate::engine::source::Roots;

/// 100 segments of 2 s of the file `film.mp4` in `folder`, encoded at `height`.
pub(in crate::service) fn sample_spec(folder: &Path, height: u32) -> RenditionSpec {
    let roots = Roots::open(vec![Root { id: "r".into(), path: folder.into() }]).unwrap();
    let source = roots.open_file(folder.join("film.mp4").to_str().unwrap()).unwrap();
    let rate = FrameRate { num: 25, den: 1 };
    let video = EncodeVideo { encoder: "fake".into(), ..EncodeVideo::sample(320, height, 400) };
    RenditionSpec {
        source: Arc::new(source),
        fingerprint: "f_1".into(),
        media: Arc::new(Media { duration_seconds: Some(200.0), ..Media::new(Container::Mp4, Vec::new()) }),
        rendition: Arc::new(Rendition { video: Some(VideoPlan::Encode(video)), ..Rendition::default() }),
        grid: Arc::new(Grid::from_frame_rate(rate, 2.0, 200.0)),
        sidecar: None,
        watermark: None,
        package: None,
    }
}
