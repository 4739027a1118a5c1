//! Recording files: created beneath one folder, appended to, and truncated to the committed length.
//!
//! Everything here blocks on the file system. Folders are opened without following links, so that nothing outside is ever
//! written or removed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};

use crate::engine::source::OpenFile;

/// Space left alone on the disk, bytes: the state may lie on the same one, and must be able to say what became of a
/// recording.
pub const RESERVE_BYTES: u64 = 96 << 20;

/// Number of names tried for one file.
const MAX_NAMES: usize = 1000;

/// The recordings folder.
#[derive(Debug)]
pub struct RecordingsFolder {
    folder: OwnedFd,
    path: PathBuf,
}

/// An open recording file.
#[derive(Debug)]
pub struct RecordingFile {
    identity: FileIdentity,
    len: u64,
}

/// Identifies a file whatever its path leads to. It keeps the file open, so no other file gets its inode number.
#[derive(Clone, Debug)]
pub struct FileIdentity {
    file: Arc<OpenFile>,
    device: u64,
    inode: u64,
}

impl FileIdentity {
    fn new(file: File) -> Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { file: Arc::new(OpenFile::new(file, meta.dev())), device: meta.dev(), inode: meta.ino() })
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl RecordingsFolder {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it does not exist or is not a folder; the message names it.
    pub fn open(path: &Path) -> Result<Self> {
        #[allow(clippy::disallowed_methods, reason = "the folder the operator named")]
        let folder = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|cause| Error::other(format!("recordings folder {}: {cause}", path.display())))?;
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Bytes that may still be written, beyond [`RESERVE_BYTES`].
    pub fn free_bytes(&self) -> u64 {
        let stat = rustix::fs::fstatvfs(&self.folder);
        stat.map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize)).saturating_sub(RESERVE_BYTES)
    }

    /// A free path `folder/name`, with a number in the name if the plain one is in use. `is_reserved` is true
    /// for paths that are reserved but not created yet.
    ///
    /// # Errors
    /// The file system's error, or that `MAX_NAMES` names are in use.
    pub fn free_path(&self, folder: &str, name: &str, is_reserved: impl Fn(&Path) -> bool) -> Result<PathBuf> {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "ts"));
        for n in 1..=MAX_NAMES {
            let name = if n == 1 { name.to_owned() } else { format!("{stem} ({n}).{extension}") };
            let relative = Path::new(folder).join(name);
            let path = self.path.join(&relative);
            match self.open_relative(&relative, OFlags::PATH | OFlags::NOFOLLOW) {
                Err(cause) if cause.kind() == ErrorKind::NotFound && !is_reserved(&path) => return Ok(path),
                Ok(_) => {}
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                Err(cause) => return Err(cause),
            }
        }
        Err(Error::other(format!("{MAX_NAMES} recordings are already named {name}")))
    }

    /// Creates a new file at a path from [`Self::free_path`].
    ///
    /// # Errors
    /// `AlreadyExists`, or another error of the file system.
    pub fn create(&self, path: &Path) -> Result<RecordingFile> {
        let relative = self.relative_path(path)?;
        if let Some(folder) = relative.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            match rustix::fs::mkdirat(&self.folder, folder, Mode::from_raw_mode(0o755)) {
                Ok(()) => {
                    let created = self.open_relative(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    rustix::fs::fchmod(created, self.permissions()?)?;
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        let file = self.open_beneath(relative, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        rustix::fs::fchmod(&file, self.permissions()? & Mode::from_raw_mode(0o666))?;
        Ok(RecordingFile { identity: FileIdentity::new(file)?, len: 0 })
    }

    /// The folder's permissions, for everything created in it. The process umask is meant for the state folder and would
    /// exclude other users.
    fn permissions(&self) -> Result<Mode> {
        Ok(Mode::from_raw_mode(rustix::fs::fstat(&self.folder)?.st_mode) & Mode::from_raw_mode(0o777))
    }

    /// Reopens a file and truncates it to its first `len` bytes. With `expected`, the path must still lead to that file.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file is shorter or another one, `PermissionDenied` when it is outside the folder, or another
    /// error of the file system.
    pub fn resume(&self, path: &Path, len: u64, expected: Option<&FileIdentity>) -> Result<RecordingFile> {
        let identity = FileIdentity::new(self.open_beneath(self.relative_path(path)?, OFlags::RDWR)?)?;
        let is_other = expected.is_some_and(|expected| !expected.is_same(&identity));
        if is_other || identity.file.metadata()?.len() < len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        identity.file.set_len(len)?;
        Ok(RecordingFile { identity, len })
    }

    /// Replaces a file by a copy of its first `len` bytes, and opens that: another server that still has the former file
    /// open no longer reaches the recording (fencing). On file systems with reflinks the copy takes no space. `id` and
    /// `nonce` name its draft, which no other recording and no other server uses.
    ///
    /// # Errors
    /// `NotFound`; `UnexpectedEof` when the file is shorter; `StorageFull`, or another error of the file system.
    pub fn replace(&self, path: &Path, len: u64, id: &str, nonce: &str) -> Result<RecordingFile> {
        let relative = self.relative_path(path)?;
        let (folder, name) = parent_and_name(relative)?;
        let parent = self.open_relative(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let former = self.open_beneath(relative, OFlags::RDONLY)?;
        if former.metadata()?.len() < len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // A server that was interrupted here cannot rename its draft any more.
        let prefix = format!(".{id}.");
        for entry in rustix::fs::Dir::read_from(&parent)? {
            let entry = entry?;
            if entry.file_name().to_bytes().starts_with(prefix.as_bytes()) {
                rustix::fs::unlinkat(&parent, entry.file_name(), AtFlags::empty())?;
            }
        }
        let draft = format!("{prefix}{nonce}");
        let copy = self.open_beneath(&folder.join(&draft), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        let complete = || {
            rustix::fs::fchmod(&copy, self.permissions()? & Mode::from_raw_mode(0o666))?;
            if std::io::copy(&mut (&former).take(len), &mut &copy)? < len {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            copy.sync_all()?;
            rustix::fs::renameat(&parent, &draft, &parent, name)?;
            rustix::fs::fsync(&parent)?;
            Ok(())
        };
        if let Err(cause) = complete() {
            let _ = rustix::fs::unlinkat(&parent, &draft, AtFlags::empty());
            return Err(cause);
        }
        Ok(RecordingFile { identity: FileIdentity::new(copy)?, len })
    }

    /// Removes a file, and its folder if that is now empty; false when the file did not exist.
    pub fn remove(&self, path: &Path) -> Result<bool> {
        let relative = self.relative_path(path)?;
        let (folder, name) = parent_and_name(relative)?;
        let parent = match self.open_relative(folder, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(parent) => parent,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(false),
            Err(cause) => return Err(cause),
        };
        match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(cause) => return Err(cause.into()),
        }
        if folder != Path::new(".") {
            // Fails while the folder contains other files, as it should.
            let _ = rustix::fs::unlinkat(&self.folder, folder, AtFlags::REMOVEDIR);
        }
        Ok(true)
    }

    /// A path relative to the folder.
    fn relative_path<'a>(&self, path: &'a Path) -> Result<&'a Path> {
        path.strip_prefix(&self.path).map_err(|_| ErrorKind::PermissionDenied.into())
    }

    fn open_beneath(&self, relative: &Path, flags: OFlags) -> Result<File> {
        let file = File::from(self.open_relative(relative, flags | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::PermissionDenied.into()) }
    }

    fn open_relative(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // The kernel accepts a mode only with CREATE.
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        #[allow(clippy::disallowed_methods, reason = "beneath the folder the operator named")]
        let opened = rustix::fs::openat2(self.folder.as_fd(), relative, flags | OFlags::CLOEXEC, mode, resolve);
        Ok(opened?)
    }
}

/// The folder and the name of a relative path; `.` is the recordings folder itself.
fn parent_and_name(relative: &Path) -> Result<(&Path, &OsStr)> {
    match (relative.parent(), relative.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(ErrorKind::PermissionDenied.into()),
    }
}

impl RecordingFile {
    pub fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// Appends all bytes or none: a partial write is truncated away.
    ///
    /// # Errors
    /// `StorageFull`, or another error of the file system.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(cause) = self.identity.file.write_all_at(bytes, self.len) {
            let _ = self.identity.file.set_len(self.len);
            return Err(cause);
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Returns once everything appended is on the disk.
    ///
    /// # Errors
    /// The file system's error: the durable length is then unknown.
    pub fn sync(&self) -> Result<()> {
        self.identity.file.sync_data()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests read files they created")]
mod tests {
    use super::*;

    #[test]
    fn a_file_grows_is_cut_back_and_goes_away_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = RecordingsFolder::open(folder.path()).unwrap();
        let create = |name: &str| {
            let path = recordings.free_path("Show", name, |_| false).unwrap();
            (recordings.create(&path).unwrap(), path)
        };
        let (mut recording, path) = create("One.ts");
        assert_eq!(path, folder.path().join("Show/One.ts"));
        recording.append(b"first").unwrap();
        recording.append(b" second").unwrap();
        recording.sync().unwrap();
        drop(recording);
        let mut resumed = recordings.resume(&path, 5, None).unwrap();
        assert_eq!(resumed.len, 5);
        resumed.append(b" third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"first third");
        assert_eq!(recordings.resume(&path, 1000, None).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(recordings.create(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let third = recordings.free_path("Show", "One.ts", |path| path.ends_with("One (2).ts")).unwrap();
        assert_eq!(third, folder.path().join("Show/One (3).ts"), "the second name is reserved");
        let (_, other) = create("One.ts");
        assert_eq!(other, folder.path().join("Show/One (2).ts"));
        assert!(recordings.remove(&path).unwrap() && !recordings.remove(&path).unwrap());
        assert!(other.exists() && recordings.remove(&other).unwrap() && !other.parent().unwrap().exists());
        assert!(!recordings.remove(&other).unwrap(), "its folder is gone");
    }

    #[test]
    fn a_replaced_file_is_out_of_reach_for_its_former_owner() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = RecordingsFolder::open(folder.path()).unwrap();
        for folder_name in ["Show", ""] {
            let path = recordings.free_path(folder_name, "One.ts", |_| false).unwrap();
            assert_eq!(recordings.replace(&path, 0, "rec_a", "01").unwrap_err().kind(), ErrorKind::NotFound);
            let mut former = recordings.create(&path).unwrap();
            former.append(b"first second").unwrap();
            let stale = path.with_file_name(".rec_a.0123456789abcdef");
            std::fs::write(&stale, "of an interrupted server").unwrap();
            assert_eq!(recordings.replace(&path, 100, "rec_a", "01").unwrap_err().kind(), ErrorKind::UnexpectedEof);
            let mut new = recordings.replace(&path, 5, "rec_a", "01").unwrap();
            assert!(!stale.exists());
            new.append(b" third").unwrap();
            former.append(b" lost").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"first third");
            let refused = recordings.resume(&path, 3, Some(former.identity()));
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert_eq!(std::fs::read(&path).unwrap(), b"first third");
            recordings.resume(&path, 5, Some(new.identity())).unwrap().append(b" again").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"first again");
            assert_eq!(
                std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().count(),
                1 + usize::from(folder_name.is_empty())
            );
        }
    }

    #[test]
    fn recordings_are_for_those_who_may_use_their_folder() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for (folder_mode, file_mode) in [(0o700, 0o600), (0o755, 0o644), (0o775, 0o664)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(folder_mode)).unwrap();
            let recordings = RecordingsFolder::open(folder.path()).unwrap();
            let path = recordings.free_path(&format!("{folder_mode:o}"), "One.ts", |_| false).unwrap();
            recordings.create(&path).unwrap();
            assert_eq!((mode(path.parent().unwrap()), mode(&path)), (folder_mode, file_mode));
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("a.ts");
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("file.ts")).unwrap();
        let recordings = RecordingsFolder::open(folder.path()).unwrap();
        for folder_name in ["link", ".."] {
            assert!(recordings.free_path(folder_name, "new.ts", |_| false).is_err());
            assert!(recordings.create(&folder.path().join(folder_name).join("new.ts")).is_err());
        }
        for path in ["link/a.ts", "../a.ts", "file.ts"] {
            assert!(recordings.resume(&folder.path().join(path), 0, None).is_err(), "{path}");
        }
        assert!(recordings.resume(&victim, 0, None).is_err() && recordings.remove(&victim).is_err());
        assert!(recordings.remove(&folder.path().join("link/a.ts")).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert!(RecordingsFolder::open(&folder.path().join("missing")).unwrap_err().to_string().contains("missing"));
    }
}
