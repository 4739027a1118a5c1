//! Marks: the parts of a film or episode that viewers may skip, and how they were found.

use serde::{Deserialize, Serialize};

pub mod chapter_names;
pub mod common_audio;
pub mod dark_end;
pub mod recap;

named_values! {
    /// A part that viewers may skip.
    pub enum MarkKind {
        /// A summary of earlier episodes.
        Recap = "recap",
        Intro = "intro",
        Credits = "credits",
    }
}

named_values! {
    /// How a mark was found, the strongest last.
    pub enum MarkSource {
        /// The video is dark from here to the end.
        DarkVideo = "darkVideo",
        /// Frames of it are in earlier episodes of the season.
        CommonVideo = "commonVideo",
        /// Another episode of the season has the same audio.
        CommonAudio = "commonAudio",
        /// The name of a chapter.
        ChapterName = "chapterName",
    }
}

/// A part of an item. Times in milliseconds of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub kind: MarkKind,
    #[serde(rename = "start")]
    pub start_ms: i64,
    #[serde(rename = "end")]
    pub end_ms: i64,
    pub source: MarkSource,
    /// 1 to 100, how certain it is.
    #[serde(rename = "confidence")]
    pub confidence_percent: u8,
}

/// The marks to show, in order of time: of each kind those of the strongest source.
pub fn strongest(marks: impl IntoIterator<Item = Mark>) -> Vec<Mark> {
    let mut marks: Vec<Mark> = marks.into_iter().filter(|mark| mark.start_ms < mark.end_ms).collect();
    let all = marks.clone();
    marks.retain(|mark| all.iter().all(|other| other.kind != mark.kind || other.source as u8 <= mark.source as u8));
    marks.sort_by_key(|mark| (mark.start_ms, mark.kind as u8));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_of_its_strongest_source() {
        let mark = |kind, start_ms, source| Mark { kind, start_ms, end_ms: 90_000, source, confidence_percent: 50 };
        let credits = mark(MarkKind::Credits, 60_000, MarkSource::DarkVideo);
        let intro = mark(MarkKind::Intro, 20_000, MarkSource::ChapterName);
        let second_intro = Mark { start_ms: 10_000, ..intro };
        let by_audio = mark(MarkKind::Intro, 5_000, MarkSource::CommonAudio);
        let empty = mark(MarkKind::Credits, 90_000, MarkSource::ChapterName);
        assert_eq!(strongest([credits, intro, by_audio, second_intro, empty]), [second_intro, intro, credits]);
        assert_eq!(strongest([by_audio]), [by_audio]);
        assert_eq!(strongest([]), []);
    }
}
