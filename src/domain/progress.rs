//! Watch progress of a film or a book, and which of two devices is right about it (optimistic concurrency: `version`,
//! `clientUpdatedAt`).

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::library::file_stem;
use super::time;

mod book_part;
mod media_type;

pub use book_part::BookPart;
pub use media_type::MediaType;

/// How far a device's clock may be ahead of the server's before its times are ignored. A clock years ahead would otherwise
/// block all other devices.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Number of positions kept when a stray save returns to the start.
const MAX_EARLIER_POSITIONS: usize = 5;

/// A position at or below this is not worth keeping when a stray zero replaces it, seconds.
const MIN_KEPT_SECONDS: f64 = 60.0;

/// Which list a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgressStatus {
    /// At the start: just begun, or put back.
    Untouched,
    InProgress,
    Completed,
}

/// One user's progress in one item. It is stored under the item's content hash, so renaming or moving the file changes
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressRecord {
    pub media_id: String,
    /// Last known path of the item.
    pub path: String,
    /// Its size, used to find a moved file; 0 for a folder.
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
    pub book: Option<BookPosition>,
    pub play_count: u32,
    pub ever_completed: bool,
    pub completed_at: Option<Timestamp>,
    pub first_watched_at: Timestamp,
    pub last_watched_at: Timestamp,
    /// Client time of the last change; server time if the device sends none.
    pub updated_at: Timestamp,
    /// Counts the changes, resets included.
    pub version: u64,
    /// Positions replaced by stray zeros, newest first.
    #[serde(rename = "past")]
    pub earlier_positions: Vec<EarlierPosition>,
    /// The record was reset. It is kept for a while, so that a late save of another device does not restore the old
    /// position.
    #[serde(rename = "reset")]
    pub is_reset: bool,
}

/// A position in an audiobook, in addition to the seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BookPosition {
    pub chapter_index: u32,
    pub chapter_position_seconds: f64,
    pub playback_rate: f64,
    pub percentage: f64,
    /// The file to resume. None for a book of one file, and in records of versions before 0.3.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FilePosition>,
}

/// A position in one file of a book.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePosition {
    /// The path of the file in the folder of the book.
    pub name: String,
    #[serde(rename = "position")]
    pub position_seconds: f64,
}

/// An earlier position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierPosition {
    pub position_seconds: f64,
    #[serde(rename = "at")]
    pub saved_at: Timestamp,
}

/// One item of the library, by content.
#[derive(Clone, Debug)]
pub struct ProgressItem {
    pub media_id: String,
    pub path: String,
    /// The default title.
    pub title: String,
    /// 0 for a folder.
    pub size_bytes: u64,
    /// None if it was not probed yet.
    pub duration_seconds: Option<f64>,
}

impl ProgressItem {
    /// A file that was not probed yet.
    pub fn new_file(media_id: String, path: &str, size_bytes: u64) -> Self {
        let (path, title) = (path.to_owned(), file_stem(path).to_owned());
        Self { media_id, path, title, size_bytes, duration_seconds: None }
    }
}

/// A save sent by a device; omitted fields keep their stored values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressSave {
    pub media_type: MediaType,
    pub title: Option<String>,
    /// None means the end.
    pub position_seconds: Option<f64>,
    pub duration_seconds: Option<f64>,
    /// None counts as false.
    pub completed: Option<bool>,
    pub player: Option<String>,
    pub device_id: Option<String>,
    /// `Some(None)` means explicitly no stream.
    pub audio_stream_index: Option<Option<u32>>,
    pub subtitle_stream_index: Option<Option<u32>>,
    pub book: Option<BookPosition>,
    /// Counts a viewing even if the item is already completed.
    pub marks_watched: bool,
    /// The position is the start of a file of the book, to which a player may have returned by accident.
    pub starts_file: bool,
    /// Client time of this position.
    pub client_updated_at: Option<Timestamp>,
    /// The version the device changes; 0 for none.
    pub version: Option<u64>,
}

/// The result of a save.
#[derive(Clone, Debug, PartialEq)]
pub enum SaveResult {
    Applied(ProgressRecord),
    /// Refused as outdated; contains the stored record.
    Stale(ProgressRecord),
}

