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
pub type Counts = [u64; CALLS.len()];

/// Offsets of fields of `struct control`, in words of 8 bytes.
const END: u64 = 1;
const SEEN: u64 = 6;
const INJECTED: u64 = SEEN + CALLS.len() as u64;

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The calls that are counted and fail; empty means all.
    pub calls: &'static [&'static str],
    pub errno: i32,
    /// The first of them that fails, counted from 1.
    pub first: u64,
    /// How many fail in succession.
    pub burst: u64,
    /// If the first failing call is a write, it does half of its work instead.
    pub half: bool,
}

/// The compiled library and its control file.
pub struct Faults {
    library: PathBuf,
    path: PathBuf,
    control: File,
}

impl Faults {
    /// Compiles the library, once per process, and creates a control file in a folder.
    ///
    /// # Panics
    /// Without a C compiler; building the server needs one, too.
    pub fn new(folder: &Path) -> Self {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let path = folder.join("faults");
        let control = File::options().create_new(true).read(true).write(true).open(&path).expect("a fresh file");
        control.set_len((INJECTED + CALLS.len() as u64) * 8).expect("room for the control file");
        Self { library: LIBRARY.get_or_init(compile).clone(), path, control }
    }

    /// Environment variables that make a program load the library; its calls on files below `folder` count.
    pub fn environment(&self, folder: &Path) -> [(&'static str, PathBuf); 3] {
        // Descriptors are looked up in /proc, which resolves symbolic links.
        let folder = folder.canonicalize().expect("the folder exists");
        [
            ("LD_PRELOAD", self.library.clone()),
            ("HEARTHCAST_FAULTS_UNDER", folder),
            ("HEARTHCAST_FAULTS_CONTROL", self.path.clone()),
        ]
    }

    /// Makes calls fail from now on.
    pub fn arm(&self, fault: Fault) {
        let Fault { calls, errno, first, burst, half } = fault;
        let chosen = |name: &&str| calls.is_empty() || calls.contains(name);
        let mask = CALLS.iter().enumerate().filter(|(_, name)| chosen(name)).fold(0, |mask, (bit, _)| mask | 1 << bit);
        self.disarm();
        for (word, value) in [(0, first), (2, mask), (3, errno as u64), (4, u64::from(half)), (5, 0)] {
            self.set(word, value);
        }
        self.set(END, first.saturating_add(burst));
    }

    /// Counts calls without making any fail.
    pub fn count(&self) {
        self.arm(Fault { calls: &[], errno: 0, first: u64::MAX, burst: 0, half: false });
    }

    /// Lets all calls pass, uncounted.
    pub fn disarm(&self) {
        self.set(END, 0);
    }

    /// Calls counted so far, failed or not.
    pub fn seen(&self) -> Counts {
        self.counts(SEEN)
    }

    /// Calls that failed so far.
    pub fn injected(&self) -> Counts {
        self.counts(INJECTED)
    }

    fn counts(&self, word: u64) -> Counts {
        let mut bytes = [0; CALLS.len() * 8];
        self.control.read_exact_at(&mut bytes, word * 8).expect("the control file can be read");
        let mut counts = [0; CALLS.len()];
        for (count, bytes) in counts.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *count = u64::from_ne_bytes(*bytes);
        }
        counts
    }

    fn set(&self, word: u64, value: u64) {
        self.control.write_all_at(&value.to_ne_bytes(), word * 8).expect("the control file can be written");
    }
}

fn compile() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (library, fresh) = (target.join("libfaults.so"), target.join(format!("libfaults-{}.so", std::process::id())));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-U_FORTIFY_SOURCE", "-o"]).arg(&fresh);
    let status = compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/kit/faults.c")).status();
    let status = status.expect("a C compiler `cc` is needed to inject faults (Debian: build-essential)");
    assert!(status.success(), "cc compiles tests/it/kit/faults.c: {status}");
    // Another test program may be compiling it at the same time.
    std::fs::rename(&fresh, &library).expect("the library can be put in place");
    library
}
