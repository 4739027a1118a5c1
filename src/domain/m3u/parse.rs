//! Parses M3U lists of external channels leniently. Every line that cannot be used is reported with the reason.

use crate::domain::address::{Address, without_credentials};

/// Most entries of one list.
pub const MAX_ENTRIES: usize = 20_000;

/// Most reasons kept; the total is counted beyond that.
pub const MAX_REASONS: usize = 1000;

/// Longest name and longest other text, characters.
const MAX_NAME_CHARS: usize = 100;
const MAX_TEXT_CHARS: usize = 500;

/// Most attributes of one entry and of the head.
const MAX_ATTRIBUTES: usize = 64;

/// Most quotes that are looked at to find the end of a value.
const MAX_QUOTES: usize = 64;

/// Most guide URLs of one list.
const MAX_GUIDES: usize = 200;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct M3uList {
    pub entries: Vec<M3uEntry>,
    pub guide_urls: Vec<Address>,
    pub skipped: SkippedEntries,
}

/// One channel of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct M3uEntry {
    /// Line number of its URL, counted from 1.
    pub line: usize,
    pub name: String,
    pub url: Address,
    /// Empty if it has none.
    pub tvg_id: String,
    pub channel_number: Option<u32>,
    pub logo_url: Option<String>,
    pub groups: Vec<String>,
    pub user_agent: Option<String>,
    /// Correction of its guide's times, ms.
    pub guide_shift_ms: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkippedEntries {
    pub count: usize,
    /// The first [`MAX_REASONS`] of them.
    pub reasons: Vec<SkippedEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SkippedEntry {
    pub line: usize,
    pub name: String,
    pub reason: String,
}

impl SkippedEntries {
    pub fn add(&mut self, line: usize, name: &str, reason: impl Into<String>) {
        self.count += 1;
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(SkippedEntry { line, name: name.to_owned(), reason: reason.into() });
        }
    }
}

/// Tags read for the entry whose URL comes next.
#[derive(Default)]
struct PendingEntry {
    line: usize,
    extinf: Option<TagAttributes>,
    group: Option<String>,
    user_agent: Option<String>,
}

#[derive(Default)]
struct TagAttributes {
    name: String,
    attributes: Vec<(String, String)>,
}

/// Parses a list. The error is why it is not a list of channels, as a phrase without a subject ("is a web page or XML, …").
pub fn parse_list(text: &str) -> Result<M3uList, &'static str> {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if start.starts_with('<') {
        return Err("is a web page or XML, not a list of channels");
    }
    let hls_tags = ["#EXT-X-TARGETDURATION", "#EXT-X-STREAM-INF"];
    if start.lines().take(50).any(|line| hls_tags.iter().any(|tag| line.starts_with(tag))) {
        return Err("is the playlist of a single stream, not a list of channels: add it as an external channel");
    }
    let mut list = M3uList::default();
    let (mut header, mut pending) = (TagAttributes::default(), PendingEntry::default());
    for (at, line) in text.lines().enumerate() {
        let (line, at) = (line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}'), at + 1);
        if line.is_empty() {
            continue;
        }
        let Some(tag) = line.strip_prefix('#') else {
            let pending = std::mem::take(&mut pending);
            push_entry(&mut list, line, at, pending, &header);
            continue;
        };
        let value = |name: &str| {
            let named = tag.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
            if named { Some(tag[name.len()..].trim()) } else { None }
        };
        if let Some(rest) = value("EXTM3U") {
            header.attributes.extend(parse_attributes(rest).0);
            header.attributes.truncate(MAX_ATTRIBUTES);
        } else if let Some(rest) = value("EXTINF:") {
            if let Some(extinf) = &pending.extinf {
                list.skipped.add(pending.line, &clean_text(&extinf.name, MAX_NAME_CHARS), "no address follows");
            }
            // Skip the duration, which is meaningless for channels.
            let rest = rest.trim_start_matches(|c: char| !c.is_whitespace() && c != ',');
            let (attributes, name) = parse_attributes(rest);
            let extinf = Some(TagAttributes { name: name.to_owned(), attributes });
            pending = PendingEntry { line: at, extinf, ..PendingEntry::default() };
        } else if let Some(rest) = value("EXTGRP:") {
            pending.group = Some(rest.to_owned());
        } else if let Some(rest) = value("EXTVLCOPT:http-user-agent=") {
            pending.user_agent = Some(rest.to_owned());
        }
    }
    if let Some(extinf) = &pending.extinf {
        list.skipped.add(pending.line, &clean_text(&extinf.name, MAX_NAME_CHARS), "no address follows");
    }
    for name in ["url-tvg", "x-tvg-url", "tvg-url"] {
        let urls = header.attribute(name).unwrap_or_default().split(',');
        for address in urls.filter_map(|url| Address::parse(url.trim()).ok()) {
            if list.guide_urls.len() < MAX_GUIDES && !list.guide_urls.contains(&address) {
                list.guide_urls.push(address);
            }
        }
    }
    let is_empty = list.entries.is_empty() && list.skipped.count == 0;
    if is_empty { Err("contains no channels") } else { Ok(list) }
}

