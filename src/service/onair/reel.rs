//! One programme that is watched: its open file and the lease on its rendition.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::channel::{Channel, OutputSettings};
use crate::domain::schedule::{ScheduleItem, Programme};
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::engine::{RunError, Backend};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::encode_slots::Viewer;
use crate::service::planner::air;
use crate::service::runs::{self, Lease, Work};

/// Pause before an item that could not be shown is tried again.
const REST: Duration = Duration::from_secs(15);

/// One programme, shared by the viewers who read it together.
pub(super) struct Reel {
    /// The viewer who does not watch live; empty for all live viewers together.
    reader: String,
    used: Mutex<Instant>,
    /// A segment is being made ahead.
    busy: AtomicBool,
    /// The last segment that was reported to the run as the clock's position.
    followed: AtomicUsize,
    /// The programme's last segment that shows the item.
    last: AtomicUsize,
    /// Locked while the file is opened: everyone who waits needs the same file.
    cast: tokio::sync::Mutex<Cast>,
    /// The rendition's name in the segment cache, once the file is open.
    name: Mutex<Option<Arc<str>>>,
}

#[derive(Default)]
enum Cast {
    #[default]
    Unopened,
    Ready {
        work: Box<Work>,
        transcoder: Arc<dyn Backend>,
        name: Arc<str>,
        lease: Option<Arc<Lease>>,
        /// The channel's output settings when the file was opened.
        output: Arc<OutputSettings>,
    },
    /// The item cannot be shown; the next attempt is at this time.
    Broken { until: Instant },
}

impl Cast {
    /// Whether the file was opened for other output settings. A programme on air keeps those it began with.
    fn is_outdated(&self, wanted: &OutputSettings) -> bool {
        matches!(self, Self::Ready { output, .. } if **output != *wanted)
    }
}

impl Reel {
    pub(super) fn new(reader: String) -> Self {
        Self {
            reader,
            used: Mutex::new(Instant::now()),
            busy: AtomicBool::new(false),
            followed: AtomicUsize::new(usize::MAX),
            last: AtomicUsize::new(usize::MAX),
            cast: tokio::sync::Mutex::default(),
            name: Mutex::default(),
        }
    }

    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// When one of its segments was last requested.
    pub(super) fn used(&self) -> Instant {
        *lock(&self.used)
    }

    pub(super) fn is_idle(&self, linger: Duration) -> bool {
        self.used().elapsed() >= linger
    }

    /// False when a segment is already being made ahead.
    pub(super) fn begin(&self) -> bool {
        !self.busy.swap(true, Ordering::Relaxed)
    }

