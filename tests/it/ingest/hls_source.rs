//! A remote HLS server: a sliding playlist over segments made in advance.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::kit::media;
use crate::kit::remote_server::{RemoteServer, ok};

/// Length of a segment in seconds, and number of listed segments.
const SEGMENT_SECONDS: usize = 2;
const LISTED_SEGMENTS: usize = 5;

/// A running HLS server. Dropping it stops it.
pub struct HlsSource {
    server: RemoteServer,
    playlist_requests: Arc<AtomicUsize>,
}

impl HlsSource {
    /// Streams a film of `seconds` seconds as MPEG-TS, or as fragmented mp4 with an initialization segment.
    pub async fn start(folder: &Path, seconds: u32, is_fragmented: bool) -> Self {
        let segment_folder = folder.join(if is_fragmented { "fmp4" } else { "ts" });
        std::fs::create_dir(&segment_folder).unwrap();
        let (segment_type, extension) = if is_fragmented { ("fmp4", "m4s") } else { ("mpegts", "ts") };
        let codecs = "-c:v libx264 -preset ultrafast -g 50 -keyint_min 50 -sc_threshold 0 -bf 2 -c:a aac";
        let hls =
            format!("{codecs} -f hls -hls_time {SEGMENT_SECONDS} -hls_list_size 0 -hls_segment_type {segment_type}");
        media::flash_and_beep(&segment_folder.join("whole.m3u8"), seconds, &hls);
        let mut files = HashMap::new();
        for file in std::fs::read_dir(&segment_folder).unwrap().flatten() {
            files.insert(file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap());
        }
        let count = files.keys().filter(|name| name.ends_with(&format!(".{extension}"))).count();
        let playlists = Arc::new(AtomicUsize::new(0));
        let (playlist_counter, started) = (playlists.clone(), Instant::now());
        let server = RemoteServer::serve("127.0.0.1", move |path| {
            let name = path.split('?').next().unwrap().rsplit('/').next().unwrap();
            match name {
                "index.m3u8" => ok("application/vnd.apple.mpegurl", MULTIVARIANT_PLAYLIST),
                "live.m3u8" => {
                    playlist_counter.fetch_add(1, Ordering::SeqCst);
                    let end = (LISTED_SEGMENTS + started.elapsed().as_secs() as usize / SEGMENT_SECONDS).min(count);
                    let header = if is_fragmented { "#EXT-X-MAP:URI=\"init.mp4\"\n" } else { "" };
                    ok("application/vnd.apple.mpegurl", media_playlist(end, extension, header))
                }
                name => match files.get(name) {
                    Some(bytes) => ok("video/mp2t", bytes),
                    None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
                },
            }
        })
        .await;
        Self { server, playlist_requests: playlists }
    }

    pub fn url(&self) -> String {
        self.server.url("/live/secret/index.m3u8?token=secret")
    }

    /// Number of requests for its playlist.
    pub fn playlist_requests(&self) -> usize {
        self.playlist_requests.load(Ordering::SeqCst)
    }

    /// The largest number of requests for one segment.
    pub fn max_requests_per_segment(&self) -> usize {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for head in self.server.request_heads() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if path.contains("whole") {
                *counts.entry(path).or_default() += 1;
            }
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// Two renditions. The larger has separate audio, so the smaller must be chosen.
const MULTIVARIANT_PLAYLIST: &str = "#EXTM3U\n\
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"A\",URI=\"audio.m3u8\"\n\
    #EXT-X-STREAM-INF:BANDWIDTH=9000000,RESOLUTION=1920x1080,AUDIO=\"a\"\nnone.m3u8\n\
    #EXT-X-STREAM-INF:BANDWIDTH=800000,RESOLUTION=320x180\nlive.m3u8\n";

/// A playlist of the last segments before `end_index`.
fn media_playlist(end_index: usize, extension: &str, map_tag: &str) -> String {
    let first = end_index.saturating_sub(LISTED_SEGMENTS);
    let segments: String =
        (first..end_index).map(|n| format!("#EXTINF:{SEGMENT_SECONDS}.0,\nwhole{n}.{extension}\n")).collect();
    format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{SEGMENT_SECONDS}\n#EXT-X-MEDIA-SEQUENCE:{first}\n{map_tag}{segments}"
    )
}
