//! Symbolic links whose target leaves their root by name but ends inside a root.
//!
//! `openat2` with `RESOLVE_BENEATH` refuses every link with an absolute target and every link that climbs out of its root,
//! wherever it ends. Libraries are full of such links. This module resolves them by reading the links only. The result is
//! again a path beneath a root, which the kernel opens under the same rules. Nothing outside a root is accessed, not even
//! to check that it exists.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::Roots;
use crate::domain::library::LocatedPath;

/// Maximum number of links followed for one path, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// The path after following its links: the index of a root and the rest; None outside the roots.
pub(super) fn resolve_links(roots: &Roots, located: &LocatedPath) -> Option<(usize, PathBuf)> {
    let (mut root, mut resolved) = (located.root_index, PathBuf::new());
    let mut remaining: VecDeque<OsString> = components(&located.relative_path).into();
    let mut link_count = 0;
    while let Some(name) = remaining.pop_front() {
        if name == ".." {
            if !resolved.pop() {
                let parent = roots.slot(root)?.canonical_path.parent()?;
                (root, remaining) = locate_absolute(roots, parent, &remaining)?;
                resolved.clear();
            }
            continue;
        }
        let candidate = resolved.join(&name);
        match roots.open_root(root).and_then(|folder| rustix::fs::readlinkat(folder, &candidate, Vec::new())) {
            Ok(target) => {
                link_count += 1;
                if link_count > MAX_LINKS {
                    return None;
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    (root, remaining) = locate_absolute(roots, &target, &remaining)?;
                    resolved.clear();
                } else {
                    remaining = [self::components(&target), remaining.into()].concat().into();
                }
            }
            // Not a link. Opening the path finds out whether it exists.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => resolved = candidate,
            Err(_) => return None,
        }
    }
    Some((root, resolved))
}

/// The root that contains an absolute path followed by `tail`, and the rest of the path beneath it.
fn locate_absolute(roots: &Roots, path: &Path, tail: &VecDeque<OsString>) -> Option<(usize, VecDeque<OsString>)> {
    let mut names: Vec<OsString> = Vec::new();
    for name in components(path).iter().chain(tail) {
        if name == ".." { drop(names.pop()) } else { names.push(name.clone()) }
    }
    let absolute: PathBuf = [OsString::from("/")].into_iter().chain(names).collect();
    roots
        .slots()
        .flat_map(|(index, slot)| [(index, &slot.root.path), (index, &slot.canonical_path)])
        .filter_map(|(index, root)| Some((index, absolute.strip_prefix(root).ok()?)))
        .min_by_key(|(_, rest)| rest.components().count())
        .map(|(index, rest)| (index, components(rest).into()))
}

/// The path's names and `..`; other components do not matter.
fn components(path: &Path) -> Vec<OsString> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}
