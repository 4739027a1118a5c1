//! Pages of sorted lists, and the cursors between them.

use std::fmt::Display;

use data_encoding::BASE64URL_NOPAD;

use crate::error::{Error, Result};

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub entries: Vec<T>,
    /// Entries on all pages.
    pub total: usize,
    /// None on the last page.
    pub next_cursor: Option<String>,
}

/// Where an entry is in a list: the text by which it is sorted, then its id.
pub(super) type SortPosition<I> = (String, I);

impl<T> Page<T> {
    /// Sorts a list, and takes the entries after a position.
    pub(super) fn cut<I>(mut list: Vec<(SortPosition<I>, T)>, after: Option<&SortPosition<I>>, limit: usize) -> Self
    where
        I: Ord + Display,
    {
        list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let total = list.len();
        let start = after.map_or(0, |after| list.partition_point(|(position, _)| position <= after));
        let end = start.saturating_add(limit).min(total);
        let last = list.get(end.wrapping_sub(1)).filter(|_| end < total);
        let next_cursor = last.map(|((text, id), _)| BASE64URL_NOPAD.encode(format!("{id} {text}").as_bytes()));
        let entries = list.drain(start..end).map(|(_, entry)| entry).collect();
        Self { entries, total, next_cursor }
    }

    /// The page with each entry as another type.
    pub(super) fn map<U>(self, to_entry: impl FnMut(T) -> U) -> Page<U> {
        let entries = self.entries.into_iter().map(to_entry).collect();
        Page { entries, total: self.total, next_cursor: self.next_cursor }
    }
}

/// The position that a cursor names.
///
/// # Errors
/// `VALIDATION_ERROR` for a cursor that this server did not make.
pub(super) fn parse_cursor<I>(cursor: &str, parse_id: impl Fn(&str) -> Option<I>) -> Result<SortPosition<I>> {
    let parsed = || {
        let text = String::from_utf8(BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?).ok()?;
        let (id, text) = text.split_once(' ')?;
        Some((text.to_owned(), parse_id(id)?))
    };
    let message = "is not a cursor of this server: pass the `nextCursor` of the previous page";
    parsed().ok_or_else(|| Error::invalid_field("cursor", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<(SortPosition<u8>, char)> {
        [("b", 1, 'c'), ("a", 2, 'b'), ("a", 1, 'a'), ("c", 0, 'd')]
            .map(|(text, id, entry)| ((text.to_owned(), id), entry))
            .to_vec()
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        for limit in 1..=5 {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = Page::cut(list(), after.as_ref(), limit);
                assert!(page.total == 4 && page.entries.len() <= limit);
                found.extend(page.entries);
                let Some(cursor) = page.next_cursor else { break };
                after = Some(parse_cursor(&cursor, |id| id.parse().ok()).unwrap());
            }
            assert_eq!(found, ['a', 'b', 'c', 'd'], "{limit}");
        }
        let beyond = Page::cut(list(), Some(&("z".to_owned(), 0)), 2);
        assert_eq!(beyond, Page { entries: Vec::new(), total: 4, next_cursor: None });
        assert!(parse_cursor("x", |id| id.parse::<u8>().ok()).is_err());
    }
}
