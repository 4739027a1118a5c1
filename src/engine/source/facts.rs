//! Hands an open file over to another process: its descriptor, and what the server knows about it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use rustix::fs::MemfdFlags;

use super::{OpenFile, SourceFile};
use crate::engine::worker::message::SourceFacts;

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

impl SourceFile {
    /// The facts to send with its descriptor.
    pub fn facts(&self) -> SourceFacts {
        SourceFacts {
            path: self.path.clone(),
            len: self.len,
            modified: to_seconds(self.modified),
            changed_at: self.changed_at,
            file_id: self.file_id,
            is_local: self.is_local,
            fingerprint: self.cached_fingerprint().map(str::to_owned),
        }
    }

    /// The file of a received descriptor: the same to every reader as the server's, without its format and its root.
    /// Touches no file system, so that facts and file may differ; [`Self::has_same_content`] notices.
    pub fn from_descriptor(file: OwnedFd, facts: &SourceFacts) -> Self {
        let fingerprint = OnceLock::new();
        if let Some(known) = &facts.fingerprint {
            fingerprint.get_or_init(|| known.clone());
        }
        Self {
            file: OpenFile::with_locality(File::from(file), facts.file_id.0, facts.is_local),
            path: facts.path.clone(),
            root_index: usize::MAX,
            len: facts.len,
            modified: from_seconds(facts.modified),
            changed_at: facts.changed_at,
            file_id: facts.file_id,
            is_shared: false,
            format: None,
            is_local: facts.is_local,
            fingerprint,
            derived_value: OnceLock::new(),
            verified: Mutex::new(None),
            loopback: None,
            #[cfg(test)]
            read_delay: Duration::ZERO,
        }
    }

    /// A file of another machine, `len` bytes long, that ffmpeg reads at a loopback port. Its descriptor is an empty file of that
    /// length in memory, so that nothing that this process checks can change.
    ///
    /// # Errors
    /// When there are no files in memory.
    pub fn at_loopback(len: u64, fingerprint: String, port: u16, path: String) -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("remote", MemfdFlags::CLOEXEC)?);
        file.set_len(len)?;
        let modified = to_seconds(file.metadata()?.modified()?);
        let facts = SourceFacts {
            path: "remote".to_owned(),
            len,
            modified,
            changed_at: (0, 0),
            file_id: (0, 0),
            is_local: true,
            fingerprint: Some(fingerprint),
        };
        Ok(Self { loopback: Some((port, path)), ..Self::from_descriptor(file.into(), &facts) })
    }
}

/// Seconds since 1970, rounded down, and nanoseconds.
fn to_seconds(time: SystemTime) -> (i64, u32) {
    let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (signed(after.as_secs()), after.subsec_nanos()),
        Err(earlier) => {
            let before = earlier.duration();
            match before.subsec_nanos() {
                0 => (-signed(before.as_secs()), 0),
                nanoseconds => (-signed(before.as_secs()) - 1, NANOSECONDS_PER_SECOND - nanoseconds),
            }
        }
    }
}

/// The reverse of [`to_seconds`]; 1970 for a time that the system cannot represent.
fn from_seconds((seconds, nanoseconds): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let whole_seconds = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    let time = whole_seconds.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into())));
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::engine::source::open_in_test;

    fn received(source: &SourceFile) -> SourceFile {
        let json = serde_json::to_string(&source.facts()).unwrap();
        let descriptor = source.file.as_fd().try_clone_to_owned().unwrap();
        SourceFile::from_descriptor(descriptor, &serde_json::from_str(&json).unwrap())
    }

    #[test]
    fn a_received_file_has_the_same_identity_and_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mkv");
        std::fs::write(&path, vec![7; 300_000]).unwrap();
        let source = open_in_test(&path);
        assert_eq!(received(&source).cached_fingerprint(), None);
        source.fingerprint().unwrap();
        let other = received(&source);
        assert_eq!(other.cached_fingerprint(), source.cached_fingerprint());
        assert_eq!(other.fingerprint().unwrap(), source.fingerprint().unwrap());
        assert_eq!(
            (other.version(), other.etag(), other.path.as_str()),
            (source.version(), source.etag(), &*source.path)
        );
        assert_eq!((other.len, other.is_local, other.file.is_local()), (source.len, source.is_local, source.is_local));
        assert!(other.is_same_version(&source) && other.is_unchanged() && other.has_same_content());
        // It notices a change by itself, without the server.
        std::fs::write(&path, vec![6; 400_000]).unwrap();
        assert!(!other.has_same_content());
    }

    #[test]
    fn a_file_on_a_network_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mkv");
        std::fs::write(&path, "a").unwrap();
        let mut source = open_in_test(&path);
        source.is_local = false;
        let other = received(&source);
        assert!(!other.is_local && !other.file.is_local());
        assert_eq!(other.holds_the_same_at_once(), None);
    }

    #[test]
    fn times_before_1970_survive() {
        let at = |seconds: f64| match seconds {
            0.0.. => SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds),
            _ => SystemTime::UNIX_EPOCH - Duration::from_secs_f64(-seconds),
        };
        for (time, expected) in [
            (at(1.5), (1, 500_000_000)),
            (at(0.0), (0, 0)),
            (at(-0.25), (-1, 750_000_000)),
            (at(-2.0), (-2, 0)),
            (at(-2.5), (-3, 500_000_000)),
        ] {
            assert_eq!(to_seconds(time), expected);
            assert_eq!(from_seconds(expected), time);
        }
        assert_eq!(from_seconds((i64::MAX, u32::MAX)), SystemTime::UNIX_EPOCH, "out of range");
    }
}
