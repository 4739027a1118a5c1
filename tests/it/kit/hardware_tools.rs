//! A wrapper of ffmpeg that offers x264 and software decoding under the names of hardware, with faults.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// `{TRIAL}` and `{RUN}` are the commands of an encoder's trial and of a run, `{DECODING}` that of a run whose source hardware
/// decodes, and of its trials; the real program and its arguments are `ffmpeg "$@"`.
const WRAPPER: &str = r#"#!/bin/sh
encodes= decodes= skips= is_run=
for word in "$@"; do
    shift
    if [ "$skips" ]; then
        skips=
        continue
    fi
    case $word in
    h264_nvenc) encodes=1; set -- "$@" libx264 -preset; word=ultrafast ;;
    -copyts) is_run=1 ;;
    # Trials of other codecs would take most of the time.
    libx265 | libsvtav1 | libvpx-vp9) echo 'left out' >&2; exit 1 ;;
    -init_hw_device | -hwaccel | -hwaccel_output_format) decodes=1 skips=1; continue ;;
    *hwdownload*) word=$(printf %s "$word" | sed 's/hwdownload,format=[a-z0-9]*,//') ;;
    -preset | -rc | -cq | -no-scenecut | -forced-idr) if [ "$encodes" ]; then skips=1; continue; fi ;;
    esac
    set -- "$@" "$word"
done
if [ "$decodes" ]; then {DECODING}; fi
if [ -z "$encodes" ]; then exec ffmpeg "$@"; fi
if [ "$is_run" ]; then
    {RUN}
else
    {TRIAL}
fi
"#;

/// The command of hardware without a fault.
pub const WORKS: &str = r#"exec ffmpeg "$@""#;
/// The command of a decoder that is missing.
pub const NO_DECODER: &str = "echo 'no such device' >&2; exit 1";

/// Makes the wrapper and ffprobe in a folder, in place of former ones; returns the path of the wrapper.
pub fn make_tools(folder: &Path, trial: &str, run: &str, decoding: &str) -> PathBuf {
    let wrapper = WRAPPER.replace("{TRIAL}", trial).replace("{RUN}", run).replace("{DECODING}", decoding);
    for (name, script) in [("ffmpeg", &*wrapper), ("ffprobe", "#!/bin/sh\nexec ffprobe \"$@\"\n")] {
        let draft = folder.join("draft");
        std::fs::write(&draft, script).unwrap();
        std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o755)).unwrap();
        // A shell may still be reading the former one.
        std::fs::rename(draft, folder.join(name)).unwrap();
    }
    folder.join("ffmpeg")
}
