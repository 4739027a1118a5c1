//! The lock that lets only one process use a state folder.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::open_error;
use crate::error::{Code, Error, Result};

/// Pause between two attempts while another process has the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// An exclusive `flock` on a state folder. The system releases it when the process ends, however it ends.
pub struct StateLock {
    file: File,
}

impl Drop for StateLock {
    /// Unlocks explicitly: a child process shares the lock from its fork until it executes a program, and closing our
    /// descriptor alone would leave the folder locked until then (flock(2)).
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl StateLock {
    /// Locks `dir` and writes our process id to `dir/lock`, for the error message of other processes. Waits at most
    /// `timeout` for another process to release the lock.
    ///
    /// # Errors
    /// `CONFLICT` when another process has the lock; `INTERNAL` with the system's error.
    pub fn acquire(dir: &Path, timeout: Duration) -> Result<Self> {
        let path = dir.join("lock");
        let deadline = Instant::now() + timeout;
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(|cause| Error::internal(format!("{}: {cause}", path.display())))?;
        loop {
            #[cfg(test)]
            super::tests::syscalls::before_flock(&file).map_err(|cause| open_error(&path, cause))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(RETRY_INTERVAL),
                Err(Errno::WOULDBLOCK) => return Err(in_use_error(dir, &mut file)),
                Err(cause) => return Err(open_error(&path, cause)),
            }
        }
        // The process id is for people only; the lock does not depend on it.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}

fn in_use_error(dir: &Path, file: &mut File) -> Error {
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    let holder = holder.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (process {pid})"));
    let message = format!("the state folder {} is in use by a running hearthcast{holder}", dir.display());
    Error::new(Code::Conflict, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = StateLock::acquire(dir.path(), Duration::ZERO).unwrap();
        let refused = StateLock::acquire(dir.path(), Duration::from_millis(1)).err().unwrap();
        assert_eq!(refused.code, Code::Conflict);
        assert!(refused.message.contains(&format!("(process {})", std::process::id())), "{}", refused.message);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| StateLock::acquire(dir.path(), Duration::from_secs(600)));
            // The other thread probably waits by now; the test succeeds in any case.
            thread::sleep(Duration::from_millis(50));
            drop(lock);
            waiter.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_released_lock_is_free_while_a_forked_process_has_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let lock = StateLock::acquire(dir.path(), Duration::ZERO).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        drop(lock);
        StateLock::acquire(dir.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_file_system_that_cannot_lock_is_not_a_running_server() {
        use crate::store::tests::syscalls::{FaultMode, Faults};
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("lock"), "").unwrap();
        let faults = Faults::arm(dir.path(), FaultMode::Io, 2, 1);
        let error = StateLock::acquire(dir.path(), Duration::ZERO).err().unwrap();
        assert_eq!(faults.disarm(), 1);
        assert_eq!(error.code, Code::Internal);
        assert!(error.cause.as_deref().unwrap().contains("Input/output error"), "{error}");
    }
}
