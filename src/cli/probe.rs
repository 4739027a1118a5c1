//! `hearthcast probe FILE`: the media info of one file, as the server would return it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::{Outcome, error_text, runtime};
use crate::config::{Config, sources};
use crate::domain::library::Root;
use crate::engine::ffmpeg_encoders;
use crate::engine::source::Roots;
use crate::error::Error;
use crate::http::info;
use crate::service::background_tasks::BackgroundTasks;
use crate::service::library::Library;
use crate::service::library::sidecars;
use crate::service::media::Probes;
use crate::service::open_isolation;
use crate::service::quarantine::NoQuarantine;

/// Print the media info of a file as JSON.
#[derive(Args)]
pub struct Probe {
    /// Media file; it need not be in a library folder.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Probe {
    pub fn run(self) -> Outcome {
        let path = self.file.canonicalize().map_err(|cause| format!("{}: {cause}", self.file.display()))?;
        let config = sources::load_from_process(&sources::Flags::default())?;
        let info = runtime().block_on(media_info(&config, &path)).map_err(|error| {
            let reasons = error.details.as_ref().map(|details| format!(" {}", details["reasons"])).unwrap_or_default();
            format!("{}: {}{reasons}", path.display(), error_text(error))
        })?;
        let text = serde_json::to_string_pretty(&info).expect("a JSON value is text");
        // A reader that closes the pipe early (`| head`) is not an error.
        let _ = writeln!(std::io::stdout(), "{text}");
        Ok(())
    }
}

async fn media_info(config: &Config, path: &Path) -> Result<serde_json::Value, Error> {
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let roots = Arc::new(Roots::open(vec![Root { id: "here".into(), path: folder }]).map_err(Error::internal)?);
    let source = Arc::new(roots.open_file(&path.to_string_lossy())?);
    let isolation = open_isolation(config, Arc::new(NoQuarantine));
    let probed = Probes::new(&config.ffmpeg, config.limits.probe_deadline, isolation).probe(&source).await?;
    let sidecar_files = sidecars::list_sidecars(&Library::new(roots, BackgroundTasks::default()), &source).await?;
    let is_encoder_available = ffmpeg_encoders::encoder_report(&config.ffmpeg).await.can_transcode();
    info::media_info_json(&source, &probed, &sidecar_files, is_encoder_available)
}
