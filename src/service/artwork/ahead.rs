//! Frames made ahead while nothing is played: thumbnails of films and episodes without an image.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::domain::catalogue::artwork::ArtworkKind;
use crate::domain::visibility::VisiblePaths;
use crate::service::Service;
use crate::service::catalogue::{ArtworkSource, IdleTime};

/// After the start and after a change, more changes are waited for.
const SETTLE_TIME: Duration = Duration::from_secs(30);

/// Starts the task.
pub fn start(service: &Arc<Service>) {
    service.tasks.spawn(run(service.clone()));
}

async fn run(service: Arc<Service>) {
    let mut changes = service.catalogue.subscribe();
    let mut idle_time = IdleTime::default();
    loop {
        sleep(SETTLE_TIME).await;
        changes.mark_unchanged();
        let count = make_frames_ahead(&service, &mut idle_time).await;
        if count > 0 {
            tracing::info!(count, "frames were made for items without an image");
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Makes the frames that are missing, the newest items first, until they fill half of the cache; returns how many.
pub async fn make_frames_ahead(service: &Arc<Service>, idle_time: &mut IdleTime) -> usize {
    let mut made = 0;
    for id in service.catalogue.newest_videos() {
        if service.artworks.cache.is_half_full() {
            break;
        }
        let thumbnail = service.catalogue.item_artwork(VisiblePaths::ALL, id, ArtworkKind::Thumbnail);
        let Some(source @ ArtworkSource::Frame { path, .. }) =
            thumbnail.as_ref().and_then(|found| found.sources.first())
        else {
            continue;
        };
        let key = source.key();
        if service.artworks.cache.contains(&key) {
            continue;
        }
        let make = async {
            // A request waits for a probe for a short time only.
            if let Ok(source) = service.library.open_uncached(path).await {
                let _ = service.media.probe_patiently(&source).await;
            }
            let Ok(_job) = service.artworks.jobs.acquire().await else { return false };
            let frame = service.artworks.get_or_make(&key, service.choose_frame(path)).await;
            frame.inspect_err(|fault| tracing::debug!(%fault, media.path = path, "a frame was not made")).is_ok()
        };
        made += usize::from(idle_time.run(service, make).await);
    }
    made
}
