//! An element of GStreamer under the name of a hardware encoder, with faults: compiles its plugin, and writes the program that
//! lets workers find it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::decoder_faults::compile;

/// The element's name.
pub const ELEMENT: &str = "nvh264enc";

/// A fault of the element, as a letter of `faulty_encoder.c`, and when it occurs.
#[derive(Clone, Copy, Debug)]
pub struct EncoderFault {
    /// `f`ails, `h`angs, `c`rashes, writes `z`eros, encodes `g`rey frames.
    pub letter: char,
    /// Whether in a trial or in a run.
    pub in_trial: bool,
    /// Frames before it.
    pub frame: u32,
}

/// The program to run as a worker instead of Hearthcast's own, in this folder; without a fault the element works.
///
/// # Panics
/// Without a C compiler and the headers of GStreamer; building the server needs them, too.
pub fn worker_program(folder: &Path, fault: Option<EncoderFault>) -> PathBuf {
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "gstreamer-1.0"]).output().expect("pkg-config");
    assert!(flags.status.success(), "{flags:?}");
    let EncoderFault { letter, in_trial, frame } =
        fault.unwrap_or(EncoderFault { letter: 'n', in_trial: false, frame: 0 });
    let definitions = format!("-DFAULT='{letter}' -DIN_TRIAL={} -DFAULT_FRAME={frame}", u8::from(in_trial));
    let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
    let arguments: Vec<&str> =
        ["-shared", "-fPIC"].into_iter().chain(definitions.split(' ')).chain(flags.split_whitespace()).collect();
    let name = format!("libfaulty-encoder-{letter}-{}-{frame}.so", u8::from(in_trial));
    let library = compile("faulty_encoder.c", &name, &arguments);
    let plugins = folder.join("plugins");
    std::fs::create_dir(&plugins).expect("a folder of our own");
    std::fs::copy(library, plugins.join("libgstfaultyencoder.so")).expect("a folder of our own");
    let program = folder.join("worker");
    let script = format!(
        "#!/bin/sh\nGST_PLUGIN_PATH_1_0={} exec {} \"$@\"\n",
        plugins.display(),
        env!("CARGO_BIN_EXE_hearthcast")
    );
    std::fs::write(&program, script).expect("a folder of our own");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a file of our own");
    program
}
