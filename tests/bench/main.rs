//! Benchmarks, one module a row: `cargo bench --bench bench -- [ROW…]`. Figures depend on the machine; nothing passes
//! or fails here. The last ones, with their conditions, are in `README.md`.
#![allow(clippy::disallowed_methods, reason = "tests open what they made")]

/// A large cached file, beside nginx.
mod bytes;
/// Media info, beside ffprobe.
mod probe;
/// A session's start and speed, beside the ffmpeg command line.
mod session;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let rows: [(&str, fn()); 3] = [("bytes", bytes::run), ("probe", probe::run), ("session", session::run)];
    for (name, run) in rows {
        if asked.is_empty() || asked.iter().any(|row| row == name) {
            run();
        }
    }
}
