//! A channel as a tuner sends it: one endless stream, its segments one after the other at the clock's pace.
//!
//! It begins three target durations before the clock, as players of a playlist do. Those segments are sent at once and fill
//! the player's buffer; then each segment is sent when it would be listed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::{BEHIND_MS, Viewer, first_wanted, listed, segment};
use crate::domain::channel::Channel;
use crate::domain::live::{self, LiveSegment, PlaylistView};
use crate::error::{Code, Error, Result};
use crate::service::{Service, ingest};

/// How often a waiting stream checks whether it may continue: a token may be revoked, a channel removed.
const LOOK: Duration = Duration::from_millis(500);

/// Consecutive failed segments before the stream ends.
const MOST_FAILURES: u32 = 3;

/// Number of streams of each token.
#[derive(Default)]
pub struct Tuners(Mutex<HashMap<String, usize>>);

impl Tuners {
    fn take(self: &Arc<Self>, token: &str, most: usize) -> Option<Place> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = all.entry(token.to_owned()).or_default();
        if *theirs >= most {
            return None;
        }
        *theirs += 1;
        Some(Place { tuners: self.clone(), token: token.to_owned() })
    }
}

/// One of a token's streams.
struct Place {
    tuners: Arc<Tuners>,
    token: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.tuners.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(theirs) = all.get_mut(&self.token) {
            *theirs -= 1;
            if *theirs == 0 {
                all.remove(&self.token);
            }
        }
    }
}

/// A tuner stream of a channel. Dropping it ends the stream.
pub struct Tuner {
    service: Arc<Service>,
    channel: u32,
    /// The stream token's secret, which is verified again and again.
    secret: String,
    session: String,
    /// Ticks: the end of the last segment sent; None before the first.
    until: Option<i64>,
    failures: u32,
    _place: Place,
}

impl Tuner {
    /// Opens a stream of a channel.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, `TOKEN_EXPIRED`; `SERVER_BUSY` when the token has as many streams as a user may have sessions.
    pub fn tune(service: &Arc<Service>, secret: &str, channel: u32) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let token = service.accounts.authenticate_stream(secret)?.login_id.clone();
        let most = service.config.limits.sessions_per_user;
        let place = service.onair.tuners.take(&token, most).ok_or_else(|| {
            Error::new(Code::ServerBusy, format!("all {most} tuners are in use"))
                .with_retry_after(10)
                .with_header("x-hdhomerun-error", "805 All Tuners In Use")
        })?;
        let session = format!("tuner_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let service = service.clone();
        Ok(Self { service, channel, secret: secret.to_owned(), session, until: None, failures: 0, _place: place })
    }

    /// Returns the next segment when it is due.
    ///
    /// # Errors
    /// Each error ends the stream: `UNAUTHORIZED` for a revoked token, `CHANNEL_NOT_FOUND`, `RIGHTS_WITHDRAWN`,
    /// `RIGHTS_BASIS_REQUIRED` when the basis for recordings is gone, `SERVER_BUSY` when too many external channels are
    /// being received, `STORAGE_FULL`, `CHANNEL_UNAVAILABLE` when the server shuts down, and that of a segment that failed
    /// repeatedly.
    pub async fn next(&mut self) -> Result<Bytes> {
        loop {
            let channel = self.channel()?;
            self.service.onair.viewers().seen(channel.id, &Viewer::internal(&self.session), None);
            let channel = self.service.channels.run(&channel).await?;
            ingest::keep(&self.service, &channel)?;
            let now_ms = channel.channel_ms_at(self.service.clock.now().as_millisecond());
            // Segments of external channels are not known before they exist.
            let due = |slot: &LiveSegment| if channel.external.is_some() { 0 } else { slot.end_ticks.div_euclid(90) + 1 - now_ms };
            let slot = self.slot(&channel, now_ms);
            let Some(slot) = slot.filter(|slot| due(slot) <= 0) else {
                let left = slot.map_or(i64::MAX, |slot| due(&slot)).unsigned_abs();
                tokio::time::sleep(LOOK.min(Duration::from_millis(left))).await;
                continue;
            };
            match segment(&self.service, &channel, (slot.programme_start_ms, slot.index), &self.session).await {
                Ok(sent) => {
                    (self.until, self.failures) = (Some(slot.end_ticks), 0);
                    return Ok(sent.bytes);
                }
                // Removed by a change meanwhile; its replacement comes next.
                Err(error) if error.code == Code::AssetNotFound => self.until = Some(slot.end_ticks),
                Err(error) => {
                    self.failures += 1;
                    if self.failures >= MOST_FAILURES {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The channel, if it may still be received.
    fn channel(&self) -> Result<Arc<Channel>> {
        if self.service.onair.is_closed() {
            return Err(Error::new(Code::ChannelUnavailable, "the server is shutting down"));
        }
        let user = self.service.accounts.authenticate_stream(&self.secret)?;
        let channel = self.service.channels.get(self.channel)?;
        match channel.settings.enabled && user.may_watch(channel.id) {
            true => self.service.permits_recording(&channel).map(|()| channel),
            false => Err(Error::new(Code::ChannelNotFound, format!("there is no channel {}", self.channel))),
        }
    }

    /// The segment after the last one sent. A player that reads too slowly loses the segments that are too old, as with a
    /// real tuner.
    fn slot(&self, channel: &Channel, now_ms: i64) -> Option<LiveSegment> {
        let until = self.until.filter(|until| *until >= live::rewind_aired(channel.clock.as_deref(), now_ms, BEHIND_MS, 0) * 90);
        if let (Some(until), true) = (until, channel.external.is_some()) {
            return ingest::next(&self.service, channel, |slot| slot.start_ticks >= until).map(|(slot, ..)| slot);
        }
        match until {
            Some(until) => {
                let pace = channel.clock.as_deref();
                live::segments_from(&channel.definition, pace, until.div_euclid(90)).find(|slot| slot.start_ticks >= until)
            }
            None => first_wanted(&listed(&self.service, channel, PlaylistView::Live).0, channel.output.target_seconds),
        }
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        self.service.onair.viewers().leave(self.channel, &Viewer::internal(&self.session));
    }
}