/// Merges a save of an item into its stored record. `now` is the server's time.
///
/// A save with a client time is refused if the stored one is newer, and a save with a version if the stored version differs.
/// A save with neither always wins. Client times are compared with client times, so the newer of two devices wins in
/// whatever order their saves arrive.
pub fn merge_save(
    stored: Option<&ProgressRecord>,
    item: &ProgressItem,
    save: ProgressSave,
    now: Timestamp,
) -> SaveResult {
    let stored_version = stored.map_or(0, |record| record.version);
    // A client time too far ahead is replaced by the server's. A stored time can be that far ahead only if the server's
    // clock was wrong; then it is not compared.
    let is_too_far_ahead = |at: Timestamp| at.duration_since(now) > MAX_CLOCK_SKEW;
    let client_time = save.client_updated_at.map(|at| if is_too_far_ahead(at) { now } else { at });
    let is_older = client_time
        .zip(stored)
        .is_some_and(|(at, record)| at < record.updated_at && !is_too_far_ahead(record.updated_at));
    let is_outdated = is_older || save.version.is_some_and(|version| version != stored_version);
    let (completed, marks_watched) = (save.completed.unwrap_or(false), save.marks_watched);
    // The API's body always has `completed`, so false means no more than its absence.
    let has_no_order = save.client_updated_at.is_none() && save.version.is_none() && !completed;
    let starts_file = save.starts_file;
    let before = stored.filter(|record| !record.is_reset);
    let record = ProgressRecord::new_record(item, save, before, now);
    if is_outdated {
        return SaveResult::Stale(stored.cloned().unwrap_or(record));
    }
    let was_completed_before = before.is_some_and(|record| record.completed);
    let counts_as_viewing = completed && (!was_completed_before || marks_watched);
    let updated_at = client_time.unwrap_or(now);
    let watched_at = updated_at.min(now);
    let mut earlier_positions = before.map_or_else(Vec::new, |record| record.earlier_positions.clone());
    if let Some(replaced) = before.filter(|record| record.position_seconds > MIN_KEPT_SECONDS)
        && has_no_order
        && (record.position_seconds == 0.0 || starts_file && record.position_seconds < replaced.position_seconds)
    {
        earlier_positions
            .insert(0, EarlierPosition { position_seconds: replaced.position_seconds, saved_at: replaced.updated_at });
        earlier_positions.truncate(MAX_EARLIER_POSITIONS);
    }
    let (viewings, was_ever_completed) = before.map_or((0, false), |record| (record.play_count, record.ever_completed));
    SaveResult::Applied(ProgressRecord {
        play_count: viewings.saturating_add(u32::from(counts_as_viewing)),
        ever_completed: was_ever_completed || completed,
        completed_at: if counts_as_viewing { Some(watched_at) } else { before.and_then(|record| record.completed_at) },
        first_watched_at: before.map_or(watched_at, |record| record.first_watched_at.min(watched_at)),
        last_watched_at: before.map_or(watched_at, |record| record.last_watched_at.max(watched_at)),
        updated_at,
        version: stored_version + 1,
        earlier_positions,
        completed,
        ..record
    })
}

impl ProgressRecord {
    /// A new record by an item and a save; what the save omits is taken from the record before it. Version 0.
    fn new_record(item: &ProgressItem, save: ProgressSave, before: Option<&Self>, now: Timestamp) -> Self {
        let is_known = |duration: &f64| *duration > 0.0;
        let stored_duration = before.map(|record| record.duration_seconds).filter(is_known);
        let duration = save.duration_seconds.filter(is_known).or(stored_duration).or(item.duration_seconds);
        let duration = duration.unwrap_or(0.0);
        let position = save.position_seconds.unwrap_or(duration);
        Self {
            media_id: item.media_id.clone(),
            path: item.path.clone(),
            size_bytes: item.size_bytes,
            media_type: save.media_type,
            title: save.title.or_else(|| Some(before?.title.clone())).unwrap_or_else(|| item.title.clone()),
            position_seconds: if duration > 0.0 { position.min(duration) } else { position },
            duration_seconds: duration,
            player: save.player.unwrap_or_else(|| "unknown".to_owned()),
            device_id: save.device_id,
            audio_stream_index: save.audio_stream_index.unwrap_or_else(|| before?.audio_stream_index),
            subtitle_stream_index: save.subtitle_stream_index.unwrap_or_else(|| before?.subtitle_stream_index),
            book: save.book,
            first_watched_at: now,
            last_watched_at: now,
            updated_at: now,
            ..Self::default()
        }
    }

    /// The record after a reset.
    pub fn to_reset(&self, now: Timestamp) -> Self {
        Self {
            position_seconds: 0.0,
            completed: false,
            book: None,
            play_count: 0,
            ever_completed: false,
            completed_at: None,
            updated_at: now.max(self.updated_at),
            version: self.version + 1,
            earlier_positions: Vec::new(),
            is_reset: true,
            ..self.clone()
        }
    }

    /// Whether one of its times is too far ahead of `now` to be true.
    pub fn has_future_time(&self, now: Timestamp) -> bool {
        let times = [Some(self.first_watched_at), Some(self.last_watched_at), Some(self.updated_at), self.completed_at];
        times.into_iter().flatten().any(|at| time::is_too_far_ahead(at.as_second(), now.as_second()))
    }

    /// The record with every time that is too far ahead set to `now`. The version stays, because no device changed anything.
    pub fn without_future_times(self, now: Timestamp) -> Self {
        let clamped = |at: Timestamp| if time::is_too_far_ahead(at.as_second(), now.as_second()) { now } else { at };
        Self {
            first_watched_at: clamped(self.first_watched_at),
            last_watched_at: clamped(self.last_watched_at),
            updated_at: clamped(self.updated_at),
            completed_at: self.completed_at.map(clamped),
            ..self
        }
    }

    /// Resume position, seconds: 0 if the item is completed, barely begun, or at its end titles.
    pub fn resume_seconds(&self) -> f64 {
        let (position, duration) = (self.position_seconds, self.duration_seconds);
        let has_begun = position >= 5.0_f64.max(duration * 0.01);
        let is_ending = duration > 0.0 && duration - position < 30.0_f64.max(duration * 0.05);
        if self.completed || !has_begun || is_ending { 0.0 } else { position }
    }

    pub fn percentage(&self) -> f64 {
        match &self.book {
            Some(book) => book.percentage,
            None => percentage(self.position_seconds, self.duration_seconds),
        }
    }

    pub fn status(&self) -> ProgressStatus {
        match (self.completed, self.position_seconds > 0.0) {
            (true, _) => ProgressStatus::Completed,
            (false, true) => ProgressStatus::InProgress,
            (false, false) => ProgressStatus::Untouched,
        }
    }
}

/// Percent of the duration, two decimals; 0 if it is unknown.
pub fn percentage(position_seconds: f64, duration_seconds: f64) -> f64 {
    if duration_seconds <= 0.0 {
        return 0.0;
    }
    let share = (position_seconds / duration_seconds).clamp(0.0, 1.0);
    (share * 10_000.0).round() / 100.0
}

#[cfg(test)]
mod tests;
