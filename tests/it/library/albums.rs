//! `/api/library/albums`, `/api/library/books` and `/api/library/artists`: audio files that belong together.

use std::path::Path;

use serde_json::{Value, json};

use super::catalogue::{get, start, wait_for_all, write};
use crate::kit::media::run_ffmpeg;
use crate::kit::response::{expect_error, expect_success};

fn titles<'a>(answer: &'a Value, list: &str) -> Vec<&'a str> {
    answer[list].as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn tracks_of_one_album_are_listed_once_and_in_order() {
    let root = tempfile::tempdir().unwrap();
    for path in [
        "Music/ABBA/Gold (1992)/CD2/01 - Waterloo.m4a",
        "Music/ABBA/Gold (1992)/CD1/02 - Mamma Mia.m4a",
        "Music/ABBA/Gold (1992)/CD1/01 - Dancing Queen.m4a",
        "Music/Queen/A Night at the Opera (1975)/1 - Death on Two Legs.m4a",
        "Music/Queen/The Game (1980)/1 - Play the Game.m4a",
        "Movies/Alien (1979).mkv",
    ] {
        write(root.path(), path);
    }
    std::fs::write(root.path().join("Music/ABBA/Gold (1992)/cover.jpg"), b"an image").unwrap();
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    let all = get(&server, "/api/library/albums").await;
    assert_eq!((titles(&all, "albums"), &all["total"]), (vec!["Gold", "A Night at the Opera", "The Game"], &json!(3)));
    let gold = &all["albums"][0];
    let expected = json!({"artist": "ABBA", "year": 1992, "discCount": 2, "trackCount": 3,
        "folder": root.path().join("Music/ABBA/Gold (1992)")});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&gold[field], value, "{field}");
    }
    assert!(gold["artwork"]["poster"].is_string(), "an image above the folders of discs: {gold:#}");
    for (query, expected) in [
        ("sort=title", &["The Game", "Gold", "A Night at the Opera"][..]),
        ("sort=year", &["Gold", "The Game", "A Night at the Opera"]),
        ("artist=queen", &["A Night at the Opera", "The Game"]),
        ("genre=rock", &[]),
        (&*format!("folder={}/Music/ABBA", root.path().display()), &["Gold"]),
    ] {
        let answer = get(&server, &format!("/api/library/albums?{query}")).await;
        assert_eq!(titles(&answer, "albums"), expected, "{query}");
    }
    let first = get(&server, "/api/library/albums?limit=2").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = get(&server, &format!("/api/library/albums?limit=2&cursor={cursor}")).await;
    assert_eq!((titles(&rest, "albums"), &rest["nextCursor"]), (vec!["The Game"], &Value::Null));
    for query in ["sort=x", "cursor=x", "limit=0"] {
        let refused = server.get(&format!("/api/library/albums?{query}")).send().await.unwrap();
        expect_error(refused, 400, "VALIDATION_ERROR").await;
    }

    let id = gold["id"].as_str().unwrap();
    let album = get(&server, &format!("/api/library/albums/{id}")).await;
    assert_eq!((&album["album"], titles(&album, "tracks")), (gold, vec!["Dancing Queen", "Mamma Mia", "Waterloo"]));
    assert!(album["tracks"].as_array().unwrap().iter().all(|track| track["albumId"] == id));
    expect_error(server.get("/api/library/albums/a_0").send().await.unwrap(), 404, "NOT_FOUND").await;

    for (query, albums, items) in [
        ("gold", &["Gold"][..], 3),
        ("abba", &["Gold"], 3),
        ("dancing", &[], 1),
        ("queen", &["A Night at the Opera", "The Game"], 3),
    ] {
        let found = get(&server, &format!("/api/library/search?q={query}")).await;
        let mut titles = titles(&found, "albums");
        titles.sort_unstable();
        assert_eq!((titles, found["items"].as_array().unwrap().len()), (albums.to_vec(), items), "{query}");
    }
}

