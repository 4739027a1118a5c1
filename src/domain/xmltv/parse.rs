//! Imported guides (XMLTV), read leniently and piece by piece.
//!
//! No document type declaration is interpreted: no entity is expanded (XXE, billion laughs), no file and no address is opened.
//! Everything is bounded, against decompression bombs too: the whole, one piece of markup, one text, the number of programmes,
//! the depth.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use flate2::bufread::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::time_parsing::{parse_episode, parse_time};
use crate::domain::address::{Address, without_credentials};
use crate::domain::listing::Listing;
use crate::domain::m3u::parse::{SkippedEntries, clean_text};

mod reader;

use reader::LimitedReader;

/// Most programmes, most channels, and most bytes of all their texts.
pub const MAX_PROGRAMMES: usize = 200_000;
const MAX_CHANNELS: usize = 20_000;
const MAX_TEXT_BYTES: usize = 64 << 20;

/// Longest texts, characters; most categories of a programme.
const MAX_TITLE_CHARS: usize = 300;
const MAX_DESCRIPTION_CHARS: usize = 2000;
const MAX_CATEGORIES: usize = 8;

/// Longest address of an image, and most bytes of those of all channels with their ids.
const MAX_ICON_BYTES: usize = 2048;
pub const MAX_CHANNEL_ICON_BYTES: usize = 1 << 20;

const MAX_DEPTH: usize = 10_000;

#[derive(Debug, Default)]
pub struct XmltvGuide {
    /// Names of the declared channels, by channel id.
    pub channel_names: BTreeMap<String, String>,
    /// Addresses of their icons on other servers, by channel id.
    pub channel_icons: BTreeMap<String, String>,
    /// Programmes by channel id, in the guide's own order.
    pub listings: BTreeMap<String, Vec<Listing>>,
    pub programme_count: usize,
    pub skipped: SkippedEntries,
}

/// Parses a guide, compressed with gzip or not. The error is why it is not one, as a phrase without a subject ("is not
/// XMLTV: …").
pub fn parse_guide(bytes: &[u8]) -> Result<XmltvGuide, String> {
    let mut parser = GuideParser::default();
    let outcome = match Encoding::for_bom(bytes) {
        _ if bytes.starts_with(&[0x1f, 0x8b]) => {
            parser.parse_all(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(bytes)))
        }
        Some((encoding, skip)) if encoding != UTF_8 => {
            let (text, _) = encoding.decode_without_bom_handling(&bytes[skip..]);
            parser.is_decoded = true;
            parser.parse_all(text.as_bytes())
        }
        found => parser.parse_all(&bytes[found.map_or(0, |(_, skip)| skip)..]),
    };
    outcome.map(|()| parser.guide)
}

#[derive(Default)]
struct GuideParser {
    guide: XmltvGuide,
    /// None is UTF-8.
    encoding: Option<&'static Encoding>,
    /// The text is already decoded, so its encoding declaration does not count.
    is_decoded: bool,
    has_started: bool,
    has_ended: bool,
    open_programme: Option<OpenProgramme>,
    open_channel: Option<String>,
    in_rating: bool,
    /// Name of the element whose text is read.
    open_field: Option<Vec<u8>>,
    /// Attribute of the field: the system of an episode number, or the unit of a length.
    field_attribute: String,
    field_text: String,
    text_bytes: usize,
    channel_icon_bytes: usize,
}

/// A programme whose end tag has not been read yet.
#[derive(Default)]
struct OpenProgramme {
    line: usize,
    channel: String,
    start: String,
    stop: String,
    clump_index: String,
    length_ms: i64,
    listing: Listing,
}

