//! Media that ffmpeg makes from source filters alone: made once, kept in the target folder for later runs, and copied for each
//! test. `cargo clean` removes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

/// Files that exist or are being made, by name. A test waits for a file that another test is making.
static FILES: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());

/// Puts a file at `path`: a copy if the arguments of ffmpeg determine its content, otherwise what `make` makes.
pub(super) fn copy_or_make(path: &Path, args: &[String], make: impl FnOnce(&Path)) {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !is_determined_by(args, extension) {
        return make(path);
    }
    let key = format!("{}\n{}", ffmpeg_version(), args.join("\n"));
    let name = format!("{}.{extension}", blake3::hash(key.as_bytes()).to_hex());
    let file = FILES.lock().expect("no panic while it is locked").entry(name.clone()).or_default().clone();
    let file = file.get_or_init(|| find_or_make(&name, make));
    fs::copy(file, path).expect("the file can be copied");
}

/// Whether these arguments of ffmpeg determine what it makes: one file, from source filters and no files of a test.
fn is_determined_by(args: &[String], extension: &str) -> bool {
    let temporary_folder = std::env::temp_dir().to_string_lossy().into_owned();
    let is_source_filter = |at: usize| at >= 2 && args[at - 2] == "-f" && args[at - 1] == "lavfi";
    extension != "m3u8"
        && !args.iter().any(|arg| arg.contains(&temporary_folder))
        && (0..args.len()).filter(|&at| args[at] == "-i").all(is_source_filter)
}

/// The file of this name in the target folder.
fn find_or_make(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("media");
    let file = folder.join(name);
    if !file.exists() {
        fs::create_dir_all(&folder).expect("the target folder is writable");
        // Another test program may be making it at the same time.
        let unfinished = folder.join(format!("unfinished-{}-{name}", std::process::id()));
        make(&unfinished);
        fs::rename(&unfinished, &file).expect("the file can be put in place");
    }
    file
}

/// Versions of ffmpeg, its libraries and its configuration.
fn ffmpeg_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let output = Command::new("ffmpeg").arg("-version").output().expect("ffmpeg runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}
