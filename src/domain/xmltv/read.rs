//! Imported guides (XMLTV), read leniently and piece by piece.
//!
//! No document type declaration is interpreted: no entity is expanded (XXE, billion laughs), no file and no address is opened.
//! Everything is bounded, against decompression bombs too: the whole, one piece of markup, one text, the number of programmes,
//! the depth.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use flate2::bufread::MultiGzDecoder;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::when::{episode, instant};
use crate::domain::listing::Listing;
use crate::domain::m3u::read::{Skips, clean};

/// Largest guide after decompression, bytes.
const MAX_UNPACKED: u64 = 256 << 20;

/// Largest piece of markup, or of text between markup, bytes.
const MAX_PIECE: usize = 1 << 20;

/// Most programmes, most channels, and most bytes of all their texts.
pub const MAX_PROGRAMMES: usize = 200_000;
const MAX_CHANNELS: usize = 20_000;
const MAX_TEXTS: usize = 64 << 20;

/// Longest texts, characters; most categories of a programme.
const MAX_TITLE: usize = 300;
const MAX_DESCRIPTION: usize = 2000;
const MAX_CATEGORIES: usize = 8;

/// Deepest nesting of elements.
const MAX_DEPTH: usize = 10_000;

/// A parsed guide.
#[derive(Debug, Default)]
pub struct Guide {
    /// Names of the declared channels, by channel id.
    pub declared: BTreeMap<String, String>,
    /// Programmes by channel id, in the guide's own order.
    pub channels: BTreeMap<String, Vec<Listing>>,
    pub programmes: usize,
    pub skipped: Skips,
}

/// Parses a guide, compressed with gzip or not.
///
/// # Errors
/// Why it is not an XMLTV guide, as a phrase without a subject ("is not XMLTV: …").
pub fn read(bytes: &[u8]) -> Result<Guide, String> {
    let mut reading = Reading::default();
    let outcome = match Encoding::for_bom(bytes) {
        _ if bytes.starts_with(&[0x1f, 0x8b]) => {
            reading.all(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(bytes)))
        }
        Some((encoding, skip)) if encoding != UTF_8 => {
            let (text, _) = encoding.decode_without_bom_handling(&bytes[skip..]);
            reading.fixed = true;
            reading.all(text.as_bytes())
        }
        found => reading.all(&bytes[found.map_or(0, |(_, skip)| skip)..]),
    };
    outcome.map(|()| reading.guide)
}

/// The field that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Title,
    SubTitle,
    Description,
    Category,
    Date,
    Episode,
    Rating,
    Length,
    DisplayName,
}

struct Reading {
    guide: Guide,
    encoding: &'static Encoding,
    /// The text is already decoded, so its encoding declaration does not count.
    fixed: bool,
    begun: bool,
    ended: bool,
    programme: Option<Open>,
    channel: Option<String>,
    rating: bool,
    field: Option<(Field, Vec<u8>)>,
    /// Attribute of the field: the system of an episode number, or the unit of a length.
    attribute: String,
    text: String,
    texts: usize,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            guide: Guide::default(),
            encoding: UTF_8,
            fixed: false,
            begun: false,
            ended: false,
            programme: None,
            channel: None,
            rating: false,
            field: None,
            attribute: String::new(),
            text: String::new(),
            texts: 0,
        }
    }
}

/// A programme whose end tag has not been read yet.
#[derive(Default)]
struct Open {
    line: usize,
    channel: String,
    start: String,
    stop: String,
    clump: String,
    length_ms: i64,
    listing: Listing,
}

impl Reading {
    fn all(&mut self, bytes: impl BufRead) -> Result<(), String> {
        let mut reader = Reader::from_reader(Bounded { inner: bytes, piece: 0, whole: 0, lines: 1 });
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let (mut buffer, mut depth) = (Vec::new(), 0usize);
        loop {
            buffer.clear();
            reader.get_mut().piece = 0;
            let line = reader.get_ref().lines;
            let fault = match reader.read_event_into(&mut buffer) {
                Ok(Event::Eof) => break,
                Ok(Event::Start(tag)) => {
                    depth += 1;
                    self.open(&tag, line);
                    if depth > MAX_DEPTH { Some("elements are nested too deep".to_owned()) } else { None }
                }
                Ok(Event::End(tag)) => {
                    depth = depth.saturating_sub(1);
                    self.close(tag.local_name().as_ref());
                    None
                }
                Ok(Event::Empty(tag)) => {
                    self.open(&tag, line);
                    self.close(tag.local_name().as_ref());
                    None
                }
                Ok(Event::Text(text)) => {
                    self.add(&text);
                    None
                }
                Ok(Event::CData(text)) => {
                    self.add(&text);
                    None
                }
                Ok(Event::GeneralRef(name)) => {
                    self.add_reference(&name);
                    None
                }
                Ok(Event::Decl(decl)) => {
                    if let Some(Ok(label)) = decl.encoding().filter(|_| !self.fixed) {
                        self.encoding = Encoding::for_label(&label).unwrap_or(UTF_8);
                    }
                    None
                }
                Ok(Event::Comment(_) | Event::PI(_) | Event::DocType(_)) => None,
                Err(fault) => Some(fault.to_string()),
            };
            if let Some(fault) = fault {
                if !self.begun {
                    return Err(format!("is not XMLTV: {fault}"));
                }
                self.finish();
                self.guide.skipped.add(line, "", format!("the rest is skipped: {}", clean(&fault, MAX_TITLE)));
                return Ok(());
            }
        }
        if !self.begun {
            return Err("is not XMLTV: it has no tv element".to_owned());
        }
        if !self.ended {
            let line = reader.get_ref().lines;
            self.guide.skipped.add(line, "", "the guide is cut off: </tv> is missing");
        }
        self.finish();
        Ok(())
    }

