//! Parsers of text. Each target also checks what its callers rely on.

use std::path::PathBuf;

use hearthcast::config::Config;
use hearthcast::domain::bitmap_subtitles::VobSubDecoder;
use hearthcast::domain::catalogue::names::Names;
use hearthcast::domain::catalogue::playlist_file::parse_playlist;
use hearthcast::domain::ingest::hls_playlist::HlsPlaylist;
use hearthcast::domain::library::{self, Root};
use hearthcast::domain::m3u::parse::parse_list;
use hearthcast::domain::nfo::Nfo;
use hearthcast::domain::range::{ResolvedRange, resolve_range};
use hearthcast::domain::sniff::MediaKind;
use hearthcast::domain::subtitles::{self, SubtitleFormat};
use hearthcast::domain::xmltv::parse;

/// The first eight bytes are the length of the file, the rest is the header.
pub fn parse_range(bytes: &[u8]) {
    let Some((len, header)) = bytes.split_first_chunk::<8>() else { return };
    let Ok(header) = std::str::from_utf8(header) else { return };
    let len = u64::from_le_bytes(*len);
    if let ResolvedRange::Part(range) = resolve_range(header, len) {
        assert!(range.first <= range.last && range.last < len, "{range:?} of {len}");
    }
}

/// A request's path, and a file name of the library.
pub fn locate_path(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let roots = ["/srv/films", "/srv/films/old", "/srv"];
    let roots = roots.map(|path| Root { id: path.into(), path: PathBuf::from(path) });
    if let Ok(located) = library::locate(roots.iter().enumerate(), text) {
        let relative = &located.relative_path;
        assert!(relative.is_relative() && !relative.iter().any(|part| part == ".."), "{located:?}");
        assert!(PathBuf::from(&located.path).starts_with(&roots[located.root_index].path), "{located:?}");
        let inside = relative.to_string_lossy();
        Names::parse("/srv", &inside, MediaKind::Video);
        Names::parse("/srv", &inside, MediaKind::Audio);
    }
    library::kind_from_name(text);
    if let Some((a, b)) = text.split_once('\n') {
        assert_eq!(library::compare_natural(a, b), library::compare_natural(b, a).reverse(), "{a:?} {b:?}");
    }
}

/// Lists of channels, playlist files of the library, and playlists of external channels.
pub fn parse_lists(bytes: &[u8]) {
    for path in parse_playlist("/srv/music", bytes) {
        assert!(path.starts_with('/'), "{path:?}");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = parse_list(text);
    let _ = HlsPlaylist::parse(text);
}

pub fn parse_guide(bytes: &[u8]) {
    if let Ok(guide) = parse::parse_guide(bytes) {
        let listings: usize = guide.listings.values().map(Vec::len).sum();
        assert!(listings <= guide.programme_count, "{listings} of {}", guide.programme_count);
    }
}

pub fn parse_nfo(bytes: &[u8]) {
    for record in Nfo::parse(bytes).unwrap_or_default() {
        record.weight_bytes();
    }
}

/// Text in each format, written again as WebVTT and SubRip; and VobSub.
pub fn parse_subtitles(bytes: &[u8]) {
    for format in [SubtitleFormat::Srt, SubtitleFormat::WebVtt, SubtitleFormat::Ass] {
        let cues = subtitles::parse(bytes, format);
        assert!(cues.is_sorted_by_key(|cue| cue.start_ms), "{cues:?}");
        let written = subtitles::write_webvtt(&cues);
        subtitles::write_srt(&cues);
        subtitles::parse(written.as_bytes(), SubtitleFormat::WebVtt);
    }
    if let Some((private, packet)) = bytes.split_at_checked(bytes.len() / 2)
        && let Ok(decoder) = VobSubDecoder::parse_private_data(private)
    {
        let _ = decoder.decode(packet);
    }
}

/// The configuration file, as `serve` reads it.
pub fn parse_configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match toml::from_str::<Config>(text) {
        Ok(config) => drop(config.errors()),
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}
