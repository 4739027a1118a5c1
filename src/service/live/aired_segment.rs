//! A segment of a channel: found in the schedule once, made, and put on the channel's timeline.

use std::sync::Arc;

use bytes::Bytes;

use super::{MAX_LIVE_LAG_MS, ProgrammeKey, find_or_add_programme, retry_when_busy};
use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::Channel;
use crate::domain::live_cmaf::convert_aired;
use crate::domain::live_window::{self, LiveSegment, LiveTrack};
use crate::domain::media::TrackLanguage;
use crate::domain::mpegts::channel_timeline::{TimelineSpan, place_on_timeline};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::schedule::Programme;
use crate::domain::schedule::segmentation::{SegmentRanges, Segmentation};
use crate::domain::subtitles::write_webvtt_segment;
use crate::domain::time::{ChannelMs, Ticks};
use crate::engine::TIMELINE_BASE;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::channels::slates::SlateContent;

/// A segment of a channel, retimed and ready to be sent.
#[derive(Clone, Debug)]
pub struct AiredSegment {
    pub bytes: Bytes,
    pub etag: String,
    /// The programme cannot be shown, and a slate replaces it.
    pub is_slate: bool,
    /// Made by output settings that the channel had before: a programme on air keeps those it began with.
    pub is_outdated: bool,
}

/// A segment of a scheduled channel with its programme, as one viewer reads it.
#[derive(Clone, Debug)]
pub struct ScheduledSegment {
    /// The reading it belongs to: the one of all live viewers, or the viewer's own when the segment is long past.
    pub(super) key: ProgrammeKey,
    pub(super) programme: Programme,
    pub(super) ranges: SegmentRanges,
    /// Its index in the programme, and in the whole item.
    pub(super) index: usize,
    pub(super) item_index: usize,
    /// The index in the item of the programme's last segment that shows the item.
    pub(super) last_item_index: usize,
    /// Whether it shows the item, so that a backend has to make it.
    pub(super) shows_item: bool,
    /// Whether its video is copied alone, so that it needs no run.
    pub(super) is_copied: bool,
}

impl ScheduledSegment {
    /// Finds a segment by the start of its programme and its index there. `reader` separates viewers who do not watch live: a
    /// [`Viewer::unique_name`](crate::service::channels::Viewer::unique_name), or the id of a recording.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND`.
    pub fn find(service: &Service, channel: &Channel, segment_id: (ChannelMs, usize), reader: &str) -> Result<Self> {
        let (definition, (programme_start_ms, index)) = (&channel.definition, segment_id);
        let programme = definition.programme_at(programme_start_ms);
        let programme = programme
            .filter(|found| found.start_ms == programme_start_ms)
            .ok_or_else(|| Error::new(Code::AssetNotFound, "no programme of this channel starts at that time"))?;
        let ranges = definition.segment_ranges(&programme);
        if index >= ranges.len() {
            return Err(not_on_air_error());
        }
        let end_ms = programme.start_ms + ranges.segment_end(index).as_ms_floor();
        let is_live = reader.is_empty() || {
            let now_ms = channel.channel_ms_at(service.clock.now_ms());
            end_ms >= live_window::rewind_aired(channel.clock.as_deref(), now_ms, MAX_LIVE_LAG_MS, 0)
        };
        let key = ProgrammeKey::new(channel, &programme, if is_live { String::new() } else { reader.to_owned() });
        let first_segment = definition.item_of(&programme).part(programme.part_index).first_segment;
        let shows_item = ranges.shows_item(index) && !definition.is_slate(&programme);
        let last_item_index = (first_segment + ranges.own_count()).saturating_sub(1);
        let is_copied = shows_item && definition.item_of(&programme).aired_copy().is_some();
        let item_index = first_segment + index;
        Ok(Self { key, programme, index, item_index, last_item_index, shows_item, is_copied, ranges })
    }

    /// A listed segment as the live viewers read it; None on an external channel, or when an edit removed the segment.
    pub(super) fn find_shared(service: &Service, channel: &Channel, segment: &LiveSegment) -> Option<Self> {
        Self::find(service, channel, (segment.programme_start_ms, segment.index), "").ok()
    }

    /// Its position in its item and on the channel.
    pub(super) fn timeline_span(&self, channel: &Channel) -> TimelineSpan {
        let Self { programme, ranges, index, .. } = self;
        let skipped_time =
            channel.clock.as_ref().map_or(Ticks::ZERO, |clock| clock.interval_of(programme.start_ms).skipped_time);
        TimelineSpan {
            item_start: ranges.start_in_item() + ranges.segment_start(*index),
            item_end: ranges.start_in_item() + ranges.segment_end(*index),
            starts_item: *index == 0,
            ends_item: ranges.is_last_of_item(*index),
            base_timestamp: TIMELINE_BASE,
            item_offset: channel.definition.item_of(programme).segmentation.first_frame_time(),
            // Skipped time does not advance the timestamps.
            channel_origin: programme.start_ms.to_ticks() - ranges.start_in_item() - skipped_time,
            previous_audio_end: None,
            audio_layout: AudioLayout::Stereo,
        }
    }

