//! The playlist of a channel (live, start-over, catch-up: timeshift without storage): a window over the segments of its
//! programmes, as a pure function of schedule and clock (RFC 8216).
//!
//! Nothing is counted. A restart changes nothing, and two servers with the same state write the same bytes, including
//! `EXT-X-MEDIA-SEQUENCE` and `EXT-X-DISCONTINUITY`. All instants are channel time, which equals wall-clock time unless the
//! channel has a clock of its own ([`ChannelClock`]); only the dates in the text are always wall-clock time.

use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;

use super::channel::Channel;
use super::channel_clock::{ChannelClock, ClockInterval, SkipTarget};
use super::live_cmaf::{audio_init, item_video_init, slate_video_init};
use super::playlist::{self, InitId};
use super::schedule::ScheduleDefinition;
use super::segment_format::SegmentFormat;
use super::time::{ChannelMs, Ticks, WallMs, format_timestamp};

mod address;
mod asset;
mod multivariant;

pub use address::{SegmentAddresses, segment_version};
pub use asset::{LiveAsset, LiveAudio, LiveTrack};
pub use multivariant::render_multivariant;

/// How far back catch-up reaches, days; and ms.
pub const CATCHUP_DAYS: u32 = 7;
pub const CATCHUP_MS: i64 = CATCHUP_DAYS as i64 * 24 * 3_600_000;

/// Minimum number of segments in the live window.
const MIN_LIVE_SEGMENTS: usize = 6;

/// No playlist is longer than this, whatever was requested, ms. A player that comes back in time continues with the next
/// one.
pub const MAX_PLAYLIST_MS: i64 = 6 * 3_600_000;

/// A segment on air. Its instants are times since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveSegment {
    /// Start of its programme, and its index in that programme: together they form its file name.
    pub programme_start_ms: ChannelMs,
    pub index: usize,
    /// Its index in the whole item.
    pub item_index: usize,
    pub start: Ticks,
    pub end: Ticks,
    pub media_sequence: u64,
    /// Discontinuities before it (`EXT-X-DISCONTINUITY`), its own included.
    pub discontinuities: u64,
}

/// The kind of playlist requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaylistView {
    /// The live window.
    Live,
    /// Everything since an instant.
    From(ChannelMs),
    /// Between two instants; complete once the second has passed.
    Between(ChannelMs, ChannelMs),
}

/// Segments in order, starting with the one on air at an instant, without end; never before the channel's first
/// segment. Skipped segments are left out, and the others are numbered as if those had never existed.
pub fn segments_from<'a>(
    definition: &'a ScheduleDefinition,
    clock: Option<&ChannelClock>,
    from_ms: ChannelMs,
) -> impl Iterator<Item = LiveSegment> + use<'a> {
    let unbroken = ClockInterval {
        from_ms: ChannelMs::MIN,
        to_ms: ChannelMs::MAX,
        skipped_segments: 0,
        skipped_discontinuities: 0,
        skipped_time: Ticks::ZERO,
    };
    let intervals = clock.map_or_else(|| vec![unbroken], ChannelClock::aired_intervals);
    intervals.into_iter().filter(move |interval| interval.to_ms > from_ms).flat_map(move |interval| {
        let from_ms = from_ms.max(interval.from_ms);
        let segments = definition.programmes_between(from_ms, ChannelMs::MAX).flat_map(move |programme| {
            let ranges = definition.segment_ranges(&programme);
            let origin_ticks = programme.start_ms.to_ticks();
            let first_segment = definition.item_of(&programme).part(programme.part_index).first_segment;
            (0..ranges.len()).map(move |index| LiveSegment {
                programme_start_ms: programme.start_ms,
                index,
                item_index: first_segment + index,
                start: origin_ticks + ranges.segment_start(index),
                end: origin_ticks + ranges.segment_end(index),
                media_sequence: (programme.media_sequence + index as u64).saturating_sub(interval.skipped_segments),
                discontinuities: programme.discontinuities.saturating_sub(interval.skipped_discontinuities),
            })
        });
        let (from_ticks, until_ticks) = (from_ms.to_ticks(), interval.to_ms.to_ticks());
        segments
            .skip_while(move |segment| segment.end <= from_ticks)
            .take_while(move |segment| segment.end <= until_ticks)
    })
}

