//! `hearthcast doctor`: checks that this machine has everything playback needs.

use std::net::TcpListener;
use std::path::Path;

use clap::Args;

use super::{Outcome, Place, runtime};
use crate::config::Config;
use crate::engine::{gstreamer_elements, ffmpeg_encoders, versions};
use crate::service::quarantine;

/// Free disk space below this gets a warning, bytes.
const LITTLE_SPACE: u64 = 1 << 30;
/// Most quarantined files that are listed.
const NAMED: usize = 20;

#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    place: Place,
}

/// The result of one check.
enum Finding {
    Good(String),
    /// Works with limitations.
    Odd(String),
    /// Prevents playback of some media.
    Bad(String),
}

use Finding::{Bad, Good, Odd};

impl Doctor {
    pub fn run(self) -> Outcome {
        let config = self.place.load()?;
        let mut findings = vec![plugins()];
        findings.extend(runtime().block_on(transcoder(&config.ffmpeg)));
        findings.extend(roots(&config));
        findings.push(folder("state", &config.state));
        findings.push(folder("segments", &config.cache));
        findings.push(port(&config));
        findings.extend(quarantined(&config));
        let mut bad = 0;
        for finding in findings {
            let (mark, text) = match finding {
                Good(text) => ("ok  ", text),
                Odd(text) => ("warn", text),
                Bad(text) => {
                    bad += 1;
                    ("BAD ", text)
                }
            };
            println!("{mark} {text}");
        }
        match bad {
            0 => Ok(()),
            1 => Err("1 problem must be fixed".to_owned()),
            n => Err(format!("{n} problems must be fixed")),
        }
    }
}

async fn transcoder(ffmpeg: &Path) -> Vec<Finding> {
    let report = ffmpeg_encoders::encoder_report(ffmpeg).await;
    let Some(version) = &report.version else {
        let why = report.rejected.first().map_or("", |rejected| rejected.reason.as_str());
        return vec![Bad(format!("ffmpeg: {why}; files that need transcoding will not play"))];
    };
    let mut findings = vec![Good(format!("ffmpeg {version} at {}", ffmpeg.display()))];
    findings.extend(report.working.iter().map(|encoder| {
        let kind = if encoder.is_hardware { "hardware" } else { "software" };
        Good(format!("encoder {} ({kind}) encoded a frame", encoder.name))
    }));
    if report.working.is_empty() {
        findings.push(Bad("no H.264 encoder works; files that need transcoding will not play".to_owned()));
    }
    let rejected = report
        .rejected
        .iter()
        .map(|rejected| Good(format!("encoder {} is not used: {}", rejected.name, rejected.reason)));
    findings.extend(rejected);
    findings
}

fn roots(config: &Config) -> Vec<Finding> {
    if config.roots.is_empty() {
        return vec![Odd("the library has no folders: set --root, or roots in the configuration".to_owned())];
    }
    let look = |path: &Path| match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(Ok(_)) => Good(format!("root {} is readable", path.display())),
            Some(Err(cause)) => Bad(format!("root {}: {cause}", path.display())),
            None => Odd(format!("root {} is empty: is its disk mounted?", path.display())),
        },
        Err(cause) => Bad(format!("root {}: {cause}", path.display())),
    };
    let recordings = config.recordings.as_deref().map(|path| folder("recordings", path));
    config.roots.iter().map(|root| look(&root.path)).chain(recordings).collect()
}

/// Checks that a folder is writable. Creates it if it is missing, as the server would.
fn folder(what: &str, path: &Path) -> Finding {
    let probe = path.join(".doctor");
    let tried = std::fs::create_dir_all(path).and_then(|()| std::fs::write(&probe, b"ok"));
    let _ = std::fs::remove_file(&probe);
    if let Err(cause) = tried {
        return Bad(format!("{what} in {}: {cause}", path.display()));
    }
    match rustix::fs::statvfs(path) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let text = format!("{what} in {}, {:.1} GB free", path.display(), free as f64 / 1e9);
            if free < LITTLE_SPACE { Odd(format!("{text}: low disk space")) } else { Good(text) }
        }
        Err(cause) => Odd(format!("{what} in {}: free space unknown ({cause})", path.display())),
    }
}

/// Lists quarantined files: the server crashed twice while it read them.
fn quarantined(config: &Config) -> Vec<Finding> {
    let held = quarantine::list_quarantined(&quarantine::marks_folder(&config.state));
    let named = held.iter().take(NAMED).map(|entry| {
        Odd(format!(
            "{} is quarantined (read by the ffmpeg subprocess only): the server crashed {} times while reading it, last on \
             {}; the quarantine ends after 30 days or with another version",
            entry.path,
            entry.strikes,
            entry.at.strftime("%F")
        ))
    });
    let more = (held.len() > NAMED).then(|| Odd(format!("and {} more such files", held.len() - NAMED)));
    named.chain(more).collect()
}

fn port(config: &Config) -> Finding {
    match TcpListener::bind(config.listen) {
        Ok(_) => Good(format!("{} is free", config.listen)),
        Err(cause) if cause.kind() == std::io::ErrorKind::AddrInUse => {
            Odd(format!("{} is in use by a running server or another program", config.listen))
        }
        Err(cause) => Bad(format!("{}: {cause}", config.listen)),
    }
}

fn plugins() -> Finding {
    match gstreamer_elements::missing_elements() {
        Ok(missing) if missing.is_empty() => Good(format!("GStreamer {} with its plugins", versions::gstreamer_version())),
        Ok(missing) => {
            let named: Vec<String> =
                missing.iter().map(|(element, package)| format!("{element} (in {package})")).collect();
            Bad(format!("GStreamer {} is missing {}", versions::gstreamer_version(), named.join(", ")))
        }
        Err(cause) => Bad(format!("GStreamer does not start: {cause}")),
    }
}
