//! Extras: trailers, deleted scenes and the like, by folder or by the end of a file name.

use super::folders::Folders;
use super::title_text::readable;

const FOLDERS: [&str; 15] = [
    "extras",
    "extra",
    "featurettes",
    "behind the scenes",
    "deleted scenes",
    "interviews",
    "scenes",
    "shorts",
    "trailers",
    "trailer",
    "bonus",
    "bonusmaterial",
    "sample",
    "samples",
    "other",
];

const SUFFIXES: [&str; 11] = [
    "-trailer",
    "-featurette",
    "-behindthescenes",
    "-deleted",
    "-deletedscene",
    "-interview",
    "-scene",
    "-short",
    "-other",
    "-sample",
    "-extra",
];

/// Names of files that are no film by themselves.
const NAMES: [&str; 4] = ["trailer", "sample", "movie-trailer", "rarbg.com"];

/// The title of an extra; None for other files.
pub(super) fn title(folders: &Folders<'_>, stem: &str) -> Option<String> {
    let lower = stem.to_ascii_lowercase();
    let suffix = SUFFIXES.iter().chain(&[".trailer", "_trailer"]).find(|suffix| lower.ends_with(**suffix));
    let is_in_folder = folders.named.iter().any(|folder| FOLDERS.contains(&&*folder.to_lowercase()));
    let is_sample = lower.starts_with("sample-") || NAMES.contains(&lower.as_str());
    if suffix.is_none() && !is_in_folder && !is_sample {
        return None;
    }
    let rest = &stem[..stem.len() - suffix.map_or(0, |suffix| suffix.len())];
    Some(readable(if rest.is_empty() { stem } else { rest }))
}

/// Whether a name is that of a file on every disc, or says nothing.
pub(super) fn is_disc_file(stem: &str) -> bool {
    let lower = stem.to_ascii_lowercase();
    let is_number = !lower.is_empty() && lower.len() == 5 && lower.bytes().all(|byte| byte.is_ascii_digit());
    lower.starts_with("vts_")
        || is_number
        || ["movie", "film", "video", "disc", "title", "main"].contains(&lower.as_str())
}