/// The target of a skip: the end of the programme the guide shows as current. None before the channel's first programme.
pub fn skip_target(channel: &Channel, now_ms: WallMs) -> Option<SkipTarget> {
    let (definition, clock) = (&channel.definition, channel.clock.as_deref()?);
    let channel_ms = clock.channel_ms_at(now_ms);
    let current =
        channel.whole_programmes(channel_ms, channel_ms + 1).next().filter(|current| current.start_ms <= channel_ms)?;
    let to_ms = current.end_ms;
    let next = segments_from(definition, None, to_ms).next()?;
    let target_seconds = channel.target_seconds();
    let window = listed_segments(definition, Some(clock), PlaylistView::Live, target_seconds, channel_ms);
    let last = clock.intervals().last().copied()?;
    let drops_last_interval = window.last().is_none_or(|aired| aired.end <= last.channel_from_ms.to_ticks());
    let Some(aired) = window.last() else {
        return Some(SkipTarget {
            to_ms,
            skipped_segments: last.skipped_segments,
            skipped_discontinuities: last.skipped_discontinuities,
            skipped_time: last.skipped_time,
            drops_last_interval,
        });
    };
    let interval = clock.interval_of(aired.programme_start_ms);
    // A change of format is one discontinuity, however many were skipped.
    let discontinuities = aired.discontinuities
        + u64::from(next.discontinuities > aired.discontinuities + interval.skipped_discontinuities);
    Some(SkipTarget {
        to_ms,
        skipped_segments: next.media_sequence.saturating_sub(aired.media_sequence + 1),
        skipped_discontinuities: next.discontinuities.saturating_sub(discontinuities),
        skipped_time: next.start - (aired.end - interval.skipped_time),
        drops_last_interval,
    })
}

/// The segments of a playlist at an instant. `target_seconds` is the channel's target duration, seconds.
pub fn listed_segments(
    definition: &ScheduleDefinition,
    clock: Option<&ChannelClock>,
    view: PlaylistView,
    target_seconds: u64,
    channel_now_ms: ChannelMs,
) -> Vec<LiveSegment> {
    let ends_by = |until_ms: ChannelMs| move |segment: &LiveSegment| segment.end <= until_ms.to_ticks();
    match view {
        PlaylistView::Live => {
            // A player starts three target durations before the end and must find that segment listed for a while longer.
            let start_margin_ms = (3 * target_seconds as i64 + 2) * 1000;
            let back_ms = start_margin_ms + MIN_LIVE_SEGMENTS as i64 * target_seconds as i64 * 1000;
            let from_ms = rewind_aired(clock, channel_now_ms, back_ms, target_seconds as i64 * 1000);
            let mut segments: Vec<LiveSegment> =
                segments_from(definition, clock, from_ms).take_while(ends_by(channel_now_ms)).collect();
            let mut length = Ticks::ZERO;
            let is_enough = |index: &usize| {
                length += segments[*index].end - segments[*index].start;
                segments.len() - index >= MIN_LIVE_SEGMENTS && length >= Ticks::from_ms(start_margin_ms)
            };
            let first = (0..segments.len()).rev().find(is_enough).unwrap_or(0);
            segments.drain(..first);
            segments
        }
        PlaylistView::From(from) => segments_from(definition, clock, from)
            .take_while(ends_by(channel_now_ms.min(from + MAX_PLAYLIST_MS)))
            .collect(),
        PlaylistView::Between(from, to) => {
            let until = to.min(from + MAX_PLAYLIST_MS);
            let segments = segments_from(definition, clock, from);
            segments
                .take_while(|segment| segment.start < until.to_ticks())
                .take_while(ends_by(channel_now_ms))
                .collect()
        }
    }
}

/// The channel time `back_ms` of aired time ago. A skip may have cut a segment short by up to `lost_ms`.
pub fn rewind_aired(
    clock: Option<&ChannelClock>,
    channel_now_ms: ChannelMs,
    mut back_ms: i64,
    lost_ms: i64,
) -> ChannelMs {
    let mut end = channel_now_ms;
    for interval in clock.map(ChannelClock::aired_intervals).unwrap_or_default().iter().rev() {
        if interval.from_ms > channel_now_ms {
            continue;
        }
        end = interval.to_ms.min(channel_now_ms);
        let aired = end.saturating_since(interval.from_ms);
        if aired >= back_ms {
            break;
        }
        back_ms -= (aired - lost_ms).max(0);
    }
    end.saturating_sub(back_ms)
}

/// A media playlist of a channel.
pub struct LivePlaylist {
    pub channel: Arc<Channel>,
    pub view: PlaylistView,
    pub segments: Arc<[LiveSegment]>,
    /// The channel time of the list.
    pub channel_now_ms: ChannelMs,
    /// The channel's clock is paused, so the list does not wait for the segment in progress.
    pub is_paused: bool,
}

impl LivePlaylist {
    /// Leaves out `EXT-X-DISCONTINUITY`.
    pub fn remove_discontinuities(&mut self) {
        self.segments = self.segments.iter().map(|segment| LiveSegment { discontinuities: 0, ..*segment }).collect();
    }

    /// Whether nothing will be added to it.
    fn is_complete(&self) -> bool {
        let until = match self.view {
            PlaylistView::Live => return false,
            PlaylistView::From(from) => return self.channel_now_ms >= from + MAX_PLAYLIST_MS,
            PlaylistView::Between(from, to) => to.min(from + MAX_PLAYLIST_MS),
        };
        let Some(last) = self.segments.last().filter(|_| self.channel_now_ms >= until) else { return false };
        last.end >= until.to_ticks() || {
            let (definition, clock) = (&self.channel.definition, self.channel.clock.as_deref());
            let next = segments_from(definition, clock, ChannelMs::from_ticks(last.end))
                .find(|segment| segment.start >= last.end);
            next.is_none_or(|next| self.is_paused || next.start >= until.to_ticks())
        }
    }

