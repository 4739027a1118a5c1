//! Artwork beside media files: which image is what, by its name.

use std::collections::HashSet;

use crate::domain::library::{file_stem, kind_from_name};

named_values! {
    /// A kind of artwork.
    pub enum ArtworkKind {
        /// Upright, or the square cover of music.
        Poster = "poster",
        /// Wide and without text, to show beneath other things.
        Backdrop = "backdrop",
        /// Wide: a frame of the film.
        Thumbnail = "thumbnail",
        /// The title as an image, transparent.
        Logo = "logo",
    }
}

impl ArtworkKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Poster, Self::Backdrop, Self::Thumbnail, Self::Logo];
}

/// The owner of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtworkOwner<'a> {
    /// The film, series, season or album of the folder.
    Folder,
    /// A season of the series in the folder; 0 for specials.
    Season(u32),
    /// The media file with this name, without its extension.
    File(&'a str),
}

/// The facts in the name of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtworkName<'a> {
    pub owner: ArtworkOwner<'a>,
    /// None for an image with the name of its media file alone, whose kind follows from that of the file: the poster of a film, the
    /// cover of music, otherwise a thumbnail.
    pub kind: Option<ArtworkKind>,
    /// Of several images of one kind, the one with the lowest rank is shown.
    pub rank: u8,
}

const EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// The extension of drawings, which only logos may be: the other kinds are shown without transparency.
const DRAWING_EXTENSION: &str = "svg";

/// Names of images in Kodi, Jellyfin, Plex and music players, the strongest of each kind first.
const WORDS: [(&str, ArtworkKind); 14] = [
    ("poster", ArtworkKind::Poster),
    ("folder", ArtworkKind::Poster),
    ("cover", ArtworkKind::Poster),
    ("front", ArtworkKind::Poster),
    ("movie", ArtworkKind::Poster),
    ("show", ArtworkKind::Poster),
    ("fanart", ArtworkKind::Backdrop),
    ("backdrop", ArtworkKind::Backdrop),
    ("background", ArtworkKind::Backdrop),
    ("landscape", ArtworkKind::Thumbnail),
    ("thumb", ArtworkKind::Thumbnail),
    ("thumbnail", ArtworkKind::Thumbnail),
    ("clearlogo", ArtworkKind::Logo),
    ("logo", ArtworkKind::Logo),
];

impl<'a> ArtworkName<'a> {
    /// Interprets the name of a file; None if it is not that of a JPEG, PNG or WebP, or of a logo in SVG.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (stem, extension) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?;
        if extension.eq_ignore_ascii_case(DRAWING_EXTENSION) {
            return Some(Self::parse_stem(stem)).filter(|parsed| parsed.kind == Some(ArtworkKind::Logo));
        }
        EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)).then(|| Self::parse_stem(stem))
    }

    fn parse_stem(stem: &'a str) -> Self {
        if let Some((kind, rank)) = kind_of(stem) {
            return Self { owner: ArtworkOwner::Folder, kind: Some(kind), rank };
        }
        if let Some(season) = season_of(stem) {
            return Self { owner: ArtworkOwner::Season(season), kind: Some(ArtworkKind::Poster), rank: 0 };
        }
        let suffix = stem.rsplit_once('-').filter(|(file, _)| !file.is_empty());
        match suffix.and_then(|(file, word)| Some((file, kind_of(word)?))) {
            Some((file, (kind, rank))) => Self { owner: ArtworkOwner::File(file), kind: Some(kind), rank },
            None => Self { owner: ArtworkOwner::File(stem), kind: None, rank: u8::MAX },
        }
    }
}

/// The names of the media files among these, without their extensions and in lower case.
pub fn media_stems<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<String> {
    names.filter(|name| kind_from_name(name).is_some()).map(|name| file_stem(name).to_lowercase()).collect()
}

