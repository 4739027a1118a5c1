//! The episodes of a season, compared with their neighbours: the theme of the intro, and that of the credits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::analysis::{MIN_SECONDS, open_item};
use crate::domain::marks::common_audio::AudioFingerprint;
use crate::domain::marks::{Mark, MarkKind, MarkSource};
use crate::engine::RunError;
use crate::engine::audio_fingerprint::fingerprint;
use crate::engine::excerpt::Excerpt;
use crate::service::Service;
use crate::service::catalogue::{IdleTime, ItemId};

/// Where an intro is looked for: the first 30 % of an episode, seconds at most.
const INTRO_SHARE: f64 = 0.3;
const MAX_INTRO_RANGE_SECONDS: f64 = 600.0;

/// Where the theme of the credits is looked for: the end, seconds at most.
const CREDITS_SHARE: f64 = 0.2;
const MAX_CREDITS_RANGE_SECONDS: f64 = 300.0;

/// The shortest and longest theme, seconds: shorter ones are jingles between scenes, longer ones a film twice.
const INTRO_SECONDS: (f64, f64) = (15.0, 130.0);
const CREDITS_SECONDS: (f64, f64) = (15.0, 240.0);

/// Fingerprints kept: an episode and its neighbours, 30 kB each.
const MAX_KEPT: usize = 3;

/// The audio of an episode where themes are looked for.
struct EpisodeAudio {
    intro: AudioFingerprint,
    credits: AudioFingerprint,
    /// Where the second range begins, seconds.
    credits_range_start: f64,
    duration: f64,
}

/// Compares every episode that was not compared yet with the one before and the one after it.
pub(super) async fn compare_season(service: &Arc<Service>, episodes: &[ItemId], idle_time: &mut IdleTime) {
    let mut kept: VecDeque<(ItemId, Option<Arc<EpisodeAudio>>)> = VecDeque::new();
    for (at, id) in episodes.iter().enumerate() {
        if service.marks.done(*id).is_compared {
            continue;
        }
        let Some(own) = keep_audio(service, *id, &mut kept, idle_time).await else { continue };
        let neighbours = [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|at| episodes.get(at));
        let mut marks = Vec::new();
        let mut is_compared = false;
        for neighbour in neighbours {
            if let Some(other) = keep_audio(service, *neighbour, &mut kept, idle_time).await {
                marks.extend(common_marks(&own, &other));
                is_compared = true;
            }
        }
        if is_compared {
            store_marks(service, *id, marks).await;
        }
    }
}

async fn store_marks(service: &Service, id: ItemId, marks: Vec<Mark>) {
    let mut record = service.marks.record(id);
    record.is_compared = true;
    for kind in [MarkKind::Intro, MarkKind::Credits] {
        let of_kind = marks.iter().filter(|mark| mark.kind == kind);
        record.add(of_kind.max_by_key(|mark| mark.confidence_percent).copied());
    }
    if let Err(fault) = service.marks.put(id, &record).await {
        tracing::info!(%fault, item.id = %id, "the marks of an episode were not stored");
    }
}

/// The audio of an episode, from those kept or from its file. None if it cannot be read or is too short.
async fn keep_audio(
    service: &Arc<Service>,
    id: ItemId,
    kept: &mut VecDeque<(ItemId, Option<Arc<EpisodeAudio>>)>,
    idle_time: &mut IdleTime,
) -> Option<Arc<EpisodeAudio>> {
    if let Some((_, audio)) = kept.iter().find(|(other, _)| *other == id) {
        return audio.clone();
    }
    let audio = idle_time.run(service, read_audio(service, id)).await.map(Arc::new);
    if kept.len() >= MAX_KEPT {
        kept.pop_front();
    }
    kept.push_back((id, audio.clone()));
    audio
}

async fn read_audio(service: &Arc<Service>, id: ItemId) -> Option<EpisodeAudio> {
    let (source, media) = open_item(service, id).await?;
    let duration = media.duration_seconds.filter(|duration| *duration >= MIN_SECONDS)?;
    let mut streams = media.audio_streams().filter(|(stream, audio)| stream.is_decodable && !audio.is_commentary);
    let stream = streams.next()?.0.index;
    let (source, media) = (&source, &*media);
    let intro_seconds = (duration * INTRO_SHARE).min(MAX_INTRO_RANGE_SECONDS);
    let intro = Excerpt { source, media, stream, start_seconds: 0.0, seconds: intro_seconds };
    let credits_seconds = (duration * CREDITS_SHARE).min(MAX_CREDITS_RANGE_SECONDS);
    let credits_range_start = duration - credits_seconds;
    let credits = Excerpt { start_seconds: credits_range_start, seconds: credits_seconds, ..intro };
    let ffmpeg = &service.config.ffmpeg;
    let read = async {
        let intro = fingerprint(ffmpeg, &intro).await?;
        let credits = fingerprint(ffmpeg, &credits).await?;
        Ok::<_, RunError>(EpisodeAudio { intro, credits, credits_range_start, duration })
    };
    let read = read.await.inspect_err(|fault| {
        tracing::info!(media.path = source.path, %fault, "the audio of an episode cannot be compared");
    });
    read.ok()
}

/// The themes that an episode has in common with another one.
fn common_marks(own: &EpisodeAudio, other: &EpisodeAudio) -> impl Iterator<Item = Mark> {
    let intro = own.intro.common_part(&other.intro, INTRO_SECONDS.0, INTRO_SECONDS.1);
    let intro = intro.map(|part| (MarkKind::Intro, part.first_start, part));
    let credits = own.credits.common_part(&other.credits, CREDITS_SECONDS.0, CREDITS_SECONDS.1);
    let credits = credits.map(|part| (MarkKind::Credits, own.credits_range_start + part.first_start, part));
    let to_ms = |seconds: f64| (seconds * 1000.0) as i64;
    let duration = own.duration;
    intro.into_iter().chain(credits).map(move |(kind, start, part)| Mark {
        kind,
        start_ms: to_ms(start),
        end_ms: to_ms((start + part.seconds).min(duration)),
        source: MarkSource::CommonAudio,
        confidence_percent: part.confidence_percent,
    })
}
