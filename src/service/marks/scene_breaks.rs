//! Scene breaks of films and episodes without chapters: silent parts of the audio at which the video is black.

use std::sync::Arc;

use super::analysis::open_item;
use crate::domain::media::Media;
use crate::domain::scene_breaks::Silence;
use crate::domain::schedule::breaks::MIN_EDGE_MS;
use crate::engine::excerpt::Excerpt;
use crate::engine::scene_breaks::{middle_of_black_part, silences};
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError};
use crate::service::Service;
use crate::service::catalogue::{IdleTime, ItemId};

/// Audio that is decoded at once, seconds: 10 MB of samples.
const AUDIO_SECONDS: f64 = 600.0;

/// The longest silences are looked at, so many of a film. Each takes 0.1 to 1 s of one core.
const MAX_SILENCES: usize = 100;

/// Video that is looked at around the middle of a silence, seconds at most.
const MAX_VIDEO_SECONDS: f64 = 8.0;

/// Searches the films and episodes that were not searched yet, until `is_stopped` before one of them.
pub async fn search_library(service: &Arc<Service>, idle_time: &mut IdleTime, mut is_stopped: impl FnMut() -> bool) {
    let episodes = service.catalogue.seasons().into_iter().flatten();
    for id in service.catalogue.films().into_iter().chain(episodes) {
        if service.marks.done(id).is_searched {
            continue;
        }
        if is_stopped() {
            return;
        }
        search_scene_breaks(service, id, idle_time).await;
    }
}

/// Searches an item, in pieces of a few seconds with pauses between them.
async fn search_scene_breaks(service: &Arc<Service>, id: ItemId, idle_time: &mut IdleTime) {
    let Some((source, media)) = open_item(service, id).await else { return };
    let found = match SearchedFilm::new(service, &source, &media) {
        Some(film) => film.find(idle_time).await,
        None => Ok(Vec::new()),
    };
    let breaks_ms = match found {
        Ok(breaks_ms) => breaks_ms,
        // Another try may succeed, after the next change of the library.
        Err(RunError::SourceRead(_) | RunError::Stalled(_) | RunError::Internal(_)) => return,
        Err(fault) => {
            tracing::info!(media.path = source.path, %fault, "scene breaks cannot be looked for in this file");
            Vec::new()
        }
    };
    let mut record = service.marks.record(id);
    record.is_searched = true;
    let stored = async {
        service.put_scene_breaks(&source, breaks_ms).await?;
        service.marks.put(id, &record).await
    };
    if let Err(fault) = stored.await {
        tracing::info!(%fault, item.id = %id, "the scene breaks of an item were not stored");
    }
}

/// A film or episode whose scene breaks are of use: it is long enough and has no chapters.
struct SearchedFilm<'a> {
    service: &'a Arc<Service>,
    source: &'a Arc<SourceFile>,
    media: &'a Media,
    audio_stream: u32,
    video_stream: u32,
    /// Where a break may be, seconds.
    start: f64,
    end: f64,
}

impl<'a> SearchedFilm<'a> {
    fn new(service: &'a Arc<Service>, source: &'a Arc<SourceFile>, media: &'a Media) -> Option<Self> {
        let edge = MIN_EDGE_MS as f64 / 1000.0;
        let (start, end) = (edge, media.duration_seconds? - edge);
        let audio_stream = media.audio_streams().find(|(stream, _)| stream.is_decodable)?.0.index;
        let video_stream = media.video_streams().find(|(stream, _)| stream.is_decodable)?.0.index;
        let is_useful = start < end && media.chapters.is_empty();
        is_useful.then_some(Self { service, source, media, audio_stream, video_stream, start, end })
    }

    /// Milliseconds, in order.
    async fn find(&self, idle_time: &mut IdleTime) -> Result<Vec<u32>> {
        let mut breaks_ms = Vec::new();
        for silence in self.find_silences(idle_time).await? {
            let middle = (silence.start + silence.end) / 2.0;
            let seconds = silence.seconds().min(MAX_VIDEO_SECONDS);
            let excerpt = self.excerpt(self.video_stream, middle - seconds / 2.0, seconds);
            let ffmpeg = &self.service.config.ffmpeg;
            let black = idle_time.run(self.service, middle_of_black_part(ffmpeg, &excerpt)).await;
            match black {
                Ok(black) => breaks_ms.extend(black.map(|at| (at * 1000.0) as u32)),
                // A single part that cannot be decoded has no break.
                Err(RunError::Decode(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(breaks_ms)
    }

    /// The longest silences, in order of time.
    async fn find_silences(&self, idle_time: &mut IdleTime) -> Result<Vec<Silence>> {
        let mut found: Vec<Silence> = Vec::new();
        let mut at = self.start;
        while at < self.end {
            let excerpt = self.excerpt(self.audio_stream, at, AUDIO_SECONDS.min(self.end - at));
            found.extend(idle_time.run(self.service, silences(&self.service.config.ffmpeg, &excerpt)).await?);
            at += AUDIO_SECONDS;
        }
        found.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
        found.truncate(MAX_SILENCES);
        found.sort_by(|a, b| a.start.total_cmp(&b.start));
        Ok(found)
    }

    fn excerpt(&self, stream: u32, start_seconds: f64, seconds: f64) -> Excerpt<'_> {
        Excerpt { source: self.source, media: self.media, stream, start_seconds, seconds }
    }
}
