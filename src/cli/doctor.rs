//! `hearthcast doctor`: checks that this machine has everything playback needs.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::{ConfigArgs, Outcome, error_text, runtime};
use crate::config::Config;
use crate::domain::worker::SandboxReport;
use crate::engine::ffmpeg_encoders;
use crate::engine::worker::Isolation;
use crate::engine::worker::message::EngineReport;
use crate::error::Code;
use crate::service::open_isolation;
use crate::service::quarantine::{NoQuarantine, Quarantine};
use crate::service::renditions::local_encoders::{LocalEncoders, OptionalCodec};
use crate::store::Store;

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
        let runtime = runtime();
        let mut findings = runtime.block_on(check_workers(&config));
        findings.extend(runtime.block_on(check_ffmpeg(&config.ffmpeg)));
        findings.extend(runtime.block_on(check_optional_codecs(&config)));
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

/// Measures the encoders of other codecs than H.264, as the server does when a client has preferred one.
async fn check_optional_codecs(config: &Config) -> Vec<Finding> {
    let encoders = LocalEncoders::new(config);
    encoders.measure_speeds().await;
    let describe = |codec: &OptionalCodec| {
        let used = if codec.is_used() { "used for clients that prefer it" } else { "not used" };
        Passed(format!("{} is {used}: {}", codec.codec.as_str(), codec.reason()))
    };
    encoders.optional_codecs().await.iter().map(describe).collect()
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

/// Lists the files in quarantine. Only the state of a stopped server can be read, by its own user.
fn check_quarantine(config: &Config) -> Vec<Finding> {
    let Ok(folder) = std::fs::metadata(config.state.join("db")) else { return Vec::new() };
    if folder.uid() != rustix::process::geteuid().as_raw() {
        let text = "the state belongs to another user: run doctor as that user to list the files in quarantine";
        return vec![Passed(text.to_owned())];
    }
    let quarantine = match Store::open(&config.state) {
        Ok(store) => Quarantine::open(store),
        Err(error) if error.code == Code::Conflict => {
            return vec![Passed("a server is running: GET /api/quarantine lists the files in quarantine".to_owned())];
        }
        Err(error) => return vec![Failed(error_text(error))],
    };
    let entries = quarantine.list();
    let listed = entries.iter().take(MAX_LISTED_FILES).map(|entry| {
        Warning(format!(
            "{} is in quarantine (read by ffmpeg only) until {}: it made a worker crash twice, last on {} ({})",
            entry.fault.path,
            entry.expires_at.strftime("%F"),
            entry.fault.at.strftime("%F"),
            entry.fault.cause
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

/// Starts a worker as the server does: GStreamer with its elements, and what confines the worker.
async fn check_workers(config: &Config) -> Vec<Finding> {
    let isolation = open_isolation(config, Arc::new(NoQuarantine));
    let report = match isolation.examine().await {
        Ok(report) => report,
        Err(cause) => return vec![Failed(format!("GStreamer does not start: {cause}"))],
    };
    let mut findings = vec![check_elements(&report)];
    match &isolation {
        Isolation::Process(_) => findings.extend(check_sandbox(isolation.status().sandbox)),
        Isolation::None => findings.push(Warning(
            "isolation is \"none\": a file that crashes GStreamer ends the server; \"process\" prevents that"
                .to_owned(),
        )),
    }
    findings
}

fn check_elements(report: &EngineReport) -> Finding {
    let version = &report.gstreamer;
    if report.missing.is_empty() {
        return Passed(format!("GStreamer {version} with its plugins"));
    }
    let elements: Vec<_> = report.missing.iter().map(|(name, package)| format!("{name} (in {package})")).collect();
    Failed(format!("GStreamer {version} is missing {}", elements.join(", ")))
}

fn check_sandbox(report: SandboxReport) -> Vec<Finding> {
    let landlock = report.landlock_abi.map(|abi| format!("Landlock (ABI {abi})"));
    let seccomp = report.seccomp.then(|| "seccomp".to_owned());
    let parts: Vec<String> = landlock.into_iter().chain(seccomp).collect();
    let summary = match parts.is_empty() {
        true => {
            Warning("media workers are confined by limits only: this kernel has no Landlock and no seccomp".to_owned())
        }
        false => Passed(format!("media workers are confined by {}", parts.join(" and "))),
    };
    let gaps = report.gaps.into_iter().map(|gap| Warning(format!("media workers: {gap}")));
    std::iter::once(summary).chain(gaps).collect()
}
