//! Converts between the times of a pipeline and times of the item, whose 0 is the first timestamp of its file.

use gstreamer as gst;

use super::opener::Opener;
use super::pes_feed::ITEM_ZERO_SECONDS;
use crate::domain::media::Media;

/// The clock of one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemClock {
    /// Where the item's 0 is in the pipeline, nanoseconds.
    zero_nanoseconds: i64,
    times: PipelineTimes,
}

/// Which times of a pipeline are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipelineTimes {
    /// Stream times: of mp4, because edit lists move them; of containers that begin at 0, and of
    /// fed streams.
    Stream,
    /// Timestamps of buffers. matroskademux counts stream time from the first block it has read, and counts again when a
    /// block of another stream is earlier (measured: a first frame at 28 ms had stream time 0).
    Buffer,
}

impl ItemClock {
    /// The clock of the pipeline that decodes stream `index`.
    pub(super) fn for_stream(media: &Media, index: u32) -> Self {
        let (zero_seconds, times) = match Opener::for_stream(media, index) {
            Opener::PesFeed => (ITEM_ZERO_SECONDS as f64, PipelineTimes::Stream),
            Opener::Matroska => (media.start_seconds, PipelineTimes::Buffer),
            _ => (media.start_seconds, PipelineTimes::Stream),
        };
        Self { zero_nanoseconds: (zero_seconds * 1e9).round() as i64, times }
    }

    /// Where a buffer with this timestamp starts, nanoseconds of the item; may be negative. None if its time is unknown.
    pub(super) fn item_nanoseconds(self, segment: &gst::Segment, pts: gst::ClockTime) -> Option<i64> {
        let time = match self.times {
            PipelineTimes::Buffer => i64::try_from(pts.nseconds()).ok()?,
            PipelineTimes::Stream => signed_nanoseconds(in_time(segment)?.to_stream_time_full(pts)?)?,
        };
        time.checked_sub(self.zero_nanoseconds)
    }

    /// Where to seek to reach this time of the item. `segment` is that of the stream's first buffer: it shows where stream time
    /// begins.
    pub(super) fn seek_position(self, item_seconds: f64, segment: Option<&gst::Segment>) -> gst::ClockTime {
        let stream_zero = match self.times {
            PipelineTimes::Stream => None,
            PipelineTimes::Buffer => segment.and_then(|segment| stream_zero_nanoseconds(in_time(segment)?)),
        };
        let position = (item_seconds * 1e9) as i64 + self.zero_nanoseconds - stream_zero.unwrap_or(0);
        gst::ClockTime::from_nseconds(position.max(0).unsigned_abs())
    }
}

fn in_time(segment: &gst::Segment) -> Option<&gst::FormattedSegment<gst::ClockTime>> {
    segment.downcast_ref()
}

/// The timestamp at which stream time 0 is.
fn stream_zero_nanoseconds(segment: &gst::FormattedSegment<gst::ClockTime>) -> Option<i64> {
    let (start, time) = (segment.start()?.nseconds(), segment.time()?.nseconds());
    i64::try_from(start).ok()?.checked_sub(i64::try_from(time).ok()?)
}

fn signed_nanoseconds(time: gst::Signed<gst::ClockTime>) -> Option<i64> {
    let nanoseconds = i64::try_from(time.abs().nseconds()).ok()?;
    Some(if time.is_negative() { -nanoseconds } else { nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::Container;

    const SECOND: u64 = 1_000_000_000;

    /// A segment that begins at `start` and has stream time `time` there, in seconds.
    fn segment(start: u64, time: u64) -> gst::Segment {
        let mut segment = gst::FormattedSegment::<gst::ClockTime>::new();
        segment.set_start(gst::ClockTime::from_nseconds(start * SECOND));
        segment.set_time(gst::ClockTime::from_nseconds(time * SECOND));
        segment.upcast()
    }

    fn clock(container: Container, start_seconds: f64) -> ItemClock {
        ItemClock::for_stream(&Media { start_seconds, ..Media::new(container, Vec::new()) }, 0)
    }

    #[test]
    fn an_item_begins_at_the_first_timestamp_of_its_file() {
        let item_time = |clock: ItemClock, segment: gst::Segment, pts| clock.item_nanoseconds(&segment, pts);
        let at = |seconds: u64| gst::ClockTime::from_nseconds(seconds * SECOND);
        let half_second = 500_000_000;
        // Stream time is that of the file; the segment's start is the edited time.
        let mp4 = clock(Container::Mp4, 5.5);
        assert_eq!(item_time(mp4, segment(0, 5), at(1)), Some(half_second));
        assert_eq!(mp4.seek_position(2.5, Some(&segment(0, 5))), at(8));
        // Stream time begins at 5 s of the file.
        let matroska = clock(Container::Matroska, 5.5);
        assert_eq!(item_time(matroska, segment(5, 0), at(6)), Some(half_second));
        assert_eq!(item_time(matroska, segment(5, 0), at(5)), Some(-half_second));
        assert_eq!(matroska.seek_position(2.5, Some(&segment(5, 0))), at(3));
        assert_eq!(matroska.seek_position(2.5, None), at(8));
        assert_eq!(clock(Container::Webm, -0.5).seek_position(0.25, None), gst::ClockTime::ZERO);
    }
}
