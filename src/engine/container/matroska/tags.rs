//! The duration of a track, which mkvmerge and ffmpeg write as a tag (RFC 9559 section 5.1.8): the track entry has none.

use super::ebml::{child, children, parse_text, parse_uint, read_body};
use super::{MatroskaFile, ReadAt};
use crate::domain::time::Ticks;

/// Maximum size of all tags.
const MAX_TAGS_BYTES: u64 = 4 << 20;

const TAG: u32 = 0x7373;
const TARGETS: u32 = 0x63c0;
const TARGET_TRACK_UID: u32 = 0x63c5;
const SIMPLE_TAG: u32 = 0x67c8;
const TAG_NAME: u32 = 0x45a3;
const TAG_STRING: u32 = 0x4487;

impl<F: ReadAt + ?Sized> MatroskaFile<'_, F> {
    /// The tag `DURATION` of the track with this unique id: from the start of the file (ffmpeg) or of the track (mkvmerge).
    pub fn read_stated_duration(&self, track_uid: u64) -> Option<Ticks> {
        let tags = read_body(self.file, self.tags?, MAX_TAGS_BYTES).ok()?;
        find_duration(&tags, track_uid)
    }
}

fn find_duration(tags: &[u8], track_uid: u64) -> Option<Ticks> {
    let tags = children(tags).filter(|(id, _)| *id == TAG).map(|(_, tag)| tag);
    let of_track = tags.filter(|tag| {
        let targets = child(tag, TARGETS).unwrap_or_default();
        children(targets).any(|(id, uid)| id == TARGET_TRACK_UID && parse_uint(uid) == track_uid)
    });
    let entries = of_track.flat_map(children).filter(|(id, _)| *id == SIMPLE_TAG).map(|(_, entry)| entry);
    let mut durations = entries.filter(|entry| child(entry, TAG_NAME) == Some(b"DURATION"));
    durations.find_map(|entry| parse_duration(&parse_text(child(entry, TAG_STRING)?)?))
}

/// `HH:MM:SS.fraction`.
fn parse_duration(text: &str) -> Option<Ticks> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok().map(f64::from);
    let seconds: f64 = seconds.parse().ok().filter(|seconds| (0.0..60.0).contains(seconds))?;
    Some(Ticks::from_seconds(number(hours)? * 3600.0 + number(minutes)? * 60.0 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(id: u16, body: &[u8]) -> Vec<u8> {
        [&id.to_be_bytes()[..], &[0x80 | body.len() as u8], body].concat()
    }

    fn tag(uid: u8, name: &str, text: &str) -> Vec<u8> {
        let targets = element(0x63c0, &element(0x63c5, &[uid]));
        let entry = [element(0x45a3, name.as_bytes()), element(0x4487, text.as_bytes())].concat();
        element(0x7373, &[targets, element(0x67c8, &entry)].concat())
    }

    #[test]
    fn the_duration_is_that_of_the_track() {
        let tags = [
            tag(7, "DURATION", "00:00:09.000"),
            tag(8, "BPS", "1"),
            tag(8, "DURATION", "01:02:03.456000000"),
            tag(9, "DURATION", "soon"),
        ];
        let tags = tags.concat();
        assert_eq!(find_duration(&tags, 8), Some(Ticks::from_ms(3_723_456)));
        assert_eq!((find_duration(&tags, 9), find_duration(&tags, 10)), (None, None));
        for text in ["", "1:2", "00:00:60.0", "00:00:-1", "a:b:c", "00:00:nan"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), at in 0usize..30) {
            let mut tags = tag(8, "DURATION", "01:02:03.4");
            let _ = find_duration(&bytes, 8);
            tags.truncate(at);
            tags.extend(bytes);
            let _ = find_duration(&tags, 8);
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in "[0-9:.e+-]{0,20}") {
            let _ = parse_duration(&text);
        }
    }
}
