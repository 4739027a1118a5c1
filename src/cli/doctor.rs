//! `hearthcast doctor`: checks that this machine has everything playback needs.

use std::net::TcpListener;
use std::path::Path;

use clap::Args;

use super::{ConfigArgs, Outcome, runtime};
use crate::config::Config;
use crate::engine::gst::elements;
use crate::engine::{ffmpeg_encoders, versions};
use crate::service::media::quarantine;

/// Free disk space below this gets a warning, bytes.
const LOW_SPACE_BYTES: u64 = 1 << 30;
/// Most quarantined files that are listed.
const MAX_LISTED_FILES: usize = 20;

#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    config_args: ConfigArgs,
}

/// The result of one check.
enum Finding {
    Passed(String),
    /// Works with limitations.
    Warning(String),
    /// Prevents playback of some media.
    Failed(String),
}

use Finding::{Failed, Passed, Warning};

impl Doctor {
    pub fn run(self) -> Outcome {
        let config = self.config_args.load_config()?;
        let mut findings = vec![check_gstreamer()];
        findings.extend(runtime().block_on(check_ffmpeg(&config.ffmpeg)));
        findings.extend(check_roots(&config));
        findings.push(check_folder("state", &config.state));
        findings.push(check_folder("segments", &config.cache));
        findings.push(check_port(&config));
        findings.extend(check_quarantine(&config));
        let mut failures = 0;
        for finding in findings {
            let (label, text) = match finding {
                Passed(text) => ("ok  ", text),
                Warning(text) => ("warn", text),
                Failed(text) => {
                    failures += 1;
                    ("BAD ", text)
                }
            };
            println!("{label} {text}");
        }
        match failures {
            0 => Ok(()),
            1 => Err("1 problem must be fixed".to_owned()),
            n => Err(format!("{n} problems must be fixed")),
        }
    }
}

async fn check_ffmpeg(ffmpeg: &Path) -> Vec<Finding> {
    let report = ffmpeg_encoders::encoder_report(ffmpeg).await;
    let Some(version) = &report.version else {
        let reason = report.rejected.first().map_or("", |rejected| rejected.reason.as_str());
        return vec![Failed(format!("ffmpeg: {reason}; files that need transcoding will not play"))];
    };
    let mut findings = vec![Passed(format!("ffmpeg {version} at {}", ffmpeg.display()))];
    findings.extend(report.working.iter().map(|encoder| {
        let kind = if encoder.is_hardware { "hardware" } else { "software" };
        Passed(format!("encoder {} ({kind}) encoded a frame", encoder.name))
    }));
    if !report.can_transcode() {
        findings.push(Failed("no H.264 encoder works; files that need transcoding will not play".to_owned()));
    }
    let rejected = report.rejected.iter();
    findings.extend(rejected.map(|one| Passed(format!("encoder {} is not used: {}", one.name, one.reason))));
    findings
}

fn check_roots(config: &Config) -> Vec<Finding> {
    if config.roots.is_empty() {
        return vec![Warning("the library has no folders: set --root, or roots in the configuration".to_owned())];
    }
    let check_root = |path: &Path| match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(Ok(_)) => Passed(format!("root {} is readable", path.display())),
            Some(Err(cause)) => Failed(format!("root {}: {cause}", path.display())),
            None => Warning(format!("root {} is empty: is its disk mounted?", path.display())),
        },
        Err(cause) => Failed(format!("root {}: {cause}", path.display())),
    };
    let recordings = config.recordings.as_deref().map(|path| check_folder("recordings", path));
    config.roots.iter().map(|root| check_root(&root.path)).chain(recordings).collect()
}

/// Checks that a folder is writable. Creates it if it is missing, as the server would.
fn check_folder(label: &str, path: &Path) -> Finding {
    let test_file = path.join(".doctor");
    let result = std::fs::create_dir_all(path).and_then(|()| std::fs::write(&test_file, b"ok"));
    let _ = std::fs::remove_file(&test_file);
    if let Err(cause) = result {
        return Failed(format!("{label} in {}: {cause}", path.display()));
    }
    match rustix::fs::statvfs(path) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let text = format!("{label} in {}, {:.1} GB free", path.display(), free as f64 / 1e9);
            if free < LOW_SPACE_BYTES { Warning(format!("{text}: low disk space")) } else { Passed(text) }
        }
        Err(cause) => Warning(format!("{label} in {}: free space unknown ({cause})", path.display())),
    }
}

/// Lists quarantined files: the server crashed twice while it read them.
fn check_quarantine(config: &Config) -> Vec<Finding> {
    let entries = quarantine::list_quarantined(&quarantine::marks_folder(&config.state));
    let listed = entries.iter().take(MAX_LISTED_FILES).map(|entry| {
        Warning(format!(
            "{} is quarantined (read by the ffmpeg subprocess only): the server crashed {} times while reading it, last on \
             {}; the quarantine ends after 30 days or with another version",
            entry.path,
            entry.strikes,
            entry.at.strftime("%F")
        ))
    });
    let unlisted = (entries.len() > MAX_LISTED_FILES)
        .then(|| Warning(format!("and {} more such files", entries.len() - MAX_LISTED_FILES)));
    listed.chain(unlisted).collect()
}

fn check_port(config: &Config) -> Finding {
    match TcpListener::bind(config.listen) {
        Ok(_) => Passed(format!("{} is free", config.listen)),
        Err(cause) if cause.kind() == std::io::ErrorKind::AddrInUse => {
            Warning(format!("{} is in use by a running server or another program", config.listen))
        }
        Err(cause) => Failed(format!("{}: {cause}", config.listen)),
    }
}

fn check_gstreamer() -> Finding {
    match elements::missing_elements() {
        Ok(missing) if missing.is_empty() => {
            Passed(format!("GStreamer {} with its plugins", versions::gstreamer_version()))
        }
        Ok(missing) => {
            let elements: Vec<_> = missing.iter().map(|(name, package)| format!("{name} (in {package})")).collect();
            Failed(format!("GStreamer {} is missing {}", versions::gstreamer_version(), elements.join(", ")))
        }
        Err(cause) => Failed(format!("GStreamer does not start: {cause}")),
    }
}
