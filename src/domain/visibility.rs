//! The part of the library that a user sees: all of it, or some media folders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::library::outside_roots_error;
use crate::error::Error;

/// The part of the library that a user sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    #[default]
    All,
    /// Media folders by path. A file is seen if the folder that it is in is one of these; a folder of the library
    /// within one of them is a folder of its own.
    Folders(Arc<[String]>),
}

impl Visibility {
    pub fn folders(paths: &[String]) -> Self {
        Self::Folders(paths.into())
    }

    /// Whether a media folder is seen.
    pub fn sees_root(&self, root: &Path) -> bool {
        match self {
            Self::All => true,
            Self::Folders(folders) => folders.iter().any(|folder| Path::new(folder) == root),
        }
    }

    /// Checks that a media folder is seen.
    ///
    /// # Errors
    /// `FORBIDDEN`, the error for a path outside the library: it does not reveal which folders exist.
    pub fn check_root(&self, root: &Path) -> Result<(), Error> {
        if self.sees_root(root) { Ok(()) } else { Err(outside_roots_error()) }
    }

    /// Whether everything that this one sees is seen with `other` too.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::All) => true,
            (Self::All, Self::Folders(_)) => false,
            (Self::Folders(own), Self::Folders(_)) => own.iter().all(|folder| other.sees_root(Path::new(folder))),
        }
    }
}

/// Which paths a user sees: [`Visibility`] with the folders that the library has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisiblePaths {
    /// The media folders, and whether each is seen; None if all are.
    roots: Option<Vec<(PathBuf, bool)>>,
}

impl VisiblePaths {
    pub const ALL: &'static Self = &Self { roots: None };

    pub fn new<'a>(visibility: &Visibility, roots: impl Iterator<Item = &'a Path>) -> Self {
        let flag = |root: &Path| (root.to_owned(), visibility.sees_root(root));
        Self { roots: (*visibility != Visibility::All).then(|| roots.map(flag).collect()) }
    }

    pub fn is_all(&self) -> bool {
        self.roots.is_none()
    }

    /// Whether a file or folder is seen: the innermost media folder that it is in decides.
    pub fn contains(&self, path: &str) -> bool {
        let Some(roots) = &self.roots else { return true };
        let around = roots.iter().filter(|(root, _)| Path::new(path).starts_with(root));
        around.max_by_key(|(root, _)| root.components().count()).is_some_and(|(_, is_seen)| *is_seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_seen_by_its_whole_path() {
        let films = Visibility::folders(&["/lib/films/".to_owned()]);
        assert!(films.sees_root(Path::new("/lib/films")) && Visibility::All.sees_root(Path::new("/lib")));
        for other in ["/lib", "/lib/films/adult", "/lib/films2", "/"] {
            assert!(films.check_root(Path::new(other)).is_err(), "{other}");
        }
        assert!(!Visibility::folders(&[]).sees_root(Path::new("/lib")));
    }

    #[test]
    fn less_is_within_more() {
        let none = Visibility::folders(&[]);
        let films = Visibility::folders(&["/films".to_owned()]);
        assert!(none.is_within(&films) && films.is_within(&Visibility::All) && films.is_within(&films));
        assert!(!films.is_within(&none) && !Visibility::All.is_within(&films));
    }

    #[test]
    fn the_innermost_folder_decides() {
        let roots = ["/lib", "/lib/adult", "/music"].map(Path::new);
        let paths = |seen: &[&str]| {
            let seen: Vec<String> = seen.iter().map(|&path| path.to_owned()).collect();
            VisiblePaths::new(&Visibility::folders(&seen), roots.into_iter())
        };
        let family = paths(&["/lib"]);
        assert!(family.contains("/lib/a.mkv") && family.contains("/lib/adults/a.mkv") && family.contains("/lib"));
        for hidden in ["/lib/adult/a.mkv", "/lib/adult", "/music/a.mp3", "/gone/a.mkv", "/library/a.mkv"] {
            assert!(!family.contains(hidden), "{hidden}");
        }
        let inner = paths(&["/lib/adult"]);
        assert!(inner.contains("/lib/adult/a.mkv") && !inner.contains("/lib/a.mkv"));
        assert!(VisiblePaths::new(&Visibility::All, roots.into_iter()).contains("/gone/a.mkv"));
    }
}
