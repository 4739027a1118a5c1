//! Readers of containers: what a probe, the keyframe index and the packager read of a file.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use hearthcast::domain::library::Root;
use hearthcast::domain::media::{Container, Media, Stream, StreamKind};
use hearthcast::engine::index::keyframe_interval;
use hearthcast::engine::packager::{open_cmaf_track, open_package};
use hearthcast::engine::source::{Roots, SourceFile};
use hearthcast::engine::{clock, probe};
use tokio::runtime::{Builder, Runtime};

/// Codecs of the streams that are requested; the readers go by the container.
const CODECS: [&str; 4] = ["h264", "aac", "hevc", "opus"];

/// The file that each input is written to, in memory.
struct Workbench {
    roots: Roots,
    file: PathBuf,
    runtime: Runtime,
}

static WORKBENCH: LazyLock<Workbench> = LazyLock::new(|| {
    let folder =
        PathBuf::from(std::env::var_os("HEARTHCAST_FUZZ_FOLDER").expect("a folder in memory, by scripts/fuzz"));
    let roots = Roots::open(vec![Root { id: "films".into(), path: folder.clone() }]).expect("an empty root");
    let runtime = Builder::new_current_thread().enable_time().max_blocking_threads(1).build().expect("a runtime");
    Workbench { roots, file: folder.join("film"), runtime }
});

impl Workbench {
    /// The input as a file of the library; None if it is not media by its first bytes.
    fn open(&self, bytes: &[u8]) -> Option<Arc<SourceFile>> {
        std::fs::write(&self.file, bytes).expect("memory");
        let source = self.roots.open_file(self.file.to_str()?).ok()?;
        source.format.is_some().then(|| Arc::new(source))
    }
}

pub fn read_mp4(bytes: &[u8]) {
    let Some(source) = WORKBENCH.open(bytes) else { return };
    probe::read_headers(&source);
    read_tables(&source, Container::Mp4);
}

pub fn read_matroska(bytes: &[u8]) {
    let Some(source) = WORKBENCH.open(bytes) else { return };
    probe::read_headers(&source);
    probe::find_attachment(&source, "font.ttf");
    read_tables(&source, Container::Matroska);
}

pub fn read_mpegts(bytes: &[u8]) {
    let Some(source) = WORKBENCH.open(bytes) else { return };
    probe::read_headers(&source);
    let _ = clock::find_clock_repair(&source);
}

/// Keyframe index, tracks in fMP4 and packages of a file with these streams.
fn read_tables(source: &Arc<SourceFile>, container: Container) {
    let streams = CODECS.iter().zip(0..).map(|(codec, index)| Stream {
        index,
        codec: (*codec).into(),
        kind: match *codec {
            "h264" | "hevc" => StreamKind::Video(Default::default()),
            _ => StreamKind::default(),
        },
        ..Stream::default()
    });
    let media = Media { container, streams: streams.collect(), ..Media::default() };
    WORKBENCH.runtime.block_on(async {
        for stream in 0..CODECS.len() as u32 {
            let _ = open_cmaf_track(source, &media, stream).await;
        }
        keyframe_interval(source, &media).await;
        if let Ok(tracks) = open_package(source, &media, Some(0), Some(1)).await
            && let Some(index) = tracks.index()
        {
            assert!(index.keyframes.is_sorted(), "{index:?}");
        }
    });
}