impl GuideParser {
    fn parse_all(&mut self, bytes: impl BufRead) -> Result<(), String> {
        let mut reader = Reader::from_reader(LimitedReader::new(bytes));
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let (mut buffer, mut depth) = (Vec::new(), 0usize);
        loop {
            buffer.clear();
            reader.get_mut().markup_bytes = 0;
            let line = reader.get_ref().line;
            let mut fault = None;
            match reader.read_event_into(&mut buffer) {
                Ok(Event::Eof) => break,
                Ok(Event::Start(tag)) => {
                    depth += 1;
                    self.start_element(&tag, line);
                    fault = (depth > MAX_DEPTH).then(|| "elements are nested too deep".to_owned());
                }
                Ok(Event::End(tag)) => {
                    depth = depth.saturating_sub(1);
                    self.end_element(tag.local_name().as_ref());
                }
                Ok(Event::Empty(tag)) => {
                    self.start_element(&tag, line);
                    self.end_element(tag.local_name().as_ref());
                }
                Ok(Event::Text(text)) => self.append_text(&text),
                Ok(Event::CData(text)) => self.append_text(&text),
                Ok(Event::GeneralRef(name)) => self.append_reference(&name),
                Ok(Event::Decl(decl)) => {
                    if let Some(Ok(label)) = decl.encoding().filter(|_| !self.is_decoded) {
                        self.encoding = Encoding::for_label(&label);
                    }
                }
                Ok(Event::Comment(_) | Event::PI(_) | Event::DocType(_)) => {}
                Err(cause) => fault = Some(cause.to_string()),
            }
            if let Some(fault) = fault {
                if !self.has_started {
                    return Err(format!("is not XMLTV: {fault}"));
                }
                self.finish_programme();
                let reason = format!("the rest is skipped: {}", clean_text(&fault, MAX_TITLE_CHARS));
                self.guide.skipped.add(line, "", reason);
                return Ok(());
            }
        }
        if !self.has_started {
            return Err("is not XMLTV: it has no tv element".to_owned());
        }
        if !self.has_ended {
            let line = reader.get_ref().line;
            self.guide.skipped.add(line, "", "the guide is cut off: </tv> is missing");
        }
        self.finish_programme();
        Ok(())
    }

    fn start_element(&mut self, tag: &BytesStart<'_>, line: usize) {
        let local = tag.local_name();
        let name = local.as_ref();
        let get = |name: &[u8]| self.attribute(tag, name);
        match name {
            b"tv" => self.has_started = true,
            b"programme" if self.has_started => {
                let open = OpenProgramme {
                    line,
                    channel: get(b"channel"),
                    start: get(b"start"),
                    stop: get(b"stop"),
                    clump_index: get(b"clumpidx"),
                    ..OpenProgramme::default()
                };
                self.finish_programme();
                self.open_programme = Some(open);
            }
            b"channel" if self.has_started && self.open_programme.is_none() => self.open_channel = Some(get(b"id")),
            b"rating" => self.in_rating = true,
            b"icon" => {
                let url = self.limited_attribute(tag, b"src", MAX_ICON_BYTES);
                let is_of_programme = |open: &&mut OpenProgramme| open.listing.icon_url.is_none();
                if let Some(open) = self.open_programme.as_mut().filter(is_of_programme).filter(|_| !self.in_rating) {
                    open.listing.icon_url = icon_url(&url);
                }
                self.store_channel_icon(&url);
            }
            b"previously-shown" => {
                if let Some(open) = &mut self.open_programme {
                    open.listing.is_repeat = true;
                }
            }
            _ => {}
        }
        let is_field = match name {
            b"title" | b"sub-title" | b"desc" | b"category" | b"date" | b"episode-num" | b"length" => {
                self.open_programme.is_some()
            }
            b"value" => self.in_rating && self.open_programme.is_some(),
            name => name == b"display-name",
        };
        if self.open_field.is_none() && is_field {
            self.field_attribute = match name {
                b"episode-num" => self.attribute(tag, b"system"),
                b"length" => self.attribute(tag, b"units"),
                _ => String::new(),
            };
            self.open_field = Some(name.to_vec());
            self.field_text.clear();
        }
    }