    /// The text of a track's playlist.
    ///
    /// All tracks have the same segments, numbers and discontinuities.
    pub fn render(&self, track: &LiveTrack, addresses: SegmentAddresses<'_>) -> String {
        let (segments, is_complete) = (&self.segments, self.is_complete());
        let mut text = String::with_capacity(256 + segments.len() * (130 + addresses.len()));
        self.push_head(&mut text, track.format(), is_complete);
        let mut discontinuities = segments.first().map_or(0, |first| first.discontinuities);
        let (mut programme_start_ms, mut init, mut programme_inits) = (None, None, ProgrammeInits::default());
        let mut version = None;
        let copies = self.channel.copies;
        for segment in segments.iter() {
            // One tag per counted discontinuity (RFC 8216, section 6.2.1): a skip may have passed several.
            while discontinuities < segment.discontinuities {
                text.push_str("#EXT-X-DISCONTINUITY\n");
                discontinuities += 1;
            }
            if programme_start_ms.replace(segment.programme_start_ms) != Some(segment.programme_start_ms) {
                programme_inits = ProgrammeInits::new(&self.channel, track, segment);
                version = addresses.programme_version(&self.channel, segment.programme_start_ms);
            }
            if let Some(kind) = track.kind()
                && let Some(found) = programme_inits.init_of(segment.index).filter(|found| init != Some(*found))
            {
                let name = LiveAsset::Init(kind, found).name();
                let _ = writeln!(text, "#EXT-X-MAP:URI=\"{}\"", addresses.of_init(&name));
                init = Some(found);
            }
            let start_ms = self.channel.wall_ms_at(ChannelMs(segment.start.as_ms_rounded()));
            let date_time = Timestamp::from_millisecond(start_ms.0).map(format_timestamp).unwrap_or_default();
            let seconds = (segment.end - segment.start).as_seconds();
            let _ = writeln!(text, "#EXT-X-PROGRAM-DATE-TIME:{date_time}\n#EXTINF:{seconds:.5},");
            let name = asset::copies_prefix(copies) + &track.segment_name(segment.programme_start_ms, segment.index);
            let _ = writeln!(text, "{}", addresses.of_segment(&name, version.as_ref(), segment.index));
        }
        if is_complete {
            text.push_str("#EXT-X-ENDLIST\n");
        }
        text
    }

    fn push_head(&self, text: &mut String, format: SegmentFormat, is_complete: bool) {
        let first = self.segments.first();
        let (sequence, discontinuities) = first.map_or((0, 0), |first| (first.media_sequence, first.discontinuities));
        let (version, target_seconds) = (playlist::version(format), self.channel.target_seconds());
        let _ = writeln!(text, "#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-TARGETDURATION:{target_seconds}");
        let _ = writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{sequence}\n#EXT-X-DISCONTINUITY-SEQUENCE:{discontinuities}");
        match self.view {
            PlaylistView::Live => {}
            _ if is_complete => text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n"),
            _ => text.push_str("#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n"),
        }
        // Copied video may have open groups of pictures.
        if self.channel.copies.is_empty() {
            text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
        }
    }
}

/// The init segments of a programme in fMP4.
#[derive(Clone, Copy, Debug, Default)]
struct ProgrammeInits {
    /// Of the segments that show its item.
    item: Option<InitId>,
    /// Of the others, and how many come before them.
    slate: Option<InitId>,
    item_segments: usize,
}

impl ProgrammeInits {
    /// Those of a track, of the programme of a segment.
    fn new(channel: &Channel, track: &LiveTrack, segment: &LiveSegment) -> Self {
        match track {
            LiveTrack::Muxed | LiveTrack::Text(_) => Self::default(),
            LiveTrack::Audio(audio) => {
                let init = Some(InitId::of(&audio_init(audio.layout)));
                Self { item: init, slate: init, item_segments: 0 }
            }
            LiveTrack::Video => {
                let definition = &channel.definition;
                let Some(programme) = definition.programme_at(segment.programme_start_ms) else {
                    return Self::default();
                };
                let item = definition.item_of(&programme);
                let slate = Some(InitId::of(&slate_video_init(item)));
                let item_segments = definition.segment_ranges(&programme).own_count();
                Self { item: Some(item_video_init(item)), slate, item_segments }
            }
        }
    }

    fn init_of(&self, index: usize) -> Option<InitId> {
        if index < self.item_segments { self.item } else { self.slate }
    }
}

#[cfg(test)]
mod on_demand;
#[cfg(test)]
mod tests;
