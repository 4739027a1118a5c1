//! A scripted backend, for tests of the layers above backends. Its segments name their rendition and index.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::{Backend, Job, Run, RunError, Segment, SegmentContent};
use crate::domain::plan::Rendition;

/// A scripted backend. Clones share the script and the log.
#[derive(Clone, Debug, Default)]
pub struct FakeBackend {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    segment_time: Duration,
    has_instant_start: bool,
    faults: Mutex<VecDeque<(usize, RunError)>>,
    run_starts: Mutex<Vec<usize>>,
    segments_made: AtomicUsize,
    live_runs: AtomicUsize,
}

impl FakeBackend {
    /// A backend that takes this long for every segment.
    pub fn with_segment_time(segment_time: Duration) -> Self {
        Self { shared: Arc::new(Shared { segment_time, ..Shared::default() }) }
    }

    /// A backend that takes this long for every segment and nothing to start.
    pub fn with_instant_start(segment_time: Duration) -> Self {
        Self { shared: Arc::new(Shared { segment_time, has_instant_start: true, ..Shared::default() }) }
    }

    /// Makes the next run that reaches segment `index` fail there, once.
    pub fn fail_at(&self, index: usize, error: RunError) {
        self.shared.faults.lock().expect("no panic while held").push_back((index, error));
    }

    /// First segment of every run so far.
    pub fn run_starts(&self) -> Vec<usize> {
        self.shared.run_starts.lock().expect("no panic while held").clone()
    }

    /// Number of segments made so far, by all runs.
    pub fn segments_made(&self) -> usize {
        self.shared.segments_made.load(Ordering::SeqCst)
    }

    /// Number of runs that have not ended.
    pub fn live_runs(&self) -> usize {
        self.shared.live_runs.load(Ordering::SeqCst)
    }

    /// The bytes of a segment: packets of 188 bytes that contain the rendition's hash and the index.
    pub fn segment_bytes(rendition: &Rendition, index: usize) -> Bytes {
        let mut packet = [0xff_u8; 188];
        packet[0] = 0x47;
        packet[4..12].copy_from_slice(&(index as u64).to_be_bytes());
        packet[12..44].copy_from_slice(rendition.content_hash("fake").as_bytes());
        packet.repeat(4).into()
    }

    fn take_fault(&self, index: usize) -> Option<RunError> {
        let mut faults = self.shared.faults.lock().expect("no panic while held");
        let position = faults.iter().position(|(segment, _)| *segment == index)?;
        faults.remove(position).map(|(_, error)| error)
    }
}

/// Counts a run for as long as it lives.
struct LiveRunGuard(Arc<Shared>);

impl Drop for LiveRunGuard {
    fn drop(&mut self) {
        self.0.live_runs.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn has_instant_start(&self) -> bool {
        self.shared.has_instant_start
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run, RunError> {
        let (run, segments, mut gate) = Run::channel(last_allowed);
        self.shared.run_starts.lock().expect("no panic while held").push(job.first);
        self.shared.live_runs.fetch_add(1, Ordering::SeqCst);
        let (fake, guard) = (self.clone(), LiveRunGuard(self.shared.clone()));
        tokio::spawn(async move {
            let _guard = guard;
            let work = async {
                for index in job.first..job.spec.grid.len() {
                    if gate.wait_for(|allowed| *allowed >= index).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(fake.shared.segment_time).await;
                    if let Some(error) = fake.take_fault(index) {
                        let _ = segments.send(Err(error)).await;
                        return;
                    }
                    fake.shared.segments_made.fetch_add(1, Ordering::SeqCst);
                    let bytes = FakeBackend::segment_bytes(&job.spec.rendition, index);
                    if segments.send(Ok(Segment { index, content: SegmentContent::InMemory(bytes) })).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = segments.closed() => {}
                () = work => {}
            }
        });
        Ok(run)
    }
}
