//! The index and its lists, without files.

use std::collections::HashMap;
use std::time::Instant;

use super::index::{CatalogueIndex, FilePlace};
use super::item::{ItemId, ItemTexts, ListedItem, PooledTexts, SeriesId};
use super::page::Page;
use super::record::ItemRecord;
use super::scan::split_path;
use super::*;
use crate::domain::catalogue::SortKey;
use crate::domain::catalogue::names::Names;
use crate::domain::library::kind_from_name;
use crate::domain::nfo::Nfo;
use crate::domain::visibility::VisiblePaths;
use crate::service::channels::LibraryItems;

mod random_edits;

fn record(number: u64, nfo: Option<&str>) -> ItemRecord {
    ItemRecord {
        id: format!("f_{number:032x}"),
        size_bytes: number,
        modified_ns: 0,
        added_ms: number as i64,
        nfo_stamp: 0,
        nfo: nfo.map(|text| Nfo::parse(text.as_bytes()).unwrap().remove(0)),
        technical: None,
    }
}

fn put(index: &mut CatalogueIndex, path: &str, record: &ItemRecord) {
    let (folder, name) = split_path(path);
    let (root, rest) = path.split_once('/').unwrap();
    let names = Names::parse(root, rest, kind_from_name(name).unwrap());
    index.put(FilePlace { folder, name, names: &names }, record);
}

fn titles(found: &[(u32, u32)], index: &CatalogueIndex) -> Vec<String> {
    let mut titles: Vec<String> = found.iter().map(|(slot, _)| index.at(*slot).unwrap().title().to_owned()).collect();
    titles.sort();
    titles
}

#[test]
fn an_item_has_the_texts_it_was_made_of() {
    let long = "é".repeat(3000);
    for (name, title, stated_sort_title, expected_title) in [
        ("Alien (1979).mkv", "Alien", "", "Alien"),
        ("alien.1979.mkv", "Alien", "Alien 1", "Alien"),
        ("The Matrix.mkv", "The Matrix", "Matrix 1", "The Matrix"),
        ("a.mkv", "", "", ""),
        ("a.mkv", &long, "Z", &"é".repeat(2048)),
    ] {
        for sort_key in ["alien", ""] {
            let texts = ItemTexts::new(name, title, sort_key, stated_sort_title);
            let found = [texts.name(), texts.title(), texts.sort_key(), texts.stated_sort_title()];
            assert_eq!(found, [name, expected_title, sort_key, stated_sort_title]);
        }
    }
    for (genres, people) in [(&[][..], &[][..]), (&[1, 2], &[]), (&[], &[3]), (&[4], &[5, 6])] {
        assert_eq!(PooledTexts::new(genres, people).lists(), (genres, people));
    }
}

#[test]
fn a_removed_file_leaves_nothing_and_its_copy_takes_its_place() {
    let mut index = CatalogueIndex::default();
    let nfo =
        "<episodedetails><title>Pilot</title><genre>Drama</genre><actor><name>Ada</name></actor></episodedetails>";
    put(&mut index, "TV/Lost/Season 1/Lost S01E01.mkv", &record(1, Some(nfo)));
    put(&mut index, "TV/Old/Lost S01E01 Copy.mkv", &record(1, Some(nfo)));
    put(&mut index, "TV/Lost/Season 1/Lost S01E02.mkv", &record(2, None));
    let id = ItemId::parse(&record(1, None).id).unwrap();
    assert_eq!(index.all().items().count(), 2, "files with the same content are one item");
    assert_eq!(index.paths(id).len(), 2);
    assert_eq!(titles(&index.search_items("lost"), &index), ["Episode 2", "Pilot"]);
    assert_eq!(index.people.search("ada", 9), [(0, 2)]);
    let series = SeriesId::new("Lost", None);
    assert_eq!(index.series.get(series).unwrap().slots.len(), 2);

    assert_eq!(index.remove("TV/Lost/Season 1", "Lost S01E01.mkv"), Some(id));
    assert_eq!(index.by_id(id).unwrap().path(), "TV/Old/Lost S01E01 Copy.mkv");
    assert_eq!(titles(&index.search_items("pilot"), &index), ["Pilot"]);
    assert_eq!(index.people.search("ada", 9), [(0, 1)]);
    index.remove("TV/Old", "Lost S01E01 Copy.mkv");
    index.remove("TV/Lost/Season 1", "Lost S01E02.mkv");
    assert!(index.by_id(id).is_none() && index.all().items().count() == 0);
    assert!(index.search_items("lost").is_empty() && index.people.search("ada", 9).is_empty());
    assert!(index.series.get(series).is_none() && index.series.find("lost").is_empty());
    put(&mut index, "TV/Lost/Season 1/Lost S01E03.mkv", &record(3, None));
    assert_eq!(index.series.find("lost").len(), 1, "slots and numbers are used again");
}

#[test]
fn unread_folders_are_those_most_like_a_former_one_and_gone_files_keep_their_version() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::new(Store::open(folder.path()).unwrap());
    put(&mut catalogue.write_index(), "Movies/Alien (1979)/Alien.mkv", &record(1, None));
    let id = ItemId::parse(&record(1, None).id).unwrap();
    let version = catalogue.version_of(id);
    assert!(matches!(version, Some(EntryTarget::File { size_bytes: 1, .. })));
    assert!(catalogue.has_files_below("Movies") && !catalogue.has_files_below("Movies/Alien"));

    let changed = ["Movies/Alien (1979) {tmdb-348}", "Movies/Aliens", "Movies", "TV/Lost", "Books"];
    catalogue.update_folders(changed.map(str::to_owned));
    assert_eq!(catalogue.take_folder().as_deref(), Some("Books"));
    let unread = |limit| catalogue.unread_folders("Movies/Alien (1979)", limit);
    assert_eq!(unread(3), ["Movies/Alien (1979) {tmdb-348}", "Movies/Aliens", "Movies"]);
    assert_eq!(unread(9)[3..], ["Books", "TV/Lost"], "the one that is being read is not read yet");

    assert_eq!(catalogue.remove("Movies/Alien (1979)", "Alien.mkv"), Some(id));
    for _ in 0..4 {
        assert!(catalogue.take_folder().is_some());
        assert_eq!(catalogue.version_of(id), version);
    }
    assert_eq!(catalogue.take_folder(), None);
    assert_eq!((catalogue.version_of(id), catalogue.has_files_below("Movies")), (None, false));
}

