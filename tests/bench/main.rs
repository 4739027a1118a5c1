//! Benchmarks, one module per row: `cargo bench --bench bench -- [ROW…]`. Figures depend on the machine; nothing passes
//! or fails here. The latest figures and their conditions are in `README.md`.
#![allow(clippy::disallowed_methods, reason = "benchmarks open files that they made")]

/// Thumbnails of films, compared with ffmpeg's `thumbnail` filter.
mod artwork;
/// The GStreamer backend, compared with the ffmpeg backend.
mod backends;
/// A large cached file, compared with nginx.
mod bytes;
/// The catalogue and its search.
mod catalogue;
/// Segments of one track in fMP4, compared with nginx and the ffmpeg command.
mod cmaf;
/// Damaged files of a killed server.
#[path = "../it/kit/damage.rs"]
mod damage;
/// A disk that fills up.
#[path = "../it/kit/disk.rs"]
mod disk;
/// System calls that fail.
#[path = "../it/kit/faults.rs"]
mod faults;
/// XMLTV and JSON of a thousand channels, compared with quick-xml and serde_json.
mod guide;
/// A viewer of a session.
mod hls_client;
/// A thousand unwatched channels.
mod idle;
/// Kill -9, damaged files, a full disk and failing system calls, two hundred rounds each.
mod kept;
/// Kills the server; shared with the integration tests.
#[path = "../it/kit/kill.rs"]
mod kill;
/// Zapping to channels.
mod live;
/// Segments of a copied film, compared with nginx and the ffmpeg command.
mod package;
/// Servers under test, and a client.
mod peer;
/// GStreamer's registry for servers that are not on their first start.
#[path = "../it/kit/plugin_registry.rs"]
mod plugin_registry;
/// Seek previews, compared with ffmpeg's `fps` filter.
mod previews;
/// Media info, compared with ffprobe.
mod probe;
#[path = "../it/kit/program.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod program;
/// Saves, reads and lists of progress, compared with SQLite.
mod progress;
/// Remote workers and several servers, with what they need killed.
mod rack;
#[path = "../it/kit/service_config.rs"]
mod service_config;
/// A session's start and speed, compared with the ffmpeg command.
mod session;
/// A household for hours.
mod soak;
/// Large and hostile imported lists and guides.
mod sources;
/// The longest wait of a test.
#[path = "../it/kit/wait.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod wait;
/// Worker processes, compared with GStreamer in the server process.
mod workers;

/// These take long, so they run only if they are named.
const LONG_ROWS: [&str; 2] = ["soak", "rack"];

fn main() {
    let selected_rows: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let rows: [(&str, fn()); 18] = [
        ("bytes", bytes::run),
        ("probe", probe::run),
        ("artwork", artwork::run),
        ("previews", previews::run),
        ("catalogue", catalogue::run),
        ("session", session::run),
        ("backends", backends::run),
        ("package", package::run),
        ("cmaf", cmaf::run),
        ("live", live::run),
        ("progress", progress::run),
        ("kept", kept::run),
        ("guide", guide::run),
        ("idle", idle::run),
        ("sources", sources::run),
        ("workers", workers::run),
        ("soak", soak::run),
        ("rack", rack::run),
    ];
    for (name, run) in rows {
        if selected_rows.is_empty() && !LONG_ROWS.contains(&name) || selected_rows.iter().any(|row| row == name) {
            run();
        }
    }
}
