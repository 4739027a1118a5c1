//! Folders of this machine outside the roots, which admins browse to choose media folders. Only names of folders are read.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::domain::library::compare_natural;
use crate::domain::media_folder::is_system_folder;
use crate::error::{Code, Error, Result};

/// Entries read of one folder; further ones are ignored.
const MAX_ENTRIES: usize = 20_000;

/// Folders listed of one folder.
pub const MAX_LISTED: usize = 1000;

/// File systems of the kernel, which contain no media: procfs and sysfs.
const KERNEL_FILE_SYSTEMS: [i64; 2] = [0x9fa0, 0x6265_6572];

/// A folder that this program may read.
pub struct ServerFolder {
    fd: OwnedFd,
    /// Its path without symbolic links.
    pub real_path: PathBuf,
}

/// The folders in a folder, in natural order.
pub struct Subfolders {
    pub names: Vec<String>,
    /// Whether folders were left out, because there are too many.
    pub is_truncated: bool,
}

impl ServerFolder {
    /// Opens a folder for reading. Blocks on the file system.
    ///
    /// # Errors
    /// `NOT_FOUND`: it does not exist or is no folder; `FORBIDDEN`: this program may not read it; `VALIDATION_ERROR`: it is a
    /// folder of the system; `SOURCE_READ_FAILED`.
    pub fn open(path: &Path) -> Result<Self> {
        let to_error = |cause: std::io::Error| open_error(path, Errno::from_io_error(&cause).unwrap_or(Errno::IO));
        let real_path = path.canonicalize().map_err(to_error)?;
        if is_system_folder(&real_path) {
            return Err(system_folder_error());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Without links, so that it is the folder that was checked.
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        #[allow(clippy::disallowed_methods, reason = "only names of folders are read")]
        let opened = rustix::fs::openat2(CWD, &real_path, flags, Mode::empty(), resolve);
        let fd = opened.map_err(|cause| open_error(path, cause))?;
        let file_system = rustix::fs::fstatfs(&fd).map_err(|cause| open_error(path, cause))?;
        #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the type differs by platform")]
        if KERNEL_FILE_SYSTEMS.contains(&(file_system.f_type as i64)) {
            return Err(system_folder_error());
        }
        Ok(Self { fd, real_path })
    }

    /// The folders in it that are not hidden. Links are not followed. Blocks on the file system.
    ///
    /// # Errors
    /// `SOURCE_READ_FAILED`.
    pub fn subfolders(&self) -> Result<Subfolders> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(read_error)?.take(MAX_ENTRIES) {
            let entry = entry.map_err(read_error)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => self.is_folder(name),
                _ => false,
            };
            if is_folder && !name.starts_with('.') && !is_system_folder(&self.real_path.join(name)) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable_by(|a, b| compare_natural(a, b));
        let is_truncated = names.len() > MAX_LISTED;
        names.truncate(MAX_LISTED);
        Ok(Subfolders { names, is_truncated })
    }

    fn is_folder(&self, name: &str) -> bool {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

fn system_folder_error() -> Error {
    Error::invalid_field("path", "is a folder of the system")
}

fn read_error(cause: Errno) -> Error {
    Error::new(Code::SourceReadFailed, "the folder could not be read").with_cause(cause)
}

fn open_error(path: &Path, cause: Errno) -> Error {
    let error = match cause {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP => {
            Error::new(Code::NotFound, "there is no such folder on the server")
        }
        Errno::ACCESS | Errno::PERM => Error::new(Code::Forbidden, "the server may not read this folder"),
        _ => Error::new(Code::SourceReadFailed, "the folder could not be opened"),
    };
    error.with_cause(format!("open {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_folders_are_listed_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["Show 10", "Show 9", ".hidden"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("film.mkv"), "").unwrap();
        std::os::unix::fs::symlink("/proc", folder.path().join("link")).unwrap();
        let listed = ServerFolder::open(folder.path()).unwrap().subfolders().unwrap();
        assert_eq!((listed.names, listed.is_truncated), (vec!["Show 9".to_owned(), "Show 10".to_owned()], false));
        let code = |path: PathBuf| ServerFolder::open(&path).err().map(|error| error.code);
        assert_eq!(code(folder.path().join("link")), Some(Code::ValidationError), "a link into the system");
        assert_eq!(code("/proc/self".into()), Some(Code::ValidationError));
        assert_eq!(code(folder.path().join("film.mkv")), Some(Code::NotFound));
        assert_eq!(code(folder.path().join("gone")), Some(Code::NotFound));
        let names = ServerFolder::open(Path::new("/")).unwrap().subfolders().unwrap().names;
        assert!(!names.iter().any(|name| ["proc", "sys", "dev", "etc"].contains(&name.as_str())), "{names:?}");
    }
}
