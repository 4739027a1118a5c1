//! Library folders and the server's own folders: permissions, space and speed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::Errno;

use super::Finding::{self, Failed, Passed, Warning};
use crate::config::Config;

/// Free disk space below this gets a warning, bytes.
const LOW_SPACE_BYTES: u64 = 1 << 30;
/// Folders and files of a root that are tested for permissions.
const MAX_TESTED_ENTRIES: usize = 200;
/// Bytes written to measure a disk, in pieces of this size.
const TEST_BYTES: usize = 16 << 20;
const TEST_PIECE_BYTES: usize = 1 << 20;
/// Longest measurement of a disk.
const TEST_TIME: Duration = Duration::from_secs(3);
/// A disk that writes less, bytes per second, slows down seeks and recordings.
const SLOW_BYTES_PER_SECOND: f64 = 10e6;
/// A sync that takes longer delays every change of the state.
const SLOW_SYNC: Duration = Duration::from_millis(500);

/// The library folders and the folder of recordings.
pub fn check_roots(config: &Config) -> Vec<Finding> {
    if config.roots.is_empty() {
        return vec![Warning("the library has no folders: set --root, or roots in the configuration".to_owned())];
    }
    let recordings = config.recordings.as_deref().map(|path| check_folder("recordings", path));
    config.roots.iter().map(|root| check_root(&root.path)).chain(recordings).collect()
}

fn check_root(path: &Path) -> Finding {
    let shown = path.display();
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries.take(MAX_TESTED_ENTRIES),
        Err(cause) => return Failed(format!("root {shown}: {cause}; {}", advice(&cause, path, "r-x"))),
    };
    let (mut count, mut unreadable) = (0, Vec::new());
    for entry in entries {
        match entry {
            Ok(entry) => {
                count += 1;
                let path = entry.path();
                let needed = if path.is_dir() { Access::READ_OK | Access::EXEC_OK } else { Access::READ_OK };
                if rustix::fs::access(&path, needed) == Err(Errno::ACCESS) {
                    unreadable.push(path);
                }
            }
            Err(cause) => return Failed(format!("root {shown}: {cause}; check its disk with `dmesg`")),
        }
    }
    match unreadable.first() {
        Some(first) => Warning(format!(
            "root {shown}: {} of its first {count} entries may not be read, for example {}; let the server's group read \
             them: sudo chgrp -R media {shown} && sudo chmod -R g+rX {shown}",
            unreadable.len(),
            first.display()
        )),
        None if count == 0 => Warning(format!("root {shown} is empty: is its disk mounted?")),
        None => Passed(format!("root {shown} is readable")),
    }
}

/// Checks that a folder is writable, has space and a fast disk. Creates it if it is missing, as the server would.
pub fn check_folder(label: &str, path: &Path) -> Finding {
    let shown = path.display();
    let test_file = path.join(".doctor");
    let speed = fs::create_dir_all(path).and_then(|()| measure_disk(&test_file));
    let _ = fs::remove_file(&test_file);
    let speed = match speed {
        Ok(speed) => speed,
        Err(cause) => return Failed(format!("{label} in {shown}: {cause}; {}", advice(&cause, path, "rwx"))),
    };
    let free = match rustix::fs::statvfs(path) {
        Ok(space) => space.f_bavail.saturating_mul(space.f_frsize),
        Err(cause) => return Warning(format!("{label} in {shown}: free space unknown ({cause})")),
    };
    let text = format!("{label} in {shown}, {:.1} GB free, {speed}", free as f64 / 1e9);
    if free < LOW_SPACE_BYTES {
        Warning(format!("{text}: free some space, or move the folder to another disk"))
    } else if speed.is_slow() {
        Warning(format!("{text}: this disk is slow, put the folder on another one"))
    } else {
        Passed(text)
    }
}

/// The measured speed of a disk.
struct DiskSpeed {
    bytes_per_second: f64,
    /// Time to make one small write durable.
    sync: Duration,
}

impl DiskSpeed {
    fn is_slow(&self) -> bool {
        self.bytes_per_second < SLOW_BYTES_PER_SECOND || self.sync > SLOW_SYNC
    }
}

impl std::fmt::Display for DiskSpeed {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (megabytes, sync) = (self.bytes_per_second / 1e6, self.sync.as_secs_f64() * 1000.0);
        write!(text, "writes {megabytes:.0} MB/s, syncs in {sync:.1} ms")
    }
}

/// Writes a file and syncs it, for at most [`TEST_TIME`] and one more piece.
fn measure_disk(path: &Path) -> io::Result<DiskSpeed> {
    let mut file = File::create(path)?;
    file.write_all(b"ok")?;
    let began = Instant::now();
    file.sync_data()?;
    let sync = began.elapsed();
    let piece = vec![0x5a; TEST_PIECE_BYTES];
    let (began, mut written) = (Instant::now(), 0);
    while written < TEST_BYTES && began.elapsed() < TEST_TIME {
        file.write_all(&piece)?;
        file.sync_data()?;
        written += piece.len();
    }
    Ok(DiskSpeed { bytes_per_second: written as f64 / began.elapsed().as_secs_f64().max(1e-6), sync })
}

/// The next step after an error with a folder.
fn advice(cause: &io::Error, path: &Path, permissions: &str) -> String {
    let shown = path.display();
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            let owner = fs::metadata(path).map_or_else(|_| "?".to_owned(), |found| found.uid().to_string());
            let uid = rustix::process::geteuid().as_raw();
            format!(
                "this program runs as user {uid}, the folder belongs to user {owner}: give it {permissions}, for \
                 example sudo setfacl -m u:{uid}:{permissions} {shown}"
            )
        }
        io::ErrorKind::NotFound => format!("mount its disk, or correct the path: ls {shown}"),
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read only: remount it, or name the folder in ReadWritePaths= of the systemd unit".into()
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full: free some space".to_owned(),
        _ => "check its disk with `dmesg`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let Failed(text) = check_folder("state", &file.join("below")) else { panic!("a file has no folders") };
        assert!(text.starts_with("state in "), "{text}");
        let denied = advice(&io::ErrorKind::PermissionDenied.into(), folder.path(), "rwx");
        assert!(denied.contains("sudo setfacl -m u:") && denied.contains(":rwx "), "{denied}");
    }

    #[test]
    fn a_slow_disk_is_one_that_writes_or_syncs_slowly() {
        let is_slow =
            |bytes_per_second, millis| DiskSpeed { bytes_per_second, sync: Duration::from_millis(millis) }.is_slow();
        assert!(!is_slow(100e6, 5));
        assert!(is_slow(1e6, 5) && is_slow(100e6, 900));
    }
}
