//! Series rules: which programmes of a guide are recorded automatically.

use serde::{Deserialize, Serialize};

use super::{Keep, Padding};

/// Maximum number of handled airings a rule remembers.
const REMEMBERED: usize = 4096;

/// One programme of a guide, with the fields a recording needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Airing {
    /// Its id in the guide.
    pub entry: Option<String>,
    pub title: String,
    pub subtitle: Option<String>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub start_ms: i64,
    pub end_ms: i64,
    /// Key of the content, the same for every airing of it.
    pub item: String,
    /// Not a known repeat.
    pub new: bool,
}

/// A series that is recorded whenever it is aired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub id: String,
    pub channel_id: u32,
    pub user_id: String,
    pub title: String,
    pub new_only: bool,
    pub padding: Padding,
    #[serde(rename = "keep")]
    pub keep: Keep,
    pub created_ms: i64,
    /// Keys of handled airings and, with `new_only`, of their content; the newest last.
    #[serde(rename = "seen")]
    pub seen: Vec<String>,
}

impl Rule {
    /// Whether a programme is to be recorded.
    pub fn wants(&self, airing: &Airing) -> bool {
        let same = airing.title.trim().to_lowercase() == self.title.trim().to_lowercase();
        let known = |key: String| self.seen.contains(&key);
        same && !known(on(airing.start_ms)) && !(self.new_only && (!airing.new || known(of(&airing.item))))
    }

    /// Marks a programme as handled, so that it is not recorded again when its recording is deleted.
    pub fn remember(&mut self, airing: &Airing) {
        self.seen.push(on(airing.start_ms));
        if self.new_only {
            self.seen.push(of(&airing.item));
        }
        let over = self.seen.len().saturating_sub(REMEMBERED);
        self.seen.drain(..over);
    }

    /// Removes the mark: the programme is no longer on at that time.
    pub fn forget(&mut self, start_ms: i64, item: &str) {
        let (on, of) = (on(start_ms), of(item));
        self.seen.retain(|key| *key != on && *key != of);
    }
}

fn on(start_ms: i64) -> String {
    format!("at {start_ms}")
}

fn of(item: &str) -> String {
    format!("of {item}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn airing(title: &str, start_ms: i64, item: &str, new: bool) -> Airing {
        Airing {
            entry: None,
            title: title.into(),
            subtitle: None,
            season: None,
            episode: None,
            start_ms,
            end_ms: start_ms + 10,
            item: item.into(),
            new,
        }
    }

    fn rule(new_only: bool) -> Rule {
        Rule {
            id: "ser_1".into(),
            channel_id: 1,
            user_id: "u_1".into(),
            title: " The Show".into(),
            new_only,
            padding: Padding::default(),
            keep: Keep::default(),
            created_ms: 0,
            seen: Vec::new(),
        }
    }

    #[test]
    fn each_airing_is_wanted_once() {
        let mut all = rule(false);
        assert!(all.wants(&airing("the show", 1, "a", false)) && !all.wants(&airing("The Shows", 1, "a", true)));
        all.remember(&airing("The Show", 1, "a", true));
        assert!(!all.wants(&airing("The Show", 1, "a", true)) && all.wants(&airing("The Show", 2, "a", true)));
        all.forget(1, "a");
        assert!(all.wants(&airing("The Show", 1, "a", true)));
    }

    #[test]
    fn what_is_not_new_is_not_wanted_where_only_what_is_new_is() {
        let mut new = rule(true);
        assert!(new.wants(&airing("The Show", 1, "a", true)) && !new.wants(&airing("The Show", 1, "a", false)));
        new.remember(&airing("The Show", 1, "a", true));
        assert!(!new.wants(&airing("The Show", 2, "a", true)) && new.wants(&airing("The Show", 2, "b", true)));
        for n in 0..10_000 {
            new.remember(&airing("The Show", n, &n.to_string(), true));
        }
        assert_eq!(new.seen.len(), REMEMBERED);
    }
}
