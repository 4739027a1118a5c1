//! The rooms and their one direction: `domain` <- `store`, `engine` <- `service` <- `http`; `app` and `cli` build them. The
//! rooms within `service` have one direction as well.
//!
//! Paths are read from the tokens of each file, so aliases, nested groups, `super::super` and macro bodies count too.

use std::collections::{BTreeMap, BTreeSet};
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

/// The rooms of `service`, lower ones first, and those that each may use. Handles in `Service` and methods on it belong to
/// the room that defines their type or body.
const SERVICE_ROOMS: [(&str, &[&str]); 23] = [
    ("background_tasks", &[]),
    ("clock", &[]),
    ("events", &[]),
    ("quarantine", &[]),
    ("accounts", &["clock"]),
    ("library", &["background_tasks"]),
    ("media_folders", &["clock", "events", "library"]),
    ("read_replica", &["background_tasks", "clock", "accounts", "library", "media_folders"]),
    ("media", &["quarantine", "library"]),
    ("progress", &["clock", "events", "accounts", "library", "media"]),
    ("renditions", &["background_tasks", "quarantine", "library", "media"]),
    ("sessions", &["background_tasks", "accounts", "library", "media", "renditions"]),
    ("channels", &["background_tasks", "clock", "accounts", "library", "media", "renditions"]),
    ("ingest", &["background_tasks", "clock", "renditions", "channels"]),
    ("live", &["background_tasks", "clock", "events", "accounts", "media", "renditions", "channels", "ingest"]),
    ("recordings", &["background_tasks", "clock", "events", "accounts", "channels", "ingest", "live"]),
    ("catalogue", &["background_tasks", "clock", "events", "library", "media", "progress", "sessions", "channels"]),
    ("marks", &["background_tasks", "library", "media", "catalogue"]),
    ("artwork", &["background_tasks", "clock", "library", "media", "renditions", "catalogue"]),
    ("library_watcher", &["background_tasks", "events", "library", "media", "progress", "catalogue"]),
    ("playback", &["accounts", "library", "renditions", "sessions", "live", "artwork"]),
    ("workers", &["background_tasks", "clock", "accounts", "renditions"]),
    ("server_status", &["background_tasks", "renditions", "sessions", "live", "recordings"]),
];

/// Crates that any room may use: they need no machine, clock, network or runtime.
const COMMON_CRATES: [&str; 9] =
    ["std", "blake3", "bytes", "data_encoding", "jiff", "serde", "serde_json", "thiserror", "tracing"];

