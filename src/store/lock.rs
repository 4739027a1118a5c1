//! One process per state folder.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::{Code, Error, Result};

/// The claim on a state folder; the system lets go of it when the process ends, however it ends.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Claims `dir`, and notes our process id in `dir/lock` for the next one who asks.
    ///
    /// # Errors
    /// `CONFLICT` when another process holds it.
    pub fn take(dir: &Path) -> Result<Self> {
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|cause| Error::internal(format!("{}: {cause}", path.display())))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let holder = holder.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (process {pid})"));
            let message = format!("the state folder {} is in use by a running hearthcast{holder}", dir.display());
            return Err(Error::new(Code::Conflict, message));
        }
        // Only for people to read: the lock itself is what counts.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}