/// A URL ends an entry, with or without tags before it.
fn push_entry(list: &mut M3uList, line: &str, at: usize, pending: PendingEntry, list_header: &TagAttributes) {
    let extinf = pending.extinf.unwrap_or_default();
    let get = |name: &str| extinf.attribute(name).map(str::trim).filter(|value| !value.is_empty());
    let tvg_id = clean_text(get("tvg-id").unwrap_or_default(), MAX_TEXT_CHARS);
    let names = [extinf.name.as_str(), get("tvg-name").unwrap_or_default(), &tvg_id];
    let name = names.into_iter().map(|name| clean_text(name, MAX_NAME_CHARS)).find(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| format!("Unnamed {}", list.entries.len() + 1));
    // Kodi and similar players read the part after the bar as HTTP headers.
    let (url, headers) = line.split_once('|').unwrap_or((line, ""));
    let url = match Address::parse_stream(url) {
        Ok(url) => url,
        Err(fault) => {
            const SCHEMES: [&str; 5] = ["http", "https", "srt", "rtsp", "rtsps"];
            let scheme = url.split_once("://").map(|(scheme, _)| scheme);
            let scheme = scheme.filter(|name| name.len() < 12 && name.bytes().all(|b| b.is_ascii_alphanumeric()));
            let reason = match scheme {
                Some(scheme) if !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => {
                    format!("its address begins with {scheme}://: only http, https, srt and rtsp are fetched")
                }
                _ => format!("its address {fault}"),
            };
            return list.skipped.add(at, &name, reason);
        }
    };
    if list.entries.len() >= MAX_ENTRIES {
        return list.skipped.add(at, &name, format!("only the first {MAX_ENTRIES} channels of a list are imported"));
    }
    let agent = headers.split('&').find_map(|header| {
        let (name, value) = header.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
        name.eq_ignore_ascii_case("user-agent").then_some(value)
    });
    let is_printable = |agent: &String| {
        !agent.is_empty() && agent.len() <= 256 && agent.bytes().all(|byte| (0x20..0x7f).contains(&byte))
    };
    let groups = get("group-title").or(pending.group.as_deref()).unwrap_or_default();
    let groups =
        groups.split(';').map(|group| clean_text(group, MAX_NAME_CHARS)).filter(|group| !group.is_empty()).take(8);
    // The logo is shown to all users and is written to exported playlists.
    let logo = get("tvg-logo").and_then(|logo| Address::parse(logo).ok());
    let logo = logo.and_then(|logo| Some(without_credentials(logo.full_url().as_str())?.into_owned()));
    let shift = get("tvg-shift").or_else(|| list_header.attribute("tvg-shift"));
    let shift = shift.and_then(|hours| hours.trim().parse::<f64>().ok());
    let number = get("tvg-chno").or_else(|| get("channel-number")).and_then(|number| number.parse().ok());
    list.entries.push(M3uEntry {
        line: at,
        name,
        url,
        tvg_id,
        channel_number: number.filter(|number| (1..=99_999).contains(number)),
        logo_url: logo.filter(|logo| logo.len() <= 2048),
        groups: groups.collect(),
        user_agent: agent.or(pending.user_agent).filter(is_printable),
        guide_shift_ms: shift.filter(|hours| hours.abs() <= 24.0).map_or(0, |hours| (hours * 3_600_000.0) as i64),
    });
}

