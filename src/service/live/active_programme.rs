//! One programme that is watched: its open file and the lease on its rendition.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::channel::{Channel, OutputSettings};
use crate::domain::schedule::Programme;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
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
    Ready {
        spec: Arc<RenditionSpec>,
        backend: Arc<dyn Backend>,
        rendition_name: Arc<str>,
        lease: Option<Arc<Lease>>,
        /// The channel's output settings when the file was opened.
        output: Arc<OutputSettings>,
    },
    /// The item cannot be shown; the next attempt is at this time.
    Broken { until: Instant },
}

impl ProgrammeState {
    /// Whether the file was opened for other output settings. A programme on air keeps those it began with.
    fn is_outdated(&self, required: &OutputSettings) -> bool {
        matches!(self, Self::Ready { output, .. } if **output != *required)
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

    /// False when a segment is already being made ahead.
    pub(super) fn start_making_ahead(&self) -> bool {
        !self.is_making_ahead.swap(true, Ordering::Relaxed)
    }

    pub(super) fn finish_making_ahead(&self) {
        self.is_making_ahead.store(false, Ordering::Relaxed);
    }

    /// Whether the file was opened.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.rendition_name).is_some()
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
        self.state.try_lock().is_ok_and(|state| matches!(*state, ProgrammeState::Ready { lease: Some(_), .. }))
    }

    /// Whether it is made for these output settings. One that is not open yet will be.
    pub(super) fn matches_output(&self, output: &OutputSettings) -> bool {
        self.state.try_lock().map_or(true, |state| !state.is_outdated(output))
    }

    /// Reports a finished segment to the run as the clock's position; the run works ahead of it. Starts no run.
    pub(super) fn report_position(&self, index: usize) {
        let lease = match self.state.try_lock().as_deref() {
            Ok(ProgrammeState::Ready { lease: Some(lease), .. }) => lease.clone(),
            _ => return,
        };
        if self.last_reported.swap(index, Ordering::Relaxed) != index {
            tokio::spawn(async move { lease.segment(index).await.map(drop) });
        }
    }

    pub(super) fn is_made(&self, service: &Service, index: usize) -> bool {
        let name = lock(&self.rendition_name).clone();
        name.is_some_and(|name| service.renditions.runs().has_segment(&name, index))
    }

    /// A segment of the programme and its ETag; None when the item cannot be shown.
    pub(super) async fn make_segment(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
        index: usize,
    ) -> Result<Option<(Bytes, Arc<str>)>> {
        self.touch();
        let item = channel.definition.item_of(programme);
        let first_segment = item.part(programme.part_index).first_segment;
        let own_count = channel.definition.segment_ranges(programme).own_count();
        self.last_segment.store((first_segment + own_count).saturating_sub(1), Ordering::Relaxed);
        let index = first_segment + index;
        let Some((supply, source)) = self.find_supply(service, channel, programme, index).await? else {
            return Ok(None);
        };
        let made_by = match &supply {
            SegmentSupply::Leased(lease) => Some(lease.clone()),
            SegmentSupply::Cached(_) => None,
        };
        let fetch = async {
            let StoredSegment { content, etag } = match supply {
                SegmentSupply::Cached(stored) => stored,
                SegmentSupply::Leased(lease) => lease.segment(index).await?,
            };
            Ok::<_, RunError>((content.read_all(&source).await?, etag))
        };
        let wait = service.config.limits.segment_wait;
        let segment = tokio::time::timeout(wait, fetch).await;
        self.touch();
        match segment {
            Ok(Ok(made)) => Ok(Some(made)),
            // The file is shorter than its header says; the segments before still play.
            Ok(Err(RunError::SourceEnded)) => Ok(None),
            // Another viewer needed its share of the encode slots.
            Ok(Err(_)) if made_by.is_some_and(|lease| lease.was_withdrawn()) => {
                Err(service.renditions.runs().busy_error())
            }
            Ok(Err(error)) => {
                tracing::warn!(channel.id = channel.id, media.path = item.path, %error, "a slate is aired instead");
                *self.state.lock().await = ProgrammeState::Broken { until: Instant::now() + RETRY_DELAY };
                Ok(None)
            }
            Err(_) => Err(Error::new(Code::SegmentTimeout, format!("segment not ready within {} s", wait.as_secs()))
                .with_retry_after(2)),
        }
    }

