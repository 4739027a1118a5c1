//! The script of a text subtitle to burn in, extracted before a run starts: in this process or in a worker, the run itself
//! gets a file in memory.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::plan::{BurnedSubtitle, EncodeVideo, Rendition, VideoPlan};
use crate::domain::subtitles::{AssScript, TextStyle};
use crate::engine::ass::{self, ScriptCache};
use crate::engine::{Job, Result, RunError, ffmpeg};

/// Extracts scripts with ffmpeg, and keeps the last ones.
#[derive(Debug)]
pub struct ScriptSource {
    cache: ScriptCache,
    ffmpeg: Option<PathBuf>,
}

impl ScriptSource {
    /// With this style of plain text.
    pub fn new(style: TextStyle) -> Self {
        Self { cache: ScriptCache::new(style), ffmpeg: ffmpeg::find_program() }
    }

    /// The script for `burn`, a text subtitle: a file in memory. An embedded one takes a pass over the whole item, unless
    /// it was kept.
    ///
    /// # Errors
    /// `Internal` without ffmpeg; those of the extraction.
    pub async fn script_file_for(&self, job: &Job, burn: &BurnedSubtitle) -> Result<Arc<File>> {
        let missing = || RunError::Internal("there is no ffmpeg to extract the subtitle".into());
        self.cache.script_for(self.ffmpeg.as_ref().ok_or_else(missing)?, job, burn).await
    }
}

/// The text subtitle that a rendition burns in, if any.
pub fn text_to_burn(rendition: &Rendition) -> Option<&BurnedSubtitle> {
    let Some(VideoPlan::Encode(EncodeVideo { burn, .. })) = &rendition.video else { return None };
    burn.as_ref().filter(|burn| !burn.is_bitmap())
}

/// Reads a script from its file in memory.
///
/// # Errors
/// `Internal` with the cause.
pub(super) fn read_script(file: &File) -> Result<Arc<AssScript>> {
    let text = ass::read_script(file);
    let text = text.map_err(|cause| RunError::Internal(format!("reading the subtitle script: {cause}")))?;
    Ok(Arc::new(AssScript::new(text)))
}
