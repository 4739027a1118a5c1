//! The rooms and their one direction: `domain` <- `store`, `engine` <- `service` <- `http`; `app` and `cli` build them.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms that each room may use; `error` and `config` may be used everywhere.
const ALLOWED_ROOMS: [(&str, &[&str]); 5] = [
    ("domain", &["domain"]),
    ("store", &["store", "domain"]),
    ("engine", &["engine", "domain"]),
    ("service", &["service", "engine", "store", "domain"]),
    ("http", &["http", "service", "engine", "domain"]),
];

/// Crates and parts of the standard library that only these rooms may use.
const RESTRICTED_PATHS: [(&str, &[&str]); 9] = [
    ("sled::", &["store"]),
    ("gstreamer::", &["engine"]),
    ("gstreamer_pbutils::", &["engine"]),
    ("gstreamer_video::", &["engine"]),
    ("warp::", &["http"]),
    ("hyper::", &["http"]),
    ("tower_service::", &["http"]),
    ("process::Command", &["engine"]),
    ("Command::new(", &["engine"]),
];

/// Names that need a machine, a clock or a runtime.
const IMPURE_PATHS: [&str; 9] = [
    "std::fs",
    "std::env",
    "std::net::Tcp",
    "std::thread",
    "tokio::",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "getrandom",
];

/// Maximum lines of a file; a longer one probably has two subjects.
const MAX_LINES: usize = 450;

struct SourceFile {
    /// Relative to `src`.
    path: PathBuf,
    /// Without tests and comments.
    code: String,
    lines: usize,
}

impl SourceFile {
    fn room(&self) -> &str {
        let first = self.path.components().next().expect("a file has a path");
        let name = first.as_os_str().to_str().expect("plain names");
        name.strip_suffix(".rs").unwrap_or(name)
    }
}

fn source_files() -> Vec<SourceFile> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut sources) = (vec![src.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                let within = entry.strip_prefix(&src).unwrap();
                let tests = entry.ends_with("tests.rs") || within.iter().any(|part| part == "tests");
                let product = if tests { "" } else { text.split("#[cfg(test)]").next().unwrap_or_default() };
                let code =
                    product.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
                sources.push(SourceFile { path: within.to_owned(), code, lines: text.lines().count() });
            }
        }
    }
    assert!(sources.len() > 50, "the sources are found");
    sources
}

/// Every `name` in `crate::name` and `crate::{name, …}`.
fn used_modules(code: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = Vec::new();
    for (position, found) in code.match_indices("crate::") {
        // `::` before it would be another crate's `crate`; `$crate` belongs to a macro.
        let rest = &code[position + found.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group.split('}').next().unwrap_or_default().split(',').map(name)),
            None => names.push(name(rest)),
        }
    }
    names.retain(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    names
}

#[test]
fn rooms_use_only_rooms_below_them() {
    let rooms: Vec<&str> = ALLOWED_ROOMS.iter().map(|(room, _)| *room).chain(["app", "cli"]).collect();
    let mut violations = Vec::new();
    for source in source_files() {
        let Some((_, allowed)) = ALLOWED_ROOMS.iter().find(|(room, _)| *room == source.room()) else { continue };
        for name in used_modules(&source.code) {
            if rooms.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
                violations.push(format!("{} uses crate::{name}", source.path.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn a_crate_stays_in_its_room() {
    let mut violations = Vec::new();
    for source in source_files() {
        for (word, rooms) in RESTRICTED_PATHS {
            let mut found = source.code.match_indices(word);
            // Not within a longer name such as `tokio_warp::`.
            let is_used = found.any(|(at, _)| !source.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            if is_used && !rooms.contains(&source.room()) {
                violations.push(format!("{} uses {word}", source.path.display()));
            }
        }
        if source.room() == "domain" {
            violations.extend(
                IMPURE_PATHS
                    .iter()
                    .filter(|word| source.code.contains(*word))
                    .map(|word| format!("{} uses {word}", source.path.display())),
            );
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = source_files()
        .into_iter()
        .filter(|source| source.lines > MAX_LINES)
        .map(|source| format!("{}: {} lines", source.path.display(), source.lines))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}