/// The rooms that may use each other crate. A crate in neither list is refused, so that a new one gets a room.
const CRATE_ROOMS: [(&str, &[&str]); 62] = [
    ("argon2", &["service"]),
    ("async_nats", &["engine"]),
    ("tokio_postgres", &["store"]),
    ("tokio_postgres_rustls", &["store"]),
    ("rustls", &["store"]),
    ("rustls_native_certs", &["store"]),
    ("brotli", &["http"]),
    ("clap", &["cli", "config"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("encoding_rs", &["domain"]),
    ("flate2", &["domain", "engine", "http"]),
    ("futures_util", &["store", "engine", "service", "http"]),
    ("getrandom", &["service"]),
    ("gio", &["engine"]),
    ("glib", &["engine"]),
    ("gstreamer", &["engine"]),
    ("gstreamer_app", &["engine"]),
    ("gstreamer_base", &["engine"]),
    ("gstreamer_pbutils", &["engine"]),
    ("gstreamer_video", &["engine"]),
    ("h264_reader", &["domain", "engine"]),
    ("hmac", &["domain"]),
    ("http", &["http"]),
    ("http_body", &["http"]),
    ("httpdate", &["http"]),
    ("hyper", &["http"]),
    ("hyper_util", &["http"]),
    ("inotify", &["engine"]),
    ("itoa", &["http"]),
    ("landlock", &["engine"]),
    ("libc", &["store", "engine"]),
    ("lru", &["engine", "service"]),
    ("matchit", &["http"]),
    ("multer", &["http"]),
    ("object_store", &["engine"]),
    ("percent_encoding", &["domain", "engine", "http"]),
    ("png", &["domain"]),
    ("quick_xml", &["domain"]),
    ("reqwest", &["engine"]),
    ("retina", &["engine", "telemetry"]),
    ("ring", &["engine"]),
    ("rust_embed", &["http"]),
    ("rusty_chromaprint", &["domain"]),
    ("rustix", &["store", "engine", "http", "cli"]),
    ("sd_notify", &["app"]),
    ("seccompiler", &["engine"]),
    ("serde_path_to_error", &["http"]),
    ("sha2", &["domain", "http", "service"]),
    ("sled", &["store"]),
    ("smallvec", &["domain", "service"]),
    ("strsim", &["config"]),
    ("subtle", &["service"]),
    ("tokio", &["store", "engine", "service", "http", "app", "cli", "telemetry"]),
    ("tokio_util", &["service", "http"]),
    ("toml", &["config"]),
    ("tower_service", &["http"]),
    ("tracing_subscriber", &["telemetry"]),
    ("unicode_normalization", &["domain"]),
    ("url", &["domain", "engine", "service", "http"]),
    ("utoipa", &["http"]),
    ("warp", &["http"]),
];

/// The crates of GStreamer, and the only folder that may use them: everything in it runs in worker processes.
const GSTREAMER_CRATES: [&str; 7] =
    ["gio", "glib", "gstreamer", "gstreamer_app", "gstreamer_base", "gstreamer_pbutils", "gstreamer_video"];
const GSTREAMER_FOLDER: &str = "engine/gst";

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
    /// Empty for a file of tests.
    tokens: TokenStream,
    lines: usize,
}

impl RoomFile {
    fn room(&self) -> &str {
        let first = self.path.components().next().expect("a file has a path");
        let name = first.as_os_str().to_str().expect("plain names");
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// Its room within `service`; `mod` for the file of `Service` itself.
    fn service_room(&self) -> Option<String> {
        let inner = self.path.strip_prefix("service").ok()?;
        Some(module_of(inner).get(1).map_or("mod", String::as_str).to_owned())
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
                let mut tokens = TokenStream::new();
                if !is_test {
                    tokens = text.parse().expect("the file compiles");
                    collect_paths(tokens.clone(), &module_of(&path), &mut used_paths);
                }
                files.push(RoomFile { path, used_paths, tokens, lines: text.lines().count() });
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
        if let Some(end) = end_of_test_item(&tokens, at) {
            at = end;
            continue;
        }
        match &tokens[at] {
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

/// The index after an item with `#[cfg(test)]`, if one begins at `at`: after its block or semicolon.
fn end_of_test_item(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let is_attribute = matches!(&tokens[at], TokenTree::Punct(punct) if punct.as_char() == '#');
    if !is_attribute || !is_cfg_test(tokens.get(at + 1)) {
        return None;
    }
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let length = tokens[at + 2..].iter().position(is_end);
    Some(length.map_or(tokens.len(), |length| at + 2 + length + 1))
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

/// Members of `Service`: the fields and methods that code uses, and the methods it defines.
#[derive(Default)]
struct ServiceMembers {
    used: BTreeSet<String>,
    defined: BTreeSet<String>,
}

/// Adds the members of `Service` in `tokens`. `is_impl` within `impl Service`.
fn collect_members(tokens: TokenStream, is_impl: bool, members: &mut ServiceMembers) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = end_of_test_item(&tokens, at) {
            at = end;
            continue;
        }
        match &tokens[at..] {
            [TokenTree::Ident(keyword), TokenTree::Ident(name), TokenTree::Group(body), ..]
                if keyword == "impl" && name == "Service" =>
            {
                collect_members(body.stream(), true, members);
                at += 2;
            }
            [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] if is_impl && keyword == "fn" => {
                members.defined.insert(name.to_string());
            }
            [TokenTree::Ident(owner), TokenTree::Punct(dot), TokenTree::Ident(name), ..]
                if dot.as_char() == '.' && (owner == "service" || is_impl && owner == "self") =>
            {
                members.used.insert(name.to_string());
            }
            [TokenTree::Group(group), ..] => collect_members(group.stream(), is_impl, members),
            _ => {}
        }
        at += 1;
    }
}

/// The room of each field of `Service`: that of its type, as the file imports it.
fn rooms_of_fields(file: &RoomFile) -> BTreeMap<String, String> {
    let rooms_of_types: BTreeMap<&str, &str> = file
        .used_paths
        .iter()
        .filter_map(|path| Some((path.rsplit("::").next()?, path.split_once("::")?.0)))
        .filter(|(_, room)| SERVICE_ROOMS.iter().any(|(known, _)| known == room))
        .collect();
    let tokens: Vec<TokenTree> = file.tokens.clone().into_iter().collect();
    let is_struct = |tokens: &[TokenTree]| match tokens {
        [TokenTree::Ident(keyword), TokenTree::Ident(name), TokenTree::Group(_)] => {
            keyword == "struct" && name == "Service"
        }
        _ => false,
    };
    let start = tokens.windows(3).position(is_struct).expect("the struct is found");
    let TokenTree::Group(body) = &tokens[start + 2] else { panic!("the struct has fields") };
    let (mut rooms, mut field, mut follows_pub) = (BTreeMap::new(), String::new(), false);
    for token in body.stream() {
        let TokenTree::Ident(word) = token else { continue };
        let word = word.to_string();
        if follows_pub {
            field.clone_from(&word);
        } else if let Some(room) = rooms_of_types.get(word.as_str()) {
            rooms.insert(field.clone(), (*room).to_owned());
        }
        follows_pub = word == "pub";
    }
    rooms
}

#[test]
fn rooms_of_the_service_use_only_rooms_below_them() {
    let files: Vec<(String, RoomFile)> =
        room_files().into_iter().filter_map(|file| Some((file.service_room()?, file))).collect();
    let (_, root) = files.iter().find(|(room, _)| room == "mod").expect("service has a root");
    let mut rooms_of_members = rooms_of_fields(root);
    let mut members_of_files = Vec::new();
    for (room, file) in files.iter().filter(|(room, _)| room != "mod") {
        let mut members = ServiceMembers::default();
        collect_members(file.tokens.clone(), false, &mut members);
        rooms_of_members.extend(members.defined.into_iter().map(|method| (method, room.clone())));
        members_of_files.push((room, file, members.used));
    }
    for (member, room) in [("renditions", "renditions"), ("viewers", "channels"), ("save_progress", "progress")] {
        assert_eq!(rooms_of_members.get(member).map(String::as_str), Some(room), "the room of {member}");
    }
    let mut violations = Vec::new();
    for (room, file, used_members) in members_of_files {
        let Some((_, allowed)) = SERVICE_ROOMS.iter().find(|(known, _)| known == room) else {
            violations.push(format!("{} has no room", file.path.display()));
            continue;
        };
        let paths = file.used_paths.iter().filter_map(|path| {
            let used = path.strip_prefix("crate::service::")?.split("::").next()?;
            SERVICE_ROOMS.iter().any(|(known, _)| *known == used).then_some((used, path.clone()))
        });
        let members = used_members
            .iter()
            .filter_map(|member| Some((rooms_of_members.get(member)?.as_str(), format!("service.{member}"))));
        let forbidden = paths.chain(members).filter(|(used, _)| used != room && !allowed.contains(used));
        violations.extend(forbidden.map(|(_, what)| format!("{} uses {what}", file.path.display())));
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn rooms_of_the_service_are_listed_from_below() {
    for (at, (room, allowed)) in SERVICE_ROOMS.iter().enumerate() {
        let lower: Vec<&str> = SERVICE_ROOMS[..at].iter().map(|(lower, _)| *lower).collect();
        assert!(allowed.iter().all(|used| lower.contains(used)), "{room} uses a room above it");
    }
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
fn gstreamer_stays_in_its_folder() {
    let outside = room_files().into_iter().filter(|file| !file.path.starts_with(GSTREAMER_FOLDER));
    let violations: Vec<String> = outside
        .flat_map(|file| {
            let used = GSTREAMER_CRATES.into_iter().filter(|name| file.uses_crate(name));
            used.map(|name| format!("{} uses {name}", file.path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(violations.is_empty(), "{violations:#?}");
    assert!(room_files().iter().any(|file| file.path.starts_with(GSTREAMER_FOLDER) && file.uses_crate("gstreamer")));
}

#[test]
fn the_connection_side_of_http_knows_no_route() {
    let allowed = ["crate::http::server", "crate::http::reply"];
    let is_allowed =
        |path: &str| !path.starts_with("crate::http") || allowed.iter().any(|prefix| path.starts_with(prefix));
    let mut violations = Vec::new();
    for file in room_files().into_iter().filter(|file| file.path.starts_with("http/server")) {
        let upward = file.used_paths.iter().filter(|path| !is_allowed(path));
        violations.extend(upward.map(|path| format!("{} uses {path}", file.path.display())));
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