    fn open(&mut self, tag: &BytesStart<'_>, line: usize) {
        let local = tag.local_name();
        let name = local.as_ref();
        let get = |wanted: &[u8]| self.attribute_of(tag, wanted);
        match name {
            b"tv" => self.begun = true,
            b"programme" if self.begun => {
                let open = Open {
                    line,
                    channel: get(b"channel"),
                    start: get(b"start"),
                    stop: get(b"stop"),
                    clump: get(b"clumpidx"),
                    ..Open::default()
                };
                self.finish();
                self.programme = Some(open);
            }
            b"channel" if self.begun && self.programme.is_none() => self.channel = Some(get(b"id")),
            b"rating" => self.rating = true,
            b"previously-shown" => {
                if let Some(open) = &mut self.programme {
                    open.listing.repeat = true;
                }
            }
            _ => {}
        }
        let field = match name {
            b"title" => Field::Title,
            b"sub-title" => Field::SubTitle,
            b"desc" => Field::Description,
            b"category" => Field::Category,
            b"date" => Field::Date,
            b"episode-num" => Field::Episode,
            b"length" => Field::Length,
            b"value" if self.rating => Field::Rating,
            b"display-name" => Field::DisplayName,
            _ => return,
        };
        if self.field.is_none() && (self.programme.is_some() || field == Field::DisplayName) {
            self.attribute = match field {
                Field::Episode => self.attribute_of(tag, b"system"),
                Field::Length => self.attribute_of(tag, b"units"),
                _ => String::new(),
            };
            self.field = Some((field, name.to_vec()));
            self.text.clear();
        }
    }

    fn close(&mut self, name: &[u8]) {
        if let Some((field, opened)) = &self.field
            && opened == name
        {
            let field = *field;
            self.field = None;
            self.told(field);
        }
        match name {
            b"programme" => self.finish(),
            b"channel" => self.channel = None,
            b"tv" => self.ended = true,
            b"rating" => self.rating = false,
            _ => {}
        }
    }

