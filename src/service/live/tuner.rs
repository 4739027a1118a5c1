//! A channel as a tuner sends it: one endless stream, its segments one after the other at the clock's pace.
//!
//! It begins three target durations before the clock, as players of a playlist do. Those segments are sent at once and fill
//! the player's buffer; then each segment is sent when it would be listed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::watch::no_segment_error;
use super::{MAX_LIVE_LAG_MS, listed_segments, start_maintenance};
use crate::domain::channel::Channel;
use crate::domain::live_window::{self, LiveSegment, LiveTrack, PlaylistView};
use crate::domain::time::{ChannelMs, Ticks};
use crate::error::{Code, Error, Result};
use crate::service::channels::{ViewStart, Viewer};
use crate::service::{Service, ingest};

/// How often a waiting stream checks whether it may continue: a token may be revoked, a channel removed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Longest wait for the first segment.
const FIRST_SEGMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// Consecutive failed segments before the stream ends.
const MAX_FAILURES: u32 = 3;

/// Number of streams of each token.
#[derive(Default)]
pub struct StreamCounts(Mutex<HashMap<String, usize>>);

impl StreamCounts {
    fn acquire(self: &Arc<Self>, token: &str, max_streams: usize) -> Option<StreamSlot> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(token.to_owned()).or_default();
        if *count >= max_streams {
            return None;
        }
        *count += 1;
        Some(StreamSlot { counts: self.clone(), token: token.to_owned() })
    }
}

/// One of a token's streams.
struct StreamSlot {
    counts: Arc<StreamCounts>,
    token: String,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.token);
            }
        }
    }
}

/// A tuner stream of a channel. Dropping it ends the stream.
pub struct TunerStream {
    service: Arc<Service>,
    channel: u32,
    /// The stream token's secret, which is verified again and again.
    secret: String,
    session: String,
    /// The end of the last segment sent; None before the first.
    sent_until_ticks: Option<Ticks>,
    failure_count: u32,
    _slot: StreamSlot,
}

impl TunerStream {
    /// Opens a stream of a channel; returns it with its first segment.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, `TOKEN_EXPIRED`; `SERVER_BUSY` when the token has as many streams as a user may have sessions;
    /// `CHANNEL_UNAVAILABLE` without a segment within 15 s; those of [`Self::next_segment`].
    pub async fn open(service: &Arc<Service>, secret: &str, channel: u32) -> Result<(Self, Bytes)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let token = service.accounts.authenticate_stream(secret)?.login_id.clone();
        let max_streams = service.config.limits.sessions_per_user;
        let slot = service.live_channels.tuner_streams.acquire(&token, max_streams).ok_or_else(|| {
            Error::new(Code::ServerBusy, format!("all {max_streams} tuners are in use"))
                .with_retry_after(10)
                .with_header("x-hdhomerun-error", "805 All Tuners In Use")
        })?;
        let session = format!("tuner_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut stream = Self {
            service: service.clone(),
            channel,
            secret: secret.to_owned(),
            session,
            sent_until_ticks: None,
            failure_count: 0,
            _slot: slot,
        };
        start_maintenance(service);
        let first = tokio::time::timeout(FIRST_SEGMENT_TIMEOUT, stream.next_segment()).await;
        let first = first.map_err(|_| no_segment_error())??;
        Ok((stream, first))
    }

    /// Returns the next segment when it is due.
    ///
    /// # Errors
    /// Each error ends the stream: `UNAUTHORIZED` for a revoked token, `CHANNEL_NOT_FOUND`, `RIGHTS_WITHDRAWN`,
    /// `RIGHTS_BASIS_REQUIRED` when the basis for recordings is gone, `SERVER_BUSY` when too many external channels are
    /// being received, `STORAGE_FULL`, `CHANNEL_UNAVAILABLE` when the server shuts down, and that of a segment that failed
    /// repeatedly.
    pub async fn next_segment(&mut self) -> Result<Bytes> {
        loop {
            let channel = self.channel()?;
            let viewer = Viewer::internal(&self.session);
            self.service.viewers.record_request(channel.id, &viewer, ViewStart::Unchanged);
            let channel = self.service.channels.extend_clock(&channel).await?;
            ingest::start_ingest(&self.service, &channel)?;
            let now_ms = channel.channel_ms_at(self.service.clock.now_ms());
            // Segments of external channels are not known before they exist.
            let due_in_ms = |segment: &LiveSegment| {
                if channel.external.is_some() { 0 } else { ChannelMs::from_ticks(segment.end) + 1 - now_ms }
            };
            let segment = self.next_segment_info(&channel, now_ms);
            let Some(segment) = segment.filter(|segment| due_in_ms(segment) <= 0) else {
                let wait_ms = segment.map_or(i64::MAX, |segment| due_in_ms(&segment)).unsigned_abs();
                tokio::time::sleep(CHECK_INTERVAL.min(Duration::from_millis(wait_ms))).await;
                continue;
            };
            let segment_id = (segment.programme_start_ms, segment.index);
            match super::segment(&self.service, &channel, &LiveTrack::Muxed, segment_id, &viewer).await {
                Ok(sent) => {
                    (self.sent_until_ticks, self.failure_count) = (Some(segment.end), 0);
                    return Ok(sent.bytes);
                }
                // Removed by a change meanwhile; its replacement comes next.
                Err(error) if error.code == Code::AssetNotFound => self.sent_until_ticks = Some(segment.end),
                Err(error) => {
                    self.failure_count += 1;
                    if self.failure_count >= MAX_FAILURES {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The channel, if it may still be received.
    fn channel(&self) -> Result<Arc<Channel>> {
        if self.service.live_channels.is_closed() {
            return Err(Error::new(Code::ChannelUnavailable, "the server is shutting down"));
        }
        let user = self.service.accounts.authenticate_stream(&self.secret)?;
        let channel = self.service.channels.get(self.channel)?;
        match channel.settings.enabled && user.may_watch(channel.id) {
            true => self.service.check_recording_rights(&channel).map(|()| channel),
            false => Err(Error::new(Code::ChannelNotFound, format!("there is no channel {}", self.channel))),
        }
    }

    /// The segment after the last one sent. A player that reads too slowly loses the segments that are too old, as with a
    /// real tuner.
    fn next_segment_info(&self, channel: &Channel, now_ms: ChannelMs) -> Option<LiveSegment> {
        let sent_until = self.sent_until_ticks.filter(|until| {
            *until >= live_window::rewind_aired(channel.clock.as_deref(), now_ms, MAX_LIVE_LAG_MS, 0).to_ticks()
        });
        if let (Some(sent_until), true) = (sent_until, channel.external.is_some()) {
            return ingest::next_segment(&self.service, channel, |segment| segment.start >= sent_until)
                .map(|(segment, ..)| segment);
        }
        match sent_until {
            Some(until) => {
                let clock = channel.clock.as_deref();
                live_window::segments_from(&channel.definition, clock, ChannelMs::from_ticks(until))
                    .find(|segment| segment.start >= until)
            }
            None => listed_segments(&self.service, channel, PlaylistView::Live).first,
        }
    }
}

impl Drop for TunerStream {
    fn drop(&mut self) {
        self.service.viewers.leave(self.channel, &Viewer::internal(&self.session));
    }
}
