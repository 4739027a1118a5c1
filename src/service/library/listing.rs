//! Browsing: the content of a library folder, page by page.

use std::cmp::Ordering;
use std::time::SystemTime;

use data_encoding::BASE64URL_NOPAD;

use super::Library;
use crate::domain::library::{compare_natural, kind_from_name};
use crate::domain::sniff::MediaKind;
use crate::domain::visibility::Visibility;
use crate::engine::folder::{EntryHint, EntryTarget, Folder};
use crate::error::{Error, Result};

/// Entries of one page by default.
pub const DEFAULT_LIMIT: usize = 200;

/// Entries of one page at most.
pub const MAX_LIMIT: usize = 1000;

/// One page of a folder, or all roots.
pub struct Listing {
    /// None for the list of roots.
    pub path: Option<String>,
    /// The folder above; None for a root.
    pub parent: Option<String>,
    pub entries: Vec<ListingEntry>,
    pub next_cursor: Option<String>,
}

pub struct ListingEntry {
    pub name: String,
    pub path: String,
    pub kind: EntryKind,
}

pub enum EntryKind {
    Folder,
    Media { kind: MediaKind, size_bytes: u64, modified: SystemTime },
}

/// A name to be listed; folders sort first.
struct ListedName {
    /// None for a folder.
    kind: Option<MediaKind>,
    text: String,
}

impl ListedName {
    fn order(&self, other: &Self) -> Ordering {
        self.kind.is_some().cmp(&other.kind.is_some()).then_with(|| compare_natural(&self.text, &other.text))
    }
}

impl Library {
    /// The roots that a user sees, as folders.
    pub fn list_roots(&self, visibility: &Visibility) -> Listing {
        let entry = |path: &std::path::Path| {
            let path = path.to_str()?.to_owned();
            let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/").to_owned();
            Some(ListingEntry { name, path, kind: EntryKind::Folder })
        };
        let entries = self
            .roots()
            .list()
            .filter(|(_, root)| visibility.sees_root(&root.path))
            .filter_map(|(_, root)| entry(&root.path))
            .collect();
        Listing { path: None, parent: None, entries, next_cursor: None }
    }

    /// One page of a folder for a user, as [`Self::list`].
    ///
    /// # Errors
    /// Those of [`Self::locate_seen`](super::Library::locate_seen) and [`Self::list`].
    pub async fn list_seen(
        &self,
        visibility: &Visibility,
        request_path: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Listing> {
        self.locate_seen(visibility, request_path)?;
        self.list(request_path, limit, cursor).await
    }

    /// One page of a folder: folders first, then media by name, in natural order. Leaves out hidden names, names that are
    /// not UTF-8 and links that leave the root.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN`, `NOT_FOUND`, `VALIDATION_ERROR` for an invalid cursor, `STORAGE_TIMEOUT`.
    pub async fn list(&self, request_path: &str, limit: usize, cursor: Option<&str>) -> Result<Listing> {
        let after_name = cursor.map(parse_cursor).transpose()?;
        let root = self.roots().locate(request_path)?.root_index;
        let (roots, raw) = (self.roots().clone(), request_path.to_owned());
        self.run_with_deadline(root, move || build_page(&roots.open_folder(&raw)?, limit, after_name)).await
    }
}

fn build_page(folder: &Folder<'_>, limit: usize, after_name: Option<ListedName>) -> Result<Listing> {
    let located = &folder.located;
    let mut names: Vec<ListedName> =
        folder.list_entries()?.into_iter().filter_map(|(text, hint)| listed_name(folder, text, hint)).collect();
    names.sort_unstable_by(ListedName::order);
    let start = after_name.map_or(0, |after| names.partition_point(|name| name.order(&after).is_le()));
    let mut rest = names.into_iter().skip(start).peekable();
    let mut entries = Vec::new();
    let mut last_name = None;
    while entries.len() < limit
        && let Some(name) = rest.next()
    {
        let path = format!("{}/{}", located.path.trim_end_matches('/'), name.text);
        let kind = match name.kind {
            None => Some(EntryKind::Folder),
            Some(kind) => match folder.resolve_entry(&name.text) {
                Some(EntryTarget::File { size_bytes, modified }) => {
                    Some(EntryKind::Media { kind, size_bytes, modified })
                }
                _ => None,
            },
        };
        entries.extend(kind.map(|kind| ListingEntry { name: name.text.clone(), path, kind }));
        last_name = Some(name);
    }
    let next_cursor = last_name.filter(|_| rest.peek().is_some()).map(|last| format_cursor(&last));
    let is_root = located.relative_path.as_os_str().is_empty();
    let parent = located.path.rsplit_once('/').filter(|_| !is_root).map(|(parent, _)| parent.to_owned());
    Ok(Listing { path: Some(located.path.clone()), parent, entries, next_cursor })
}

fn listed_name(folder: &Folder<'_>, text: String, hint: EntryHint) -> Option<ListedName> {
    let kind = match hint {
        EntryHint::Folder => None,
        EntryHint::File => Some(kind_from_name(&text)?),
        EntryHint::Unknown => match folder.resolve_entry(&text)? {
            EntryTarget::Folder => None,
            EntryTarget::File { .. } => Some(kind_from_name(&text)?),
        },
    };
    Some(ListedName { kind, text })
}

fn format_cursor(name: &ListedName) -> String {
    let kind_letter = if name.kind.is_some() { 'm' } else { 'f' };
    BASE64URL_NOPAD.encode(format!("{kind_letter}{}", name.text).as_bytes())
}

fn parse_cursor(cursor: &str) -> Result<ListedName> {
    let invalid = || Error::invalid_field("cursor", "is not a cursor of this server");
    let text = BASE64URL_NOPAD.decode(cursor.as_bytes()).map_err(|_| invalid())?;
    let text = String::from_utf8(text).map_err(|_| invalid())?;
    let kind = match text.chars().next() {
        Some('m') => Some(MediaKind::Video),
        Some('f') => None,
        _ => return Err(invalid()),
    };
    Ok(ListedName { kind, text: text[1..].to_owned() })
}
