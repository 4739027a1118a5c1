//! Words of documents, found by prefix and with typing errors.

use std::collections::BTreeMap;
use std::ops::Bound;

use smallvec::SmallVec;

use super::fold::words;
use crate::domain::compact_map;

/// Most words of a query.
const MAX_QUERY_WORDS: usize = 8;

/// Longest word that is compared, bytes. Longer ones are cut.
const MAX_WORD_BYTES: usize = 40;

/// Matches by prefix with which a word has no typing error.
const ENOUGH_MATCHES: usize = 3;

/// A part of a document, in the order of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Title = 0,
    /// Series, album, artist.
    Context = 1,
    People = 2,
}

/// Points of a match by field.
const WEIGHTS: [u32; 3] = [4, 3, 2];

/// Documents by their words. A document is a number; small numbers take the least memory.
#[derive(Debug, Default)]
pub struct SearchIndex {
    words: BTreeMap<WordBytes, Postings>,
    /// One above the largest document.
    end: u32,
}

/// UTF-8. Most words are so short that they need no memory of their own.
type WordBytes = SmallVec<[u8; 16]>;

/// Where a word is: document times 4 plus field. Most words are in few places, which need no memory of their own.
type Postings = SmallVec<[u32; 4]>;

impl SearchIndex {
    pub fn insert(&mut self, document: u32, field: Field, text: &str) {
        self.end = self.end.max(document + 1);
        for word in words(text) {
            let word = cut(&word);
            let posting = document * 4 + field as u32;
            match self.words.get_mut(word) {
                Some(postings) if postings.last() == Some(&posting) => {}
                Some(postings) => postings.push(posting),
                None => drop(self.words.insert(word.into(), SmallVec::from_slice(&[posting]))),
            }
        }
    }

    /// Removes a document's words, which must be those of [`Self::insert`].
    pub fn remove(&mut self, document: u32, text: &str) {
        for word in words(text) {
            let word = cut(&word);
            if let Some(postings) = self.words.get_mut(word) {
                postings.retain(|posting| *posting / 4 != document);
                if postings.is_empty() {
                    self.words.remove(word);
                }
            }
        }
    }

    /// Gives back memory that insertions left unused.
    pub fn compact(&mut self) {
        self.words.values_mut().for_each(SmallVec::shrink_to_fit);
        compact_map(&mut self.words);
    }

    /// The documents that have all words of a query, as words, beginnings of words or with typing errors, and their points.
    /// In no order.
    pub fn find(&self, query: &str) -> Vec<(u32, u32)> {
        let query: Vec<String> = words(query).take(MAX_QUERY_WORDS).collect();
        let mut total = vec![0_u32; self.end as usize];
        for (at, word) in query.iter().enumerate() {
            let best = self.match_word(cut(word));
            for (points, best) in total.iter_mut().zip(best) {
                *points = if best == 0 || at > 0 && *points == 0 { 0 } else { *points + best };
            }
        }
        let found = total.into_iter().enumerate().filter(|(_, points)| *points > 0);
        found.map(|(document, points)| (document as u32, points)).collect()
    }

    /// The points of every document for one word.
    fn match_word(&self, word: &[u8]) -> Vec<u32> {
        let mut best = vec![0_u32; self.end as usize];
        let from = self.words.range::<[u8], _>((Bound::Included(word), Bound::Unbounded));
        for (known, found) in from.take_while(|(known, _)| known.starts_with(word)) {
            add_points(&mut best, found, if known.len() == word.len() { 30 } else { 20 });
        }
        let max_errors = match word.len() {
            0..4 => 0,
            4..8 => 1,
            _ => 2,
        };
        if max_errors == 0 || best.iter().filter(|points| **points > 0).take(ENOUGH_MATCHES).count() == ENOUGH_MATCHES {
            return best;
        }
        let letters = letters_of(word);
        for (known, found) in &self.words {
            let may_match = known.len().abs_diff(word.len()) <= max_errors
                && (letters_of(known) ^ letters).count_ones() <= 2 * max_errors as u32;
            if may_match && let Some(errors) = edit_distance(known, word, max_errors) {
                add_points(&mut best, found, 12 - 4 * errors as u32);
            }
        }
        best
    }
}