    fn end_element(&mut self, name: &[u8]) {
        if self.open_field.take_if(|opened| opened == name).is_some() {
            self.store_field(name);
        }
        match name {
            b"programme" => self.finish_programme(),
            b"channel" => self.open_channel = None,
            b"tv" => self.has_ended = true,
            b"rating" => self.in_rating = false,
            _ => {}
        }
    }

    /// Stores the icon of the open channel. Of several, the first one counts.
    fn store_channel_icon(&mut self, url: &str) {
        let Some(id) = self.open_channel.as_ref().filter(|id| !self.guide.channel_icons.contains_key(*id)) else {
            return;
        };
        let Some(url) = icon_url(url) else { return };
        let size = self.channel_icon_bytes + id.len() + url.len();
        if size <= MAX_CHANNEL_ICON_BYTES && self.guide.channel_icons.len() < MAX_CHANNELS {
            self.channel_icon_bytes = size;
            self.guide.channel_icons.insert(id.clone(), url);
        }
    }

    fn store_field(&mut self, name: &[u8]) {
        let max_chars = if name == b"desc" { MAX_DESCRIPTION_CHARS } else { MAX_TITLE_CHARS };
        let text = clean_text(&self.field_text, max_chars);
        if text.is_empty() {
            return;
        }
        if name == b"display-name" {
            if let Some(id) = self.open_channel.as_ref().filter(|_| self.guide.channel_names.len() < MAX_CHANNELS) {
                self.guide.channel_names.entry(id.clone()).or_insert(text);
            }
            return;
        }
        let Some(open) = &mut self.open_programme else { return };
        let listing = &mut open.listing;
        // If a field is given in several languages, the first one counts.
        match name {
            b"title" if listing.title.is_empty() => listing.title = text,
            b"sub-title" if listing.subtitle.is_none() => listing.subtitle = Some(text),
            b"desc" if listing.description.is_empty() => listing.description = text,
            b"category" if listing.categories.len() < MAX_CATEGORIES && !listing.categories.contains(&text) => {
                listing.categories.push(text);
            }
            b"date" => {
                let year = text.get(..4).and_then(|year| year.parse().ok());
                listing.year = listing.year.or(year).filter(|year| (1870..2200).contains(year));
            }
            b"episode-num" => {
                let (season, number) = parse_episode(&self.field_attribute, &text);
                listing.season = listing.season.or(season);
                listing.episode = listing.episode.or(number);
            }
            b"value" if listing.rating.is_none() => listing.rating = Some(text),
            b"length" => {
                let unit = match self.field_attribute.as_str() {
                    "hours" => 3_600_000,
                    "minutes" => 60_000,
                    _ => 1000,
                };
                open.length_ms = text.parse::<i64>().ok().filter(|n| (1..100_000).contains(n)).map_or(0, |n| n * unit);
            }
            _ => {}
        }
    }

    /// Ends the open programme: adds it to the guide, or skips it with a reason.
    fn finish_programme(&mut self) {
        (self.open_field, self.in_rating) = (None, false);
        let Some(open) = self.open_programme.take() else { return };
        let OpenProgramme { line, channel, start, stop, clump_index: clump, length_ms, mut listing } = open;
        let title = listing.title.clone();
        let mut skip_programme = |reason: &str| self.guide.skipped.add(line, &title, reason);
        let channel = clean_text(&channel, MAX_TITLE_CHARS);
        if channel.is_empty() {
            return skip_programme("has no channel attribute");
        }
        let Some(mut start_ms) = parse_time(&start) else { return skip_programme("has no valid start time") };
        let mut end_ms = parse_time(&stop).unwrap_or(start_ms + length_ms);
        if !stop.trim().is_empty() && end_ms < start_ms {
            return skip_programme("stops before it starts");
        }
        if !stop.trim().is_empty() && end_ms == start_ms {
            return skip_programme("has no length");
        }
        // Several programmes share one slot of the broadcaster: each gets its part.
        let clump = clump.split_once('/').and_then(|(n, of)| Some((n.parse::<i64>().ok()?, of.parse::<i64>().ok()?)));
        if let Some((n, of)) = clump.filter(|(n, of)| (0..*of).contains(n) && *of <= 100) {
            let slot_ms = end_ms - start_ms;
            (start_ms, end_ms) = (start_ms + slot_ms * n / of, start_ms + slot_ms * (n + 1) / of);
        }
        let texts = [&listing.title, &listing.description].into_iter().chain(&listing.subtitle).chain(&listing.rating);
        let texts = texts.chain(&listing.icon_url);
        let size: usize = texts.chain(&listing.categories).map(String::len).sum();
        if self.guide.programme_count >= MAX_PROGRAMMES || self.text_bytes + size > MAX_TEXT_BYTES {
            return skip_programme("exceeds the largest guide that is imported");
        }
        if !self.guide.listings.contains_key(&channel) && self.guide.listings.len() >= MAX_CHANNELS {
            return skip_programme("exceeds the most channels that are imported");
        }
        if listing.title.is_empty() {
            // It is on air even without a title.
            "Untitled".clone_into(&mut listing.title);
        }
        (listing.start_ms, listing.end_ms) = (start_ms, end_ms);
        self.text_bytes += size;
        self.guide.programme_count += 1;
        self.guide.listings.entry(channel).or_default().push(listing);
    }

