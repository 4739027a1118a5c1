//! One programme that is watched: its open file and the lease on its rendition.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{MAX_ADMISSION_WAIT, ScheduledSegment, find_or_add_programme, retry_when_busy};
use crate::domain::channel::{Channel, OutputSettings};
use crate::domain::schedule::Programme;
use crate::domain::schedule::segmentation::Segmentation;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::{Backend, RenditionSpec, RunError};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::encode_slots::AdmissionRequest;
use crate::service::renditions::planner::channel_item;
use crate::service::renditions::runs::{self, Lease};

/// Pause before an item that could not be shown is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(15);

/// One programme, shared by the viewers who read it together.
pub(super) struct ActiveProgramme {
    /// The viewer who does not watch live; empty for all live viewers together.
    reader: String,
    last_use: Mutex<Instant>,
    /// A segment is being made ahead.
    is_making_ahead: AtomicBool,
    /// The last segment that was reported to the run as the clock's position.
    last_reported: AtomicUsize,
    /// The programme's last segment that shows the item.
    last_segment: AtomicUsize,
    /// Locked while the file is opened: everyone who waits needs the same file.
    state: tokio::sync::Mutex<ProgrammeState>,
    /// The rendition's name in the segment cache, once the file is open.
    rendition_name: Mutex<Option<Arc<str>>>,
}

#[derive(Default)]
enum ProgrammeState {
    #[default]
    Unopened,
    Ready(OpenItem),
    /// The item cannot be shown; the next attempt is at this time.
    Broken {
        until: Instant,
    },
}

struct OpenItem {
    spec: Arc<RenditionSpec>,
    backend: Arc<dyn Backend>,
    rendition_name: Arc<str>,
    lease: Option<Arc<Lease>>,
    /// The channel's output settings when the file was opened.
    output: Arc<OutputSettings>,
}

impl ProgrammeState {
    /// Whether the file was opened for other output settings. A programme on air keeps those it began with.
    fn is_outdated(&self, required: &OutputSettings) -> bool {
        matches!(self, Self::Ready(item) if *item.output != *required)
    }
}

impl ActiveProgramme {
    pub(super) fn new(reader: String) -> Self {
        Self {
            reader,
            last_use: Mutex::new(Instant::now()),
            is_making_ahead: AtomicBool::new(false),
            last_reported: AtomicUsize::new(usize::MAX),
            last_segment: AtomicUsize::new(usize::MAX),
            state: tokio::sync::Mutex::default(),
            rendition_name: Mutex::default(),
        }
    }

    pub(super) fn touch(&self) {
        *lock(&self.last_use) = Instant::now();
    }

    /// When one of its segments was last requested.
    pub(super) fn last_use(&self) -> Instant {
        *lock(&self.last_use)
    }

    pub(super) fn is_idle(&self, timeout: Duration) -> bool {
        self.last_use().elapsed() >= timeout
    }

    /// Marks that a segment is being made ahead; None when one already is.
    pub(super) fn start_making_ahead(self: &Arc<Self>) -> Option<MakingAhead> {
        (!self.is_making_ahead.swap(true, Ordering::Relaxed)).then(|| MakingAhead(self.clone()))
    }

    /// The rendition's name in the segment cache; None before the file is open.
    pub(super) fn rendition_name(&self) -> Option<Arc<str>> {
        lock(&self.rendition_name).clone()
    }

