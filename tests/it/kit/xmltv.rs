//! Checks XMLTV against the DTD, as a strict parser would.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};

/// A child element: its name, whether it is required, whether it may repeat.
type ChildRule = (&'static str, bool, bool);

/// Children that an element may have, in this order (xmltv.dtd 0.6).
const CONTENT_MODEL: [(&str, &[ChildRule]); 7] = [
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
    ("credits", &[("director", false, true), ("actor", false, true), ("writer", false, true), ("guest", false, true)]),
    (
        "video",
        &[("present", false, false), ("colour", false, false), ("aspect", false, false), ("quality", false, false)],
    ),
    ("audio", &[("present", false, false), ("stereo", false, false)]),
];

/// Required and optional attributes of the elements we write.
const ATTRIBUTES: [(&str, &[&str], &[&str]); 8] = [
    ("tv", &[], &["date", "source-info-url", "source-info-name", "generator-info-name", "generator-info-url"]),
    ("channel", &["id"], &[]),
    ("programme", &["start", "channel"], &["stop", "catchup-id"]),
    ("icon", &["src"], &["width", "height"]),
    ("length", &["units"], &[]),
    ("episode-num", &[], &["system"]),
    ("rating", &[], &["system"]),
    ("actor", &[], &["role", "guest"]),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Element {
    pub name: String,
    pub attributes: HashMap<String, String>,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    fn from_start(start: &BytesStart<'_>) -> Self {
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

    pub fn children_named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Element> {
        let name = name.to_owned();
        self.children.iter().filter(move |child| child.name == name)
    }

    pub fn text_of<'a>(&'a self, name: &str) -> &'a str {
        self.children_named(name).next().map_or("", |child| &child.text)
    }
}

/// Parses a guide and checks it against the DTD.
pub fn parse_checked(text: &str) -> Element {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut open_elements = vec![Element::default()];
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => open_elements.push(Element::from_start(&start)),
            Event::Empty(start) => open_elements.last_mut().unwrap().children.push(Element::from_start(&start)),
            Event::End(_) => {
                let done = open_elements.pop().unwrap();
                open_elements.last_mut().unwrap().children.push(done);
            }
            Event::Text(text) => open_elements.last_mut().unwrap().text.push_str(&text.decode().unwrap()),
            Event::GeneralRef(name) => {
                let name = format!("&{};", name.decode().unwrap());
                open_elements.last_mut().unwrap().text.push_str(&quick_xml::escape::unescape(&name).unwrap());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open_elements.len(), 1, "all elements are closed");
    let tv = open_elements[0].children.remove(0);
    assert_eq!((tv.name.as_str(), open_elements[0].children.len()), ("tv", 0));
    assert_valid(&tv);
    tv
}

fn assert_valid(element: &Element) {
    let model = CONTENT_MODEL.iter().find(|(name, _)| *name == element.name).map_or(&[][..], |(_, model)| model);
    let mut model_position = 0;
    for child in &element.children {
        let steps = model[model_position..].iter().position(|(name, ..)| *name == child.name);
        model_position += steps.unwrap_or_else(|| panic!("{} does not belong here in {element:?}", child.name));
        let repeats = element.children_named(&child.name).count() > 1;
        assert!(model[model_position].2 || !repeats, "{} is there twice in {element:?}", child.name);
        assert_valid(child);
    }
    for (name, is_required, _) in model {
        assert!(!is_required || element.children_named(name).next().is_some(), "{name} is missing in {element:?}");
    }
    let (_, required, optional) = ATTRIBUTES.iter().find(|(name, ..)| *name == element.name).unwrap_or(&("", &[], &[]));
    assert!(required.iter().all(|name| element.attributes.contains_key(*name)), "{element:?}");
    assert!(
        element.attributes.keys().all(|name| required.contains(&&**name) || optional.contains(&&**name)),
        "{element:?}"
    );
    assert!(element.children.is_empty() || element.text.trim().is_empty(), "{element:?}");
}