    fn attribute(&self, tag: &BytesStart<'_>, name: &[u8]) -> String {
        self.limited_attribute(tag, name, MAX_TITLE_CHARS)
    }

    fn limited_attribute(&self, tag: &BytesStart<'_>, name: &[u8], max_chars: usize) -> String {
        let found = tag.attributes().with_checks(false).flatten().find(|found| found.key.local_name().as_ref() == name);
        let Some(found) = found else { return String::new() };
        let text = self.decode(&found.value);
        let unescaped = quick_xml::escape::unescape(&text).map(|text| text.into_owned());
        clean_text(&unescaped.unwrap_or_else(|_| text.into_owned()), max_chars)
    }

    /// Decodes text in the guide's declared encoding. Invalid UTF-8 is read as Windows-1252.
    fn decode<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        let is_invalid_utf8 = std::str::from_utf8(bytes).is_err_and(|fault| fault.error_len().is_some());
        let encoding = self.encoding.unwrap_or(UTF_8);
        let encoding = if encoding == UTF_8 && is_invalid_utf8 { WINDOWS_1252 } else { encoding };
        encoding.decode_without_bom_handling(bytes).0
    }

    fn append_text(&mut self, bytes: &[u8]) {
        if self.open_field.is_some() && self.field_text.len() < MAX_DESCRIPTION_CHARS * 4 {
            let truncated = &bytes[..bytes.len().min(MAX_DESCRIPTION_CHARS * 8)];
            let text = self.decode(truncated).into_owned();
            self.field_text.push_str(&text);
        }
    }

    /// Appends the character of a reference. Unknown references stay as written.
    fn append_reference(&mut self, name: &BytesRef<'_>) {
        if self.open_field.is_none() || self.field_text.len() >= MAX_DESCRIPTION_CHARS * 4 {
            return;
        }
        match referenced_char(name) {
            Some(c) => self.field_text.push(c),
            None => {
                self.field_text.push('&');
                self.append_text(&name[..name.len().min(32)]);
                self.field_text.push(';');
            }
        }
    }
}

/// The address of an image without credentials; None if it is not on an HTTP server, needs them, or is too long.
fn icon_url(address: &str) -> Option<String> {
    let address = Address::parse(address).ok()?;
    let url = without_credentials(address.full_url().as_str())?.into_owned();
    (url.len() < MAX_ICON_BYTES).then_some(url)
}

/// The character given by number, by one of XML's five entity names, or by HTML's `nbsp`; None for other references.
pub fn referenced_char(reference: &BytesRef<'_>) -> Option<char> {
    match &**reference {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        b"nbsp" => Some(' '),
        _ => reference.resolve_char_ref().ok().flatten(),
    }
}

#[cfg(test)]
mod tests;
