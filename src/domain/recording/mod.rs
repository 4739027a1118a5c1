//! A recording (DVR): which part of a channel is put into a file, and how far that is.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

mod file_name;
mod rule;

pub use file_name::folder_and_file;
pub use rule::{GuideAiring, SeriesRule};

/// Maximum length of a recording without padding, ms.
pub const MAX_LENGTH_MS: i64 = 12 * 3_600_000;

/// Maximum padding at one end, ms.
pub const MAX_PADDING_MS: i64 = 3_600_000;

named_values! {
    #[derive(Default)]
    pub enum RecordingState {
        #[default]
        Scheduled = "scheduled",
        Recording = "recording",
        Complete = "complete",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEvent {
    /// Its start time has come.
    Begin,
    /// All of it is in the file.
    End,
    Fail,
    Cancel,
}

impl RecordingState {
    /// The state after an event; None if it changes nothing, because states only go forward.
    pub fn after(self, event: RecordingEvent) -> Option<Self> {
        match (self, event) {
            (Self::Scheduled, RecordingEvent::Begin) => Some(Self::Recording),
            (Self::Recording, RecordingEvent::End) => Some(Self::Complete),
            (Self::Scheduled | Self::Recording, RecordingEvent::Fail) => Some(Self::Failed),
            (Self::Scheduled | Self::Recording, RecordingEvent::Cancel) => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// Whether work remains.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Scheduled | Self::Recording)
    }
}

/// How long a recording is kept; None for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionLimit {
    /// Only the newest ones of a series, up to this number.
    #[serde(rename = "count")]
    pub max_count: Option<u32>,
    /// Days after its end.
    #[serde(rename = "days")]
    pub max_days: Option<u32>,
}

/// Time recorded before and after the programme, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padding {
    pub before_ms: i64,
    pub after_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingFailure {
    /// One of the codes of [`crate::error::Code`].
    pub code: String,
    pub message: String,
    pub at_ms: i64,
}

/// Progress of the file. Data after `bytes` is not part of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRange {
    pub bytes: u64,
    /// Ticks since 1970: start and end of what is recorded.
    #[serde(rename = "from")]
    pub from_ticks: i64,
    #[serde(rename = "through")]
    pub through_ticks: i64,
    /// Ticks in that range with nothing recorded, or with a slate instead of the programme.
    #[serde(rename = "missing", default)]
    pub missing_ticks: i64,
    /// Presentation time of the first instant in the file, ticks. 0 in files begun by older versions.
    #[serde(rename = "base", default)]
    pub base_ticks: i64,
}

/// The presentation time at which a recording begins, ticks. Its first decoding time and PCR are a little earlier and must
/// not be negative: they would wrap to 26.5 h, and players would take that for the duration or the position.
pub const BASE_TICKS: i64 = 90_000;

impl WrittenRange {
    /// The offset to add to the timestamps of a segment that begins at `start_ticks` (ticks since 1970).
    pub fn timestamp_shift(&self, start_ticks: i64) -> i64 {
        if self.bytes > 0 { self.base_ticks - self.from_ticks } else { BASE_TICKS - start_ticks }
    }

    /// Records an appended segment of `bytes` bytes. `due_ticks` is where the recording was to begin, ticks since 1970.
    pub fn add_segment(&mut self, bytes: u64, (from, through): (i64, i64), is_slate: bool, due_ticks: i64) {
        if self.bytes == 0 {
            (self.from_ticks, self.base_ticks) = (from, BASE_TICKS);
            self.missing_ticks += (from - due_ticks).max(0);
        } else {
            self.missing_ticks += (from - self.through_ticks).max(0);
        }
        if is_slate {
            self.missing_ticks += through - from;
        }
        self.bytes += bytes;
        self.through_ticks = through;
    }

    pub fn has_no_programme(&self) -> bool {
        self.bytes == 0 || self.missing_ticks >= self.through_ticks - self.from_ticks
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    pub id: String,
    pub channel_id: u32,
    /// The user who requested it.
    pub user_id: String,
    pub title: String,
    pub subtitle: Option<String>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    /// The guide entry it was requested from.
    #[serde(rename = "entry")]
    pub guide_entry_id: Option<String>,
    /// Key of the content, the same for every airing on its channel.
    #[serde(rename = "item")]
    pub content_key: String,
    /// The programme, unix ms, without padding.
    pub start_ms: i64,
    pub end_ms: i64,
    pub padding: Padding,
    /// The series rule that created it.
    #[serde(rename = "rule")]
    pub rule_id: Option<String>,
    #[serde(rename = "keep")]
    pub retention: RetentionLimit,
    pub state: RecordingState,
    pub failure: Option<RecordingFailure>,
    /// Path of its file, as used in requests; None until it begins, and after the file is deleted.
    pub path: Option<String>,
    #[serde(rename = "written")]
    pub written_range: WrittenRange,
    pub created_ms: i64,
    pub ended_ms: Option<i64>,
}

impl Recording {
    pub fn padded_range_ms(&self) -> (i64, i64) {
        (self.start_ms - self.padding.before_ms, self.end_ms + self.padding.after_ms)
    }

    /// Takes over what a guide says of its programme now; false if that changes nothing. The start of a recording under way
    /// stays, and none becomes longer than [`MAX_LENGTH_MS`].
    pub fn follow(&mut self, airing: GuideAiring) -> bool {
        let before = self.clone();
        if self.state == RecordingState::Scheduled {
            self.start_ms = airing.start_ms;
        }
        self.end_ms = airing.end_ms.min(self.start_ms + MAX_LENGTH_MS);
        (self.guide_entry_id, self.content_key) = (airing.guide_entry_id, airing.content_key);
        (self.title, self.subtitle) = (airing.title, airing.subtitle);
        (self.season, self.episode) = (airing.season, airing.episode);
        *self != before
    }

    /// Moves on by an event; false where that changes nothing.
    pub fn apply(&mut self, event: RecordingEvent, now_ms: i64) -> bool {
        let Some(next) = self.state.after(event) else { return false };
        self.state = next;
        if next == RecordingState::Complete {
            // An external channel may have no segments at the end. Up to a millisecond is rounding.
            let rest = self.padded_range_ms().1 * 90 - self.written_range.through_ticks;
            self.written_range.missing_ticks += if rest > 90 { rest } else { 0 };
        }
        if !next.is_open() {
            self.ended_ms = Some(now_ms);
        }
        true
    }

    fn is_on_at(&self, at_ms: i64) -> bool {
        let (from, to) = self.padded_range_ms();
        (from..to).contains(&at_ms)
    }
}

/// Ids of the open recordings in conflict with `recording`: at some instant of it, more channels have to be encoded than there are
/// encode slots. Recordings of one channel share an encode.
pub fn conflicting_ids<'a>(
    recording: &Recording,
    all: impl Iterator<Item = &'a Recording> + Clone,
    encode_slots: usize,
    needs_encode: impl Fn(u32) -> bool,
) -> Vec<&'a str> {
    if !recording.state.is_open() || !needs_encode(recording.channel_id) {
        return Vec::new();
    }
    let (from, to) = recording.padded_range_ms();
    let others: Vec<&Recording> = all
        .filter(|other| other.state.is_open() && other.channel_id != recording.channel_id)
        .filter(|other| other.padded_range_ms().0 < to && other.padded_range_ms().1 > from)
        .filter(|other| needs_encode(other.channel_id))
        .collect();
    // The number of overlapping recordings only increases at starts.
    let mut instants: Vec<i64> = others.iter().map(|other| other.padded_range_ms().0.max(from)).collect();
    instants.push(from);
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for at in instants {
        let overlapping = || others.iter().filter(move |other| other.is_on_at(at));
        let channels: BTreeSet<u32> = overlapping().map(|other| other.channel_id).collect();
        if channels.len() >= encode_slots {
            found.extend(overlapping().map(|other| other.id.as_str()));
        }
    }
    found.into_iter().collect()
}

