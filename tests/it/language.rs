//! The field's words: retired words and home-made names are refused in code, comments, texts and pages.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Retired words, and what to write instead. A word matches in any case, alone or as a part of an identifier in snake or
/// camel case; `*` at its end matches any ending. Several words match only side by side, with one space between them.
const WORDS: &[(&str, &str)] = &[
    ("amiss", "wrong"),
    ("are none", "do not exist, are missing"),
    ("asked", "requested"),
    ("asks", "requests"),
    ("by what right", "the legal basis"),
    ("contract section", "the name of the route, constant or limit"),
    ("elsewhere", "external, remote, another place by its name"),
    ("emblem*", "watermark"),
    ("feeder", "source client"),
    ("goes on", "continues"),
    ("heard", "received, a listener"),
    ("hearing", "audio branch, a listener"),
    ("hears", "receives"),
    ("herald", "state publisher"),
    ("intake", "ingest input"),
    ("is none", "does not exist, is missing"),
    ("keep house", "clean up"),
    ("keeper", "maintenance"),
    ("keeps house", "cleans up"),
    ("lie ahead", "be in the future"),
    ("lies ahead", "is in the future"),
    ("makers", "backends"),
    ("manieth", "counter, starting at 1"),
    ("memo", "cache"),
    ("mended", "repaired"),
    ("mends", "repairs"),
    ("modesty", "cooldown"),
    ("no account", "not matter"),
    ("nobody", "no one by their role: viewer, client, user, task"),
    ("obey*", "apply"),
    ("onair", "live"),
    ("parcel*", "lazy segment"),
    ("patience", "timeout, stall timer"),
    ("producer*", "backend"),
    ("reckon*", "compute"),
    ("reel*", "active programme"),
    ("said", "reported, given"),
    ("somebody", "the person by their role: viewer, client, user"),
    ("sound", "audio"),
    ("sounds", "audio tracks, samples"),
    ("sweep*", "cleanup, evict, prune"),
    ("tape", "recording file"),
    ("tidy", "cleanup"),
    ("told", "notified, reported, given, message"),
    ("vouch*", "attest"),
    ("wanted", "requested, expected"),
    ("whoever", "the person or program by its role"),
    ("wish*", "request, options"),
];

/// Phrases with a good use of a retired word.
const GOOD: &[&str] = &[
    "surround sound",
    "hearing impaired",
    "hearing-impaired",
    "hearing_impaired",
    "hearingImpaired",
    "HEARING_IMPAIRED",
    "hard of hearing",
    "describes-music-and-sound",
    "goes on air",
];

/// Names that cannot be guessed from their use. They are refused where a type, a trait, a function or a module is defined.
const NAMES: &[(&str, &str)] = &[
    ("Alarm", "HeaderTimer"),
    ("Arrival", "RequestContext"),
    ("Ask", "a request"),
    ("Cast", "ProgrammeState"),
    ("Chosen", "ChosenBackend"),
    ("Cut", "Segmentation"),
    ("Face", "settings, metadata, CachedHeaders"),
    ("Fed", "an event"),
    ("Held", "contents, status"),
    ("Known", "a cache, contents"),
    ("Leg", "ClockInterval"),
    ("Look", "VideoFormat"),
    ("Making", "SegmentEncoder"),
    ("Native", "GstBackend"),
    ("Orders", "Control"),
    ("Pace", "ChannelClock"),
    ("Pen", "a cursor"),
    ("Place", "EncodeSlot, location"),
    ("Seen", "statistics, contents"),
    ("Sheet", "PooledBuffer"),
    ("Sight", "VideoBranch"),
    ("Spans", "SegmentRanges"),
    ("Standing", "a status"),
    ("Stretch", "Extent"),
    ("Way", "method, route, backend"),
    ("Wire", "Connection"),
    ("captions", "bitmap_subtitles; captions are CEA-608/708 only"),
    ("carry", "run"),
    ("hear", "receive, pull_audio"),
    ("inside", "ssrf, is_global"),
    ("known", "a verb: get, find"),
    ("look", "a verb: check, probe, poll"),
    ("places", "encode_slots, connection_slots"),
    ("seen", "a verb: get, probe"),
    ("standing", "status"),
];

/// Keywords before the name of a definition.
const KEYWORDS: [&str; 6] = ["struct", "enum", "trait", "type", "fn", "mod"];

