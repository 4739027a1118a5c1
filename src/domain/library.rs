//! Library roots, the root a request path belongs to, and the order of a folder. Opening files is the engine's `source`.

use std::cmp::Ordering;
use std::path::{Component, Path, PathBuf};

use crate::domain::sniff::MediaKind;
use crate::error::{Code, Error};

const MAX_PATH_BYTES: usize = 4096;

/// A configured library folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Short stable name; internally media is addressed by (root id, relative path).
    pub id: String,
    /// Absolute path as configured; request paths are matched against it by components.
    pub path: PathBuf,
}

/// A request path inside a root, not opened yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedPath {
    pub root_index: usize,
    /// Relative to the root; empty for the root itself.
    pub relative_path: PathBuf,
    /// The normalized path: without doubled slashes and `.` parts.
    pub path: String,
    /// Whether the path ended with a slash, which only a folder may.
    pub has_trailing_slash: bool,
}

/// Finds the longest root that contains `raw`, by components. The roots come with their indexes.
///
/// # Errors
/// `INVALID_PATH` unless `raw` is an absolute path of 1 to 4,096 bytes without NUL. `FORBIDDEN` for every path outside the
/// roots and every path with `..`, whether or not it exists.
pub fn locate<'a>(roots: impl IntoIterator<Item = (usize, &'a Root)>, raw: &str) -> Result<LocatedPath, Error> {
    let path = check_absolute(raw)?;
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(outside_roots_error());
    }
    let normalized: PathBuf = path.components().collect();
    roots
        .into_iter()
        .filter_map(|(index, root)| Some((index, path.strip_prefix(&root.path).ok()?)))
        .min_by_key(|(_, relative)| relative.components().count())
        .map(|(root, relative)| LocatedPath {
            root_index: root,
            relative_path: relative.components().collect(),
            path: normalized.to_str().expect("a part of a text is text").to_owned(),
            has_trailing_slash: raw.ends_with('/') || raw.ends_with("/."),
        })
        .ok_or_else(outside_roots_error)
}

/// The path of a request, which may contain `..`.
///
/// # Errors
/// `INVALID_PATH` unless it is an absolute path of 1 to 4,096 bytes without NUL.
pub fn check_absolute(raw: &str) -> Result<&Path, Error> {
    let invalid = |why: &str| Err(Error::new(Code::InvalidPath, format!("path {why}")));
    let path = Path::new(raw);
    match raw {
        "" => invalid("is empty"),
        _ if raw.len() > MAX_PATH_BYTES => invalid("is longer than 4096 bytes"),
        _ if raw.contains('\0') => invalid("contains a NUL byte"),
        _ if !path.is_absolute() => invalid("is not absolute"),
        _ => Ok(path),
    }
}

/// An ID that no root has, made from the folder's name, so that media URLs stay the same when roots are reordered.
pub fn unused_root_id(roots: &[Root], path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let sanitized: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let base_id = match sanitized.trim_matches('-') {
        "" => "root".to_owned(),
        plain => plain.to_owned(),
    };
    let candidates = std::iter::once(base_id.clone()).chain((2..).map(|n| format!("{base_id}-{n}")));
    candidates.into_iter().find(|name| roots.iter().all(|root| root.id != *name)).expect("the names are infinite")
}

/// The one error for every path outside the roots: it does not reveal what exists there.
pub fn outside_roots_error() -> Error {
    Error::new(Code::Forbidden, "path is outside the library roots")
}

/// The error for a file whose bytes are not media.
pub fn not_media_error() -> Error {
    Error::new(Code::UnsupportedMediaType, "this file is not media")
}

/// A file's name without its extension.
pub fn file_stem(path: &str) -> &str {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

/// The media kind a file name suggests in a folder listing; None for files that are not listed. Whether a file plays is
/// decided by its bytes.
pub fn kind_from_name(name: &str) -> Option<MediaKind> {
    const VIDEO: &[&str] = &[
        "mp4", "m4v", "mov", "qt", "3gp", "3g2", "mkv", "webm", "ts", "m2ts", "mts", "m2t", "trp", "mpg", "mpeg", "ps",
        "vob", "evo", "m2v", "mpv", "avi", "divx", "flv", "f4v", "wmv", "asf", "dvr-ms", "wtv", "ogv", "ogm", "mxf",
        "ivf", "y4m", "rm", "rmvb", "h264", "264", "hevc", "265", "mk3d", "dat",
    ];
    const AUDIO: &[&str] = &[
        "mp3", "mp2", "m4a", "m4b", "m4p", "aac", "flac", "ogg", "oga", "opus", "spx", "wav", "w64", "rf64", "aif",
        "aiff", "aifc", "au", "caf", "wma", "mka", "ac3", "ec3", "eac3", "dts", "dtshd", "thd", "mlp", "wv", "ape",
        "tta", "mpc", "dsf", "dff", "amr", "awb", "weba",
    ];
    let (_, extension) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?;
    let extension = extension.to_ascii_lowercase();
    if VIDEO.contains(&extension.as_str()) {
        Some(MediaKind::Video)
    } else {
        AUDIO.contains(&extension.as_str()).then_some(MediaKind::Audio)
    }
}

/// Natural order of names: numbers by value, letters without case; ties are broken by bytes.
pub fn compare_natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.chars().peekable(), b.chars().peekable());
    loop {
        match (left.peek().copied(), right.peek().copied()) {
            (None, None) => return a.cmp(b),
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (x, y) = (take_number(&mut left), take_number(&mut right));
                let order = x.len().cmp(&y.len()).then_with(|| x.cmp(&y));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (Some(x), Some(y)) => {
                let order = x.to_lowercase().cmp(y.to_lowercase());
                if order != Ordering::Equal {
                    return order;
                }
                left.next();
                right.next();
            }
        }
    }
}

