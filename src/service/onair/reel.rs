//! One programme that is watched: its file open, and the right to have it made.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::channel::{Channel, Output};
use crate::domain::schedule::{Item, Programme};
use crate::engine::segments::Stored;
use crate::engine::source::Source;
use crate::engine::{RunError, Transcoder};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::planner::air;
use crate::service::runs::{self, Lease, Work};

/// How long something that cannot be shown is left alone before it is tried again.
const REST: Duration = Duration::from_secs(15);

/// One programme, for those who read it together.
pub(super) struct Reel {
    used: Mutex<Instant>,
    /// Something is being made ahead.
    busy: AtomicBool,
    /// Where whoever keeps it ready was last.
    followed: AtomicUsize,
    /// The last segment of it that shows the item.
    last: AtomicUsize,
    /// Held while the file is opened: all who wait want the same.
    cast: tokio::sync::Mutex<Cast>,
    /// What segments of it are called, once that is known.
    name: Mutex<Option<Arc<str>>>,
}

#[derive(Default)]
enum Cast {
    #[default]
    Unopened,
    Ready {
        work: Box<Work>,
        transcoder: Arc<dyn Transcoder>,
        name: Arc<str>,
        lease: Option<Arc<Lease>>,
        /// How the channel was to be aired when it was opened.
        output: Arc<Output>,
    },
    /// It cannot be shown before then.
    Broken { until: Instant },
}

impl Cast {
    /// Whether it was opened for another output than this. A programme that is on air stays as it began.
    fn is_outdated(&self, wanted: &Output) -> bool {
        matches!(self, Self::Ready { output, .. } if **output != *wanted)
    }
}

impl Default for Reel {
    fn default() -> Self {
        Self {
            used: Mutex::new(Instant::now()),
            busy: AtomicBool::new(false),
            followed: AtomicUsize::new(usize::MAX),
            last: AtomicUsize::new(usize::MAX),
            cast: tokio::sync::Mutex::default(),
            name: Mutex::default(),
        }
    }
}

impl Reel {
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// When a segment of it was last requested.
    pub(super) fn used(&self) -> Instant {
        *lock(&self.used)
    }

    pub(super) fn is_idle(&self, linger: Duration) -> bool {
        self.used().elapsed() >= linger
    }

    /// False when something is being made ahead already.
    pub(super) fn begin(&self) -> bool {
        !self.busy.swap(true, Ordering::Relaxed)
    }

