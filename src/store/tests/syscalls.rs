//! Fault injection at system calls. This test program defines the file functions of the C library, and the linker prefers
//! its definitions. So every call of std and sled comes through here, without ptrace or `LD_PRELOAD`. rustix makes system
//! calls directly; `fallocate` and `flock` have hooks.
//!
//! The functions may run in a forked child, so they allocate nothing and take no lock.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{off_t, size_t, ssize_t};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum FaultMode {
    /// `EIO` at any call.
    Io = 1,
    /// `EMFILE` when a file is opened, `ENOSPC` when one grows.
    ResourceShortage,
    /// Half of a write is done, then the next write fails with `ENOSPC`.
    ShortWrite,
    /// `EIO` at any call after the first rename.
    AfterRename,
    /// `EPERM` when a mode is changed.
    ModeDenied,
    /// A change of mode succeeds without effect, as on a file system without modes.
    ModeIgnored,
}

/// The effect of a system call.
#[derive(Clone, Copy, PartialEq)]
enum CallKind {
    Open,
    Read,
    Grow,
    Write,
    Sync,
    Name,
    Rename,
    Mode,
}

enum Injected {
    Fail(c_int),
    Half,
    Nothing,
}

/// A [`FaultMode`], or 0 for no faults.
static MODE: AtomicU8 = AtomicU8::new(0);
static PREFIX: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static PREFIX_LEN: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);
static INJECTED: AtomicUsize = AtomicUsize::new(0);
static IS_RENAMED: AtomicBool = AtomicBool::new(false);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Injects faults at calls `first` to `first + burst - 1` on files below a folder, until it is dropped.
pub struct Faults {
    _turn: MutexGuard<'static, ()>,
}

impl Faults {
    pub fn arm(folder: &Path, mode: FaultMode, first: usize, burst: usize) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // Leaked, because another thread may be reading it.
        let prefix: &'static mut [u8] = folder.as_os_str().as_encoded_bytes().to_vec().leak();
        PREFIX_LEN.store(0, SeqCst);
        PREFIX.store(prefix.as_mut_ptr(), SeqCst);
        PREFIX_LEN.store(prefix.len(), SeqCst);
        COUNT.store(0, SeqCst);
        INJECTED.store(0, SeqCst);
        IS_RENAMED.store(false, SeqCst);
        FIRST.store(first, SeqCst);
        LAST.store(first + burst, SeqCst);
        MODE.store(mode as u8, SeqCst);
        Self { _turn: turn }
    }

    /// Stops the injection; returns the number of injected faults.
    pub fn disarm(self) -> usize {
        MODE.store(0, SeqCst);
        INJECTED.load(SeqCst)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        MODE.store(0, SeqCst);
    }
}