/// A run of digits without leading zeros.
fn take_number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut run = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        if digit != '0' || !run.is_empty() {
            run.push(digit);
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn roots() -> Vec<Root> {
        ["/lib", "/lib/shows", "/other"]
            .iter()
            .map(|path| Root { id: path.replace('/', "r"), path: PathBuf::from(path) })
            .collect()
    }

    #[test]
    fn a_path_belongs_to_the_longest_root_by_components() {
        let at = |raw: &str| {
            locate(roots().iter().enumerate(), raw)
                .map(|l| (l.root_index, l.relative_path.to_str().unwrap().to_owned(), l.path))
        };
        assert_eq!(at("/lib/a.mkv").unwrap(), (0, "a.mkv".into(), "/lib/a.mkv".into()));
        assert_eq!(at("/lib/shows/a/b.mkv").unwrap(), (1, "a/b.mkv".into(), "/lib/shows/a/b.mkv".into()));
        assert_eq!(at("/lib//./shows///a.mkv").unwrap(), (1, "a.mkv".into(), "/lib/shows/a.mkv".into()));
        assert_eq!(at("/other").unwrap(), (2, String::new(), "/other".into()));
        assert_eq!(at("/lib/showsx/a").unwrap().0, 0);
        for raw in ["/libx/a", "/li", "/", "/lib-evil/x", "/lib/../etc/passwd", "/lib/a/..", "/etc/passwd", "/Lib/a"] {
            assert_eq!(at(raw).unwrap_err().code, Code::Forbidden, "{raw}");
        }
        for raw in
            ["", "lib/a", "./a", "~/a", "file:///lib/a", "/lib/a\0.mkv", "..%2f", &format!("/lib/{}", "a".repeat(4092))]
        {
            assert_eq!(at(raw).unwrap_err().code, Code::InvalidPath, "{raw}");
        }
        let is_folder = |raw: &str| locate(roots().iter().enumerate(), raw).unwrap().has_trailing_slash;
        assert!(is_folder("/lib/a/") && is_folder("/lib/a/."));
    }

    #[test]
    fn names_are_ordered_as_a_person_expects() {
        let mut names = ["Show 10", "show 2", "Show 1", "show 02", "Émile", "a", "B", "9", "10", ""];
        names.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(names, ["", "9", "10", "a", "B", "Show 1", "show 02", "show 2", "Show 10", "Émile"]);
    }

    proptest! {
        /// The order is total: antisymmetric, transitive, and equal only for equal names.
        #[test]
        fn the_order_is_total(a in "[a-cA-C0-2é ]{0,6}", b in "[a-cA-C0-2é ]{0,6}", c in "[a-cA-C0-2é ]{0,6}") {
            prop_assert_eq!(compare_natural(&a, &b), compare_natural(&b, &a).reverse());
            prop_assert_eq!(compare_natural(&a, &b) == Ordering::Equal, a == b);
            if compare_natural(&a, &b).is_le() && compare_natural(&b, &c).is_le() {
                prop_assert!(compare_natural(&a, &c).is_le());
            }
        }

        /// A located path is inside its root and normalized.
        #[test]
        fn a_located_path_is_inside_its_root(raw in "(/(lib|shows|other|a|\\.|\\.\\.|)){0,6}") {
            if let Ok(located) = locate(roots().iter().enumerate(), &raw) {
                prop_assert!(located.path.starts_with(roots()[located.root_index].path.to_str().unwrap()));
                prop_assert!(!raw.contains(".."));
                prop_assert!(located.relative_path.components().all(|part| matches!(part, Component::Normal(_))));
            }
        }
    }
}
