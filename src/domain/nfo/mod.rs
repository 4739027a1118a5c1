//! NFO files: descriptions of films, shows and episodes beside the media, in XML by Kodi's schema (Sonarr, Radarr and
//! tinyMediaManager write it as well).
//!
//! No document type declaration is accepted, so no entity is expanded. Everything is bounded: the bytes, depth and number of
//! elements, each text and each list.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

mod description;
mod element;
mod element_tree;
mod encoding;
mod fields;
mod person;
mod rating;

pub use person::{Person, PersonKind};
pub use rating::Rating;

/// Largest file, bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Most records of one file. A file with several episodes has one for each.
pub const MAX_RECORDS: usize = 8;

/// Why a file has no records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NfoError {
    #[error("the NFO file is larger than 1 MiB")]
    TooLarge,
    #[error("the NFO file contains NUL characters")]
    NulCharacters,
    /// Text for people, or an address alone.
    #[error("the NFO file has no movie, tvshow or episodedetails element")]
    NoRecord,
    #[error("the NFO file is broken in line {line}: {reason}")]
    Broken { line: usize, reason: String },
}

named_values! {
    /// The subject of a record.
    pub enum NfoKind {
        Movie = "movie",
        Show = "show",
        Episode = "episode",
    }
}

/// One record. All texts and lists are bounded; control characters and repeated spaces are removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nfo {
    pub kind: NfoKind,
    pub title: Option<String>,
    pub original_title: Option<String>,
    pub sort_title: Option<String>,
    /// The show of an episode.
    pub show_title: Option<String>,
    /// 1870 to 2199.
    pub year: Option<u32>,
    /// Of an episode. 0 has the specials.
    pub season: Option<u32>,
    pub episode: Option<u32>,
    /// The last episode, if the file has several.
    pub last_episode: Option<u32>,
    pub plot: Option<String>,
    pub tagline: Option<String>,
    pub genres: Vec<String>,
    pub people: Vec<Person>,
    pub ratings: Vec<Rating>,
    /// The certificate, as written: `PG-13`, `FSK 12`.
    pub mpaa: Option<String>,
    pub studio: Option<String>,
    /// First release of a film or show; the day on which an episode aired.
    pub released_on: Option<Date>,
    pub runtime_minutes: Option<u32>,
    pub unique_ids: Vec<UniqueId>,
    pub tags: Vec<String>,
    /// The collection of a film.
    pub set: Option<String>,
}

/// An id in a database: `imdb` and `tt0133093`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueId {
    /// In lower case.
    pub source: String,
    pub id: String,
}

impl Nfo {
    /// The records of a file, in its order; at least one.
    ///
    /// # Errors
    /// [`NfoError`].
    pub fn parse(bytes: &[u8]) -> Result<Vec<Self>, NfoError> {
        if bytes.len() > MAX_BYTES {
            return Err(NfoError::TooLarge);
        }
        let text = encoding::decode(bytes);
        if text.contains('\0') {
            return Err(NfoError::NulCharacters);
        }
        if !fields::ROOTS.iter().any(|(name, _)| text.contains(&format!("<{name}"))) {
            return Err(NfoError::NoRecord);
        }
        let roots = element_tree::parse(&text)?;
        // Old versions of XBMC put several episodes in one root.
        let records = roots.iter().flat_map(|root| match fields::kind_of(root) {
            Some(_) => std::slice::from_ref(root),
            None => &root.children,
        });
        let records: Vec<Self> = records.filter_map(Self::from_element).take(MAX_RECORDS).collect();
        if records.is_empty() { Err(NfoError::NoRecord) } else { Ok(records) }
    }

    /// Memory that it takes, bytes, approximately.
    pub fn weight_bytes(&self) -> usize {
        let Self { title, original_title, sort_title, show_title, plot, tagline, mpaa, studio, set, .. } = self;
        let texts = [title, original_title, sort_title, show_title, plot, tagline, mpaa, studio, set];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let lists: usize = self.genres.iter().chain(&self.tags).map(|text| text.len() + size_of::<String>()).sum();
        let people: usize = self.people.iter().map(Person::weight_bytes).sum();
        let ratings: usize = self.ratings.iter().map(Rating::weight_bytes).sum();
        let ids = self.unique_ids.iter().map(|id| size_of::<UniqueId>() + id.source.len() + id.id.len());
        size_of::<Self>() + texts + lists + people + ratings + ids.sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
