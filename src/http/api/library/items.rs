//! `/api/library/items`: the items of the library, listed, shown and retitled.

use jiff::Timestamp;

use super::artwork::{ArtworkLinks, seen_paths};
use super::item::{LibraryItem, TechnicalSummary};
use crate::domain::catalogue::{ItemKind, MAX_TITLE_CHARS, SortKey, WatchedFilter};
use crate::domain::m3u::parse::clean_text;
use crate::http::api::info::Description;
use crate::http::api::prelude::*;
use crate::http::decode::present;
use crate::service::catalogue::{
    DEFAULT_LIMIT, ItemFilter, ItemId, MAX_LIMIT, Page, SeriesId, SortOrder, parse_item_id,
};

/// Kinds in a request at most.
const MAX_KINDS: usize = 6;

/// Similar items in an answer.
const DEFAULT_SIMILAR: usize = 12;
const MAX_SIMILAR: usize = 50;

/// Longest genre or name in a request, bytes.
const MAX_TEXT_BYTES: usize = 400;

/// One page of items.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ItemsAnswer {
    items: Vec<LibraryItem>,
    /// Items that match, on all pages.
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
    /// Whether the library is still being read: more items may come.
    scanning: bool,
}

/// One item with everything that is known of it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ItemAnswer {
    item: LibraryItem,
    /// From the NFO file; null without one.
    description: Option<Description>,
    /// Null until the file was examined, which happens while the server is idle.
    technical: Option<TechnicalSummary>,
    /// The paths of all files with this content.
    media_paths: Vec<String>,
    /// Whether an admin chose its title.
    has_chosen_title: bool,
}

/// Items similar to another one.
#[derive(Serialize, ToSchema)]
pub(super) struct SimilarAnswer {
    items: Vec<LibraryItem>,
}

/// Genres of the library.
#[derive(Serialize, ToSchema)]
pub(super) struct GenresAnswer {
    /// By name.
    genres: Vec<Genre>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Genre {
    name: String,
    item_count: usize,
}

/// A change of an item.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemChange {
    /// The title of your own choice, 1 to 300 characters; null returns to the one that was found.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, required = true)]
    title: Option<Option<String>>,
}

/// Items of the library
///
/// The catalogue is kept current while files are added, removed and renamed; `library.changed` events name the items.
#[utoipa::path(get, path = "/api/library/items", params(
    ("kind" = Option<String>, Query, description = "Only these kinds, separated by commas: `film`, `episode`, `music`, `audiobook`, `homeVideo`, `extra`"),
    ("genre" = Option<String>, Query, description = "Only this genre; case and diacritics do not matter"),
    ("year" = Option<String>, Query, description = "Only this year, or a range such as `1990-1999`"),
    ("person" = Option<String>, Query, description = "Only items with this actor, director or writer; case and diacritics do not matter"),
    ("seriesId" = Option<String>, Query, description = "Only episodes of this series"),
    ("folder" = Option<String>, Query, description = "Only items in this folder or below it: its absolute path"),
    ("addedSince" = Option<String>, Query, description = "Only items added at or after this ISO 8601 instant"),
    ("watched" = Option<String>, Query, description = "Only `unwatched`, `inProgress` or `watched` items of the signed-in user"),
    ("sort" = Option<String>, Query, description = "`title` (default; episodes by series and number, music by artist and album), `added` or `year`"),
    ("order" = Option<String>, Query, description = "`asc` or `desc`; default `asc` for titles, `desc` for the others"),
    ("limit" = Option<usize>, Query, description = "Items per page, 1 to 200; default 50"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page, with the same other parameters")), responses(
    (status = 200, description = "The items", body = ItemsAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn items(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let (user, links) = (&principal.user_id, ArtworkLinks::new(&service, principal));
    let limit = call.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let (filter, order) = (parse_filter(&call)?, parse_order(&call)?);
    let Page { entries, total, next_cursor } =
        service.list_items(principal, &filter, order, call.query("cursor"), limit)?;
    let items = entries.into_iter().map(|item| LibraryItem::new(user, item, &links)).collect();
    Ok(reply::json(&ItemsAnswer { items, total, next_cursor, scanning: is_scanning(&service) }))
}

/// Genres of the library, by name
#[utoipa::path(get, path = "/api/library/genres", params(
    ("kind" = Option<String>, Query, description = "Only genres of items of these kinds, as in the list of items")), responses(
    (status = 200, description = "With the number of items of each", body = GenresAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn genres(service: Arc<Service>, call: Call) -> Result<Response> {
    let kinds = call.query("kind").map(parse_kinds).transpose()?.unwrap_or_default();
    let paths = seen_paths(&service, &call)?;
    let genres =
        service.catalogue.genres(&paths, &kinds).into_iter().map(|(name, item_count)| Genre { name, item_count });
    Ok(reply::json(&GenresAnswer { genres: genres.collect() }))
}

/// One item
#[utoipa::path(get, path = "/api/library/items/{id}", params(("id" = String, Path, description = "Id of an item")), responses(
    (status = 200, description = "With its description", body = ItemAnswer),
    (status = 404, description = "`NOT_FOUND`: there is no such item")))]
pub async fn item(service: Arc<Service>, call: Call) -> Result<Response> {
    answer(&service, &call, parse_item_id(&call.params[0])?)
}

