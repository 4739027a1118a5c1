//! Playlist files of music players (M3U and PLS): the files that they list.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::domain::subtitles::charset::decode;

/// Longest playlist file that is read, bytes.
pub const MAX_PLAYLIST_BYTES: usize = 1 << 20;

/// Most files of one playlist; the first ones count.
pub const MAX_PLAYLIST_FILES: usize = 5000;

/// Longest path in a playlist, bytes.
const MAX_PATH_BYTES: usize = 4096;

/// Whether a file is a playlist by its name.
pub fn is_playlist_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    extension.is_some_and(|extension| ["m3u", "m3u8", "pls"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The absolute paths that a playlist in `folder` lists, in its order, each once. Addresses of streams are left out; an HLS playlist
/// has none.
pub fn parse_playlist(folder: &str, bytes: &[u8]) -> Vec<String> {
    let text = decode(&bytes[..bytes.len().min(MAX_PLAYLIST_BYTES)]);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if lines().any(|line| line.starts_with("#EXT-X-")) {
        return Vec::new();
    }
    let is_pls = lines().next().is_some_and(|first| first.eq_ignore_ascii_case("[playlist]"));
    let locations: Vec<&str> = match is_pls {
        true => pls_locations(lines()),
        false => lines().filter(|line| !line.starts_with('#')).collect(),
    };
    let mut seen = std::collections::HashSet::new();
    let paths = locations.into_iter().filter_map(|location| resolve(folder, location));
    paths.filter(|path| seen.insert(path.clone())).take(MAX_PLAYLIST_FILES).collect()
}

/// The values of `File1=`, `File2=` and so on, by number.
fn pls_locations<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut files: Vec<(u32, &str)> = lines
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let number =
                key.trim().get(..4).filter(|word| word.eq_ignore_ascii_case("file")).map(|_| &key.trim()[4..])?;
            Some((number.parse().ok()?, value.trim()))
        })
        .collect();
    files.sort_by_key(|(number, _)| *number);
    files.into_iter().map(|(_, location)| location).collect()
}

/// The absolute path of a location: a path, relative to the folder or absolute, or a `file:` URL.
fn resolve(folder: &str, location: &str) -> Option<String> {
    let location = match location.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
            let path = rest.strip_prefix("//").map_or(rest, |rest| rest.strip_prefix("localhost").unwrap_or(rest));
            percent_decode_str(path).decode_utf8().ok()?
        }
        _ if location.contains("://") => return None,
        // Players on Windows write backslashes.
        _ if !location.contains('/') && location.contains('\\') => Cow::Owned(location.replace('\\', "/")),
        _ => Cow::Borrowed(location),
    };
    if location.len() > MAX_PATH_BYTES {
        return None;
    }
    let mut parts: Vec<&str> = if location.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in location.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    (!parts.is_empty()).then(|| format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playlists_of_all_players_list_their_files() {
        let m3u = "\u{feff}#EXTM3U\r\n#EXTINF:215,ABBA - Gold\r\nABBA/01 Gold.mp3\r\n\r\n./../Other/b.flac\r\n/lib/c.mp3\n\
            file:///lib/d%20e.mp3\nFILE://localhost/lib/f.mp3\nhttp://s.example/live.mp3\nABBA\\02 Water.mp3\nABBA/01 Gold.mp3\n";
        let expected = [
            "/lib/Lists/ABBA/01 Gold.mp3",
            "/lib/Other/b.flac",
            "/lib/c.mp3",
            "/lib/d e.mp3",
            "/lib/f.mp3",
            "/lib/Lists/ABBA/02 Water.mp3",
        ];
        assert_eq!(parse_playlist("/lib/Lists", m3u.as_bytes()), expected);
        let pls =
            "[playlist]\nFile2=b.mp3\nTitle1=A=B\nFile10=c=d.mp3\nfile1 = a.mp3\nFiles=x\nFileX=y\nNumberOfEntries=3\n";
        assert_eq!(parse_playlist("/l", pls.as_bytes()), ["/l/a.mp3", "/l/b.mp3", "/l/c=d.mp3"]);
        assert_eq!(parse_playlist("/l", b"Am\xe9lie.mkv"), ["/l/Am\u{e9}lie.mkv"], "Windows-1252");
    }

    #[test]
    fn other_files_and_hostile_ones_list_nothing_outside() {
        for text in ["", "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\na.ts\n", "../../..", "/", "file://%ff"] {
            assert_eq!(parse_playlist("/l/m", text.as_bytes()), Vec::<String>::new(), "{text}");
        }
        let many = (0..2 * MAX_PLAYLIST_FILES).map(|n| format!("{n}.mp3\n")).collect::<String>();
        assert_eq!(parse_playlist("/l", many.as_bytes()).len(), MAX_PLAYLIST_FILES);
        assert!(parse_playlist("/l", "x".repeat(MAX_PATH_BYTES + 1).as_bytes()).is_empty());
    }

    #[test]
    fn playlists_are_known_by_their_names() {
        assert!(["a.m3u", "B.M3U8", "c.pls"].into_iter().all(is_playlist_name));
        assert!(!["m3u", ".m3u", "a.m3u.part", "a.mp3"].into_iter().any(is_playlist_name));
    }
}
