//! XML text as elements, within limits.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::NfoError;
use super::element::Element;
use super::fields::kind_of;
use crate::domain::m3u::parse::clean_text;
use crate::domain::xmltv::parse::referenced_char;

/// Deepest element. Kodi's schema has five levels.
const MAX_DEPTH: usize = 16;

/// Most elements of a file. A show with 500 actors and 1,000 images has some 6,000.
const MAX_ELEMENTS: usize = 20_000;

/// Most attributes of an element that are kept.
const MAX_ATTRIBUTES: usize = 8;

/// Longest name of an element or attribute, and longest value of an attribute, bytes. Longer ones are left out.
const MAX_NAME_BYTES: usize = 40;
const MAX_VALUE_BYTES: usize = 300;

/// Longest text of an element, bytes. Later text is left out.
const MAX_TEXT_BYTES: usize = 32 << 10;

/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 200;

/// The root elements of a text. Text after the last of them, such as an address, is skipped.
///
/// # Errors
/// `Broken`: malformed XML, a missing end tag, a document type declaration, or more than a limit allows.
pub(super) fn parse(text: &str) -> Result<Vec<Element>, NfoError> {
    let mut reader = Reader::from_str(text);
    // Some writers do not escape the `&` of titles and addresses.
    reader.config_mut().allow_dangling_amp = true;
    let mut tree = ElementTree::default();
    loop {
        let event = reader.read_event();
        let position = usize::try_from(reader.error_position().max(reader.buffer_position())).unwrap_or(usize::MAX);
        let fault = match event {
            Ok(Event::Eof) if tree.open.is_empty() => return Ok(tree.roots),
            Ok(Event::Eof) => Err("it is cut off".to_owned()),
            Ok(event) => tree.push(event),
            Err(cause) => Err(cause.to_string()),
        };
        if let Err(reason) = fault {
            if tree.is_past_records() {
                return Ok(tree.roots);
            }
            let line = 1 + text.as_bytes().iter().take(position).filter(|byte| **byte == b'\n').count();
            return Err(NfoError::Broken { line, reason: clean_text(&reason, MAX_REASON_CHARS) });
        }
    }
}

#[derive(Default)]
struct ElementTree {
    roots: Vec<Element>,
    /// Elements without their end, the outermost first.
    open: Vec<Element>,
    count: usize,
}

impl ElementTree {
    /// Whether all records have ended. Text after them need not be XML.
    fn is_past_records(&self) -> bool {
        !self.roots.is_empty() && self.open.first().is_none_or(|root| kind_of(root).is_none())
    }

    fn push(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(tag) => self.begin(&tag)?,
            Event::Empty(tag) => {
                self.begin(&tag)?;
                self.end();
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.append(&String::from_utf8_lossy(&text)),
            Event::CData(text) => self.append(&String::from_utf8_lossy(&text)),
            Event::GeneralRef(reference) => self.append_reference(&reference),
            Event::DocType(_) => return Err("a document type declaration is refused".to_owned()),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::Eof => {}
        }
        Ok(())
    }

    fn begin(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        self.count += 1;
        if self.count > MAX_ELEMENTS {
            return Err(format!("more than {MAX_ELEMENTS} elements"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} elements are nested"));
        }
        let mut attributes = Vec::new();
        for attribute in tag.attributes().with_checks(false).flatten().take(MAX_ATTRIBUTES) {
            if attribute.value.len() <= MAX_VALUE_BYTES {
                let value = String::from_utf8_lossy(&attribute.value);
                let unescaped = quick_xml::escape::unescape(&value).map(Cow::into_owned);
                let value = unescaped.unwrap_or_else(|_| value.into_owned());
                attributes.push((bounded_name(attribute.key.local_name().as_ref()), value));
            }
        }
        let name = bounded_name(tag.local_name().as_ref());
        self.open.push(Element { name, attributes, ..Element::default() });
        Ok(())
    }

    fn end(&mut self) {
        if let Some(element) = self.open.pop() {
            let siblings = self.open.last_mut().map_or(&mut self.roots, |parent| &mut parent.children);
            siblings.push(element);
        }
    }

    fn append(&mut self, text: &str) {
        let Some(element) = self.open.last_mut() else { return };
        // The indentation of children is no text.
        if element.text.is_empty() && text.trim_start().is_empty() {
            return;
        }
        let room = MAX_TEXT_BYTES.saturating_sub(element.text.len());
        element.text.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Appends the character of a reference. Unknown references stay as written.
    fn append_reference(&mut self, reference: &BytesRef<'_>) {
        match referenced_char(reference) {
            Some(character) => self.append(character.encode_utf8(&mut [0; 4])),
            None => self.append(&format!("&{};", String::from_utf8_lossy(reference))),
        }
    }
}

fn bounded_name(name: &[u8]) -> String {
    if name.len() <= MAX_NAME_BYTES { String::from_utf8_lossy(name).into_owned() } else { String::new() }
}
