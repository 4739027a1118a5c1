//! Signal handlers that record in the crash page why this process dies.
//!
//! A stack overflow in a thread of GStreamer leaves no record, because such a thread has no other stack for the handler.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{c_int, c_void, siginfo_t};

use crate::engine::worker::crash_page::{CrashRecord, THREAD_NAME_BYTES, map_for_process};

const SIGNALS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// The record of this process; null until the handlers are installed.
static RECORD: AtomicPtr<CrashRecord> = AtomicPtr::new(std::ptr::null_mut());

/// Set by the first handler: threads that crash after it do not overwrite its record.
static IS_RECORDED: AtomicBool = AtomicBool::new(false);

/// Maps the crash page and installs the handlers for the life of this process.
///
/// # Errors
/// If `page` is not a crash page; those of `sigaction`.
pub(super) fn install_handlers(page: OwnedFd) -> io::Result<()> {
    let record = map_for_process(&page)?;
    RECORD.store(std::ptr::from_ref(record).cast_mut(), Ordering::Release);
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = record_signal;
    for signal in SIGNALS {
        // SAFETY: an all-zero `sigaction` is valid. The handler has the signature of SA_SIGINFO and makes only stores and
        // system calls.
        let outcome = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Writes the record and raises the signal again, which now ends the process.
extern "C" fn record_signal(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    let record = RECORD.load(Ordering::Acquire);
    if !record.is_null() && !info.is_null() && !IS_RECORDED.swap(true, Ordering::AcqRel) {
        let mut name = [0_u8; THREAD_NAME_BYTES];
        // SAFETY: the kernel passes a valid siginfo; the sender is part of signals that were sent (code <= 0) and of no
        // other. `prctl` writes 16 bytes. The record is never unmapped.
        unsafe {
            let code = (*info).si_code;
            let sender = if code <= 0 { (*info).si_pid() } else { 0 };
            libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            (*record).write(signal, code, sender, &name);
        }
    }
    // Not left to a return, which would continue after the instruction of a trap: GLib ends programs by one. The signal is
    // blocked until this handler returns. Then it ends the process, because SA_RESETHAND restored the default action.
    // SAFETY: system calls with numbers; async-signal-safe.
    unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal);
    }
}
