//! Next up: the file to watch after a completed one.

use std::collections::HashSet;

use crate::domain::library::{compare_natural, file_stem};
use crate::domain::progress::{ProgressRecord, ProgressStatus};
use crate::error::{Code, Result};
use crate::service::Service;
use crate::service::library::listing::{EntryKind, MAX_LIMIT};

use super::HistoryFilter;

/// Most folders searched for one request.
const MAX_FOLDERS: usize = 100;

/// A file to watch next.
pub struct NextUp {
    pub path: String,
    pub title: String,
    /// The record of the completed file before it.
    pub after: ProgressRecord,
    /// The progress of this file, if it was started.
    pub started: Option<ProgressRecord>,
}

impl Service {
    /// The next file of every folder in which a user completed one, the folder watched last first. Completed files are
    /// skipped; a folder without a next file gives no row.
    pub async fn next_up(&self, user_id: &str, limit: usize) -> Result<Vec<NextUp>> {
        let filter = HistoryFilter { status: Some(ProgressStatus::Completed), ..HistoryFilter::default() };
        let (mut found, mut searched_folders, mut cursor) = (Vec::new(), HashSet::new(), None);
        loop {
            let page = self.progress.history(user_id, filter.clone(), cursor.as_deref(), 200)?;
            for record in page.entries {
                let folder = record.path.rsplit_once('/').map_or("/", |(folder, _)| folder).to_owned();
                if searched_folders.len() >= MAX_FOLDERS || found.len() >= limit {
                    return Ok(found);
                }
                if searched_folders.insert(folder.clone())
                    && let Some(next) = self.next_in_folder(user_id, &folder, record).await?
                {
                    found.push(next);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    async fn next_in_folder(&self, user_id: &str, folder: &str, after: ProgressRecord) -> Result<Option<NextUp>> {
        let mut files: Vec<String> = match self.library.list(folder, MAX_LIMIT, None).await {
            Ok(listing) => {
                let media = listing.entries.into_iter().filter(|entry| matches!(entry.kind, EntryKind::Media { .. }));
                media.map(|entry| entry.path).filter(|path| is_next_part(&after.path, path)).collect()
            }
            // A folder that is gone, or whose disk is asleep, has no next file.
            Err(fault) if fault.code != Code::Internal => return Ok(None),
            Err(fault) => return Err(fault),
        };
        files.sort_by(|a, b| compare_natural(a, b));
        for path in files {
            let started = match self.progress.record_at_path(user_id, &path)? {
                Some(record) => Some(record),
                None => match self.progress_at_path(user_id, &path).await {
                    Ok(begun) => begun,
                    Err(_) => continue,
                },
            };
            if started.as_ref().is_none_or(|record| !record.completed) {
                return Ok(Some(NextUp { title: file_stem(&path).to_owned(), path, after, started }));
            }
        }
        Ok(None)
    }
}

/// Whether file `other` of the same folder may be the next part after `this`: it sorts later, and the names are equal up
/// to the first digit. So episodes of a series follow each other, and unrelated films do not.
pub fn is_next_part(this: &str, other: &str) -> bool {
    let name_before_number = |path: &str| -> String {
        let head: String = file_stem(path).chars().take_while(|c| !c.is_ascii_digit()).collect();
        let has_number = head.len() < file_stem(path).len();
        if has_number { head.to_lowercase() } else { String::new() }
    };
    compare_natural(this, other).is_lt() && name_before_number(this) == name_before_number(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_follow_each_other_and_unlike_films_do_not() {
        for (this, other, expected) in [
            ("/s/Show S01E01 Pilot.mkv", "/s/Show S01E02 More.mkv", true),
            ("/s/Show S01E02.mkv", "/s/Show S01E10.mkv", true),
            ("/s/Show S01E02.mkv", "/s/Show S01E01.mkv", false),
            ("/s/Show S01E02.mkv", "/s/Show S01E02.mkv", false),
            ("/s/01 - Intro.mp3", "/s/02 - First.mp3", true),
            ("/f/Alien (1979).mkv", "/f/Brazil (1985).mkv", false),
            ("/f/a.mkv", "/f/b.mkv", true),
        ] {
            assert_eq!(is_next_part(this, other), expected, "{this} -> {other}");
        }
    }
}