/// Gives the documents of a word points, unless they have more.
fn add_points(best: &mut [u32], found: &[u32], points: u32) {
    for posting in found {
        let document = &mut best[(posting / 4) as usize];
        *document = (*document).max(points * WEIGHTS[(posting % 4) as usize]);
    }
}

fn cut(word: &str) -> &[u8] {
    &word.as_bytes()[..word.floor_char_boundary(MAX_WORD_BYTES)]
}

/// A bit for each letter, so that most words are excluded before they are compared.
fn letters_of(word: &[u8]) -> u32 {
    word.iter().fold(0, |letters, byte| letters | 1 << (byte % 32))
}

/// Insertions, removals, replacements and swaps of neighbours between two words, if at most `max`. Counts bytes.
fn edit_distance(a: &[u8], b: &[u8], max: usize) -> Option<usize> {
    let mut rows = [[0_usize; MAX_WORD_BYTES + 1]; 3];
    for (at, cell) in rows[1].iter_mut().enumerate() {
        *cell = at;
    }
    for i in 1..=a.len() {
        let [before, previous, current] = &mut rows;
        current[0] = i;
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (previous[j] + 1).min(current[j - 1] + 1).min(previous[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            current[j] = least;
        }
        if current[..=b.len()].iter().all(|cell| *cell > max) {
            return None;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|distance| *distance <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> SearchIndex {
        let mut index = SearchIndex::default();
        for (document, title, people) in [
            (0, "The Matrix", "Keanu Reeves"),
            (1, "The Matrix Reloaded", "Keanu Reeves"),
            (2, "Amélie", "Audrey Tautou"),
            (3, "Die unendliche Geschichte", "Noah Hathaway"),
            (4, "Matterhorn", ""),
            (9, "Reeves Tale", "Ada Matrix"),
        ] {
            index.insert(document, Field::Title, title);
            index.insert(document, Field::People, people);
        }
        index
    }

    fn find(index: &SearchIndex, query: &str) -> Vec<u32> {
        let mut found = index.find(query);
        found.sort_by_key(|(document, points)| (std::cmp::Reverse(*points), *document));
        found.into_iter().map(|(document, _)| document).collect()
    }

    #[test]
    fn words_are_found_by_prefix_with_errors_and_without_diacritics() {
        let index = index();
        for (query, expected) in [
            ("matrix", &[0, 1, 9][..]),
            ("mat", &[0, 1, 4, 9]),
            ("matirx", &[0, 1, 9]),
            ("matrx reloadde", &[1]),
            ("AMELIE", &[2]),
            ("amelei", &[2]),
            ("unendlihce geschcihte", &[3]),
            ("reeves", &[9, 0, 1]),
            ("keanu matrix", &[0, 1]),
            ("xyz", &[]),
            ("mtr", &[]),
            ("", &[]),
            ("matrix xyz", &[]),
        ] {
            assert_eq!(find(&index, query), expected, "{query}");
        }
    }

    #[test]
    fn a_removed_document_leaves_no_word() {
        let mut index = index();
        for (document, text) in [(0, "The Matrix Keanu Reeves"), (9, "Reeves Tale Ada Matrix")] {
            index.remove(document, text);
        }
        assert_eq!(find(&index, "matrix"), [1]);
        assert!(!index.words.contains_key(&b"tale"[..]));
    }

    #[test]
    fn distances_count_swaps_once() {
        for (a, b, expected) in [
            ("matrix", "matrix", Some(0)),
            ("matrix", "matirx", Some(1)),
            ("matrix", "matrx", Some(1)),
            ("matrix", "metrics", None),
            ("kitten", "sitting", None),
        ] {
            assert_eq!(edit_distance(a.as_bytes(), b.as_bytes(), 2), expected, "{a} {b}");
        }
    }
}
