//! `GET /api/library/search`: items, series, albums, books, people, channels and the guide by words.

use super::albums::Album;
use super::artwork::ArtworkLinks;
use super::books::Book;
use super::item::LibraryItem;
use super::series::SeriesSummary;
use crate::domain::access::Role;
use crate::http::api::livetv::guide::{GuideArtwork, GuideEntry};
use crate::http::api::prelude::*;
use crate::service::catalogue::{MAX_QUERY_BYTES, MAX_SEARCH_RESULTS};

/// Results of each kind by default.
const DEFAULT_RESULTS: usize = 10;

/// Everything found, the best of each kind first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchAnswer<'a> {
    items: Vec<LibraryItem>,
    series: Vec<SeriesSummary>,
    /// Albums by title and artist.
    albums: Vec<Album>,
    /// Audiobooks, each once; the parts of one are not among the items.
    books: Vec<Book>,
    people: Vec<FoundPerson>,
    channels: Vec<FoundChannel>,
    /// Programmes of the next 24 hours, by start.
    guide: Vec<GuideEntry<'a>>,
}

/// A person. `person` of `GET /api/library/items` lists their items.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FoundPerson {
    name: String,
    item_count: u32,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FoundChannel {
    id: u32,
    number: u32,
    name: String,
    logo_url: String,
}

/// Search the library, channels and the guide
///
/// Finds what has all words of the query, in any order; case and diacritics do not matter. In the library a word may be the
/// beginning of one or have a typing error (two from eight letters on); names of channels and guide entries are found by the beginnings
/// of their words.
#[utoipa::path(get, path = "/api/library/search", params(
    ("q" = String, Query, description = "Words, at most 200 bytes"),
    ("limit" = Option<usize>, Query, description = "Results of each kind, 1 to 50; default 10")), responses(
    (status = 200, description = "The best results of each kind", body = SearchAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn search(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let query = call.query("q").ok_or_else(|| Error::invalid_field("q", "is missing"))?;
    if query.len() > MAX_QUERY_BYTES {
        return Err(Error::invalid_field("q", format!("must have at most {MAX_QUERY_BYTES} bytes")));
    }
    let limit = call.limit(DEFAULT_RESULTS, MAX_SEARCH_RESULTS)?;
    let mut channels = service.channels.all();
    channels.retain(|channel| user.may_watch(channel.id) && (channel.settings.enabled || user.role == Role::Admin));
    let results = service.search(user, query, limit, channels).await?;
    let artwork = ArtworkLinks::new(&service, user);
    let (urls, now) = (ResourceUrls::from_config(&service.config), service.clock.now());
    let channels = results.channels.iter().map(|channel| FoundChannel {
        id: channel.id,
        number: channel.settings.number,
        name: channel.settings.name.to_string(),
        logo_url: urls.logo(channel),
    });
    let people =
        results.people.into_iter().map(|person| FoundPerson { name: person.name, item_count: person.item_count });
    let mut images = GuideArtwork::new(&service, user);
    let guide = results
        .guide
        .iter()
        .map(|(channel, airing)| GuideEntry::new(channel, airing, now, urls).with_artwork(&mut images, &service));
    Ok(reply::json(&SearchAnswer {
        items: results.items.into_iter().map(|item| LibraryItem::new(&user.user_id, item, &artwork)).collect(),
        series: results.series.into_iter().map(|series| SeriesSummary::new(series, &artwork)).collect(),
        albums: results.albums.into_iter().map(|album| Album::new(album, &artwork)).collect(),
        books: results.books.into_iter().map(|book| Book::new(book, &artwork)).collect(),
        people: people.collect(),
        channels: channels.collect(),
        guide: guide.collect(),
    }))
}
