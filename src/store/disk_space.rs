//! Free space of the disk with the state.

use std::path::Path;

/// Disk space available to an unprivileged program in `dir`, bytes; `u64::MAX` if the system does not report it.
pub fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
