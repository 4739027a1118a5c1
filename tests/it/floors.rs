//! The rooms and their one direction: `domain` <- `store`, `engine` <- `service` <- `http`; `app` and `cli` build them.
//!
//! Paths are read from the tokens of each file, so aliases, nested groups, `super::super` and macro bodies count too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The rooms that each room may use; `error` and `config` may be used everywhere.
const ALLOWED_ROOMS: [(&str, &[&str]); 5] = [
    ("domain", &["domain"]),
    ("store", &["store", "domain"]),
    ("engine", &["engine", "domain"]),
    ("service", &["service", "engine", "store", "domain"]),
    ("http", &["http", "service", "engine", "domain"]),
];

/// Crates that any room may use: they need no machine, clock, network or runtime.
const COMMON_CRATES: [&str; 9] =
    ["std", "blake3", "bytes", "data_encoding", "jiff", "serde", "serde_json", "thiserror", "tracing"];

/// The rooms that may use each other crate. A crate in neither list is refused, so that a new one gets a room.
const CRATE_ROOMS: [(&str, &[&str]); 39] = [
    ("argon2", &["service"]),
    ("clap", &["cli", "config"]),
    ("encoding_rs", &["domain"]),
    ("flate2", &["domain", "engine", "http"]),
    ("futures_util", &["store", "engine", "service", "http"]),
    ("getrandom", &["service"]),
    ("gio", &["engine"]),
    ("glib", &["engine"]),
    ("gstreamer", &["engine"]),
    ("gstreamer_app", &["engine"]),
    ("gstreamer_pbutils", &["engine"]),
    ("gstreamer_video", &["engine"]),
    ("h264_reader", &["engine"]),
    ("hmac", &["domain"]),
    ("http", &["http"]),
    ("http_body", &["http"]),
    ("httpdate", &["http"]),
    ("hyper", &["http"]),
    ("itoa", &["http"]),
    ("libc", &["store", "engine"]),
    ("multer", &["http"]),
    ("percent_encoding", &["domain", "engine", "http"]),
    ("quick_xml", &["domain"]),
    ("reqwest", &["engine"]),
    ("retina", &["engine", "telemetry"]),
    ("rust_embed", &["http"]),
    ("rustix", &["store", "engine", "http", "cli"]),
    ("serde_path_to_error", &["http"]),
    ("sha2", &["domain", "service"]),
    ("sled", &["store"]),
    ("strsim", &["config"]),
    ("subtle", &["service"]),
    ("tokio", &["store", "engine", "service", "http", "app", "cli"]),
    ("toml", &["config"]),
    ("tower_service", &["http"]),
    ("tracing_subscriber", &["telemetry"]),
    ("url", &["domain", "engine", "service", "http"]),
    ("utoipa", &["http"]),
    ("warp", &["http"]),
];

/// Paths of the standard library and of common crates that only these rooms may use.
const RESTRICTED_PATHS: [(&str, &[&str]); 1] = [("std::process::Command", &["engine"])];

/// Paths that need a machine, a clock or a runtime: not for `domain`.
const IMPURE_PATHS: [&str; 7] = [
    "std::fs",
    "std::env",
    "std::net::Tcp",
    "std::thread",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "jiff::Timestamp::now",
];

/// Maximum lines of a file; a longer one probably has two subjects.
const MAX_LINES: usize = 450;

struct RoomFile {
    /// Relative to `src`.
    path: PathBuf,
    /// Every path in it, without its tests; `crate` and `super` are resolved to `crate::…`.
    used_paths: BTreeSet<String>,
    lines: usize,
}

impl RoomFile {
    fn room(&self) -> &str {
        let first = self.path.components().next().expect("a file has a path");
        let name = first.as_os_str().to_str().expect("plain names");
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// Whether a path of the file is `prefix`, lies below it, or only continues its last word (`std::net::Tcp`).
    fn uses(&self, prefix: &str) -> bool {
        self.used_paths.iter().any(|path| path.starts_with(prefix))
    }

    /// Whether the file uses an external crate. A module of ours with that name hides the crate.
    fn uses_crate(&self, name: &str) -> bool {
        let is_ours = self.used_paths.contains(&format!("crate::{name}"));
        !is_ours && (self.used_paths.contains(name) || self.uses(&format!("{name}::")))
    }
}

fn room_files() -> Vec<RoomFile> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut files) = (vec![src.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                let path = entry.strip_prefix(&src).unwrap().to_owned();
                let is_test = path.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
                let mut used_paths = BTreeSet::new();
                if !is_test {
                    let tokens: TokenStream = text.parse().expect("the file compiles");
                    collect_paths(tokens, &module_of(&path), &mut used_paths);
                }
                files.push(RoomFile { path, used_paths, lines: text.lines().count() });
            }
        }
    }
    assert!(files.len() > 50, "the sources are found");
    files
}

