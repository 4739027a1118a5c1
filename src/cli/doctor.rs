//! `hearthcast doctor`: checks that this machine has everything playback needs.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use clap::Args;

use super::{ConfigArgs, Outcome, error_text, runtime};
use crate::config::{Config, DatabaseSettings};
use crate::domain::worker::SandboxReport;
#[cfg(feature = "cluster")]
use crate::engine::shared_segments::s3::S3Bucket;
use crate::engine::worker::Isolation;
use crate::engine::worker::message::EngineReport;
use crate::error::Code;
use crate::service::open_isolation;
use crate::service::quarantine::{NoQuarantine, Quarantine};
use crate::store::{self, Store};

mod encoder_report;
mod encoders;
mod folders;
mod machine;
mod queue;

/// Most quarantined files that are listed.
const MAX_LISTED_FILES: usize = 20;

#[derive(Args)]
pub struct Doctor {
    #[command(flatten)]
    config_args: ConfigArgs,
    /// Only try the encoders and decoders, and print a report to send with a question about hardware
    #[arg(long)]
    encode: bool,
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
        if self.encode {
            print!("{}", runtime.block_on(encoder_report::write_report(&config)));
            return Ok(());
        }
        let mut findings = runtime.block_on(check_workers(&config));
        findings.extend(runtime.block_on(encoders::check_ffmpeg(&config)));
        findings.extend(runtime.block_on(encoders::check_optional_codecs(&config)));
        findings.extend(folders::check_roots(&config));
        findings.extend(machine::check_clock(&config));
        findings.push(folders::check_folder("state", &config.state));
        findings.push(folders::check_folder("segments", &config.cache));
        findings.extend(runtime.block_on(check_segment_store(&config)));
        findings.extend(runtime.block_on(queue::check_queue(&config)));
        findings.extend(machine::check_ports(&config));
        findings.push(machine::check_open_files(&config));
        let database = config.database_settings().map(check_database);
        let is_usable = !matches!(database, Some(Failed(_)));
        findings.extend(database);
        if is_usable {
            findings.extend(check_quarantine(&config));
        }
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

/// Connects to the database that has the state, as the server does.
fn check_database(database: DatabaseSettings) -> Finding {
    match store::check_database(database) {
        Ok(()) => Passed("the database of the state can be used".to_owned()),
        Err(error) => Failed(error_text(error)),
    }
}

/// Lists the files in quarantine. Only the state of a stopped server can be read, by its own user.
fn check_quarantine(config: &Config) -> Vec<Finding> {
    let Ok(folder) = std::fs::metadata(config.state.join("db")) else { return Vec::new() };
    if folder.uid() != rustix::process::geteuid().as_raw() {
        let text = "the state belongs to another user: run doctor as that user to list the files in quarantine";
        return vec![Passed(text.to_owned())];
    }
    let quarantine = match Store::open_configured(&config.state, config.database_settings(), false) {
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

/// Writes to the store that servers share, and reads from it; nothing without `segments`.
#[cfg(feature = "cluster")]
async fn check_segment_store(config: &Config) -> Option<Finding> {
    let address = config.segments.as_deref()?;
    let bucket = match S3Bucket::open(config) {
        Ok(bucket) => bucket?,
        Err(fault) => return Some(Failed(fault)),
    };
    Some(match bucket.check().await {
        Ok(()) => Passed(format!("the segment store {address} can be written and read")),
        // The server works without it.
        Err(fault) => Warning(format!("the segment store {address}: {fault}")),
    })
}

/// Nothing: this build refuses `segments` in its configuration.
#[cfg(not(feature = "cluster"))]
async fn check_segment_store(_: &Config) -> Option<Finding> {
    None
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
