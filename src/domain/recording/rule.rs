//! Series rules: which programmes of a guide are recorded automatically.

use serde::{Deserialize, Serialize};

use super::{Padding, RetentionLimit};

/// Maximum number of handled airings a rule remembers.
const MAX_HANDLED: usize = 4096;

/// One programme of a guide, with the fields a recording needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuideAiring {
    pub guide_entry_id: Option<String>,
    pub title: String,
    pub subtitle: Option<String>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub start_ms: i64,
    pub end_ms: i64,
    /// Key of the content, the same for every airing of it.
    pub content_key: String,
    /// Not a known repeat.
    pub is_new: bool,
}

/// A change of a series rule. Fields without a value stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesRuleChange {
    pub title: Option<String>,
    pub new_only: Option<bool>,
    pub padding: Option<Padding>,
    pub retention: Option<RetentionLimit>,
}

/// A series that is recorded whenever it is aired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesRule {
    pub id: String,
    pub channel_id: u32,
    pub user_id: String,
    pub title: String,
    pub new_only: bool,
    pub padding: Padding,
    #[serde(rename = "keep")]
    pub retention: RetentionLimit,
    pub created_ms: i64,
    /// Keys of handled airings and of their content; the newest last.
    #[serde(rename = "seen")]
    pub handled_keys: Vec<String>,
}

impl SeriesRule {
    /// Whether a programme is to be recorded.
    pub fn matches(&self, airing: &GuideAiring) -> bool {
        let is_same_title = airing.title.trim().to_lowercase() == self.title.trim().to_lowercase();
        let is_handled = |key: String| self.handled_keys.contains(&key);
        is_same_title
            && !is_handled(start_key(airing.start_ms))
            && !(self.new_only && (!airing.is_new || is_handled(item_key(&airing.content_key))))
    }

    /// Applies a change. Returns whether other programmes may match now.
    pub fn apply(&mut self, change: SeriesRuleChange) -> bool {
        let SeriesRuleChange { title, new_only, padding, retention } = change;
        let before = (self.title.clone(), self.new_only);
        self.title = title.unwrap_or_else(|| self.title.clone());
        self.new_only = new_only.unwrap_or(self.new_only);
        self.padding = padding.unwrap_or(self.padding);
        self.retention = retention.unwrap_or(self.retention);
        before != (self.title.clone(), self.new_only)
    }

    /// Marks a programme as handled, so that it is not recorded again when its recording is deleted.
    pub fn mark_handled(&mut self, airing: &GuideAiring) {
        // Both, because `new_only` may be set later.
        self.handled_keys.extend([start_key(airing.start_ms), item_key(&airing.content_key)]);
        let excess = self.handled_keys.len().saturating_sub(MAX_HANDLED);
        self.handled_keys.drain(..excess);
    }

    /// Removes the mark: the programme is no longer on at that time.
    pub fn unmark_handled(&mut self, start_ms: i64, item: &str) {
        let (start, content) = (start_key(start_ms), item_key(item));
        self.handled_keys.retain(|key| *key != start && *key != content);
    }
}

fn start_key(start_ms: i64) -> String {
    format!("at {start_ms}")
}

fn item_key(item: &str) -> String {
    format!("of {item}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn airing(title: &str, start_ms: i64, item: &str, is_new: bool) -> GuideAiring {
        let (title, content_key, end_ms) = (title.into(), item.into(), start_ms + 10);
        GuideAiring { title, start_ms, end_ms, content_key, is_new, ..GuideAiring::default() }
    }

    fn rule(new_only: bool) -> SeriesRule {
        SeriesRule { title: " The Show".into(), new_only, ..SeriesRule::default() }
    }

    #[test]
    fn each_airing_is_recorded_once() {
        let mut all = rule(false);
        assert!(all.matches(&airing("the show", 1, "a", false)) && !all.matches(&airing("The Shows", 1, "a", true)));
        all.mark_handled(&airing("The Show", 1, "a", true));
        assert!(!all.matches(&airing("The Show", 1, "a", true)) && all.matches(&airing("The Show", 2, "a", true)));
        all.unmark_handled(1, "a");
        assert!(all.matches(&airing("The Show", 1, "a", true)));
    }

    #[test]
    fn new_only_rules_skip_repeats() {
        let mut new = rule(true);
        assert!(new.matches(&airing("The Show", 1, "a", true)) && !new.matches(&airing("The Show", 1, "a", false)));
        new.mark_handled(&airing("The Show", 1, "a", true));
        assert!(!new.matches(&airing("The Show", 2, "a", true)) && new.matches(&airing("The Show", 2, "b", true)));
        let mut all = rule(false);
        all.mark_handled(&airing("The Show", 1, "a", true));
        assert!(!all.apply(SeriesRuleChange { title: Some(all.title.clone()), ..SeriesRuleChange::default() }));
        assert!(all.apply(SeriesRuleChange { new_only: Some(true), ..SeriesRuleChange::default() }));
        assert!(!all.matches(&airing("The Show", 2, "a", true)), "recorded before the rule was changed");
        for n in 0..10_000 {
            new.mark_handled(&airing("The Show", n, &n.to_string(), true));
        }
        assert_eq!(new.handled_keys.len(), MAX_HANDLED);
    }
}
