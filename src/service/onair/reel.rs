//! One programme that is watched: its file open, and the right to have it made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::channel::Channel;
use crate::domain::schedule::Item;
use crate::engine::segments::Stored;
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
    },
    /// It cannot be shown before then.
    Broken {
        until: Instant,
    },
}

impl Default for Reel {
    fn default() -> Self {
        Self {
            used: Mutex::new(Instant::now()),
            busy: AtomicBool::new(false),
            cast: tokio::sync::Mutex::default(),
            name: Mutex::default(),
        }
    }
}

impl Reel {
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    pub(super) fn is_idle(&self, linger: Duration) -> bool {
        lock(&self.used).elapsed() >= linger
    }

    /// False when something is being made ahead already.
    pub(super) fn begin(&self) -> bool {
        !self.busy.swap(true, Ordering::Relaxed)
    }

    pub(super) fn ended(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_made(&self, service: &Service, index: usize) -> bool {
        let name = lock(&self.name).clone();
        name.is_some_and(|name| service.sessions.runs().holds(&name, index))
    }

    /// A segment of the item; None when it cannot be shown.
    pub(super) async fn segment(
        &self,
        service: &Service,
        channel: &Channel,
        item: &Item,
        index: usize,
    ) -> Result<Option<Stored>> {
        self.touch();
        let name = lock(&self.name).clone();
        if let Some(name) = name
            && let Some(stored) = service.sessions.runs().kept(&name, index).await
        {
            return Ok(Some(stored));
        }
        let Some(lease) = self.lease(service, channel, item).await? else { return Ok(None) };
        let wait = service.config.limits.segment_wait;
        let made = tokio::time::timeout(wait, lease.segment(index)).await;
        self.touch();
        match made {
            Ok(Ok(stored)) => {
                self.let_go(service, item).await;
                Ok(Some(stored))
            }
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

    /// The right to have it made; None when it cannot be shown.
    async fn lease(&self, service: &Service, channel: &Channel, item: &Item) -> Result<Option<Arc<Lease>>> {
        let mut cast = self.cast.lock().await;
        if let Cast::Broken { until } = &*cast
            && *until > Instant::now()
        {
            return Ok(None);
        }
        if !matches!(&*cast, Cast::Ready { .. }) {
            *cast = match open(service, channel, item).await {
                Ok(ready) => ready,
                // A share that hangs, or a converter that is missing for now: the player may ask again.
                Err(fault) if matches!(fault.code, Code::StorageTimeout | Code::TranscoderUnavailable) => {
                    return Err(fault);
                }
                Err(fault) => {
                    tracing::warn!(channel.id = channel.id, media.path = item.path, %fault, "a slate is aired instead");
                    Cast::Broken { until: Instant::now() + REST }
                }
            };
        }
        let Cast::Ready { work, transcoder, name, lease } = &mut *cast else { return Ok(None) };
        *lock(&self.name) = Some(name.clone());
        if lease.is_none() {
            *lease = Some(Arc::new(service.sessions.runs().lease(transcoder.clone(), (**work).clone())?));
        }
        Ok(lease.clone())
    }

    /// Gives the place among the encodes back once the end is made: the next programme needs it.
    async fn let_go(&self, service: &Service, item: &Item) {
        let last = item.cut.segments() as usize - 1;
        if let Cast::Ready { lease, name, .. } = &mut *self.cast.lock().await
            && service.sessions.runs().holds(name, last)
        {
            *lease = None;
        }
    }
}

async fn open(service: &Service, channel: &Channel, item: &Item) -> Result<Cast> {
    let work = air::ready(service, item, &channel.output).await?;
    let transcoder = service.sessions.producer(&work).await?.transcoder;
    let name = runs::name(&*transcoder, &work);
    Ok(Cast::Ready { work: Box::new(work), transcoder, name, lease: None })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
