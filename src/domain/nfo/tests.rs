use proptest::prelude::*;

use super::element_tree;
use super::fields::{MAX_GENRES, MAX_NAME_CHARS, MAX_PLOT_CHARS, MAX_TAGS, MAX_TITLE_CHARS, MAX_UNIQUE_IDS};
use super::person::MAX_PEOPLE;
use super::rating::MAX_RATINGS;
use super::*;
use crate::domain::worker::frame::MAX_BODY_BYTES;

mod samples;

use samples::{KODI_MOVIE, KODI_SHOW, RADARR_MOVIE, SONARR_EPISODES, TMM_EPISODE};

fn one(text: &str) -> Nfo {
    let mut records = Nfo::parse(text.as_bytes()).unwrap();
    assert_eq!(records.len(), 1);
    records.remove(0)
}

/// A film with only these elements.
fn film(elements: &str) -> Nfo {
    one(&format!("<movie>{elements}</movie>"))
}

fn names(people: &[Person], kind: PersonKind) -> Vec<&str> {
    people.iter().filter(|person| person.kind == kind).map(|person| person.name.as_str()).collect()
}

fn ids(nfo: &Nfo) -> Vec<(&str, &str)> {
    nfo.unique_ids.iter().map(|id| (id.source.as_str(), id.id.as_str())).collect()
}

fn ratings(nfo: &Nfo) -> Vec<(&str, f64, Option<u32>)> {
    nfo.ratings.iter().map(|rating| (rating.source.as_str(), rating.value, rating.votes)).collect()
}

/// Why a file is refused.
fn refusal(bytes: &[u8]) -> String {
    Nfo::parse(bytes).unwrap_err().to_string()
}

#[test]
fn a_film_by_kodi() {
    let nfo = one(KODI_MOVIE);
    assert_eq!((nfo.kind, nfo.title.as_deref()), (NfoKind::Movie, Some("The Lighthouse & the Sea")));
    assert_eq!(nfo.original_title.as_deref(), Some("Le Phare et la mer"));
    assert_eq!(nfo.sort_title.as_deref(), Some("Lighthouse & the Sea, The"));
    assert_eq!(nfo.plot.as_deref(), Some("A guard counts ships. One night, \"nothing\" answers."));
    assert_eq!(nfo.tagline.as_deref(), Some("Count again."));
    assert_eq!((nfo.year, nfo.runtime_minutes), (Some(1998), Some(97)));
    assert_eq!(nfo.released_on, Some("1998-10-02".parse().unwrap()));
    assert_eq!(ratings(&nfo), [("imdb", 7.4, Some(12_345)), ("metacritic", 6.8, None), ("user", 8.0, None)]);
    assert_eq!(nfo.mpaa.as_deref(), Some("Rated PG-13"));
    assert_eq!(nfo.genres, ["Drama", "Mystery"]);
    assert_eq!(nfo.tags, ["sea", "lighthouse"]);
    assert_eq!((nfo.set.as_deref(), nfo.studio.as_deref()), (Some("Sea Trilogy"), Some("Northern Films")));
    assert_eq!(names(&nfo.people, PersonKind::Director), ["Ada Moreau"]);
    assert_eq!(names(&nfo.people, PersonKind::Writer), ["Ada Moreau", "Jan Ek"]);
    assert_eq!(names(&nfo.people, PersonKind::Actor), ["Ines Dahl", "Tom Reyes"]);
    assert_eq!(nfo.people.iter().find_map(|person| person.role.as_deref()), Some("The guard"));
    assert_eq!(ids(&nfo), [("imdb", "tt0000001"), ("tmdb", "4321")]);
    assert_eq!((nfo.season, nfo.episode, nfo.show_title), (None, None, None));
}

#[test]
fn a_film_by_radarr_with_an_address_after_it() {
    let nfo = one(RADARR_MOVIE);
    assert_eq!(nfo.title.as_deref(), Some("Paper Boats"));
    assert_eq!(nfo.set.as_deref(), Some("Boats Collection"));
    assert_eq!(
        ratings(&nfo),
        [("themoviedb", 6.1, Some(210)), ("imdb", 6.4, Some(1800)), ("rottentomatoes", 7.1, None)]
    );
    assert_eq!(ids(&nfo), [("tmdb", "77"), ("imdb", "tt0000077")]);
    assert_eq!(nfo.year, Some(2004), "from the premiere");
}

