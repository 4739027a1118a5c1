//! A recording (DVR): which part of a channel is put into a file, and how far that is.

use serde::{Deserialize, Serialize};

mod name;
mod rule;

pub use name::place;
pub use rule::{Airing, Rule};

/// Maximum length of a recording without padding, ms.
pub const LONGEST_MS: i64 = 12 * 3_600_000;

/// Maximum padding at one end, ms.
pub const MOST_PADDING_MS: i64 = 3_600_000;

/// The state of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Scheduled,
    Recording,
    Complete,
    Failed,
    Cancelled,
}

/// An event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its start time has come.
    Begin,
    /// All of it is in the file.
    End,
    Fail,
    Cancel,
}

impl State {
    /// The API's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Recording => "recording",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state after an event; None if it changes nothing, because states only go forward.
    pub fn on(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Scheduled, Event::Begin) => Some(Self::Recording),
            (Self::Recording, Event::End) => Some(Self::Complete),
            (Self::Scheduled | Self::Recording, Event::Fail) => Some(Self::Failed),
            (Self::Scheduled | Self::Recording, Event::Cancel) => Some(Self::Cancelled),
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
pub struct Keep {
    /// Only the newest ones of a series, up to this number.
    #[serde(rename = "count")]
    pub count: Option<u32>,
    /// Days after its end.
    #[serde(rename = "days")]
    pub days: Option<u32>,
}

/// Time recorded before and after the programme, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padding {
    pub before_ms: i64,
    pub after_ms: i64,
}

/// Why a recording failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One of the codes of [`crate::error::Code`].
    pub code: String,
    pub message: String,
    pub at_ms: i64,
}

/// Progress of the file. Data after `bytes` is not part of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub bytes: u64,
    /// Ticks since 1970: start and end of what is recorded.
    #[serde(rename = "from")]
    pub from: i64,
    #[serde(rename = "through")]
    pub through: i64,
    /// Ticks in that range with nothing recorded, or with a slate instead of the programme.
    #[serde(rename = "missing", default)]
    pub missing: i64,
    /// Presentation time of the first instant in the file, ticks. 0 in files begun by older versions.
    #[serde(rename = "base", default)]
    pub base: i64,
}

/// The presentation time at which a recording begins, ticks. Its first decoding time and PCR are a little earlier and must
/// not be negative: they would wrap to 26.5 h, and players would take that for the duration or the position.
pub const BASE: i64 = 90_000;

impl Written {
    /// The offset to add to the timestamps of a segment that begins at `start` (ticks since 1970).
    pub fn shift(&self, start: i64) -> i64 {
        if self.bytes > 0 { self.base - self.from } else { BASE - start }
    }

    /// Records an appended segment of `bytes` bytes. `due` is where the recording was to begin, ticks since 1970.
    pub fn add(&mut self, bytes: u64, (from, through): (i64, i64), is_slate: bool, due: i64) {
        if self.bytes == 0 {
            (self.from, self.base) = (from, BASE);
            self.missing += (from - due).max(0);
        } else {
            self.missing += (from - self.through).max(0);
        }
        if is_slate {
            self.missing += through - from;
        }
        self.bytes += bytes;
        self.through = through;
    }

    /// Whether it has nothing of the programme.
    pub fn is_void(&self) -> bool {
        self.bytes == 0 || self.missing >= self.through - self.from
    }
}

/// One recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub entry: Option<String>,
    /// Key of the content, the same for every airing on its channel.
    #[serde(rename = "item")]
    pub item: String,
    /// The programme, unix ms, without padding.
    pub start_ms: i64,
    pub end_ms: i64,
    pub padding: Padding,
    /// The series rule that created it.
    #[serde(rename = "rule")]
    pub rule: Option<String>,
    #[serde(rename = "keep")]
    pub keep: Keep,
    pub state: State,
    pub failure: Option<Failure>,
    /// Path of its file, as used in requests; None until it begins, and after the file is deleted.
    pub path: Option<String>,
    #[serde(rename = "written")]
    pub written: Written,
    pub created_ms: i64,
    pub ended_ms: Option<i64>,
}

impl Recording {
    /// Start and end with padding, unix ms.
    pub fn span(&self) -> (i64, i64) {
        (self.start_ms - self.padding.before_ms, self.end_ms + self.padding.after_ms)
    }

    /// Takes over what a guide says of its programme now; false if that changes nothing. The start of a recording under way
    /// stays, and none becomes longer than [`LONGEST_MS`].
    pub fn follow(&mut self, airing: Airing) -> bool {
        let before = self.clone();
        if self.state == State::Scheduled {
            self.start_ms = airing.start_ms;
        }
        self.end_ms = airing.end_ms.min(self.start_ms + LONGEST_MS);
        (self.entry, self.item) = (airing.entry, airing.item);
        (self.title, self.subtitle) = (airing.title, airing.subtitle);
        (self.season, self.episode) = (airing.season, airing.episode);
        *self != before
    }

