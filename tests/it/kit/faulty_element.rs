//! Elements of GStreamer under the names of a hardware encoder and a hardware decoder, with faults: compiles the plugin, and writes
//! the program that lets workers find it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::decoder_faults::compile;

/// The work of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `nvh264enc`
    Encoder,
    /// `nvmpeg2videodec`
    Decoder,
}

impl Role {
    /// The file of its plugin, by whose name GStreamer finds the plugin's description.
    fn plugin_file(self) -> &'static str {
        match self {
            Self::Encoder => "libgstnvcodec.so",
            Self::Decoder => "libgstva.so",
        }
    }
}

/// A fault, as a letter of `faulty_element.c`, and when it occurs.
#[derive(Clone, Copy, Debug)]
pub struct ElementFault {
    /// `f`ails, `h`angs, `c`rashes, puts out `z`eros, encodes `g`rey frames; `n`one.
    pub letter: char,
    /// Whether in a trial or in a run.
    pub in_trial: bool,
    /// Frames before it.
    pub frame: u32,
}

pub const NO_FAULT: ElementFault = ElementFault { letter: 'n', in_trial: false, frame: 0 };

/// The program to run as a worker instead of Hearthcast's own, in this folder, with elements that have these faults.
///
/// # Panics
/// Without a C compiler and the headers of GStreamer; building the server needs them, too.
pub fn worker_program(folder: &Path, elements: &[(Role, ElementFault)]) -> PathBuf {
    let plugins = folder.join("plugins");
    std::fs::create_dir(&plugins).expect("a folder of our own");
    elements.iter().for_each(|(role, fault)| add_element(folder, *role, *fault));
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

/// Adds an element to those of the workers of this folder, as a driver does when its card comes.
pub fn add_element(folder: &Path, role: Role, fault: ElementFault) {
    let plugin = folder.join("plugins").join(role.plugin_file());
    std::fs::copy(compile_plugin(role, fault), plugin).expect("a folder of our own");
}

fn compile_plugin(role: Role, fault: ElementFault) -> PathBuf {
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "gstreamer-1.0"]).output().expect("pkg-config");
    assert!(flags.status.success(), "{flags:?}");
    let flags = String::from_utf8_lossy(&flags.stdout);
    let ElementFault { letter, in_trial, frame } = fault;
    let (encodes, in_trial) = (u8::from(role == Role::Encoder), u8::from(in_trial));
    let definitions =
        format!("-shared -fPIC -DENCODES={encodes} -DFAULT='{letter}' -DIN_TRIAL={in_trial} -DFAULT_FRAME={frame}");
    let words: Vec<&str> = definitions.split(' ').chain(flags.split_whitespace()).collect();
    compile("faulty_element.c", &format!("lib{role:?}-{letter}-{in_trial}-{frame}.so"), &words)
}
