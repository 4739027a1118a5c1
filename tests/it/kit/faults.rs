//! System calls of a running server that fail on request: compiles `faults.c`, which the server preloads, and controls it
//! through a file that it maps.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The intercepted calls, in the order of `enum call` in `faults.c`.
pub const CALLS: [&str; 16] = [
    "open",
    "read",
    "pread",
    "write",
    "pwrite",
    "writev",
    "pwritev",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "ftruncate",
    "fallocate",
    "rename",
    "unlink",
    "link",
    "mkdir",
];

/// Number of calls of each kind.
pub type CallCounts = [u64; CALLS.len()];

/// Offsets of fields of `struct control`, in words of 8 bytes.
const END_WORD: u64 = 1;
const SEEN_WORD: u64 = 6;
const INJECTED_WORD: u64 = SEEN_WORD + CALLS.len() as u64;

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The calls that are counted and fail; empty means all.
    pub call_names: &'static [&'static str],
    pub errno: i32,
    /// The first of them that fails, counted from 1.
    pub first: u64,
    /// How many fail in succession.
    pub burst: u64,
    /// If the first failing call is a write, it does half of its work instead.
    pub is_first_write_halved: bool,
}

/// The compiled library and its control file.
pub struct FaultInjector {
    library: PathBuf,
    control_path: PathBuf,
    control_file: File,
}

impl FaultInjector {
    /// Compiles the library, once per process, and creates a control file in a folder.
    ///
    /// # Panics
    /// Without a C compiler; building the server needs one, too.
    pub fn new(folder: &Path) -> Self {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let control_path = folder.join("faults");
        let control_file =
            File::options().create_new(true).read(true).write(true).open(&control_path).expect("a fresh file");
        control_file.set_len((INJECTED_WORD + CALLS.len() as u64) * 8).expect("room for the control file");
        Self { library: LIBRARY.get_or_init(compile_library).clone(), control_path, control_file }
    }

    /// Environment variables that make a program load the library; its calls on files below `folder` count.
    pub fn environment(&self, folder: &Path) -> [(&'static str, PathBuf); 3] {
        // Descriptors are looked up in /proc, which resolves symbolic links.
        let folder = folder.canonicalize().expect("the folder exists");
        [
            ("LD_PRELOAD", self.library.clone()),
            ("HEARTHCAST_FAULTS_UNDER", folder),
            ("HEARTHCAST_FAULTS_CONTROL", self.control_path.clone()),
        ]
    }

    /// Makes calls fail from now on.
    pub fn arm(&self, fault: Fault) {
        let Fault { call_names: calls, errno, first, burst, is_first_write_halved: half } = fault;
        let is_chosen = |name: &&str| calls.is_empty() || calls.contains(name);
        let mask =
            CALLS.iter().enumerate().filter(|(_, name)| is_chosen(name)).fold(0, |mask, (bit, _)| mask | 1 << bit);
        self.disarm();
        for (word, value) in [(0, first), (2, mask), (3, errno as u64), (4, u64::from(half)), (5, 0)] {
            self.set(word, value);
        }
        self.set(END_WORD, first.saturating_add(burst));
    }

    /// Counts calls without making any fail.
    pub fn count_only(&self) {
        self.arm(Fault { call_names: &[], errno: 0, first: u64::MAX, burst: 0, is_first_write_halved: false });
    }

    /// Lets all calls pass, uncounted.
    pub fn disarm(&self) {
        self.set(END_WORD, 0);
    }

    /// Calls counted so far, failed or not.
    pub fn seen_calls(&self) -> CallCounts {
        self.read_counts(SEEN_WORD)
    }

    /// Calls that failed so far.
    pub fn failed_calls(&self) -> CallCounts {
        self.read_counts(INJECTED_WORD)
    }

    fn read_counts(&self, word: u64) -> CallCounts {
        let mut bytes = [0; CALLS.len() * 8];
        self.control_file.read_exact_at(&mut bytes, word * 8).expect("the control file can be read");
        let mut counts = [0; CALLS.len()];
        for (count, bytes) in counts.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *count = u64::from_ne_bytes(*bytes);
        }
        counts
    }

    fn set(&self, word: u64, value: u64) {
        self.control_file.write_all_at(&value.to_ne_bytes(), word * 8).expect("the control file can be written");
    }
}

fn compile_library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (library, unfinished) =
        (target.join("libfaults.so"), target.join(format!("libfaults-{}.so", std::process::id())));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-U_FORTIFY_SOURCE", "-o"]).arg(&unfinished);
    let status = compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kit/faults.c")).status();
    let status = status.expect("a C compiler `cc` is needed to inject faults (Debian: build-essential)");
    assert!(status.success(), "cc compiles tests/it/kit/faults.c: {status}");
    // Another test program may be compiling it at the same time.
    std::fs::rename(&unfinished, &library).expect("the library can be put in place");
    library
}
