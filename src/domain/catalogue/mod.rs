//! The catalogue's rules: a file's kind and titles from its names, titles as they are sorted and searched, and which source of a
//! field wins.

pub mod album;
pub mod artwork;
mod facts;
pub mod fold;
pub mod frame_choice;
mod ids;
pub mod names;
mod next_episode;
pub mod playlist_file;
pub mod search_index;
mod sort_title;

pub use facts::{Facts, MAX_TITLE_CHARS, Sources};
pub use ids::{AlbumId, ItemId, SeriesId};
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
    /// The field by which albums and books are sorted.
    pub enum AlbumSortKey {
        /// Artist or author, then year and title.
        Artist = "artist",
        Title = "title",
        /// The newest first.
        Added = "added",
        /// The latest first.
        Year = "year",
    }
}

named_values! {
    /// The field by which artists are sorted.
    pub enum ArtistSortKey {
        Name = "name",
        /// The newest file first.
        Added = "added",
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
