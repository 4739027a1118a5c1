//! One program for all targets: libFuzzer feeds the one that `HEARTHCAST_FUZZ_TARGET` names. `scripts/fuzz` runs it.
#![no_main]
#![allow(clippy::disallowed_methods, reason = "targets open what they made")]

/// Readers of containers, which need a file.
mod containers;
/// Parsers of text and of a request's fields.
mod texts;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

/// Name and function of each target.
const TARGETS: [(&str, Target); 10] = [
    ("ranges", texts::parse_range),
    ("paths", texts::locate_path),
    ("m3u", texts::parse_lists),
    ("xmltv", texts::parse_guide),
    ("nfo", texts::parse_nfo),
    ("subtitles", texts::parse_subtitles),
    ("configuration", texts::parse_configuration),
    ("mp4", containers::read_mp4),
    ("matroska", containers::read_matroska),
    ("mpegts", containers::read_mpegts),
];

static SELECTED: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("HEARTHCAST_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let names = TARGETS.map(|(target, _)| target).join(", ");
    found.unwrap_or_else(|| panic!("HEARTHCAST_FUZZ_TARGET is {name:?}, not one of: {names}")).1
});

fuzz_target!(|bytes: &[u8]| SELECTED(bytes));
