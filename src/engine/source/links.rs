//! Links that leave their root by name and come out inside a root all the same.
//!
//! The kernel is asked to stay beneath a root, and so refuses every link with an absolute target, and every one that
//! climbs out, wherever it leads. Libraries are full of such links. Here one is followed on paper: what comes of it is
//! again a path beneath a root, which the kernel opens by the same rules. Nothing outside a root is looked at, not even
//! whether it is there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::Roots;
use crate::domain::library::Located;

/// Links followed for one path, as the kernel has it (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Where a path ends up when its links are followed: a root's index and the rest; None outside the roots.
pub(super) fn followed(roots: &Roots, located: &Located) -> Option<(usize, PathBuf)> {
    let (mut root, mut seen) = (located.root, PathBuf::new());
    let mut parts: VecDeque<OsString> = parts(&located.relative).into();
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
            // No link. Whether it is there at all is for the opening to find out.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => seen = here,
            Err(_) => return None,
        }
    }
    Some((root, seen))
}

/// The root that an absolute path with something behind it lies in, and the way from there.
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

/// Names and `..`; what else a path is made of says nothing.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}
