use std::io::Write;

use super::*;

fn parse_inner(inner: &str) -> XmltvGuide {
    let text =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tv SYSTEM \"xmltv.dtd\">\n<tv>{inner}</tv>");
    parse_guide(text.as_bytes()).unwrap()
}

fn reasons(guide: &XmltvGuide) -> Vec<&str> {
    guide.skipped.reasons.iter().map(|skip| skip.reason.as_str()).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

#[test]
fn every_quirk_is_parsed_or_reported() {
    let read = parse_inner(
        "<channel id=\"one\"><display-name>One</display-name><display-name lang=\"de\">Eins</display-name><icon src=\"one.png\"/><icon src=\"http://i.example/one.png\"/><icon src=\"http://i.example/2.png\"/></channel>
<programme start=\"20260329003000 +0100\" stop=\"20260329040000 +0200\" channel=\"one\"><title>Spring</title></programme>
<programme start=\"20260101\" channel=\"one\"><title>Date only</title></programme>
<programme start=\"20260101080000 +0000\" stop=\"20260101070000 +0000\" channel=\"one\"><title>Backwards</title></programme>
<programme start=\"20260101073000 +0000\" stop=\"20260101083000 +0000\" channel=\"one\"><title lang=\"en\"> All
 of it </title><title lang=\"fr\">Tout</title><sub-title>S &amp; T &#233; &unknown; AT&T</sub-title>
<desc>&lt;b&gt;no markup&lt;/b&gt;<x-roll/> \u{201c}quotes\u{201d}<![CDATA[ & <raw>]]></desc><date>1999-05-01</date><icon src=\"http://a:b@i.example/1.jpg?w=9\"/><icon src=\"http://i.example/2.jpg\"/><category>Film</category><category>Film</category><category/>
<episode-num system=\"xmltv_ns\">1 . 4/12 . 0/1</episode-num><episode-num system=\"onscreen\">S09E09</episode-num><previously-shown/><star-rating><value>3/5</value></star-rating><rating system=\"FSK\"><value>12</value></rating></programme>
<programme start=\"20260101090000 +0000\" stop=\"20260101090000 +0000\" channel=\"one\"><title>Zero</title></programme>
<programme start=\"20260101100000 +0000\" stop=\"20260101110000 +0000\" channel=\"two\"><title></title></programme>
<programme start=\"2026010112\" channel=\"two\"><length units=\"minutes\">30</length><title>Half an hour</title></programme>
<programme start=\"202601011300\" stop=\"202601011400\" channel=\"two\" clumpidx=\"1/2\"><title>Second half</title></programme>
<programme start=\"soon\" channel=\"two\"><title>Soon</title></programme>
<programme start=\"20260101\"><title>Nowhere</title></programme>
<programme start=\"20260102\" channel=\"two\"><title>Never closed
<programme start=\"20260103\" channel=\"two\"><title>Next</title></programme>",
    );
    assert_eq!(read.channel_names["one"], "One");
    let icons = Vec::from_iter(&read.channel_icons);
    assert_eq!(icons, [(&"one".to_owned(), &"http://i.example/one.png".to_owned())], "the first usable one");
    let one = &read.listings["one"];
    assert_eq!(one.iter().map(|it| it.title.as_str()).collect::<Vec<_>>(), ["Spring", "Date only", "All of it"]);
    assert_eq!(one[0].end_ms - one[0].start_ms, 9_000_000, "two and a half hours across the DST change");
    let whole = &one[2];
    assert_eq!(whole.subtitle.as_deref(), Some("S & T \u{e9} &unknown; AT&T"));
    assert_eq!(whole.description, "<b>no markup</b> \u{201c}quotes\u{201d} & <raw>");
    assert_eq!((whole.season, whole.episode, whole.year), (Some(2), Some(5), Some(1999)));
    assert_eq!((whole.categories.as_slice(), whole.rating.as_deref()), (&["Film".to_owned()][..], Some("12")));
    assert_eq!(whole.icon_url.as_deref(), Some("http://i.example/1.jpg?w=9"), "the first, without credentials");
    let two = &read.listings["two"];
    let titles: Vec<_> = two.iter().map(|it| it.title.as_str()).collect();
    assert_eq!(titles, ["Untitled", "Half an hour", "Second half", "Untitled", "Next"]);
    assert_eq!(two[1].end_ms - two[1].start_ms, 1_800_000);
    assert_eq!(two[2].end_ms - two[2].start_ms, 1_800_000);
    let expected = ["stops before it starts", "has no length", "has no valid start time", "has no channel attribute"];
    assert_eq!(reasons(&read), expected);
    assert_eq!(read.skipped.reasons[0].line, 6, "{:?}", read.skipped.reasons[0]);
    assert_eq!(read.programme_count, 8);
}

#[test]
fn document_types_are_ignored() {
    let bomb = "<!DOCTYPE tv [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">\
        <!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY f SYSTEM \"file:///etc/passwd\">\
        <!ENTITY % p SYSTEM \"http://127.0.0.1/x.dtd\">%p;]>";
    let text = format!(
        "<?xml version=\"1.0\"?>{bomb}<tv><programme start=\"20260101\" stop=\"20260102\" channel=\"&c;\"><title>&c;&f;</title></programme></tv>"
    );
    let read = parse_guide(text.as_bytes()).unwrap();
    let (id, programmes) = read.listings.first_key_value().unwrap();
    assert_eq!((id.as_str(), programmes[0].title.as_str()), ("&c;", "&c;&f;"));
}

#[test]
fn every_encoding_is_read() {
    let text = |label: &str| {
        format!(
            "<?xml version=\"1.0\" encoding=\"{label}\"?><tv><programme start=\"20260101\" stop=\"20260102\" channel=\"\u{e9}t\u{e9}\"><title>Caf\u{e9} \u{2013}</title></programme></tv>"
        )
    };
    let latin: Vec<u8> = encoding_rs::WINDOWS_1252.encode(&text("ISO-8859-1")).0.into_owned();
    let wrong: Vec<u8> = encoding_rs::WINDOWS_1252.encode(&text("UTF-8")).0.into_owned();
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(text("UTF-16").encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let with_bom = [b"\xef\xbb\xbf", text("utf-8").as_bytes()].concat();
    for bytes in
        [text("UTF-8").into_bytes(), latin.clone(), wrong, utf16, with_bom, gzip(&latin), text("nonsense").into_bytes()]
    {
        let read = parse_guide(&bytes).unwrap();
        let (id, programmes) = read.listings.first_key_value().unwrap();
        assert_eq!((id.as_str(), programmes[0].title.as_str()), ("\u{e9}t\u{e9}", "Caf\u{e9} \u{2013}"));
    }
}

#[test]
fn other_files_are_refused_and_broken_guides_kept_up_to_the_fault() {
    let page = "<html><body>sign in</body></html>";
    for wrong in ["", "hello", "{}", "#EXTM3U\n", page, "<", "<?xml version=\"1.0\"?>", "\u{1f}\u{8b}"] {
        let fault = parse_guide(wrong.as_bytes()).unwrap_err();
        assert!(fault.starts_with("is not XMLTV"), "{wrong}: {fault}");
    }
    let whole = "<tv><programme start=\"20260101\" stop=\"20260102\" channel=\"a\"><title>First</title></programme>\
        <programme start=\"20260102\" stop=\"20260103\" channel=\"a\"><title>Second</title></programme></tv>";
    for cut in 5..whole.len() {
        let read = parse_guide(&whole.as_bytes()[..cut]).unwrap();
        assert!(read.programme_count <= 2 && read.skipped.count > 0, "{cut}");
    }
    let gz = gzip(whole.as_bytes());
    assert!(parse_guide(&gz[..gz.len() - 9]).is_ok_and(|read| read.skipped.count > 0));
    assert_eq!(parse_guide(b"<tv></tv>").unwrap().programme_count, 0);
    let controls = "<tv><programme start=\"20260101\" stop=\"20260102\" channel=\"a\u{1}\"><title>\u{0}A\u{b}&#7;B\u{fffe}</title></programme></tv>";
    let read = parse_guide(controls.as_bytes()).unwrap();
    assert_eq!(read.listings["a"][0].title, "A B");
}

#[test]
fn every_text_of_a_programme_is_counted() {
    let mut reading = GuideParser::default();
    let text = "<tv><programme start=\"20260101\" stop=\"20260102\" channel=\"a\"><title>12</title><sub-title>123</sub-title>\
        <desc>1234</desc><category>12345</category><category>123456</category><rating><value>1234567</value></rating>\
        </programme></tv>";
    reading.parse_all(text.as_bytes()).unwrap();
    assert_eq!((reading.guide.programme_count, reading.text_bytes), (1, 2 + 3 + 4 + 5 + 6 + 7));
}

#[test]
fn hostile_guides_are_bounded() {
    let programme = |n: usize, title: &str| {
        let id = n % 50;
        format!("<programme start=\"20260101\" stop=\"20260102\" channel=\"c{id}\"><title>{title}</title></programme>")
    };
    let deep = format!("<tv>{}", "<a>".repeat(MAX_DEPTH + 5));
    assert!(reasons(&parse_guide(deep.as_bytes()).unwrap())[0].contains("nested too deep"));
    let long = format!("<tv>{}{}</tv>", programme(0, &"x".repeat(5 << 18)), programme(1, "y"));
    let read_long = parse_guide(&gzip(long.as_bytes())).unwrap();
    assert!(reasons(&read_long)[0].contains("larger than 1 MiB"), "{:?}", read_long.skipped.reasons);
    let comment = format!("<!--{}--><tv></tv>", "<a>".repeat(1 << 19));
    assert!(parse_guide(&gzip(comment.as_bytes())).is_err());
    let medium = format!("<tv>{}</tv>", programme(0, &"x".repeat(500_000)));
    assert_eq!(parse_guide(medium.as_bytes()).unwrap().listings["c0"][0].title.len(), MAX_TITLE_CHARS);
}