/// The module path of a file below `src`, beginning with `crate`.
fn module_of(path: &Path) -> Vec<String> {
    let mut module = vec!["crate".to_owned()];
    module.extend(path.with_extension("").iter().map(|part| part.to_str().expect("plain names").to_owned()));
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// Adds the paths in the tokens of `module`. Items with `#[cfg(test)]` are left out.
fn collect_paths(tokens: TokenStream, module: &[String], found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_cfg_test(tokens.get(at + 1)) => {
                at += 2;
                // To the end of the item: its block or a semicolon.
                while let Some(token) = tokens.get(at) {
                    at += 1;
                    match token {
                        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
                        TokenTree::Punct(punct) if punct.as_char() == ';' => break,
                        _ => {}
                    }
                }
            }
            TokenTree::Ident(word) if word == "mod" => {
                // An inline module: its `super` is this module.
                if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
                    (tokens.get(at + 1), tokens.get(at + 2))
                {
                    collect_paths(body.stream(), &[module, &[name.to_string()]].concat(), found);
                    at += 3;
                } else {
                    at += 1;
                }
            }
            TokenTree::Ident(_) => at = collect_path(&tokens, at, Vec::new(), module, found),
            TokenTree::Group(group) => {
                collect_paths(group.stream(), module, found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

fn is_cfg_test(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// Adds the path that begins at `at` and continues `prefix`, with all members of its groups. Returns the index after it.
fn collect_path(
    tokens: &[TokenTree],
    mut at: usize,
    mut prefix: Vec<String>,
    module: &[String],
    found: &mut BTreeSet<String>,
) -> usize {
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        prefix.push(word.to_string());
        at += 1;
        if !is_path_separator(tokens, at) {
            break;
        }
        at += 2;
        if let Some(TokenTree::Group(group)) = tokens.get(at) {
            let members: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut member = 0;
            while member < members.len() {
                member = match &members[member] {
                    TokenTree::Ident(_) if is_alias(&members, member) => member + 2,
                    TokenTree::Ident(_) => collect_path(&members, member, prefix.clone(), module, found),
                    _ => member + 1,
                };
            }
            return at + 1;
        }
    }
    if prefix.len() > 1 || is_alias(tokens, at) {
        found.insert(resolve(&prefix, module).join("::"));
    }
    at
}

/// Whether `as` follows, as in `use name as other`.
fn is_alias(tokens: &[TokenTree], at: usize) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(word)) if word == "as")
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}

/// `self` and `super` replaced by the module they mean.
fn resolve(path: &[String], module: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|word| *word == "super").count();
    let is_own = path[0] == "self" || ups > 0;
    if !is_own {
        return path.to_vec();
    }
    let base = module.len().saturating_sub(ups).max(1);
    let rest = if ups > 0 { ups } else { 1 };
    [&module[..base], &path[rest..]].concat()
}

#[test]
fn rooms_use_only_rooms_below_them() {
    let rooms: Vec<&str> = ALLOWED_ROOMS.iter().map(|(room, _)| *room).chain(["app", "cli"]).collect();
    let mut violations = Vec::new();
    for file in room_files() {
        let Some((_, allowed)) = ALLOWED_ROOMS.iter().find(|(room, _)| *room == file.room()) else { continue };
        for path in &file.used_paths {
            let Some(room) = path.strip_prefix("crate::").and_then(|rest| rest.split("::").next()) else { continue };
            if rooms.contains(&room) && !allowed.contains(&room) {
                violations.push(format!("{} uses {path}", file.path.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn a_crate_stays_in_its_room() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let crates: Vec<String> =
        manifest["dependencies"].as_table().unwrap().keys().map(|name| name.replace('-', "_")).collect();
    let mut violations: Vec<String> = crates
        .iter()
        .filter(|name| !COMMON_CRATES.contains(&name.as_str()) && !CRATE_ROOMS.iter().any(|(known, _)| known == name))
        .map(|name| format!("{name} has no room"))
        .collect();
    for file in room_files() {
        let crates = CRATE_ROOMS.iter().filter(|(name, _)| file.uses_crate(name));
        let paths = RESTRICTED_PATHS.iter().filter(|(path, _)| file.uses(path));
        let foreign = crates.chain(paths).filter(|(_, rooms)| !rooms.contains(&file.room()));
        violations.extend(foreign.map(|(name, _)| format!("{} uses {name}", file.path.display())));
        if file.room() == "domain" {
            let impure = IMPURE_PATHS.iter().filter(|path| file.uses(path));
            violations.extend(impure.map(|path| format!("{} uses {path}", file.path.display())));
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn paths_are_found_in_every_form() {
    let code = "use gstreamer as gst; use crate::{a::{b, c as d}, http::x}; mod inner { use super::super::http; }
        macro_rules! m { () => { $crate::store::open() } } fn f() { std::process::Command::new(\"x\"); self::g(); }
        #[cfg(test)] mod tests { use crate::cli; } #[cfg(test)] use crate::app; fn h() { super::super::engine::run() }";
    let mut found = BTreeSet::new();
    let module = ["crate", "service", "live"].map(str::to_owned);
    collect_paths(code.parse().unwrap(), &module, &mut found);
    let expected = [
        "crate::a::b",
        "crate::a::c",
        "crate::engine::run",
        "crate::http::x",
        "crate::service::http",
        "crate::service::live::g",
        "crate::store::open",
        "gstreamer",
        "std::process::Command::new",
    ];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = room_files()
        .into_iter()
        .filter(|file| file.lines > MAX_LINES)
        .map(|file| format!("{}: {} lines", file.path.display(), file.lines))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}