#[test]
fn episodes_by_sonarr_in_one_file() {
    let records = Nfo::parse(SONARR_EPISODES.as_bytes()).unwrap();
    let numbers: Vec<_> = records.iter().map(|nfo| (nfo.season, nfo.episode, nfo.title.as_deref().unwrap())).collect();
    assert_eq!(numbers, [(Some(2), Some(5), "Fog, Part 1"), (Some(2), Some(6), "Fog, Part 2")]);
    let show = one(KODI_SHOW);
    let nfo = Nfo::describe_file(&records, Some(&show)).unwrap();
    assert_eq!(nfo.title.as_deref(), Some("Fog, Part 1 / Fog, Part 2"));
    assert_eq!(nfo.plot.as_deref(), Some("The harbour closes. The harbour opens."));
    assert_eq!((nfo.episode, nfo.last_episode), (Some(5), Some(6)));
    assert_eq!((nfo.show_title.as_deref(), nfo.genres), (Some("Harbour Watch"), vec!["Crime".to_owned()]));
    let wrapped = SONARR_EPISODES.replace("<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>", "");
    let wrapped = format!("<xbmcmultiepisode>{wrapped}</xbmcmultiepisode>");
    assert_eq!(Nfo::parse(wrapped.as_bytes()).unwrap(), records);
}

#[test]
fn an_episode_by_tiny_media_manager() {
    let nfo = one(TMM_EPISODE);
    assert_eq!((nfo.kind, nfo.season, nfo.episode), (NfoKind::Episode, Some(0), Some(3)));
    assert_eq!(nfo.show_title.as_deref(), Some("Harbour Watch"));
    assert_eq!(ratings(&nfo), [("tvdb", 7.5, Some(2))]);
    assert_eq!(ids(&nfo), [("tvdb", "55501")]);
    assert_eq!(names(&nfo.people, PersonKind::Writer), ["Li Wen", "Max Orr"]);
    let described = Nfo::describe_file(std::slice::from_ref(&nfo), None).unwrap();
    assert_eq!(described, nfo, "without its show");
}

#[test]
fn a_show_by_kodi() {
    let nfo = one(KODI_SHOW);
    assert_eq!((nfo.kind, nfo.title.as_deref()), (NfoKind::Show, Some("Harbour Watch")));
    assert_eq!((nfo.season, nfo.episode), (None, None), "these are counts");
    assert_eq!(Nfo::describe_file(&[nfo], None), None, "a show describes no file");
}