#[tokio::test]
async fn artists_and_authors_are_listed_once_by_name() {
    let root = tempfile::tempdir().unwrap();
    for path in [
        "Music/The Beatles/Help! (1965)/1 - Help!.m4a",
        "Music/Beyoncé/Lemonade (2016)/1 - Pray You Catch Me.m4a",
        "Music/Beyoncé/Lemonade (2016)/2 - Hold Up.m4a",
        "Music/BEYONCE/Renaissance (2022)/1 - Cuff It.m4a",
        "Music/AC-DC/Powerage (1978)/1 - Sin City.m4a",
        "Music/Loose.m4a",
        "Audiobooks/Jules Verne/The Moon.m4b",
        "Movies/Alien (1979).mkv",
    ] {
        write(root.path(), path);
    }
    std::fs::write(root.path().join("Music/Beyoncé/Lemonade (2016)/cover.jpg"), b"an image").unwrap();
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    let names = |answer: &Value| -> Vec<String> {
        answer["artists"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = get(&server, "/api/library/artists").await;
    assert_eq!((names(&all), &all["total"]), (vec!["AC-DC".into(), "The Beatles".into(), "Beyoncé".into()], &json!(3)));
    let beyonce = &all["artists"][2];
    assert_eq!((&beyonce["albumCount"], &beyonce["fileCount"]), (&json!(2), &json!(3)));
    assert!(beyonce["artwork"]["poster"].is_string(), "that of the album with a cover: {beyonce:#}");
    let albums = get(&server, "/api/library/albums?artist=beyonce&sort=title").await;
    assert_eq!(titles(&albums, "albums"), ["Lemonade", "Renaissance"]);

    let albums = get(&server, "/api/library/albums?sort=title").await;
    assert_eq!(titles(&albums, "albums")[1..3], ["Lemonade", "Music"], "the folder of tracks without an album");

    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&server, &format!("/api/library/artists?limit=2{cursor}")).await;
        found.extend(names(&page));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, names(&all));

    assert_eq!(names(&get(&server, "/api/library/artists?kind=audiobook").await), ["Jules Verne"]);
    let books = get(&server, "/api/library/books?artist=jules%20verne").await;
    assert_eq!(titles(&books, "books"), ["The Moon"]);
    assert_eq!(get(&server, "/api/library/books?artist=abba").await["total"], 0);
    for query in ["kind=film", "sort=title", "cursor=x"] {
        let refused = server.get(&format!("/api/library/artists?{query}")).send().await.unwrap();
        expect_error(refused, 400, "VALIDATION_ERROR").await;
    }
}

/// A second of audio that no other file has.
fn make_audio(root: &Path, path: &str, frequency: u32) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    run_ffmpeg(&path, &["-f lavfi -i", &format!("sine=frequency={frequency}:duration=1:sample_rate=8000"), "-f wav"]);
}

#[tokio::test]
async fn a_folder_of_parts_and_a_single_file_are_one_book_each() {
    let root = tempfile::tempdir().unwrap();
    make_audio(root.path(), "Audiobooks/Jules Verne/The Island/02 - Fire.mp3", 300);
    make_audio(root.path(), "Audiobooks/Jules Verne/The Island/01 - Sea.mp3", 200);
    write(root.path(), "Audiobooks/Jules Verne/The Moon.m4b");
    // Both have other parts beside them that are not of their book.
    for path in
        ["Mixed/Books of All/01 - One.mp3", "Mixed/Books of All/Extra/1 - Two.mp3", "Mixed/Books of All/02 - Three.mp3"]
    {
        write(root.path(), &format!("Audiobooks/{path}"));
    }
    let server = start(root.path()).await;
    wait_for_all(&server).await;
    let folder = root.path().join("Audiobooks/Jules Verne/The Island");
    let books = get(&server, "/api/library/books?sort=title").await;
    assert_eq!(titles(&books, "books"), ["The Island", "The Moon", "One", "Three", "Two"]);
    let island = &books["books"][0];
    let expected =
        json!({"audiobookPath": folder, "artist": "Jules Verne", "fileCount": 2, "progress": null, "watched": false});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&island[field], value, "{field}");
    }
    let body = json!({"audiobookPath": folder, "positionSeconds": 1.5, "completed": false});
    let saved = expect_success(server.post("/api/stream/audiobook/progress", &body).send().await.unwrap(), 200).await;
    assert_eq!(
        saved["progress"]["mediaId"], island["id"],
        "the catalogue knows the identity without reading the files"
    );
    let books = get(&server, "/api/library/books?limit=2&sort=title").await;
    assert_eq!(books["books"][0]["progress"], saved["progress"]);
    let cursor = books["nextCursor"].as_str().unwrap();
    let rest = get(&server, &format!("/api/library/books?limit=2&sort=title&cursor={cursor}")).await;
    assert_eq!((titles(&rest, "books"), &rest["total"]), (vec!["One", "Three"], &json!(5)));

    for (query, books) in
        [("island", &["The Island"][..]), ("fire", &["The Island"]), ("verne", &["The Island", "The Moon"])]
    {
        let found = get(&server, &format!("/api/library/search?q={query}")).await;
        let mut titles = titles(&found, "books");
        titles.sort_unstable();
        assert_eq!(titles, books, "{query}");
        let is_part = |item: &Value| item["mediaPath"].as_str().unwrap().contains("The Island");
        assert!(!found["items"].as_array().unwrap().iter().any(is_part), "{query}");
    }
}
