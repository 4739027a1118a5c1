//! Next up: the episode of a series to watch after the one watched last, and the next file of a folder of audio.

use std::collections::HashSet;

use super::item::{ItemId, SeriesId};
use super::scan::{parse_names, split_path};
use super::series::{Progress, in_order, number_order, state};
use crate::domain::access::Principal;
use crate::domain::catalogue::{EpisodeProgress, ItemKind, next_episode};
use crate::domain::library::{compare_natural, file_stem};
use crate::domain::progress::{ProgressRecord, ProgressStatus};
use crate::domain::visibility::VisiblePaths;
use crate::error::{Code, Result};
use crate::service::Service;
use crate::service::library::listing::{EntryKind, MAX_LIMIT};
use crate::service::progress::HistoryFilter;

/// Most series and folders searched for one request.
const MAX_GROUPS: usize = 100;

/// Most records of completed files read for one request.
const MAX_RECORDS: usize = 2000;

/// Records read at once.
const PAGE_RECORDS: usize = 200;

/// A file to watch next.
pub struct NextUp {
    pub path: String,
    pub title: String,
    /// The record of the completed file before it.
    pub after: ProgressRecord,
    /// The progress of this file, if it was started.
    pub started: Option<ProgressRecord>,
}

/// The files of which one follows another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Group {
    Series(SeriesId),
    /// Files without a series in one folder.
    Folder(String),
}

impl Service {
    /// The next file of every series and folder in which a user completed one, that watched last first. Completed files are
    /// skipped; a group without a next file gives no row. Nothing follows a film.
    ///
    /// # Errors
    /// `INTERNAL` for a record of progress that cannot be read.
    pub async fn next_up(&self, user: &Principal, limit: usize) -> Result<Vec<NextUp>> {
        let filter = HistoryFilter { status: Some(ProgressStatus::Completed), ..HistoryFilter::default() };
        let progress = self.progress_of_items(&user.user_id);
        let paths = self.library.visible_paths(&user.visibility);
        let (mut found, mut groups, mut cursor, mut read_count) = (Vec::new(), HashSet::new(), None, 0);
        loop {
            let page = self.history(user, filter.clone(), cursor.as_deref(), PAGE_RECORDS)?;
            read_count += page.entries.len();
            for record in page.entries {
                if groups.len() >= MAX_GROUPS || found.len() >= limit {
                    return Ok(found);
                }
                let Some(group) = self.group_of(&paths, &record) else { continue };
                if !groups.insert(group.clone()) {
                    continue;
                }
                found.extend(match group {
                    Group::Series(id) => self.next_in_series(&user.user_id, &paths, id, record, &progress)?,
                    Group::Folder(folder) => self.next_in_folder(user, &folder, record).await?,
                });
            }
            cursor = page.next_cursor;
            if cursor.is_none() || read_count >= MAX_RECORDS {
                return Ok(found);
            }
        }
    }

    /// The group of a file, which may be gone; None for a film or video that stands alone.
    fn group_of(&self, paths: &VisiblePaths, record: &ProgressRecord) -> Option<Group> {
        let index = self.catalogue.read_index();
        let index = index.seen_in(paths);
        let item = ItemId::parse(&record.media_id).and_then(|id| index.by_id(id));
        if item.is_some_and(|item| index.book_folder(item).is_some()) {
            // Its progress becomes that of the book.
            return None;
        }
        let (kind, series) = match item {
            Some(item) => (Some(item.kind), item.series().map(|(id, _)| *id)),
            None => {
                let names = parse_names(self.library.roots(), &record.path);
                let kind = names.as_ref().map(|names| names.kind);
                let series = names.and_then(|names| Some(SeriesId::new(names.series.as_ref()?, names.series_year)));
                (kind, series.filter(|id| index.series(*id).is_some()))
            }
        };
        match (kind, series) {
            (Some(ItemKind::Episode), Some(series)) => Some(Group::Series(series)),
            (Some(ItemKind::Film | ItemKind::HomeVideo | ItemKind::Extra), _) => None,
            _ => Some(Group::Folder(split_path(&record.path).0.to_owned())),
        }
    }

    fn next_in_series(
        &self,
        user_id: &str,
        paths: &VisiblePaths,
        series: SeriesId,
        after: ProgressRecord,
        progress: &Progress,
    ) -> Result<Option<NextUp>> {
        let next = {
            let index = self.catalogue.read_index();
            let index = index.seen_in(paths);
            let Some(items) = index.series(series) else { return Ok(None) };
            let mut episodes: Vec<_> = in_order(index, items).into_iter().map(Some).collect();
            let mut states: Vec<EpisodeProgress> =
                episodes.iter().flatten().map(|item| state(item, progress)).collect();
            let completed = ItemId::parse(&after.media_id);
            if !episodes.iter().flatten().any(|item| Some(item.id) == completed) {
                // It was completed and removed: what follows its number is next.
                let names = parse_names(self.library.roots(), &after.path);
                let (season, episode) = names.map_or((None, None), |names| (names.season, names.episode));
                let order = number_order(season, episode);
                let at = episodes.partition_point(|item| {
                    item.is_some_and(|item| number_order(item.season(), item.episode()) <= order)
                });
                episodes.insert(at, None);
                let watched_ms = Some(after.last_watched_at.as_millisecond());
                let is_special = season == Some(0);
                states.insert(at, EpisodeProgress { is_special, status: ProgressStatus::Completed, watched_ms });
            }
            let next = next_episode(&states).and_then(|at| episodes[at]);
            next.map(|item| (item.id, item.path()))
        };
        let Some((id, path)) = next else { return Ok(None) };
        let started = self.progress.record(user_id, &id.to_string())?;
        let started = started.map(|record| ProgressRecord { path: path.clone(), ..record });
        Ok(Some(NextUp { title: file_stem(&path).to_owned(), path, after, started }))
    }

    async fn next_in_folder(&self, user: &Principal, folder: &str, after: ProgressRecord) -> Result<Option<NextUp>> {
        let mut files: Vec<String> = match self.library.list_seen(&user.visibility, folder, MAX_LIMIT, None).await {
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
            let started = match self.progress.record_at_path(&user.user_id, &path)? {
                Some(record) => Some(record),
                None => match self.progress_at_path(user, &path).await {
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
fn is_next_part(this: &str, other: &str) -> bool {
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
