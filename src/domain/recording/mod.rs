//! A recording (DVR): which part of a channel is put into a file, and how far that is.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::time::Ticks;

mod file_name;
mod rule;

pub use file_name::folder_and_file;
pub use rule::{GuideAiring, SeriesRule, SeriesRuleChange};

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
    pub const ALL: [Self; 5] = [Self::Scheduled, Self::Recording, Self::Complete, Self::Failed, Self::Cancelled];

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
    /// Start and end of what is recorded, since 1970.
    pub from: Ticks,
    pub through: Ticks,
    /// Time in that range with nothing recorded, or with a slate instead of the programme.
    #[serde(default)]
    pub missing: Ticks,
    /// Presentation time of the first instant in the file. 0 in files begun by older versions.
    #[serde(default)]
    pub base: Ticks,
}

/// The presentation time at which a recording begins. Its first decoding time and PCR are a little earlier and must
/// not be negative: they would wrap to 26.5 h, and players would take that for the duration or the position.
pub const BASE: Ticks = Ticks::from_ms(1000);

impl WrittenRange {
    /// The offset to add to the timestamps of a segment that begins at `start`, since 1970.
    pub fn timestamp_shift(&self, start: Ticks) -> Ticks {
        if self.bytes > 0 { self.base - self.from } else { BASE - start }
    }

    /// Records an appended segment of `bytes` bytes. `due` is where the recording was to begin.
    pub fn add_segment(&mut self, bytes: u64, (from, through): (Ticks, Ticks), is_slate: bool, due: Ticks) {
        if self.bytes == 0 {
            (self.from, self.base) = (from, BASE);
            self.missing += (from - due).max(Ticks::ZERO);
        } else {
            self.missing += (from - self.through).max(Ticks::ZERO);
        }
        if is_slate {
            self.missing += through - from;
        }
        self.bytes += bytes;
        self.through = through;
    }

    pub fn has_no_programme(&self) -> bool {
        self.bytes == 0 || self.missing >= self.through - self.from
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
            let rest = Ticks::from_ms(self.padded_range_ms().1) - self.written_range.through;
            self.written_range.missing += if rest > Ticks::from_ms(1) { rest } else { Ticks::ZERO };
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
        let (start, second) = (Ticks::from_ms(1_767_225_600_000), Ticks::from_ms(1000));
        assert_eq!(new.timestamp_shift(start), BASE - start);
        new.add_segment(100, (start, start + second * 2), false, start - second);
        assert_eq!((new.from, new.base, new.missing), (start, BASE, second));
        assert_eq!(new.timestamp_shift(start + second * 2), BASE - start);
        // A file begun by an older version has its 0 at its first instant.
        let old: WrittenRange =
            serde_json::from_value(serde_json::json!({"bytes": 1, "from": start, "through": start + second})).unwrap();
        assert_eq!(old.timestamp_shift(start + second), -start);
    }

    #[test]
    fn a_slate_is_not_recorded_programme() {
        let mut written = WrittenRange::default();
        let at = Ticks::from_ms;
        assert!(written.has_no_programme());
        written.add_segment(100, (at(0), at(2000)), true, at(0));
        assert!(written.has_no_programme() && written.missing == at(2000));
        written.add_segment(100, (at(2000), at(4000)), false, at(0));
        // A gap, then a slate.
        written.add_segment(100, (at(5000), at(6000)), true, at(0));
        assert_eq!((written.missing, written.through, written.bytes), (at(4000), at(6000), 300));
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
        late.written_range.add_segment(100, (Ticks::ZERO, Ticks::from_ms(6)), false, Ticks::ZERO);
        assert!(late.apply(E::End, 20));
        assert_eq!(late.written_range.missing, Ticks::from_ms(4));
        // Its last segment ends after it.
        let mut whole = Recording { state: S::Recording, ..recording("c", 1, 0, 10) };
        whole.written_range.add_segment(100, (Ticks::ZERO, Ticks::from_ms(11)), false, Ticks::ZERO);
        assert!(whole.apply(E::End, 20) && whole.written_range.missing == Ticks::ZERO);
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