#[test]
fn pages_follow_each_other_in_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::new(Store::open(folder.path()).unwrap());
    for number in 0..25 {
        let path = format!("Movies/Film {} ({}).mkv", number % 13, 1990 + number % 4);
        put(
            &mut catalogue.write_index(),
            &path.replace("Film", &format!("Film{}", number / 13)),
            &record(number, None),
        );
    }
    let none = HashMap::new();
    for (key, is_descending) in
        [(SortKey::Title, false), (SortKey::Title, true), (SortKey::Added, true), (SortKey::Year, true)]
    {
        let page = |cursor: Option<&str>, limit| {
            catalogue
                .page(VisiblePaths::ALL, &ItemFilter::default(), &none, SortOrder { key, is_descending }, cursor, limit)
                .unwrap()
        };
        let ids = |page: &Page<ListedItem>| page.entries.iter().map(|item| item.id).collect::<Vec<_>>();
        let complete = page(None, 100);
        assert_eq!((complete.total, complete.entries.len(), complete.next_cursor.is_none()), (25, 25, true));
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let next = page(cursor.as_deref(), 7);
            found.extend(ids(&next));
            cursor = next.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, ids(&complete), "{key:?} {is_descending}");
    }
    let order = SortOrder { key: SortKey::Title, is_descending: false };
    for cursor in ["", "x", "AAAA"] {
        assert!(
            catalogue.page(VisiblePaths::ALL, &ItemFilter::default(), &none, order, Some(cursor), 7).is_err(),
            "{cursor}"
        );
    }
    let filter = ItemFilter { years: Some((1990, 1991)), ..ItemFilter::default() };
    let page = catalogue.page(VisiblePaths::ALL, &filter, &none, order, None, 100).unwrap();
    assert!(page.entries.iter().all(|item| item.year < Some(1992)) && page.total > 10);
}

#[test]
fn lists_of_a_folder_and_genres_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::new(Store::open(folder.path()).unwrap());
    let film = |genre: &str| format!("<movie><title>A</title><genre>{genre}</genre></movie>");
    let paths =
        ["Movies/A (2000)/A (2000).mkv", "Movies/A (2000)/Extras/Making of.mkv", "Movies/A (2000) 2/B (2001).mkv"];
    for (number, (path, genre)) in (1..).zip(paths.iter().zip(["Épopée", "Interview", "Drama"])) {
        let nfo = film(genre);
        put(&mut catalogue.write_index(), path, &record(number, Some(&nfo).filter(|_| number != 2).map(|nfo| &**nfo)));
    }
    let order = SortOrder { key: SortKey::Title, is_descending: false };
    for (folder, count) in [("Movies/A (2000)", 2), ("Movies/A (2000)/", 2), ("Movies", 3), ("Movies/A", 0)] {
        let filter = ItemFilter { folder: Some(folder.into()), ..ItemFilter::default() };
        assert_eq!(
            catalogue.page(VisiblePaths::ALL, &filter, &HashMap::new(), order, None, 9).unwrap().total,
            count,
            "{folder}"
        );
    }
    let genres = vec![("Drama".to_owned(), 1), ("Épopée".to_owned(), 1)];
    assert_eq!(
        catalogue.genres(VisiblePaths::ALL, &[crate::domain::catalogue::ItemKind::Film]),
        genres,
        "by name, without diacritics"
    );
    assert_eq!(catalogue.genres(VisiblePaths::ALL, &[crate::domain::catalogue::ItemKind::Music]), []);
}

/// Run with `--ignored --nocapture` in release for figures.
#[test]
#[ignore = "prints times of a large library"]
fn figures_of_fifty_thousand_items() {
    let mut index = CatalogueIndex::default();
    let words =
        ["night", "river", "kingdom", "matrix", "love", "garden", "shadow", "winter", "ocean", "return", "city"];
    let started = Instant::now();
    for number in 0..50_000_u64 {
        let word = |step: u64| words[(blake3::hash(&(number * 31 + step).to_le_bytes()).as_bytes()[0] % 11) as usize];
        let people: String = (0..20)
            .map(|person| {
                format!(
                    "<actor><name>P{} {}son{}</name></actor>",
                    (number * 7 + person * 13) % 9000,
                    word(person),
                    number % 997
                )
            })
            .collect();
        let nfo = format!(
            "<movie><title>The {} {} of {} {number}</title><genre>Drama</genre>{people}</movie>",
            word(1),
            word(2),
            word(3)
        );
        put(&mut index, &format!("Movies/Film {number} (2000)/Film {number} (2000).mkv"), &record(number, Some(&nfo)));
    }
    println!("built in {:?}", started.elapsed());
    for query in
        ["matrix", "matirx", "kingdom of", "nigth rivre", "p12", "a", "winterson99", "unfindable words here", "the"]
    {
        let started = Instant::now();
        let count = index.search_items(query).len();
        println!("{query}: {count} in {:?}", started.elapsed());
    }
}
