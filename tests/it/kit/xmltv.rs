//! Checks XMLTV against the DTD, as a strict parser would.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};

/// A child element: its name, whether it is required, whether it may repeat.
type Child = (&'static str, bool, bool);

/// Children that an element may have, in this order (xmltv.dtd 0.6).
const MODEL: [(&str, &[Child]); 4] = [
    ("tv", &[("channel", false, true), ("programme", false, true)]),
    ("channel", &[("display-name", true, true), ("icon", false, true), ("url", false, true)]),
    (
        "programme",
        &[
            ("title", true, true),
            ("sub-title", false, true),
            ("desc", false, true),
            ("credits", false, false),
            ("date", false, false),
            ("category", false, true),
            ("keyword", false, true),
            ("language", false, false),
            ("orig-language", false, false),
            ("length", false, false),
            ("icon", false, true),
            ("url", false, true),
            ("country", false, true),
            ("episode-num", false, true),
            ("video", false, false),
            ("audio", false, false),
            ("previously-shown", false, false),
            ("premiere", false, false),
            ("last-chance", false, false),
            ("new", false, false),
            ("subtitles", false, true),
            ("rating", false, true),
            ("star-rating", false, true),
        ],
    ),
    ("rating", &[("value", true, false), ("icon", false, true)]),
];

/// Required and optional attributes of the elements we write.
const ATTRIBUTES: [(&str, &[&str], &[&str]); 7] = [
    ("tv", &[], &["date", "source-info-url", "source-info-name", "generator-info-name", "generator-info-url"]),
    ("channel", &["id"], &[]),
    ("programme", &["start", "channel"], &["stop", "catchup-id"]),
    ("icon", &["src"], &["width", "height"]),
    ("length", &["units"], &[]),
    ("episode-num", &[], &["system"]),
    ("rating", &[], &["system"]),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Element {
    pub name: String,
    pub attributes: HashMap<String, String>,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    fn of(start: &BytesStart<'_>) -> Self {
        let attributes = start.attributes().map(|one| {
            let one = one.unwrap();
            (String::from_utf8(one.key.0.to_vec()).unwrap(), one.unescape_value().unwrap().into_owned())
        });
        Self {
            name: String::from_utf8(start.name().0.to_vec()).unwrap(),
            attributes: attributes.collect(),
            ..Self::default()
        }
    }

    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Element> {
        let name = name.to_owned();
        self.children.iter().filter(move |child| child.name == name)
    }

    pub fn text_of<'a>(&'a self, name: &str) -> &'a str {
        self.all(name).next().map_or("", |child| &child.text)
    }
}

/// Parses a guide and checks it against the DTD.
pub fn read(text: &str) -> Element {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => open.push(Element::of(&start)),
            Event::Empty(start) => open.last_mut().unwrap().children.push(Element::of(&start)),
            Event::End(_) => {
                let done = open.pop().unwrap();
                open.last_mut().unwrap().children.push(done);
            }
            Event::Text(text) => open.last_mut().unwrap().text.push_str(&text.decode().unwrap()),
            Event::GeneralRef(name) => {
                let name = format!("&{};", name.decode().unwrap());
                open.last_mut().unwrap().text.push_str(&quick_xml::escape::unescape(&name).unwrap());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open.len(), 1, "all elements are closed");
    let tv = open[0].children.remove(0);
    assert_eq!((tv.name.as_str(), open[0].children.len()), ("tv", 0));
    valid(&tv);
    tv
}

fn valid(element: &Element) {
    let model = MODEL.iter().find(|(name, _)| *name == element.name).map_or(&[][..], |(_, model)| model);
    let mut at = 0;
    for child in &element.children {
        let here = model[at..].iter().position(|(name, ..)| *name == child.name);
        at += here.unwrap_or_else(|| panic!("{} does not belong here in {element:?}", child.name));
        let repeats = element.all(&child.name).count() > 1;
        assert!(model[at].2 || !repeats, "{} is there twice in {element:?}", child.name);
        valid(child);
    }
    for (name, must, _) in model {
        assert!(!must || element.all(name).next().is_some(), "{name} is missing in {element:?}");
    }
    let (_, must, may) = ATTRIBUTES.iter().find(|(name, ..)| *name == element.name).unwrap_or(&("", &[], &[]));
    assert!(must.iter().all(|name| element.attributes.contains_key(*name)), "{element:?}");
    assert!(element.attributes.keys().all(|name| must.contains(&&**name) || may.contains(&&**name)), "{element:?}");
    assert!(element.children.is_empty() || element.text.trim().is_empty(), "{element:?}");
}