    /// Takes the lease on a programme's rendition before any of its segments is requested.
    ///
    /// # Errors
    /// `TRANSCODER_BUSY`, and the errors of opening the file.
    pub(super) async fn admit(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
        index: usize,
    ) -> Result<()> {
        self.touch();
        let first_segment = channel.definition.item_of(programme).part(programme.part_index).first_segment;
        let mut state = self.open(service, channel, programme).await?;
        let ProgrammeState::Ready { spec, rendition_name: name, .. } = &*state else { return Ok(()) };
        let last_segment = first_segment + channel.definition.segment_ranges(programme).own_count().saturating_sub(1);
        let is_made = |index: usize| service.renditions.runs().has_segment(name, index.min(spec.grid.len() - 1));
        // A run makes segments in order, so all between the two were made as well.
        match is_made(first_segment + index) && is_made(last_segment) {
            true => Ok(()),
            false => self.take_lease(&mut state, service, channel).map(drop),
        }
    }

    /// How to get a segment, and from which file; None when the item cannot be shown. While there is a lease, existing
    /// segments are requested through it as well: this is how a run learns how far its readers are.
    async fn find_supply(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
        index: usize,
    ) -> Result<Option<(SegmentSupply, Arc<SourceFile>)>> {
        let mut state = self.open(service, channel, programme).await?;
        let ProgrammeState::Ready { spec, rendition_name: name, lease, .. } = &*state else { return Ok(None) };
        let source = spec.source.clone();
        if lease.is_none()
            && let Some(stored) = service.renditions.runs().stored_segment(name, index).await
        {
            return Ok(Some((SegmentSupply::Cached(stored), source)));
        }
        let lease = self.take_lease(&mut state, service, channel)?;
        Ok(lease.map(|lease| (SegmentSupply::Leased(lease), source)))
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
        let is_on_air = programme.start_ms <= channel.channel_ms_at(service.clock.now().as_millisecond());
        if !is_on_air && state.is_outdated(&channel.output) {
            *state = ProgrammeState::Unopened;
        }
        let is_settled = match &*state {
            ProgrammeState::Ready { .. } => true,
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
            Ok::<_, Error>(ProgrammeState::Ready { spec, backend, rendition_name, lease: None, output })
        };
        *state = match opened.await {
            Ok(ready) => ready,
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

    /// Takes the lease on behalf of the audience; None when the item cannot be shown.
    fn take_lease(
        &self,
        state: &mut ProgrammeState,
        service: &Service,
        channel: &Channel,
    ) -> Result<Option<Arc<Lease>>> {
        let ProgrammeState::Ready { spec, backend, lease, .. } = state else { return Ok(None) };
        if lease.is_none() {
            let audience = (channel.id, self.reader.clone());
            let admission = service.live_channels.admission(&audience);
            let viewer = admission.as_ref().map_or(AdmissionRequest::Channel, AdmissionRequest::Admitted);
            let new_lease = service.renditions.runs().lease(backend.clone(), spec.clone(), viewer)?;
            if let Some(admission) = new_lease.admission() {
                service.live_channels.admissions().entry(audience).or_insert(admission);
            }
            *lease = Some(Arc::new(new_lease));
        }
        Ok(lease.clone())
    }

    /// Withdraws the lease; the next request takes a new one. False when there was none.
    pub(super) fn withdraw_lease(&self) -> bool {
        match self.state.try_lock().as_deref_mut() {
            Ok(ProgrammeState::Ready { lease, .. }) => lease.take().is_some_and(|lease| lease.withdraw()),
            _ => false,
        }
    }

    /// Drops the lease once the programme's last segment is made, because the next programme needs its encode slot.
    pub(super) fn release_when_complete(&self, service: &Service) {
        if let Ok(mut state) = self.state.try_lock()
            && let ProgrammeState::Ready { lease, rendition_name: name, spec, .. } = &mut *state
            && lease.is_some()
            && service
                .renditions
                .runs()
                .has_segment(name, self.last_segment.load(Ordering::Relaxed).min(spec.grid.len() - 1))
        {
            *lease = None;
        }
    }
}

/// How to get a segment.
enum SegmentSupply {
    Cached(StoredSegment),
    Leased(Arc<Lease>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
