use super::*;
use crate::domain::channel::tests::channel as make;
use crate::domain::time::ChannelMs;

/// 2026-01-01, the start of the channel.
const START: i64 = 1_767_225_600_000;

/// Audio as every channel airs it.
const AUDIO: &str = "<audio><stereo>stereo</stereo></audio>";

fn write_programmes(channel: Channel, from_ms: i64, to_ms: i64, style: &XmltvOptions) -> String {
    let mut out = Vec::new();
    let (from_ms, to_ms) = (WallMs(from_ms), WallMs(to_ms));
    let mut programmes = ProgrammeWriter::new(Arc::new(channel), from_ms, to_ms, from_ms, style);
    while programmes.write_next(&mut out) {}
    String::from_utf8(out).unwrap()
}

#[test]
fn a_guide_lists_programmes_and_marks_repeats() {
    let style = XmltvOptions { base_url: "http://tv:8470".into(), include_lcn: true, ..XmltvOptions::default() };
    let mut it = make(12);
    it.settings.name = "Tom & Co".into();
    it.settings.category = "Movies".into();
    let mut out = Vec::new();
    write_channel(&mut out, &it, &style);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "<channel id=\"ch-12.home\"><display-name>Tom &amp; Co</display-name><display-name>12 Tom &amp; Co</display-name>\
         <display-name>12</display-name><lcn>12</lcn><icon src=\"http://tv:8470/api/livetv/logos/12\"/></channel>\n"
    );
    assert_eq!(
        write_programmes(it.clone(), 0, START + 4 * 2_400_000, &style),
        format!(
            "<programme start=\"20260101000000 +0000\" stop=\"20260101004000 +0000\" channel=\"ch-12.home\"><title>A</title>\
         <date>1999</date><category>Movies</category><length units=\"seconds\">2400</length>{AUDIO}<premiere/></programme>\n\
         <programme start=\"20260101004000 +0000\" stop=\"20260101012000 +0000\" channel=\"ch-12.home\"><title>Show</title>\
         <sub-title>B &amp; C</sub-title><category>Movies</category><length units=\"seconds\">2400</length>\
         <episode-num system=\"onscreen\">S01E02</episode-num><episode-num system=\"xmltv_ns\">0.1.</episode-num>\
         {AUDIO}<new/></programme>\n\
         <programme start=\"20260101012000 +0000\" stop=\"20260101020000 +0000\" channel=\"ch-12.home\"><title>D</title>\
         <category>Movies</category><length units=\"seconds\">2400</length>{AUDIO}<premiere/></programme>\n\
         <programme start=\"20260101020000 +0000\" stop=\"20260101024000 +0000\" channel=\"ch-12.home\"><title>A</title>\
         <date>1999</date><category>Movies</category><length units=\"seconds\">2400</length>{AUDIO}<previously-shown/>\
         </programme>\n"
        )
    );
    let style = XmltvOptions { local_times: true, naming: ChannelNaming::Number, ..style };
    let local = write_programmes(it, START + 5_000_000, START + 5_000_001, &style);
    let start = "<programme start=\"20260101022000 +0100\" stop=\"20260101030000 +0100\" channel=\"12\">";
    assert!(local.starts_with(start));
    assert!(local.ends_with("<premiere/></programme>\n"), "the current programme was not shown before: {local}");
}

#[test]
fn repeat_marks_do_not_depend_on_the_start_of_the_guide() {
    let style = XmltvOptions::default();
    let mut it = make(1);
    // Two more items two programmes later; one of them was shown before.
    let mut items = it.definition.revisions[0].items[1..].to_vec();
    items.push(Arc::new(ScheduleItem { id: 9, title: "New".into(), ..(*items[0]).clone() }));
    let revision = crate::domain::schedule::tests::plain_request(1, it.mode, items.into());
    it.definition = it.definition.with_revision(ChannelMs(START + 4_800_000), revision);
    let whole = write_programmes(it.clone(), 0, START + 100_000_000, &style);
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(whole.matches("<premiere/>").count() + whole.matches("<new/>").count(), 4);
    for later in (0..40).map(|n| n * 2_400_000 + 7) {
        let part = write_programmes(it.clone(), START + later, START + 100_000_000, &style);
        let skipped = lines.len() - part.lines().count();
        assert!(part.lines().eq(lines[skipped..].iter().copied()), "from {later}");
    }
}

#[test]
fn a_described_programme_has_its_credits_date_rating_and_formats() {
    let mut it = make(1);
    let person = |name: &str, role: Option<&str>, kind| Person { name: name.into(), role: role.map(Into::into), kind };
    let described = ItemDescription {
        title: Some("Alien".into()),
        description: "In space.".into(),
        categories: vec!["Horror".into()],
        released_on: Some(jiff::civil::date(1979, 5, 25)),
        rating: Some("R & more".into()),
        people: vec![
            person("Ridley Scott", None, PersonKind::Director),
            person("Dan O'Bannon", None, PersonKind::Writer),
            person("Sigourney Weaver", Some("Ripley \"E.\""), PersonKind::Actor),
        ],
        ..ItemDescription::default()
    };
    let item = Arc::make_mut(&mut Arc::make_mut(&mut it.definition.revisions[0].items)[0]);
    item.description = Some(Box::new(described));
    item.video_format = VideoFormat { width: 1280, height: 720, ..VideoFormat::default() };
    assert_eq!(
        write_programmes(it, START, START + 1, &XmltvOptions::default()),
        format!(
            "<programme start=\"20260101000000 +0000\" stop=\"20260101004000 +0000\" channel=\"ch-1.home\"><title>Alien</title>\
             <desc>In space.</desc><credits><director>Ridley Scott</director><actor role=\"Ripley &quot;E.&quot;\">Sigourney \
             Weaver</actor><writer>Dan O'Bannon</writer></credits><date>19790525</date><category>Horror</category>\
             <length units=\"seconds\">2400</length><video><aspect>16:9</aspect><quality>HDTV</quality></video>{AUDIO}\
             <premiere/><rating><value>R &amp; more</value></rating></programme>\n"
        )
    );
}
