//! Converts cues to an ASS script in one style, to be burned into video.

use std::fmt::Write;

use super::Cue;
use super::cue_text::unescape;

/// Family of the built-in font (`assets/fonts`).
pub const BUILT_IN_FAMILY: &str = "Hearthcast Sans";

/// Length of the video's shorter side in script units. Sizes and margins scale with it, so that text in a tall video is
/// not wider than the video.
const SCRIPT_UNITS: u32 = 288;

/// Distance from the edges, script units: 3.5 %.
const MARGIN: u32 = 10;

/// Style of text subtitles other than ASS, which keeps its own styles.
#[derive(Clone, Debug, PartialEq)]
pub struct TextStyle {
    /// A font family installed on the machine; None for the built-in font.
    pub family: Option<String>,
    /// Line height in percent of the video's height.
    pub size_percent: f64,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { family: None, size_percent: 5.5 }
    }
}

impl TextStyle {
    /// The reason why this style is invalid, if it is.
    pub fn invalid_reason(&self) -> Option<String> {
        // A comma would end the field in the ASS style.
        let is_valid_name = |name: &str| {
            (1..=64).contains(&name.len())
                && !name.chars().any(|c| c.is_control() || matches!(c, ',' | '{' | '}' | '@'))
        };
        if let Some(family) = self.family.as_deref().filter(|family| !is_valid_name(family)) {
            return Some(format!("subtitle_font is {family:?}, it must be the name of a font family"));
        }
        let is_size_valid = (2.0..=20.0).contains(&self.size_percent);
        (!is_size_valid).then(|| format!("subtitle_size_percent is {}, it must be between 2 and 20", self.size_percent))
    }
}

/// Script resolution (PlayResX, PlayResY) for video of this size: the same for every rung of a film.
pub fn script_resolution((width, height): (u32, u32)) -> (u32, u32) {
    let shorter = u64::from(width.min(height).max(1));
    let scaled = |side: u32| u32::try_from((u64::from(side) * u64::from(SCRIPT_UNITS) + shorter / 2) / shorter);
    (scaled(width).unwrap_or(u32::MAX), scaled(height).unwrap_or(u32::MAX))
}

/// An ASS script of the cues for video of this size.
pub fn to_ass_script(cues: &[Cue], style: &TextStyle, size: (u32, u32)) -> String {
    let (width, height) = script_resolution(size);
    let family = style.family.as_deref().unwrap_or(BUILT_IN_FAMILY);
    let font_size = style.size_percent / 100.0 * f64::from(SCRIPT_UNITS);
    let outline = font_size / 16.0;
    let mut out = format!(
        "[Script Info]\nScriptType: v4.00+\nPlayResX: {width}\nPlayResY: {height}\nScaledBorderAndShadow: yes\nWrapStyle: 0\n\n\
         [V4+ Styles]\n\
         Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV\n\
         Style: Default,{family},{font_size:.2},&Hffffff,&H000000,1,{outline:.2},0,2,{MARGIN},{MARGIN},{MARGIN}\n\n[Events]\n\
         Format: Layer, Start, End, Style, Text\n"
    );
    let format_time = |ms: i64| {
        let ms = ms.max(0);
        format!("{}:{:02}:{:02}.{:02}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms / 10 % 100)
    };
    for cue in cues {
        let (start, end) = (format_time(cue.start_ms), format_time(cue.end_ms));
        let (alignment, text) = (alignment_override(&cue.settings), to_ass_text(&cue.text));
        let _ = writeln!(out, "Dialogue: 0,{start},{end},Default,{alignment}{text}");
    }
    out
}

/// The alignment override for a cue that is not at the bottom centre.
fn alignment_override(settings: &str) -> String {
    let value = |name: &str| {
        settings.split(' ').find_map(|setting| setting.strip_prefix(name)?.strip_prefix(':')?.split(',').next())
    };
    let is_top = value("line").is_some_and(|line| match line.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| percent < 50.0),
        None => line.parse::<i32>().is_ok_and(|line| line >= 0),
    });
    let column = match value("align") {
        Some("start" | "left") => 1,
        Some("end" | "right") => 3,
        _ => 2,
    };
    // Numbered like the keys of a numeric keypad.
    let alignment = if is_top { column + 6 } else { column };
    if alignment == 2 { String::new() } else { format!("{{\\an{alignment}}}") }
}