    /// Stores the complete text of a field.
    fn told(&mut self, field: Field) {
        let text = clean(&self.text, if field == Field::Description { MAX_DESCRIPTION } else { MAX_TITLE });
        if text.is_empty() {
            return;
        }
        if field == Field::DisplayName {
            if let Some(id) = self.channel.as_ref().filter(|_| self.guide.declared.len() < MAX_CHANNELS) {
                self.guide.declared.entry(id.clone()).or_insert(text);
            }
            return;
        }
        let Some(open) = &mut self.programme else { return };
        let listing = &mut open.listing;
        // If a field is given in several languages, the first one counts.
        match field {
            Field::Title if listing.title.is_empty() => listing.title = text,
            Field::SubTitle if listing.subtitle.is_none() => listing.subtitle = Some(text),
            Field::Description if listing.description.is_empty() => listing.description = text,
            Field::Category if listing.categories.len() < MAX_CATEGORIES && !listing.categories.contains(&text) => {
                listing.categories.push(text);
            }
            Field::Date => {
                let year = text.get(..4).and_then(|year| year.parse().ok());
                listing.year = listing.year.or(year).filter(|year| (1870..2200).contains(year));
            }
            Field::Episode => {
                let (season, number) = episode(&self.attribute, &text);
                listing.season = listing.season.or(season);
                listing.episode = listing.episode.or(number);
            }
            Field::Rating if listing.rating.is_none() => listing.rating = Some(text),
            Field::Length => {
                let unit = match self.attribute.as_str() {
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
    fn finish(&mut self) {
        (self.field, self.rating) = (None, false);
        let Some(Open { line, channel, start, stop, clump, length_ms, mut listing }) = self.programme.take() else {
            return;
        };
        let title = listing.title.clone();
        let mut skip = |reason: &str| self.guide.skipped.add(line, &title, reason);
        let channel = clean(&channel, MAX_TITLE);
        if channel.is_empty() {
            return skip("has no channel attribute");
        }
        let Some(start_ms) = instant(&start) else { return skip("has no valid start time") };
        let mut end_ms = instant(&stop).unwrap_or(start_ms + length_ms);
        if !stop.trim().is_empty() && end_ms < start_ms {
            return skip("stops before it starts");
        }
        if !stop.trim().is_empty() && end_ms == start_ms {
            return skip("has no length");
        }
        let mut start_ms = start_ms;
        // Several programmes share one slot of the broadcaster: each gets its part.
        let clump = clump.split_once('/').and_then(|(n, of)| Some((n.parse::<i64>().ok()?, of.parse::<i64>().ok()?)));
        if let Some((n, of)) = clump.filter(|(n, of)| (0..*of).contains(n) && *of <= 100) {
            let whole = end_ms - start_ms;
            (start_ms, end_ms) = (start_ms + whole * n / of, start_ms + whole * (n + 1) / of);
        }
        let texts = [&listing.title, &listing.description].into_iter().chain(&listing.subtitle).chain(&listing.rating);
        let size: usize = texts.chain(&listing.categories).map(String::len).sum();
        if self.guide.programmes >= MAX_PROGRAMMES || self.texts + size > MAX_TEXTS {
            return skip("exceeds the largest guide that is imported");
        }
        if !self.guide.channels.contains_key(&channel) && self.guide.channels.len() >= MAX_CHANNELS {
            return skip("exceeds the most channels that are imported");
        }
        if listing.title.is_empty() {
            // It is on air even without a title.
            "Untitled".clone_into(&mut listing.title);
        }
        (listing.start_ms, listing.end_ms) = (start_ms, end_ms);
        self.texts += size;
        self.guide.programmes += 1;
        self.guide.channels.entry(channel).or_default().push(listing);
    }

    fn attribute_of(&self, tag: &BytesStart<'_>, wanted: &[u8]) -> String {
        let found =
            tag.attributes().with_checks(false).flatten().find(|found| found.key.local_name().as_ref() == wanted);
        let Some(found) = found else { return String::new() };
        let text = self.decode(&found.value);
        let plain = quick_xml::escape::unescape(&text).map(|text| text.into_owned());
        clean(&plain.unwrap_or_else(|_| text.into_owned()), MAX_TITLE)
    }

    /// Decodes text in the guide's declared encoding. Invalid UTF-8 is read as Windows-1252.
    fn decode<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        let broken = std::str::from_utf8(bytes).is_err_and(|fault| fault.error_len().is_some());
        let encoding = if self.encoding == UTF_8 && broken { WINDOWS_1252 } else { self.encoding };
        encoding.decode_without_bom_handling(bytes).0
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.field.is_some() && self.text.len() < MAX_DESCRIPTION * 4 {
            let piece = &bytes[..bytes.len().min(MAX_DESCRIPTION * 8)];
            let text = self.decode(piece).into_owned();
            self.text.push_str(&text);
        }
    }

    /// Appends a character given by number or by one of XML's five entity names. Other references stay as written.
    fn add_reference(&mut self, name: &BytesRef<'_>) {
        if self.field.is_none() || self.text.len() >= MAX_DESCRIPTION * 4 {
            return;
        }
        let named = match &**name {
            b"amp" => Some('&'),
            b"lt" => Some('<'),
            b"gt" => Some('>'),
            b"quot" => Some('"'),
            b"apos" => Some('\''),
            b"nbsp" => Some(' '),
            _ => name.resolve_char_ref().ok().flatten(),
        };
        match named {
            Some(c) => self.text.push(c),
            None => {
                self.text.push('&');
                self.add(&name[..name.len().min(32)]);
                self.text.push(';');
            }
        }
    }
}

/// Counts and limits the bytes read from a guide.
struct Bounded<R> {
    inner: R,
    /// Bytes since the current piece of markup began.
    piece: usize,
    whole: u64,
    lines: usize,
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece > MAX_PIECE {
            return Err(io::Error::other("a tag or text is larger than 1 MiB"));
        }
        if self.whole > MAX_UNPACKED {
            return Err(io::Error::other("it is larger than 256 MiB after decompression"));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Ok(bytes) = self.inner.fill_buf() {
            self.lines += bytes[..amount.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count();
        }
        self.piece += amount;
        self.whole += amount as u64;
        self.inner.consume(amount);
    }
}

impl<R: BufRead> io::Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(to.len());
        to[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
