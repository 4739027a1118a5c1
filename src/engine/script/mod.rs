//! A text subtitle to be drawn into the picture, as ASS in memory, with the fonts attached to its file.
//!
//! ffmpeg's `subtitles` filter would open the file a second time, guess what it is (a playlist among the guesses) and read
//! all of it before the first picture. So the text is taken out first, by name of format; ffmpeg's `ass` filter reads it
//! from a descriptor, GStreamer's `assrender` is given what is shown in a segment.

mod fonts;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::MemfdFlags;
use tokio::sync::Mutex;

use crate::domain::plan::Burn;
use crate::domain::subtitles::{self, Format, MAX_BYTES};
use crate::engine::{Job, RunError};

/// Scripts kept for the next run of the same item, at most 16 MiB each and 22 MiB of fonts.
const KEPT: usize = 4;

/// Scripts made before, by what they were taken from.
#[derive(Debug, Default)]
pub(super) struct Scripts(Mutex<VecDeque<(String, Arc<File>)>>);

impl Scripts {
    /// The script that `burn` asks for; a whole pass over the item where it is embedded.
    pub(super) async fn of(&self, program: &Path, job: &Job, burn: &Burn) -> Result<Arc<File>, RunError> {
        let key = match burn {
            Burn::Embedded { stream, .. } => format!("{} {stream}", job.source.version()),
            Burn::Sidecar { .. } => job.sidecar.as_ref().map(|source| source.version()).unwrap_or_default(),
        };
        // Held over the work: two runs that want the same text do it once.
        let mut kept = self.0.lock().await;
        if let Some((_, file)) = kept.iter().find(|(known, _)| *known == key) {
            return Ok(file.clone());
        }
        let text = match burn {
            Burn::Embedded { stream, .. } => embedded(program, job, *stream).await?,
            Burn::Sidecar { .. } => sidecar(job).await?,
        };
        let file = Arc::new(in_memory(&text).map_err(|cause| RunError::Internal(format!("subtitle: {cause}")))?);
        kept.truncate(KEPT - 1);
        kept.push_front((key, file.clone()));
        Ok(file)
    }
}

async fn embedded(program: &Path, job: &Job, stream: u32) -> Result<Vec<u8>, RunError> {
    let mut text = super::subtitles::extract(program, &job.source, &job.media, stream, Format::Ass).await?;
    let (source, container) = (job.source.clone(), job.media.container);
    let fonts = tokio::task::spawn_blocking(move || fonts::section(&source, container));
    text.extend(fonts.await.map_err(|cause| RunError::Internal(cause.to_string()))?.into_bytes());
    Ok(text)
}

async fn sidecar(job: &Job) -> Result<Vec<u8>, RunError> {
    let source = job.sidecar.clone().ok_or_else(|| RunError::Internal("the subtitle file is missing".into()))?;
    let by_name = Path::new(source.file_name())
        .extension()
        .and_then(|ending| Format::of_extension(&ending.to_str()?.to_ascii_lowercase()));
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; usize::try_from(source.len).unwrap_or(MAX_BYTES).min(MAX_BYTES)];
        source.file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    });
    let bytes = read.await.map_err(|cause| RunError::Internal(cause.to_string()))?;
    let bytes = bytes.map_err(|cause| RunError::SourceRead(format!("the subtitle: {cause}")))?;
    let text = subtitles::decode(&bytes);
    // By its bytes; SubRip has no mark of its own, so that the name decides then.
    let format = Format::sniff(&text)
        .or(by_name)
        .ok_or_else(|| RunError::SourceRead("the subtitle is no text we know".into()))?;
    if format == Format::Ass {
        return Ok(text.into_bytes());
    }
    Ok(ass(&subtitles::parse(&bytes, format)).into_bytes())
}

/// Cues as a plain ASS script; marks for bold and the like are left out.
fn ass(cues: &[subtitles::Cue]) -> String {
    let mut out = String::from(
        "[Script Info]\nScriptType: v4.00+\nPlayResX: 384\nPlayResY: 288\n\n[V4+ Styles]\n\
         Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV\n\
         Style: Default,Sans,16,&Hffffff,&H000000,1,1,0,2,10,10,10\n\n[Events]\n\
         Format: Layer, Start, End, Style, Text\n",
    );
    let time = |ms: i64| {
        let ms = ms.max(0);
        format!("{}:{:02}:{:02}.{:02}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms / 10 % 100)
    };
    for cue in cues {
        // Braces begin commands in ASS, and a backslash escapes.
        let text = subtitles::plain(&cue.text).replace('\\', "/").replace('{', "(").replace('}', ")");
        let text = text.trim().replace('\r', "").replace('\n', "\\N");
        let _ = writeln!(out, "Dialogue: 0,{},{},Default,{text}", time(cue.start_ms), time(cue.end_ms));
    }
    out
}

/// A line that stands in a picture from its first instant on, as a script in memory.
pub(super) fn standing(line: &str) -> std::io::Result<File> {
    let cue = subtitles::Cue { start_ms: 0, end_ms: 60_000, settings: String::new(), text: line.to_owned() };
    in_memory(ass(&[cue]).as_bytes())
}

/// The whole text of a script in memory.
pub(super) fn read(file: &File) -> std::io::Result<String> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn in_memory(text: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("subtitle", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_give_commands_to_the_renderer() {
        let cue =
            subtitles::Cue { start_ms: 61_230, end_ms: 3_600_000, settings: String::new(), text: "{\\b1}a\nb".into() };
        let script = ass(&[cue]);
        let line = script.lines().last().unwrap();
        assert_eq!(line, "Dialogue: 0,0:01:01.23,1:00:00.00,Default,(/b1)a\\Nb");
    }
}