    /// Whether the last attempt to show it failed.
    pub(super) fn is_broken(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| matches!(*state, ProgrammeState::Broken { .. }))
    }

    /// Whether it may have a lease. While the file is being opened this is unknown, so true.
    pub(super) fn may_be_leased(&self) -> bool {
        self.state.try_lock().is_err() || self.is_leased()
    }

    /// Whether it has a lease.
    pub(super) fn is_leased(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| matches!(&*state, ProgrammeState::Ready(item) if item.lease.is_some()))
    }

    /// Whether it is made for these output settings. One that is not open yet will be.
    pub(super) fn matches_output(&self, output: &OutputSettings) -> bool {
        self.state.try_lock().map_or(true, |state| !state.is_outdated(output))
    }

    /// Reports a finished segment to the run as the clock's position; the run works ahead of it. Starts no run.
    pub(super) fn report_position(&self, index: usize) {
        let lease = match self.state.try_lock().as_deref() {
            Ok(ProgrammeState::Ready(OpenItem { lease: Some(lease), .. })) => lease.clone(),
            _ => return,
        };
        if self.last_reported.swap(index, Ordering::Relaxed) != index {
            tokio::spawn(async move { lease.segment(index).await.map(drop) });
        }
    }

    /// A segment of the programme and its ETag; None when the item cannot be shown.
    pub(super) async fn make_segment(
        &self,
        service: &Service,
        channel: &Channel,
        segment: &ScheduledSegment,
    ) -> Result<Option<(Bytes, Arc<str>)>> {
        self.touch();
        self.last_segment.store(segment.last_item_index, Ordering::Relaxed);
        let (runs, index) = (service.renditions.runs(), segment.item_index);
        let mut state = self.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(item) = &mut *state else { return Ok(None) };
        let source = item.spec.source.clone();
        // While there is a lease, stored segments are requested through it as well: this is how a run learns how far its
        // readers are.
        let stored = match item.lease {
            None => runs.stored_segment(&item.rendition_name, index).await,
            Some(_) => None,
        };
        let supply = match stored {
            Some(stored) => SegmentSupply::Stored(stored),
            None => SegmentSupply::Leased(self.take_lease(item, service, channel.id)?),
        };
        drop(state);
        let made_by = match &supply {
            SegmentSupply::Leased(lease) => Some(lease.clone()),
            SegmentSupply::Stored(_) => None,
        };
        let fetch = async {
            let StoredSegment { content, etag } = match supply {
                SegmentSupply::Stored(stored) => stored,
                SegmentSupply::Leased(lease) => lease.segment(index).await?,
            };
            Ok::<_, RunError>((content.read_all(&source).await?, etag))
        };
        let wait = service.config.limits.segment_wait;
        let made = tokio::time::timeout(wait, fetch).await;
        self.touch();
        match made {
            Ok(Ok(made)) => Ok(Some(made)),
            // The file is shorter than its header says; the segments before still play.
            Ok(Err(RunError::SourceEnded)) => Ok(None),
            // Another viewer needed its share of the encode slots.
            Ok(Err(_)) if made_by.is_some_and(|lease| lease.was_withdrawn()) => Err(runs.busy_error()),
            Ok(Err(error)) => {
                let item = channel.definition.item_of(&segment.programme);
                tracing::warn!(channel.id = channel.id, media.path = item.path, %error, "a slate is aired instead");
                *self.state.lock().await = ProgrammeState::Broken { until: Instant::now() + RETRY_DELAY };
                Ok(None)
            }
            Err(_) => Err(Error::new(Code::SegmentTimeout, format!("segment not ready within {} s", wait.as_secs()))
                .with_retry_after(2)),
        }
    }

    /// Locks the state, and opens the file unless it is open or opening just failed.
    async fn open(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
    ) -> Result<tokio::sync::MutexGuard<'_, ProgrammeState>> {
        let item = channel.definition.item_of(programme);
        let mut state = self.state.lock().await;
        let is_on_air = programme.start_ms <= channel.channel_ms_at(service.clock.now_ms());
        if !is_on_air && state.is_outdated(&channel.output) {
            *state = ProgrammeState::Unopened;
        }
        let is_settled = match &*state {
            ProgrammeState::Ready(_) => true,
            ProgrammeState::Broken { until } => *until > Instant::now(),
            ProgrammeState::Unopened => false,
        };
        if is_settled {
            return Ok(state);
        }
        let opened = async {
            let spec = Arc::new(channel_item::prepare(service, item, &channel.output).await?);
            let backend = service.renditions.backends.choose(&spec).await?.backend;
            let rendition_name = runs::rendition_key(&*backend, &spec);
            *lock(&self.rendition_name) = Some(rendition_name.clone());
            let output = channel.output.clone();
            Ok::<_, Error>(OpenItem { spec, backend, rendition_name, lease: None, output })
        };
        *state = match opened.await {
            Ok(item) => ProgrammeState::Ready(item),
            // A network share that hangs, or an encoder that is missing at the moment: the player may retry.
            Err(fault)
                if matches!(fault.code, Code::StorageTimeout | Code::ProbeTimedOut | Code::TranscoderUnavailable) =>
            {
                return Err(fault);
            }
            Err(fault) => {
                tracing::warn!(channel.id = channel.id, media.path = item.path, %fault, "a slate is aired instead");
                ProgrammeState::Broken { until: Instant::now() + RETRY_DELAY }
            }
        };
        Ok(state)
    }

    /// Takes the lease on behalf of the audience, unless there is one.
    fn take_lease(&self, item: &mut OpenItem, service: &Service, channel: u32) -> Result<Arc<Lease>> {
        if let Some(lease) = &item.lease {
            return Ok(lease.clone());
        }
        let audience = (channel, self.reader.clone());
        let admission = service.live_channels.admission(&audience);
        let viewer = admission.as_ref().map_or(AdmissionRequest::Channel, AdmissionRequest::Admitted);
        let lease = Arc::new(service.renditions.runs().lease(item.backend.clone(), item.spec.clone(), viewer)?);
        if let Some(admission) = lease.admission() {
            service.live_channels.admissions().entry(audience).or_insert(admission);
        }
        item.lease = Some(lease.clone());
        Ok(lease)
    }

    /// Withdraws the lease; the next request takes a new one. False when there was none.
    pub(super) fn withdraw_lease(&self) -> bool {
        match self.state.try_lock().as_deref_mut() {
            Ok(ProgrammeState::Ready(item)) => item.lease.take().is_some_and(|lease| lease.withdraw()),
            _ => false,
        }
    }

    /// Drops the lease once the programme's last segment is made, because the next programme needs its encode slot.
    pub(super) fn release_when_complete(&self, service: &Service) {
        if let Ok(mut state) = self.state.try_lock()
            && let ProgrammeState::Ready(item) = &mut *state
            && item.lease.is_some()
            && item.is_stored(service, self.last_segment.load(Ordering::Relaxed))
        {
            item.lease = None;
        }
    }
}