/// Similar items
#[utoipa::path(get, path = "/api/library/items/{id}/similar", params(
    ("id" = String, Path, description = "Id of an item"),
    ("limit" = Option<usize>, Query, description = "1 to 50; default 12")), responses(
    (status = 200, description = "Items of the same kind that share people or genres, the most similar first; of episodes those of other series, one of each", body = SimilarAnswer),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`NOT_FOUND`: there is no such item")))]
pub async fn similar(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let (user, links) = (&principal.user_id, ArtworkLinks::new(&service, principal));
    let limit = call.limit(DEFAULT_SIMILAR, MAX_SIMILAR)?;
    let items = service.similar_items(principal, parse_item_id(&call.params[0])?, limit)?;
    Ok(reply::json(&SimilarAnswer {
        items: items.into_iter().map(|item| LibraryItem::new(user, item, &links)).collect(),
    }))
}

/// Choose the title of an item
///
/// The title belongs to the content of the file: it survives renames and new scans.
#[utoipa::path(patch, path = "/api/library/items/{id}", request_body = ItemChange, params(("id" = String, Path, description = "Id of an item")), responses(
    (status = 200, description = "The changed item", body = ItemAnswer),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`NOT_FOUND`: there is no such item"),
    (status = 507, description = "`STORAGE_FULL`: nothing was changed")))]
pub async fn change(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let id = parse_item_id(&call.params[0])?;
    let change: ItemChange = call.json().await?;
    let title = change.title.ok_or_else(|| Error::invalid_field("title", "is missing"))?;
    service.set_item_title(id, title.map(|title| parse_title(&title)).transpose()?).await?;
    answer(&service, &call, id)
}

fn answer(service: &Service, call: &Call, id: ItemId) -> Result<Response> {
    let principal = call.user()?;
    let user = &principal.user_id;
    let details = service.item_details(principal, id)?;
    Ok(reply::json(&ItemAnswer {
        item: LibraryItem::new(user, details.item, &ArtworkLinks::new(service, principal)),
        description: details.description.map(Description::from),
        technical: details.technical.map(TechnicalSummary::from),
        media_paths: details.paths,
        has_chosen_title: details.has_chosen_title,
    }))
}

pub(super) fn is_scanning(service: &Service) -> bool {
    !service.catalogue.is_current(service.library.roots().list().count())
}

fn parse_title(text: &str) -> Result<String> {
    let title = clean_text(text, MAX_TITLE_CHARS);
    if title.is_empty() || text.chars().count() > MAX_TITLE_CHARS {
        return Err(Error::invalid_field("title", format!("must have 1 to {MAX_TITLE_CHARS} characters")));
    }
    Ok(title)
}

fn parse_filter(call: &Call) -> Result<ItemFilter> {
    let series = call.query("seriesId").map(|text| {
        SeriesId::parse(text).ok_or_else(|| Error::invalid_field("seriesId", "must be the id of a series"))
    });
    let years = call.query("year").map(|text| {
        let message = "must be a year, or a range such as 1990-1999";
        parse_years(text).ok_or_else(|| Error::invalid_field("year", message))
    });
    Ok(ItemFilter {
        kinds: call.query("kind").map(parse_kinds).transpose()?.unwrap_or_default(),
        genre: parse_text(call, "genre")?,
        years: years.transpose()?,
        person: parse_text(call, "person")?,
        series: series.transpose()?,
        folder: call.query("folder").map(str::to_owned),
        added_since_ms: call.query("addedSince").map(parse_instant).transpose()?,
        watched: call.query("watched").map(parse_watched).transpose()?,
    })
}

fn parse_kinds(text: &str) -> Result<Vec<ItemKind>> {
    let kinds: Option<Vec<ItemKind>> = text.split(',').map(|name| ItemKind::parse(name.trim())).collect();
    kinds.filter(|kinds| kinds.len() <= MAX_KINDS).ok_or_else(|| {
        Error::invalid_field(
            "kind",
            "must be film, episode, music, audiobook, homeVideo or extra, each once, separated by commas",
        )
    })
}

pub(super) fn parse_text(call: &Call, name: &str) -> Result<Option<String>> {
    let text = call.query(name).filter(|text| !text.is_empty());
    if text.is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
        return Err(Error::invalid_field(name, format!("must have at most {MAX_TEXT_BYTES} bytes")));
    }
    Ok(text.map(str::to_owned))
}

/// A year or a range of years, first and last; None for another text.
pub(in crate::http::api) fn parse_years(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let year = |text: &str| text.parse::<u32>().ok().filter(|year| (1..10_000).contains(year));
    year(first).zip(year(last)).filter(|(first, last)| first <= last)
}

fn parse_instant(text: &str) -> Result<i64> {
    let instant = text.parse::<Timestamp>();
    instant.map(|at| at.as_millisecond()).map_err(|_| Error::invalid_field("addedSince", "must be an ISO 8601 instant"))
}

fn parse_watched(text: &str) -> Result<WatchedFilter> {
    WatchedFilter::parse(text)
        .ok_or_else(|| Error::invalid_field("watched", "must be unwatched, inProgress or watched"))
}

fn parse_order(call: &Call) -> Result<SortOrder> {
    let key = match call.query("sort") {
        None => SortKey::Title,
        Some(text) => {
            SortKey::parse(text).ok_or_else(|| Error::invalid_field("sort", "must be title, added or year"))?
        }
    };
    let is_descending = match call.query("order") {
        None => key != SortKey::Title,
        Some(text) => parse_choice("order", text, &[("asc", false), ("desc", true)])?,
    };
    Ok(SortOrder { key, is_descending })
}