/// Whether a file is an image of a folder or of one of its media files, by [`media_stems`]. Other images are photos.
pub fn is_artwork(name: &str, stems: &HashSet<String>) -> bool {
    ArtworkName::parse(name).is_some_and(|parsed| match parsed.owner {
        ArtworkOwner::File(stem) => stems.contains(&stem.to_lowercase()),
        ArtworkOwner::Folder | ArtworkOwner::Season(_) => true,
    })
}

/// The kind that a word states, and its rank.
fn kind_of(word: &str) -> Option<(ArtworkKind, u8)> {
    let at = WORDS.iter().position(|(known, _)| word.eq_ignore_ascii_case(known))?;
    Some((WORDS[at].1, at as u8))
}

/// The season of a poster in the folder of a series: `season01-poster`, `season1`, `season-specials-poster`.
fn season_of(stem: &str) -> Option<u32> {
    let lower = stem.to_ascii_lowercase();
    let rest = lower.strip_prefix("season")?;
    let rest = rest.strip_suffix("-poster").unwrap_or(rest);
    if rest == "-specials" {
        return Some(0);
    }
    let is_number = (1..=4).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| rest.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::ArtworkKind::*;
    use super::ArtworkOwner::*;
    use super::*;

    #[test]
    fn names_state_owner_and_kind() {
        for (name, owner, kind) in [
            ("poster.jpg", Folder, Some(Poster)),
            ("Folder.JPG", Folder, Some(Poster)),
            ("cover.png", Folder, Some(Poster)),
            ("fanart.jpeg", Folder, Some(Backdrop)),
            ("backdrop.jpg", Folder, Some(Backdrop)),
            ("landscape.jpg", Folder, Some(Thumbnail)),
            ("clearlogo.png", Folder, Some(Logo)),
            ("logo.SVG", Folder, Some(Logo)),
            ("Alien (1979)-clearlogo.svg", File("Alien (1979)"), Some(Logo)),
            ("Alien (1979)-poster.jpg", File("Alien (1979)"), Some(Poster)),
            ("Spider-Man-fanart.jpg", File("Spider-Man"), Some(Backdrop)),
            ("Lost S01E01-thumb.jpg", File("Lost S01E01"), Some(Thumbnail)),
            ("Lost S01E01.jpg", File("Lost S01E01"), None),
            ("Spider-Man.jpg", File("Spider-Man"), None),
            ("season01-poster.jpg", Season(1), Some(Poster)),
            ("Season12.png", Season(12), Some(Poster)),
            ("season-specials-poster.jpg", Season(0), Some(Poster)),
            ("season00-poster.jpg", Season(0), Some(Poster)),
            ("season-all-poster.jpg", File("season-all"), Some(Poster)),
            ("season01-banner.jpg", File("season01-banner"), None),
            ("-poster.jpg", File("-poster"), None),
        ] {
            let parsed = ArtworkName::parse(name).unwrap();
            assert_eq!((parsed.owner, parsed.kind), (owner, kind), "{name}");
        }
        for name in ["poster.gif", "poster", ".jpg", "poster.jpg.part", "film.mkv", "poster.svg", "film.svg", ""] {
            assert_eq!(ArtworkName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn photos_are_no_artwork() {
        let stems = media_stems(["Film.mkv", "notes.txt", "IMG_1.mp4"].into_iter());
        for (name, expected) in [
            ("film-poster.jpg", true),
            ("IMG_1.jpg", true),
            ("poster.jpg", true),
            ("season1.jpg", true),
            ("IMG_2.jpg", false),
            ("notes.jpg", false),
            ("Other-poster.jpg", false),
            ("film.mkv", false),
        ] {
            assert_eq!(is_artwork(name, &stems), expected, "{name}");
        }
    }

    #[test]
    fn the_more_common_name_wins() {
        let rank = |name| ArtworkName::parse(name).unwrap().rank;
        assert!(rank("poster.jpg") < rank("folder.jpg") && rank("folder.jpg") < rank("cover.jpg"));
        assert!(rank("Alien-poster.jpg") < rank("Alien.jpg"));
    }
}
