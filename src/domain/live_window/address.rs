//! The addresses of segments in a channel's playlists: private ones of one viewer, or those that a shared cache can keep.

use std::fmt::{self, Display};

use super::LiveAsset;
use crate::domain::channel::Channel;
use crate::domain::hash_to_u64;
use crate::domain::schedule::segmentation::SegmentRanges;
use crate::domain::time::{ChannelMs, Ticks};

/// The version of init segments, whose names contain a hash of their bytes.
const INIT_VERSION: &str = "init";

/// How a playlist addresses segments and init segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentAddresses<'a> {
    /// Beside the playlist, each with this query: the viewer's grant.
    Private(&'a str),
    /// Below this path, which is relative to the playlist and has the grant of all viewers: `<path>/<version>/<name>`.
    Shared(&'a str),
}

/// An address in a playlist, with the version of the segment if it is shared.
struct SegmentAddress<'a, V> {
    addresses: SegmentAddresses<'a>,
    version: V,
    name: &'a str,
}

impl<V: Display> Display for SegmentAddress<'_, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses {
            SegmentAddresses::Private(query) => write!(formatter, "{}{query}", self.name),
            SegmentAddresses::Shared(path) => write!(formatter, "{path}/{}/{}", self.version, self.name),
        }
    }
}

impl<'a> SegmentAddresses<'a> {
    /// About how many bytes it adds to a name.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Private(query) => query.len(),
            Self::Shared(path) => path.len() + 18,
        }
    }

    /// The versions of a programme's segments, unless addresses have none.
    pub(super) fn programme_version(self, channel: &Channel, start_ms: ChannelMs) -> Option<ProgrammeVersion> {
        match self {
            Self::Private(_) => None,
            Self::Shared(_) => Some(ProgrammeVersion::new(channel, start_ms)),
        }
    }

    pub(super) fn of_init(self, name: &'a str) -> impl Display {
        SegmentAddress { addresses: self, version: INIT_VERSION, name }
    }

    pub(super) fn of_segment(self, name: &'a str, version: Option<&ProgrammeVersion>, index: usize) -> impl Display {
        let version = version.map_or_else(String::new, |version| version.of_segment(index));
        SegmentAddress { addresses: self, version, name }
    }
}

/// The version in the shared address of an asset now; None for playlists.
///
/// Name and version together stand for the same content at any time: a name alone is also that of another item after the schedule
/// was changed, and of another encode after the output settings were. Not in the version are the encoder that made a segment and
/// files that were replaced under their path: such a segment takes the place of the other on the same timeline.
pub fn segment_version(channel: &Channel, asset: &LiveAsset) -> Option<String> {
    match asset {
        LiveAsset::Init(..) => Some(INIT_VERSION.to_owned()),
        LiveAsset::Segment(_, _, start_ms, index) => Some(ProgrammeVersion::new(channel, *start_ms).of_segment(*index)),
        LiveAsset::Multivariant | LiveAsset::Playlist(..) => None,
    }
}

/// The inputs of the versions of a programme's segments.
#[derive(Clone, Debug)]
pub(super) struct ProgrammeVersion {
    programme: String,
    /// None if no programme starts at that time, as on external channels, whose segments are made once.
    segments: Option<SegmentRanges>,
    is_slate: bool,
    slate: String,
}

impl ProgrammeVersion {
    fn new(channel: &Channel, start_ms: ChannelMs) -> Self {
        let definition = &channel.definition;
        let found = definition.programme_at(start_ms).filter(|found| found.start_ms == start_ms);
        let Some(programme) = found else {
            return Self { programme: String::new(), segments: None, is_slate: false, slate: String::new() };
        };
        let (item, ranges) = (definition.item_of(&programme), definition.segment_ranges(&programme));
        let skipped_time = channel.clock.as_ref().map_or(Ticks::ZERO, |clock| clock.interval_of(start_ms).skipped_time);
        let position = (
            definition.revisions[programme.revision_index].number,
            programme.media_sequence,
            ranges.start_in_item(),
            item.segmentation.first_frame_time(),
            skipped_time,
        );
        let settings = &channel.settings;
        Self {
            programme: format!(
                "{position:?} {} {} {:?} {:?} {:?}",
                item.id, item.path, item.content, item.video_format, channel.output
            ),
            segments: Some(ranges),
            is_slate: definition.is_slate(&programme),
            slate: format!(
                "{:?} {:?} {}",
                settings.slate_text,
                settings.slate_image,
                settings.slate_image.as_ref().map_or(0, |_| channel.version)
            ),
        }
    }