/// Openings of doc comments that lack a subject or need the previous item to be read.
const OPENINGS: &[(&str, &str)] = &[
    ("/// What ", "open with a noun or a verb"),
    ("//! What ", "open with a noun or a verb"),
    ("/// The same, ", "say what the item does"),
    ("/// The same; ", "say what the item does"),
];

/// Words before a good `else` at the end of a clause: "something else."
const BEFORE_ELSE: [&str; 8] =
    ["anyone", "anything", "everyone", "everything", "nothing", "one", "someone", "something"];

/// Rooms, as folders or files. A file belongs to the first room that contains it.
const ROOMS: [&str; 18] = [
    "src/domain",
    "src/engine",
    "src/http",
    "src/service",
    "src/store",
    "src",
    "tests/bench",
    "tests/it",
    "tests/players",
    "tests/web",
    "assets/web",
    "fuzz",
    "pipelines",
    "scripts",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LIMITS.md",
];

/// Retired words that rooms must keep. A number may only fall, and a room without any is removed from the list.
const REMAINING: &[(&str, usize)] = &[
    // `emblem`, hashed into the keys of cached segments.
    ("src/domain", 1),
    // `asks`, a field of stored channels, and its test.
    ("src/service", 2),
    // Lines of subtitle files that others wrote.
    ("tests/it", 2),
];

/// Files of the project's own text, by extension. Scripts have none.
const EXTENSIONS: [&str; 9] = ["rs", "md", "js", "mjs", "html", "css", "c", "launch", ""];

/// Folders with text of others, and this file.
const SKIPPED: [&str; 5] =
    ["assets/web/vendor", "fuzz/corpus", "tests/web/node_modules", "tests/golden", "tests/it/language.rs"];

/// All files of the rooms, relative to the repository.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<PathBuf> = ROOMS.iter().map(PathBuf::from).filter(|path| root.join(path).exists()).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if SKIPPED.iter().any(|skipped| path == Path::new(skipped)) {
            continue;
        }
        if root.join(&path).is_dir() {
            let entries = fs::read_dir(root.join(&path)).unwrap().map(|entry| path.join(entry.unwrap().file_name()));
            open.extend(entries);
        } else if EXTENSIONS.contains(&path.extension().map_or("", |extension| extension.to_str().unwrap_or("?"))) {
            files.push(path);
        }
    }
    files.sort();
    files.dedup();
    assert!(files.len() > 100, "the files are found");
    files
}

/// The words of a line: identifiers in snake or camel case have several.
fn words(line: &str) -> Vec<Range<usize>> {
    let bytes = line.as_bytes();
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_alphabetic()) {
        let previous = if at == 0 { b' ' } else { bytes[at - 1] };
        let next = bytes.get(at + 1).copied().unwrap_or(b' ');
        let is_hump = byte.is_ascii_uppercase() && (previous.is_ascii_lowercase() || next.is_ascii_lowercase());
        match words.last_mut() {
            Some(word) if previous.is_ascii_alphabetic() && !is_hump => word.end = at + 1,
            _ => words.push(at..at + 1),
        }
    }
    words
}

fn is_match(word: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => word.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)),
        None => word.eq_ignore_ascii_case(pattern),
    }
}

/// Whether the words of a pattern are those of a line from `first` on.
fn is_found(line: &str, words: &[Range<usize>], first: usize, pattern: &str) -> bool {
    pattern.split(' ').enumerate().all(|(n, part)| {
        let Some(word) = words.get(first + n) else { return false };
        let is_beside = n == 0 || &line[words[first + n - 1].end..word.start] == " ";
        is_beside && is_match(&line[word.clone()], part)
    })
}

/// Whether a word is an `else` that ends a clause and means "otherwise".
fn is_final_else(line: &str, words: &[Range<usize>], at: usize) -> bool {
    let ends_clause = line[words[at].end..].starts_with(['.', ',', ';', ':', ')']);
    let before = at.checked_sub(1).map_or("", |before| &line[words[before].clone()]);
    let is_good = BEFORE_ELSE.iter().any(|good| before.eq_ignore_ascii_case(good));
    &line[words[at].clone()] == "else" && ends_clause && !is_good
}