/// Converts cue text to ASS. Bold, italic and underline become overrides; everything else is literal.
fn to_ass_text(cue: &str) -> String {
    let mut out = String::new();
    let mut open_counts = [0u32; 3];
    let mut rest = cue.trim();
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(&escape_ass(before));
        let Some((tag, after)) = after.split_once('>') else { return out };
        rest = after;
        let (name, is_closing) = tag.strip_prefix('/').map_or((tag, false), |name| (name, true));
        let name = name.split(['.', ' ']).next().unwrap_or(name);
        let Some(at) = ["b", "i", "u"].iter().position(|known| *known == name) else { continue };
        let was_open = open_counts[at];
        open_counts[at] = if is_closing { was_open.saturating_sub(1) } else { was_open + 1 };
        if (was_open == 0) != (open_counts[at] == 0) {
            let _ = write!(out, "{{\\{name}{}}}", u8::from(!is_closing));
        }
    }
    out.push_str(&escape_ass(rest));
    out
}

/// Escapes literal text: in ASS, braces enclose overrides and a backslash starts a tag.
fn escape_ass(text: &str) -> String {
    unescape(text).replace('\\', "/").replace('{', "(").replace('}', ")").replace('\r', "").replace('\n', "\\N")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(settings: &str, text: &str) -> Cue {
        Cue { start_ms: 61_230, end_ms: 3_600_000, settings: settings.into(), text: text.into() }
    }

    #[test]
    fn a_script_has_one_style_whose_size_follows_the_video() {
        let cues = [cue("", "{\\b1}a\nb"), cue("line:0", "<i>slanted <b.x>both</b></i> &amp; <v Ann>plain</v>")];
        insta::assert_snapshot!(to_ass_script(&cues, &TextStyle::default(), (1280, 720)), @r"
        [Script Info]
        ScriptType: v4.00+
        PlayResX: 512
        PlayResY: 288
        ScaledBorderAndShadow: yes
        WrapStyle: 0

        [V4+ Styles]
        Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV
        Style: Default,Hearthcast Sans,15.84,&Hffffff,&H000000,1,0.99,0,2,10,10,10

        [Events]
        Format: Layer, Start, End, Style, Text
        Dialogue: 0,0:01:01.23,1:00:00.00,Default,(/b1)a\Nb
        Dialogue: 0,0:01:01.23,1:00:00.00,Default,{\an8}{\i1}slanted {\b1}both{\b0}{\i0} & plain
        ");
        let own = TextStyle { family: Some("Noto Serif".into()), size_percent: 10.0 };
        let script = to_ass_script(&[], &own, (320, 180));
        assert!(script.contains("Style: Default,Noto Serif,28.80,"), "{script}");
    }

    #[test]
    fn script_resolution_is_the_same_for_every_rung() {
        for (size, expected) in [
            ((1920, 1080), (512, 288)),
            ((854, 480), (512, 288)),
            ((640, 480), (384, 288)),
            ((720, 1280), (288, 512)),
            ((2, 2), (288, 288)),
            ((0, 0), (0, 0)),
        ] {
            assert_eq!(script_resolution(size), expected, "{size:?}");
        }
    }

    #[test]
    fn settings_become_alignment_overrides() {
        for (settings, expected) in [
            ("", ""),
            ("align:center size:80%", ""),
            ("line:0", "{\\an8}"),
            ("line:10%,start align:start", "{\\an7}"),
            ("line:-1 align:end", "{\\an3}"),
            ("line:90%", ""),
        ] {
            assert_eq!(alignment_override(settings), expected, "{settings}");
        }
    }

    #[test]
    fn a_style_that_would_break_the_script_is_refused() {
        let style = |family: &str, size_percent| TextStyle { family: Some(family.into()), size_percent };
        assert_eq!(TextStyle::default().invalid_reason(), None);
        assert_eq!(style("DejaVu Sans", 20.0).invalid_reason(), None);
        for wrong in [style("", 5.0), style("a,b", 5.0), style("a\nb", 5.0), style("a", 1.9), style("a", f64::NAN)] {
            assert!(wrong.invalid_reason().is_some(), "{wrong:?}");
        }
    }
}
