//! Films, and stand-ins for ffmpeg.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How a stand-in encodes.
#[derive(Clone, Copy)]
pub enum Encoder {
    /// A segment takes this long, whatever the processor does.
    FixedTime { segment: Duration },
    /// As that, but segments end at multiples of this time on the clock.
    Aligned { segment: Duration },
    /// As fast as one core is.
    OneCore { core: usize },
    /// It makes no segments.
    Refusing,
}

/// Writes a stand-in for ffmpeg, which changes only how segments are made; returns its path.
pub fn write_stand_in(folder: &Path, name: &str, encoder: Encoder) -> PathBuf {
    let pacer = folder.join("pacer.pl");
    std::fs::write(&pacer, include_str!("pacer.pl")).expect("a file");
    let paced = |segment: Duration, is_aligned: u8| {
        format!("ffmpeg \"$@\" | perl {} {} {is_aligned}; exit", pacer.display(), segment.as_secs_f64())
    };
    let encode = match encoder {
        Encoder::FixedTime { segment } => paced(segment, 0),
        Encoder::Aligned { segment } => paced(segment, 1),
        Encoder::OneCore { core } => format!("exec taskset -c {core} ffmpeg \"$@\""),
        Encoder::Refusing => "echo 'this server makes no segments' >&2; exit 1".to_owned(),
    };
    // A trial of an encoder reads `lavfi`.
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in\n*' lavfi '*) ;;\n*' -f mpegts pipe:1 '*) {encode} ;;\nesac\nexec ffmpeg \"$@\"\n"
    );
    let path = folder.join(name);
    std::fs::write(&path, script).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a permission");
    // The server looks for it beside ffmpeg.
    let ffprobe = folder.join("ffprobe");
    if !ffprobe.exists() {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let installed =
            std::env::split_paths(&folders).map(|folder| folder.join("ffprobe")).find(|path| path.is_file());
        std::os::unix::fs::symlink(installed.expect("ffprobe is installed"), ffprobe).expect("a link");
    }
    path
}

/// Makes a film with this video and a tone.
pub fn make_film(path: &Path, video: &str, arguments: &str) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", video]);
    command.args(["-f", "lavfi", "-i", "sine=f=440:r=48000", "-shortest"]);
    let status = command.args(arguments.split_whitespace()).arg(path).status().expect("ffmpeg runs");
    assert!(status.success(), "{command:?}");
}

/// Copies of a film that differ by a box at their end, which players skip (ISO/IEC 14496-12, 8.1.2).
pub fn copy_film(film: &Path, names: impl IntoIterator<Item = String>) -> Vec<PathBuf> {
    let bytes = std::fs::read(film).expect("a film");
    let copy = |name: String| {
        let path = film.with_file_name(format!("{name}.mp4"));
        let free = [&16_u32.to_be_bytes()[..], b"free", format!("{name:>8.8}").as_bytes()].concat();
        std::fs::write(&path, [&bytes[..], &free].concat()).expect("a film");
        path
    };
    names.into_iter().map(copy).collect()
}
