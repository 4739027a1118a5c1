//! A scripted backend, for tests of the layers above backends. Its segments name their rendition and index.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::{Content, Job, Run, RunError, Segment, Transcoder};
use crate::domain::plan::Rendition;

/// A scripted backend. Clones share the script and the log.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    per_segment: Mutex<Duration>,
    faults: Mutex<VecDeque<(usize, RunError)>>,
    starts: Mutex<Vec<usize>>,
    made: AtomicUsize,
    live: AtomicUsize,
}

impl Fake {
    /// A backend that takes this long for every segment.
    pub fn taking(per_segment: Duration) -> Self {
        let fake = Self::default();
        *fake.shared.per_segment.lock().expect("no panic while held") = per_segment;
        fake
    }

    /// Makes the next run that reaches segment `index` fail there, once.
    pub fn fail_at(&self, index: usize, error: RunError) {
        self.shared.faults.lock().expect("no panic while held").push_back((index, error));
    }

    /// First segment of every run so far.
    pub fn starts(&self) -> Vec<usize> {
        self.shared.starts.lock().expect("no panic while held").clone()
    }

    /// Number of segments made so far, by all runs.
    pub fn made(&self) -> usize {
        self.shared.made.load(Ordering::SeqCst)
    }

    /// Number of runs that have not ended.
    pub fn live(&self) -> usize {
        self.shared.live.load(Ordering::SeqCst)
    }

    /// The bytes of a segment: packets of 188 bytes that contain the rendition's hash and the index.
    pub fn bytes(rendition: &Rendition, index: usize) -> Bytes {
        let mut packet = [0xff_u8; 188];
        packet[0] = 0x47;
        packet[4..12].copy_from_slice(&(index as u64).to_be_bytes());
        packet[12..44].copy_from_slice(rendition.content_hash("fake").as_bytes());
        packet.repeat(4).into()
    }

    fn fault(&self, index: usize) -> Option<RunError> {
        let mut faults = self.shared.faults.lock().expect("no panic while held");
        let at = faults.iter().position(|(wanted, _)| *wanted == index)?;
        faults.remove(at).map(|(_, error)| error)
    }
}

/// Counts a run for as long as it lives.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Transcoder for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn start(&self, job: Job, through: usize) -> Result<Run, RunError> {
        let (run, segments, mut gate) = Run::channel(through);
        self.shared.starts.lock().expect("no panic while held").push(job.first);
        self.shared.live.fetch_add(1, Ordering::SeqCst);
        let (fake, alive) = (self.clone(), Alive(self.shared.clone()));
        tokio::spawn(async move {
            let _alive = alive;
            let work = async {
                for index in job.first..job.grid.len() {
                    if gate.wait_for(|open| *open >= index).await.is_err() {
                        return;
                    }
                    let pace = *fake.shared.per_segment.lock().expect("no panic while held");
                    tokio::time::sleep(pace).await;
                    if let Some(error) = fake.fault(index) {
                        let _ = segments.send(Err(error)).await;
                        return;
                    }
                    fake.shared.made.fetch_add(1, Ordering::SeqCst);
                    let bytes = Fake::bytes(&job.rendition, index);
                    if segments.send(Ok(Segment { index, content: Content::Whole(bytes) })).await.is_err() {
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