    pub(super) fn ended(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Whether its file was opened.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.name).is_some()
    }

    /// Whether it could not be shown when that was tried last.
    pub(super) fn is_broken(&self) -> bool {
        self.cast.try_lock().is_ok_and(|cast| matches!(*cast, Cast::Broken { .. }))
    }

    /// Whether it has the right to be made.
    pub(super) fn is_leased(&self) -> bool {
        self.cast.try_lock().is_ok_and(|cast| matches!(*cast, Cast::Ready { lease: Some(_), .. }))
    }

    /// Whether it is made as a channel is to be aired now; what is not opened yet will be.
    pub(super) fn is_made_for(&self, output: &Output) -> bool {
        self.cast.try_lock().map_or(true, |cast| !cast.is_outdated(output))
    }

    /// Tells its run that a segment which is there is as far as the clock has come: it goes on ahead of that. Begins none.
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

    /// A segment of the programme and its validator; None when it cannot be shown.
    pub(super) async fn segment(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
        index: usize,
    ) -> Result<Option<(Bytes, Arc<str>)>> {
        self.touch();
        let item = channel.definition.item(programme);
        let first = item.part(programme.part).first;
        let own = channel.definition.spans(programme).own();
        self.last.store((first + own).saturating_sub(1), Ordering::Relaxed);
        let index = first + index;
        let has_begun = programme.start_ms <= channel.time(service.clock.now().as_millisecond());
        let Some((way, source)) = self.way(service, channel, item, index, has_begun).await? else { return Ok(None) };
        let make = async {
            let Stored { content, etag } = match way {
                Way::Kept(stored) => stored,
                Way::Make(lease) => lease.segment(index).await?,
            };
            Ok((content.whole(&source).await?, etag))
        };
        let wait = service.config.limits.segment_wait;
        let made = tokio::time::timeout(wait, make).await;
        self.touch();
        match made {
            Ok(Ok(made)) => Ok(Some(made)),
            // It is shorter than it was said to be; what lies before still plays.
            Ok(Err(RunError::SourceEnded)) => Ok(None),
            Ok(Err(error)) => {
                tracing::warn!(channel.id = channel.id, media.path = item.path, %error, "a slate is aired instead");
                *self.cast.lock().await = Cast::Broken { until: Instant::now() + REST };
                Ok(None)
            }
            Err(_) => Err(Error::new(Code::SegmentTimeout, format!("segment not ready within {} s", wait.as_secs()))
                .with_retry_after(2)),
        }
    }

    /// How to come by a segment, and out of which file; None when it cannot be shown. Even one that is there is asked for by the lease, while there is one: that is how a run
    /// knows how far its readers are.
    async fn way(
        &self,
        service: &Service,
        channel: &Channel,
        item: &Item,
        index: usize,
        has_begun: bool,
    ) -> Result<Option<(Way, Arc<Source>)>> {
        let mut cast = self.cast.lock().await;
        if !has_begun && cast.is_outdated(&channel.output) {
            *cast = Cast::Unopened;
        }
        if let Cast::Broken { until } = &*cast
            && *until > Instant::now()
        {
            return Ok(None);
        }
        if !matches!(&*cast, Cast::Ready { .. }) {
            *cast = match open(service, channel, item).await {
                Ok(ready) => ready,
                // A share that hangs, or a converter that is missing for now: the player may ask again.
                Err(fault)
                    if matches!(
                        fault.code,
                        Code::StorageTimeout | Code::ProbeTimedOut | Code::TranscoderUnavailable
                    ) =>
                {
                    return Err(fault);
                }
                Err(fault) => {
                    tracing::warn!(channel.id = channel.id, media.path = item.path, %fault, "a slate is aired instead");
                    Cast::Broken { until: Instant::now() + REST }
                }
            };
        }
        let Cast::Ready { work, transcoder, name, lease, .. } = &mut *cast else { return Ok(None) };
        let source = work.source.clone();
        *lock(&self.name) = Some(name.clone());
        if let Some(lease) = lease {
            return Ok(Some((Way::Make(lease.clone()), source)));
        }
        let runs = service.sessions.runs();
        if let Some(stored) = runs.kept(name, index).await {
            return Ok(Some((Way::Kept(stored), source)));
        }
        let fresh = Arc::new(runs.lease(transcoder.clone(), (**work).clone())?);
        *lease = Some(fresh.clone());
        Ok(Some((Way::Make(fresh), source)))
    }

    /// Gives the right to encode up; whoever asks next gets it anew. False when there was none.
    pub(super) fn give_up(&self) -> bool {
        match self.cast.try_lock().as_deref_mut() {
            Ok(Cast::Ready { lease, work, .. }) => lease.take().is_some() && work.rendition.encodes_video(),
            _ => false,
        }
    }

    /// Gives the place among the encodes back once the end is made: what comes next needs it.
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

/// How to come by a segment.
enum Way {
    Kept(Stored),
    Make(Arc<Lease>),
}

async fn open(service: &Service, channel: &Channel, item: &Item) -> Result<Cast> {
    let work = air::ready(service, item, &channel.output).await?;
    let transcoder = service.sessions.producer(&work).await?.transcoder;
    let name = runs::name(&*transcoder, &work);
    Ok(Cast::Ready { work: Box::new(work), transcoder, name, lease: None, output: channel.output.clone() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
