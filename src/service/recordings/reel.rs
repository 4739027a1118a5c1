//! The segments of a recording: the same ones that viewers of the channel get.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::domain::channel::Channel;
use crate::domain::live_window;
use crate::domain::mpegts::timestamp_shift::shift_segment;
use crate::domain::recording::Recording;
use crate::error::Result;
use crate::service::live::Viewer;
use crate::service::{Service, ingest, live};

/// The longest wait before a channel is checked again.
const LOOK: Duration = Duration::from_secs(5);

/// How often the timeline of an external channel is checked, and how late it may be, ms.
const OFTEN: Duration = Duration::from_millis(250);
const LATE_MS: i64 = 15_000;

/// The next step of a recording.
pub(super) enum Next {
    Piece(Piece),
    /// The next segment is not on air yet: check again after this time.
    Wait(Duration),
    /// The recording has reached its end.
    Over,
}

/// A segment with its start and end, ticks since 1970.
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) from: i64,
    pub(super) through: i64,
    /// Whether a slate replaces the programme.
    pub(super) is_slate: bool,
}

/// The next segment of a recording. A scheduled channel is a function of its schedule, so segments missed while the
/// server was down are made afterwards.
///
/// # Errors
/// `CHANNEL_NOT_FOUND`, `RIGHTS_WITHDRAWN`, `RIGHTS_BASIS_REQUIRED`, and those of [`onair::segment`].
pub(super) async fn next(service: &Arc<Service>, recording: &Recording) -> Result<Next> {
    let channel = service.channels.get(recording.channel_id)?;
    service.check_recordable(&channel)?;
    if channel.external.is_some() {
        return elsewhere(service, &channel, recording);
    }
    let (from_ms, to_ms) = recording.padded_range_ms();
    let written = &recording.written_range;
    let begun = written.bytes > 0;
    let from = if begun { written.through_ticks } else { from_ms * 90 };
    // Half a millisecond of tolerance for rounding. A programme that was shortened meanwhile ends at its new end.
    let behind = |slot: &live_window::LiveSegment| if begun { slot.start_ticks >= from - 45 } else { slot.end_ticks > from };
    let Some(slot) = live_window::segments_from(&channel.definition, None, from.div_euclid(90)).find(behind) else {
        return Ok(Next::Over);
    };
    if slot.start_ticks >= to_ms * 90 {
        return Ok(Next::Over);
    }
    let now_ms = service.clock.now().as_millisecond();
    if let Ok(wait @ 1..) = u64::try_from(slot.end_ticks.div_euclid(90) - now_ms) {
        return Ok(Next::Wait(Duration::from_millis(wait).min(LOOK)));
    }
    // A recording counts as a viewer: the channel keeps its encode slot and prepares the next programme.
    service.live_channels.viewers().record_request(channel.id, &Viewer::internal(&recording.id), None);
    let sent = live::produce_segment(service, &channel, (slot.programme_start_ms, slot.index), &recording.id).await?;
    let mut bytes = Vec::from(sent.bytes);
    shift_segment(&mut bytes, written.timestamp_shift(slot.start_ticks));
    let is_slate = sent.is_slate;
    Ok(Next::Piece(Piece { bytes: bytes.into(), from: slot.start_ticks, through: slot.end_ticks, is_slate }))
}

/// The next segment of an external channel, from its present timeline. Missed segments cannot be made later.
fn elsewhere(service: &Arc<Service>, channel: &Channel, recording: &Recording) -> Result<Next> {
    let (from_ms, to_ms) = recording.padded_range_ms();
    let written = &recording.written_range;
    let begun = written.bytes > 0;
    let now_ms = service.clock.now().as_millisecond();
    if now_ms < to_ms {
        service.live_channels.viewers().record_request(channel.id, &Viewer::internal(&recording.id), None);
        ingest::keep(service, channel)?;
        live::start_maintenance(service);
    }
    let from = if begun { written.through_ticks } else { from_ms * 90 };
    let wanted = |slot: &live_window::LiveSegment| if begun { slot.start_ticks >= from - 45 } else { slot.end_ticks > from };
    match ingest::next(service, channel, wanted) {
        Some((slot, ..)) if slot.start_ticks >= to_ms * 90 => Ok(Next::Over),
        Some((slot, bytes, is_slate)) => {
            let mut bytes = Vec::from(bytes);
            shift_segment(&mut bytes, written.timestamp_shift(slot.start_ticks));
            Ok(Next::Piece(Piece { bytes: bytes.into(), from: slot.start_ticks, through: slot.end_ticks, is_slate }))
        }
        None if now_ms > to_ms + LATE_MS => Ok(Next::Over),
        None => Ok(Next::Wait(OFTEN)),
    }
}