/// How much longer than for encode slots an admission waits for an item that is opened meanwhile.
const OPENING_MARGIN: Duration = Duration::from_millis(100);

/// Takes the share of the encode slots that a segment needs, before a playlist names the segment.
///
/// # Errors
/// `TRANSCODER_BUSY` within 2 s. Other errors of making the segment are reported when it is requested.
pub(super) async fn admit(service: &Arc<Service>, channel: &Channel, segment: &ScheduledSegment) -> Result<()> {
    let is_encoded = matches!(channel.definition.item_of(&segment.programme).segmentation, Segmentation::Frames(_));
    let audience = (segment.key.channel, segment.key.reader.clone());
    if !segment.shows_item || !is_encoded || service.live_channels.admission(&audience).is_some() {
        return Ok(());
    }
    let active = find_or_add_programme(service, &segment.key)?;
    let take_lease = || async {
        active.touch();
        let mut state = active.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(item) = &mut *state else { return Ok(()) };
        // A run makes segments in order, so all between the two were made as well.
        match item.is_stored(service, segment.item_index) && item.is_stored(service, segment.last_item_index) {
            true => Ok(()),
            false => active.take_lease(item, service, channel.id).map(drop),
        }
    };
    let admission = retry_when_busy(service, take_lease);
    match tokio::time::timeout(MAX_ADMISSION_WAIT + OPENING_MARGIN, admission).await {
        Ok(Err(busy)) if busy.code == Code::TranscoderBusy => Err(busy),
        _ => Ok(()),
    }
}

/// How to get a segment.
enum SegmentSupply {
    Stored(StoredSegment),
    Leased(Arc<Lease>),
}

impl OpenItem {
    /// Whether a segment of the item is stored; the last one counts for those past the end of a file that became shorter.
    fn is_stored(&self, service: &Service, index: usize) -> bool {
        service.renditions.runs().has_segment(&self.rendition_name, index.min(self.spec.grid.len() - 1))
    }
}

/// A programme that is making a segment ahead, until this is dropped.
pub(super) struct MakingAhead(Arc<ActiveProgramme>);

impl Drop for MakingAhead {
    fn drop(&mut self) {
        self.0.is_making_ahead.store(false, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
