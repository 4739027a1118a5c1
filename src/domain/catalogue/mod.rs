//! The catalogue's rules: a file's kind and titles from its names, titles as they are sorted and searched, and which source of a
//! field wins.

mod facts;
pub mod fold;
pub mod names;
mod next_episode;
pub mod search_index;
mod sort_title;

pub use facts::{Facts, MAX_TITLE_CHARS, Sources};
pub use next_episode::{EpisodeProgress, next_episode};
pub use sort_title::sort_title;

named_values! {
    /// The kind of an item.
    pub enum ItemKind {
        Film = "film",
        Episode = "episode",
        Music = "music",
        /// A part of an audiobook, or a whole one.
        Audiobook = "audiobook",
        /// Made by a camera or a telephone.
        HomeVideo = "homeVideo",
        /// A trailer, a deleted scene, an interview and the like.
        Extra = "extra",
    }
}

named_values! {
    /// Whether a user has watched an item.
    pub enum WatchedFilter {
        /// Neither completed nor in progress.
        Unwatched = "unwatched",
        InProgress = "inProgress",
        Watched = "watched",
    }
}

named_values! {
    /// The field by which items are sorted.
    pub enum SortKey {
        /// Episodes by series and number, music and audiobooks by artist, album and number.
        Title = "title",
        Added = "added",
        Year = "year",
    }
}
