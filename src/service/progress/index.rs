//! One user's started items in memory, newest first, so that the cost of a page does not depend on the number of records.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;

use super::HistoryPage;
use crate::domain::progress::{MediaType, ProgressRecord, ProgressStatus};
use crate::domain::visibility::VisiblePaths;
use crate::error::{Error, Result};

/// Which records a list shows.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    pub media_type: Option<MediaType>,
    pub status: Option<ProgressStatus>,
    /// Only records of files that the user sees.
    pub paths: VisiblePaths,
}

/// A user's progress in an item, as far as lists need it.
#[derive(Clone, Copy, Debug)]
pub struct ItemProgress {
    pub status: ProgressStatus,
    /// When it was last watched, ms since 1970.
    pub watched_ms: i64,
}

/// Newest first, then by path, then by id.
type HistoryOrder = (Reverse<i64>, Arc<str>, Arc<str>);

/// The indexed fields of one record.
#[derive(Clone, Debug)]
struct IndexedRecord {
    path: Arc<str>,
    watched_ms: i64,
    size_bytes: u64,
    type_and_status: (MediaType, ProgressStatus),
}

/// One user's records.
#[derive(Debug, Default)]
pub struct HistoryIndex {
    rows: HashMap<Arc<str>, IndexedRecord>,
    newest_first: BTreeMap<HistoryOrder, (MediaType, ProgressStatus)>,
    by_path: HashMap<Arc<str>, Arc<str>>,
    count_by_type: HashMap<(MediaType, ProgressStatus), usize>,
}

impl HistoryIndex {
    /// Adds a record, replacing the former one of its item.
    pub fn put(&mut self, record: &ProgressRecord) {
        self.remove(&record.media_id);
        if record.is_reset {
            return;
        }
        let (id, path): (Arc<str>, Arc<str>) = (record.media_id.as_str().into(), record.path.as_str().into());
        let type_and_status = (record.media_type.clone(), record.status());
        let row = IndexedRecord {
            path: path.clone(),
            watched_ms: record.last_watched_at.as_millisecond(),
            size_bytes: record.size_bytes,
            type_and_status: type_and_status.clone(),
        };
        self.newest_first.insert((Reverse(row.watched_ms), path.clone(), id.clone()), type_and_status.clone());
        self.by_path.insert(path, id.clone());
        *self.count_by_type.entry(type_and_status).or_default() += 1;
        self.rows.insert(id, row);
    }

    pub fn remove(&mut self, id: &str) {
        let Some((id, row)) = self.rows.remove_entry(id) else { return };
        if self.by_path.get(&row.path) == Some(&id) {
            self.by_path.remove(&row.path);
        }
        self.newest_first.remove(&(Reverse(row.watched_ms), row.path, id));
        if let Some(count) = self.count_by_type.get_mut(&row.type_and_status) {
            *count -= 1;
            // Players choose media types freely, so unused ones are removed.
            if *count == 0 {
                self.count_by_type.remove(&row.type_and_status);
            }
        }
    }

    pub fn item_at_path(&self, path: &str) -> Option<&Arc<str>> {
        self.by_path.get(path)
    }

    /// Status and time of every item.
    pub fn item_progress(&self) -> impl Iterator<Item = (&Arc<str>, ItemProgress)> {
        self.rows
            .iter()
            .map(|(id, row)| (id, ItemProgress { status: row.type_and_status.1, watched_ms: row.watched_ms }))
    }

    /// Every item with its last known path and its size.
    pub fn known_items(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, u64)> {
        self.rows.iter().map(|(id, row)| (id, &row.path, row.size_bytes))
    }

    /// A page of at most `limit` ids.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor.
    pub fn page(&self, filter: HistoryFilter, cursor: Option<&str>, limit: usize) -> Result<HistoryPage<Arc<str>>> {
        let lower_bound = cursor.map(decode_cursor).transpose()?.map_or(Bound::Unbounded, Bound::Excluded);
        let matches_filter = |kind: &(MediaType, ProgressStatus)| {
            filter.media_type.as_ref().is_none_or(|requested| *requested == kind.0)
                && filter.status.is_none_or(|requested| requested == kind.1)
        };
        let matches = |((_, path, _), kind): &(&HistoryOrder, &(MediaType, ProgressStatus))| {
            matches_filter(kind) && filter.paths.contains(path)
        };
        let rows = self.newest_first.range((lower_bound, Bound::Unbounded)).filter(matches);
        let mut page: Vec<&HistoryOrder> = rows.map(|(order, _)| order).take(limit + 1).collect();
        let total = match filter.paths.is_all() {
            true => self.count_by_type.iter().filter(|(kind, _)| matches_filter(kind)).map(|(_, count)| count).sum(),
            false => self.newest_first.iter().filter(matches).count(),
        };
        let has_more = page.len() > limit;
        page.truncate(limit);
        Ok(HistoryPage {
            total,
            next_cursor: page.last().filter(|_| has_more).map(|last| encode_cursor(last)),
            entries: page.into_iter().map(|(_, _, id)| id.clone()).collect(),
        })
    }
}

fn encode_cursor((Reverse(watched_ms), path, id): &HistoryOrder) -> String {
    BASE64URL_NOPAD.encode(format!("{watched_ms} {id} {path}").as_bytes())
}

fn decode_cursor(cursor: &str) -> Result<HistoryOrder> {
    let invalid =
        || Error::invalid_field("cursor", "is not a cursor of this server: pass the `nextCursor` of the previous page");
    let text = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(invalid)?;
    let mut parts = text.splitn(3, ' ');
    let (Some(ms), Some(id), Some(path)) = (parts.next(), parts.next(), parts.next()) else { return Err(invalid()) };
    Ok((Reverse(ms.parse().map_err(|_| invalid())?), path.into(), id.into()))
}
