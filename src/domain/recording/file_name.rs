//! File names of recordings: a folder named after the title, and a unique file name in it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Recording;

/// Maximum length of a path component, bytes: file systems allow 255, and a number may have to be appended.
const MAX_COMPONENT_BYTES: usize = 180;

/// Folder and file name, in the channel's local time, e.g. `Show` and `Show S01E02 The Door 2026-11-21 2015.ts`.
pub fn folder_and_file(recording: &Recording, zone: &str) -> (String, String) {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let at = Timestamp::from_millisecond(recording.start_ms).unwrap_or_default().to_zoned(zone);
    let mut name = recording.title.clone();
    if let (Some(season), Some(episode)) = (recording.season, recording.episode) {
        name += &format!(" S{season:02}E{episode:02}");
    }
    if let Some(subtitle) = &recording.subtitle {
        name += &format!(" {subtitle}");
    }
    let when = at.strftime("%Y-%m-%d %H%M").to_string();
    (path_component(&recording.title), format!("{} {when}.ts", path_component(&name)))
}

/// A title as one path component: without separators, leading dots and characters other systems refuse.
fn path_component(title: &str) -> String {
    let replaced = title.chars().map(|c| if c.is_control() || "/\\:*?\"<>|".contains(c) { ' ' } else { c });
    let text: String = replaced.collect();
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while text.len() > MAX_COMPONENT_BYTES {
        text.pop();
    }
    let text = text.trim_start_matches(['.', ' ']).trim_end_matches(['.', ' ']);
    if text.is_empty() { "Recording".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::recording;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_say_what_and_when() {
        let at = "2026-11-21T19:15:00Z".parse::<Timestamp>().unwrap().as_millisecond();
        let one = Recording {
            season: Some(1),
            episode: Some(2),
            subtitle: Some("The Door".into()),
            ..recording("r", 1, at, at + 1)
        };
        let named = |folder: &str, file: &str| (folder.to_owned(), file.to_owned());
        assert_eq!(folder_and_file(&one, "Europe/Berlin"), named("Show", "Show S01E02 The Door 2026-11-21 2015.ts"));
        // Leading dots are removed, because they would hide the file.
        let hostile = Recording { title: "../../etc/\n\"x\"".into(), ..recording("r", 1, at, at + 1) };
        assert_eq!(folder_and_file(&hostile, "nowhere"), named("etc x", "etc x 2026-11-21 1915.ts"));
        let empty = Recording { title: " /.. ".into(), ..recording("r", 1, at, at + 1) };
        assert_eq!(folder_and_file(&empty, "UTC").0, "Recording");
    }

    proptest! {
        #[test]
        fn every_title_makes_one_path_component(title in "\\PC{0,300}", subtitle in "\\PC{0,300}") {
            let one = Recording { title, subtitle: Some(subtitle), ..recording("r", 1, 0, 1) };
            let (folder, file) = folder_and_file(&one, "UTC");
            for part in [&folder, &file] {
                prop_assert!(!part.is_empty() && part.len() <= 200 && !part.contains('/') && !part.starts_with('.'));
            }
        }
    }
}
