//! Writes cues as WebVTT, whole or in segments, and as SRT.

use std::fmt::Write;

use super::Cue;
use super::cue_text::unescape;
use crate::domain::time::Ticks;

pub fn write_webvtt(cues: &[Cue]) -> String {
    let mut out = "WEBVTT\n".to_owned();
    cues.iter().for_each(|cue| write_cue(&mut out, cue));
    out
}

/// One segment of a subtitle rendition (RFC 8216 section 3.5): every cue shown between `start` and `end` seconds, with
/// its full times. A cue across a boundary is in both segments, and the player recognises it as the same. `mpegts_base`
/// is the transport stream time of source time 0.
pub fn write_webvtt_segment(cues: &[Cue], start: f64, end: f64, mpegts_base: Ticks) -> String {
    let (start, end) = ((start * 1000.0) as i64, (end * 1000.0).ceil() as i64);
    let mut out = format!("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:{},LOCAL:00:00:00.000\n", mpegts_base.0);
    // Cues are sorted by start.
    let started = &cues[..cues.partition_point(|cue| cue.start_ms < end)];
    started.iter().filter(|cue| cue.end_ms > start).for_each(|cue| write_cue(&mut out, cue));
    out
}

fn write_cue(out: &mut String, cue: &Cue) {
    let (start, end) = (format_time(cue.start_ms, '.'), format_time(cue.end_ms, '.'));
    let space = if cue.settings.is_empty() { "" } else { " " };
    write!(out, "\n{start} --> {end}{space}{}\n{}\n", cue.settings, cue.text).expect("writing to a string cannot fail");
}

/// A whole SRT file. Of the tags, only bold, italic and underline are kept.
pub fn write_srt(cues: &[Cue]) -> String {
    let mut out = String::new();
    for (index, cue) in cues.iter().enumerate() {
        let (start, end) = (format_time(cue.start_ms, ','), format_time(cue.end_ms, ','));
        let text = to_srt_text(&cue.text);
        write!(out, "{}\n{start} --> {end}\n{text}\n\n", index + 1).expect("writing to a string cannot fail");
    }
    out
}

/// Cue text with only the tags that SRT readers support and with references resolved; an arrow is broken up.
fn to_srt_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(&unescape(before));
        let Some((tag, after)) = after.split_once('>') else { break };
        if matches!(tag.trim_start_matches('/'), "b" | "i" | "u") {
            write!(out, "<{tag}>").expect("writing to a string cannot fail");
        }
        rest = after;
    }
    out.push_str(&unescape(rest));
    out.replace("-->", "-- >")
}

/// `HH:MM:SS.mmm`.
pub(in crate::domain) fn format_time(ms: i64, point: char) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    format!("{:02}:{:02}:{:02}{point}{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cues() -> Vec<Cue> {
        let cue = |start_ms, end_ms, settings: &str, text: &str| Cue {
            start_ms,
            end_ms,
            settings: settings.into(),
            text: text.into(),
        };
        vec![
            cue(500, 1500, "", "one"),
            cue(1000, 5000, "line:0", "<i>over</i>\n<v A>cuts &amp; seams</v>"),
            cue(4000, 4500, "", "a --&gt; b"),
            cue(360_000_000, 360_001_000, "", "late"),
        ]
    }

    #[test]
    fn a_file_is_written_whole() {
        insta::assert_snapshot!(write_webvtt(&cues()));
        insta::assert_snapshot!(write_srt(&cues()));
    }

    #[test]
    fn a_cue_is_in_every_segment_that_shows_it() {
        let shown = |start, end| {
            let segment = write_webvtt_segment(&cues(), start, end, Ticks(324_000_000));
            assert!(segment.starts_with("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:324000000,LOCAL:00:00:00.000\n"));
            ["one", "over", "a --&gt; b", "late"].map(|text| segment.contains(text))
        };
        assert_eq!(shown(0.0, 2.0), [true, true, false, false]);
        assert_eq!(shown(2.0, 4.0), [false, true, false, false]);
        assert_eq!(shown(4.0, 6.0), [false, true, true, false]);
        assert_eq!(shown(5.0, 7.0), [false; 4]);
        assert_eq!(shown(0.0, 0.5), [false; 4]);
        assert_eq!(shown(359_999.0, 360_000.5), [false, false, false, true]);
    }
}
