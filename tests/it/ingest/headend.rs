//! A remote HLS server: a sliding playlist over segments made in advance.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::kit::elsewhere::{Elsewhere, ok};
use crate::kit::film;

/// Length of a segment in seconds, and number of listed segments.
const SEGMENT: usize = 2;
const LISTED: usize = 5;

/// A running HLS server. Dropping it stops it.
pub struct Headend {
    server: Elsewhere,
    playlists: Arc<AtomicUsize>,
}

impl Headend {
    /// Streams a film of `seconds` seconds as MPEG-TS, or as fragmented mp4 with an initialization segment.
    pub async fn of(folder: &Path, seconds: u32, fragmented: bool) -> Self {
        let pieces = folder.join(if fragmented { "fmp4" } else { "ts" });
        std::fs::create_dir(&pieces).unwrap();
        let (kind, extension) = if fragmented { ("fmp4", "m4s") } else { ("mpegts", "ts") };
        let codecs = "-c:v libx264 -preset ultrafast -g 50 -keyint_min 50 -sc_threshold 0 -bf 2 -c:a aac";
        let hls = format!("{codecs} -f hls -hls_time {SEGMENT} -hls_list_size 0 -hls_segment_type {kind}");
        film::flash_and_beep(&pieces.join("whole.m3u8"), seconds, &hls);
        let mut files = HashMap::new();
        for file in std::fs::read_dir(&pieces).unwrap().flatten() {
            files.insert(file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap());
        }
        let count = files.keys().filter(|name| name.ends_with(&format!(".{extension}"))).count();
        let playlists = Arc::new(AtomicUsize::new(0));
        let (asked, began) = (playlists.clone(), Instant::now());
        let server = Elsewhere::serve("127.0.0.1", move |path| {
            let name = path.split('?').next().unwrap().rsplit('/').next().unwrap();
            match name {
                "index.m3u8" => ok("application/vnd.apple.mpegurl", MASTER),
                "live.m3u8" => {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let end = (LISTED + began.elapsed().as_secs() as usize / SEGMENT).min(count);
                    let header = if fragmented { "#EXT-X-MAP:URI=\"init.mp4\"\n" } else { "" };
                    ok("application/vnd.apple.mpegurl", list(end, extension, header))
                }
                name => match files.get(name) {
                    Some(bytes) => ok("video/mp2t", bytes),
                    None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
                },
            }
        })
        .await;
        Self { server, playlists }
    }

    pub fn url(&self) -> String {
        self.server.url("/live/secret/index.m3u8?token=secret")
    }

    /// Number of requests for its playlist.
    pub fn playlists(&self) -> usize {
        self.playlists.load(Ordering::SeqCst)
    }

    /// The largest number of requests for one segment.
    pub fn most_of_one(&self) -> usize {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for head in self.server.asked() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if path.contains("whole") {
                *counts.entry(path).or_default() += 1;
            }
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// Two renditions. The larger has separate audio, so the smaller must be chosen.
const MASTER: &str = "#EXTM3U\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"A\",URI=\"sound.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=9000000,RESOLUTION=1920x1080,AUDIO=\"a\"\nnone.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=800000,RESOLUTION=320x180\nlive.m3u8\n";

/// A playlist of the last segments before `end`.
fn list(end: usize, extension: &str, header: &str) -> String {
    let first = end.saturating_sub(LISTED);
    let segments: String = (first..end).map(|n| format!("#EXTINF:{SEGMENT}.0,\nwhole{n}.{extension}\n")).collect();
    format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{SEGMENT}\n#EXT-X-MEDIA-SEQUENCE:{first}\n{header}{segments}"
    )
}
