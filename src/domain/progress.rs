//! Watch progress of a film or a book, and which of two devices is right about it (optimistic concurrency: `version`,
//! `clientUpdatedAt`).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::time;

mod media_type;

pub use media_type::MediaType;

/// How far a device's clock may be ahead of ours before its word on the time is no longer taken. A clock that is years
/// ahead would otherwise shut every other device out for as long.
pub const MAX_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Positions remembered behind a stray return to the start.
pub const MAX_PAST: usize = 5;

/// A position at or below this is not worth coming back to when it is thrown away by a stray zero, seconds.
const STRAY_FROM_SECONDS: f64 = 60.0;

/// Where a list shows a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Begun, or put back to the start.
    Untouched,
    InProgress,
    Completed,
}

/// How far one user is in one item. Kept under the item's content, so that renaming or moving the file changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub media_id: String,
    /// Where the item was seen last.
    pub path: String,
    /// Its size; 0 for a folder. By it a moved file is looked for.
    pub size_bytes: u64,
    pub media_type: MediaType,
    pub title: String,
    pub position_seconds: f64,
    /// 0 when unknown.
    pub duration_seconds: f64,
    pub completed: bool,
    pub player: String,
    pub device_id: Option<String>,
    pub audio_stream_index: Option<u32>,
    pub subtitle_stream_index: Option<u32>,
    /// Books only.
    pub book: Option<Place>,
    pub play_count: u32,
    pub ever_completed: bool,
    pub completed_at: Option<Timestamp>,
    pub first_watched_at: Timestamp,
    pub last_watched_at: Timestamp,
    /// When the device says this was true; ours where it says nothing.
    pub updated_at: Timestamp,
    /// Counts the changes, resets included.
    pub version: u64,
    /// Positions a stray zero threw away, newest first.
    pub past: Vec<Past>,
    /// Put back to nothing. Such a record is kept for a while, so that a late device does not bring the old one back.
    pub reset: bool,
}

/// A place in a book beside the position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub chapter_index: u32,
    pub chapter_position_seconds: f64,
    pub playback_rate: f64,
    pub percentage: f64,
}

/// A position that was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past {
    pub position_seconds: f64,
    pub at: Timestamp,
}

/// What a device sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Save {
    pub media_id: String,
    pub path: String,
    pub size_bytes: u64,
    pub media_type: MediaType,
    pub title: String,
    pub position_seconds: f64,
    pub duration_seconds: f64,
    /// None for a device that does not say; it counts as false.
    pub completed: Option<bool>,
    pub player: String,
    pub device_id: Option<String>,
    pub audio_stream_index: Option<u32>,
    pub subtitle_stream_index: Option<u32>,
    pub book: Option<Place>,
    /// Counts a viewing even when the item is completed already.
    pub marks_watched: bool,
    /// When the device saw this.
    pub client_updated_at: Option<Timestamp>,
    /// The version the device changes; 0 for none.
    pub version: Option<u64>,
}

/// What becomes of a save.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Applied(Record),
    /// An older word: nothing changes, and this is what stands.
    Stale(Record),
}

/// Decides over a save. `now` is the server's time.
///
/// A save with a client time is refused when something newer stands; one with a version when another version stands;
/// one with neither always wins. What a client time is compared with is the client time of what stands, so that of two
/// devices the newer wins in whatever order their saves arrive.
pub fn save(stored: Option<&Record>, save: Save, now: Timestamp) -> Verdict {
    let standing = stored.map_or(0, |record| record.version);
    // A clock far ahead is taken as ours. What stands can be as far ahead only if ours was: then it orders nothing.
    let is_false = |at: Timestamp| at.duration_since(now) > MAX_SKEW;
    let claimed = save.client_updated_at.map(|at| if is_false(at) { now } else { at });
    let older = claimed.zip(stored).is_some_and(|(at, record)| at < record.updated_at && !is_false(record.updated_at));
    if older || save.version.is_some_and(|version| version != standing) {
        return Verdict::Stale(stored.cloned().unwrap_or_else(|| Record::untouched(save, now)));
    }
    let before = stored.filter(|record| !record.reset);
    let completed = save.completed.unwrap_or(false);
    let was_completed = before.is_some_and(|record| record.completed);
    let counts = completed && (!was_completed || save.marks_watched);
    let updated_at = claimed.unwrap_or(now);
    let watched_at = updated_at.min(now);
    let mut past = before.map_or_else(Vec::new, |record| record.past.clone());
    // The interface's body always has `completed`, so false says no more than its absence.
    let blind = save.client_updated_at.is_none() && save.version.is_none() && !completed;
    if let Some(record) = before.filter(|record| record.position_seconds > STRAY_FROM_SECONDS)
        && blind
        && save.position_seconds == 0.0
    {
        past.insert(0, Past { position_seconds: record.position_seconds, at: record.updated_at });
        past.truncate(MAX_PAST);
    }
    let (played, ever) = before.map_or((0, false), |record| (record.play_count, record.ever_completed));
    Verdict::Applied(Record {
        play_count: played.saturating_add(u32::from(counts)),
        ever_completed: ever || completed,
        completed_at: if counts { Some(watched_at) } else { before.and_then(|record| record.completed_at) },
        first_watched_at: before.map_or(watched_at, |record| record.first_watched_at.min(watched_at)),
        last_watched_at: before.map_or(watched_at, |record| record.last_watched_at.max(watched_at)),
        updated_at,
        version: standing + 1,
        past,
        completed,
        ..Record::untouched(save, now)
    })
}