    /// Moves on by an event; false where that changes nothing.
    pub fn on(&mut self, event: Event, now_ms: i64) -> bool {
        let Some(next) = self.state.on(event) else { return false };
        self.state = next;
        if next == State::Complete {
            // An external channel may have no segments at the end. Up to a millisecond is rounding.
            let rest = self.span().1 * 90 - self.written.through;
            self.written.missing += if rest > 90 { rest } else { 0 };
        }
        if !next.is_open() {
            self.ended_ms = Some(now_ms);
        }
        true
    }

    fn overlaps(&self, at_ms: i64) -> bool {
        let (from, to) = self.span();
        (from..to).contains(&at_ms)
    }
}

/// Ids of the open recordings in conflict with `of`: at some instant of it, more channels have to be encoded than there are
/// encode slots. Recordings of one channel share an encode.
pub fn conflicts<'a>(
    of: &Recording,
    all: impl Iterator<Item = &'a Recording> + Clone,
    places: usize,
    encodes: impl Fn(u32) -> bool,
) -> Vec<&'a str> {
    if !of.state.is_open() || !encodes(of.channel_id) {
        return Vec::new();
    }
    let (from, to) = of.span();
    let others: Vec<&Recording> = all
        .filter(|other| other.state.is_open() && other.channel_id != of.channel_id)
        .filter(|other| other.span().0 < to && other.span().1 > from)
        .filter(|other| encodes(other.channel_id))
        .collect();
    // The number of overlapping recordings only increases at starts.
    let mut instants: Vec<i64> = others.iter().map(|other| other.span().0.max(from)).collect();
    instants.push(from);
    let mut found: Vec<&str> = Vec::new();
    for at in instants {
        let on: Vec<&&Recording> = others.iter().filter(|other| other.overlaps(at)).collect();
        let mut channels: Vec<u32> = on.iter().map(|other| other.channel_id).collect();
        channels.sort_unstable();
        channels.dedup();
        if channels.len() >= places {
            found.extend(on.iter().map(|other| other.id.as_str()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Ids of expired recordings: older than their limit, or beyond the number kept of a series.
pub fn expired<'a>(all: impl Iterator<Item = &'a Recording> + Clone, now_ms: i64) -> Vec<String> {
    const DAY_MS: i64 = 24 * 3_600_000;
    let complete = all.filter(|recording| recording.state == State::Complete && recording.path.is_some());
    let newer = |than: &Recording| {
        let key = |recording: &Recording| (recording.start_ms, recording.id.clone());
        complete.clone().filter(|other| other.rule == than.rule && key(other) > key(than)).count()
    };
    let too_old = |recording: &Recording| {
        let ended = recording.ended_ms.unwrap_or(recording.end_ms);
        recording.keep.days.is_some_and(|days| now_ms >= ended + i64::from(days) * DAY_MS)
    };
    let too_many = |recording: &Recording| {
        recording.rule.is_some() && recording.keep.count.is_some_and(|count| newer(recording) >= count as usize)
    };
    let expired = complete.clone().filter(|recording| too_old(recording) || too_many(recording));
    expired.map(|recording| recording.id.clone()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn recording(id: &str, channel_id: u32, start_ms: i64, end_ms: i64) -> Recording {
        Recording {
            id: id.into(),
            channel_id,
            user_id: "u_1".into(),
            title: "Show".into(),
            subtitle: None,
            season: None,
            episode: None,
            entry: None,
            item: String::new(),
            start_ms,
            end_ms,
            padding: Padding::default(),
            rule: None,
            keep: Keep::default(),
            state: State::Scheduled,
            failure: None,
            path: None,
            written: Written::default(),
            created_ms: 0,
            ended_ms: None,
        }
    }

    #[test]
    fn a_file_begins_after_its_zero_and_goes_on_as_it_was_begun() {
        let mut new = Written::default();
        let start = 1_767_225_600 * 90_000;
        assert_eq!(new.shift(start), BASE - start);
        new.add(100, (start, start + 180_000), false, start - 90_000);
        assert_eq!((new.from, new.base, new.missing), (start, BASE, 90_000));
        assert_eq!(new.shift(start + 180_000), BASE - start);
        // A file begun by an older version has its 0 at its first instant.
        let old: Written =
            serde_json::from_value(serde_json::json!({"bytes": 1, "from": start, "through": start + 1})).unwrap();
        assert_eq!(old.shift(start + 1), -start);
    }

    #[test]
    fn a_slate_is_not_recorded_programme() {
        let mut written = Written::default();
        assert!(written.is_void());
        written.add(100, (0, 180_000), true, 0);
        assert!(written.is_void() && written.missing == 180_000);
        written.add(100, (180_000, 360_000), false, 0);
        // A gap, then a slate.
        written.add(100, (450_000, 540_000), true, 0);
        assert_eq!((written.missing, written.through, written.bytes), (360_000, 540_000, 300));
        assert!(!written.is_void());
    }

    #[test]
    fn states_go_forward_only() {
        use {Event as E, State as S};
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
                assert_eq!(state.on(event), arrow.map(|(.., to)| *to), "{state:?} {event:?}");
            }
        }
        let mut one = recording("a", 1, 0, 10);
        assert!(one.on(E::Begin, 5) && one.ended_ms.is_none() && one.on(E::End, 10) && !one.on(E::Fail, 11));
        assert_eq!((one.state, one.ended_ms), (S::Complete, Some(10)));
        // Complete at its end, without the last four of ten milliseconds.
        let mut late = Recording { state: S::Recording, ..recording("b", 1, 0, 10) };
        late.written.add(100, (0, 6 * 90), false, 0);
        assert!(late.on(E::End, 20));
        assert_eq!(late.written.missing, 4 * 90);
        // Its last segment ends after it.
        let mut whole = Recording { state: S::Recording, ..recording("c", 1, 0, 10) };
        whole.written.add(100, (0, 11 * 90), false, 0);
        assert!(whole.on(E::End, 20) && whole.written.missing == 0);
    }

    #[test]
    fn a_recording_follows_its_programme() {
        let airing = |start_ms, end_ms| Airing {
            entry: Some("1-7".into()),
            title: "Show with extra time".into(),
            subtitle: None,
            season: None,
            episode: Some(3),
            start_ms,
            end_ms,
            item: "show".into(),
            new: false,
        };
        let mut waits = recording("a", 1, 100, 200);
        assert!(waits.follow(airing(150, 300)) && !waits.follow(airing(150, 300)));
        assert_eq!((waits.span(), &*waits.title, waits.episode), ((150, 300), "Show with extra time", Some(3)));
        assert!(waits.on(Event::Begin, 150) && waits.follow(airing(160, 250)));
        assert_eq!(waits.span(), (150, 250), "what has begun keeps its start");
        assert!(waits.follow(airing(160, i64::MAX)));
        assert_eq!(waits.end_ms, 150 + LONGEST_MS);
    }

    #[test]
    fn who_stands_in_the_way_is_named() {
        let all = [
            recording("a", 1, 0, 100),
            recording("b", 2, 50, 150),
            recording("c", 3, 140, 200),
            recording("same", 1, 0, 100),
            recording("copied", 9, 0, 1000),
            Recording { state: State::Cancelled, ..recording("gone", 4, 0, 1000) },
        ];
        let of = |n: usize, places| conflicts(&all[n], all.iter(), places, |channel| channel != 9);
        assert_eq!(of(0, 1), ["b"]);
        assert_eq!(of(1, 1), ["a", "c", "same"]);
        assert_eq!(of(2, 1), ["b"]);
        assert!((0..6).all(|n| of(n, 2).is_empty()));
        assert!(of(4, 1).is_empty() && of(5, 1).is_empty());
        // Padding counts.
        let padded = [
            recording("a", 1, 0, 100),
            Recording { padding: Padding { before_ms: 1, after_ms: 0 }, ..recording("b", 2, 100, 200) },
        ];
        assert_eq!(conflicts(&padded[0], padded.iter(), 1, |_| true), ["b"]);
    }

    #[test]
    fn what_is_kept_is_as_much_as_was_asked_for() {
        let day = 24 * 3_600_000;
        let done = |id: &str, start: i64, rule: Option<&str>, keep| Recording {
            rule: rule.map(str::to_owned),
            keep,
            state: State::Complete,
            path: Some(format!("/rec/{id}.ts")),
            ended_ms: Some(start + 10),
            ..recording(id, 1, start, start + 10)
        };
        let two = Keep { count: Some(2), days: None };
        let old = Keep { count: None, days: Some(3) };
        let all = [
            done("1", 0, Some("r"), two),
            done("2", day, Some("r"), two),
            done("3", 2 * day, Some("r"), two),
            done("other rule", 0, Some("q"), two),
            done("alone", 0, None, two),
            done("ever", 0, None, Keep::default()),
            done("old", 0, None, old),
            Recording { state: State::Recording, ..done("running", 0, Some("r"), old) },
        ];
        assert_eq!(expired(all.iter(), 2 * day), ["1"]);
        assert_eq!(expired(all.iter(), 3 * day + 10), ["1", "old"]);
    }
}
