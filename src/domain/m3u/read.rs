//! Parses M3U lists of external channels leniently. Every line that cannot be used is reported with the reason.

use crate::domain::address::{Address, without_credentials};

/// Most entries of one list.
pub const MAX_ENTRIES: usize = 20_000;

/// Most reasons kept; the total is counted beyond that.
pub const MAX_REASONS: usize = 1000;

/// Longest name and longest other text, characters.
const MAX_NAME: usize = 100;
const MAX_TEXT: usize = 500;

/// Most attributes of one entry and of the head.
const MAX_ATTRIBUTES: usize = 64;

/// Most quotes that are looked at to find the end of a value.
const MAX_QUOTES: usize = 64;

/// Most guide URLs of one list.
const MAX_GUIDES: usize = 200;

/// A parsed list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    pub entries: Vec<Entry>,
    /// Guide URLs named by the list.
    pub guides: Vec<Address>,
    pub skipped: Skips,
}

/// One channel of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Line number of its URL, counted from 1.
    pub line: usize,
    pub name: String,
    pub url: Address,
    /// Empty if it has none.
    pub tvg_id: String,
    pub number: Option<u32>,
    pub logo: Option<String>,
    pub groups: Vec<String>,
    pub user_agent: Option<String>,
    /// Correction of its guide's times, ms.
    pub shift_ms: i64,
}

/// Skipped entries and the reasons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skips {
    pub count: usize,
    /// The first [`MAX_REASONS`] of them.
    pub reasons: Vec<Skip>,
}

/// One skipped entry.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Skip {
    pub line: usize,
    pub name: String,
    pub reason: String,
}

impl Skips {
    pub fn add(&mut self, line: usize, name: &str, reason: impl Into<String>) {
        self.count += 1;
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(Skip { line, name: name.to_owned(), reason: reason.into() });
        }
    }
}

/// Tags read for the entry whose URL comes next.
#[derive(Default)]
struct Pending {
    line: usize,
    told: Option<Told>,
    group: Option<String>,
    user_agent: Option<String>,
}

#[derive(Default)]
struct Told {
    name: String,
    attributes: Vec<(String, String)>,
}

/// Parses a list.
///
/// # Errors
/// Why it is not a list of channels, as a phrase without a subject ("is a web page or XML, …").
pub fn read(text: &str) -> Result<List, &'static str> {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if start.starts_with('<') {
        return Err("is a web page or XML, not a list of channels");
    }
    if start
        .lines()
        .take(50)
        .any(|line| line.starts_with("#EXT-X-TARGETDURATION") || line.starts_with("#EXT-X-STREAM-INF"))
    {
        return Err("is the playlist of a single stream, not a list of channels: add it as an external channel");
    }
    let mut list = List::default();
    let mut head = Told::default();
    let mut pending = Pending::default();
    for (at, line) in text.lines().enumerate() {
        let (line, at) = (line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}'), at + 1);
        if line.is_empty() {
            continue;
        }
        let Some(tag) = line.strip_prefix('#') else {
            let pending = std::mem::take(&mut pending);
            address(&mut list, line, at, pending, &head);
            continue;
        };
        let value = |name: &str| {
            let named = tag.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
            if named { Some(tag[name.len()..].trim()) } else { None }
        };
        if let Some(rest) = value("EXTM3U") {
            head.attributes.extend(attributes(rest).0);
            head.attributes.truncate(MAX_ATTRIBUTES);
        } else if let Some(rest) = value("EXTINF:") {
            if let Some(told) = &pending.told {
                list.skipped.add(pending.line, &clean(&told.name, MAX_NAME), "no address follows");
            }
            // Skip the duration, which is meaningless for channels.
            let rest = rest.trim_start_matches(|c: char| !c.is_whitespace() && c != ',');
            let (attributes, name) = attributes(rest);
            pending =
                Pending { line: at, told: Some(Told { name: name.to_owned(), attributes }), ..Pending::default() };
        } else if let Some(rest) = value("EXTGRP:") {
            pending.group = Some(rest.to_owned());
        } else if let Some(rest) = value("EXTVLCOPT:http-user-agent=") {
            pending.user_agent = Some(rest.to_owned());
        }
    }
    if let Some(told) = &pending.told {
        list.skipped.add(pending.line, &clean(&told.name, MAX_NAME), "no address follows");
    }
    for name in ["url-tvg", "x-tvg-url", "tvg-url"] {
        let addresses = head.get(name).unwrap_or_default().split(',').filter_map(|url| Address::read(url.trim()).ok());
        for address in addresses {
            if list.guides.len() < MAX_GUIDES && !list.guides.contains(&address) {
                list.guides.push(address);
            }
        }
    }
    match list.entries.is_empty() && list.skipped.count == 0 {
        true => Err("contains no channels"),
        false => Ok(list),
    }
}

