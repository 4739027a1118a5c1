//! `/api/library/series`: series with their seasons and episodes.

use super::artwork::{ArtworkLinks, ArtworkUrls};
use super::item::LibraryItem;
use super::items::is_scanning;
use crate::domain::time::format_ms;
use crate::http::api::prelude::*;
use crate::service::catalogue::{
    DEFAULT_LIMIT, MAX_LIMIT, Page, SeasonDetails, SeriesDetails, SeriesId, SeriesSummary as ListedSeries,
};

/// One page of series.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeriesListAnswer {
    series: Vec<SeriesSummary>,
    /// Series on all pages.
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
    /// Whether the library is still being read: more series may come.
    scanning: bool,
}

/// A series, with the progress of the signed-in user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeriesSummary {
    /// By its name: stays the same when files are moved.
    id: String,
    title: String,
    /// The year in its name, which tells it from another series of that name.
    year: Option<u32>,
    season_count: usize,
    episode_count: usize,
    /// Episodes that the user has completed.
    watched_count: usize,
    /// When its newest episode was added.
    #[schema(format = DateTime)]
    added_at: String,
    artwork: ArtworkUrls,
}

/// A series with all its episodes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeriesAnswer {
    series: SeriesSummary,
    /// By number, then specials (0), then episodes without a season.
    seasons: Vec<Season>,
    /// The episode that the user watches next: the one that was begun last, otherwise the one after it. Null at the end.
    next_episode: Option<LibraryItem>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Season {
    /// 0 for specials; null for episodes that are numbered without seasons.
    season: Option<u32>,
    /// The poster of the season.
    artwork: ArtworkUrls,
    episodes: Vec<LibraryItem>,
}

/// Series of the library, by title
#[utoipa::path(get, path = "/api/library/series", params(
    ("limit" = Option<usize>, Query, description = "Series per page, 1 to 200; default 50"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page")), responses(
    (status = 200, description = "The series", body = SeriesListAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn all(service: Arc<Service>, call: Call) -> Result<Response> {
    let limit = call.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let user = call.user()?;
    let links = ArtworkLinks::new(&service, user);
    let Page { entries, total, next_cursor } = service.list_series(user, call.query("cursor"), limit)?;
    let series = entries.into_iter().map(|series| SeriesSummary::new(series, &links)).collect();
    Ok(reply::json(&SeriesListAnswer { series, total, next_cursor, scanning: is_scanning(&service) }))
}

/// One series with its seasons and episodes
#[utoipa::path(get, path = "/api/library/series/{id}", params(("id" = String, Path, description = "Id of a series")), responses(
    (status = 200, description = "With the user's next episode", body = SeriesAnswer),
    (status = 404, description = "`NOT_FOUND`: there is no such series")))]
pub async fn one(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let (user, links) = (&principal.user_id, ArtworkLinks::new(&service, principal));
    let missing = || Error::new(Code::NotFound, "there is no such series in the library");
    let id = SeriesId::parse(&call.params[0]).ok_or_else(missing)?;
    let SeriesDetails { summary, seasons, next } = service.series_details(principal, id)?;
    let to_item = |episode| LibraryItem::new(user, episode, &links);
    let seasons = seasons.into_iter().map(|SeasonDetails { season, artwork, episodes }| Season {
        season,
        artwork: season.map(|season| links.of_season(id, season, &artwork)).unwrap_or_default(),
        episodes: episodes.into_iter().map(to_item).collect(),
    });
    Ok(reply::json(&SeriesAnswer {
        series: SeriesSummary::new(summary, &links),
        seasons: seasons.collect(),
        next_episode: next.map(to_item),
    }))
}

impl SeriesSummary {
    pub(super) fn new(series: ListedSeries, links: &ArtworkLinks<'_>) -> Self {
        let ListedSeries { id, title, year, season_count, episode_count, watched_count, added_ms, artwork } = series;
        let artwork = links.of_series(id, &artwork);
        let (id, added_at) = (id.to_string(), format_ms(added_ms));
        Self { id, title, year, season_count, episode_count, watched_count, added_at, artwork }
    }
}