/// Ids of expired recordings: older than their limit, or beyond the number kept of a series.
pub fn expired_ids<'a>(all: impl Iterator<Item = &'a Recording> + Clone, now_ms: i64) -> Vec<String> {
    const DAY_MS: i64 = 24 * 3_600_000;
    let complete = all.filter(|recording| recording.state == RecordingState::Complete && recording.path.is_some());
    let newer_count = |recording: &Recording| {
        let key = |recording: &Recording| (recording.start_ms, recording.id.clone());
        complete.clone().filter(|other| other.rule_id == recording.rule_id && key(other) > key(recording)).count()
    };
    let is_too_old = |recording: &Recording| {
        let ended = recording.ended_ms.unwrap_or(recording.end_ms);
        recording.retention.max_days.is_some_and(|days| now_ms >= ended + i64::from(days) * DAY_MS)
    };
    let is_beyond_count = |recording: &Recording| {
        recording.rule_id.is_some()
            && recording.retention.max_count.is_some_and(|count| newer_count(recording) >= count as usize)
    };
    let expired = complete.clone().filter(|recording| is_too_old(recording) || is_beyond_count(recording));
    expired.map(|recording| recording.id.clone()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn recording(id: &str, channel_id: u32, start_ms: i64, end_ms: i64) -> Recording {
        let (user_id, title) = ("u_1".into(), "Show".into());
        Recording { id: id.into(), channel_id, user_id, title, start_ms, end_ms, ..Recording::default() }
    }

    #[test]
    fn a_file_keeps_its_base_timestamp() {
        let mut new = WrittenRange::default();
        let start = 1_767_225_600 * 90_000;
        assert_eq!(new.timestamp_shift(start), BASE_TICKS - start);
        new.add_segment(100, (start, start + 180_000), false, start - 90_000);
        assert_eq!((new.from_ticks, new.base_ticks, new.missing_ticks), (start, BASE_TICKS, 90_000));
        assert_eq!(new.timestamp_shift(start + 180_000), BASE_TICKS - start);
        // A file begun by an older version has its 0 at its first instant.
        let old: WrittenRange =
            serde_json::from_value(serde_json::json!({"bytes": 1, "from": start, "through": start + 1})).unwrap();
        assert_eq!(old.timestamp_shift(start + 1), -start);
    }

    #[test]
    fn a_slate_is_not_recorded_programme() {
        let mut written = WrittenRange::default();
        assert!(written.has_no_programme());
        written.add_segment(100, (0, 180_000), true, 0);
        assert!(written.has_no_programme() && written.missing_ticks == 180_000);
        written.add_segment(100, (180_000, 360_000), false, 0);
        // A gap, then a slate.
        written.add_segment(100, (450_000, 540_000), true, 0);
        assert_eq!((written.missing_ticks, written.through_ticks, written.bytes), (360_000, 540_000, 300));
        assert!(!written.has_no_programme());
    }

    #[test]
    fn states_go_forward_only() {
        use {RecordingEvent as E, RecordingState as S};
        let arrows = [
            (S::Scheduled, E::Begin, S::Recording),
            (S::Scheduled, E::Fail, S::Failed),
            (S::Scheduled, E::Cancel, S::Cancelled),
            (S::Recording, E::End, S::Complete),
            (S::Recording, E::Fail, S::Failed),
            (S::Recording, E::Cancel, S::Cancelled),
        ];
        for state in [S::Scheduled, S::Recording, S::Complete, S::Failed, S::Cancelled] {
            for event in [E::Begin, E::End, E::Fail, E::Cancel] {
                let arrow = arrows.iter().find(|(from, on, _)| (*from, *on) == (state, event));
                assert_eq!(state.after(event), arrow.map(|(.., to)| *to), "{state:?} {event:?}");
            }
        }
        let mut one = recording("a", 1, 0, 10);
        assert!(one.apply(E::Begin, 5) && one.ended_ms.is_none() && one.apply(E::End, 10) && !one.apply(E::Fail, 11));
        assert_eq!((one.state, one.ended_ms), (S::Complete, Some(10)));
        // Complete at its end, without the last four of ten milliseconds.
        let mut late = Recording { state: S::Recording, ..recording("b", 1, 0, 10) };
        late.written_range.add_segment(100, (0, 6 * 90), false, 0);
        assert!(late.apply(E::End, 20));
        assert_eq!(late.written_range.missing_ticks, 4 * 90);
        // Its last segment ends after it.
        let mut whole = Recording { state: S::Recording, ..recording("c", 1, 0, 10) };
        whole.written_range.add_segment(100, (0, 11 * 90), false, 0);
        assert!(whole.apply(E::End, 20) && whole.written_range.missing_ticks == 0);
    }

    #[test]
    fn a_recording_follows_its_programme() {
        let airing = |start_ms, end_ms| GuideAiring {
            guide_entry_id: Some("1-7".into()),
            title: "Show with extra time".into(),
            episode: Some(3),
            start_ms,
            end_ms,
            content_key: "show".into(),
            ..GuideAiring::default()
        };
        let mut waits = recording("a", 1, 100, 200);
        assert!(waits.follow(airing(150, 300)) && !waits.follow(airing(150, 300)));
        assert_eq!((waits.padded_range_ms(), waits.episode), ((150, 300), Some(3)));
        assert_eq!(waits.title, "Show with extra time");
        assert!(waits.apply(RecordingEvent::Begin, 150) && waits.follow(airing(160, 250)));
        assert_eq!(waits.padded_range_ms(), (150, 250), "what has begun keeps its start");
        assert!(waits.follow(airing(160, i64::MAX)));
        assert_eq!(waits.end_ms, 150 + MAX_LENGTH_MS);
    }

    #[test]
    fn conflicting_recordings_are_named() {
        let all = [
            recording("a", 1, 0, 100),
            recording("b", 2, 50, 150),
            recording("c", 3, 140, 200),
            recording("same", 1, 0, 100),
            recording("copied", 9, 0, 1000),
            Recording { state: RecordingState::Cancelled, ..recording("gone", 4, 0, 1000) },
        ];
        let conflicts_of =
            |n: usize, encode_slots| conflicting_ids(&all[n], all.iter(), encode_slots, |channel| channel != 9);
        assert_eq!(conflicts_of(0, 1), ["b"]);
        assert_eq!(conflicts_of(1, 1), ["a", "c", "same"]);
        assert_eq!(conflicts_of(2, 1), ["b"]);
        assert!((0..6).all(|n| conflicts_of(n, 2).is_empty()));
        assert!(conflicts_of(4, 1).is_empty() && conflicts_of(5, 1).is_empty());
        // Padding counts.
        let padded = [
            recording("a", 1, 0, 100),
            Recording { padding: Padding { before_ms: 1, after_ms: 0 }, ..recording("b", 2, 100, 200) },
        ];
        assert_eq!(conflicting_ids(&padded[0], padded.iter(), 1, |_| true), ["b"]);
    }

    #[test]
    fn recordings_expire_by_age_and_count() {
        let day = 24 * 3_600_000;
        let done = |id: &str, start: i64, rule: Option<&str>, retention| Recording {
            rule_id: rule.map(str::to_owned),
            retention,
            state: RecordingState::Complete,
            path: Some(format!("/rec/{id}.ts")),
            ended_ms: Some(start + 10),
            ..recording(id, 1, start, start + 10)
        };
        let two = RetentionLimit { max_count: Some(2), max_days: None };
        let old = RetentionLimit { max_count: None, max_days: Some(3) };
        let all = [
            done("1", 0, Some("r"), two),
            done("2", day, Some("r"), two),
            done("3", 2 * day, Some("r"), two),
            done("other rule", 0, Some("q"), two),
            done("alone", 0, None, two),
            done("ever", 0, None, RetentionLimit::default()),
            done("old", 0, None, old),
            Recording { state: RecordingState::Recording, ..done("running", 0, Some("r"), old) },
        ];
        assert_eq!(expired_ids(all.iter(), 2 * day), ["1"]);
        assert_eq!(expired_ids(all.iter(), 3 * day + 10), ["1", "old"]);
    }
}