#[test]
fn fields_are_read_leniently() {
    assert_eq!(film("<title>Tom & Jerry &copy; &#x41;&apos;</title>").title.as_deref(), Some("Tom & Jerry &copy; A'"));
    assert_eq!(film("<title><![CDATA[<b>]]></title>").title.as_deref(), Some("<b>"));
    assert_eq!(film("<title/><title> </title><title>Second</title>").title.as_deref(), Some("Second"));
    assert_eq!(film("<outline>Short</outline><plot></plot>").plot.as_deref(), Some("Short"));
    assert_eq!(film("<set>Old style</set>").set.as_deref(), Some("Old style"));
    assert_eq!(film("<genre>Drama / Crime</genre><genre>Drama</genre>").genres, ["Drama", "Crime"]);
    assert_eq!(film("<runtime>142 min</runtime>").runtime_minutes, Some(142));
    assert_eq!(film("<runtime>about two hours</runtime>").runtime_minutes, None);
    assert_eq!(film("<year>0</year><premiered>31.12.1999</premiered>").year, None);
    assert_eq!(film("<releasedate>1999-02-30</releasedate><aired>1999-12-31T20:15:00</aired>").year, Some(1999));
    assert_eq!(ratings(&film("<rating>7,5</rating><votes>1.234</votes>")), [("default", 7.5, Some(1234))]);
    for none in ["0.0", "11", "-1", "NaN", "inf", "good", ""] {
        assert_eq!(ratings(&film(&format!("<rating>{none}</rating>"))), [], "{none}");
    }
    assert_eq!(ids(&film("<id>tt99</id>")), [("imdb", "tt99")]);
    assert_eq!(ids(&film("<id>99</id><imdbid>tt1</imdbid><uniqueid type=\"IMDB\">tt2</uniqueid>")), [("imdb", "tt2")]);
    assert_eq!(film("<title>a\u{202e}b\u{7}c</title>").title.as_deref(), Some("abc"));
    assert_eq!(one("https://example.com/?a=1&b=2\n<movie/>").title, None);
    assert_eq!(
        one("<movie><title>A</title></movie>\nhttps://example.com/?a=1&b=2 <3 </x>").title.as_deref(),
        Some("A")
    );
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let cut_off = &KODI_MOVIE.as_bytes()[..KODI_MOVIE.len() / 2];
    for (bytes, reason) in [
        (&b""[..], "no movie, tvshow or episodedetails"),
        (b"https://www.example.com/title/tt0000001/", "no movie, tvshow or episodedetails"),
        (b"  ___ <RELEASE GROUP> \xdb\xdb\xb2 presents & more <<<", "no movie, tvshow or episodedetails"),
        (b"<movies></movies>", "no movie, tvshow or episodedetails"),
        (b"<album><title>x</title></album><!-- <movie -->", "no movie, tvshow or episodedetails"),
        (cut_off, "is cut off"),
        (b"<movie>\n<title>A</plot></movie>", "broken in line 2"),
        (b"<movie><title>A</title>\n\n<plot", "broken in line 3"),
        (b"<movie>\0</movie>", "NUL characters"),
        (&[0; 5000], "NUL characters"),
        (&vec![b' '; MAX_BYTES + 1], "larger than 1 MiB"),
        (b"<!DOCTYPE movie SYSTEM \"file:///etc/passwd\"><movie/>", "document type declaration is refused"),
    ] {
        let text = refusal(bytes);
        assert!(text.contains(reason), "{text:?} for {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
    }
}

#[test]
fn hostile_files_are_refused() {
    let laughs: String =
        (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let laughs = format!("<!DOCTYPE l [<!ENTITY l0 \"ha\">{laughs}]><movie><plot>&l9;</plot></movie>");
    assert!(refusal(laughs.as_bytes()).contains("document type declaration"));
    let undeclared = "&l9;".repeat(5000);
    assert!(film(&format!("<plot>{undeclared}</plot>")).plot.unwrap().len() <= MAX_PLOT_CHARS);
    let deep = format!("<movie>{}{}</movie>", "<a>".repeat(10_000), "</a>".repeat(10_000));
    assert!(refusal(deep.as_bytes()).contains("are nested"));
    let wide = format!("<movie>{}</movie>", "<a/>".repeat(30_000));
    assert!(refusal(wide.as_bytes()).contains("more than 20000 elements"));
    let attributes: String = (0..50_000).map(|n| format!(" a{n}=\"{n}\"")).collect();
    assert_eq!(one(&format!("<movie{attributes}><title>A</title></movie>")).title.as_deref(), Some("A"));
    let long_name = "n".repeat(500_000);
    assert_eq!(film(&format!("<{long_name}>x</{long_name}>")).title, None);
    assert!(refusal(format!("<movie><{long_name}></movie>").as_bytes()).len() < 400);
}

/// A file of many records in which each field is as long as can be.
fn largest_file() -> String {
    let fields = ["title", "originaltitle", "sorttitle", "showtitle", "tagline", "mpaa", "studio", "set"];
    let long = |name: &str, chars: usize| format!("<{name}>{}</{name}>", "\"".repeat(chars));
    let mut record: String = fields.iter().map(|name| long(name, 400)).collect();
    record += &long("plot", 5000);
    for n in 0..80 {
        let name = format!("{n}{}", "\\".repeat(120));
        record +=
            &format!("<actor><name>{name}</name><role>{name}</role></actor><genre>{name}</genre><tag>{name}</tag>");
        record += &format!("<uniqueid type=\"{n}{0}\">{0}</uniqueid>", "x".repeat(200));
        record += &format!("<ratings><rating name=\"{n}{}\"><value>5</value></rating></ratings>", "x".repeat(200));
    }
    format!("<episodedetails>{record}</episodedetails>").repeat(MAX_RECORDS + 1)
}

#[test]
fn the_largest_records_fit_in_a_frame_of_a_worker() {
    let records = Nfo::parse(largest_file().as_bytes()).unwrap();
    assert_eq!(records.len(), MAX_RECORDS);
    check_bounds(&records);
    let nfo = &records[0];
    assert_eq!(nfo.plot.as_ref().unwrap().len(), MAX_PLOT_CHARS);
    assert_eq!((nfo.people.len(), nfo.genres.len(), nfo.tags.len()), (MAX_PEOPLE, MAX_GENRES, MAX_TAGS));
    assert_eq!((nfo.unique_ids.len(), nfo.ratings.len()), (MAX_UNIQUE_IDS, MAX_RATINGS));
    let json = serde_json::to_vec(&records).unwrap();
    assert!(json.len() < MAX_BODY_BYTES, "{}", json.len());
    assert_eq!(serde_json::from_slice::<Vec<Nfo>>(&json).unwrap(), records);
    let weight = nfo.weight_bytes();
    assert!((20_000..60_000).contains(&weight), "{weight}");
    let described = Nfo::describe_file(&records, None).unwrap();
    check_bounds(std::slice::from_ref(&described));
    // Of four-byte characters.
    let wide = largest_file().replace(['"', '\\'], "𝄞");
    if wide.len() <= MAX_BYTES {
        assert!(serde_json::to_vec(&Nfo::parse(wide.as_bytes()).unwrap()).unwrap().len() < MAX_BODY_BYTES);
    }
}

fn check_bounds(records: &[Nfo]) {
    assert!((1..=MAX_RECORDS).contains(&records.len()));
    for nfo in records {
        let short = |text: &String, max: usize| assert!((1..=max).contains(&text.chars().count()), "{text:?}");
        let titles = [&nfo.title, &nfo.original_title, &nfo.sort_title, &nfo.show_title, &nfo.tagline];
        titles.into_iter().flatten().for_each(|text| short(text, MAX_TITLE_CHARS));
        nfo.plot.iter().for_each(|text| short(text, MAX_PLOT_CHARS));
        [&nfo.mpaa, &nfo.studio, &nfo.set].into_iter().flatten().for_each(|text| short(text, MAX_NAME_CHARS));
        nfo.genres.iter().chain(&nfo.tags).for_each(|text| short(text, MAX_NAME_CHARS));
        nfo.people.iter().for_each(|person| short(&person.name, MAX_NAME_CHARS));
        assert!(nfo.people.len() <= MAX_PEOPLE && nfo.genres.len() <= MAX_GENRES && nfo.tags.len() <= MAX_TAGS);
        assert!(nfo.unique_ids.len() <= MAX_UNIQUE_IDS && nfo.ratings.len() <= MAX_RATINGS);
        assert!(nfo.ratings.iter().all(|rating| rating.value > 0.0 && rating.value <= 10.0));
        assert!(nfo.year.is_none_or(|year| (1870..2200).contains(&year)));
    }
}

/// Pieces of NFO files, so that random ones get past the first checks.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&str; 24] = [
        "<movie>",
        "</movie>",
        "<episodedetails>",
        "</episodedetails>",
        "<title>",
        "</title>",
        "<actor>",
        "</actor>",
        "<name>",
        "</name>",
        "<ratings><rating name='x' max='5'><value>",
        "</value></rating></ratings>",
        "&amp;",
        "&#0;",
        "&#xd800;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?xml encoding='utf-16'?>",
        "<!DOCTYPE a [",
        "<runtime>99999999999",
        "\u{feff}",
        "é & ",
    ];
    prop_oneof![
        3 => proptest::sample::select(&PIECES[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ]
}

proptest! {
    #[test]
    fn any_bytes_give_bounded_records_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = Nfo::parse(&bytes);
        let _ = element_tree::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_give_bounded_records_or_an_error(pieces in proptest::collection::vec(piece(), 0..60)) {
        match Nfo::parse(&pieces.concat()) {
            Ok(records) => check_bounds(&records),
            Err(error) => prop_assert!(error.to_string().len() < 1000),
        }
    }

    #[test]
    fn any_damage_of_a_file_is_survived(at in 0..KODI_MOVIE.len(), byte in any::<u8>(), end in 0..KODI_MOVIE.trim_end().len()) {
        let mut bytes = KODI_MOVIE.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(records) = Nfo::parse(&bytes) {
            check_bounds(&records);
        }
        prop_assert!(Nfo::parse(&bytes[..end]).is_err(), "a part is no file");
    }
}
