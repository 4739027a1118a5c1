//! The table of names as people have them, and properties of any name.

use proptest::prelude::*;

use super::*;
use crate::domain::library::kind_from_name;

/// `path = kind | title | further fields`, by root folders.
const TABLE: &str = include_str!("../../../../tests/golden/file-names.txt");

fn parse(path: &str) -> Names {
    let (root, rest) = path.split_once('/').expect("a root and a file");
    Names::parse(root, rest, kind_from_name(path).expect("a media file"))
}

/// Kind, title, and the other fields that are known, as the table has them.
fn describe(names: &Names) -> String {
    let mut fields = vec![names.kind.as_str().to_owned(), names.title.clone()];
    let mut add = |name: &str, value: Option<String>| fields.extend(value.map(|value| format!("{name} {value}")));
    let number = |value: Option<u32>| value.map(|value| value.to_string());
    add("year", number(names.year));
    add("series", names.series.clone());
    add("since", number(names.series_year));
    add("s", number(names.season));
    let last = names.last_episode.map_or(String::new(), |last| format!("-{last}"));
    add("e", names.episode.map(|episode| format!("{episode}{last}")));
    add("on", names.aired_on.map(|date| date.to_string()));
    add("by", names.artist.clone());
    add("album", names.album.clone());
    add("disc", number(names.disc));
    add("track", number(names.track));
    fields.join(" | ")
}

#[test]
fn three_hundred_names_are_interpreted() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (path, expected) = line.split_once(" = ").unwrap_or_else(|| panic!("no ` = ` in {line}"));
        let found = describe(&parse(path));
        if found != expected {
            wrong.push(format!("{path}\n  expected {expected}\n  found    {found}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 300, "the table has {count} names");
}

proptest! {
    #[test]
    fn any_name_is_interpreted_without_panic(path in "([ ._\\-\\[\\](){}0-9a-eA-ExsSE,'é七]{0,12}/){0,3}[ ._\\-\\[\\](){}0-9a-eA-ExsSE,'é七]{0,30}") {
        for media in [MediaKind::Video, MediaKind::Audio] {
            for root in ["TV", "Movies", "Music", "Hörbücher", "x"] {
                let names = Names::parse(root, &path, media);
                let texts = [Some(names.title), names.series, names.artist, names.album];
                prop_assert!(texts.into_iter().flatten().all(|text| text.len() <= path.len() + root.len() + 8));
            }
        }
    }
}
