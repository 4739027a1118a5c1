//! Reads WebVTT as in section 6.1 of its specification, a little more leniently. Regions, styles and notes are dropped.

use super::cue_text::from_markup;
use super::{Cue, MAX_CUES, timing, visible_cue};

/// Cue settings that are kept (WebVTT section 4.4).
const KEPT_SETTINGS: [&str; 5] = ["vertical", "line", "position", "size", "align"];

pub fn parse(text: &str) -> Vec<Cue> {
    let mut cues = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((start, end, cue_settings)) = timing::parse_timing_line(line) else { continue };
        let rest = lines.clone();
        let count =
            rest.take_while(|line| !line.trim().is_empty() && timing::parse_timing_line(line).is_none()).count();
        let block: Vec<&str> = lines.by_ref().take(count).collect();
        cues.extend(visible_cue(start, end, normalise_settings(cue_settings), from_markup(&block.join("\n"))));
        if cues.len() >= MAX_CUES {
            break;
        }
    }
    cues
}

/// The well-formed settings, with the value names of the current standard.
fn normalise_settings(text: &str) -> String {
    let kept = text.split_whitespace().filter_map(|setting| {
        let (name, value) = setting.split_once(':')?;
        let is_valid = !value.is_empty()
            && value.len() <= 32
            && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'%' | b',' | b'-'))
            && !value.contains("--");
        let value = if (name, value) == ("align", "middle") { "center" } else { value };
        (is_valid && KEPT_SETTINGS.contains(&name)).then(|| format!("{name}:{value}"))
    });
    kept.take(KEPT_SETTINGS.len()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_are_read_and_other_blocks_are_dropped() {
        let text = "WEBVTT - a title\nX-TIMESTAMP-MAP=MPEGTS:9,LOCAL:00:00:00.000\n\nNOTE\nnothing\n\n\
                    STYLE\n::cue { color: red }\n\nREGION\nid:x\n\nintro\n00:01.000 --> 00:02.000 align:middle \
                    region:x size:80% line:bad\"\none\ntwo\n\n3\n00:00:03.000 --> 00:00:04.000\n<v A>three\n";
        let cues = parse(text);
        let expected = [
            Cue { start_ms: 1000, end_ms: 2000, settings: "align:center size:80%".into(), text: "one\ntwo".into() },
            Cue { start_ms: 3000, end_ms: 4000, settings: String::new(), text: "<v A>three</v>".into() },
        ];
        assert_eq!(cues, expected);
    }

    #[test]
    fn only_a_timing_line_ends_the_cue_before_it() {
        for (text, cues) in
            [("a --> b\n\n--> --> -->\n", &["a --&gt; b"][..]), ("a\n00:03.000 --> 00:04.000\nb\n", &["a", "b"])]
        {
            let found = parse(&format!("WEBVTT\n\n00:01.000 --> 00:02.000\n{text}"));
            assert_eq!(found.iter().map(|cue| cue.text.as_str()).collect::<Vec<_>>(), cues, "{text}");
        }
    }
}
