//! One file of an audiobook of several: progress in it is progress in the book.

use std::cmp::Ordering;

use super::{BookPosition, ProgressItem, ProgressRecord, ProgressSave, percentage};
use crate::domain::library::compare_natural;

/// A file of a book.
#[derive(Clone, Debug, PartialEq)]
pub struct BookPart {
    /// Its path in the folder of the book.
    pub name: String,
    /// Where it begins on the book's timeline, seconds.
    pub start_seconds: f64,
    /// 0 when unknown.
    pub duration_seconds: f64,
    pub is_last: bool,
}

impl BookPart {
    /// A save of a position in this file, as one of a position in the book, which lasts `book_seconds`. The end of a file that is not
    /// the last one is the start of the next.
    pub fn to_book_save(&self, save: ProgressSave, book_seconds: f64) -> ProgressSave {
        let completed = save.completed.unwrap_or(false);
        let end = self.start_seconds + self.duration_seconds;
        let position = save.position_seconds.map(|seconds| match self.duration_seconds > 0.0 {
            true => self.start_seconds + seconds.min(self.duration_seconds),
            false => self.start_seconds + seconds,
        });
        ProgressSave {
            position_seconds: Some(position.filter(|_| !completed || self.is_last).unwrap_or(end)),
            duration_seconds: Some(book_seconds),
            completed: Some(completed && self.is_last),
            marks_watched: save.marks_watched && self.is_last,
            starts_file: save.position_seconds == Some(0.0) && !completed,
            // That of the file, not of the book.
            title: None,
            book: None,
            ..save
        }
    }

    /// The progress in this file, which is `item`, by the record of its book: files before the one to resume are completed, those after it are not
    /// begun. None if the record does not state that file.
    pub fn progress(&self, item: &ProgressItem, record: &ProgressRecord) -> Option<ProgressRecord> {
        let book = record.book.as_ref()?;
        let resumed = book.file.as_ref()?;
        let duration = self.duration_seconds;
        let (position, completed) = match compare_natural(&self.name, &resumed.name) {
            _ if record.completed => (duration, true),
            Ordering::Less => (duration, true),
            Ordering::Equal => (resumed.position_seconds, false),
            Ordering::Greater => (0.0, false),
        };
        let percentage = if completed { 100.0 } else { percentage(position, duration) };
        Some(ProgressRecord {
            media_id: item.media_id.clone(),
            path: item.path.clone(),
            size_bytes: item.size_bytes,
            title: item.title.clone(),
            position_seconds: position,
            duration_seconds: duration,
            completed,
            completed_at: record.completed_at.filter(|_| record.completed),
            book: Some(BookPosition { percentage, file: None, ..book.clone() }),
            earlier_positions: Vec::new(),
            ..record.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FilePosition, ProgressStatus};
    use super::*;

    fn part(name: &str, start_seconds: f64, is_last: bool) -> BookPart {
        BookPart { name: name.to_owned(), start_seconds, duration_seconds: 100.0, is_last }
    }

    #[test]
    fn a_position_in_a_file_is_one_in_the_book() {
        let in_book = |part: &BookPart, position, completed| {
            let save = ProgressSave { position_seconds: position, completed, ..ProgressSave::default() };
            let save = part.to_book_save(ProgressSave { duration_seconds: Some(100.0), ..save }, 300.0);
            assert_eq!(save.duration_seconds, Some(300.0));
            (save.position_seconds.unwrap(), save.completed.unwrap(), save.starts_file)
        };
        let (second, third) = (part("2.mp3", 100.0, false), part("3.mp3", 200.0, true));
        assert_eq!(in_book(&second, Some(30.0), Some(false)), (130.0, false, false));
        assert_eq!(in_book(&second, Some(500.0), None), (200.0, false, false), "within the file");
        assert_eq!(in_book(&second, Some(0.0), None), (100.0, false, true));
        assert_eq!(in_book(&second, Some(97.0), Some(true)), (200.0, false, false), "the next file is to be resumed");
        assert_eq!(in_book(&second, None, Some(true)), (200.0, false, false));
        assert_eq!(in_book(&third, Some(97.0), Some(true)), (297.0, true, false));
        assert_eq!(in_book(&third, None, Some(true)), (300.0, true, false));
        let unknown = BookPart { duration_seconds: 0.0, ..second };
        assert_eq!(in_book(&unknown, Some(30.0), None), (130.0, false, false));
    }

    #[test]
    fn each_file_has_its_share_of_the_book() {
        let file = FilePosition { name: "Disc 1/10.mp3".to_owned(), position_seconds: 25.0 };
        let book = BookPosition {
            chapter_index: 1,
            chapter_position_seconds: 25.0,
            playback_rate: 1.0,
            percentage: 40.0,
            file: Some(file),
        };
        let record = ProgressRecord { position_seconds: 125.0, book: Some(book), version: 7, ..Default::default() };
        let item = ProgressItem::new_file("f_1".to_owned(), "/b/1.mp3", 9);
        let progress = |name: &str, record: &ProgressRecord| {
            let found = part(name, 0.0, false).progress(&item, record).unwrap();
            assert_eq!((found.version, &*found.media_id, &*found.title), (7, "f_1", "1"));
            (found.position_seconds, found.status(), found.percentage())
        };
        assert_eq!(progress("Disc 1/2.mp3", &record), (100.0, ProgressStatus::Completed, 100.0));
        assert_eq!(progress("Disc 1/10.mp3", &record), (25.0, ProgressStatus::InProgress, 25.0));
        assert_eq!(progress("Disc 2/1.mp3", &record), (0.0, ProgressStatus::Untouched, 0.0));
        let completed = ProgressRecord { completed: true, ..record.clone() };
        assert_eq!(progress("Disc 2/1.mp3", &completed).1, ProgressStatus::Completed);
        let older = ProgressRecord { book: None, ..record };
        assert_eq!(part("1.mp3", 0.0, false).progress(&item, &older), None);
    }
}
