//! Channels in fMP4: init segments that follow from the schedule alone, and segments converted from those in MPEG-TS.
//!
//! A playlist names the init segment of every item before any of its segments is made. Therefore the sample entry of video is
//! `avc3` without parameter sets, because every segment begins with its own (ISO/IEC 14496-15 section 5.3.3.1.2), and with the
//! highest profile and a level by size. Audio is AAC-LC at 48 kHz throughout a channel, and each of its layouts has one init segment.

use std::collections::BTreeSet;

use super::audio_layout::AudioLayout;
use super::cmaf::entry::{aac, avc};
use super::cmaf::from_ts::{ConversionError, SegmentPosition, TrackConfig, convert_track};
use super::cmaf::init::{IDENTITY_MATRIX, InitTrack, TrackHeader, write_init};
use super::cmaf::{SampleEntry, VideoFormat};
use super::mpegts::psi::TrackKind;
use super::playlist::InitId;
use super::schedule::segmentation::VideoFormat as ScheduledFormat;
use super::schedule::{ItemCopy, ScheduleDefinition, ScheduleItem};
use super::time::Ticks;

/// Units per second of all audio of a channel, and of all video.
const AUDIO_TIMESCALE: u32 = 48_000;
const VIDEO_TIMESCALE: u32 = Ticks::PER_SECOND as u32;

/// RFC 6381 name of all audio of a channel.
pub const AUDIO_CODECS: &str = "mp4a.40.2";

/// `level_idc` of H.264 for video of at most so many pixels, by its limits at 60 frames a second (ITU-T H.264 table A-1).
const LEVELS: [(u32, u8); 4] = [(720 * 576, 31), (1280 * 720, 32), (1920 * 1088, 42), (4096 * 2304, 52)];
const MAX_LEVEL: u8 = 62;

/// `profile_idc` of High, whose decoders decode Main and Constrained Baseline too.
const HIGH_PROFILE: u8 = 100;

/// The init segment of video that is not copied alone.
pub fn video_init(scheduled: &ScheduledFormat) -> Vec<u8> {
    let (width, height) = scheduled.coded_size();
    let narrow = |side: u32| u16::try_from(side).unwrap_or(u16::MAX);
    let pixel_aspect = scheduled.pixel_aspect();
    let format = VideoFormat { width: narrow(width), height: narrow(height), pixel_aspect, ..VideoFormat::default() };
    let entry = avc::entry_with(&avc_record(scheduled), &format, avc::ParameterSets::InBand);
    let entry = entry.expect("the record is complete");
    let header = TrackHeader::Video { format: &format, matrix: IDENTITY_MATRIX };
    write_init(&InitTrack { header, timescale: VIDEO_TIMESCALE, language: None, entry: &entry })
}

/// The id of the init segment of an item's video: of its file where it is copied.
pub fn item_video_init(item: &ScheduleItem) -> InitId {
    item.aired_copy().map_or_else(|| InitId::of(&video_init(&item.video_format)), |copy| InitId(copy.init))
}

/// The init segment of a slate in an item's place.
pub fn slate_video_init(item: &ScheduleItem) -> Vec<u8> {
    video_init(&item.video_format)
}

/// The init segment of all audio of a channel in a layout, in every language.
pub fn audio_init(layout: AudioLayout) -> Vec<u8> {
    let entry = audio_entry(layout);
    write_init(&InitTrack { header: TrackHeader::Audio, timescale: AUDIO_TIMESCALE, language: None, entry: &entry })
}

fn audio_entry(layout: AudioLayout) -> SampleEntry {
    aac::entry(&layout.audio_specific_config()).expect("the configuration is complete")
}

/// AVCDecoderConfigurationRecord without parameter sets: 8 bits, 4:2:0.
fn avc_record(format: &ScheduledFormat) -> [u8; 11] {
    [1, HIGH_PROFILE, 0, level(format), 0xff, 0xe0, 0, 0xfd, 0xf8, 0xf8, 0]
}