/// Names that a line of Rust defines.
fn defined(line: &str) -> Vec<&str> {
    if line.trim_start().starts_with("//") {
        return Vec::new();
    }
    let parts: Vec<&str> = line.split_whitespace().collect();
    let names = parts.windows(2).filter(|pair| KEYWORDS.contains(&pair[0])).map(|pair| pair[1]);
    names.map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()).collect()
}

/// The retired words of a line, and what to write instead.
fn faults_of_words(line: &str) -> Vec<String> {
    let words = words(line);
    let mut faults = Vec::new();
    for at in 0..words.len() {
        let initial = line.as_bytes()[words[at].start];
        let candidates = WORDS.iter().filter(|(pattern, _)| pattern.as_bytes()[0].eq_ignore_ascii_case(&initial));
        let retired = candidates.filter(|(pattern, _)| is_found(line, &words, at, pattern));
        faults.extend(retired.map(|(pattern, better)| format!("{pattern:?}: write {better}")));
        if is_final_else(line, &words, at) {
            faults.push("a final \"else\": write otherwise".to_owned());
        }
    }
    faults
}

/// What is wrong in a line, and what to write instead.
fn faults(line: &str, is_rust: bool) -> Vec<String> {
    let opening = OPENINGS.iter().find(|(opening, _)| is_rust && line.trim_start().starts_with(*opening));
    let mut faults: Vec<String> =
        opening.into_iter().map(|(opening, better)| format!("{opening:?}: {better}")).collect();
    // Most lines are good as they are; only the others need the time to remove the good phrases.
    if !faults_of_words(line).is_empty() {
        faults.extend(faults_of_words(&GOOD.iter().fold(line.to_owned(), |line, good| line.replace(*good, "_"))));
    }
    if is_rust {
        let refused = defined(line).into_iter().filter_map(|name| NAMES.iter().find(|(refused, _)| *refused == name));
        faults.extend(refused.map(|(name, better)| format!("the name {name:?}: take {better}")));
    }
    faults
}

#[test]
fn retired_words_do_not_come_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for path in files() {
        let room = *ROOMS.iter().find(|room| path.starts_with(**room)).expect("each file has a room");
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        for (number, line) in text.lines().enumerate() {
            let faults = faults(line, is_rust).into_iter();
            let faults = faults.map(|fault| format!("{}:{}: {fault}", path.display(), number + 1));
            found.entry(room).or_default().extend(faults);
        }
    }
    let mut wrong = Vec::new();
    let mut now = String::new();
    for room in ROOMS {
        let faults = found.remove(room).unwrap_or_default();
        let allowed = REMAINING.iter().find(|(name, _)| *name == room).map_or(0, |(_, count)| *count);
        if faults.len() > allowed {
            wrong.extend(faults.iter().take(200).cloned());
            wrong.push(format!("{room}: {} retired words, at most {allowed} may be left", faults.len()));
        } else if faults.len() < allowed {
            wrong.push(format!("{room}: only {} retired words are left: lower its number in REMAINING", faults.len()));
        }
        if !faults.is_empty() {
            now += &format!("    ({room:?}, {}),\n", faults.len());
        }
    }
    assert!(wrong.is_empty(), "{}\nthe numbers now:\n{now}", wrong.join("\n"));
}

#[test]
fn each_room_of_the_remaining_list_exists() {
    for (room, count) in REMAINING {
        assert!(ROOMS.contains(room) && *count > 0, "{room} is not a room, or nothing is left in it");
    }
}

#[test]
fn words_are_found_in_prose_and_in_identifiers() {
    for (line, count) in [
        ("/// Nobody was told.", 2),
        ("let source_wishes = toldTwice(MODESTY);", 3),
        ("untold producers of retold stories", 1),
        ("if answer.is_none() { return }", 0),
        ("// There is none.", 1),
        ("// surround sound goes on air", 0),
        ("// The machine is too busy else.", 1),
        ("// Something else, or nothing else.", 0),
        ("} else { panic!() }", 0),
        ("/// What a viewer gets.", 1),
        ("pub struct Sight<'a> {", 1),
        ("/// At first sight a struct Sight.", 0),
        ("pub(crate) fn known(&self) {", 1),
    ] {
        assert_eq!(faults(line, true).len(), count, "{line}: {:?}", faults(line, true));
    }
}