/// Called before `fallocate`, which rustix calls without the C library.
pub fn before_fallocate(file: &std::fs::File) -> io::Result<()> {
    match on_file(CallKind::Grow, file.as_raw_fd()) {
        Some(Injected::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}

/// Called before `flock`, which rustix calls without the C library.
pub fn before_flock(file: &std::fs::File) -> io::Result<()> {
    match on_file(CallKind::Open, file.as_raw_fd()) {
        Some(Injected::Fail(errno)) if errno == libc::EIO => Err(io::Error::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}

fn inject(call: CallKind, path: &[u8]) -> Option<Injected> {
    let mode = MODE.load(SeqCst);
    if mode == 0 || PREFIX_LEN.load(SeqCst) == 0 {
        return None;
    }
    // SAFETY: `arm` leaked a buffer of this length, so it is never freed.
    let prefix = unsafe { std::slice::from_raw_parts(PREFIX.load(SeqCst), PREFIX_LEN.load(SeqCst)) };
    if !path.starts_with(prefix) {
        return None;
    }
    let is_mode = |other: FaultMode| mode == other as u8;
    if is_mode(FaultMode::AfterRename) && !IS_RENAMED.load(SeqCst) {
        IS_RENAMED.store(call == CallKind::Rename, SeqCst);
        return None;
    }
    let errno = match call {
        _ if is_mode(FaultMode::Io) || is_mode(FaultMode::AfterRename) => libc::EIO,
        CallKind::Mode if is_mode(FaultMode::ModeDenied) || is_mode(FaultMode::ModeIgnored) => libc::EPERM,
        _ if is_mode(FaultMode::ModeDenied) || is_mode(FaultMode::ModeIgnored) => return None,
        CallKind::Open if mode == FaultMode::ResourceShortage as u8 => libc::EMFILE,
        CallKind::Grow | CallKind::Write => libc::ENOSPC,
        _ => return None,
    };
    let at = COUNT.fetch_add(1, SeqCst) + 1;
    if at < FIRST.load(SeqCst) || at >= LAST.load(SeqCst) {
        return None;
    }
    INJECTED.fetch_add(1, SeqCst);
    let half = is_mode(FaultMode::ShortWrite) && call == CallKind::Write && at == FIRST.load(SeqCst);
    Some(match half {
        true => Injected::Half,
        false if is_mode(FaultMode::ModeIgnored) => Injected::Nothing,
        false => Injected::Fail(errno),
    })
}

fn on_file(call: CallKind, fd: c_int) -> Option<Injected> {
    if MODE.load(SeqCst) == 0 || fd < 0 {
        return None;
    }
    let mut path = [0; 512];
    let mut link = [0_u8; 32];
    let text = b"/proc/self/fd/";
    link[..text.len()].copy_from_slice(text);
    let (mut digits, mut rest) = (0, fd);
    while rest > 0 || digits == 0 {
        (digits, rest) = (digits + 1, rest / 10);
    }
    rest = fd;
    for at in (0..digits).rev() {
        link[text.len() + at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // SAFETY: both buffers are alive and have the given lengths; `link` ends in zeros.
    let len =
        unsafe { libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, link.as_ptr(), path.as_mut_ptr(), path.len()) };
    inject(call, path.get(..usize::try_from(len).ok()?)?)
}

fn on_path(call: CallKind, path: *const c_char) -> Option<Injected> {
    if MODE.load(SeqCst) == 0 || path.is_null() {
        return None;
    }
    // SAFETY: the called function requires a C string.
    inject(call, unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes())
}

fn fail(errno: c_int) -> isize {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Defines C functions that check for a fault first and then make the system call.
macro_rules! interpose {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $call:expr, $ask:expr => $number:ident($($pass:expr),*);)*) => {$(
        /// As the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            match $ask($call) {
                Some(Injected::Fail(errno)) => fail(errno) as $ret,
                Some(Injected::Nothing) => 0,
                // SAFETY: the caller's arguments are passed unchanged.
                _ => unsafe { libc::syscall(libc::$number, $($pass),*) as $ret },
            }
        }
    )*};
}

interpose! {
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int =
        CallKind::Open, |call| on_path(call, path) => SYS_openat(libc::AT_FDCWD, path, flags, mode);
    fn openat64(fd: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int =
        CallKind::Open, |call| on_file(call, fd) => SYS_openat(fd, path, flags, mode);
    fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t =
        CallKind::Read, |call| on_file(call, fd) => SYS_read(fd, to, len);
    fn pread64(fd: c_int, to: *mut c_void, len: size_t, at: off_t) -> ssize_t =
        CallKind::Read, |call| on_file(call, fd) => SYS_pread64(fd, to, len, at);
    fn ftruncate64(fd: c_int, len: off_t) -> c_int =
        CallKind::Grow, |call| on_file(call, fd) => SYS_ftruncate(fd, len);
    fn fsync(fd: c_int) -> c_int =
        CallKind::Sync, |call| on_file(call, fd) => SYS_fsync(fd);
    fn fdatasync(fd: c_int) -> c_int =
        CallKind::Sync, |call| on_file(call, fd) => SYS_fdatasync(fd);
    fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int =
        CallKind::Sync, |call| on_file(call, fd) => SYS_sync_file_range(fd, at, len, flags);
    fn rename(from: *const c_char, to: *const c_char) -> c_int =
        CallKind::Rename, |call| on_path(call, from) => SYS_renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0);
    fn unlink(path: *const c_char) -> c_int =
        CallKind::Name, |call| on_path(call, path) => SYS_unlinkat(libc::AT_FDCWD, path, 0);
    fn unlinkat(fd: c_int, path: *const c_char, flags: c_int) -> c_int =
        CallKind::Name, |call| on_file(call, fd) => SYS_unlinkat(fd, path, flags);
    fn linkat(from_fd: c_int, from: *const c_char, to_fd: c_int, to: *const c_char, flags: c_int) -> c_int =
        CallKind::Name, |call| on_path(call, from) => SYS_linkat(from_fd, from, to_fd, to, flags);
    fn chmod(path: *const c_char, mode: c_uint) -> c_int =
        CallKind::Mode, |call| on_path(call, path) => SYS_fchmodat(libc::AT_FDCWD, path, mode);
    fn flock(fd: c_int, operation: c_int) -> c_int =
        CallKind::Sync, |call| on_file(call, fd) => SYS_flock(fd, operation);
    fn mkdir(path: *const c_char, mode: c_uint) -> c_int =
        CallKind::Grow, |call| on_path(call, path) => SYS_mkdirat(libc::AT_FDCWD, path, mode);
}

/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    match on_file(CallKind::Write, fd) {
        Some(Injected::Fail(errno)) => fail(errno),
        // SAFETY: the caller's buffer, or its first half.
        Some(Injected::Half) => unsafe { libc::syscall(libc::SYS_write, fd, from, len.div_ceil(2)) as ssize_t },
        _ => unsafe { libc::syscall(libc::SYS_write, fd, from, len) as ssize_t },
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    match on_file(CallKind::Write, fd) {
        Some(Injected::Fail(errno)) => fail(errno),
        // SAFETY: as in `write`.
        Some(Injected::Half) => unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, len.div_ceil(2), at) as ssize_t },
        _ => unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, len, at) as ssize_t },
    }
}

#[test]
fn faults_reach_std_in_the_folder_alone_and_nowhere_once_disarmed() {
    use std::fs::{read, write};
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, other_file) = (dir.path().join("a"), other.path().join("a"));
    let faults = Faults::arm(dir.path(), FaultMode::Io, 2, 1);
    assert_eq!(write(&file, "text").unwrap_err().raw_os_error(), Some(libc::EIO), "the write after the open");
    write(&file, "text").unwrap();
    write(&other_file, "text").unwrap();
    assert_eq!(faults.disarm(), 1);
    let faults = Faults::arm(dir.path(), FaultMode::ResourceShortage, 1, 1);
    assert_eq!(read(&file).unwrap_err().raw_os_error(), Some(libc::EMFILE));
    assert_eq!(faults.disarm(), 1);
    let faults = Faults::arm(dir.path(), FaultMode::ShortWrite, 1, 2);
    assert_eq!(write(&file, "longer").unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    drop(faults);
    assert_eq!(read(&file).unwrap(), b"lon", "half of the text");
    // SAFETY: descriptor 0 is open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(0) };
    assert!(on_file(CallKind::Open, borrowed.as_raw_fd()).is_none());
}
