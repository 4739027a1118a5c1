//! Sidecar subtitles: subtitle files in the folder of a media file that share its stem.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::library::Library;
use crate::domain::media::language_tag;
use crate::engine::source::{Roots, SourceFile};
use crate::error::Result;

/// Most sidecars listed for one file.
const SIDECARS: usize = 64;

/// A subtitle file with the stem of a media file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// `x0`, `x1` …: its index among the file's sidecars, sorted by name.
    pub id: String,
    /// Request path, opened through the library like any other.
    pub path: String,
    /// The file name without folders.
    pub file: String,
    pub format: Format,
    /// As written in the file name.
    pub language: Option<String>,
    /// The rest of the name, after language and flags.
    pub title: Option<String>,
    pub default: bool,
    pub forced: bool,
    pub hearing_impaired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Srt,
    Vtt,
    Ass,
    Ssa,
    /// PGS (Blu-ray bitmap subtitles).
    Sup,
    /// VobSub: the `.idx` file; its bitmaps are in the `.sub` beside it.
    VobSub,
}

impl Format {
    fn of(extension: &str) -> Option<Self> {
        Some(match extension.to_ascii_lowercase().as_str() {
            "srt" => Self::Srt,
            "vtt" => Self::Vtt,
            "ass" => Self::Ass,
            "ssa" => Self::Ssa,
            "sup" => Self::Sup,
            "idx" => Self::VobSub,
            _ => return None,
        })
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Ass => "ass",
            Self::Ssa => "ssa",
            Self::Sup => "sup",
            Self::VobSub => "vobsub",
        }
    }

    pub fn is_text(self) -> bool {
        !matches!(self, Self::Sup | Self::VobSub)
    }
}

/// The sidecars of a file, sorted by name. Only files that open beneath the same root are listed.
///
/// # Errors
/// Those of opening the folder; `STORAGE_TIMEOUT` after 15 s.
pub async fn beside(library: &Library, source: &Arc<SourceFile>) -> Result<Vec<Sidecar>> {
    let (roots, source) = (library.roots().clone(), source.clone());
    library.run_with_deadline(source.root_index, move || look(&roots, &source)).await
}

fn look(roots: &Roots, source: &SourceFile) -> Result<Vec<Sidecar>> {
    let (folder, media) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let folder_path = if folder.is_empty() { "/" } else { folder };
    let names: Vec<String> = roots.open_folder(folder_path)?.list_entries()?.into_iter().map(|(name, _)| name).collect();
    let mut found: Vec<Sidecar> = matching(media, &names)
        .into_iter()
        .take(SIDECARS)
        .filter_map(|file| Some(Sidecar { path: format!("{folder}/{file}"), ..described(media, file)? }))
        .filter(|sidecar| roots.open_file(&sidecar.path).is_ok())
        .collect();
    for (place, sidecar) in found.iter_mut().enumerate() {
        sidecar.id = format!("x{place}");
    }
    Ok(found)
}

/// The names in a folder that are sidecars of `media`, sorted. `film.part2.srt` belongs to `film.part2.mkv` if that
/// exists, otherwise to `film.mkv`.
fn matching<'a>(media: &str, names: &'a [String]) -> Vec<&'a str> {
    let own = stem(media);
    let others: Vec<&str> = names
        .iter()
        .filter(|name| extension(name).is_some_and(|extension| Format::of(extension).is_none() && extension != "sub"))
        .map(|name| stem(name))
        .filter(|other| other.len() > own.len() && other.starts_with(own))
        .collect();
    let all: HashSet<&str> = names.iter().map(String::as_str).collect();
    let belongs = |name: &str| {
        let rest = name.strip_prefix(own).filter(|rest| rest.starts_with('.'));
        let nearer = others.iter().any(|other| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')));
        rest.is_some() && !nearer
    };
    let mut found: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| *name != media && belongs(name))
        .filter(|name| match extension(name).and_then(Format::of) {
            Some(Format::VobSub) => all.contains(format!("{}.sub", stem(name)).as_str()),
            Some(_) => true,
            None => false,
        })
        .collect();
    found.sort_unstable();
    found
}

/// Parses the name of a subtitle file: language and flags are between the media file's stem and the extension. Id and
/// path are left empty; None if the name is not that of a subtitle.
pub fn described(media: &str, file: &str) -> Option<Sidecar> {
    let mut sidecar = Sidecar {
        id: String::new(),
        path: String::new(),
        file: file.to_owned(),
        format: extension(file).and_then(Format::of)?,
        language: None,
        title: None,
        default: false,
        forced: false,
        hearing_impaired: false,
    };
    let between = stem(file).strip_prefix(stem(media)).unwrap_or("");
    let mut rest = Vec::new();
    for word in between.split('.').filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "forced" | "foreign" => sidecar.forced = true,
            "sdh" | "cc" => sidecar.hearing_impaired = true,
            // Hindi, unless another language was named before.
            "hi" if sidecar.language.is_some() => sidecar.hearing_impaired = true,
            "default" => sidecar.default = true,
            lower if sidecar.language.is_none() && is_language(lower) => sidecar.language = Some(word.to_owned()),
            _ => rest.push(word),
        }
    }
    sidecar.title = (!rest.is_empty()).then(|| rest.join(" "));
    Some(sidecar)
}

/// Two or three letters, with or without a region; longer words are titles.
fn is_language(word: &str) -> bool {
    let primary = word.split(['-', '_']).next().unwrap_or(word);
    (2..=3).contains(&primary.len()) && language_tag(word).is_some()
}

fn stem(name: &str) -> &str {
    Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name)
}

fn extension(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|extension| extension.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn sidecars_share_the_stem_and_go_to_the_nearest_file() {
        let folder = names(&[
            "film.mkv",
            "film.part2.mkv",
            "film.srt",
            "film.de.forced.srt",
            "film.part2.en.vtt",
            "films.srt",
            "film.idx",
            "film.sub",
            "film.fr.idx",
            "film.nfo",
        ]);
        assert_eq!(matching("film.mkv", &folder), ["film.de.forced.srt", "film.idx", "film.srt"]);
        assert_eq!(matching("film.part2.mkv", &folder), ["film.part2.en.vtt"]);
    }

    #[test]
    fn the_name_tells_language_and_flags() {
        let read = |file| described("Example (2020).mkv", file).unwrap();
        let plain = read("Example (2020).srt");
        assert_eq!((plain.language, plain.title, plain.forced), (None, None, false));
        let forced = read("Example (2020).pt-BR.forced.ass");
        assert_eq!((forced.language.as_deref(), forced.forced, forced.format), (Some("pt-BR"), true, Format::Ass));
        let impaired = read("Example (2020).eng.hi.srt");
        assert_eq!((impaired.language.as_deref(), impaired.hearing_impaired), (Some("eng"), true));
        let hindi = read("Example (2020).hi.srt");
        assert_eq!((hindi.language.as_deref(), hindi.hearing_impaired), (Some("hi"), false));
        let titled = read("Example (2020).de.Directors comments.srt");
        assert_eq!(titled.title.as_deref(), Some("Directors comments"));
    }
}
