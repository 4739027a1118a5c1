//! Marks by the names of chapters.

use super::{Mark, MarkKind, MarkSource};
use crate::domain::catalogue::fold::fold;
use crate::domain::media::Chapter;

/// Folded names, and folded beginnings of names that end with a space, e.g. `previously on The Museum`. German, French, Spanish,
/// Italian and Dutch besides English.
const NAMES: [(MarkKind, &[&str]); 3] = [
    (
        MarkKind::Recap,
        &[
            "recap",
            "recapitulation",
            "previously",
            "previously on ",
            "last time on ",
            "story so far",
            "ruckblick",
            "ruckblende",
            "was bisher geschah",
            "bisher bei ",
            "precedemment",
            "resume des episodes precedents",
            "anteriormente",
            "anteriormente en ",
            "riassunto",
            "nelle puntate precedenti",
            "terugblik",
        ],
    ),
    (
        MarkKind::Intro,
        &[
            "intro",
            "opening",
            "op",
            "opening credits",
            "opening titles",
            "opening theme",
            "opening sequence",
            "title sequence",
            "titles",
            "main title",
            "main titles",
            "theme",
            "theme song",
            "vorspann",
            "titelsequenz",
            "generique",
            "generique de debut",
            "cabecera",
            "creditos iniciales",
            "sigla",
            "sigla iniziale",
            "titoli di testa",
            "begintune",
        ],
    ),
    (
        MarkKind::Credits,
        &[
            "credits",
            "end credits",
            "ending credits",
            "closing credits",
            "closing titles",
            "end titles",
            "ending",
            "ed",
            "outro",
            "abspann",
            "nachspann",
            "generique de fin",
            "creditos",
            "creditos finales",
            "titoli di coda",
            "sigla finale",
            "aftiteling",
            "eindtune",
        ],
    ),
];

/// The longest chapter with such a name, ms: some discs call a whole first scene `Opening`.
const fn max_ms(kind: MarkKind) -> i64 {
    match kind {
        MarkKind::Recap => 300_000,
        MarkKind::Intro => 180_000,
        MarkKind::Credits => 1_200_000,
    }
}

/// Certain, because people or muxers wrote it.
const CONFIDENCE_PERCENT: u8 = 100;

/// The marks that the names of chapters state.
pub fn find_marks(chapters: &[Chapter]) -> Vec<Mark> {
    let to_ms = |seconds: f64| (seconds * 1000.0).round() as i64;
    let marks = chapters.iter().filter_map(|chapter| {
        let kind = kind_of(chapter.title.as_deref()?)?;
        let (start_ms, end_ms) = (to_ms(chapter.start_seconds), to_ms(chapter.end_seconds));
        Some(Mark { kind, start_ms, end_ms, source: MarkSource::ChapterName, confidence_percent: CONFIDENCE_PERCENT })
    });
    marks.filter(|mark| mark.end_ms - mark.start_ms <= max_ms(mark.kind)).collect()
}

fn kind_of(title: &str) -> Option<MarkKind> {
    let folded = fold(title);
    // `Intro 2`, `OP1`.
    let name = folded.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end();
    let matches = |known: &&str| match known.ends_with(' ') {
        true => folded.starts_with(*known),
        false => *known == name,
    };
    NAMES.iter().find(|(_, names)| names.iter().any(matches)).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_chapters_are_recognised() {
        for (title, expected) in [
            ("Intro", Some(MarkKind::Intro)),
            ("OP1", Some(MarkKind::Intro)),
            ("Opening Credits", Some(MarkKind::Intro)),
            ("Générique de début", Some(MarkKind::Intro)),
            ("Previously on The Museum", Some(MarkKind::Recap)),
            ("Rückblick", Some(MarkKind::Recap)),
            ("End credits", Some(MarkKind::Credits)),
            ("Créditos", Some(MarkKind::Credits)),
            ("Outro", Some(MarkKind::Credits)),
            ("Introduction", None),
            ("The Opening of the Tomb", None),
            ("Previously owned", None),
            ("Operation", None),
            ("Chapter 1", None),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(kind_of(title), expected, "{title}");
        }
    }

    #[test]
    fn a_whole_scene_is_no_intro() {
        let chapter = |title: &str, start_seconds, end_seconds| Chapter {
            title: Some(title.to_owned()),
            start_seconds,
            end_seconds,
        };
        let untitled = Chapter { title: None, ..chapter("", 90.0, 2500.0) };
        let marks = find_marks(&[chapter("Intro", 0.5, 90.0), untitled, chapter("Credits", 2500.0, 2580.25)]);
        let found: Vec<_> = marks.iter().map(|mark| (mark.kind, mark.start_ms, mark.end_ms)).collect();
        assert_eq!(found, [(MarkKind::Intro, 500, 90_000), (MarkKind::Credits, 2_500_000, 2_580_250)]);
        assert_eq!(find_marks(&[chapter("Opening", 0.0, 400.0)]), []);
    }
}
