//! `hearthcast doctor`: is everything here that playing needs.

use std::net::TcpListener;
use std::path::Path;

use clap::Args;

use super::{Outcome, Place, runtime};
use crate::config::Config;
use crate::engine::{elements, encoders, versions};
use crate::service::quarantine;

/// Less free space than this is worth a word, bytes.
const LITTLE_SPACE: u64 = 1 << 30;
/// Files in quarantine that are named.
const NAMED: usize = 20;

#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    place: Place,
}

/// What was found of one thing.
enum Finding {
    Good(String),
    /// Works, but less well.
    Odd(String),
    /// Keeps something from playing.
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
                Odd(text) => ("odd ", text),
                Bad(text) => {
                    bad += 1;
                    ("BAD ", text)
                }
            };
            println!("{mark} {text}");
        }
        match bad {
            0 => Ok(()),
            1 => Err("one thing must be mended".to_owned()),
            n => Err(format!("{n} things must be mended")),
        }
    }
}

async fn transcoder(ffmpeg: &Path) -> Vec<Finding> {
    let report = encoders::report(ffmpeg).await;
    let Some(version) = &report.version else {
        let why = report.rejected.first().map_or("", |rejected| rejected.reason.as_str());
        return vec![Bad(format!("ffmpeg: {why}; files that must be converted will not play"))];
    };
    let mut findings = vec![Good(format!("ffmpeg {version} at {}", ffmpeg.display()))];
    findings.extend(report.proven.iter().map(|encoder| {
        let kind = if encoder.hardware { "hardware" } else { "software" };
        Good(format!("encoder {} ({kind}) encoded a frame", encoder.name))
    }));
    if report.proven.is_empty() {
        findings.push(Bad("no H.264 encoder works; files that must be converted will not play".to_owned()));
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
        return vec![Odd("the library has no folders: give --root or roots in the configuration".to_owned())];
    }
    let look = |path: &Path| match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(Ok(_)) => Good(format!("root {} can be read", path.display())),
            Some(Err(cause)) => Bad(format!("root {}: {cause}", path.display())),
            None => Odd(format!("root {} is empty: is its disk mounted?", path.display())),
        },
        Err(cause) => Bad(format!("root {}: {cause}", path.display())),
    };
    let recordings = config.recordings.as_deref().map(|path| folder("recordings", path));
    config.roots.iter().map(|root| look(&root.path)).chain(recordings).collect()
}

/// A folder that must be writable; it is made when it is not there yet, as the server would.
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
            if free < LITTLE_SPACE { Odd(format!("{text}: that is little")) } else { Good(text) }
        }
        Err(cause) => Odd(format!("{what} in {}: free space unknown ({cause})", path.display())),
    }
}

/// Files that took the server down twice.
fn quarantined(config: &Config) -> Vec<Finding> {
    let held = quarantine::list(&quarantine::folder(&config.state));
    let named = held.iter().take(NAMED).map(|entry| {
        Odd(format!(
            "{} is read by ffmpeg alone: the server ended {} times while it read it, last on {}; it is tried again after 30 \
             days or with another version",
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
            Odd(format!("{} is in use: by a running server, or by another program", config.listen))
        }
        Err(cause) => Bad(format!("{}: {cause}", config.listen)),
    }
}

fn plugins() -> Finding {
    match elements::missing() {
        Ok(missing) if missing.is_empty() => Good(format!("GStreamer {} with its plugins", versions::gstreamer())),
        Ok(missing) => {
            let named: Vec<String> =
                missing.iter().map(|(element, package)| format!("{element} (in {package})")).collect();
            Bad(format!("GStreamer {} lacks {}", versions::gstreamer(), named.join(", ")))
        }
        Err(cause) => Bad(format!("GStreamer does not start: {cause}")),
    }
}