impl TagAttributes {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Parses `key="value"` pairs, and returns the text after the comma that follows them. Quotes may be single, missing, or
/// inside the value.
fn parse_attributes(text: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(name) = rest.strip_prefix(',') {
            return (found, name.trim());
        }
        let word = rest.find(|c: char| c == '=' || c == ',' || c.is_whitespace());
        let Some(end) = word else { return (found, "") };
        let key = &rest[..end];
        if !rest[end..].starts_with('=') || key.is_empty() {
            rest = rest[end..].trim_start();
            // Skip a stray `=`, so that every iteration consumes something.
            rest = rest.strip_prefix('=').map_or(rest, str::trim_start);
            continue;
        }
        let after = &rest[end + 1..];
        let (value, remainder) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => split_quoted(&after[1..], quote),
            _ => {
                let end = after.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if found.len() < MAX_ATTRIBUTES {
            found.push((key.to_ascii_lowercase(), value.to_owned()));
        }
        rest = remainder.trim_start();
    }
}

/// Splits a value at its closing quote: the first that is followed by a space, a comma or the end, otherwise the first.
fn split_quoted(text: &str, quote: char) -> (&str, &str) {
    let mut first = None;
    for (at, _) in text.match_indices(quote).take(MAX_QUOTES) {
        let after = &text[at + 1..];
        first.get_or_insert(at);
        if after.is_empty() || after.starts_with(|c: char| c == ',' || c.is_whitespace()) {
            return (&text[..at], after);
        }
    }
    match first {
        Some(at) => (&text[..at], &text[at + 1..]),
        // No closing quote: the value ends at the comma before the name.
        None => text.split_at(text.find(',').unwrap_or(text.len())),
    }
}

/// Removes control characters and other invisible ones, joins whitespace to single spaces, and limits the length.
pub fn clean_text(text: &str, max_chars: usize) -> String {
    let visible = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffd}'..='\u{ffff}')
    };
    let spaced = |c: char| if c.is_whitespace() { ' ' } else { c };
    let text: String = text.chars().map(spaced).filter(visible).take(max_chars * 4).collect();
    let words = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    words.chars().take(max_chars).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &M3uList) -> Vec<&str> {
        list.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn a_logo_is_taken_without_credentials_or_not_at_all() {
        let text = "#EXTM3U\n\
            #EXTINF:-1 tvg-logo=\"http://ada:secret@i.example/1.png\",One\nhttp://s.example/1.ts\n\
            #EXTINF:-1 tvg-logo=\"http://i.example/2.png?token=secret\",Two\nhttp://s.example/2.ts";
        let logos: Vec<Option<String>> =
            parse_list(text).unwrap().entries.into_iter().map(|entry| entry.logo_url).collect();
        assert_eq!(logos, [Some("http://i.example/1.png".to_owned()), None]);
    }

    #[test]
    fn every_quirk_is_parsed_or_reported() {
        let text = "\u{feff}#EXTM3U url-tvg=\"http://epg.example/a.xml.gz, http://epg.example/b.xml\" tvg-shift=-2\r\n\
            #EXTINF:-1 tvg-id=\"one.example\" tvg-name=\"One HD\" tvg-chno=\"1\" tvg-logo=\"http://i.example/1.png?a=1&b=2\" group-title=\"News;World\",One, the \"first\" & only\r\n\
            http://s.example/one.m3u8\r\n\
            #EXTINF:-1 tvg-id='two.example' tvg-name='it's' group-title=bare tvg-shift=\"+1.5\",Two 日本語\r\n\
            #EXTGRP:Other group\r\n#EXTVLCOPT:http-user-agent=Mozilla/5.0 (X11)\r\n#KODIPROP:a=b\r\n#123\r\n\
            http://s.example/two.ts|User-Agent=X%20Y&Referer=http%3A%2F%2Fr.example\r\n\
            #EXTINF:-1,No address follows\r\n#EXTINF:-1,\r\n#EXTVLCOPT:http-user-agent=Player\r\nhttp://s.example/unnamed.ts\r\n\
            http://s.example/bare.ts\r\n\
            #EXTINF:notanumber tvg-id=,Bad length\r\nudp://@239.0.0.1:1234\r\n\
            #extinf:0 tvg-name=\"A, \"B\" C\" radio=\"true\",A\u{7}\u{202e}B\u{0}C\r\nhttp://s.example/c\r\n\
            #EXTINF:-1 tvg-name=\"never ends,Open\r\nhttp://s.example/d\r\n\
            #EXTINF:-1 = == ,Signs\r\nnot an address\r\n\
            #EXTINF:-1,Last";
        let list = parse_list(text).unwrap();
        assert_eq!(names(&list), ["One, the \"first\" & only", "Two 日本語", "Unnamed 3", "Unnamed 4", "ABC", "Open"]);
        let (one, two) = (&list.entries[0], &list.entries[1]);
        assert_eq!((one.tvg_id.as_str(), one.channel_number, one.guide_shift_ms), ("one.example", Some(1), -7_200_000));
        assert_eq!(one.groups, ["News", "World"]);
        assert_eq!(one.logo_url.as_deref(), Some("http://i.example/1.png?a=1&b=2"));
        let found = (two.tvg_id.as_str(), two.guide_shift_ms, two.groups[0].as_str());
        assert_eq!(found, ("two.example", 5_400_000, "bare"));
        assert_eq!(two.user_agent.as_deref(), Some("X Y"));
        assert_eq!(two.url.full_url().as_str(), "http://s.example/two.ts");
        assert_eq!(list.entries[2].user_agent.as_deref(), Some("Player"));
        let reasons: Vec<(&str, &str)> =
            list.skipped.reasons.iter().map(|skip| (skip.name.as_str(), skip.reason.as_str())).collect();
        assert_eq!(
            reasons,
            [
                ("No address follows", "no address follows"),
                ("Bad length", "its address begins with udp://: only http, https, srt and rtsp are fetched"),
                ("Signs", "its address must be an address, e.g. https://tv.example/live.m3u8"),
                ("Last", "no address follows"),
            ]
        );
        assert_eq!(list.guide_urls.len(), 2);
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        assert!(parse_list("<!doctype html><p>Please sign in").unwrap_err().contains("page"));
        let hls = "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\na.ts\n";
        assert!(parse_list(hls).unwrap_err().contains("single stream"));
        for empty in ["", "\n\n", "#EXTM3U\n", "#EXTM3U\n# a note\n"] {
            assert_eq!(parse_list(empty).unwrap_err(), "contains no channels");
        }
    }

    #[test]
    fn attributes_and_quotes_are_limited() {
        assert_eq!(split_quoted(&"x\"".repeat(MAX_QUOTES), '"').1, "");
        assert_eq!(split_quoted(&"x\"".repeat(MAX_QUOTES + 1), '"').0, "x");
        for (count, guides) in [(MAX_ATTRIBUTES - 1, 1), (MAX_ATTRIBUTES, 0)] {
            let before = " a=1".repeat(count);
            let text = format!("#EXTM3U{before}\n#EXTM3U url-tvg=\"http://epg.example/a.xml\"\nhttp://s.example/1.ts");
            assert_eq!(parse_list(&text).unwrap().guide_urls.len(), guides, "{count} attributes before it");
        }
    }

    #[test]
    fn hostile_lists_are_bounded() {
        let many: String =
            (0..MAX_ENTRIES + 5000).map(|n| format!("#EXTINF:-1,C{n}\nhttp://a.example/{n}\n")).collect();
        let list = parse_list(&format!("#EXTM3U\n{many}")).unwrap();
        assert_eq!((list.entries.len(), list.skipped.count), (MAX_ENTRIES, 5000));
        assert_eq!(list.skipped.reasons.len(), MAX_REASONS);
        let long = format!("#EXTINF:-1 a=\"{}\",{}\nhttp://a.example/\n", "x\"".repeat(200_000), "n".repeat(200_000));
        assert_eq!(parse_list(&long).unwrap().entries[0].name.len(), MAX_NAME_CHARS);
        for text in ["#EXTINF:", "#EXTINF:-1 a", "#EXTINF:-1 a=", "#EXTINF:-1 a=\"", "#EXTINF:-1 ='", "#EXTINF:é=é,é"]
        {
            assert_eq!(parse_list(text).unwrap().skipped.count, 1, "{text}");
        }
    }
}
