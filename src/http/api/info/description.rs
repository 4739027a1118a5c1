//! The description of a media file in media info.

use crate::domain::nfo::{self, Nfo};
use crate::http::api::prelude::*;

/// Description of a film or episode, from the NFO file beside it. Fields that the file does not have are null or empty.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// `movie` or `episode`.
    kind: &'static str,
    title: Option<String>,
    original_title: Option<String>,
    sort_title: Option<String>,
    show_title: Option<String>,
    year: Option<u32>,
    /// 0 for specials.
    season: Option<u32>,
    episode: Option<u32>,
    /// The last episode, if the file has several.
    last_episode: Option<u32>,
    plot: Option<String>,
    tagline: Option<String>,
    genres: Vec<String>,
    people: Vec<Person>,
    ratings: Vec<Rating>,
    /// The certificate, as written: `PG-13`, `FSK 12`.
    mpaa: Option<String>,
    studio: Option<String>,
    /// Day of the first release, or on which an episode aired.
    #[schema(format = Date)]
    released_on: Option<String>,
    runtime_minutes: Option<u32>,
    /// Ids in databases, by the name of the database, such as `imdb`.
    unique_ids: Vec<UniqueId>,
    tags: Vec<String>,
    /// The collection of a film.
    set: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DescriptionPerson)]
struct Person {
    name: String,
    /// The character of an actor.
    role: Option<String>,
    /// `actor`, `director` or `writer`.
    kind: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DescriptionRating)]
struct Rating {
    /// In lower case; `default` if it is not named, `user` for the owner of the library.
    source: String,
    /// Above 0, at most 10.
    value: f64,
    votes: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DescriptionId)]
struct UniqueId {
    source: String,
    id: String,
}

impl From<Nfo> for Description {
    fn from(nfo: Nfo) -> Self {
        let person = |nfo::Person { name, role, kind }: nfo::Person| Person { name, role, kind: kind.as_str() };
        let rating = |nfo::Rating { source, value, votes }: nfo::Rating| Rating { source, value, votes };
        let unique_id = |nfo::UniqueId { source, id }: nfo::UniqueId| UniqueId { source, id };
        Self {
            kind: nfo.kind.as_str(),
            title: nfo.title,
            original_title: nfo.original_title,
            sort_title: nfo.sort_title,
            show_title: nfo.show_title,
            year: nfo.year,
            season: nfo.season,
            episode: nfo.episode,
            last_episode: nfo.last_episode,
            plot: nfo.plot,
            tagline: nfo.tagline,
            genres: nfo.genres,
            people: nfo.people.into_iter().map(person).collect(),
            ratings: nfo.ratings.into_iter().map(rating).collect(),
            mpaa: nfo.mpaa,
            studio: nfo.studio,
            released_on: nfo.released_on.map(|date| date.to_string()),
            runtime_minutes: nfo.runtime_minutes,
            unique_ids: nfo.unique_ids.into_iter().map(unique_id).collect(),
            tags: nfo.tags,
            set: nfo.set,
        }
    }
}
