//! The segments of a recording: the same ones that viewers of the channel get.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::domain::channel::Channel;
use crate::domain::live_window::{self, LiveSegment, LiveTrack};
use crate::domain::mpegts::timestamp_shift::shift_segment;
use crate::domain::recording::Recording;
use crate::domain::time::{ChannelMs, Ticks};
use crate::error::Result;
use crate::service::channels::{ViewStart, Viewer};
use crate::service::live::{self, ScheduledSegment};
use crate::service::{Service, ingest};

/// The longest wait before a channel is checked again.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// How often the timeline of an external channel is checked, and how late it may be, ms.
const EXTERNAL_POLL_INTERVAL: Duration = Duration::from_millis(250);
const EXTERNAL_GRACE_MS: i64 = 15_000;

/// The next step of a recording.
pub(super) enum RecordingStep {
    Segment(RecordedSegment),
    /// The next segment is not on air yet: check again after this time.
    Wait(Duration),
    /// The recording has reached its end.
    Ended,
}

/// A segment with its start and end, since 1970.
pub(super) struct RecordedSegment {
    pub(super) bytes: Bytes,
    pub(super) start: Ticks,
    pub(super) end: Ticks,
    /// Whether a slate replaces the programme.
    pub(super) is_slate: bool,
}

impl RecordedSegment {
    /// The segment with the timestamps it has in the file.
    fn new(recording: &Recording, segment: &LiveSegment, bytes: Bytes, is_slate: bool) -> Self {
        let mut bytes = Vec::from(bytes);
        shift_segment(&mut bytes, recording.written_range.timestamp_shift(segment.start));
        let LiveSegment { start, end, .. } = *segment;
        Self { bytes: bytes.into(), start, end, is_slate }
    }
}

/// The next segment of a recording. A scheduled channel is a function of its schedule, so segments missed while the
/// server was down are made afterwards.
///
/// # Errors
/// `CHANNEL_NOT_FOUND`, `RIGHTS_WITHDRAWN`, `RIGHTS_BASIS_REQUIRED`, and those of [`ScheduledSegment::find`] and [`live::air_segment`].
pub(super) async fn next_step(service: &Arc<Service>, recording: &Recording) -> Result<RecordingStep> {
    let channel = service.channels.get(recording.channel_id)?;
    service.check_recordable(&channel)?;
    let (from_ms, to_ms) = recording.padded_range_ms();
    let has_begun = recording.written_range.bytes > 0;
    let from_ticks = if has_begun { recording.written_range.through } else { Ticks::from_ms(from_ms) };
    let is_after = |segment: &LiveSegment| {
        // Half a millisecond of tolerance for rounding.
        if has_begun { segment.start >= from_ticks - Ticks(45) } else { segment.end > from_ticks }
    };
    if channel.external.is_some() {
        return next_external_step(service, &channel, recording, is_after);
    }
    // A programme that was shortened meanwhile ends at its new end.
    let segment =
        live_window::segments_from(&channel.definition, None, ChannelMs::from_ticks(from_ticks)).find(is_after);
    let Some(segment) = segment.filter(|segment| segment.start < Ticks::from_ms(to_ms)) else {
        return Ok(RecordingStep::Ended);
    };
    let now_ms = service.clock.now().as_millisecond();
    if let Ok(wait @ 1..) = u64::try_from(segment.end.as_ms_floor() - now_ms) {
        return Ok(RecordingStep::Wait(Duration::from_millis(wait).min(MAX_WAIT)));
    }
    // A recording counts as a viewer: the channel keeps its encode slot and prepares the next programme.
    service.viewers.record_request(channel.id, &Viewer::internal(&recording.id), ViewStart::Unchanged);
    let segment_id = (segment.programme_start_ms, segment.index);
    let scheduled = ScheduledSegment::find(service, &channel, segment_id, &recording.id)?;
    let aired = live::air_segment(service, &channel, &scheduled, &LiveTrack::Muxed).await?;
    Ok(RecordingStep::Segment(RecordedSegment::new(recording, &segment, aired.bytes, aired.is_slate)))
}

/// The next segment of an external channel, from its present timeline. Missed segments cannot be made later.
fn next_external_step(
    service: &Arc<Service>,
    channel: &Channel,
    recording: &Recording,
    is_after: impl Fn(&LiveSegment) -> bool,
) -> Result<RecordingStep> {
    let to_ms = recording.padded_range_ms().1;
    let now_ms = service.clock.now().as_millisecond();
    if now_ms < to_ms {
        service.viewers.record_request(channel.id, &Viewer::internal(&recording.id), ViewStart::Unchanged);
        ingest::start_ingest(service, channel)?;
        live::start_maintenance(service);
    }
    match ingest::next_segment(service, channel, is_after) {
        Some((segment, ..)) if segment.start >= Ticks::from_ms(to_ms) => Ok(RecordingStep::Ended),
        Some((segment, bytes, is_slate)) => {
            Ok(RecordingStep::Segment(RecordedSegment::new(recording, &segment, bytes, is_slate)))
        }
        None if now_ms > to_ms + EXTERNAL_GRACE_MS => Ok(RecordingStep::Ended),
        None => Ok(RecordingStep::Wait(EXTERNAL_POLL_INTERVAL)),
    }
}
