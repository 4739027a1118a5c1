//! Media folders that admins choose in the page: which folders of the machine may become one, and the stored record.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::domain::library::check_absolute;
use crate::error::{Code, Error};

/// Media folders that admins may add.
pub const MAX_MEDIA_FOLDERS: usize = 64;

/// Folders of the system. They are not listed, and no media folder may be inside one.
const SYSTEM_FOLDERS: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/etc", "/boot"];

/// Where desktops mount removable disks, although it is inside a folder of the system.
const REMOVABLE_DISKS: &str = "/run/media";

named_values! {
    /// The content of a media folder, as an admin chose it. It decides about files whose names do not say what they are.
    pub enum FolderKind {
        Films = "films",
        Series = "series",
        Music = "music",
        Audiobooks = "audiobooks",
        HomeVideos = "homeVideos",
    }
}

impl FolderKind {
    /// The name of a folder that states the kind, in place of its own name.
    pub fn folder_name(self) -> &'static str {
        match self {
            Self::Films => "Films",
            Self::Series => "Series",
            Self::Music => "Music",
            Self::Audiobooks => "Audiobooks",
            Self::HomeVideos => "Home Videos",
        }
    }
}

/// A media folder that an admin added, stored by its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaFolderRecord {
    /// The id of the root.
    pub id: String,
    /// When it was added, ms since 1970.
    pub added_ms: i64,
    /// None: names decide alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FolderKind>,
}

/// The folder that a request names, without doubled slashes and `.` parts.
///
/// # Errors
/// `INVALID_PATH` unless it is an absolute path of 1 to 4,096 bytes without `..` and NUL.
pub fn parse_folder_path(text: &str) -> Result<PathBuf, Error> {
    let path = check_absolute(text)?;
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Error::new(Code::InvalidPath, "path contains `..`"));
    }
    Ok(path.components().collect())
}

/// Whether a folder is one of the system, or inside one.
pub fn is_system_folder(path: &Path) -> bool {
    let is_removable = path.starts_with(REMOVABLE_DISKS) || Path::new(REMOVABLE_DISKS) == path;
    !is_removable && SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Whether one of two folders is the other, or inside it.
pub fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_do_not_climb() {
        assert_eq!(parse_folder_path("/srv//films/./new/").unwrap(), Path::new("/srv/films/new"));
        for text in ["", "srv/films", "/srv/../etc", "/srv/a\0b"] {
            assert_eq!(parse_folder_path(text).unwrap_err().code, Code::InvalidPath, "{text:?}");
        }
    }

    #[test]
    fn system_folders_are_refused_but_not_removable_disks() {
        for (path, expected) in [
            ("/proc", true),
            ("/proc/self/root", true),
            ("/sys/kernel", true),
            ("/run/user/1000", true),
            ("/run/media/ada/disk", false),
            ("/processed", false),
            ("/srv/dev", false),
            ("/", false),
        ] {
            assert_eq!(is_system_folder(Path::new(path)), expected, "{path}");
        }
    }
}