    /// Its media sequence number before anything was skipped.
    pub(super) fn media_sequence(&self) -> u64 {
        self.programme.media_sequence + self.index as u64
    }

    /// Whether it can be sent at once.
    pub(super) fn is_made(&self, service: &Service) -> bool {
        let is_stored = || {
            let active = service.live_channels.existing_programme(&self.key);
            let name = active.and_then(|active| active.rendition_name());
            name.is_some_and(|name| service.renditions.runs().has_segment(&name, self.item_index))
        };
        !self.shows_item || self.is_copied || is_stored()
    }
}

pub(super) fn not_on_air_error() -> Error {
    Error::new(Code::AssetNotFound, "this segment is not on air")
}

/// Makes a segment if it is missing and puts it on the channel's timeline, as MPEG-TS or one track of it. The caller has
/// checked the right to show the channel.
///
/// # Errors
/// `TRANSCODER_BUSY`, `SEGMENT_TIMEOUT`. An item that cannot be shown is no error: a slate replaces it. Those of
/// [`Subtitles::read_cues`](crate::service::media::subtitles::Subtitles::read_cues) for text.
pub async fn air_segment(
    service: &Arc<Service>,
    channel: &Channel,
    segment: &ScheduledSegment,
    track: &LiveTrack,
) -> Result<AiredSegment> {
    if let LiveTrack::Text(language) = track {
        return air_text(service, channel, segment, language).await;
    }
    let ScheduledSegment { programme, index, .. } = segment;
    let item = channel.definition.item_of(programme);
    let audio = match track {
        LiveTrack::Audio(audio) => Some(audio),
        _ => None,
    };
    let (item_segment, is_outdated) = if segment.shows_item {
        let active = find_or_add_programme(service, &segment.key)?;
        let made = retry_when_busy(service, || active.make_segment(service, channel, segment, audio)).await?;
        (made, active.is_outdated(&channel.output).await)
    } else {
        (None, false)
    };
    let audio_layout = audio.map_or(AudioLayout::Stereo, |audio| audio.layout);
    let span = TimelineSpan { audio_layout, ..segment.timeline_span(channel) };
    let is_slate = segment.shows_item && item_segment.is_none();
    let (source, digest) = match item_segment {
        Some((bytes, etag)) => (bytes, etag.trim_matches('"').to_owned()),
        None => (Bytes::new(), "slate".to_owned()),
    };
    let content = if source.is_empty() { SlateContent::of_channel(channel) } else { SlateContent::default() };
    let needs_still = audio.is_none() && (source.is_empty() || matches!(item.segmentation, Segmentation::Steps { .. }));
    let still = if needs_still {
        service.slates.get_or_make(service, &item.video_format, &content).await?
    } else {
        Arc::default()
    };
    let (kind, sequence) = (track.kind(), segment.media_sequence());
    let place = move || {
        let placed = place_on_timeline(&source, span, &still);
        match kind {
            None => Ok(placed),
            Some(kind) => convert_aired(&placed, kind, audio_layout, sequence, span.item_end + span.channel_origin),
        }
    };
    let placed = tokio::task::spawn_blocking(place).await.map_err(Error::internal)?;
    let bytes = placed.map_err(|cause| {
        let (path, name) = (&item.path, track.playlist_name());
        tracing::warn!(channel.id = channel.id, media.path = path, name, %cause, "a segment cannot be converted to CMAF");
        Error::internal(cause)
    })?;
    let content_hash = match content == SlateContent::default() {
        true => 0,
        false => {
            let text = format!("{content:?}");
            u32::from_le_bytes(blake3::hash(text.as_bytes()).as_bytes()[..4].try_into().expect("four"))
        }
    };
    let track_name = match (kind, audio_layout) {
        (None, _) => "",
        (Some(TrackKind::Video), _) => "-v",
        (Some(TrackKind::Audio), AudioLayout::Stereo) => "-a",
        (Some(TrackKind::Audio), AudioLayout::Surround) => "-s",
    };
    let etag = format!("\"{digest}-{}-{index}-{content_hash:x}{track_name}\"", programme.start_ms.0);
    Ok(AiredSegment { bytes: bytes.into(), etag, is_slate, is_outdated })
}

/// A segment of WebVTT, empty where the item has no text in this language.
async fn air_text(
    service: &Arc<Service>,
    channel: &Channel,
    segment: &ScheduledSegment,
    language: &TrackLanguage,
) -> Result<AiredSegment> {
    let cues = match segment.shows_item {
        true => {
            let active = find_or_add_programme(service, &segment.key)?;
            active.read_cues(service, channel, segment, language).await?
        }
        false => None,
    };
    let TimelineSpan { item_start, item_end, item_offset, channel_origin, .. } = segment.timeline_span(channel);
    let (start, end) = (item_start + item_offset, item_end + item_offset);
    // Cues keep the times of their file. The map has room for 33 bits (RFC 8216 section 3.5).
    let file_origin = (channel_origin - item_offset).wrapped();
    let cues = cues.as_deref().map_or(&[][..], Vec::as_slice);
    let text = write_webvtt_segment(cues, start.as_seconds(), end.as_seconds(), file_origin);
    let etag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..32]);
    Ok(AiredSegment { bytes: text.into(), etag, is_slate: false, is_outdated: false })
}
