//! Matches the entries of a refreshed list to the channels of the previous one. Lists get reordered, entries renamed and
//! URLs get new passwords, but players' favourites must stay valid.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::domain::address::Address;

/// Fields that identify an entry.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// Empty if it has none.
    pub tvg_id: &'a str,
    pub name: &'a str,
    pub url: &'a Address,
}

/// For each mark of `after`, its index in `before`. The most reliable fields are compared first, and each of `before` is
/// matched at most once. A value shared by several entries matches nothing, except where complete duplicates are matched
/// in order.
pub fn follow(before: &[Mark<'_>], after: &[Mark<'_>]) -> Vec<Option<usize>> {
    let mut pairs = Pairs { before, after, found: vec![None; after.len()], taken: vec![false; before.len()] };
    pairs.by(true, |mark| Some((mark.url, mark.tvg_id, mark.name)));
    pairs.by(false, |mark| Some((mark.url, mark.tvg_id)).filter(|_| !mark.tvg_id.is_empty()));
    pairs.by(false, |mark| Some((mark.url, mark.name)));
    pairs.by(false, |mark| Some(mark.url));
    pairs.by(false, |mark| Some((mark.tvg_id, mark.name)).filter(|_| !mark.tvg_id.is_empty()));
    // The same URL with another token in the query.
    pairs.by(false, |mark| Some((mark.name, place(mark.url))));
    pairs.by(false, |mark| Some(mark.tvg_id).filter(|id| !id.is_empty()));
    pairs.by(false, |mark| Some(place(mark.url)));
    pairs.by(false, |mark| Some(mark.name));
    pairs.found
}

/// A URL without its query.
fn place(url: &Address) -> Cow<'_, str> {
    let text = url.secret().as_str();
    Cow::Borrowed(text.split('?').next().unwrap_or(text))
}

struct Pairs<'a> {
    before: &'a [Mark<'a>],
    after: &'a [Mark<'a>],
    found: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl<'a> Pairs<'a> {
    /// Pairs entries with the same key: one with one, or with `in_order` the first with the first and so on.
    fn by<S: Eq + Hash>(&mut self, in_order: bool, sign: impl Fn(&'a Mark<'a>) -> Option<S>) {
        let mut signs: HashMap<S, (Vec<usize>, Vec<usize>)> = HashMap::new();
        for (at, mark) in self.before.iter().enumerate().filter(|(at, _)| !self.taken[*at]) {
            if let Some(sign) = sign(mark) {
                signs.entry(sign).or_default().0.push(at);
            }
        }
        for (at, mark) in self.after.iter().enumerate().filter(|(at, _)| self.found[*at].is_none()) {
            if let Some(known) = sign(mark).and_then(|sign| signs.get_mut(&sign)) {
                known.1.push(at);
            }
        }
        for (was, is) in signs.into_values() {
            if in_order || (was.len(), is.len()) == (1, 1) {
                for (was, is) in was.into_iter().zip(is) {
                    self.found[is] = Some(was);
                    self.taken[was] = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_found_again_by_whatever_stayed() {
        let url = |text: &str| Address::read(&format!("http://tv.example/{text}")).unwrap();
        let urls = ["1?t=a", "2?t=a", "3", "4", "5", "6", "6", "8"].map(url);
        let told = [("a", "A"), ("b", "B"), ("", "C"), ("d", "D"), ("e", "E"), ("", "F"), ("", "F"), ("", "H")];
        let before: Vec<Mark> =
            told.iter().zip(&urls).map(|((tvg_id, name), url)| Mark { tvg_id, name, url }).collect();
        let all =
            |found: Vec<Option<usize>>| found.into_iter().map(|at| at.map_or(-1, |at| at as i32)).collect::<Vec<_>>();
        assert_eq!(all(follow(&before, &before)), [0, 1, 2, 3, 4, 5, 6, 7]);

        let new = ["3", "1?t=b", "2?t=b", "moved", "5", "6", "new", "8?u=1"].map(url);
        let now = [
            ("", "C renamed"),
            ("a", "A"),
            ("b", "B HD"),
            ("d", "D HD"),
            ("e2", "E"),
            ("", "F"),
            ("x", "X"),
            ("", "H"),
        ];
        let after: Vec<Mark> = now.iter().zip(&new).map(|((tvg_id, name), url)| Mark { tvg_id, name, url }).collect();
        assert_eq!(all(follow(&before, &after)), [2, 0, 1, 3, 4, 5, -1, 7]);
        let reversed: Vec<Mark> = before.iter().rev().copied().collect();
        assert_eq!(all(follow(&before, &reversed)), [7, 5, 6, 4, 3, 2, 1, 0]);
        assert_eq!(all(follow(&[], &after)), [-1; 8]);
        // Two entries with the same values on both sides cannot be distinguished.
        let (same, other) = ([url("x"), url("y")], [url("v"), url("w")]);
        fn pair(urls: &[Address; 2]) -> [Mark<'_>; 2] {
            [Mark { tvg_id: "t", name: "T", url: &urls[0] }, Mark { tvg_id: "t", name: "T", url: &urls[1] }]
        }
        assert_eq!(all(follow(&pair(&same), &pair(&other))), [-1, -1]);
    }
}
