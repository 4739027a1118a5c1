//! Files probed while the server is idle: durations, codecs and tags of the catalogue.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};

use super::idle::IdleTime;
use super::record::{ItemRecord, Technical};
use crate::service::Service;
use crate::store::Tree;

/// Where probing is.
#[derive(Default)]
pub(super) struct Prober {
    next_slot: u32,
    idle_time: IdleTime,
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
            let wait = self.idle_time.remaining(service);
            if !wait.is_zero() {
                if timeout(wait, &mut interrupt).await.is_ok() {
                    return;
                }
                continue;
            }
            self.next_slot = slot + 1;
            let started = Instant::now();
            probe(service, &path).await;
            let pause = IdleTime::pause_after(started.elapsed());
            tokio::select! {
                () = &mut interrupt => return,
                () = sleep(pause) => {}
            }
        }
    }
}

/// Probes a file and adds the result to its record. A file that cannot be probed is tried again after the next change of the library.
async fn probe(service: &Arc<Service>, path: &str) {
    let Ok(source) = service.library.open_uncached(path).await else { return };
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
