//! Matches the entries of a refreshed list to the channels of the previous one. Lists get reordered, entries renamed and
//! URLs get new passwords, but players' favourites must stay valid.

use std::collections::HashMap;
use std::hash::Hash;

use crate::domain::address::Address;

/// Fields that identify an entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryKey<'a> {
    /// Empty if it has none.
    pub tvg_id: &'a str,
    pub name: &'a str,
    pub url: &'a Address,
}

/// For each entry of `after`, its index in `before`. The most reliable fields are compared first, and each of `before` is
/// matched at most once. A value shared by several entries matches nothing, except where complete duplicates are matched
/// in order.
pub fn match_entries(before: &[EntryKey<'_>], after: &[EntryKey<'_>]) -> Vec<Option<usize>> {
    let mut pairs = Matcher { before, after, matches: vec![None; after.len()], is_taken: vec![false; before.len()] };
    pairs.match_by(true, |entry| Some((entry.url, entry.tvg_id, entry.name)));
    pairs.match_by(false, |entry| Some((entry.url, entry.tvg_id)).filter(|_| !entry.tvg_id.is_empty()));
    pairs.match_by(false, |entry| Some((entry.url, entry.name)));
    pairs.match_by(false, |entry| Some(entry.url));
    pairs.match_by(false, |entry| Some((entry.tvg_id, entry.name)).filter(|_| !entry.tvg_id.is_empty()));
    // The same URL with another token in the query.
    pairs.match_by(false, |entry| Some((entry.name, without_query(entry.url))));
    pairs.match_by(false, |entry| Some(entry.tvg_id).filter(|id| !id.is_empty()));
    pairs.match_by(false, |entry| Some(without_query(entry.url)));
    pairs.match_by(false, |entry| Some(entry.name));
    pairs.matches
}

fn without_query(url: &Address) -> &str {
    let text = url.full_url().as_str();
    text.split('?').next().unwrap_or(text)
}

struct Matcher<'a> {
    before: &'a [EntryKey<'a>],
    after: &'a [EntryKey<'a>],
    matches: Vec<Option<usize>>,
    is_taken: Vec<bool>,
}

impl<'a> Matcher<'a> {
    /// Pairs entries with the same key: one with one, or with `in_order` the first with the first and so on.
    fn match_by<S: Eq + Hash>(&mut self, in_order: bool, key: impl Fn(&'a EntryKey<'a>) -> Option<S>) {
        let mut indices_by_key: HashMap<S, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for (at, entry) in self.before.iter().enumerate().filter(|(at, _)| !self.is_taken[*at]) {
            if let Some(key_value) = key(entry) {
                indices_by_key.entry(key_value).or_default().0.push(at);
            }
        }
        for (at, entry) in self.after.iter().enumerate().filter(|(at, _)| self.matches[*at].is_none()) {
            if let Some(indices) = key(entry).and_then(|key_value| indices_by_key.get_mut(&key_value)) {
                indices.1.push(at);
            }
        }
        for (old, new) in indices_by_key.into_values() {
            if in_order || (old.len(), new.len()) == (1, 1) {
                for (old_index, new_index) in old.into_iter().zip(new) {
                    self.matches[new_index] = Some(old_index);
                    self.is_taken[old_index] = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_matched_by_its_unchanged_fields() {
        let url = |text: &str| Address::parse(&format!("http://tv.example/{text}")).unwrap();
        let urls = ["1?t=a", "2?t=a", "3", "4", "5", "6", "6", "8"].map(url);
        let entries = [("a", "A"), ("b", "B"), ("", "C"), ("d", "D"), ("e", "E"), ("", "F"), ("", "F"), ("", "H")];
        let before: Vec<EntryKey> =
            entries.iter().zip(&urls).map(|((tvg_id, name), url)| EntryKey { tvg_id, name, url }).collect();
        let to_numbers =
            |found: Vec<Option<usize>>| found.into_iter().map(|at| at.map_or(-1, |at| at as i32)).collect::<Vec<_>>();
        assert_eq!(to_numbers(match_entries(&before, &before)), [0, 1, 2, 3, 4, 5, 6, 7]);

        let new = ["3", "1?t=b", "2?t=b", "moved", "5", "6", "new", "8?u=1"].map(url);
        let new_entries = [
            ("", "C renamed"),
            ("a", "A"),
            ("b", "B HD"),
            ("d", "D HD"),
            ("e2", "E"),
            ("", "F"),
            ("x", "X"),
            ("", "H"),
        ];
        let after: Vec<EntryKey> =
            new_entries.iter().zip(&new).map(|((tvg_id, name), url)| EntryKey { tvg_id, name, url }).collect();
        assert_eq!(to_numbers(match_entries(&before, &after)), [2, 0, 1, 3, 4, 5, -1, 7]);
        let reversed: Vec<EntryKey> = before.iter().rev().copied().collect();
        assert_eq!(to_numbers(match_entries(&before, &reversed)), [7, 5, 6, 4, 3, 2, 1, 0]);
        assert_eq!(to_numbers(match_entries(&[], &after)), [-1; 8]);
        // Two entries with the same values on both sides cannot be distinguished.
        let (same, other) = ([url("x"), url("y")], [url("v"), url("w")]);
        fn pair(urls: &[Address; 2]) -> [EntryKey<'_>; 2] {
            [EntryKey { tvg_id: "t", name: "T", url: &urls[0] }, EntryKey { tvg_id: "t", name: "T", url: &urls[1] }]
        }
        assert_eq!(to_numbers(match_entries(&pair(&same), &pair(&other))), [-1, -1]);
    }
}
