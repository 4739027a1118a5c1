//! Permissions of the state folder: only the server's own user may enter it, because it contains password hashes, keys and
//! the addresses of sources.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::unusable;
use crate::error::{Code, Error, Result};

/// Permission bits of all other users.
const OTHERS: u32 = 0o077;

/// The segment cache, which may be inside the state folder. Its content is skipped: the mode of the cache folder protects
/// it, and there may be many files.
const CACHE: &str = "cache";

/// Creates the folder with mode 0700; if it exists, removes the permissions of other users from it and its content.
///
/// # Errors
/// `FORBIDDEN` naming the command to run, when other users could still enter; `INTERNAL` when the folder cannot be created.
pub fn folder(dir: &Path) -> Result<()> {
    let failed = |cause: io::Error| unusable(dir, cause);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let before = fs::metadata(dir).map_err(failed)?;
    if before.mode() & OTHERS != 0 {
        let changed = fs::set_permissions(dir, Permissions::from_mode(0o700));
        // Some file systems accept any mode and keep their own.
        let still = fs::metadata(dir).map_err(failed)?.mode();
        if changed.is_err() || still & OTHERS != 0 {
            let (mode, owner, uid) = (still & 0o7777, before.uid(), rustix::process::geteuid().as_raw());
            let path = dir.display();
            return Err(Error::new(
                Code::Forbidden,
                format!(
                    "the state folder {path} is open to other users (mode {mode:04o}, owned by user {owner}, this \
                     program runs as {uid}): run chown -R {uid} {path} && chmod 700 {path}, or choose another --state"
                ),
            ));
        }
        tracing::warn!(state = %dir.display(), mode = format!("{:04o}", before.mode() & 0o7777),
            "the state folder was open to other users: its mode is now 0700");
    }
    within(dir).map_err(failed)
}

/// Removes the permissions of other users from everything in a folder. Symbolic links are skipped. A mode that cannot be
/// changed and a subfolder that cannot be read are only logged, because no other user can enter the state folder.
fn within(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(found) = entry.metadata() else { continue };
        if found.is_symlink() {
            continue;
        }
        if found.mode() & OTHERS != 0
            && let Err(cause) = fs::set_permissions(entry.path(), Permissions::from_mode(found.mode() & 0o700))
            && cause.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %entry.path().display(), %cause, "the mode of a file in the state folder could not be changed");
        }
        if found.is_dir()
            && entry.file_name() != CACHE
            && let Err(cause) = within(&entry.path())
            && cause.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %entry.path().display(), %cause, "a folder in the state folder could not be read");
        }
    }
    Ok(())
}
