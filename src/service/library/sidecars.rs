//! Sidecar subtitles: subtitle files in the folder of a media file that share its stem.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::Library;
use crate::domain::media::language_tag;
use crate::engine::source::{Roots, SourceFile};
use crate::error::Result;

/// Most sidecars listed for one file.
const MAX_SIDECARS: usize = 64;

/// A subtitle file with the stem of a media file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// `x0`, `x1` …: its index among the file's sidecars, sorted by name.
    pub id: String,
    /// Request path, opened through the library like any other.
    pub path: String,
    /// The file name without folders.
    pub file: String,
    pub format: SidecarFormat,
    /// As written in the file name.
    pub language: Option<String>,
    /// The rest of the name, after language and flags.
    pub title: Option<String>,
    pub default: bool,
    pub forced: bool,
    pub hearing_impaired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SidecarFormat {
    Srt,
    Vtt,
    Ass,
    Ssa,
    /// PGS (Blu-ray bitmap subtitles).
    Sup,
    /// VobSub: the `.idx` file; its bitmaps are in the `.sub` beside it.
    VobSub,
}

impl SidecarFormat {
    fn from_extension(extension: &str) -> Option<Self> {
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
pub async fn list_sidecars(library: &Library, source: &Arc<SourceFile>) -> Result<Vec<Sidecar>> {
    let (roots, source) = (library.roots().clone(), source.clone());
    library.run_with_deadline(source.root_index, move || read_sidecars(&roots, &source)).await
}

fn read_sidecars(roots: &Roots, source: &SourceFile) -> Result<Vec<Sidecar>> {
    let (folder, media) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let folder_path = if folder.is_empty() { "/" } else { folder };
    let names: Vec<_> = roots.open_folder(folder_path)?.list_entries()?.into_iter().map(|(name, _)| name).collect();
    let mut found: Vec<Sidecar> = sidecar_names(media, &names)
        .into_iter()
        .take(MAX_SIDECARS)
        .filter_map(|file| Some(Sidecar { path: format!("{folder}/{file}"), ..parse_name(media, file)? }))
        .filter(|sidecar| roots.open_file(&sidecar.path).is_ok())
        .collect();
    for (index, sidecar) in found.iter_mut().enumerate() {
        sidecar.id = format!("x{index}");
    }
    Ok(found)
}

/// The names in a folder that are sidecars of `media`, sorted. `film.part2.srt` belongs to `film.part2.mkv` if that
/// exists, otherwise to `film.mkv`.
fn sidecar_names<'a>(media: &str, names: &'a [String]) -> Vec<&'a str> {
    let media_stem = file_stem(media);
    let longer_stems: Vec<&str> = names
        .iter()
        .filter(|name| {
            extension(name).is_some_and(|text| SidecarFormat::from_extension(text).is_none() && text != "sub")
        })
        .map(|name| file_stem(name))
        .filter(|other| other.len() > media_stem.len() && other.starts_with(media_stem))
        .collect();
    let all_names: HashSet<&str> = names.iter().map(String::as_str).collect();
    let is_nearest = |name: &str| {
        let suffix = name.strip_prefix(media_stem).filter(|rest| rest.starts_with('.'));
        let has_nearer_media =
            longer_stems.iter().any(|other| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')));
        suffix.is_some() && !has_nearer_media
    };
    let mut found: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| *name != media && is_nearest(name))
        .filter(|name| match extension(name).and_then(SidecarFormat::from_extension) {
            Some(SidecarFormat::VobSub) => all_names.contains(format!("{}.sub", file_stem(name)).as_str()),
            Some(_) => true,
            None => false,
        })
        .collect();
    found.sort_unstable();
    found
}

/// Parses the name of a subtitle file: language and flags are between the media file's stem and the extension. Id and
/// path are left empty; None if the name is not that of a subtitle.
pub fn parse_name(media: &str, file: &str) -> Option<Sidecar> {
    let mut sidecar = Sidecar {
        id: String::new(),
        path: String::new(),
        file: file.to_owned(),
        format: extension(file).and_then(SidecarFormat::from_extension)?,
        language: None,
        title: None,
        default: false,
        forced: false,
        hearing_impaired: false,
    };
    let suffix = file_stem(file).strip_prefix(file_stem(media)).unwrap_or("");
    let mut title_words = Vec::new();
    for word in suffix.split('.').filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "forced" | "foreign" => sidecar.forced = true,
            "sdh" | "cc" => sidecar.hearing_impaired = true,
            // Hindi, unless another language was named before.
            "hi" if sidecar.language.is_some() => sidecar.hearing_impaired = true,
            "default" => sidecar.default = true,
            lower if sidecar.language.is_none() && is_language(lower) => sidecar.language = Some(word.to_owned()),
            _ => title_words.push(word),
        }
    }
    sidecar.title = (!title_words.is_empty()).then(|| title_words.join(" "));
    Some(sidecar)
}

/// Two or three letters, with or without a region; longer words are titles.
fn is_language(word: &str) -> bool {
    let primary = word.split(['-', '_']).next().unwrap_or(word);
    (2..=3).contains(&primary.len()) && language_tag(word).is_some()
}

fn file_stem(name: &str) -> &str {
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
        assert_eq!(sidecar_names("film.mkv", &folder), ["film.de.forced.srt", "film.idx", "film.srt"]);
        assert_eq!(sidecar_names("film.part2.mkv", &folder), ["film.part2.en.vtt"]);
    }

    #[test]
    fn the_name_tells_language_and_flags() {
        let parse = |file| parse_name("Example (2020).mkv", file).unwrap();
        let plain = parse("Example (2020).srt");
        assert_eq!((plain.language, plain.title, plain.forced), (None, None, false));
        let forced = parse("Example (2020).pt-BR.forced.ass");
        assert_eq!((forced.language.as_deref(), forced.forced), (Some("pt-BR"), true));
        assert_eq!(forced.format, SidecarFormat::Ass);
        let impaired = parse("Example (2020).eng.hi.srt");
        assert_eq!((impaired.language.as_deref(), impaired.hearing_impaired), (Some("eng"), true));
        let hindi = parse("Example (2020).hi.srt");
        assert_eq!((hindi.language.as_deref(), hindi.hearing_impaired), (Some("hi"), false));
        let titled = parse("Example (2020).de.Directors comments.srt");
        assert_eq!(titled.title.as_deref(), Some("Directors comments"));
    }
}
