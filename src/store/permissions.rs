//! Permissions of the state folder: only the server's own user may enter it, because it contains password hashes, keys and
//! the addresses of sources.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::open_error;
use crate::error::{Code, Error, Result};

/// Permission bits of all other users.
const OTHERS_BITS: u32 = 0o077;

/// The segment cache, which may be inside the state folder. Its content is skipped: the mode of the cache folder protects
/// it, and there may be many files.
const CACHE_FOLDER: &str = "cache";

/// Creates the folder with mode 0700; if it exists, removes the permissions of other users from it and its content.
///
/// # Errors
/// `FORBIDDEN` naming the command to run, when other users could still enter; `INTERNAL` when the folder cannot be created.
pub fn secure_folder(dir: &Path) -> Result<()> {
    let to_error = |cause: io::Error| open_error(dir, cause);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(to_error)?;
    let metadata = fs::metadata(dir).map_err(to_error)?;
    if metadata.mode() & OTHERS_BITS != 0 {
        let changed = fs::set_permissions(dir, Permissions::from_mode(0o700));
        // Some file systems accept any mode and keep their own.
        let mode_after = fs::metadata(dir).map_err(to_error)?.mode();
        if changed.is_err() || mode_after & OTHERS_BITS != 0 {
            let (mode, owner, uid) = (mode_after & 0o7777, metadata.uid(), rustix::process::geteuid().as_raw());
            let path = dir.display();
            let message = format!(
                "the state folder {path} is open to other users (mode {mode:04o}, owned by user {owner}, this \
                 program runs as {uid}): run chown -R {uid} {path} && chmod 700 {path}, or choose another --state"
            );
            return Err(Error::new(Code::Forbidden, message));
        }
        tracing::warn!(state = %dir.display(), mode = format!("{:04o}", metadata.mode() & 0o7777),
            "the state folder was open to other users: its mode is now 0700");
    }
    secure_contents(dir).map_err(to_error)
}

/// Removes the permissions of other users from everything in a folder. Symbolic links are skipped. A mode that cannot be
/// changed and a subfolder that cannot be read are only logged, because no other user can enter the state folder.
fn secure_contents(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_symlink() {
            continue;
        }
        if metadata.mode() & OTHERS_BITS != 0
            && let Err(cause) = fs::set_permissions(entry.path(), Permissions::from_mode(metadata.mode() & 0o700))
            && cause.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %entry.path().display(), %cause, "the mode of a file in the state folder could not be changed");
        }
        if metadata.is_dir()
            && entry.file_name() != CACHE_FOLDER
            && let Err(cause) = secure_contents(&entry.path())
            && cause.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %entry.path().display(), %cause, "a folder in the state folder could not be read");
        }
    }
    Ok(())
}