fn level(format: &ScheduledFormat) -> u8 {
    let (width, height) = format.coded_size();
    let pixels = width.saturating_mul(height);
    LEVELS.iter().find(|(limit, _)| pixels <= *limit).map_or(MAX_LEVEL, |(_, level)| *level)
}

/// RFC 6381 names of the video of a lineup, comma separated: of H.264 by its highest level, and those of all copied items. A
/// player prepares for the codecs that are named, and fails at another one.
pub fn video_codecs<'a>(items: impl Iterator<Item = &'a ScheduleItem> + Clone) -> String {
    let copied: BTreeSet<&str> = items.clone().filter_map(|item| Some(&*item.aired_copy()?.codecs)).collect();
    let level = items.map(|item| level(&item.video_format)).max().unwrap_or(MAX_LEVEL);
    // Slates are in H.264.
    let avc = format!("avc3.{HIGH_PROFILE:02X}00{level:02X}");
    std::iter::once(&*avc).chain(copied).collect::<Vec<_>>().join(",")
}

/// The path and the copy of the item whose copied video has the init segment with this id.
pub fn find_copy(definition: &ScheduleDefinition, id: InitId) -> Option<(&ScheduleItem, &ItemCopy)> {
    let items = definition.revisions.iter().flat_map(|revision| revision.items.iter());
    items.filter_map(|item| Some((&**item, item.copy.as_deref()?))).find(|(_, copy)| copy.init == id.0)
}

/// The init segment with this id; None if no item of the channel has it, except as a copy.
pub fn find_init(definition: &ScheduleDefinition, kind: TrackKind, id: InitId) -> Option<Vec<u8>> {
    let is_same = |init: &Vec<u8>| InitId::of(init) == id;
    if kind == TrackKind::Audio {
        return [AudioLayout::Stereo, AudioLayout::Surround].map(audio_init).into_iter().find(is_same);
    }
    let mut formats: Vec<&ScheduledFormat> = Vec::new();
    for item in definition.revisions.iter().flat_map(|revision| revision.items.iter()) {
        let format = &item.video_format;
        if formats.contains(&format) {
            continue;
        }
        formats.push(format);
        if let Some(init) = Some(video_init(format)).filter(is_same) {
            return Some(init);
        }
    }
    None
}