impl Record {
    /// The record of an item nobody has begun, with what a save says of the item. Version 0.
    fn untouched(save: Save, now: Timestamp) -> Self {
        Self {
            media_id: save.media_id,
            path: save.path,
            size_bytes: save.size_bytes,
            media_type: save.media_type,
            title: save.title,
            position_seconds: save.position_seconds,
            duration_seconds: save.duration_seconds,
            completed: false,
            player: save.player,
            device_id: save.device_id,
            audio_stream_index: save.audio_stream_index,
            subtitle_stream_index: save.subtitle_stream_index,
            book: save.book,
            play_count: 0,
            ever_completed: false,
            completed_at: None,
            first_watched_at: now,
            last_watched_at: now,
            updated_at: now,
            version: 0,
            past: Vec::new(),
            reset: false,
        }
    }

    /// The record put back to nothing.
    pub fn reset(&self, now: Timestamp) -> Self {
        Self {
            position_seconds: 0.0,
            completed: false,
            book: None,
            play_count: 0,
            ever_completed: false,
            completed_at: None,
            updated_at: now.max(self.updated_at),
            version: self.version + 1,
            past: Vec::new(),
            reset: true,
            ..self.clone()
        }
    }

    /// Whether one of its times is too far ahead of `now` to be true.
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        let times = [Some(self.first_watched_at), Some(self.last_watched_at), Some(self.updated_at), self.completed_at];
        times.into_iter().flatten().any(|at| time::is_ahead(at.as_second(), now.as_second()))
    }

    /// The record with every time that is too far ahead set back to `now`. The version stays: no device changed anything.
    pub fn set_back(self, now: Timestamp) -> Self {
        let true_time = |at: Timestamp| if time::is_ahead(at.as_second(), now.as_second()) { now } else { at };
        Self {
            first_watched_at: true_time(self.first_watched_at),
            last_watched_at: true_time(self.last_watched_at),
            updated_at: true_time(self.updated_at),
            completed_at: self.completed_at.map(true_time),
            ..self
        }
    }

    /// Where to begin again, seconds: 0 when the item is done, hardly begun, or at its end titles.
    pub fn resume_seconds(&self) -> f64 {
        let (position, duration) = (self.position_seconds, self.duration_seconds);
        let begun = position >= 5.0_f64.max(duration * 0.01);
        let ending = duration > 0.0 && duration - position < 30.0_f64.max(duration * 0.05);
        if self.completed || !begun || ending { 0.0 } else { position }
    }

    pub fn percentage(&self) -> f64 {
        match &self.book {
            Some(place) => place.percentage,
            None => percentage(self.position_seconds, self.duration_seconds),
        }
    }

    pub fn status(&self) -> Status {
        match (self.completed, self.position_seconds > 0.0) {
            (true, _) => Status::Completed,
            (false, true) => Status::InProgress,
            (false, false) => Status::Untouched,
        }
    }
}

/// Percent of the whole, two decimals; 0 when the whole is unknown.
pub fn percentage(position_seconds: f64, duration_seconds: f64) -> f64 {
    if duration_seconds <= 0.0 {
        return 0.0;
    }
    let share = (position_seconds / duration_seconds).clamp(0.0, 1.0);
    (share * 10_000.0).round() / 100.0
}

#[cfg(test)]
mod tests;
