//! Text subtitles: reads SRT, WebVTT and ASS into cues that are safe for any player.
//!
//! Every returned cue satisfies, for any input: `0 <= start < end`, times under 10,000 hours, text of 1 byte to about 4
//! KiB that is valid WebVTT cue text (balanced tags from a small set; `&`, `<` and `>` escaped; no blank line; no NUL;
//! hence no `-->`). Nothing here fails or panics: malformed parts are dropped.

mod ass;
mod ass_script;
mod burn_in;
pub mod charset;
mod cue_text;
mod cue_writer;
mod srt;
mod timing;
mod webvtt_reader;

pub use ass_script::AssScript;
pub use burn_in::{BUILT_IN_FAMILY, TextStyle, script_resolution, to_ass_script};
pub use charset::{decode, is_text};
pub use cue_text::strip_tags;
pub(super) use cue_writer::format_time;
pub use cue_writer::{write_srt, write_webvtt, write_webvtt_segment};

/// Largest subtitle file or extracted stream, bytes. A feature film's dialogue is 0.1 MiB, heavy typesetting 10 MiB.
pub const MAX_BYTES: usize = 16 << 20;
/// Most cues read from one file.
pub const MAX_CUES: usize = 100_000;
/// Longest text of one cue before escaping, bytes; the rest is cut off.
pub const MAX_CUE_BYTES: usize = 4096;

named_values! {
    /// The supported text formats.
    pub enum SubtitleFormat {
        Srt = "srt",
        WebVtt = "vtt",
        /// Advanced SubStation Alpha, and the older SSA.
        Ass = "ass",
    }
}

/// A cue: one or more lines of dialogue and when to show them. Times are source times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cue {
    pub start_ms: i64,
    pub end_ms: i64,
    /// WebVTT cue settings, e.g. `line:0 align:start`; empty for the default position.
    pub settings: String,
    /// WebVTT cue text.
    pub text: String,
}

impl SubtitleFormat {
    /// Format for a file name extension in lower case, without the dot.
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::parse(if extension == "ssa" { "ass" } else { extension })
    }

    /// Format for ffmpeg's codec name of a stream. None for bitmaps and for codecs that ffmpeg cannot convert to text.
    pub fn from_codec(codec: &str) -> Option<Self> {
        match codec {
            "subrip" | "srt" | "text" | "mov_text" => Some(Self::Srt),
            "webvtt" => Some(Self::WebVtt),
            "ass" | "ssa" => Some(Self::Ass),
            _ => None,
        }
    }

    /// Detects the format from the first words of the text, whatever the file is called.
    pub fn detect(text: &str) -> Option<Self> {
        let start = text.trim_start();
        if start.starts_with("WEBVTT") {
            return Some(Self::WebVtt);
        }
        let heading: String = start.chars().take(13).collect::<String>().to_ascii_lowercase();
        heading.starts_with("[script info]").then_some(Self::Ass)
    }
}

/// All cues of a file, sorted by start. `format` is what the name suggests; the text overrides it.
pub fn parse(bytes: &[u8], format: SubtitleFormat) -> Vec<Cue> {
    let text = decode(&bytes[..bytes.len().min(MAX_BYTES)]);
    parse_text(&text, SubtitleFormat::detect(&text).unwrap_or(format))
}

fn parse_text(text: &str, format: SubtitleFormat) -> Vec<Cue> {
    let mut cues = match format {
        SubtitleFormat::Srt => srt::parse(text),
        SubtitleFormat::WebVtt => webvtt_reader::parse(text),
        SubtitleFormat::Ass => ass::parse(text),
    };
    cues.sort_by_key(|cue| (cue.start_ms, cue.end_ms));
    // Typesetters render one line in several layers with the same time and text.
    cues.dedup();
    cues
}

/// The cue, if it shows anything.
fn visible_cue(start_ms: i64, end_ms: i64, settings: String, text: String) -> Option<Cue> {
    (0 <= start_ms && start_ms < end_ms && !text.is_empty()).then_some(Cue { start_ms, end_ms, settings, text })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn content_overrides_the_file_name_and_cues_come_in_order_of_time() {
        for (text, expected) in [
            ("WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n", &[(1000, 2000, "hello")][..]),
            (
                "[Script Info]\n[Events]\nFormat: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,hello\n",
                &[(1000, 2000, "hello")],
            ),
            (
                "1\n00:00:05,000 --> 00:00:06,000\nlater\n\n2\n00:00:01,000 --> 00:00:02,000\nsooner\n",
                &[(1000, 2000, "sooner"), (5000, 6000, "later")],
            ),
        ] {
            let cues = parse(text.as_bytes(), SubtitleFormat::Srt);
            let found: Vec<_> = cues.iter().map(|cue| (cue.start_ms, cue.end_ms, cue.text.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    /// Input that resembles subtitles closely enough to reach every branch.
    fn subtitle_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("WEBVTT\n".to_owned()),
            Just("[Script Info]\n[Events]\nFormat: Layer, Start, End, Style, Text\n".to_owned()),
            Just("Dialogue: 0,0:00:01.00,0:00:02.00,Default,".to_owned()),
            Just("00:00:01,000 --> 00:00:02,000\n".to_owned()),
            Just("00:01.000 --> 00:00:02.500 line:0 align:start\n".to_owned()),
            Just(" --> ".to_owned()),
            Just("\n\n".to_owned()),
            Just("{\\an8\\i1}".to_owned()),
            Just("\\N".to_owned()),
            Just("<i>".to_owned()),
            Just("</b>".to_owned()),
            Just("<v A>".to_owned()),
            Just("<script>".to_owned()),
            Just("&amp;&nbsp;&".to_owned()),
            "[0-9]{1,3}\n",
            "[<>{}&/:, .a-z\\\\-]{0,12}",
            "\\PC{0,8}",
        ];
        prop_oneof![
            4 => proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes()),
            1 => proptest::collection::vec(any::<u8>(), 0..256),
        ]
    }

    proptest! {
        #[test]
        fn any_input_gives_safe_webvtt_cues(
            bytes in subtitle_like(),
            format in prop_oneof![Just(SubtitleFormat::Srt), Just(SubtitleFormat::WebVtt), Just(SubtitleFormat::Ass)],
        ) {
            let cues = parse(&bytes, format);
            for cue in &cues {
                prop_assert!(0 <= cue.start_ms && cue.start_ms < cue.end_ms);
                prop_assert!(!cue.text.is_empty() && !cue.text.contains("\n\n") && !cue.text.contains('\0'));
                prop_assert!(!cue.text.contains("-->") && !cue.text.contains("<s") && !cue.settings.contains("-->"));
                prop_assert!(!cue.text.starts_with('\n') && !cue.text.ends_with('\n'));
            }
            prop_assert!(cues.windows(2).all(|pair| pair[0].start_ms <= pair[1].start_ms));
            prop_assert_eq!(parse(write_webvtt(&cues).as_bytes(), SubtitleFormat::WebVtt), cues, "reading back what was written");
        }
    }
}