/// A URL ends an entry, with or without tags before it.
fn address(list: &mut List, line: &str, at: usize, pending: Pending, head: &Told) {
    let told = pending.told.unwrap_or_default();
    let get = |name: &str| told.get(name).map(str::trim).filter(|value| !value.is_empty());
    let tvg_id = clean(get("tvg-id").unwrap_or_default(), MAX_TEXT);
    let names = [told.name.as_str(), get("tvg-name").unwrap_or_default(), &tvg_id];
    let name = names.into_iter().map(|name| clean(name, MAX_NAME)).find(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| format!("Unnamed {}", list.entries.len() + 1));
    // Kodi and similar players read the part after the bar as HTTP headers.
    let (url, headers) = line.split_once('|').unwrap_or((line, ""));
    let url = match Address::stream(url) {
        Ok(url) => url,
        Err(why) => {
            let scheme = url.split_once("://").map(|(scheme, _)| scheme);
            let plain = scheme.filter(|scheme| scheme.len() < 12 && scheme.bytes().all(|b| b.is_ascii_alphanumeric()));
            let reason = match plain {
                Some(scheme)
                    if !["http", "https", "srt", "rtsp", "rtsps"].contains(&scheme.to_ascii_lowercase().as_str()) =>
                {
                    format!("its address begins with {scheme}://: only http, https, srt and rtsp are fetched")
                }
                _ => format!("its address {why}"),
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
    let printable = |agent: &String| {
        !agent.is_empty() && agent.len() <= 256 && agent.bytes().all(|byte| (0x20..0x7f).contains(&byte))
    };
    let groups = get("group-title").or(pending.group.as_deref()).unwrap_or_default();
    let groups = groups.split(';').map(|group| clean(group, MAX_NAME)).filter(|group| !group.is_empty()).take(8);
    // The logo is shown to all users and is written to exported playlists.
    let logo = get("tvg-logo").and_then(|logo| Address::read(logo).ok());
    let logo = logo.and_then(|logo| Some(without_credentials(logo.secret().as_str())?.into_owned()));
    let shift = get("tvg-shift").or_else(|| head.get("tvg-shift")).and_then(|hours| hours.trim().parse::<f64>().ok());
    let number = get("tvg-chno").or_else(|| get("channel-number")).and_then(|number| number.parse().ok());
    list.entries.push(Entry {
        line: at,
        name,
        url,
        tvg_id,
        number: number.filter(|number| (1..=99_999).contains(number)),
        logo: logo.filter(|logo| logo.len() <= 2048),
        groups: groups.collect(),
        user_agent: agent.or(pending.user_agent).filter(printable),
        shift_ms: shift.filter(|hours| hours.abs() <= 24.0).map_or(0, |hours| (hours * 3_600_000.0) as i64),
    });
}

impl Told {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Parses `key="value"` pairs, and returns the text after the comma that follows them. Quotes may be single, missing, or
/// inside the value.
fn attributes(text: &str) -> (Vec<(String, String)>, &str) {
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
        let (value, left) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted(&after[1..], quote),
            _ => {
                let end = after.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if found.len() < MAX_ATTRIBUTES {
            found.push((key.to_ascii_lowercase(), value.to_owned()));
        }
        rest = left.trim_start();
    }
}

/// Splits a value at its closing quote: the first that is followed by a space, a comma or the end, otherwise the first.
fn quoted(text: &str, quote: char) -> (&str, &str) {
    let mut first = None;
    for (at, _) in text.match_indices(quote).take(MAX_QUOTES) {
        let behind = &text[at + 1..];
        first.get_or_insert(at);
        if behind.is_empty() || behind.starts_with(|c: char| c == ',' || c.is_whitespace()) {
            return (&text[..at], behind);
        }
    }
    match first {
        Some(at) => (&text[..at], &text[at + 1..]),
        // No closing quote: the value ends at the comma before the name.
        None => text.split_at(text.find(',').unwrap_or(text.len())),
    }
}

/// Removes control characters and other invisible ones, joins whitespace to single spaces, and limits the length.
pub fn clean(text: &str, most: usize) -> String {
    let visible = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffd}'..='\u{ffff}')
    };
    let spaced = |c: char| if c.is_whitespace() { ' ' } else { c };
    let text: String = text.chars().map(spaced).filter(visible).take(most * 4).collect();
    let words = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    words.chars().take(most).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &List) -> Vec<&str> {
        list.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn a_logo_is_taken_without_credentials_or_not_at_all() {
        let text = "#EXTM3U\n\
            #EXTINF:-1 tvg-logo=\"http://ada:secret@i.example/1.png\",One\nhttp://s.example/1.ts\n\
            #EXTINF:-1 tvg-logo=\"http://i.example/2.png?token=secret\",Two\nhttp://s.example/2.ts";
        let logos: Vec<Option<String>> = read(text).unwrap().entries.into_iter().map(|entry| entry.logo).collect();
        assert_eq!(logos, [Some("http://i.example/1.png".to_owned()), None]);
    }

    #[test]
    fn every_quirk_is_read_or_named() {
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
        let list = read(text).unwrap();
        assert_eq!(names(&list), ["One, the \"first\" & only", "Two 日本語", "Unnamed 3", "Unnamed 4", "ABC", "Open"]);
        let (one, two) = (&list.entries[0], &list.entries[1]);
        assert_eq!((one.tvg_id.as_str(), one.number, one.shift_ms), ("one.example", Some(1), -7_200_000));
        assert_eq!(one.groups, ["News", "World"]);
        assert_eq!(one.logo.as_deref(), Some("http://i.example/1.png?a=1&b=2"));
        assert_eq!((two.tvg_id.as_str(), two.shift_ms, two.groups[0].as_str()), ("two.example", 5_400_000, "bare"));
        assert_eq!(two.user_agent.as_deref(), Some("X Y"));
        assert_eq!(two.url.secret().as_str(), "http://s.example/two.ts");
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
        assert_eq!(list.guides.len(), 2);
    }

    #[test]
    fn what_is_no_list_says_what_it_is() {
        assert!(read("<!doctype html><p>Please sign in").unwrap_err().contains("page"));
        assert!(read("#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\na.ts\n").unwrap_err().contains("single stream"));
        for nothing in ["", "\n\n", "#EXTM3U\n", "#EXTM3U\n# a note\n"] {
            assert_eq!(read(nothing).unwrap_err(), "contains no channels");
        }
    }

    #[test]
    fn attributes_and_quotes_are_limited() {
        assert_eq!(quoted(&"x\"".repeat(MAX_QUOTES), '"').1, "");
        assert_eq!(quoted(&"x\"".repeat(MAX_QUOTES + 1), '"').0, "x");
        for (count, guides) in [(MAX_ATTRIBUTES - 1, 1), (MAX_ATTRIBUTES, 0)] {
            let text = format!(
                "#EXTM3U{}\n#EXTM3U url-tvg=\"http://epg.example/a.xml\"\nhttp://s.example/1.ts",
                " a=1".repeat(count)
            );
            assert_eq!(read(&text).unwrap().guides.len(), guides, "{count} attributes before it");
        }
    }

    #[test]
    fn hostile_lists_are_bounded() {
        let many: String =
            (0..MAX_ENTRIES + 5000).map(|n| format!("#EXTINF:-1,C{n}\nhttp://a.example/{n}\n")).collect();
        let list = read(&format!("#EXTM3U\n{many}")).unwrap();
        assert_eq!((list.entries.len(), list.skipped.count), (MAX_ENTRIES, 5000));
        assert_eq!(list.skipped.reasons.len(), MAX_REASONS);
        let long = format!("#EXTINF:-1 a=\"{}\",{}\nhttp://a.example/\n", "x\"".repeat(200_000), "n".repeat(200_000));
        assert_eq!(read(&long).unwrap().entries[0].name.len(), MAX_NAME);
        for text in ["#EXTINF:", "#EXTINF:-1 a", "#EXTINF:-1 a=", "#EXTINF:-1 a=\"", "#EXTINF:-1 ='", "#EXTINF:é=é,é"]
        {
            assert_eq!(read(text).unwrap().skipped.count, 1, "{text}");
        }
    }
}
