//! Benchmarks, one module a row: `cargo bench --bench bench -- [ROW…]`. Figures depend on the machine; nothing passes
//! or fails here. The last ones, with their conditions, are in `README.md`.
#![allow(clippy::disallowed_methods, reason = "tests open what they made")]

/// A large cached file, beside nginx.
mod bytes;
/// Damaged files of a killed server.
#[path = "../it/kit/damage.rs"]
mod damage;
/// A disk that fills up.
#[path = "../it/kit/disk.rs"]
mod disk;
/// System calls that fail.
#[path = "../it/kit/faults.rs"]
mod faults;
/// XMLTV and JSON of a thousand channels, beside quick-xml and serde_json.
mod guide;
/// A thousand channels that nobody watches.
mod idle;
/// Kill -9 and damage, two hundred times.
mod kept;
/// What the tests of the server know of killing it.
#[path = "../it/kit/kill.rs"]
mod kill;
/// Zapping to channels.
mod live;
/// What GStreamer makes in this process, beside the ffmpeg subprocess.
mod native;
/// Segments of a copied film, beside nginx and the ffmpeg command line.
mod package;
/// Servers under test, and a client.
mod peer;
/// Media info, beside ffprobe.
mod probe;
#[path = "../it/kit/program.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod program;
/// Saves, reads and lists of progress, beside SQLite.
mod progress;
/// A session's start and speed, beside the ffmpeg command line.
mod session;
/// Lists and guides from elsewhere, large and hostile ones.
mod sources;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let rows: [(&str, fn()); 11] = [
        ("bytes", bytes::run),
        ("probe", probe::run),
        ("session", session::run),
        ("native", native::run),
        ("package", package::run),
        ("live", live::run),
        ("progress", progress::run),
        ("kept", kept::run),
        ("guide", guide::run),
        ("idle", idle::run),
        ("sources", sources::run),
    ];
    for (name, run) in rows {
        if asked.is_empty() || asked.iter().any(|row| row == name) {
            run();
        }
    }
}
