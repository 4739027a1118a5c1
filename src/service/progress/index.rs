//! One user's started items in memory, newest first, so that the cost of a page does not depend on the number of records.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;

use crate::domain::progress::{MediaType, ProgressRecord, ProgressStatus};
use crate::error::{Error, Result};

/// Which records a list shows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub media_type: Option<MediaType>,
    pub status: Option<ProgressStatus>,
}

/// Newest first, then by path, then by id.
type Order = (Reverse<i64>, Arc<str>, Arc<str>);

/// The indexed fields of one record.
#[derive(Clone, Debug)]
struct Row {
    path: Arc<str>,
    watched_ms: i64,
    size_bytes: u64,
    kind: (MediaType, ProgressStatus),
}

/// One user's records.
#[derive(Debug, Default)]
pub struct Index {
    rows: HashMap<Arc<str>, Row>,
    recent: BTreeMap<Order, (MediaType, ProgressStatus)>,
    by_path: HashMap<Arc<str>, Arc<str>>,
    counts: HashMap<(MediaType, ProgressStatus), usize>,
}

/// Ids of one page, and where the next one begins.
pub struct Found {
    pub ids: Vec<Arc<str>>,
    pub total: usize,
    pub next_cursor: Option<String>,
}

impl Index {
    /// Adds a record, replacing the former one of its item.
    pub fn put(&mut self, record: &ProgressRecord) {
        self.remove(&record.media_id);
        if record.is_reset {
            return;
        }
        let (id, path): (Arc<str>, Arc<str>) = (record.media_id.as_str().into(), record.path.as_str().into());
        let kind = (record.media_type.clone(), record.status());
        let row = Row {
            path: path.clone(),
            watched_ms: record.last_watched_at.as_millisecond(),
            size_bytes: record.size_bytes,
            kind: kind.clone(),
        };
        self.recent.insert((Reverse(row.watched_ms), path.clone(), id.clone()), kind.clone());
        self.by_path.insert(path, id.clone());
        *self.counts.entry(kind).or_default() += 1;
        self.rows.insert(id, row);
    }

    /// Removes an item.
    pub fn remove(&mut self, id: &str) {
        let Some((id, row)) = self.rows.remove_entry(id) else { return };
        if self.by_path.get(&row.path) == Some(&id) {
            self.by_path.remove(&row.path);
        }
        self.recent.remove(&(Reverse(row.watched_ms), row.path, id));
        if let Some(count) = self.counts.get_mut(&row.kind) {
            *count -= 1;
            // Players choose media types freely, so unused ones are removed.
            if *count == 0 {
                self.counts.remove(&row.kind);
            }
        }
    }

    /// The item last seen at a path.
    pub fn at(&self, path: &str) -> Option<&Arc<str>> {
        self.by_path.get(path)
    }

    /// Every item with its last known path and its size.
    pub fn places(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, u64)> {
        self.rows.iter().map(|(id, row)| (id, &row.path, row.size_bytes))
    }

    /// A page of at most `limit` ids.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor.
    pub fn page(&self, filter: Filter, cursor: Option<&str>, limit: usize) -> Result<Found> {
        let begin = match cursor {
            Some(cursor) => Bound::Excluded(read(cursor)?),
            None => Bound::Unbounded,
        };
        let fits = |kind: &(MediaType, ProgressStatus)| {
            filter.media_type.as_ref().is_none_or(|wanted| *wanted == kind.0)
                && filter.status.is_none_or(|w| w == kind.1)
        };
        let rows = self.recent.range((begin, Bound::Unbounded)).filter(|(_, kind)| fits(kind));
        let mut page: Vec<&Order> = rows.map(|(order, _)| order).take(limit + 1).collect();
        let more = page.len() > limit;
        page.truncate(limit);
        Ok(Found {
            total: self.counts.iter().filter(|(kind, _)| fits(kind)).map(|(_, count)| count).sum(),
            next_cursor: page.last().filter(|_| more).map(|last| write(last)),
            ids: page.into_iter().map(|(_, _, id)| id.clone()).collect(),
        })
    }
}

fn write((Reverse(watched_ms), path, id): &Order) -> String {
    BASE64URL_NOPAD.encode(format!("{watched_ms} {id} {path}").as_bytes())
}

fn read(cursor: &str) -> Result<Order> {
    let invalid =
        || Error::field("cursor", "is not a cursor of this server: pass the `nextCursor` of the previous page");
    let text = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(invalid)?;
    let mut parts = text.splitn(3, ' ');
    let (Some(ms), Some(id), Some(path)) = (parts.next(), parts.next(), parts.next()) else { return Err(invalid()) };
    Ok((Reverse(ms.parse().map_err(|_| invalid())?), path.into(), id.into()))
}
