//! The episode of a series to watch next.

use crate::domain::progress::ProgressStatus;

/// A user's progress in one episode, in the order of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodeProgress {
    /// In season 0.
    pub is_special: bool,
    pub status: ProgressStatus,
    /// When it was last watched, ms since 1970; None if it was never started.
    pub watched_ms: Option<i64>,
}

/// The index of the episode to watch next: the one watched last if it is not completed, otherwise the first one after it that
/// is not completed. A series that was never begun starts with its first episode. Specials follow only specials. None after
/// the end.
pub fn next_episode(episodes: &[EpisodeProgress]) -> Option<usize> {
    let is_open = |episode: &EpisodeProgress| episode.status != ProgressStatus::Completed;
    let watched = episodes.iter().enumerate().filter(|(_, episode)| episode.watched_ms.is_some());
    let Some((last, episode)) = watched.max_by_key(|(at, episode)| (episode.watched_ms, *at)) else {
        let regular = episodes.iter().position(|episode| !episode.is_special);
        return regular.or_else(|| (!episodes.is_empty()).then_some(0));
    };
    if is_open(episode) {
        return Some(last);
    }
    let later = episodes.iter().enumerate().skip(last + 1);
    let mut later = later.filter(|(_, next)| next.is_special == episode.is_special && is_open(next));
    later.next().map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `-` not started, `p` in progress, `c` completed, in capitals for specials; then the order of watching.
    fn next(episodes: &str, watched: &[usize]) -> Option<usize> {
        let progress = episodes.chars().enumerate().map(|(at, c)| EpisodeProgress {
            is_special: c.is_uppercase() || c == '+',
            status: match c.to_ascii_lowercase() {
                'c' => ProgressStatus::Completed,
                'p' => ProgressStatus::InProgress,
                _ => ProgressStatus::Untouched,
            },
            watched_ms: watched.iter().position(|watched| *watched == at).map(|order| order as i64),
        });
        next_episode(&progress.collect::<Vec<_>>())
    }

    #[test]
    fn the_next_episode_follows_the_one_watched_last() {
        for (episodes, watched, expected) in [
            ("---", &[][..], Some(0)),
            ("c--", &[0], Some(1)),
            ("cp-", &[0, 1], Some(1)),
            ("ccc", &[0, 1, 2], None),
            ("c-c-", &[0, 2], Some(3)),
            ("c-c-", &[2, 0], Some(1)),
            ("--c", &[2], None),
            ("pc-", &[0, 1], Some(2)),
            ("++--", &[], Some(2)),
            ("++", &[], Some(0)),
            ("c-+", &[0], Some(1)),
            ("c+", &[0], None),
            ("--C+", &[2], Some(3)),
            ("", &[], None),
        ] {
            assert_eq!(next(episodes, watched), expected, "{episodes} {watched:?}");
        }
    }
}