/// One track of a segment on the channel's timeline, as `moof` and `mdat`; audio in this layout. `end` is the segment's end on that timeline, which is
/// the time since 1970.
///
/// # Errors
/// If the track is missing, damaged or not in the channel's format.
pub fn convert_aired(
    segment: &[u8],
    kind: TrackKind,
    layout: AudioLayout,
    media_sequence: u64,
    end: Ticks,
) -> Result<Vec<u8>, ConversionError> {
    let position = SegmentPosition { sequence_number: (media_sequence as u32).wrapping_add(1), end };
    let audio = TrackConfig::Audio { entry: audio_entry(layout), sample_rate: AUDIO_TIMESCALE };
    let config = (kind == TrackKind::Audio).then_some(&audio);
    convert_track(segment, kind, position, config).map(|converted| converted.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::init_reader::InitDescription;
    use crate::domain::mpegts::channel_timeline::{StillImage, TimelineSpan, place_on_timeline};
    use crate::domain::schedule::ScheduleMode;
    use crate::domain::schedule::tests::{plain_request, schedule_item};
    use crate::domain::schedule::{assign_ids, segmentation::audio_segmentation};
    use crate::domain::time::ChannelMs;

    fn format(width: u32, height: u32, profile_and_aspect: &str) -> ScheduledFormat {
        ScheduledFormat { width, height, profile_and_aspect: profile_and_aspect.to_owned() }
    }

    #[test]
    fn init_segments_read_back() {
        let description = InitDescription::read(&video_init(&format(720, 576, "constrained baseline 16:11"))).unwrap();
        let video = description.video_format.unwrap();
        assert_eq!((video.width, video.height, video.pixel_aspect), (720, 576, Some((16, 11))));
        assert_eq!((&*description.entry.codecs, description.timescale), ("avc3.64001F", 90_000));
        let slate = InitDescription::read(&video_init(&ScheduledFormat::default())).unwrap().video_format.unwrap();
        assert_eq!((slate.width, slate.height, slate.pixel_aspect), (1280, 720, None));
        for layout in [AudioLayout::Stereo, AudioLayout::Surround] {
            let audio = InitDescription::read(&audio_init(layout)).unwrap();
            assert_eq!((&*audio.entry.codecs, audio.timescale), (AUDIO_CODECS, 48_000));
        }
    }

    #[test]
    fn init_segments_of_a_lineup_are_found() {
        let formats = [format(640, 360, ""), format(1920, 1080, "main"), format(640, 360, "")];
        let item = |(n, video_format): (usize, &ScheduledFormat)| ScheduleItem {
            video_format: video_format.clone(),
            ..schedule_item(&format!("/lib/{n}.mkv"), 9000, audio_segmentation(9.0))
        };
        let items = assign_ids(formats.iter().enumerate().map(item).collect());
        assert_eq!(video_codecs(items.iter().map(|item| &**item)), "avc3.64002A");
        let definition = ScheduleDefinition::new(ChannelMs(0), plain_request(1, ScheduleMode::Sequential, items));
        for init in formats.map(|format| video_init(&format)) {
            assert_eq!(find_init(&definition, TrackKind::Video, InitId::of(&init)), Some(init));
        }
        let [stereo, surround] = [AudioLayout::Stereo, AudioLayout::Surround].map(audio_init);
        assert_ne!(stereo, surround);
        for audio in [stereo, surround] {
            assert_eq!(find_init(&definition, TrackKind::Audio, InitId::of(&audio)), Some(audio.clone()));
            assert_eq!(find_init(&definition, TrackKind::Video, InitId::of(&audio)), None);
        }
    }

    /// `tfdt` and the sum of durations of a segment of silence, units of 48 kHz.
    fn silent_range(audio_layout: AudioLayout, start: Ticks, end: Ticks) -> (u64, u64) {
        let span = TimelineSpan {
            item_start: Ticks::ZERO,
            item_end: end - start,
            starts_item: true,
            ends_item: true,
            base_timestamp: Ticks::ZERO,
            item_offset: Ticks::ZERO,
            channel_origin: start,
            previous_audio_end: None,
            audio_layout,
        };
        let still = StillImage { frames: vec![vec![0, 0, 0, 1, 9, 0xf0]] };
        let placed = place_on_timeline(&[], span, &still);
        let segment = convert_aired(&placed, TrackKind::Audio, audio_layout, 7, end).unwrap();
        let at = |kind: &[u8]| segment.windows(4).position(|four| four == kind).unwrap() + 4;
        let number = |at: usize| u64::from(u32::from_be_bytes(segment[at..at + 4].try_into().unwrap()));
        let tfdt = at(b"tfdt") + 4;
        (number(tfdt) << 32 | number(tfdt + 4), number(at(b"trun") + 4) * 1024)
    }

    #[test]
    fn audio_of_consecutive_segments_continues_on_the_channels_own_clock() {
        let start = Ticks::from_ms(1_795_378_500_000);
        let (first, second) = (start + Ticks(360_360), start + Ticks(700_001));
        for layout in [AudioLayout::Stereo, AudioLayout::Surround] {
            let ((begin, length), (next, _)) =
                (silent_range(layout, start, first), silent_range(layout, first, second));
            assert_eq!(begin % 1024, 0);
            assert_eq!(begin + length, next, "no frame is missing at a boundary");
            let begin = Ticks::from_units(begin, 48_000);
            assert!((Ticks::ZERO..Ticks(1920)).contains(&(begin - start)), "time since 1970, not wrapped: {begin:?}");
        }
    }
}