    pub(super) fn ended(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Whether the file was opened.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.name).is_some()
    }

    /// Whether the last attempt to show it failed.
    pub(super) fn is_broken(&self) -> bool {
        self.cast.try_lock().is_ok_and(|cast| matches!(*cast, Cast::Broken { .. }))
    }

    /// Whether it may have a lease. While the file is being opened this is unknown, so true.
    pub(super) fn may_be_leased(&self) -> bool {
        self.cast.try_lock().is_err() || self.is_leased()
    }

    /// Whether it has a lease.
    pub(super) fn is_leased(&self) -> bool {
        self.cast.try_lock().is_ok_and(|cast| matches!(*cast, Cast::Ready { lease: Some(_), .. }))
    }

    /// Whether it is made for these output settings. One that is not open yet will be.
    pub(super) fn is_made_for(&self, output: &OutputSettings) -> bool {
        self.cast.try_lock().map_or(true, |cast| !cast.is_outdated(output))
    }

    /// Reports a finished segment to the run as the clock's position; the run works ahead of it. Starts no run.
    pub(super) fn follow(&self, index: usize) {
        let lease = match self.cast.try_lock().as_deref() {
            Ok(Cast::Ready { lease: Some(lease), .. }) => lease.clone(),
            _ => return,
        };
        if self.followed.swap(index, Ordering::Relaxed) != index {
            tokio::spawn(async move { lease.segment(index).await.map(drop) });
        }
    }

    pub(super) fn is_made(&self, service: &Service, index: usize) -> bool {
        let name = lock(&self.name).clone();
        name.is_some_and(|name| service.sessions.runs().holds(&name, index))
    }

    /// A segment of the programme and its ETag; None when the item cannot be shown.
    pub(super) async fn segment(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
        index: usize,
    ) -> Result<Option<(Bytes, Arc<str>)>> {
        self.touch();
        let item = channel.definition.item_of(programme);
        let first = item.part(programme.part_index).first_segment;
        let own = channel.definition.segment_ranges(programme).own_count();
        self.last.store((first + own).saturating_sub(1), Ordering::Relaxed);
        let index = first + index;
        let has_begun = programme.start_ms <= channel.channel_ms_at(service.clock.now().as_millisecond());
        let Some((way, source)) = self.way(service, channel, item, index, has_begun).await? else { return Ok(None) };
        let leased = match &way {
            Way::Make(lease) => Some(lease.clone()),
            Way::Kept(_) => None,
        };
        let make = async {
            let StoredSegment { content, etag } = match way {
                Way::Kept(stored) => stored,
                Way::Make(lease) => lease.segment(index).await?,
            };
            Ok::<_, RunError>((content.read_all(&source).await?, etag))
        };
        let wait = service.config.limits.segment_wait;
        let made = tokio::time::timeout(wait, make).await;
        self.touch();
        match made {
            Ok(Ok(made)) => Ok(Some(made)),
            // The file is shorter than its header says; the segments before still play.
            Ok(Err(RunError::SourceEnded)) => Ok(None),
            // Another viewer needed its share of the encode slots.
            Ok(Err(_)) if leased.is_some_and(|lease| lease.was_withdrawn()) => Err(service.sessions.runs().busy()),
            Ok(Err(error)) => {
                tracing::warn!(channel.id = channel.id, media.path = item.path, %error, "a slate is aired instead");
                *self.cast.lock().await = Cast::Broken { until: Instant::now() + REST };
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
    pub(super) async fn hold(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
        index: usize,
    ) -> Result<()> {
        self.touch();
        let item = channel.definition.item_of(programme);
        let first = item.part(programme.part_index).first_segment;
        let mut cast = self.cast.lock().await;
        let has_begun = programme.start_ms <= channel.channel_ms_at(service.clock.now().as_millisecond());
        self.open(&mut cast, service, channel, item, has_begun).await?;
        let Cast::Ready { work, name, .. } = &*cast else { return Ok(()) };
        let last = first + channel.definition.segment_ranges(programme).own_count().saturating_sub(1);
        let is_made = |index: usize| service.sessions.runs().holds(name, index.min(work.grid.len() - 1));
        // A run makes segments in order, so all between the two were made as well.
        match is_made(first + index) && is_made(last) {
            true => Ok(()),
            false => self.lease(&mut cast, service, channel).map(drop),
        }
    }

    /// How to get a segment, and from which file; None when the item cannot be shown. While there is a lease, existing
    /// segments are requested through it as well: this is how a run learns how far its readers are.
    async fn way(
        &self,
        service: &Service,
        channel: &Channel,
        item: &ScheduleItem,
        index: usize,
        has_begun: bool,
    ) -> Result<Option<(Way, Arc<SourceFile>)>> {
        let mut cast = self.cast.lock().await;
        self.open(&mut cast, service, channel, item, has_begun).await?;
        let Cast::Ready { work, name, lease, .. } = &*cast else { return Ok(None) };
        let source = work.source.clone();
        if lease.is_none()
            && let Some(stored) = service.sessions.runs().kept(name, index).await
        {
            return Ok(Some((Way::Kept(stored), source)));
        }
        let lease = self.lease(&mut cast, service, channel)?;
        Ok(lease.map(|lease| (Way::Make(lease), source)))
    }

    /// Opens the file unless it is open or opening just failed.
    async fn open(
        &self,
        cast: &mut Cast,
        service: &Service,
        channel: &Channel,
        item: &ScheduleItem,
        has_begun: bool,
    ) -> Result<()> {
        if !has_begun && cast.is_outdated(&channel.output) {
            *cast = Cast::Unopened;
        }
        match &*cast {
            Cast::Ready { .. } => return Ok(()),
            Cast::Broken { until } if *until > Instant::now() => return Ok(()),
            _ => {}
        }
        *cast = match open(service, channel, item).await {
            Ok(ready) => ready,
            // A network share that hangs, or an encoder that is missing at the moment: the player may retry.
            Err(fault)
                if matches!(fault.code, Code::StorageTimeout | Code::ProbeTimedOut | Code::TranscoderUnavailable) =>
            {
                return Err(fault);
            }
            Err(fault) => {
                tracing::warn!(channel.id = channel.id, media.path = item.path, %fault, "a slate is aired instead");
                Cast::Broken { until: Instant::now() + REST }
            }
        };
        if let Cast::Ready { name, .. } = &*cast {
            *lock(&self.name) = Some(name.clone());
        }
        Ok(())
    }

    /// Takes the lease on behalf of the audience; None when the item cannot be shown.
    fn lease(&self, cast: &mut Cast, service: &Service, channel: &Channel) -> Result<Option<Arc<Lease>>> {
        let Cast::Ready { work, transcoder, lease, .. } = cast else { return Ok(None) };
        if lease.is_none() {
            let audience = (channel.id, self.reader.clone());
            let admitted = service.onair.admission(&audience);
            let viewer = admitted.as_ref().map_or(Viewer::Channel, Viewer::Admitted);
            let fresh = service.sessions.runs().lease(transcoder.clone(), (**work).clone(), viewer)?;
            if let Some(admission) = fresh.admission() {
                service.onair.admissions().entry(audience).or_insert(admission);
            }
            *lease = Some(Arc::new(fresh));
        }
        Ok(lease.clone())
    }

    /// Withdraws the lease; the next request takes a new one. False when there was none.
    pub(super) fn give_up(&self) -> bool {
        match self.cast.try_lock().as_deref_mut() {
            Ok(Cast::Ready { lease, .. }) => lease.take().is_some_and(|lease| lease.withdraw()),
            _ => false,
        }
    }

    /// Drops the lease once the programme's last segment is made, because the next programme needs its encode slot.
    pub(super) fn let_go(&self, service: &Service) {
        if let Ok(mut cast) = self.cast.try_lock()
            && let Cast::Ready { lease, name, work, .. } = &mut *cast
            && lease.is_some()
            && service.sessions.runs().holds(name, self.last.load(Ordering::Relaxed).min(work.grid.len() - 1))
        {
            *lease = None;
        }
    }
}

/// How to get a segment.
enum Way {
    Kept(StoredSegment),
    Make(Arc<Lease>),
}

async fn open(service: &Service, channel: &Channel, item: &ScheduleItem) -> Result<Cast> {
    let work = air::ready(service, item, &channel.output).await?;
    let transcoder = service.sessions.producer(&work).await?.transcoder;
    let name = runs::name(&*transcoder, &work);
    Ok(Cast::Ready { work: Box::new(work), transcoder, name, lease: None, output: channel.output.clone() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