    /// The version of a segment, 16 hex digits.
    fn of_segment(&self, index: usize) -> String {
        let mut hasher = blake3::Hasher::new();
        // Another program may make other segments of the same.
        hasher.update(env!("CARGO_PKG_VERSION").as_bytes()).update(self.programme.as_bytes());
        if let Some(ranges) = self.segments.as_ref().filter(|ranges| index < ranges.len()) {
            let is_last = ranges.is_last_of_item(index);
            let range = (ranges.segment_start(index), ranges.segment_end(index), is_last);
            hasher.update(format!("{range:?}").as_bytes());
            if self.is_slate || !ranges.shows_item(index) {
                hasher.update(self.slate.as_bytes());
            }
        }
        format!("{:016x}", hash_to_u64(hasher.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::channel::OutputSettings;
    use crate::domain::live_window::LiveTrack;
    use crate::domain::live_window::tests::{START, items};
    use crate::domain::schedule::ScheduleMode;
    use crate::domain::schedule::tests::plain_request;
    use crate::domain::schedule::{RevisionRequest, ScheduleDefinition};
    use crate::domain::video_class::VideoClasses;

    fn request(count: usize) -> RevisionRequest {
        plain_request(1, ScheduleMode::Sequential, items(count, 50))
    }

    fn channel() -> Channel {
        let mut channel = crate::domain::channel::tests::channel(7);
        channel.definition = ScheduleDefinition::new(START, request(2));
        channel
    }

    fn version(channel: &Channel, start_ms: ChannelMs, index: usize) -> String {
        segment_version(channel, &LiveAsset::Segment(VideoClasses::default(), LiveTrack::Muxed, start_ms, index))
            .unwrap()
    }

    #[test]
    fn a_version_changes_exactly_with_the_content_of_its_segment() {
        let channel = channel();
        let first = channel.definition.programme_at(START).unwrap();
        let before = |index| version(&channel, START, index);
        assert_eq!(before(0).len(), 16);
        assert_ne!(before(0), before(1), "another part of the item");

        // An edit at the end of the programme on air.
        let mut edited = channel.clone();
        edited.definition = channel.definition.with_revision(first.end_ms, request(3));
        assert_eq!(version(&edited, START, 0), before(0));
        let (old, new) = (version(&channel, first.end_ms, 0), version(&edited, first.end_ms, 0));
        assert_ne!(old, new, "another item with the same name");

        // An edit that ends it early: the segment on air becomes shorter, the one before it ends the item, and the others stay.
        let ranges = channel.definition.segment_ranges(&first);
        let middle = START + ranges.segment_end(2).as_ms_rounded() + 700;
        edited.definition = channel.definition.with_revision(middle, request(3));
        let is_same: Vec<bool> = (0..4).map(|index| version(&edited, START, index) == before(index)).collect();
        assert_eq!(is_same, [true, true, false, false]);

        let mut smaller = channel.clone();
        smaller.output = Arc::new(OutputSettings { max_height: Some(240), ..OutputSettings::default() });
        assert_ne!(version(&smaller, START, 0), before(0), "another encode");

        let mut renamed = channel.clone();
        renamed.settings.name = "Other".into();
        renamed.settings.slate_text = Some("Soon".into());
        renamed.version += 1;
        assert_eq!(
            version(&renamed, START, 0),
            before(0),
            "the name of the channel and its slate are not in this segment"
        );
    }

    #[test]
    fn playlists_have_no_version_and_init_segments_always_the_same() {
        let channel = channel();
        assert_eq!(segment_version(&channel, &LiveAsset::Multivariant), None);
        let playlist = LiveAsset::Playlist(VideoClasses::default(), LiveTrack::Video);
        assert_eq!(segment_version(&channel, &playlist), None);
        let init = LiveAsset::parse("video-00000000000000ff.mp4").unwrap();
        assert_eq!(segment_version(&channel, &init).as_deref(), Some("init"));
    }
}
