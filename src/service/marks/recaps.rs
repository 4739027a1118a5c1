//! Recaps of a season: openings compared with the frames of the episodes before.

use std::collections::VecDeque;
use std::sync::Arc;

use super::analysis::open_item;
use crate::domain::marks::recap::{EpisodeImages, Recap, find_recap};
use crate::domain::marks::{Mark, MarkKind, MarkSource, chapter_names, strongest};
use crate::domain::media::Media;
use crate::engine::dark_frames;
use crate::engine::excerpt::Excerpt;
use crate::engine::{Result, RunError};
use crate::service::Service;
use crate::service::catalogue::{IdleTime, ItemId};

/// Episodes before one of which its recap may show frames.
const EARLIER_EPISODES: usize = 3;

/// The part before the intro in which a recap is looked for, seconds: shorter openings have none, of longer ones the end is read.
const MIN_OPENING_SECONDS: f64 = 15.0;
const MAX_OPENING_SECONDS: f64 = 180.0;

/// Images of an opening for each second.
const IMAGES_PER_SECOND: u32 = 2;

/// The part of an earlier episode that is read, seconds.
const MAX_EPISODE_SECONDS: f64 = 3600.0;

/// Images of earlier episodes, about 2 MB for an hour.
type KeptImages = VecDeque<(ItemId, Arc<EpisodeImages>)>;

/// Looks for recaps in the episodes of a season that were compared with their neighbours, so that their intros are known.
pub(super) async fn search_recaps(service: &Arc<Service>, episodes: &[ItemId], idle_time: &mut IdleTime) {
    let mut kept = KeptImages::new();
    for (at, id) in episodes.iter().enumerate() {
        let done = service.marks.done(*id);
        if !done.is_compared || done.is_recap_searched {
            continue;
        }
        let earlier = &episodes[at.saturating_sub(EARLIER_EPISODES)..at];
        let found = search_episode(service, *id, earlier, &mut kept, idle_time).await;
        let found = found.unwrap_or_else(|fault| {
            tracing::info!(%fault, item.id = %id, "a recap cannot be looked for in this episode");
            None
        });
        let mut record = service.marks.record(*id);
        record.is_recap_searched = true;
        record.add(found);
        if let Err(fault) = service.marks.put(*id, &record).await {
            tracing::info!(%fault, item.id = %id, "the recap of an episode was not stored");
        }
    }
}

async fn search_episode(
    service: &Arc<Service>,
    id: ItemId,
    earlier: &[ItemId],
    kept: &mut KeptImages,
    idle_time: &mut IdleTime,
) -> Result<Option<Mark>> {
    let Some((source, media)) = open_item(service, id).await else { return Ok(None) };
    let marks = known_marks(service, id, &media);
    let has_recap = marks.iter().any(|mark| mark.kind == MarkKind::Recap);
    let Some(intro_start) = intro(&marks).map(|mark| mark.start_ms as f64 / 1000.0) else { return Ok(None) };
    if has_recap || earlier.is_empty() || intro_start < MIN_OPENING_SECONDS {
        return Ok(None);
    }
    let Some(stream) = video_stream(&media) else { return Ok(None) };
    let mut images = Vec::new();
    for other in earlier {
        images.extend(keep_images(service, *other, kept, idle_time).await);
    }
    let seconds = intro_start.min(MAX_OPENING_SECONDS);
    let start_seconds = intro_start - seconds;
    let excerpt = Excerpt { source: &source, media: &media, stream, start_seconds, seconds };
    let reading = dark_frames::frame_images(&service.config.ffmpeg, &excerpt, IMAGES_PER_SECOND);
    let opening = idle_time.run(service, reading).await?;
    let find = move || {
        let earlier: Vec<&EpisodeImages> = images.iter().map(|images| &**images).collect();
        find_recap(&opening, IMAGES_PER_SECOND, &earlier)
    };
    let found = tokio::task::spawn_blocking(find).await.map_err(|cause| RunError::Internal(cause.to_string()))?;
    Ok(found.map(|recap| to_mark(&recap, start_seconds, intro_start)))
}

fn to_mark(recap: &Recap, opening_start: f64, intro_start: f64) -> Mark {
    let to_ms = |seconds: f64| ((opening_start + seconds).min(intro_start) * 1000.0) as i64;
    Mark {
        kind: MarkKind::Recap,
        start_ms: to_ms(recap.start_seconds),
        end_ms: to_ms(recap.end_seconds),
        source: MarkSource::CommonVideo,
        confidence_percent: recap.confidence_percent,
    }
}

fn known_marks(service: &Service, id: ItemId, media: &Media) -> Vec<Mark> {
    strongest(chapter_names::find_marks(&media.chapters).into_iter().chain(service.marks.record(id).marks))
}

fn intro(marks: &[Mark]) -> Option<&Mark> {
    marks.iter().find(|mark| mark.kind == MarkKind::Intro)
}

fn video_stream(media: &Media) -> Option<u32> {
    media.video_streams().find(|(stream, _)| stream.is_decodable).map(|(stream, _)| stream.index)
}

/// The images of an earlier episode after its intro, from those kept or from its file. None if it cannot be read.
async fn keep_images(
    service: &Arc<Service>,
    id: ItemId,
    kept: &mut KeptImages,
    idle_time: &mut IdleTime,
) -> Option<Arc<EpisodeImages>> {
    if let Some((_, images)) = kept.iter().find(|(other, _)| *other == id) {
        return Some(images.clone());
    }
    let images = Arc::new(idle_time.run(service, read_images(service, id)).await?);
    if kept.len() >= EARLIER_EPISODES {
        kept.pop_front();
    }
    kept.push_back((id, images.clone()));
    Some(images)
}

async fn read_images(service: &Arc<Service>, id: ItemId) -> Option<EpisodeImages> {
    let (source, media) = open_item(service, id).await?;
    let intro_end = intro(&known_marks(service, id, &media)).map_or(0, |mark| mark.end_ms / 1000);
    let seconds = media.duration_seconds?.min(MAX_EPISODE_SECONDS);
    let excerpt =
        Excerpt { source: &source, media: &media, stream: video_stream(&media)?, start_seconds: 0.0, seconds };
    let images = dark_frames::keyframe_images(&service.config.ffmpeg, &excerpt).await.inspect_err(|fault| {
        tracing::info!(media.path = source.path, %fault, "the frames of an episode cannot be compared");
    });
    let images = images.ok()?;
    let reduce = move || EpisodeImages::new(&images, intro_end.try_into().unwrap_or(0));
    tokio::task::spawn_blocking(reduce).await.ok()
}
