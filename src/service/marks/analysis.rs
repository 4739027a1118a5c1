//! The task that analyses films and episodes while nothing is played.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::recaps::search_recaps;
use super::record::MarksRecord;
use super::scene_breaks::search_library;
use super::season::compare_season;
use crate::domain::marks::dark_end::find_credits;
use crate::domain::marks::{Mark, MarkKind, MarkSource};
use crate::domain::media::Media;
use crate::engine::RunError;
use crate::engine::dark_frames;
use crate::engine::excerpt::Excerpt;
use crate::engine::source::SourceFile;
use crate::error::Result;
use crate::service::Service;
use crate::service::catalogue::{IdleTime, ItemId};
use crate::store::Tree;

/// The end of an item in which credits are looked for, as a share of its length and seconds at most.
const END_SHARE: f64 = 0.25;
const MAX_END_SECONDS: f64 = 900.0;

/// Shorter items are not examined, seconds.
pub(super) const MIN_SECONDS: f64 = 240.0;

/// After the start and after a change, more changes are waited for.
const SETTLE_TIME: Duration = Duration::from_secs(30);

/// Starts the task, unless the configuration turns it off.
pub fn start(service: &Arc<Service>) {
    if service.config.find_marks {
        service.tasks.spawn(run(service.clone()));
    }
}

async fn run(service: Arc<Service>) {
    let loading = service.clone();
    let load = move || {
        loading.marks.store.for_each(Tree::SkipMarks, |key, record: MarksRecord| {
            if let (Some(id), true) = (ItemId::parse(key), record.version == super::MARKS_VERSION) {
                loading.marks.lock_done().insert(id, record.done());
            }
        })
    };
    if let Ok(Err(fault)) = tokio::task::spawn_blocking(load).await {
        tracing::warn!(%fault, "the marks of films and episodes cannot be read");
    }
    let mut idle_time = IdleTime::default();
    let mut changes = service.catalogue.subscribe();
    loop {
        sleep(SETTLE_TIME).await;
        changes.mark_unchanged();
        analyse_library(&service, &mut idle_time).await;
        // It takes minutes for each film, so new ones are analysed in between.
        search_library(&service, &mut idle_time, || changes.has_changed().unwrap_or(true)).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Analyses what is not done of the library, whenever nothing is played.
pub async fn analyse_library(service: &Arc<Service>, idle_time: &mut IdleTime) {
    for film in service.catalogue.films() {
        analyse(service, &[film], idle_time).await;
    }
    for season in service.catalogue.seasons() {
        analyse(service, &season, idle_time).await;
    }
}

/// Analyses what is not done of a season, or of a film.
async fn analyse(service: &Arc<Service>, items: &[ItemId], idle_time: &mut IdleTime) {
    for id in items.iter().filter(|id| !service.marks.done(**id).is_examined) {
        if let Err(fault) = idle_time.run(service, examine_end(service, *id)).await {
            tracing::debug!(%fault, item.id = %id, "credits were not looked for");
        }
    }
    if items.len() > 1 {
        compare_season(service, items, idle_time).await;
        search_recaps(service, items, idle_time).await;
    }
}

/// An item's file and its description.
pub(super) async fn open_item(service: &Arc<Service>, id: ItemId) -> Option<(Arc<SourceFile>, Arc<Media>)> {
    let path = service.catalogue.path_of(id)?;
    let source = service.library.open_uncached(&path).await.ok()?;
    let probed = service.media.probe_patiently(&source).await.ok()?;
    Some((source, probed.media.clone()))
}

/// Looks for credits at the end of an item.
async fn examine_end(service: &Arc<Service>, id: ItemId) -> Result<()> {
    let Some((source, media)) = open_item(service, id).await else { return Ok(()) };
    let found = match find_dark_end(service, &source, &media).await {
        Ok(found) => found,
        // Another try may succeed, after the next change of the library.
        Err(RunError::SourceRead(_) | RunError::Stalled(_)) => return Ok(()),
        Err(fault) => {
            tracing::info!(media.path = source.path, %fault, "credits cannot be looked for in this file");
            None
        }
    };
    let mut record = service.marks.record(id);
    record.is_examined = true;
    record.add(found);
    service.marks.put(id, &record).await
}

async fn find_dark_end(
    service: &Service,
    source: &Arc<SourceFile>,
    media: &Media,
) -> std::result::Result<Option<Mark>, RunError> {
    let duration = media.duration_seconds.unwrap_or(0.0);
    let stream = media.video_streams().find(|(stream, _)| stream.is_decodable).map(|(stream, _)| stream.index);
    let (Some(stream), true) = (stream, duration >= MIN_SECONDS) else { return Ok(None) };
    let seconds = (duration * END_SHARE).min(MAX_END_SECONDS).floor();
    let start = duration - seconds;
    let excerpt = Excerpt { source, media, stream, start_seconds: start, seconds };
    let frames = dark_frames::keyframe_images(&service.config.ffmpeg, &excerpt).await?;
    Ok(find_credits(&frames).map(|(at, confidence_percent)| Mark {
        kind: MarkKind::Credits,
        start_ms: ((start + at as f64) * 1000.0) as i64,
        end_ms: (duration * 1000.0) as i64,
        source: MarkSource::DarkVideo,
        confidence_percent,
    }))
}
