//! A text subtitle to burn in, as an ASS script in memory, with the fonts attached to its file.
//!
//! ffmpeg's `subtitles` filter would open the file a second time, probe its format (a playlist among the guesses) and read
//! all of it before the first frame. So the text is extracted first, with a named demuxer. ffmpeg's `ass` filter reads the
//! script from a descriptor; GStreamer's `assrender` gets the lines of one segment.
//!
//! Both use libass, and both find the font of plain text in the script itself, so that it looks the same on every
//! machine and for every source format. ASS keeps its own styles, and the fonts attached to its file.

mod fonts;

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::domain::plan::{BurnedSubtitle, VideoPlan};
use crate::domain::subtitles::{self, MAX_BYTES, SubtitleFormat, TextStyle};
use crate::engine::ffmpeg::to_memory_file;
use crate::engine::subtitle_extraction::extract;
use crate::engine::{Job, Result, RunError};

/// Scripts cached for the next run of the same item, at most 16 MiB each and 22 MiB of fonts.
const MAX_SCRIPTS: usize = 4;

/// Cache of scripts, by source and by the canvas size of the video.
#[derive(Debug, Default)]
pub(super) struct ScriptCache {
    style: TextStyle,
    scripts: Mutex<VecDeque<(String, Arc<File>)>>,
}

/// The style's part of a backend's version: another style gives other segments.
pub(super) fn style_tag(style: &TextStyle) -> String {
    if *style == TextStyle::default() {
        return String::new();
    }
    let hash = blake3::hash(format!("{:?} {}", style.family, style.size_percent).as_bytes());
    format!(" t{}", &hash.to_hex()[..8])
}

impl ScriptCache {
    pub(super) fn new(style: TextStyle) -> Self {
        Self { style, scripts: Mutex::default() }
    }

    /// The script for `burn`; takes a pass over the whole item if the subtitle is embedded.
    pub(super) async fn script_for(&self, program: &Path, job: &Job, burn: &BurnedSubtitle) -> Result<Arc<File>> {
        let source_key = match burn {
            BurnedSubtitle::Embedded { stream, .. } => format!("{} {stream}", job.spec.source.version()),
            BurnedSubtitle::Sidecar { .. } => {
                job.spec.sidecar.as_ref().map(|source| source.version()).unwrap_or_default()
            }
        };
        let video_size = match &job.spec.rendition.video {
            Some(VideoPlan::Encode(plan)) => (plan.width, plan.height),
            _ => return Err(RunError::Internal("text can be burned into encoded video only".into())),
        };
        let key = format!("{source_key} {:?}", subtitles::script_resolution(video_size));
        // Locked during the work, so that two runs with the same subtitle extract it once.
        let mut scripts = self.scripts.lock().await;
        if let Some((_, file)) = scripts.iter().find(|(cached_key, _)| *cached_key == key) {
            return Ok(file.clone());
        }
        let text = match burn {
            BurnedSubtitle::Embedded { stream, .. } => {
                extract_embedded(program, job, *stream, &self.style, video_size).await?
            }
            BurnedSubtitle::Sidecar { .. } => read_sidecar(job, &self.style, video_size).await?,
        };
        let file = to_memory_file("subtitle", &text);
        let file = Arc::new(file.map_err(|cause| RunError::Internal(format!("subtitle: {cause}")))?);
        scripts.truncate(MAX_SCRIPTS - 1);
        scripts.push_front((key, file.clone()));
        Ok(file)
    }
}

async fn extract_embedded(
    program: &Path,
    job: &Job,
    stream: u32,
    style: &TextStyle,
    size: (u32, u32),
) -> Result<Vec<u8>> {
    let codec = job.spec.media.stream(stream).map(|stream| stream.codec.as_str()).unwrap_or_default();
    // Not with ffmpeg's own conversion to ASS: its style names a font that every machine resolves differently.
    let format = SubtitleFormat::from_codec(codec).unwrap_or(SubtitleFormat::Srt);
    let mut text = extract(program, &job.spec.source, &job.spec.media, stream, format).await?;
    if format != SubtitleFormat::Ass {
        return Ok(plain_text_script(&subtitles::parse(&text, format), style, size).into_bytes());
    }
    let (source, container) = (job.spec.source.clone(), job.spec.media.container);
    let fonts = tokio::task::spawn_blocking(move || fonts::attached_section(&source, container));
    text.extend(fonts.await.map_err(|cause| RunError::Internal(cause.to_string()))?.into_bytes());
    Ok(text)
}

async fn read_sidecar(job: &Job, style: &TextStyle, size: (u32, u32)) -> Result<Vec<u8>> {
    let source = job.spec.sidecar.clone().ok_or_else(|| RunError::Internal("the subtitle file is missing".into()))?;
    let format_by_name = Path::new(source.file_name())
        .extension()
        .and_then(|extension| SubtitleFormat::from_extension(&extension.to_str()?.to_ascii_lowercase()));
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; usize::try_from(source.len).unwrap_or(MAX_BYTES).min(MAX_BYTES)];
        source.file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    });
    let bytes = read.await.map_err(|cause| RunError::Internal(cause.to_string()))?;
    let bytes = bytes.map_err(|cause| RunError::SourceRead(format!("the subtitle file: {cause}")))?;
    let text = subtitles::decode(&bytes);
    // Detected by content first. SubRip has no signature, so the file name is the fallback.
    let format = SubtitleFormat::detect(&text)
        .or(format_by_name)
        .ok_or_else(|| RunError::SourceRead("the subtitle file is not SubRip, WebVTT or ASS".into()))?;
    if format == SubtitleFormat::Ass {
        return Ok(text.into_bytes());
    }
    Ok(plain_text_script(&subtitles::parse(&bytes, format), style, size).into_bytes())
}

/// Plain text as a script, with the built-in font unless the style names another.
fn plain_text_script(cues: &[subtitles::Cue], style: &TextStyle, size: (u32, u32)) -> String {
    let mut script = subtitles::to_ass_script(cues, style, size);
    if style.family.is_none() {
        script.push_str(fonts::built_in_section());
    }
    script
}

/// A script in memory that shows one line for the first minute.
pub(super) fn single_line_script(line: &str, style: &TextStyle, size: (u32, u32)) -> std::io::Result<File> {
    let cue = subtitles::Cue {
        start_ms: 0,
        end_ms: 60_000,
        settings: String::new(),
        text: line.replace('&', "&amp;").replace('<', "&lt;"),
    };
    to_memory_file("subtitle", plain_text_script(&[cue], style, size).as_bytes())
}

/// Reads back the text of a script in memory.
pub(super) fn read_script(file: &File) -> std::io::Result<String> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_brings_its_font_unless_another_is_set() {
        let script = plain_text_script(&[], &TextStyle::default(), (1280, 720));
        assert!(script.contains("Style: Default,Hearthcast Sans,") && script.contains("\n[Fonts]\nfontname: "));
        let custom = TextStyle { family: Some("DejaVu Sans".into()), ..TextStyle::default() };
        assert!(!plain_text_script(&[], &custom, (1280, 720)).contains("[Fonts]"));
        assert_eq!(style_tag(&TextStyle::default()), "");
        assert_ne!(
            style_tag(&custom),
            style_tag(&TextStyle { size_percent: 6.0, ..custom.clone() }),
            "another size gives other segments"
        );
    }
}
