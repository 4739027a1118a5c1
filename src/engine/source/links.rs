//! Symbolic links whose target leaves their root by name but ends inside a root.
//!
//! `openat2` with `RESOLVE_BENEATH` refuses every link with an absolute target and every link that climbs out of its root,
//! wherever it ends. Libraries are full of such links. This module resolves them by reading the links only. The result is
//! again a path beneath a root, which the kernel opens under the same rules. Nothing outside a root is accessed, not even
//! to check that it exists.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::Roots;
use crate::domain::library::LocatedPath;

/// Maximum number of links followed for one path, as in the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The path after following its links: the index of a root and the rest; None outside the roots.
pub(super) fn followed(roots: &Roots, located: &LocatedPath) -> Option<(usize, PathBuf)> {
    let (mut root, mut seen) = (located.root_index, PathBuf::new());
    let mut parts: VecDeque<OsString> = parts(&located.relative_path).into();
    let mut links = 0;
    while let Some(part) = parts.pop_front() {
        if part == ".." {
            if !seen.pop() {
                let above = roots.real[root].parent()?;
                (root, parts) = inside(roots, above, &parts)?;
                seen.clear();
            }
            continue;
        }
        let here = seen.join(&part);
        match rustix::fs::readlinkat(roots.folders[root].as_fd(), &here, Vec::new()) {
            Ok(target) => {
                links += 1;
                if links > MOST_LINKS {
                    return None;
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    (root, parts) = inside(roots, &target, &parts)?;
                    seen.clear();
                } else {
                    parts = [self::parts(&target), parts.into()].concat().into();
                }
            }
            // Not a link. Opening the path finds out whether it exists.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => seen = here,
            Err(_) => return None,
        }
    }
    Some((root, seen))
}

/// The root that contains an absolute path followed by `behind`, and the rest of the path beneath it.
fn inside(roots: &Roots, path: &Path, behind: &VecDeque<OsString>) -> Option<(usize, VecDeque<OsString>)> {
    let mut whole: Vec<OsString> = Vec::new();
    for part in parts(path).iter().chain(behind) {
        match part == ".." {
            true => drop(whole.pop()),
            false => whole.push(part.clone()),
        }
    }
    let whole: PathBuf = [OsString::from("/")].into_iter().chain(whole).collect();
    let spellings = roots.roots.iter().map(|root| &root.path).zip(&roots.real).enumerate();
    spellings
        .flat_map(|(index, (configured, real))| [(index, configured), (index, real)])
        .filter_map(|(index, root)| Some((index, whole.strip_prefix(root).ok()?)))
        .min_by_key(|(_, rest)| rest.components().count())
        .map(|(index, rest)| (index, parts(rest).into()))
}

/// The path's names and `..`; other components do not matter.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}
