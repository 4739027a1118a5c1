//! Faults of the video decoder of workers, caused by a film: compiles a library for workers to preload and the program that
//! preloads it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program to run as a worker instead of Hearthcast's own.
///
/// # Panics
/// Without a C compiler; building the server needs one, too.
pub fn worker_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let library = compile("decoder_faults.c", "libdecoder-faults.so", &["-shared", "-fPIC"]);
        let definitions = [
            format!("-DLIBRARY=\"{}\"", library.display()),
            format!("-DPROGRAM=\"{}\"", env!("CARGO_BIN_EXE_hearthcast")),
        ];
        compile("decoder_faults_program.c", "worker-with-decoder-faults", &definitions.each_ref().map(String::as_str))
    })
}

/// Makes a film of H.264 with 10 bits and a keyframe every second, which must be encoded, with the fault of this name at its
/// start or after `healthy_seconds`.
pub fn make_film(path: &Path, fault: &str, healthy_seconds: u32) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut list = String::new();
    for (name, seconds, bit_stream_filter) in [
        ("healthy.mp4", healthy_seconds, String::new()),
        (
            "faulty.mp4",
            4,
            format!("-bsf:v h264_metadata=sei_user_data=086f3693b7b34f2c965321492feee5b8+hearthcast-fault-{fault}"),
        ),
    ] {
        if seconds > 0 {
            let piece = folder.path().join(name);
            super::media::flash_and_beep(
                &piece,
                seconds,
                &format!(
                    "-c:v libx264 -preset ultrafast -pix_fmt yuv420p10le -g 25 -c:a aac -b:a 64k {bit_stream_filter}"
                ),
            );
            list += &format!("file '{}'\n", piece.display());
        }
    }
    let list_path = folder.path().join("list.txt");
    std::fs::write(&list_path, list).expect("a folder of our own");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-f", "concat", "-safe", "0", "-i"]).arg(&list_path);
    let status = command.args(["-c", "copy"]).arg(path).status().expect("ffmpeg runs");
    assert!(status.success(), "ffmpeg joins the pieces: {status}");
}

/// Makes another film of the same content: a box that players skip, with `number`, changes its fingerprint.
pub fn copy_as_another_film(from: &Path, to: &Path, number: u64) {
    let mut bytes = std::fs::read(from).expect("the film can be read");
    bytes.extend_from_slice(b"\0\0\0\x10free");
    bytes.extend_from_slice(&number.to_be_bytes());
    std::fs::write(to, bytes).expect("a folder of our own");
}

pub(super) fn compile(source: &str, name: &str, arguments: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = target.join(name);
    // Another test may be compiling the same file.
    let unfinished = tempfile::NamedTempFile::new_in(target).expect("a folder of our own");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror"]).args(arguments).arg("-o").arg(unfinished.path());
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kit").join(source)).arg("-ldl");
    let status = compiler.status().expect("a C compiler `cc` is needed to inject faults (Debian: build-essential)");
    assert!(status.success(), "cc compiles tests/it/kit/{source}: {status}");
    unfinished.persist(&output).expect("the compiled file can be put in place");
    output
}
