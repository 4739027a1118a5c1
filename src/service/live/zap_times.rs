//! Zap times: from a viewer's first request for a channel until its first segment can be sent.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Audience;
use crate::domain::histogram::Histogram;

/// Viewers at most whose channel is starting.
const MAX_STARTING: usize = 1024;

/// After this time without a first segment, a further request is another zap.
const STARTING_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the first segment of a zap came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZapKind {
    /// It existed already.
    Prepared,
    /// It was made for this viewer.
    Made,
    /// An external channel.
    External,
}

impl ZapKind {
    pub const ALL: [Self; 3] = [Self::Prepared, Self::Made, Self::External];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Made => "made",
            Self::External => "external",
        }
    }
}

/// The zap times of this server.
#[derive(Default)]
pub struct ZapTimes {
    times: [Histogram; ZapKind::ALL.len()],
    /// Viewers whose channel was not ready at their last request: when they first requested it.
    starting: Mutex<HashMap<Audience, (Instant, ZapKind)>>,
}

impl ZapTimes {
    pub fn of(&self, kind: ZapKind) -> &Histogram {
        &self.times[kind as usize]
    }

    /// Records a request whose channel is not ready. It began at `since`.
    pub(super) fn record_start(&self, viewer: Audience, since: Instant, kind: ZapKind) {
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        starting.retain(|_, (began, _)| began.elapsed() < STARTING_TIMEOUT);
        if starting.len() < MAX_STARTING {
            starting.entry(viewer).or_insert((since, kind));
        }
    }

    /// Records that the channel of a request is ready. It began at `since`, or with an earlier request of the viewer.
    pub(super) fn record_ready(&self, viewer: &Audience, since: Instant, kind: ZapKind) {
        let earlier = self.starting.lock().unwrap_or_else(PoisonError::into_inner).remove(viewer);
        let earlier = earlier.filter(|(began, _)| began.elapsed() < STARTING_TIMEOUT);
        let (since, kind) = earlier.unwrap_or((since, kind));
        self.of(kind).record(since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_zap_lasts_from_the_first_request_to_the_first_segment() {
        let times = ZapTimes::default();
        let viewer = (1, "ada".to_owned());
        times.record_start(viewer.clone(), Instant::now(), ZapKind::Made);
        tokio::time::advance(Duration::from_secs(2)).await;
        times.record_start(viewer.clone(), Instant::now(), ZapKind::Made);
        tokio::time::advance(Duration::from_secs(1)).await;
        times.record_ready(&viewer, Instant::now(), ZapKind::Prepared);
        let counts = times.of(ZapKind::Made).counts();
        assert_eq!((counts.count, counts.sum_seconds), (1, 3.0));
        times.record_ready(&viewer, Instant::now(), ZapKind::Prepared);
        let counts = times.of(ZapKind::Prepared).counts();
        assert_eq!((counts.count, counts.sum_seconds), (1, 0.0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_zap_that_was_given_up_does_not_count() {
        let times = ZapTimes::default();
        let viewer = (1, "ada".to_owned());
        times.record_start(viewer.clone(), Instant::now(), ZapKind::Made);
        tokio::time::advance(STARTING_TIMEOUT).await;
        times.record_ready(&viewer, Instant::now(), ZapKind::Prepared);
        assert_eq!(times.of(ZapKind::Made).counts().count, 0);
        for channel in 0..2 * MAX_STARTING as u32 {
            times.record_start((channel, "ada".to_owned()), Instant::now(), ZapKind::Made);
        }
        assert_eq!(times.starting.lock().unwrap().len(), MAX_STARTING);
    }
}
