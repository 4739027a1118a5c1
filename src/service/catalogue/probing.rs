//! Files probed while the server is idle: durations, codecs and tags of the catalogue.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::record::{ItemRecord, Technical};
use crate::service::Service;
use crate::store::Tree;

/// How long nothing may have been played before files are probed.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The shortest and longest pause between two probes. In between it is as long as the probe took.
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Whether something is played now.
pub(super) fn is_busy(service: &Service) -> bool {
    let has_session = || !service.sessions.live_sessions().is_empty();
    service.library.has_open_files() || has_session() || !service.viewers.watched_channels().is_empty()
}

/// Where probing is.
pub(super) struct Prober {
    next_slot: u32,
    /// When something was last played.
    last_busy: Instant,
}

impl Default for Prober {
    fn default() -> Self {
        Self { next_slot: 0, last_busy: Instant::now() }
    }
}

impl Prober {
    /// Probes one file after the other until `interrupt`. With no file left it only waits.
    pub(super) async fn run_until(&mut self, service: &Arc<Service>, interrupt: impl Future<Output = ()>) {
        let mut interrupt = pin!(interrupt);
        loop {
            let Some((slot, path)) = service.catalogue.read_index().next_unprobed(self.next_slot) else {
                // Files that are added later may be in earlier slots.
                self.next_slot = 0;
                return interrupt.await;
            };
            if is_busy(service) {
                self.last_busy = Instant::now();
            }
            let idle_from = self.last_busy + IDLE_TIME;
            let wait = idle_from.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                if timeout(wait, &mut interrupt).await.is_ok() {
                    return;
                }
                continue;
            }
            self.next_slot = slot + 1;
            let started = Instant::now();
            probe(service, &path).await;
            let pause = started.elapsed().clamp(MIN_PAUSE, MAX_PAUSE);
            tokio::select! {
                () = &mut interrupt => return,
                () = sleep(pause) => {}
            }
        }
    }
}

/// Probes a file and adds the result to its record. A file that cannot be probed is tried again after the next change of the library.
async fn probe(service: &Arc<Service>, path: &str) {
    let Ok(located) = service.library.roots().locate(path) else { return };
    let (roots, owned_path) = (service.library.roots().clone(), path.to_owned());
    let opened = service.library.run_with_deadline(located.root_index, move || roots.open_file(&owned_path)).await;
    let Ok(source) = opened.map(Arc::new) else { return };
    let Ok(probed) = service.media.probe_patiently(&source).await else { return };
    let stored = service.catalogue.store.get::<ItemRecord>(Tree::Catalogue, path);
    let Ok(Some(mut record)) = stored else { return };
    // The file may have been replaced meanwhile.
    if source.cached_fingerprint() != Some(&record.id) {
        return;
    }
    record.technical = Some(Technical::of_media(&probed.media));
    if let Err(fault) = service.catalogue.put(service.library.roots(), path, &record).await {
        tracing::info!(%fault, media.path = path, "a probe result was not added to the catalogue");
    }
}
